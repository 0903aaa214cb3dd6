//! Promise: a driver that root started has given up what it does not need before it reads an image,
//! in every thread, in both views; and it still serves, counts and unmounts.

use shale_tests::command::{Mount, can_mount, create, is_root, run, shale};
use shale_tests::{places, wait};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Bits of the capabilities that are kept (capability.h): to reach files of others, and to mount.
const KEPT: u64 = 1 << 1 | 1 << 2 | 1 << 21;

/// The process that serves `image`.
fn driver_of(image: &Path) -> u32 {
    let wanted = image.as_os_str().as_encoded_bytes();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            words.contains(&b"--ready".as_slice()) && words.contains(&wanted)
        })
        .expect("a process serves the image")
}

/// A line of the status of each thread.
fn of_threads(pid: u32, field: &str) -> Vec<String> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            line.trim().to_owned()
        })
        .collect()
}

#[test]
fn a_driver_of_root_keeps_only_what_it_needs() {
    if !is_root() {
        println!("skipped: there is nothing to drop without root");
        return;
    }
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "some bytes").unwrap();
    let image = folder.path().join("image");
    create(&source, &image, &[]);
    for view in ["fuse", "kernel"] {
        let point = folder.path().join(view);
        fs::create_dir(&point).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = shale([OsStr::new("mount"), image.as_os_str(), point.as_os_str()]);
        let options = ["-v", "--view", view, "-o", "threads=3"];
        let command = command.args(options).stdout(Stdio::null()).stderr(log);
        let status = command.status().unwrap();
        let said = fs::read_to_string(folder.path().join("log")).unwrap();
        if !status.success() && said.contains("the kernel view is not possible") {
            println!("skipped: {said}");
            continue;
        }
        assert!(status.success(), "{said}");
        let mount = Mount::adopt(&point);
        let pid = driver_of(&image);
        assert_eq!(fs::read_to_string(point.join("file")).unwrap(), "some bytes");
        assert!(of_threads(pid, "NoNewPrivs:").iter().all(|flag| flag == "1"));
        let threads = of_threads(pid, "CapEff:");
        assert!(threads.len() >= 3, "{threads:?}");
        for field in ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:"] {
            for set in of_threads(pid, field) {
                let set = u64::from_str_radix(&set, 16).unwrap();
                assert_eq!(set & !KEPT, 0, "{field} {set:x}");
            }
        }
        let said = fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(said.contains("capabilities: cap_") && said.contains("privileges: "), "{said}");
        run([OsStr::new("stats"), point.as_os_str()]);
        mount.end();
        wait::for_end(pid);
    }
}
