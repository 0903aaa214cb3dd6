//! Promise: an archive that is not what it should be never hangs, never becomes an image that
//! `check` refuses, and is refused with its path cut and its problems counted.

use rustix::process::{Pid, Signal};
use shale_tests::command::{create, expect_code, run, shale};
use shale_tests::image::manifest_at;
use shale_tests::places;
use shale_tests::tar::Tar;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Packs `source` and returns what the command said.
#[track_caller]
fn pack(source: &Path, image: &Path, more: &[&str], code: i32) -> String {
    let mut command = shale(["create"]);
    command.arg(source).arg("-fo").arg(image).args(more);
    let output = expect_code(&mut command, code);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_a_reader_refuses_is_not_written() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let many: Vec<(String, &[u8])> =
        (0..70_000).map(|n| (format!("SCHILY.xattr.user.{n}"), &b""[..])).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, value)| (&name[..], *value)).collect();
    let name = |len: usize| format!("SCHILY.xattr.user.{}", "n".repeat(len - 5));
    let (longest_path, long_path) = (vec!["p"; 8192].join("/"), vec!["p"; 8193].join("/"));
    let (longest_name, long_name) = ("n".repeat(255), "n".repeat(256));
    let (longest_target, long_target) = ("t".repeat(4095), "t".repeat(4096));
    let (longest_xattr, long_xattr) = (name(255), name(256));
    let value = vec![b'v'; 65_537];
    // What is at a limit, what is beyond it, and how that is called.
    type Records<'a> = &'a [(&'a str, &'a [u8])];
    let cases: &[(Records<'_>, Records<'_>, u8, &str)] = &[
        (&many[..65_536], &many, b'0', "70000 extended attributes, 65536 allowed"),
        (
            &[("path", longest_name.as_bytes())],
            &[("path", long_name.as_bytes())],
            b'0',
            "name of 256",
        ),
        (
            &[("path", longest_path.as_bytes())],
            &[("path", long_path.as_bytes())],
            b'0',
            "16384 bytes",
        ),
        (
            &[("linkpath", longest_target.as_bytes())],
            &[("linkpath", long_target.as_bytes())],
            b'2',
            "link target of 4096",
        ),
        (&[(&longest_xattr, b"")], &[(&long_xattr, b"")], b'0', "attribute of 256"),
        (
            &[("SCHILY.xattr.user.a", &value[1..])],
            &[("SCHILY.xattr.user.a", &value)],
            b'0',
            "and 65537 bytes",
        ),
    ];
    for (at_limit, beyond, type_flag, words) in cases {
        let archive = |records| {
            Tar::default().records(records).entry("x", *type_flag, b"").entry("kept", b'0', b"y")
        };
        fs::write(path("x.tar"), archive(at_limit).bytes()).unwrap();
        create(&path("x.tar"), &path("x.shale"), &["-f1", "--no-verify"]);
        run(["check".as_ref(), path("x.shale").as_os_str()]);
        fs::write(path("x.tar"), archive(beyond).bytes()).unwrap();
        let text =
            pack(&path("x.tar"), &path("x.shale"), &["-1", "--no-verify", "--skip-unreadable"], 3);
        assert!(text.contains(words), "`{words}`: {text}");
        run(["check".as_ref(), path("x.shale").as_os_str()]);
        assert_eq!(manifest_at(&path("x.shale")).records.len(), 2);
    }
}

#[test]
fn a_directory_deeper_than_paths_may_be_is_named_and_the_rest_comes() {
    let Some(folder) = places::memory() else { return };
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("source")).unwrap();
    fs::write(path("source/kept"), "x").unwrap();
    let mut at =
        rustix::fs::open(path("source"), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
            .unwrap();
    let deeper = |at: &std::os::fd::OwnedFd| {
        rustix::fs::mkdirat(at, "d", rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        rustix::fs::openat(at, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap()
    };
    for _ in 0..20_000 {
        at = deeper(&at);
    }
    let text = pack(&path("source"), &path("x.shale"), &["-1", "--skip-unreadable"], 3);
    // The standard library removes by recursion. The kernel takes its time while the deepest one
    // is open.
    drop(at);
    expect_code(Command::new("rm").arg("-rf").arg(path("source")), 0);
    assert!(text.contains("... (16385 bytes): path of 16385 bytes, 16384 allowed"), "{text}");
    assert!(text.lines().all(|line| line.len() < 1200), "{text}");
    run(["check".as_ref(), path("x.shale").as_os_str()]);
    let info = run(["info".as_ref(), "--json".as_ref(), path("x.shale").as_os_str()]);
    let info = String::from_utf8(info.stdout).unwrap().replace(' ', "");
    assert!(info.contains(&format!("\"entries\":{}", 1 + 8192)), "{info}");
}

#[test]
fn problems_of_one_kind_are_counted() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let mut tar = Tar::default().entry("file", b'0', b"");
    for n in 0..598 {
        tar = tar.entry(&format!("file/{n}"), b'0', b"");
    }
    fs::write(path("x.tar"), tar.entry("kept", b'0', b"").bytes()).unwrap();
    let text = pack(&path("x.tar"), &path("x.shale"), &["--skip-unreadable"], 3);
    assert!(text.lines().count() < 30, "{text}");
    assert!(text.contains("and 578 more: it lies below file, which is a file"), "{text}");
    let text = pack(&path("x.tar"), &path("x.shale"), &[], 1);
    assert!(
        text.contains("598 entries could not be read") && text.contains("and 578 more"),
        "{text}"
    );
    assert!(text.lines().count() < 30, "{text}");
}

#[test]
fn a_pipe_that_nobody_writes_to_can_be_left() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("temporary")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    // Under nohup and in the background of a shell, commands ignore some, as they should.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let is_heeded = |signal: &Signal| ignored >> (signal.as_raw() - 1) & 1 == 0;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().filter(is_heeded) {
        let mut command = shale(["create", "--temp-dir"]);
        command.arg(path("temporary")).arg(path("fifo")).arg("-o").arg(path("x.shale"));
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        // It opens its temporary file right before it waits for the pipe.
        let files = format!("/proc/{}/fd", child.id());
        let is_waiting = || {
            let links = fs::read_dir(&files).into_iter().flatten().flatten();
            links
                .filter_map(|link| fs::read_link(link.path()).ok())
                .any(|to| to.starts_with(path("temporary")))
        };
        while !is_waiting() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert!(!path("x.shale").exists());
    }
}
