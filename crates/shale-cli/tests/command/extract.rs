//! `shale extract`: patterns, existing files, damage, full disks, signals.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::events::wait_for_files;
use crate::stage::{Stage, is_root, noise, text};

/// Paths below a directory of the stage, sorted.
fn below(stage: &Stage, directory: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut ahead = vec![stage.path(directory)];
    while let Some(at) = ahead.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                ahead.push(path.clone());
            }
            let relative = path.strip_prefix(stage.path(directory)).unwrap();
            found.push(relative.to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn patterns_select_and_keep_attributes() {
    let stage = Stage::without_image();
    fs::set_permissions(stage.path("source/docs"), PermissionsExt::from_mode(0o751)).unwrap();
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    stage.run(0, &["extract", "image.shale", "-C", "a", "docs/deep/*.md", "li?k", "-q"]);
    assert_eq!(below(&stage, "a"), ["docs", "docs/deep", "docs/deep/text.md", "link"]);
    let mode = fs::metadata(stage.path("a/docs")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o751, "parent directories get their attributes, too");
    stage.run(0, &["extract", "image.shale", "-C", "b", "**/*.bin", "/docs/text.txt", "-q"]);
    assert_eq!(below(&stage, "b"), ["docs", "docs/deep", "docs/deep/noise.bin", "docs/text.txt"]);
    stage.run(0, &["extract", "image.shale", "-C", "c", "docs/deep", "-q"]);
    assert_eq!(below(&stage, "c").len(), 4);
    // A hard link whose first name is not selected becomes a file.
    stage.run(0, &["extract", "image.shale", "-C", "d", "twin", "-q"]);
    assert_eq!(fs::read(stage.path("d/twin")).unwrap(), text());
    stage.fails(1, &["extract", "image.shale", "-C", "e", "no/such*"], &["no/such*", "matches"]);
    stage.fails(2, &["extract", "image.shale", "-C", "e", "a["], &["a["]);
    // The files that match are extracted all the same.
    let words = ["extract", "image.shale", "-C", "f", "twin", "no/such", "nor/such", "-q"];
    let output = stage.run(3, &words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no/such: nothing in the image matches"), "{said}");
    assert!(said.contains("nor/such: nothing"), "{said}");
    assert_eq!(fs::read(stage.path("f/twin")).unwrap(), text());
}

#[test]
fn the_current_directory_is_the_default_target() {
    let stage = Stage::new();
    fs::create_dir(stage.path("here")).unwrap();
    let mut command = stage.command(&["extract", "../image.shale", "-q", "docs"]);
    command.current_dir(stage.path("here"));
    crate::stage::expect(0, command);
    assert_eq!(fs::read(stage.path("here/docs/text.txt")).unwrap(), text());
    // As in any other target, existing files stay.
    let mut command = stage.command(&["extract", "../image.shale", "docs"]);
    command.current_dir(stage.path("here"));
    let output = crate::stage::expect(1, command);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--overwrite"));
}

#[test]
fn excluded_files_are_left_out() {
    let stage = Stage::new();
    let words = ["extract", "image.shale", "-C", "a", "docs", "--exclude", "*.bin", "-q"];
    stage.run(0, &words);
    assert_eq!(below(&stage, "a"), ["docs", "docs/deep", "docs/deep/text.md", "docs/text.txt"]);
    let words = ["extract", "image.shale", "-C", "b", "docs", "--exclude", "/docs/deep", "-q"];
    stage.run(0, &words);
    assert_eq!(below(&stage, "b"), ["docs", "docs/text.txt"]);
    // A hard link whose first name is left out becomes a file.
    stage.run(0, &["extract", "image.shale", "-C", "c", "--exclude", "docs", "-q"]);
    assert_eq!(fs::read(stage.path("c/twin")).unwrap(), text());
    assert!(!stage.path("c/docs").exists());
    let said = stage.run(0, &["extract", "image.shale", "-O", "docs", "--exclude=*.{bin,txt}"]);
    assert_eq!(said.stdout, b"# deep\n");
    // An exclusion without effect is a warning.
    let words = ["extract", "image.shale", "-C", "d", "--exclude", "*.none", "-q"];
    let output = stage.run(0, &words);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--exclude *.none matched nothing"));
    stage.fails(2, &["extract", "image.shale", "-C", "e", "--exclude", "[a"], &["[a"]);
}

#[test]
fn a_preview_extracts_nothing() {
    let stage = Stage::new();
    let listed = stage.text(&["extract", "image.shale", "--list", "docs", "--exclude", "*.bin"]);
    assert_eq!(listed, "docs/\ndocs/deep/\ndocs/deep/text.md\ndocs/text.txt\n");
    let listed = stage.json(0, &["extract", "image.shale", "--list", "--json", "docs/*.txt"]);
    assert_eq!(listed[0]["path"], "docs/text.txt");
    stage.fails(1, &["extract", "image.shale", "--list", "none"], &["none", "matches"]);
    stage.fails(3, &["extract", "image.shale", "--list", "none", "docs"], &["none", "matches"]);
    let words = ["extract", "image.shale", "--dry-run", "--json", "docs"];
    let said = stage.json(0, &words);
    assert_eq!((&said["files"], &said["directories"]), (&3.into(), &2.into()));
    assert_eq!(said["file_bytes"], text().len() + 700_000 + 7);
    assert_eq!(stage.names(), ["image.shale", "source"]);
    let words = ["extract", "image.shale", "-C", "source", "--dry-run", "docs"];
    stage.fails(1, &words, &["3 files exist", "docs/deep/noise.bin", "--overwrite"]);
    let how = ["--overwrite", "never", "--json"];
    assert_eq!(stage.json(0, &[&words[..], &how].concat())["kept"], 3);
}

#[test]
fn extraction_restores_everything() {
    let stage = Stage::new();
    let said = stage.json(0, &["extract", "image.shale", "-C", "out", "--json"]);
    assert_eq!(said["hard_links"], 1);
    assert_eq!(said["problem_count"], 0);
    let diff = stage
        .other("diff", &["-r", "--no-dereference", "source/docs", "out/docs"])
        .status()
        .unwrap();
    assert!(diff.success());
    let inode = |path: &str| fs::symlink_metadata(stage.path(path)).unwrap().ino();
    assert_eq!(inode("out/twin"), inode("out/docs/text.txt"));
    for path in ["docs", "docs/text.txt", "link", "fifo", "empty", "docs/deep/noise.bin"] {
        let [before, after] = ["source", "out"]
            .map(|root| fs::symlink_metadata(stage.path(root).join(path)).unwrap());
        assert_eq!(before.mode(), after.mode(), "{path}");
        assert_eq!(
            (before.mtime(), before.mtime_nsec()),
            (after.mtime(), after.mtime_nsec()),
            "{path}"
        );
    }
}

#[test]
fn existing_files_are_treated_as_requested() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("out/docs")).unwrap();
    fs::write(stage.path("out/docs/text.txt"), "mine").unwrap();
    fs::write(stage.path("out/docs/other"), "other").unwrap();
    let extract = |how: &[&str], code| {
        let words = [&["extract", "image.shale", "-C", "out"], how].concat();
        stage.run(code, &words)
    };
    let refused = String::from_utf8(extract(&[], 1).stderr).unwrap();
    assert!(refused.contains("docs/text.txt") && refused.contains("nothing was extracted"));
    assert_eq!(below(&stage, "out"), ["docs", "docs/other", "docs/text.txt"]);
    // Only selected files can conflict.
    extract(&["-q", "empty"], 0);
    fs::remove_file(stage.path("out/empty")).unwrap();
    extract(&["--overwrite", "never", "-q"], 0);
    assert_eq!(fs::read(stage.path("out/docs/text.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(stage.path("out/docs/deep/noise.bin")).unwrap(), noise(700_000));
    // The existing file is newer than the one in the image.
    extract(&["--overwrite", "older", "-q"], 0);
    assert_eq!(fs::read(stage.path("out/docs/text.txt")).unwrap(), b"mine");
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    let file = fs::File::options().write(true).open(stage.path("out/docs/text.txt")).unwrap();
    file.set_times(old).unwrap();
    extract(&["--overwrite", "older", "-q"], 0);
    assert_eq!(fs::read(stage.path("out/docs/text.txt")).unwrap(), text());
    fs::write(stage.path("out/empty"), "no").unwrap();
    extract(&["--overwrite", "always", "-q"], 0);
    assert_eq!(fs::read(stage.path("out/empty")).unwrap(), b"");
    assert_eq!(fs::read(stage.path("out/docs/other")).unwrap(), b"other");
    // A directory is never replaced by a file.
    fs::remove_file(stage.path("out/empty")).unwrap();
    fs::create_dir(stage.path("out/empty")).unwrap();
    let refused = String::from_utf8(extract(&["--overwrite", "always"], 1).stderr).unwrap();
    assert!(refused.contains("empty") && refused.contains("directory"), "{refused}");
}

#[test]
fn hard_links_that_are_older_by_less_than_a_second_are_all_replaced() {
    let stage = Stage::without_image();
    let of = |path: &str, nanos: u64| {
        let time = std::time::UNIX_EPOCH + Duration::new(1_700_000_000, nanos as u32);
        fs::File::options().append(true).open(stage.path(path)).unwrap().set_modified(time)
    };
    of("source/twin", 900_000_000).unwrap();
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    fs::create_dir_all(stage.path("out/docs")).unwrap();
    for path in ["out/docs/text.txt", "out/twin"] {
        fs::write(stage.path(path), "before").unwrap();
        of(path, 100_000_000).unwrap();
    }
    stage.run(0, &["extract", "image.shale", "-C", "out", "--overwrite", "older", "-q"]);
    assert_eq!(fs::read(stage.path("out/docs/text.txt")).unwrap(), text());
    assert_eq!(fs::read(stage.path("out/twin")).unwrap(), text());
}

#[test]
fn links_in_the_target_are_not_followed() {
    let stage = Stage::new();
    fs::create_dir(stage.path("outside")).unwrap();
    fs::write(stage.path("precious"), "precious").unwrap();
    fs::create_dir(stage.path("out")).unwrap();
    symlink("../outside", stage.path("out/docs")).unwrap();
    symlink("../precious", stage.path("out/empty")).unwrap();
    stage.fails(1, &["extract", "image.shale", "-C", "out"], &["empty"]);
    stage.fails(1, &["extract", "image.shale", "-C", "out", "docs"], &["docs"]);
    stage.fails(
        1,
        &["extract", "image.shale", "-C", "out", "docs", "--overwrite", "older"],
        &["docs"],
    );
    assert!(below(&stage, "outside").is_empty());
    // Overwriting replaces the links, not their targets.
    stage.run(0, &["extract", "image.shale", "-C", "out", "--overwrite", "always", "-q"]);
    assert!(below(&stage, "outside").is_empty());
    assert_eq!(fs::read(stage.path("precious")).unwrap(), b"precious");
    assert!(!stage.path("out/docs").is_symlink());
    assert_eq!(fs::read(stage.path("out/docs/text.txt")).unwrap(), text());
}

#[test]
fn damage_is_an_error_or_a_reported_hole() {
    let stage = Stage::new();
    stage.damage_frame();
    stage.fails(1, &["extract", "image.shale", "-C", "a"], &["docs/deep/noise.bin", "checksum"]);
    assert!(!stage.path("a/docs/deep/noise.bin").exists(), "a damaged file stays behind");
    stage.fails(
        3,
        &["extract", "image.shale", "-C", "b", "--continue"],
        &["docs/deep/noise.bin", "offset", "hole"],
    );
    assert_eq!(fs::read(stage.path("b/docs/text.txt")).unwrap(), text());
    let salvaged = fs::read(stage.path("b/docs/deep/noise.bin")).unwrap();
    let whole = noise(700_000);
    assert_eq!(salvaged.len(), whole.len());
    let wrong: Vec<usize> = (0..whole.len()).filter(|&at| salvaged[at] != whole[at]).collect();
    assert!(!wrong.is_empty() && wrong.iter().all(|&at| salvaged[at] == 0));
    let said = stage.json(3, &["extract", "image.shale", "-C", "c", "--continue", "--json"]);
    assert_eq!(said["problems"][0]["path"], "docs/deep/noise.bin");
}

#[test]
fn a_full_disk_is_reported_and_leaves_no_partial_file() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    fs::create_dir(stage.path("small")).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=512k", "none", "small"];
    if !stage.other("mount", &mount).stderr(Stdio::null()).status().unwrap().success() {
        println!("skipped: it needs the right to mount");
        return;
    }
    let words = ["extract", "image.shale", "-C", "small/out", "--continue"];
    let output = stage.command(&words).output().unwrap();
    let left = stage.path("small/out/docs/deep/noise.bin").exists();
    assert!(stage.other("umount", &["small"]).status().unwrap().success());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("No space left"), "{complaint}");
    assert!(!left, "half a file stays behind");
}

#[test]
fn an_ordinary_user_gets_everything_that_needs_no_privilege() {
    if !is_root() {
        return;
    }
    let stage = Stage::without_image();
    let set_id = stage.path("source/set-id");
    fs::write(&set_id, "x").unwrap();
    fs::set_permissions(&set_id, PermissionsExt::from_mode(0o6755)).unwrap();
    let device = rustix::fs::FileType::CharacterDevice;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let number = rustix::fs::makedev(1, 3);
    if rustix::fs::mknodat(rustix::fs::CWD, stage.path("source/null"), device, mode, number)
        .is_err()
    {
        println!("skipped: it needs the right to make devices");
        return;
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    stage.run(0, &["extract", "image.shale", "-C", "root", "-q"]);
    assert_eq!(fs::metadata(stage.path("root/set-id")).unwrap().mode() & 0o7777, 0o6755);
    assert_eq!(fs::metadata(stage.path("root/null")).unwrap().rdev(), number);

    let program = stage.path("shale");
    fs::copy(env!("CARGO_BIN_EXE_shale"), &program).unwrap();
    fs::set_permissions(stage.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let user = |words: &[&str]| {
        let mut all = vec!["--reuid=65534", "--regid=65534", "--clear-groups", "./shale"];
        all.extend(words);
        stage.other("setpriv", &all)
    };
    let run = user(&["extract", "image.shale", "-C", "user"]).output();
    let Ok(output) = run else {
        println!("skipped: it needs setpriv");
        return;
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("null: device node skipped"), "{complaint}");
    let found = fs::metadata(stage.path("user/set-id")).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (65534, 0o755));
    let mut quiet = user(&["extract", "image.shale", "-C", "user2", "--no-devices", "-q"]);
    assert_eq!(quiet.status().unwrap().code(), Some(0));
    // Owners that the user cannot set are reported.
    let mut asked = user(&["extract", "image.shale", "-C", "user3", "--same-owner", "empty"]);
    let output = asked.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("owner"));
}

#[test]
fn leading_components_are_stripped() {
    let stage = Stage::new();
    stage.run(0, &["extract", "image.shale", "-C", "a", "--strip-components=1", "-q"]);
    assert_eq!(below(&stage, "a"), ["deep", "deep/noise.bin", "deep/text.md", "text.txt"]);
    assert_eq!(fs::read(stage.path("a/text.txt")).unwrap(), text());
    let [before, after] = ["source/docs/deep", "a/deep"]
        .map(|path| fs::symlink_metadata(stage.path(path)).unwrap())
        .map(|found| (found.mode(), found.mtime(), found.mtime_nsec()));
    assert_eq!(before, after);
    let said = stage
        .json(0, &["extract", "image.shale", "-C", "b", "--strip-components=2", "--json", "docs"]);
    assert_eq!((below(&stage, "b").len(), &said["stripped"]), (2, &1.into()));
    // Existing files are found under the stripped path.
    stage.fails(
        1,
        &["extract", "image.shale", "-C", "b", "docs/deep", "--strip-components=2"],
        &["exist already", "noise.bin"],
    );
    stage.run(0, &["extract", "image.shale", "-C", "b", "--strip-components=1", "docs/*.txt"]);
    // Two files with the same stripped path conflict with each other.
    fs::create_dir(stage.path("source/other")).unwrap();
    fs::write(stage.path("source/other/text.txt"), "other").unwrap();
    stage.run(0, &["create", "source", "-o", "two.shale", "-q"]);
    stage.fails(1, &["extract", "two.shale", "-C", "c", "--strip-components=1"], &["text.txt"]);
    let words = ["extract", "two.shale", "-C", "d", "--strip-components=1", "-q"];
    stage.run(0, &[&words[..], &["--overwrite=always"]].concat());
    assert!(stage.path("d/text.txt").exists());
}

#[test]
fn contents_go_to_standard_output() {
    let stage = Stage::new();
    let deep = |name: &str| fs::read(stage.path("source/docs/deep").join(name)).unwrap();
    let said = stage.run(0, &["extract", "image.shale", "-O", "docs/deep"]);
    assert!(said.stdout == [deep("noise.bin"), deep("text.md")].concat());
    // Each name of a file writes its content; other kinds write nothing.
    let said = stage.run(0, &["extract", "image.shale", "--to-stdout", "twin", "link", "fifo"]);
    assert!(said.stdout == text());
    stage.fails(1, &["extract", "image.shale", "-O", "none"], &["none"]);
    stage.fails(2, &["extract", "image.shale", "-O", "-C", "out"], &["--directory"]);
    stage.fails(2, &["extract", "image.shale", "-O", "--list"], &["--list"]);
}

#[test]
fn names_with_brackets_braces_and_backslashes_match_themselves() {
    let stage = Stage::without_image();
    let names = ["f[1].txt", "f1.txt", "g{a,b", "h\\", "d[x]/{y}", "star*", "start"];
    fs::create_dir(stage.path("source/d[x]")).unwrap();
    for name in names {
        fs::write(stage.path("source").join(name), name).unwrap();
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    for name in ["f[1].txt", "g{a,b", "h\\", "d[x]/{y}"] {
        assert_eq!(stage.text(&["extract", "image.shale", "-O", name]), name);
        let tar = stage.run(0, &["export", "image.shale", "-o", "-", "--format", "tar", name]);
        let is_in = tar.stdout.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        assert!(is_in, "{name}");
    }
    // Anything else is a pattern, and `*` always is.
    assert_eq!(stage.text(&["extract", "image.shale", "-O", "f[0-9].txt"]), "f1.txt");
    assert_eq!(stage.text(&["extract", "image.shale", "-O", "star*"]), "star*start");
    assert_eq!(stage.text(&["extract", "image.shale", "-O", r"star\*"]), "star*");
    assert_eq!(stage.text(&["extract", "image.shale", "-O", r"/d\[x]"]), "d[x]/{y}");
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let stage = Stage::new();
    for words in [
        &["extract", "image.shale", "-O"][..],
        &["export", "image.shale", "-o", "-", "--format", "tar"],
        &["export", "image.shale", "-o", "-", "--format", "zip"],
        &["create", "source", "-o", "-"],
        &["cat", "image.shale", "docs/text.txt"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = stage.command(words);
        command.stdout(writer);
        let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(141), ""), "{words:?}");
    }
}

#[test]
fn a_full_disk_is_reported_once() {
    let stage = Stage::new();
    for words in [
        &["extract", "image.shale", "-O"][..],
        &["export", "image.shale", "-o", "-", "--format", "tar"],
        &["create", "source", "-o", "-"],
    ] {
        let mut command = stage.command(words);
        command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said.matches("No space left").count(), 1, "{said}");
        assert!(!said.contains("archive"), "{said}");
    }
}

#[test]
fn too_few_descriptors_fail_without_leaving_an_incomplete_file() {
    let stage = Stage::without_image();
    // Large enough to be written in several parts.
    let long = noise(20 << 20);
    for name in ["source/long-1", "source/long-2"] {
        fs::write(stage.path(name), &long).unwrap();
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-0", "-q"]);
    let mut done = 0;
    for count in 4..16 {
        let _ = fs::remove_dir_all(stage.path("out"));
        let limit = format!("ulimit -n {count}; exec \"$0\" \"$@\"");
        let words = ["extract", "image.shale", "-C", "out", "--threads", "2", "-q", "long-*"];
        let before = ["-c", &limit, env!("CARGO_BIN_EXE_shale")];
        let output = stage.other("sh", &[&before[..], &words].concat()).output().unwrap();
        if output.status.success() {
            done += 1;
            for name in ["out/long-1", "out/long-2"] {
                assert!(fs::read(stage.path(name)).unwrap() == long, "{name} of {count}");
            }
        } else {
            assert!(!output.stderr.is_empty(), "{count} descriptors");
        }
    }
    assert!(done > 0, "none of these limits is enough");
}

#[test]
fn ctrl_c_ends_an_extraction_soon() {
    let stage = Stage::without_image();
    for n in 0..30_000 {
        fs::write(stage.path(format!("source/docs/{n}")), format!("{n}")).unwrap();
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q", "--no-verify", "-0"]);
    fs::create_dir(stage.path("out")).unwrap();
    let child = stage
        .heeding(&["extract", "image.shale", "-C", "out", "--threads", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for (directory, name) in [("out", "out/docs"), ("out/docs", "out/docs/0")] {
        let is_there = || stage.path(name).exists();
        wait_for_files("nothing is extracted", &stage.path(directory), is_there);
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let count = fs::read_dir(stage.path("out/docs")).unwrap().count();
    let left =
        below(&stage, "out").iter().filter(|path| !stage.path("out").join(path).is_dir()).count();
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().last().unwrap().replace(',', "");
    let expected = format!("shale: interrupted; {left} complete files are in out;");
    assert!(said.starts_with(&expected), "{said}\n{expected}");
    assert!(count < 30_000, "the extraction ended before the signal");
}

#[test]
fn read_only_directories_are_extracted() {
    let stage = Stage::without_image();
    let locked = stage.path("source/docs/deep");
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o555)).unwrap();
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    stage.run(0, &["extract", "image.shale", "-C", "out", "-q"]);
    let mode = fs::metadata(stage.path("out/docs/deep")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o555);
    assert_eq!(fs::read(stage.path("out/docs/deep/text.md")).unwrap(), b"# deep\n");
    for path in [locked, stage.path("out/docs/deep")] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn holes_stay_holes() {
    let stage = Stage::without_image();
    let file = fs::File::create(stage.path("source/sparse")).unwrap();
    file.set_len(40 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"island", 35 << 20).unwrap();
    drop(file);
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    stage.run(0, &["extract", "image.shale", "-C", "out", "-q"]);
    let found = fs::metadata(stage.path("out/sparse")).unwrap();
    assert_eq!(found.len(), 40 << 20);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    assert!(stage.other("cmp", &["source/sparse", "out/sparse"]).status().unwrap().success());
    // --sparse=never writes the holes, and --sparse turns zeros into holes.
    fs::write(stage.path("source/zeroes"), vec![0; 3 << 20]).unwrap();
    stage.run(0, &["create", "source", "-o", "image.shale", "-fq"]);
    let mut blocks = Vec::new();
    for how in ["--sparse=stored", "--sparse", "--sparse=never"] {
        let to = how.trim_start_matches('-');
        stage.run(0, &["extract", "image.shale", "-C", to, how, "sparse", "zeroes", "-q"]);
        for name in ["sparse", "zeroes"] {
            let copy = format!("{to}/{name}");
            let source = format!("source/{name}");
            assert!(stage.other("cmp", &[&source, &copy]).status().unwrap().success());
            blocks.push(fs::metadata(stage.path(&copy)).unwrap().blocks() * 512 >= 3 << 20);
        }
    }
    assert_eq!(blocks, [false, true, false, false, true, true]);
}

#[test]
fn extended_attributes_are_restored_unless_disabled() {
    let stage = Stage::without_image();
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(stage.path("source/empty"), "user.a", b"1", flags).is_err() {
        println!("skipped: no user attributes here");
        return;
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    let sets: [(&[&str], bool); 4] = [
        (&[], true),
        (&["--no-xattrs"], false),
        (&["--no-xattrs", "--xattrs"], true),
        (&["--xattrs", "--no-xattrs"], false),
    ];
    for (index, (how, expected)) in sets.into_iter().enumerate() {
        let to = index.to_string();
        stage.run(0, &[&["extract", "image.shale", "-C", &to, "-q", "empty"], how].concat());
        let mut value = [0; 8];
        let found = rustix::fs::getxattr(stage.path(&to).join("empty"), "user.a", &mut value);
        assert_eq!(found.is_ok(), expected, "{how:?}");
    }
}
