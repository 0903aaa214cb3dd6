//! Promise: bad input ends in a message that names what is wrong, the documented exit code, no
//! partial file under the final name and no stale mount.

use rustix::process::{Pid, Signal};
use shale_tests::command::{
    as_nobody, can_mount, create, expect_code, has_program, is_mount, is_root, run, shale,
    shale_path,
};
use shale_tests::model::{Data, Item, Kind, make};
use shale_tests::nasty::tiny_tree;
use shale_tests::{image, places, wait};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const PARTIAL: i32 = 3;
const INTERRUPTED: i32 = 130;

fn source_in(folder: &Path) -> PathBuf {
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    make(&tiny_tree(4), &source, 1).unwrap();
    source
}

/// Runs `command`, expects `code` and each of `words` in what it says.
#[track_caller]
fn says(command: &mut Command, code: i32, words: &[&str]) {
    let output = expect_code(command, code);
    let text = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(text.contains(word), "{command:?} does not say `{word}`:\n{text}");
    }
}

/// Nothing is in `folder` but `names`: no image, no temporary file.
#[track_caller]
fn only(folder: &Path, names: &[&str]) {
    let mut found: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, names, "in {}", folder.display());
}

fn create_command(source: &Path, image: &Path) -> Command {
    let mut command = shale(["create".as_ref(), source.as_os_str()]);
    command.arg("-o").arg(image);
    command
}

#[test]
fn a_source_that_is_missing_is_named() {
    let folder = places::disk();
    let image = folder.path().join("out.shale");
    let missing = folder.path().join("missing");
    says(&mut create_command(&missing, &image), FAILED, &["missing", "No such file"]);
    only(folder.path(), &[]);
    says(&mut shale(["create"]), USAGE, &["Usage"]);
    says(&mut shale(["no-such-command"]), USAGE, &["no-such-command"]);
}

#[test]
fn unreadable_files_are_named_or_skipped_on_request() {
    let folder = places::disk();
    let source = source_in(folder.path());
    fs::set_permissions(&source, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(source.join("empty"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(source.join("d/random"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(source.join("d/empty"), Permissions::from_mode(0o000)).unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o777)).unwrap();
    let image = out.join("out.shale");
    let command = create_command(&source, &image);
    let Some(mut nobody) = as_nobody(folder.path(), &command) else { return };
    says(&mut nobody, FAILED, &["empty", "random", "Permission denied"]);
    only(&out, &[]);
    nobody.arg("--skip-unreadable");
    says(&mut nobody, PARTIAL, &["empty", "random", "Permission denied"]);
    only(&out, &["out.shale"]);
    let manifest = image::manifest(&fs::read(&image).unwrap()).unwrap();
    assert!(manifest.records.contains_key(b"d/text".as_slice()));
    assert!(!manifest.records.contains_key(b"d/random".as_slice()));
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let folder = places::disk();
    let source = source_in(folder.path());
    let nowhere = folder.path().join("no/such/folder/out.shale");
    says(&mut create_command(&source, &nowhere), FAILED, &["no/such/folder"]);
    let directory = folder.path().join("a-directory");
    fs::create_dir(&directory).unwrap();
    let code = expect_any_failure(&mut create_command(&source, &directory));
    assert!(code == FAILED || code == USAGE);
    only(&directory, &[]);
    only(folder.path(), &["a-directory", "source"]);
}

#[track_caller]
fn expect_any_failure(command: &mut Command) -> i32 {
    let output = command.output().unwrap();
    assert!(!output.stderr.is_empty(), "{command:?} says nothing");
    let code = output.status.code().expect("it ends by itself");
    assert_ne!(code, 0, "{command:?}");
    code
}

#[test]
fn a_full_disk_leaves_no_file() {
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), Data::Random(1, 3 << 20).bytes()).unwrap();
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    // A disk of one MiB. Without the right to mount, a device that is always full must do.
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&small);
    if mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        let mut command = create_command(&source, &small.join("out.shale"));
        let output = command.output().unwrap();
        let left = fs::read_dir(&small).unwrap().count();
        let umount = Command::new("umount").arg(&small).status().unwrap();
        assert!(umount.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(FAILED), "{text}");
        assert!(text.contains("No space left"), "{text}");
        assert_eq!(left, 0, "a partial file stays behind");
    } else {
        println!("skipped: a small disk needs the right to mount");
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = create_command(&source, Path::new("-"));
    command.stdout(full);
    says(&mut command, FAILED, &["No space left"]);
}

/// A manifest of entries that need temporary files where memory is short: names without order,
/// inodes with two names, or attributes that differ.
fn large_manifest(what: &str) -> String {
    let mut lines = String::from("d 755 0 0 0 - .\n");
    for number in 0..60_000u64 {
        let name = scrambled(number);
        let line = match what {
            "names" => format!("f 644 0 0 0 0 {name}{name}\n"),
            "links" => format!("f#{number} 644 0 0 0 0 {number}\nf#{number} 644 0 0 0 0 {name}\n"),
            _ => format!("f 644 0 0 0 0 {number}\nx user.sum {name}{name}\n"),
        };
        lines += &line;
    }
    lines
}

/// What looks like chance, in 32 characters.
fn scrambled(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    format!("{:016x}{:016x}", next(), next())
}

#[test]
fn a_full_disk_of_names_leaves_no_file() {
    let folder = places::disk();
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=512k", "none"]).arg(&small);
    if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: a small disk needs the right to mount");
        return;
    }
    let mut ends = Vec::new();
    for what in ["names", "links", "attributes", "output"] {
        let manifest = folder.path().join(what);
        fs::write(&manifest, large_manifest(what)).unwrap();
        let is_output = what == "output";
        let image = if is_output { &small } else { folder.path() }.join("out.shale");
        let mut command =
            shale(["create", "-1", "--threads", "1", "--memory", "60M", "--manifest"]);
        command.arg(&manifest).arg("-o").arg(&image);
        command.arg("--temp-dir").arg(if is_output { folder.path() } else { &small });
        let output = command.output().unwrap();
        let left = fs::read_dir(&small).unwrap().count();
        fs::remove_file(manifest).unwrap();
        ends.push((what, is_output, output, left, image.exists()));
    }
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    for (what, is_output, output, left, exists) in ends {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(FAILED), "{what}: {text}");
        assert!(text.contains("No space left"), "{what}: {text}");
        assert_eq!(text.contains("temporary file"), !is_output, "{what}: {text}");
        // The folder that is full, and what to do.
        let named = [small.to_str().unwrap(), "--temp-dir"];
        assert!(is_output || named.iter().all(|words| text.contains(words)), "{what}: {text}");
        assert!(left == 0 && !exists, "{what}: a partial file stays behind");
    }
    only(folder.path(), &["small"]);
}

#[test]
fn an_image_never_contains_itself() {
    let folder = places::disk();
    let source = source_in(folder.path());
    let image = source.join("self.shale");
    let output = create_command(&source, &image).output().unwrap();
    match output.status.code() {
        Some(0) => {
            let manifest = image::manifest(&fs::read(&image).unwrap()).unwrap();
            let itself = manifest.records.keys().any(|p| p.ends_with(b".shale"));
            assert!(!itself, "the image holds itself");
        }
        code => {
            assert_eq!(code, Some(FAILED));
            assert!(String::from_utf8_lossy(&output.stderr).contains("self.shale"));
            assert!(!image.exists());
        }
    }
}

/// Whether a process has written to a file in `folder`, with or without a name.
#[test]
fn an_interrupted_build_leaves_nothing() {
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    let items: Vec<Item> = (0..40)
        .map(|index| Item {
            path: format!("file-{index}").into_bytes(),
            kind: Kind::File { len: 2 << 20, pieces: vec![(0, Data::Random(index, 2 << 20))] },
            mode: 0o644,
            owner: None,
            mtime: (0, 0),
            xattrs: Vec::new(),
        })
        .collect();
    make(&items, &source, 1).unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut command = create_command(&source, &out.join("out.shale"));
    // The slowest level, so that the signal comes in the middle of the work.
    command.args(["-9", "--threads", "1"]).stderr(Stdio::null());
    let mut child = wait::for_write(&mut command, &out);
    assert!(child.try_wait().unwrap().is_none(), "the build is too fast for this test");
    let pid = Pid::from_child(&child);
    // Not SIGINT: a test in the background may have it ignored, and so has then the command.
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(INTERRUPTED), "{status}");
    only(&out, &[]);
}

#[test]
fn a_mount_point_that_is_missing_or_busy_is_named() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = source_in(folder.path());
    let image = folder.path().join("out.shale");
    create(&source, &image, &[]);
    let mount = |point: &Path| shale(["mount".as_ref(), image.as_os_str(), point.as_os_str()]);
    let missing = folder.path().join("no-such-point");
    says(&mut mount(&missing), FAILED, &["no-such-point"]);
    let file = folder.path().join("a-file");
    fs::write(&file, b"x").unwrap();
    says(&mut mount(&file), FAILED, &["a-file"]);
    assert!(!is_mount(&missing) && !is_mount(&file));
    says(&mut shale(["umount".as_ref(), folder.path().as_os_str()]), FAILED, &["not"]);
}

#[test]
fn an_ordinary_user_can_mount() {
    if !can_mount() || !has_program("unshare") {
        return;
    }
    let folder = places::disk();
    let source = source_in(folder.path());
    let image = folder.path().join("out.shale");
    create(&source, &image, &[]);
    fs::set_permissions(&image, Permissions::from_mode(0o644)).unwrap();
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    std::os::unix::fs::chown(&point, Some(65534), Some(65534)).unwrap_or(());
    let command = shale(["mount".as_ref(), image.as_os_str(), point.as_os_str()]);
    let Some(nobody) = as_nobody(folder.path(), &command) else { return };
    // A device that everybody may open, as on most machines, for this process and its children
    // alone: this machine's may belong to root.
    let script = "set -e; fuse=$1; point=$2; shift 2
        mknod -m 666 $fuse c 10 229; mount --bind $fuse /dev/fuse
        \"$@\"
        setpriv --reuid=65534 --regid=65534 --clear-groups cat $point/d/text
        setpriv --reuid=65534 --regid=65534 --clear-groups $5 umount $point
        ! mountpoint -q $point";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", "sh", "-c", script, "sh"]);
    command.arg(folder.path().join("fuse")).arg(&point).arg("setpriv").args(nobody.get_args());
    let output = expect_code(command.stdin(Stdio::null()), 0);
    assert_eq!(output.stdout, fs::read(source.join("d/text")).unwrap());
}

#[test]
fn a_machine_without_fuse_is_told_so() {
    if !is_root() || !has_program("unshare") {
        println!("skipped: hiding /dev/fuse needs root and unshare");
        return;
    }
    // Not below /dev, wherever TMPDIR leads.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let source = source_in(folder.path());
    let image = folder.path().join("out.shale");
    create(&source, &image, &[]);
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    // A /dev without it that only this process and its children see.
    let script = "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && \
                  exec \"$0\" mount \"$1\" \"$2\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", "sh", "-c", script]);
    command.arg(shale_path()).arg(&image).arg(&point).stdin(Stdio::null());
    says(&mut command, FAILED, &["/dev/fuse"]);
    run(["ls".as_ref(), image.as_os_str()]);
}
