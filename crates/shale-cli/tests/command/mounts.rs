//! Lists of mounts, unmounting several, mount points that a mount makes, and where the messages of
//! a driver go.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal};

use crate::events::{wait_for_end, wait_for_files, wait_for_mounts};
use crate::mount::Point;
use crate::stage::{Stage, is_root, text};

/// The mount points and views of the images below the folder, as `shale mounts` lists them.
fn mounted(stage: &Stage) -> Vec<(String, String)> {
    let folder = format!("{}/", fs::canonicalize(stage.path("")).unwrap().display());
    let mut found = Vec::new();
    for mount in stage.json(0, &["mounts", "--json"]).as_array().unwrap() {
        let word = |key: &str| mount[key].as_str().unwrap_or_default().to_owned();
        if let Some(name) = word("mount_point").strip_prefix(&folder) {
            assert_eq!(word("image"), format!("{folder}image.shale"));
            found.push((name.to_owned(), word("view")));
        }
    }
    found
}

#[test]
fn findmnt_shows_the_type_and_the_label_or_a_name_as_source() {
    let stage = Stage::without_image();
    stage.run(0, &["create", "source", "--label", "nightly, build 7", "-qo", "image.shale"]);
    stage.run(0, &["create", "source", "-qo", "plain.shale"]);
    let Some(point) = Point::new(&stage) else { return };
    let shown = |options: &str, image: &str| {
        stage.run(0, &["mount", "-o", options, image, "mnt"]);
        let words =
            ["-nro", "SOURCE,FSTYPE", "-M", stage.path("mnt").to_str().unwrap()].map(str::to_owned);
        let found = stage.other("findmnt", &words).output().unwrap().stdout;
        stage.run(0, &["umount", "mnt"]);
        point.becomes(false);
        String::from_utf8(found).unwrap().trim_end().to_owned()
    };
    let folder = fs::canonicalize(stage.path("")).unwrap();
    let path = |image: &str| format!("{} fuse.shale", folder.join(image).display());
    assert_eq!(shown("ro", "image.shale"), path("image.shale"));
    assert_eq!(shown("label", "image.shale"), "nightly,\\x20build\\x207 fuse.shale");
    assert_eq!(shown("fsname=data", "image.shale"), "data fuse.shale");
    assert_eq!(shown("label", "plain.shale"), path("plain.shale"));
    stage.fails(2, &["mount", "-o", "fsname", "image.shale", "mnt"], &["fsname=data"]);
}

fn names(mounts: &[(&str, &str)]) -> Vec<(String, String)> {
    mounts.iter().map(|&(name, view)| (name.to_owned(), view.to_owned())).collect()
}

#[test]
fn mounts_are_listed_and_several_are_unmounted_at_once() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    for name in ["one", "two", "three"] {
        fs::create_dir(stage.path(name)).unwrap();
    }
    stage.run(0, &["mount", "image.shale=one", "image.shale=two"]);
    stage.run(0, &["mount", "image.shale", "three"]);
    let fuse = |name| (name, "fuse");
    assert_eq!(mounted(&stage), names(&[fuse("one"), fuse("two"), fuse("three")]));
    let line = format!("image.shale on {}/one (fuse)", stage.path("").display());
    assert!(stage.text(&["mounts"]).replace("//", "/").contains(&line.replace("//", "/")));
    // An error with one does not keep the others mounted.
    stage.fails(1, &["umount", "one", "mnt", "two"], &["mnt", "not a mount point"]);
    assert_eq!(mounted(&stage), names(&[fuse("three")]));
    stage.run(0, &["umount", "three"]);
    assert_eq!(mounted(&stage), []);
    stage.fails(2, &["umount"], &["DIR"]);
    stage.fails(2, &["umount", "--all", "mnt"], &["--all"]);
    if is_root() && stage.succeeds(&["mount", "--view", "kernel", "image.shale", "mnt"]) {
        // Its FUSE mount below /run/shale is not listed.
        assert_eq!(mounted(&stage), names(&[("mnt", "kernel")]));
        stage.run(0, &["umount", "mnt"]);
    }
    point.becomes(false);
}

#[test]
fn all_mounts_are_unmounted_in_a_mount_namespace() {
    // In a namespace of its own, so that mounts of other tests and users stay.
    let stage = Stage::new();
    let Some(_point) = Point::new(&stage) else { return };
    if !is_root() {
        return;
    }
    fs::create_dir(stage.path("other")).unwrap();
    let script = "mount --make-rprivate / && umount -l -a -t fuse.shale 2>/dev/null; \
                  \"$0\" mount image.shale=mnt image.shale=other && \
                  mkdir -p mnt2 && \"$0\" mount image.shale mnt2 && \
                  test -e mnt/docs && test -e mnt2/docs && \
                  \"$0\" umount --all && \"$0\" mounts && \
                  test ! -e mnt/docs && test ! -e other/docs && test ! -e mnt2/docs";
    let words = ["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_shale")];
    let output = stage.other("unshare", &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare failed") {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_mount_point_can_be_made_and_removed() {
    let stage = Stage::new();
    let Some(_point) = Point::new(&stage) else { return };
    let made = stage.path("made/deep");
    stage.fails(1, &["mount", "image.shale", "made/deep"], &["does not exist", "mkdir"]);
    for words in [&["mount", "--mkdir"][..], &["mount", "-o", "mkdir"]] {
        stage.run(0, &[words, &["image.shale", "made/deep"]].concat());
        assert_eq!(fs::read(made.join("link")).unwrap(), text());
        stage.run(0, &["umount", "made/deep"]);
        wait_for_files("the mount point remains", &stage.path(""), || !stage.path("made").exists());
    }
    // A failure removes it as well, and a directory that exists is kept.
    stage.fails(
        1,
        &["mount", "--mkdir", "image.shale", "made", "-o", "subdir=missing"],
        &["subdir"],
    );
    assert!(!stage.path("made").exists());
    fs::create_dir(stage.path("kept")).unwrap();
    stage.run(0, &["mount", "--mkdir", "image.shale", "kept"]);
    let mount = fs::canonicalize(stage.path("kept")).unwrap();
    let is_mounted = || {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        table.lines().any(|line| line.split(' ').nth(1) == mount.to_str())
    };
    stage.run(0, &["umount", "kept"]);
    wait_for_mounts("it is mounted", || !is_mounted());
    assert!(stage.path("kept").is_dir());
}

#[test]
fn messages_of_a_driver_name_files_and_go_to_its_log() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    stage.damage_frame();
    stage.fails(1, &["mount", "image.shale", "mnt", "--log", "missing/log"], &["missing/log"]);
    for option in [["--log", "log"], ["-o", "log=log"]] {
        let words = [&["mount", "image.shale", "mnt"][..], &option].concat();
        stage.run(0, &words);
        assert!(fs::read(stage.path("mnt/docs/deep/noise.bin")).is_err());
        stage.run(0, &["umount", "mnt"]);
        point.becomes(false);
    }
    let log = fs::read_to_string(stage.path("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.len() >= 2, "{log}");
    for line in lines {
        assert!(line.contains(" shale[") && line.contains("of docs/deep/noise.bin: "), "{line}");
        assert!(!line.contains("inode"), "{line}");
    }
}

#[test]
fn messages_of_a_background_mount_go_to_the_system_log() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let socket = Path::new("/dev/log");
    if !is_root() || socket.symlink_metadata().is_ok() {
        println!("skipped: it needs root and no system log");
        return;
    }
    let system_log = UnixDatagram::bind(socket).unwrap();
    let result = std::panic::catch_unwind(|| {
        stage.damage_frame();
        // Standard error is a pipe, which ends although the driver goes on.
        let output = stage.run(0, &["mount", "image.shale", "mnt"]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(fs::read(stage.path("mnt/docs/deep/noise.bin")).is_err());
        let mut message = [0; 4096];
        loop {
            let len = system_log.recv(&mut message).unwrap();
            let message = String::from_utf8_lossy(&message[..len]);
            assert!(message.starts_with("<27>shale["), "{message}");
            if message.contains("docs/deep/noise.bin: ") {
                break;
            }
        }
        stage.run(0, &["umount", "mnt"]);
        point.becomes(false);
    });
    fs::remove_file(socket).unwrap();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn a_driver_that_is_stopped_by_a_signal_removes_its_mount_point() {
    let stage = Stage::new();
    let Some(_point) = Point::new(&stage) else { return };
    let words = ["mount", "-f", "--mkdir", "image.shale", "made"];
    let mut child = stage.heeding(&words).stderr(Stdio::null()).spawn().unwrap();
    let process = Pid::from_child(&child);
    wait_for_mounts("it is not mounted", || stage.path("made/link").exists());
    rustix::process::kill_process(process, Signal::TERM).unwrap();
    wait_for_end(process);
    // The mount is seen a moment before the driver has ended its start, which a signal interrupts.
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    assert!(!stage.path("made").exists());
}
