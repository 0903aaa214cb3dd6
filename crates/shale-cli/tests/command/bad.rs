//! Wrong images, outputs and words: a message that says what and what to do, the right exit code,
//! and nothing left behind.

use std::fs::{self, File};
use std::process::Stdio;

use crate::stage::{Stage, expect, is_root, noise};

#[test]
fn what_is_no_image_is_called_that_by_every_command() {
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
fn a_cut_image_is_called_truncated() {
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
fn an_image_behind_other_data_is_found() {
    let stage = Stage::new();
    let bytes = fs::read(stage.path("image.shale")).unwrap();
    let shifted = [&b"#!/bin/sh\nexit 0\n"[..], &bytes].concat();
    fs::write(stage.path("shifted"), &shifted).unwrap();
    assert_eq!(stage.text(&["ls", "shifted", "docs"]), "deep\ntext.txt\n");
    assert_eq!(stage.json(0, &["check", "--json", "shifted"])["offset"], 17);
    assert_eq!(stage.text(&["ls", "--offset", "17", "shifted", "docs"]), "deep\ntext.txt\n");
    // Other data may follow, too.
    fs::write(stage.path("between"), [&shifted[..], b"and more"].concat()).unwrap();
    let found = stage.json(0, &["check", "--json", "--offset", "17", "between"]);
    assert_eq!((&found["bytes_behind"], &found["clean"]), (&8.into(), &true.into()));
}

#[test]
fn a_damaged_image_behind_other_data_is_repaired_as_check_says() {
    let stage = Stage::new();
    stage.run(0, &["parity", "add", "image.shale", "-q"]);
    let image = fs::read(stage.path("image.shale")).unwrap();
    let before = [&b"#!/bin/sh\nexit 0\n"[..], &image].concat();
    let mut damaged = before.clone();
    damaged[17..81].fill(0);
    // The command is for a shell: names need quotes, and must not look like options.
    for (index, name) in ["-damaged", "two  it's", "back\\slash\n"].into_iter().enumerate() {
        let path = stage.path(name);
        fs::write(&path, &damaged).unwrap();
        let word = format!("./{name}");
        // Without it nobody looks there, but it is said.
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
fn what_an_export_cannot_hold_of_the_root_is_said_of_the_root() {
    let stage = Stage::without_image();
    fs::write(stage.path("manifest"), "d 755 0 0 5000000000 - .\n").unwrap();
    stage.run(0, &["create", "--manifest", "manifest", "-o", "image.shale", "-q"]);
    let words = ["export", "image.shale", "-o", "image.cpio"];
    stage.fails(3, &words, &["the root directory: its time"]);
}

#[test]
fn an_existing_output_is_kept_unless_told_otherwise() {
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
    // So is a signature.
    stage.run(0, &["keygen", "key", "-q"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "-q"]);
    stage.fails(1, &["sign", "image.shale", "-k", "key"], &["image.shale.sig", "--force"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "-q", "--force"]);
}

#[test]
fn a_full_disk_leaves_no_part_of_a_key_or_signature() {
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
fn a_limit_on_the_size_of_files_is_said_and_leaves_no_part_of_one() {
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
    assert!(said.contains("not read back"), "{said}");
    let [named, piped] =
        ["image.shale", "piped.shale"].map(|name| fs::read(stage.path(name)).unwrap());
    assert!(named == piped, "an image written to a pipe differs");
    stage.fails(2, &["create", "source", "-o", "-", "--json"], &["--json"]);
}

#[test]
fn an_image_may_lie_in_its_own_source() {
    let stage = Stage::without_image();
    stage.run(0, &["create", "source", "-o", "source/self.shale", "-q"]);
    let listed = stage.run(0, &["ls", "source/self.shale"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).contains("self.shale"));
    // Nor is the one that it replaces packed.
    stage.run(0, &["create", "source", "-fo", "source/self.shale", "-q"]);
    let listed = stage.run(0, &["ls", "source/self.shale"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).contains("self.shale"));
}

#[test]
fn wrong_words_are_usage_errors() {
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
        &["extract", "image.shale"],
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
    // How much memory is enough depends on the machine.
    stage.fails(1, &["create", "source", "-o", "x", "--memory", "1"], &["memory", "at least"]);
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
    // A range that ends behind the last row is none, one that begins there is.
    stage.run(0, &["dump", "image.shale", "frames", "--range", "0..1000000"]);
    for more in [&[][..], &["--json"]] {
        let words = ["dump", "image.shale", "frames", "--range", "1000000"];
        let output = stage.run(1, &[&words, more].concat());
        assert!(output.stdout.is_empty());
    }
    assert_eq!(stage.names(), ["image.shale", "list", "source"]);
}

#[test]
fn a_place_for_temporary_files_that_is_not_there_is_named() {
    let stage = Stage::without_image();
    for (place, why) in [("nowhere", "No such file"), ("source/empty", "ot a directory")] {
        let output = stage.run(1, &["create", "source", "-o", "x", "--temp-dir", place]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(place) && said.matches(why).count() == 1, "{said}");
        assert!(!said.contains("more room"), "{said}");
    }
}

#[test]
fn what_is_replaced_leaves_its_permissions_to_the_new_file() {
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
fn patterns_may_begin_with_a_hyphen() {
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
    // Options behind are options, and a rule that is forgotten is told.
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
fn manifests_are_packed_and_their_mistakes_named() {
    let stage = Stage::without_image();
    let text = "d 755 0 0 0 - .\nf 644 0 0 7.5 @source/docs/text.txt copy\nf = = = = 0 empty\n";
    std::fs::write(stage.path("list"), text).unwrap();
    stage.run(0, &["create", "--manifest", "list", "-o", "list.shale", "-q"]);
    let copy = stage.run(0, &["cat", "list.shale", "copy"]).stdout;
    assert_eq!(copy, std::fs::read(stage.path("source/docs/text.txt")).unwrap());
    // From a pipe, with a mistake behind good lines: no image.
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
