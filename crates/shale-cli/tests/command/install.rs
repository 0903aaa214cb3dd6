//! `make install` installs each program name where its callers look for it, and `make uninstall`
//! removes everything again.

use std::fs;
use std::path::Path;

use crate::stage::{Stage, expect};

/// Runs `make` in the workspace with the command under test, below a directory of the stage.
fn make(stage: &Stage, target: &str, more: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = stage.other("make", &["-s", "-o", "build", target]);
    command.current_dir(root).args(more);
    command.arg(format!("SHALE={}", env!("CARGO_BIN_EXE_shale")));
    command.arg(format!("DESTDIR={}", stage.path("there").display()));
    // The environment of the tests must not change the installation.
    for name in ["PREFIX", "SBINDIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    if stage.other("make", &["--version"]).output().is_err() {
        println!("skipped: there is no make");
        return false;
    }
    expect(0, command);
    true
}

/// Relative paths of all files and links below a directory.
fn installed(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let path = entry.path();
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn helpers_are_installed_where_mount_looks_for_them() {
    let stage = Stage::without_image();
    if !make(&stage, "install", &[]) {
        return;
    }
    for name in ["mount.shale", "mount.fuse.shale", "mkfs.shale", "fsck.shale"] {
        let link = fs::read_link(stage.path("there/sbin").join(name)).unwrap();
        assert_eq!(link, Path::new("/usr/local/bin/shale"), "{name}");
    }
    assert!(stage.path("there/usr/local/bin/shale").is_file());
    make(&stage, "uninstall", &[]);
    assert_eq!(installed(&stage.path("there")), [""; 0]);
    // The directories that packages use.
    let there = ["PREFIX=/usr", "SBINDIR=/usr/sbin"];
    make(&stage, "install", &there);
    let link = fs::read_link(stage.path("there/usr/sbin/mount.shale")).unwrap();
    assert_eq!(link, Path::new("/usr/bin/shale"));
    make(&stage, "uninstall", &there);
    assert_eq!(installed(&stage.path("there")), [""; 0]);
}
