//! `make install`: every name lies where those look who call it, and `make uninstall` takes all of
//! it away again.

use std::fs;
use std::path::Path;

use crate::stage::{Stage, expect};

/// `make` of the workspace with this build's command, below a folder of the stage.
fn make(stage: &Stage, target: &str, more: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = stage.other("make", &["-s", "-o", "build", target]);
    command.current_dir(root).args(more);
    command.arg(format!("SHALE={}", env!("CARGO_BIN_EXE_shale")));
    command.arg(format!("DESTDIR={}", stage.path("there").display()));
    // What the one that runs the tests has set is not for this installation.
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

/// Files and links below the folder, as paths in it.
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
    for name in ["mount.shale", "mkfs.shale", "fsck.shale"] {
        let link = fs::read_link(stage.path("there/sbin").join(name)).unwrap();
        assert_eq!(link, Path::new("/usr/local/bin/shale"), "{name}");
    }
    assert!(stage.path("there/usr/local/bin/shale").is_file());
    make(&stage, "uninstall", &[]);
    assert_eq!(installed(&stage.path("there")), [""; 0]);
    // Elsewhere, as packagers have it.
    let there = ["PREFIX=/usr", "SBINDIR=/usr/sbin"];
    make(&stage, "install", &there);
    let link = fs::read_link(stage.path("there/usr/sbin/mount.shale")).unwrap();
    assert_eq!(link, Path::new("/usr/bin/shale"));
    make(&stage, "uninstall", &there);
    assert_eq!(installed(&stage.path("there")), [""; 0]);
}
