//! `-o hotlog=`: files that are read first from a mount are stored first in the next image.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal};

use crate::events::wait_for_files;
use crate::mount::Point;
use crate::order;
use crate::stage::{ODD_NAME, Stage, expect, is_root};

/// Waits until the list has this content.
#[track_caller]
fn becomes(list: &Path, expected: &[u8]) {
    wait_for_files("the list is another", list.parent().unwrap(), || {
        fs::read(list).unwrap_or_default() == expected
    });
}

/// Unmounts, and expects the list to be complete then.
#[track_caller]
fn end(stage: &Stage, point: &Point<'_>, list: &Path, expected: &[u8]) {
    stage.run(0, &["umount", "mnt"]);
    let found = fs::read(list).unwrap_or_default();
    assert!(found == expected, "{}", found.escape_ascii());
    point.becomes(false);
}

/// Mounts with this option, in a child in the foreground.
fn mount_in_front(stage: &Stage, point: &Point<'_>, option: &str) -> Child {
    let words = ["mount", "-f", "image.shale", "mnt", "-o", option];
    let child = stage.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    point.becomes(true);
    child
}

#[test]
fn files_read_first_are_stored_first_in_the_next_image() {
    let stage = order::stage();
    let Some(point) = Point::new(&stage) else { return };
    // Without a list, the order is that of paths.
    assert_eq!(order::order(&stage, "-0", &[]), order::FILES);
    stage.run(0, &["mount", "image.shale", "mnt", "-o", "hotlog=list"]);
    for path in ["c/c.c", "a/two.c", "c/c.c", "b/two.c", "a/two.c"] {
        fs::read(stage.path("mnt").join(path)).unwrap();
    }
    // Attributes and listings are not reads.
    fs::metadata(stage.path("mnt/a/one.h")).unwrap();
    assert_eq!(fs::read_dir(stage.path("mnt/b")).unwrap().count(), 2);
    let list = stage.path("list");
    end(&stage, &point, &list, b"c/c.c\na/two.c\nb/two.c\n");
    let hot = ["c/c.c", "a/two.c", "b/two.c", "a/one.h", "b/three.h"];
    assert_eq!(order::order(&stage, "-0", &["--hot", "list"]), hot);
    assert_eq!(order::order(&stage, "-6", &["--hot", "list"]), hot);
    // With `subdir=` the paths are still those of the image, and another mount begins a new list.
    stage.run(0, &["mount", "image.shale", "mnt", "-o", "hotlog=list,subdir=b"]);
    becomes(&list, b"c/c.c\na/two.c\nb/two.c\n");
    fs::read(stage.path("mnt/three.h")).unwrap();
    becomes(&list, b"b/three.h\n");
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
}

#[test]
fn a_name_with_a_line_end_is_listed_and_found() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    stage.run(0, &["mount", "image.shale", "mnt", "-o", "hotlog=list"]);
    fs::read(stage.path("mnt/docs/deep/noise.bin")).unwrap();
    fs::read(stage.path("mnt").join(OsStr::from_bytes(ODD_NAME))).unwrap();
    // A hard link is the same file, which is listed once.
    fs::read(stage.path("mnt/twin")).unwrap();
    fs::read(stage.path("mnt/link")).unwrap();
    let list = [b"docs/deep/noise.bin\0", ODD_NAME, b"\0docs/text.txt\0"].concat();
    let same = [b"docs/deep/noise.bin\0", ODD_NAME, b"\0twin\0"].concat();
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    wait_for_files("the list is another", &stage.path(""), || {
        let found = fs::read(stage.path("list")).unwrap_or_default();
        found == list || found == same
    });
    let create = stage.run(0, &["create", "source", "-o", "image.shale", "-f", "--hot", "list"]);
    let text = String::from_utf8_lossy(&create.stderr);
    assert!(text.contains("stored first: 3 contents of 3 listed paths"), "{text}");
}

#[test]
fn a_killed_driver_leaves_a_list_of_whole_lines() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let mut child = mount_in_front(&stage, &point, "hotlog=list");
    fs::read(stage.path("mnt/docs/deep/text.md")).unwrap();
    fs::read(stage.path("mnt/.hidden")).unwrap();
    becomes(&stage.path("list"), b"docs/deep/text.md\n.hidden\n");
    fs::read(stage.path("mnt/docs/text.txt")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // The last one may be missing, but must not be cut.
    let found = fs::read(stage.path("list")).unwrap();
    let rest = found.strip_prefix(b"docs/deep/text.md\n.hidden\n").unwrap();
    assert!(matches!(rest, b"" | b"docs/text.txt\n" | b"twin\n"), "{}", found.escape_ascii());
}

/// A file system in a file, mounted on `at`, that writes only when it is told to sync.
struct Disk<'a>(&'a Stage, &'static str);

impl<'a> Disk<'a> {
    /// `None` if there are no loop devices.
    fn mount(stage: &'a Stage, file: &str, at: &'static str) -> Option<Self> {
        fs::create_dir(stage.path(at)).unwrap();
        let mount = stage.other("mount", &["-o", "loop,commit=900", file, at]).output().unwrap();
        if !mount.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&mount.stderr));
            return None;
        }
        Some(Self(stage, at))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = self.0.other("umount", &[self.1]).status();
    }
}

#[test]
fn a_list_is_on_the_disk_when_the_mount_has_ended() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    fs::File::create(stage.path("disk")).unwrap().set_len(16 << 20).unwrap();
    let made = stage.other("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0", "disk"]).status();
    if !is_root() || !made.is_ok_and(|status| status.success()) {
        println!("skipped: it needs root and mkfs.ext4");
        return;
    }
    let Some(_disk) = Disk::mount(&stage, "disk", "before") else { return };
    let mut child = mount_in_front(&stage, &point, "hotlog=before/list");
    fs::read(stage.path("mnt/.hidden")).unwrap();
    stage.run(0, &["umount", "mnt"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // A power cut: data that is not on the disk by now is lost.
    fs::copy(stage.path("disk"), stage.path("copy")).unwrap();
    let Some(_disk) = Disk::mount(&stage, "copy", "after") else { return };
    assert_eq!(fs::read(stage.path("after/list")).unwrap_or_default(), b".hidden\n");
    assert!(!stage.path("after/list.new").exists());
}

#[test]
fn nothing_is_mounted_if_the_list_cannot_be_written() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    fs::create_dir(stage.path("other")).unwrap();
    let fails = |option: &str, parts: &[&str]| {
        stage.fails(1, &["mount", "image.shale", "mnt", "-o", option], parts);
    };
    let nowhere = ["mount", "image.shale", "mnt", "-o", "hotlog="];
    stage.fails(2, &nowhere, &["hotlog needs a path"]);
    fails("hotlog=missing/list", &["missing/list", "No such file"]);
    fails("hotlog=other", &["other", "not a regular file"]);
    // Root could rename a file over it.
    fails("hotlog=/dev/null", &["/dev/null", "not a regular file"]);
    fails("metrics=/dev/null", &["/dev/null", "not a regular file"]);
    let two = ["mount", "image.shale=mnt", "image.shale=other", "-o", "hotlog=list"];
    stage.fails(2, &two, &["hotlog", "one image"]);
    if rustix::process::geteuid().is_root() {
        fails("hotlog=list,view=kernel", &["kernel view is not possible", "tell files apart"]);
    }
    // Nothing was read, so nothing was written. `view=auto` falls back to FUSE.
    assert!(!stage.path("list").exists());
    point.becomes(false);
    stage.run(0, &["mount", "image.shale", "mnt", "-o", "hotlog=list,view=auto"]);
    fs::read(stage.path("mnt/.hidden")).unwrap();
    end(&stage, &point, &stage.path("list"), b".hidden\n");
    let names = stage.names();
    assert!(!names.contains(&"list.new".to_owned()), "{names:?}");
}

#[test]
fn a_stuck_driver_does_not_keep_its_mount() {
    // A thread that is stopped while it waits for a request may take the request with it, which
    // then cannot be cancelled. This happens by chance, so try several times.
    for _ in 0..3 {
        stop_and_unmount();
    }
}

fn stop_and_unmount() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let mut driver = Driver(mount_in_front(&stage, &point, "hotlog=list"));
    // Another process reads. A process that another test starts while this one has the file open
    // would inherit it, and hang when it closes it: the stopped driver does not answer.
    assert_eq!(expect(0, stage.other("cat", &["mnt/.hidden"])).stdout, b"h");
    driver.signal(Signal::STOP);
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    driver.signal(Signal::CONT);
    assert_eq!(driver.0.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read(stage.path("list")).unwrap(), b".hidden\n");
}

/// A driver in the foreground, ended when it is dropped. A test that fails must not leave a stopped
/// one, on which all who use the mount hang.
struct Driver(Child);

impl Driver {
    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It has ended already if the test passed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
