//! Promise: a whole Debian system comes back, as mount and as extraction, also by the judgement of
//! programs that know nothing of ShaleFS. The system is made with mmdebstrap, as root.

use shale_tests::command::{
    Mount, can_mount, create, expect_code, export, extract, has_program, is_root, run,
};
use shale_tests::image::manifest_at;
use shale_tests::keep::as_squashfs;
use shale_tests::manifest::Manifest;
use shale_tests::places;
use std::path::Path;
use std::process::Command;

#[test]
fn a_debian_system_comes_back() {
    let folder = places::disk();
    let source = folder.path().join("debian");
    if !make_debian(&source) {
        return;
    }
    let expected = Manifest::of(&source).unwrap();
    assert!(expected.records.len() > 5_000, "{} entries are no Debian", expected.records.len());
    let image = folder.path().join("debian.shale");
    // Level 5 orders, refers and cuts as level 6 does, in a fifth of its time.
    create(&source, &image, &["-5"]);
    run(["check".as_ref(), image.as_os_str()]);

    if can_mount() {
        let mount = Mount::new(&image, &folder.path().join("mount"), &[]);
        expected.assert_equals(&Manifest::of(mount.path()).unwrap(), "mount");
        compare_by_others(&source, mount.path());
        mount.end();
    }
    through_other_formats(folder.path(), &image, &expected);
    let target = folder.path().join("extracted");
    extract(&image, &target);
    expected.assert_equals(&Manifest::of(&target).unwrap(), "extraction");
}

/// Out as tar and SquashFS, and back.
fn through_other_formats(folder: &Path, image: &Path, expected: &Manifest) {
    let again = folder.join("again.shale");
    export(image, &folder.join("x.tar"), &[], 0);
    create(&folder.join("x.tar"), &again, &["-1"]);
    expected.assert_equals(&manifest_at(&again), "tar");
    export(image, &folder.join("x.squashfs"), &["--level=3"], 0);
    create(&folder.join("x.squashfs"), &again, &["-1f"]);
    let expected = as_squashfs(expected.clone());
    expected.assert_equals(&as_squashfs(manifest_at(&again)), "SquashFS");
}

/// diff and rsync see no difference either.
fn compare_by_others(source: &Path, mount: &Path) {
    if has_program("diff") {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).arg(source).arg(mount).env("LC_ALL", "C");
        let output = diff.output().unwrap();
        // Of two devices diff says what both are and that is all it can say.
        let text = String::from_utf8_lossy(&output.stdout);
        let differs = |line: &&str| {
            let kinds: Vec<&str> = line.split(" is a ").skip(1).collect();
            let same = kinds.len() == 2 && kinds[0].starts_with(kinds[1]);
            !same
        };
        let lines: Vec<&str> = text.lines().filter(differs).collect();
        assert!(lines.is_empty(), "diff: {lines:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    if has_program("rsync") {
        let mut rsync = Command::new("rsync");
        rsync.args(["-nacXAH", "--delete", "--itemize-changes"]);
        rsync.arg(source.join("")).arg(mount.join(""));
        let output = expect_code(&mut rsync, 0);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.is_empty(), "rsync would change:\n{text}");
    }
}

/// False, with a message, where it cannot be made.
fn make_debian(folder: &Path) -> bool {
    if !is_root() || !has_program("mmdebstrap") {
        println!("skipped: a Debian system needs root and mmdebstrap");
        return false;
    }
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--quiet", "--variant=minbase", "--include=python3-minimal,iputils-ping"]);
    let output = mmdebstrap.arg("bookworm").arg(folder).output().unwrap();
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        println!("skipped: mmdebstrap could not make a Debian system; is the mirror reachable?");
    }
    output.status.success()
}
