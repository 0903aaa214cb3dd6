//! Mounting in the background and in the foreground, and the names by which other programs call the
//! command.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::events::{ended, wait_for_end, wait_for_files, wait_for_mounts};
use crate::stage::{Stage, expect, is_root, text, wait_until};

/// A mount point that is unmounted at the end, whatever the test did.
pub struct Point<'a>(&'a Stage);

impl<'a> Point<'a> {
    /// `None` if this machine cannot mount.
    pub fn new(stage: &'a Stage) -> Option<Self> {
        fs::create_dir(stage.path("mnt")).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let device = fs::File::options().read(true).write(true).open("/dev/fuse");
        let able = device.is_ok() && (is_root || Path::new("/usr/bin/fusermount3").exists());
        if !able {
            println!("skipped: this machine cannot mount");
            return None;
        }
        Some(Self(stage))
    }

    pub fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let point = fs::canonicalize(self.0.path("")).unwrap().join("mnt");
        let point = point.to_str().unwrap();
        mounts.lines().any(|line| line.split(' ').nth(1) == Some(point))
    }

    /// Waits for the mount to come or go.
    #[track_caller]
    pub fn becomes(&self, mounted: bool) {
        let otherwise = format!("mounted is {}", !mounted);
        wait_for_mounts(&otherwise, || self.is_mounted() == mounted);
    }
}

impl Drop for Point<'_> {
    fn drop(&mut self) {
        if self.is_mounted() {
            let lazy = self.0.other("umount", &["-l", "mnt"]).status();
            if !lazy.is_ok_and(|status| status.success()) {
                let _ = self.0.other("fusermount3", &["-uz", "mnt"]).status();
            }
        }
    }
}

#[test]
fn a_background_mount_works_when_the_command_returns_and_keeps_no_pipe() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    // This waits for the end of both pipes, and a driver that kept one open would hang it.
    stage.run(0, &["mount", "image.shale", "mnt"]);
    assert_eq!(fs::read(stage.path("mnt/link")).unwrap(), text());
    assert!(stage.text(&["stats", "mnt"]).contains("count"));
    let stats = stage.json(0, &["stats", "mnt", "--json"]);
    assert!(stats.is_object());
    stage.fails(1, &["mount", "image.shale", "mnt"], &["mnt", "umount"]);
    // A mount in use remains, unless the unmount is lazy.
    let open = fs::File::open(stage.path("mnt/docs/text.txt")).unwrap();
    stage.fails(1, &["umount", "mnt"], &["in use"]);
    assert!(point.is_mounted());
    stage.run(0, &["umount", "mnt", "--lazy"]);
    point.becomes(false);
    drop(open);
    stage.fails(1, &["umount", "mnt"], &["not a mount point"]);
    stage.fails(1, &["stats", "mnt"], &["mnt"]);
}

#[test]
fn options_choose_what_is_shown() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    stage.run(0, &["mount", "image.shale", "mnt", "-o", "ro,subdir=docs/deep", "-o", "uid=77"]);
    assert_eq!(fs::read(stage.path("mnt/text.md")).unwrap(), b"# deep\n");
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(stage.path("mnt")).unwrap());
    assert_eq!(owner, 77);
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    stage.fails(2, &["mount", "image.shale", "mnt", "-o", "nonsense"], &["nonsense"]);
    stage.fails(2, &["mount", "image.shale", "mnt", "-o", "uid=me"], &["uid=me"]);
    stage.fails(2, &["mount", "image.shale", "mnt", "-o", "threads=1025"], &["threads=1025"]);
    // Options that mount(8) passes to every file system and that change nothing here.
    for option in ["strictatime,lazytime", "sync,dirsync", "silent", "owner,group", "iversion"] {
        stage.fails(1, &["mount", "missing", "mnt", "-o", option], &["missing", "No such file"]);
        stage.fails(1, &["mount", "image.shale", "missing", "-o", option], &["does not exist"]);
    }
    stage.fails(2, &["mount", "image.shale", "mnt", "-o", "nosymfollow"], &["nosymfollow"]);
    let parts = ["subdir=missing", "no such directory"];
    stage.fails(1, &["mount", "image.shale", "mnt", "-o", "subdir=missing"], &parts);
    stage.fails(1, &["mount", "image.shale", "mnt", "-o", "snapshot=missing"], &["missing"]);
    stage.fails(1, &["mount", "missing", "mnt"], &["missing", "No such file"]);
    stage.fails(1, &["mount", "source/docs/text.txt", "mnt"], &["not a ShaleFS image"]);
    stage.fails(1, &["mount", "image.shale", "missing"], &["missing", "does not exist"]);
    assert!(!point.is_mounted());
}

#[test]
fn a_foreground_mount_ends_with_a_signal() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = stage
            .heeding(&["mount", "-f", "image.shale", "mnt"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains("mounted on"), "{said}");
        point.becomes(true);
        assert_eq!(fs::read(stage.path("mnt/docs/text.txt")).unwrap(), text());
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(!point.is_mounted());
    }
}

#[test]
fn a_covered_mount_ends_after_a_signal_as_soon_as_it_is_uncovered() {
    let stage = Stage::new();
    if !is_root() {
        return;
    }
    let Some(point) = Point::new(&stage) else { return };
    let mut child = stage
        .heeding(&["mount", "-f", "image.shale", "mnt"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    point.becomes(true);
    expect(0, stage.other("mount", &["-t", "tmpfs", "tmpfs", "mnt"]));
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("another file system is mounted over"), "{line}");
    expect(0, stage.other("umount", &["mnt"]));
    let (status, _) = ended(child, || {});
    assert_eq!(status.code(), Some(0));
    assert!(!point.is_mounted());
}

#[test]
fn a_mount_works_with_more_threads_than_its_limit_of_files() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let script = "ulimit -n 40 && exec \"$0\" mount -o threads=64 image.shale mnt";
    expect(0, stage.other("sh", &["-c", script, env!("CARGO_BIN_EXE_shale")]));
    assert!(point.is_mounted());
    assert_eq!(fs::read(stage.path("mnt/docs/text.txt")).unwrap(), text());
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
}

#[test]
fn a_mount_with_few_file_handles_works_or_is_refused() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let views = if is_root() { &["fuse", "kernel"][..] } else { &["fuse"] };
    for view in views {
        let mut working_count = 0;
        for handle_count in 3..=20 {
            let script = format!(
                "ulimit -n {handle_count} && \
                 exec \"$0\" mount -o threads=2 --view {view} image.shale mnt"
            );
            let words = ["-c", &script, env!("CARGO_BIN_EXE_shale")];
            let output = stage.other("sh", &words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                assert!(!said.is_empty(), "{view}, {handle_count}: no error message");
                assert!(!point.is_mounted(), "{view}, {handle_count}: {said}");
                continue;
            }
            let read =
                || fs::read(stage.path("mnt/docs/text.txt")).is_ok_and(|read| read == text());
            std::thread::scope(|scope| {
                for reader in [0; 4].map(|_| scope.spawn(read)) {
                    assert!(reader.join().unwrap(), "{view}, {handle_count}: {said}");
                }
            });
            assert_eq!(fs::read_dir(stage.path("mnt/docs")).unwrap().count(), 2);
            stage.run(0, &["umount", "mnt"]);
            point.becomes(false);
            working_count += 1;
        }
        // Not every kernel has an EROFS.
        assert!(working_count > 0 || *view == "kernel", "{view}: no mount");
    }
}

/// An image that cannot be opened before a writer opens it, like one on a slow disk.
fn slow_image(stage: &Stage) -> PathBuf {
    let slow = stage.path("slow.shale");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &slow, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(stage.path("other")).unwrap();
    slow
}

#[test]
fn a_signal_during_mounting_leaves_no_mount() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let slow = slow_image(&stage);
    for foreground in [true, false] {
        for opened in [true, false] {
            let mut command = stage.command(&["mount", "image.shale=mnt", "slow.shale=other"]);
            command.args(foreground.then_some("-f")).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            point.becomes(true);
            let called = Pid::from_child(&child);
            let driver = if foreground { called } else { driver_of(called) };
            // The first mount goes at once, although the second image is still being opened.
            rustix::process::kill_process(driver, Signal::TERM).unwrap();
            point.becomes(false);
            let (status, said) = if opened {
                ended(child, || {
                    // Succeeds only while the process waits for it.
                    open_slow(&slow);
                })
            } else {
                // A second signal does not wait for the image.
                ended(child, || {
                    let _ = rustix::process::kill_process(driver, Signal::TERM);
                })
            };
            // Either it had not begun to open the second image, or it waited for it.
            let is_orderly = status.code() == Some(130) && said.contains("interrupted");
            let is_at_once = match foreground {
                true => status.signal() == Some(Signal::TERM.as_raw()),
                false => status.code() == Some(1) && said.contains("background process was killed"),
            };
            assert!(is_orderly || (is_at_once && !opened), "{status}, {said}");
            assert!(!point.is_mounted());
        }
    }
    // If nothing is mounted, a signal ends it at once.
    let child = stage.command(&["mount", "-f", "slow.shale", "mnt"]).spawn().unwrap();
    // Its second thread handles signals.
    let threads = format!("/proc/{}/task", child.id());
    wait_until("the process has no thread for signals", || {
        !fs::read_dir(&threads).is_ok_and(|threads| threads.count() < 2)
    });
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let (status, _) = ended(child, || {});
    assert!(status.signal() == Some(Signal::TERM.as_raw()) || status.code() == Some(130));
}

/// Returns the driver that a process has started, once it executes the program.
#[track_caller]
fn driver_of(process: Pid) -> Pid {
    let process = process.as_raw_nonzero();
    let mut driver = None;
    wait_until("the process has no driver", || {
        let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
        driver = list.trim().parse().ok().and_then(Pid::from_raw).filter(|child| {
            let words = fs::read_to_string(format!("/proc/{child}/cmdline"));
            words.is_ok_and(|words| words.contains("--ready"))
        });
        driver.is_some()
    });
    driver.unwrap()
}

/// Opens the slow image for a process that waits for it, if there is one.
fn open_slow(slow: &Path) {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let _ = fs::File::options().write(true).custom_flags(nonblock).open(slow);
}

#[test]
fn a_signal_to_the_waiting_command_ends_the_mounting() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let slow = slow_image(&stage);
    let is_there = |process: Pid| Path::new(&format!("/proc/{process}")).exists();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for words in [&["slow.shale", "mnt"], &["image.shale=mnt", "slow.shale=other"]] {
            let log = fs::File::create(stage.path("log")).unwrap();
            let child = stage.heeding(&["mount"]).args(words).stderr(log).spawn().unwrap();
            let called = Pid::from_child(&child);
            let driver = driver_of(called);
            let is_half_done = words[0].contains('=');
            point.becomes(is_half_done);
            rustix::process::kill_process(called, signal).unwrap();
            // The mount goes, and then the process waits for the image that it opens.
            let (status, _) = ended(child, || {
                if is_half_done && !point.is_mounted() {
                    open_slow(&slow);
                }
            });
            let is_left = is_there(driver);
            if is_left {
                rustix::process::kill_process(driver, Signal::KILL).unwrap();
            }
            let said = fs::read_to_string(stage.path("log")).unwrap();
            assert_eq!(status.code(), Some(130), "{words:?}: {said}");
            assert_eq!(said.matches("interrupted").count(), 1, "{said}");
            assert!(!point.is_mounted() && !is_left);
        }
    }
    // A second signal ends the command at once, whatever the driver does.
    let mut command = stage.heeding(&["mount", "slow.shale", "mnt"]);
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    let called = Pid::from_child(&child);
    let driver = driver_of(called);
    rustix::process::kill_process(driver, Signal::STOP).unwrap();
    let (status, _) = ended(child, || {
        let _ = rustix::process::kill_process(called, Signal::INT);
    });
    assert_eq!(status.code(), Some(130));
    // It may be running or gone already: the kernel wakes a stopped process group whose parent has
    // ended.
    let _ = rustix::process::kill_process(driver, Signal::CONT);
    wait_for_end(driver);
}

#[test]
fn a_signal_during_the_layout_of_a_kernel_view_leaves_nothing_mounted() {
    let stage = Stage::without_image();
    if !is_root() {
        return;
    }
    let Some(point) = Point::new(&stage) else { return };
    // A small image with a long layout.
    let mut manifest = String::from("d 755 0 0 1700000000 - .\nf 644 = = = 9000 first\n");
    (0..400_000).for_each(|n| manifest += &format!("f = = = = 9000 {n:06}\n"));
    fs::write(stage.path("manifest"), manifest).unwrap();
    stage.run(0, &["create", "-q0", "--manifest", "manifest", "-o", "image.shale", "--no-verify"]);
    for more in [&["-f"][..], &[]] {
        let words = [&["mount", "-v", "--view", "kernel", "image.shale", "mnt"], more].concat();
        let mut child = stage.heeding(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("laying out 400002 inodes") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        // A process that ignores the signal fails because of this.
        fs::remove_dir(stage.path("mnt")).unwrap();
        rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let (status, _) = ended(child, || {});
        lines.read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(said.contains("interrupted"), "{said}");
        assert!(!point.is_mounted());
        fs::create_dir(stage.path("mnt")).unwrap();
    }
}

#[test]
fn a_mount_in_use_is_served_to_its_end_after_any_number_of_signals() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let words = ["mount", "-f", "image.shale", "mnt", "-o", "verify=structure"];
    let mut child = stage.heeding(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("mounted on"), "{said}");
    // An open file remains readable. Nothing of it was read, so the kernel has not cached it.
    let mut open = fs::File::open(stage.path("mnt/docs/deep/noise.bin")).unwrap();
    for _ in 0..3 {
        rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        point.becomes(false);
        wait_until("the signal is not handled", || pending_signals(&child) == 0);
    }
    let mut found = Vec::new();
    open.read_to_end(&mut found).unwrap();
    assert!(found == fs::read(stage.path("source/docs/deep/noise.bin")).unwrap());
    drop(open);
    let (status, said) = ended(child, || {});
    assert_eq!(status.code(), Some(0), "{said}");
}

/// The signals that the process has not received yet, as a bit mask.
fn pending_signals(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    u64::from_str_radix(pending.trim(), 16).unwrap()
}

#[test]
fn other_names_of_the_program_behave_as_their_callers_expect() {
    let stage = Stage::new();
    for name in ["mount.shale", "fsck.shale", "mkfs.shale"] {
        symlink(env!("CARGO_BIN_EXE_shale"), stage.path(name)).unwrap();
    }
    let run = |code, name: &str, words: &[&str]| {
        let mut command = Command::new(stage.path(name));
        command.args(words).current_dir(stage.path("")).stdin(Stdio::null());
        expect(code, command)
    };
    run(0, "mkfs.shale", &["-1", "-q", "made.shale", "source"]);
    run(0, "fsck.shale", &["-a", "made.shale"]);
    assert_eq!(stage.text(&["ls", "made.shale", "docs"]), "deep\ntext.txt\n");
    stage.damage_frame();
    run(4, "fsck.shale", &["-n", "image.shale"]);
    run(8, "fsck.shale", &["source/empty"]);
    run(16, "fsck.shale", &["--nonsense"]);
    run(1, "mount.shale", &["--nonsense"]);
    run(1, "mount.shale", &["made.shale", "missing", "-o", "nonsense"]);
    run(1, "mount.shale", &["made.shale", "missing", "-o", "ro,remount"]);
    run(32, "mount.shale", &["made.shale", "missing", "-o", "ro"]);
    run(0, "mount.shale", &["made.shale", "missing", "-sfn", "-o", "ro"]);
    let Some(point) = Point::new(&stage) else { return };
    let options = ["made.shale", "mnt", "-sn", "-o", "rw,nofail,x-systemd.automount"];
    let said = run(0, "mount.shale", &options).stderr;
    let said = String::from_utf8(said).unwrap();
    assert_eq!(said.matches("mounted read-only").count(), 1, "{said}");
    assert_eq!(fs::read(stage.path("mnt/link")).unwrap(), text());
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
}

#[test]
fn a_remount_is_refused_with_a_message() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    // As mount.fuse(8) calls the program.
    stage.fails(2, &["image.shale", "mnt", "-o", "remount,rw"], &["cannot be changed", "umount"]);
    assert!(!point.is_mounted());
    if !is_root() || !Path::new("/sbin/mount.fuse").exists() {
        return;
    }
    stage.run(0, &["mount", "image.shale", "mnt"]);
    // mount(8) sets a path of system directories only, which lacks this build.
    let words = ["image.shale", "mnt", "-t", "fuse.shale", "-o", "remount,ro"];
    let mut mount = stage.other("/sbin/mount.fuse", &words);
    let folder = Path::new(env!("CARGO_BIN_EXE_shale")).parent().unwrap();
    mount.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display()));
    let output = mount.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot be changed"), "{said}");
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
}

#[test]
fn several_images_are_served_by_one_process_and_end_one_by_one() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    fs::create_dir(stage.path("other")).unwrap();
    stage.fails(2, &["mount", "image.shale=mnt", "image.shale"], &["not IMAGE=DIR"]);
    // If one cannot be mounted, none is.
    stage.fails(1, &["mount", "image.shale=mnt", "image.shale=missing"], &["missing"]);
    point.becomes(false);
    let metrics = stage.path("shale.prom");
    let option = format!("idle=1,prefetch=1M,cache=16M,metrics={}", metrics.display());
    stage.run(0, &["mount", "image.shale=mnt", "image.shale=other", "-o", &option]);
    for dir in ["mnt", "other"] {
        assert_eq!(fs::read(stage.path(dir).join("docs/text.txt")).unwrap(), text());
    }
    let counters = fs::read_to_string(&metrics).unwrap();
    for dir in ["mnt", "other"] {
        let label = format!("shale_image_frame_cache_bytes{{mount=\"{}", stage.path(dir).display());
        assert!(counters.contains(&label), "{counters}");
    }
    stage.run(0, &["umount", "other"]);
    assert_eq!(fs::read(stage.path("mnt/docs/text.txt")).unwrap(), text());
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    wait_for_files("the counters outlive the mounts", &stage.path(""), || !metrics.exists());
}

#[test]
fn an_image_can_be_checked_before_it_is_mounted() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let option = |level: &str| format!("verify={level}");
    for level in ["read", "structure", "content"] {
        stage.run(0, &["mount", "image.shale", "mnt", "-o", &option(level)]);
        assert_eq!(fs::read(stage.path("mnt/link")).unwrap(), text());
        stage.run(0, &["umount", "mnt"]);
        point.becomes(false);
    }
    let said = stage.run(0, &["mount", "image.shale", "mnt", "-v", "-o", &option("content")]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("no problem at level content"));
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    fs::create_dir(stage.path("other")).unwrap();
    fs::copy(stage.path("image.shale"), stage.path("whole.shale")).unwrap();
    stage.damage_frame();
    // The tables are intact, so this level finds nothing; every read is verified nevertheless.
    stage.run(0, &["mount", "image.shale", "mnt", "-o", &option("tables")]);
    assert_eq!(fs::read(stage.path("mnt/link")).unwrap(), text());
    assert!(fs::read(stage.path("mnt/docs/deep/noise.bin")).is_err());
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    for level in ["frames", "content"] {
        let option = option(level);
        let parts = ["noise.bin", "not mounted", "shale check"];
        stage.fails(1, &["mount", "image.shale", "mnt", "-o", &option], &parts);
        stage.fails(1, &["mount", "-f", "image.shale", "mnt", "-o", &option], &parts);
        let several = ["mount", "whole.shale=other", "image.shale=mnt", "-o", &option];
        stage.fails(1, &several, &["image.shale is not mounted"]);
    }
    point.becomes(false);
    assert_eq!(fs::read_dir(stage.path("other")).unwrap().count(), 0);
    let fails = |value: &str, parts: &[&str]| {
        stage.fails(1, &["mount", "image.shale", "mnt", "-o", &option(value)], parts);
    };
    let wrong = |value: &str, parts: &[&str]| {
        stage.fails(2, &["mount", "image.shale", "mnt", "-o", &option(value)], parts);
    };
    wrong("off", &["verify=off", "always verified"]);
    wrong("everything", &["verify=everything", "structure, tables, frames and content"]);
    let hash = "0".repeat(64);
    wrong(&hash, &["expect="]);
    // An image that parity can repair is readable, but not intact.
    stage.run(0, &["create", "source", "-o", "image.shale", "-q", "-f", "--parity", "5%"]);
    stage.damage_frame();
    fails("frames", &["noise.bin", "parity can repair it", "not mounted"]);
    stage.run(0, &["mount", "image.shale", "mnt"]);
    let noise = fs::read(stage.path("mnt/docs/deep/noise.bin")).unwrap();
    assert!(noise == fs::read(stage.path("source/docs/deep/noise.bin")).unwrap());
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
    // A wrong identity is reported before anything is mounted.
    let both = format!("verify=structure,expect={hash}");
    stage.fails(1, &["mount", "whole.shale", "mnt", "-o", &both], &["whole.shale"]);
    point.becomes(false);
}
