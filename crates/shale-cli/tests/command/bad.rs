//! Invalid images, outputs and arguments give a helpful message and the right exit code, and leave
//! no files.

use std::fs::{self, File};
use std::process::Stdio;

use crate::stage::{Stage, expect, is_root, noise};

#[test]
fn every_command_refuses_a_file_that_is_not_an_image() {
    let stage = Stage::new();
    fs::write(stage.path("text"), "some text\n".repeat(1000)).unwrap();
    fs::write(stage.path("nothing"), "").unwrap();
    for image in ["text", "nothing"] {
        for words in [
            &["ls", image][..],
            &["tree", image],
            &["stat", image, "x"],
            &["cat", image, "x"],
            &["info", image],
            &["check", image],
            &["dump", image],
            &["extract", image, "-C", "out"],
        ] {
            stage.fails(1, words, &[image, "not a ShaleFS image"]);
        }
    }
    stage.fails(1, &["ls", "missing"], &["missing", "No such file"]);
    stage.fails(1, &["ls", "source"], &["source", "directory"]);
    stage.fails(1, &["ls", "image.shale", "--snapshot", "other"], &["other", "snapshot"]);
    stage.fails(1, &["ls", "image.shale", "--offset", "64"], &["not a ShaleFS image", "64"]);
    assert!(!stage.path("out").exists());
}

#[test]
fn a_truncated_image_is_called_truncated() {
    let stage = Stage::new();
    let bytes = fs::read(stage.path("image.shale")).unwrap();
    for len in [100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(stage.path("cut.shale"), &bytes[..len]).unwrap();
        stage.fails(1, &["ls", "cut.shale"], &["cut.shale", "truncated"]);
        stage.fails(4, &["check", "cut.shale"], &["truncated"]);
        let found = stage.json(4, &["check", "cut.shale", "--json"]);
        assert_eq!(found["clean"], false);
    }
}

#[test]
fn an_image_after_other_data_is_found() {
    let stage = Stage::new();
    let bytes = fs::read(stage.path("image.shale")).unwrap();
    let shifted = [&b"#!/bin/sh\nexit 0\n"[..], &bytes].concat();
    fs::write(stage.path("shifted"), &shifted).unwrap();
    assert_eq!(stage.text(&["ls", "shifted", "docs"]), "deep\ntext.txt\n");
    assert_eq!(stage.json(0, &["check", "--json", "shifted"])["offset"], 17);
    assert_eq!(stage.text(&["ls", "--offset", "17", "shifted", "docs"]), "deep\ntext.txt\n");
    // Other data can also follow the image.
    fs::write(stage.path("between"), [&shifted[..], b"and more"].concat()).unwrap();
    let found = stage.json(0, &["check", "--json", "--offset", "17", "between"]);
    assert_eq!((&found["bytes_behind"], &found["clean"]), (&8.into(), &true.into()));
}

#[test]
fn a_damaged_image_after_other_data_is_repaired_by_the_command_that_check_prints() {
    let stage = Stage::new();
    stage.run(0, &["parity", "add", "image.shale", "-q"]);
    let image = fs::read(stage.path("image.shale")).unwrap();
    let before = [&b"#!/bin/sh\nexit 0\n"[..], &image].concat();
    let mut damaged = before.clone();
    damaged[17..81].fill(0);
    // The command is for a shell: names are quoted and must not look like options.
    for (index, name) in ["-damaged", "two  it's", "back\\slash\n"].into_iter().enumerate() {
        let path = stage.path(name);
        fs::write(&path, &damaged).unwrap();
        let word = format!("./{name}");
        // Without the offset nothing is found, but the message names it.
        for words in [&["check", &word][..], &["repair", &word, "-o", "new"], &["ls", &word]] {
            stage.fails(1, words, &["offset 17"]);
        }
        let word = [word.as_str(), name][usize::from(index == 0)];
        let words = ["check", "--json", "--offset", "17", "--", word];
        let found = stage.json(4, &words);
        let command = found["next"][0]["command"].as_str().unwrap();
        let command = command.replace("shale", env!("CARGO_BIN_EXE_shale")).replace("NEW", "new");
        let output = stage.other("bash", &["-c", &command]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{said}");
        assert!(fs::read(stage.path("new")).unwrap() == before, "{command}");
        fs::remove_file(stage.path("new")).unwrap();
    }
}

#[test]
fn an_export_that_loses_an_attribute_of_the_root_names_the_root() {
    let stage = Stage::without_image();
    fs::write(stage.path("manifest"), "d 755 0 0 5000000000 - .\n").unwrap();
    stage.run(0, &["create", "--manifest", "manifest", "-o", "image.shale", "-q"]);
    let words = ["export", "image.shale", "-o", "image.cpio"];
    stage.fails(3, &words, &["the root directory: its time"]);
}

#[test]
fn an_existing_output_is_kept_unless_forced() {
    let stage = Stage::without_image();
    fs::write(stage.path("image.shale"), "mine").unwrap();
    let parts = ["image.shale", "exists", "--force"];
    stage.fails(1, &["create", "source", "-o", "image.shale"], &parts);
    assert_eq!(fs::read(stage.path("image.shale")).unwrap(), b"mine");
    stage.fails(1, &["create", "missing", "-fo", "image.shale"], &["missing"]);
    assert_eq!(fs::read(stage.path("image.shale")).unwrap(), b"mine");
    stage.run(0, &["create", "source", "--force", "-o", "image.shale", "-q"]);
    stage.run(0, &["check", "image.shale", "-q"]);
    stage.fails(1, &["create", "source", "-fo", "source"], &["source"]);
    stage.fails(1, &["create", "source", "-o", "no/where"], &["no"]);
    stage.fails(1, &["create", "source", "-o", "new/"], &["new/", "slash"]);
    stage.fails(1, &["export", "image.shale", "-o", "new.tar/", "--format", "tar"], &["slash"]);
    assert_eq!(stage.names(), ["image.shale", "source"]);
    // The same for a signature.
    stage.run(0, &["keygen", "key", "-q"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "-q"]);
    stage.fails(1, &["sign", "image.shale", "-k", "key"], &["image.shale.sig", "--force"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "-q", "--force"]);
}

#[test]
fn a_full_disk_leaves_no_partial_key_or_signature() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    stage.run(0, &["keygen", "key", "-q"]);
    fs::create_dir(stage.path("small")).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=64k", "none", "small"];
    if !stage.other("mount", &mount).stderr(Stdio::null()).status().unwrap().success() {
        println!("skipped: it needs the right to mount");
        return;
    }
    stage.run(0, &["sign", "image.shale", "-k", "key", "-o", "small/old.sig", "-q"]);
    let before = fs::read(stage.path("small/old.sig")).unwrap();
    let filled = fs::write(stage.path("small/fill"), vec![1; 128 << 10]);
    let sign = |name| stage.command(&["sign", "image.shale", "-fk", "key", "-o", name]).output();
    let outputs = [
        stage.command(&["keygen", "small/key"]).output(),
        sign("small/new.sig"),
        sign("small/old.sig"),
    ];
    let old = fs::read(stage.path("small/old.sig")).unwrap();
    let mut left: Vec<_> = fs::read_dir(stage.path("small"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(stage.other("umount", &["small"]).status().unwrap().success());
    assert!(filled.is_err(), "the disk was not full");
    for output in outputs {
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left"), "{said}");
    }
    left.sort();
    assert_eq!(left, ["fill", "old.sig"]);
    assert!(old == before, "the signature that was there is lost");
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_leaves_no_partial_file() {
    let stage = Stage::new();
    fs::write(stage.path("source/long"), noise(1 << 20)).unwrap();
    stage.run(0, &["create", "source", "-o", "long.shale", "-q"]);
    let mut before = stage.names();
    let limit = ["-c", "ulimit -f 256; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_shale")];
    for words in [["create", "source", "-o", "new.shale"], ["extract", "long.shale", "-C", "out"]] {
        let output = stage.other("sh", &[&limit[..], &words].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("too large"), "{words:?}: {said}");
    }
    assert!(!stage.path("out/long").exists());
    before.push("out".to_owned());
    before.sort();
    assert_eq!(stage.names(), before);
}

#[test]
fn devices_and_pipes_are_written_to_and_never_replaced() {
    let stage = Stage::new();
    stage.fails(1, &["create", "source", "-o", "/dev/full"], &["No space left"]);
    assert!(fs::metadata("/dev/full").is_ok());
    let mut command = stage.command(&["create", "source", "-o", "-", "-v"]);
    command.stdout(File::create(stage.path("piped.shale")).unwrap());
    let said = String::from_utf8(expect(0, command).stderr).unwrap();
    assert!(said.contains("not verified"), "{said}");
    let [named, piped] =
        ["image.shale", "piped.shale"].map(|name| fs::read(stage.path(name)).unwrap());
    assert!(named == piped, "an image written to a pipe differs");
    stage.fails(2, &["create", "source", "-o", "-", "--json"], &["--json"]);
}

#[test]
fn an_image_can_be_written_into_its_own_source() {
    let stage = Stage::without_image();
    stage.run(0, &["create", "source", "-o", "source/self.shale", "-q"]);
    let listed = stage.run(0, &["ls", "source/self.shale"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).contains("self.shale"));
    // The image that it replaces is not packed either.
    stage.run(0, &["create", "source", "-fo", "source/self.shale", "-q"]);
    let listed = stage.run(0, &["ls", "source/self.shale"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).contains("self.shale"));
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let stage = Stage::new();
    for words in [
        &[][..],
        &["pack"],
        &["create", "source"],
        &["create", "source", "-o", "x", "--memory", "1X"],
        &["create", "source", "-o", "x", "-1", "-2"],
        &["create", "source", "-o", "x", "--level", "12"],
        &["ls"],
        &["ls", "image.shale", "--offset", "here"],
        &["extract", "image.shale", "--list", "--dry-run"],
        &["extract", "image.shale", "-C", "x", "--overwrite", "maybe"],
        &["extract", "image.shale", "-C", "x", "--same-owner", "--no-same-owner"],
        &["dump", "image.shale", "frames", "--range", "a..b"],
    ] {
        let output = stage.run(2, words);
        assert!(!output.stderr.is_empty(), "{words:?}");
    }
    let create = |words: &[&str], parts: &[&str]| {
        stage.fails(2, &[&["create", "source", "-o", "x"], words].concat(), parts);
    };
    create(&["--frame-size", "1"], &["frame"]);
    create(&["--codec", "zip"], &["zip", "zstd"]);
    create(&["--owner", "nobody-of-this-name"], &["nobody-of-this-name", "number"]);
    create(&["-F", "nonsense"], &["nonsense"]);
    create(&["--exclude", "[a"], &["[a"]);
    create(&["--level", "3", "-5"], &["--level"]);
    create(&["--threads", "1025"], &["1025", "1024"]);
    create(&["--input-list", "-", "--hot", "-"], &["standard input"]);
    create(&["--map-users", "-", "--order", "explicit:-"], &["standard input"]);
    stage.fails(2, &["create", "-", "-o", "x", "--input-list", "-"], &["standard input"]);
    stage.fails(2, &["create", "--manifest", "-", "-o", "x", "--hot", "-"], &["standard input"]);
    // The lower limit of the memory depends on the machine.
    stage.fails(1, &["create", "source", "-o", "x", "--memory", "1K"], &["memory", "at least"]);
    create(&["--memory", "1"], &["1 bytes", "1G"]);
    create(&["--mtime", "soon"], &["soon", "2024-01-31"]);
    create(&["--mtime", "20240101"], &["2024-01-01 or @20240101"]);
    fs::write(stage.path("list"), "d 755 0 0 0 - .\n").unwrap();
    let words = ["create", "--manifest", "list", "-o", "x", "--exclude", "y"];
    stage.fails(2, &words, &["manifest", "filtered"]);
    for words in [
        &["export", "image.shale", "-o", "x"][..],
        &["export", "image.shale", "-o", "-", "--format", "tar", "--json"],
        &["export", "image.shale", "-o", "x.zip", "--compress", "xz"],
        &["export", "image.shale", "-o", "x.tar", "--block-size", "64K"],
        &["extract", "image.shale", "-O", "--json"],
        &["dump", "image.shale", "nonsense"],
        &["dump", "image.shale", "frames", "--range", "2..1"],
        &["dump", "image.shale", "frames", "--range", "2..2"],
    ] {
        let output = stage.run(2, words);
        assert!(!output.stderr.is_empty(), "{words:?}");
    }
    // A range can end after the last row but must not begin there.
    stage.run(0, &["dump", "image.shale", "frames", "--range", "0..1000000"]);
    for more in [&[][..], &["--json"]] {
        let words = ["dump", "image.shale", "frames", "--range", "1000000"];
        let output = stage.run(1, &[&words, more].concat());
        assert!(output.stdout.is_empty());
    }
    assert_eq!(stage.names(), ["image.shale", "list", "source"]);
}

#[test]
fn habits_of_other_programs_are_answered() {
    let stage = Stage::new();
    for (words, here) in [
        (&["create", "source", "-o", "x", "-comp", "xz"][..], "--codec"),
        (&["create", "source", "-o", "x", "-b", "1M"], "--frame-size"),
        (&["create", "source", "-o", "x", "-e", "docs"], "--exclude"),
        (&["create", "source", "-o", "x", "-noappend"], "--force"),
        (&["create", "-i", "source", "-o", "x"], "sources are arguments"),
        (&["create", "source", "-o", "x", "--jobs=4"], "--threads"),
        (&["create", "source", "-o", "x", "-j4"], "--threads"),
        (&["create", "source", "x.shale"], "-o x.shale"),
        (&["extract", "image.shale", "-d", "x"], "-C DIR"),
        (&["list", "image.shale"], "shale ls"),
        (&["test", "image.shale"], "shale check"),
        (&["fsck", "image.shale"], "shale check"),
    ] {
        stage.fails(2, words, &[here]);
    }
    assert_eq!(stage.names(), ["image.shale", "source"]);
}

#[test]
fn a_foreign_file_is_named_for_what_it_is() {
    let stage = Stage::new();
    for name in ["out.tar", "out.tar.xz", "out.zip", "out.squashfs"] {
        stage.run(0, &["export", "image.shale", "-o", name, "-q", "docs"]);
    }
    let mut iso = vec![0; 40_000];
    iso[32_769..32_774].copy_from_slice(b"CD001");
    fs::write(stage.path("cd.iso"), iso).unwrap();
    for (name, what) in [
        ("out.tar", "a tar archive; `shale create out.tar -o out.shale`"),
        ("out.tar.xz", "a compressed file; `shale create"),
        ("out.zip", "a zip archive; `shale create out.zip"),
        ("out.squashfs", "a SquashFS image; `shale create out.squashfs -o out.shale` converts it"),
        ("cd.iso", "an ISO 9660 image; `shale create cd.iso -o cd.shale` converts it"),
    ] {
        for words in [
            &["ls", name][..],
            &["info", name],
            &["check", name],
            &["extract", name],
            &["parity", "add", name],
            &["repair", name, "-o", "new"],
        ] {
            stage.fails(1, words, &[name, "not a ShaleFS image", what]);
        }
    }
}

#[test]
fn rules_without_effect_are_warnings() {
    let stage = Stage::without_image();
    let create = |code, words: &[&str]| {
        let all = [&["create", "source", "-o", "x.shale", "-fq"], words].concat();
        String::from_utf8(stage.run(code, &all).stderr).unwrap()
    };
    let said = create(0, &["--exclude", "*.none", "--include", "twin"]);
    assert!(said.contains("`*.none` matched nothing") && !said.contains("twin"), "{said}");
    // Rules of a file are often shared.
    fs::write(stage.path("rules"), "- *.none\n").unwrap();
    assert_eq!(create(0, &["-F", ". rules"]), "");
    let said = create(3, &["--include", "*.py", "--exclude", "*"]);
    assert!(said.contains("the image is empty") && said.contains("--include '*/'"), "{said}");
}

#[test]
fn times_are_accepted_as_people_write_them() {
    let stage = Stage::without_image();
    for time in ["2024-01-31T11:00:00Z", "31 Jan 2024 12:00 +0100", "@1706698800"] {
        stage.run(0, &["create", "source", "-o", "x.shale", "-fq", "--mtime", time]);
        let found = stage.json(0, &["stat", "x.shale", "twin", "--json"]);
        assert_eq!(found[0]["mtime"], "1706698800.000000000", "{time}");
    }
    let mut command = stage.command(&["create", "source", "-o", "x.shale", "-fq", "--mtime"]);
    command.arg("2024-01-31 12:00").env("TZ", "CET-1");
    expect(0, command);
    let mut command = stage.command(&["stat", "x.shale", "twin"]);
    let shown = expect(0, {
        command.env("TZ", "EST5");
        command
    })
    .stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("mtime: 2024-01-31 06:00:00.000000000 -0500"), "{shown}");
}

#[test]
fn a_missing_directory_for_temporary_files_is_named() {
    let stage = Stage::new();
    stage.run(0, &["export", "image.shale", "-o", "in.tar", "-q", "docs"]);
    for (place, why) in [("nowhere", "No such file"), ("source/empty", "ot a directory")] {
        let output = stage.run(1, &["create", "source", "-o", "x", "--temp-dir", place]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(place) && said.matches(why).count() == 1, "{said}");
        assert!(!said.contains("more room"), "{said}");
    }
    // TMPDIR counts where the output has no directory, as the help says.
    let help = stage.text(&["create", "--help"]).replace("\n          ", " ");
    assert!(help.contains("TMPDIR or /tmp if the output is standard output"), "{help}");
    for (output, code) in [("x", 0), ("-", 1)] {
        // What comes from a pipe is stored first.
        let shale = env!("CARGO_BIN_EXE_shale");
        let line = format!("cat in.tar | {shale} create - -fq -o {output}");
        let mut command = stage.other("sh", &["-c", &line]);
        command.env("TMPDIR", "/nowhere");
        let said = String::from_utf8(expect(code, command).stderr).unwrap();
        assert_eq!(said.contains("/nowhere"), code == 1, "{said}");
    }
}

#[test]
fn a_new_file_takes_the_permissions_of_the_file_that_it_replaces() {
    let stage = Stage::new();
    stage.run(0, &["export", "image.shale", "-o", "out.tar", "-q"]);
    for name in ["image.shale", "out.tar"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(stage.path(name), mode).unwrap();
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q", "-f"]);
    stage.run(0, &["export", "image.shale", "-o", "out.tar", "-q", "-f"]);
    for name in ["image.shale", "out.tar"] {
        let found = fs::metadata(stage.path(name)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn patterns_can_begin_with_a_hyphen() {
    let stage = Stage::without_image();
    fs::write(stage.path("source/-x.o"), "x").unwrap();
    let create = |words: &[&str]| {
        let create = ["create", "source", "-o", "x.shale", "-f", "-q"];
        stage.run(0, &[&create, words].concat());
        stage.text(&["ls", "x.shale", "--json"])
    };
    for words in [
        &["-F", "- *.o", "-F", "- /twin"][..],
        &["--filter", "- *.o", "--filter=- /twin"],
        &["--exclude", "-x.o", "--exclude", "twin"],
        &["-F", "-_*.o", "--include", "-y", "--exclude", "twin", "--chmod", "-w", "-1"],
    ] {
        let listed = create(words);
        assert!(!listed.contains("x.o") && !listed.contains("twin"), "{words:?}\n{listed}");
        assert!(listed.contains("docs"), "{words:?}\n{listed}");
    }
    // Options that follow are still options.
    let words = ["create", "source", "-F", "- *.o", "--filter-dry-run", "-o", "new.shale"];
    assert!(stage.text(&words).contains("- -x.o"));
    assert!(!stage.path("new.shale").exists());
}

#[test]
fn unreadable_files_are_all_named() {
    if !is_root() {
        return;
    }
    let stage = Stage::without_image();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    for path in ["source/docs/text.txt", "source/empty", "source/docs/deep"] {
        fs::set_permissions(stage.path(path), mode(0)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_shale"), stage.path("shale")).unwrap();
    fs::set_permissions(stage.path(""), mode(0o777)).unwrap();
    let user = |more: &[&str]| {
        let all = ["--reuid=65534", "--regid=65534", "--clear-groups", "./shale", "create"];
        let all = [&all[..], &["source", "-o", "image.shale"], more].concat();
        stage.other("setpriv", &all).stdin(Stdio::null()).output()
    };
    let Ok(output) = user(&[]) else {
        println!("skipped: it needs setpriv");
        return;
    };
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    for path in ["docs/text.txt", "docs/deep"] {
        assert!(complaint.contains(path), "{path} is not named:\n{complaint}");
    }
    assert!(!stage.path("image.shale").exists());
    let output = user(&["--skip-unreadable", "--json"]).unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!said["left_out"].as_array().unwrap().is_empty());
    stage.run(0, &["check", "image.shale", "-q"]);
}

#[test]
fn manifests_are_packed_and_their_errors_located() {
    let stage = Stage::without_image();
    let text = "d 755 0 0 0 - .\nf 644 0 0 7.5 @source/docs/text.txt copy\nf = = = = 0 empty\n";
    std::fs::write(stage.path("list"), text).unwrap();
    stage.run(0, &["create", "--manifest", "list", "-o", "list.shale", "-q"]);
    let copy = stage.run(0, &["cat", "list.shale", "copy"]).stdout;
    assert_eq!(copy, std::fs::read(stage.path("source/docs/text.txt")).unwrap());
    // From a pipe, with an error after valid lines: no image.
    let mut command = stage.command(&["create", "--manifest", "-", "-o", "piped.shale"]);
    std::fs::write(stage.path("bad"), format!("{text}f 644 0 0 0 0 empty\n")).unwrap();
    let output = command.stdin(File::open(stage.path("bad")).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("line 4") && said.contains("line 3 gives"), "{said}");
    assert!(!stage.path("piped.shale").exists());
    stage.fails(2, &["create", "source", "--manifest", "list", "-o", "x"], &["--manifest"]);
    stage.fails(2, &["create", "-o", "x"], &["SOURCE"]);
    stage.fails(1, &["create", "--manifest", "nowhere", "-o", "x"], &["nowhere"]);
}

#[test]
fn the_end_of_memory_is_an_error_that_names_the_option() {
    let stage = Stage::without_image();
    // More than the least of these limits can hold at once.
    for number in 0..24 {
        fs::write(stage.path(format!("source/{number}")), noise(1 << 20)).unwrap();
    }
    let mut codes = Vec::new();
    for kib in [40_000, 60_000, 90_000, 130_000, 200_000, 8_000_000] {
        for level in ["-1", "-6", "-9"] {
            let shale = env!("CARGO_BIN_EXE_shale");
            let line =
                format!("ulimit -v {kib}; exec {shale} create source -o x -fq {level} --threads 2");
            let output = stage.other("sh", &["-c", &line]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // Killed by a signal, it would have no code.
            let code = output.status.code().unwrap_or_else(|| panic!("{kib} {level}: {said}"));
            assert!(code == 0 || said.contains("--memory"), "{kib} {level}: {code} {said}");
            assert!(code <= 1, "{kib} {level}: {code} {said}");
            codes.push(code);
        }
    }
    assert!(codes.contains(&1) && codes.ends_with(&[0, 0, 0]), "{codes:?}");
}

#[test]
fn an_archive_whose_decompressor_needs_too_much_names_the_option() {
    let stage = Stage::without_image();
    // Of a pipe, 7-Zip does not know that less would do.
    let large = "yes content | head -c 90000 | 7zz a -bd -siplain -m0=PPMd:mem=100m large.7z";
    let made = stage.other("sh", &["-c", large]).output().unwrap();
    if made.status.code() == Some(127) {
        return println!("skipped: 7zz is missing");
    }
    assert!(made.status.success(), "{made:?}");
    stage.run(0, &["create", "large.7z", "-o", "x"]);
    let words = ["create", "large.7z", "-o", "y", "--memory", "64M"];
    stage.fails(1, &words, &["100 MiB", "64 MiB are allowed", "--memory SIZE"]);
    assert!(!stage.path("y").exists());
}

#[test]
fn a_password_is_read_from_a_file() {
    let stage = Stage::without_image();
    fs::write(stage.path("password"), "sesame\nmore\n").unwrap();
    let zip = ["-qr", "-P", "sesame", "secret.zip", "source"];
    match stage.other("zip", &zip).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return println!("skipped: zip: {error}"),
    }
    stage.fails(1, &["create", "secret.zip", "-o", "x"], &["encrypted", "--password-file"]);
    stage.run(0, &["create", "secret.zip", "-o", "x", "--password-file", "password"]);
    stage.fails(
        1,
        &["create", "secret.zip", "-o", "y", "--password-file", "none"],
        &["--password-file none", "No such file"],
    );
}
