//! Promise: what parity does not cover is not given up: a lost superblock, trailer or root is made
//! anew or replaced.

use shale_tests::command::{create, expect_code, shale};
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::{image, places};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Offset, length and type of each section of an image.
fn sections(bytes: &[u8]) -> Vec<(usize, usize, u8)> {
    let mut found = Vec::new();
    let mut at = 64;
    while at < bytes.len() {
        let len = u64::from_le_bytes(*bytes[at + 24..].first_chunk().unwrap()) as usize + 64;
        found.push((at, len, bytes[at + 8]));
        at += len;
    }
    found
}

fn salvage(from: &Path, to: &Path) -> std::process::Command {
    let words = [OsStr::new("repair"), OsStr::new("--salvage"), from.as_os_str()];
    let mut command = shale(words);
    command.arg("-f").arg("-o").arg(to);
    command
}

#[test]
fn what_leads_to_the_rest_is_made_anew() {
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    make(&tiny_tree(1), &source, 1).unwrap();
    let path = folder.path().join("image");
    create(&source, &path, &[]);
    let bytes = fs::read(&path).unwrap();
    let truth = image::manifest(&bytes).unwrap();
    let sections = sections(&bytes);
    let roots: Vec<usize> =
        sections.iter().filter(|section| section.2 == 3).map(|section| section.0).collect();
    assert_eq!(roots.len(), 2, "a root and its copy");
    let (trailer, _, kind) = *sections.last().unwrap();
    assert_eq!(kind, 8);
    let zeroed = |ranges: &[(usize, usize)]| {
        let mut damaged = bytes.clone();
        ranges.iter().for_each(|&(from, len)| damaged[from..from + len].fill(0));
        damaged
    };
    let cases = [
        ("superblock", zeroed(&[(0, 64)])),
        ("trailer", zeroed(&[(trailer, 128)])),
        ("end", bytes[..trailer + 100].to_vec()),
        ("superblock and trailer", zeroed(&[(0, 64), (trailer, 128)])),
        ("root", zeroed(&[(roots[0] + 70, 20)])),
        ("second root", zeroed(&[(roots[1] + 70, 20)])),
        ("root and end", zeroed(&[(roots[0], 64)])[..trailer].to_vec()),
        ("superblock and root", zeroed(&[(0, 64), (roots[0] + 70, 20)])),
    ];
    let (damaged, output) = (folder.path().join("damaged"), folder.path().join("output"));
    for (what, bytes) in cases {
        fs::write(&damaged, &bytes).unwrap();
        let _ = fs::remove_file(&output);
        let mut plain = shale([OsStr::new("repair"), damaged.as_os_str()]);
        expect_code(plain.arg("-o").arg(&output), 1);
        assert!(!output.exists(), "{what}: nothing is made unless it is whole");
        let status = salvage(&damaged, &output).output().unwrap();
        let code = status.status.code();
        let said = String::from_utf8_lossy(&status.stderr).into_owned();
        assert!(matches!(code, Some(0 | 3)), "{what}: {code:?} {said}");
        let found = fs::read(&output).unwrap();
        truth.assert_equals(&image::manifest(&found).unwrap(), what);
    }
    // Without any root there is nothing to go on from, and that is said.
    fs::write(&damaged, zeroed(&[(roots[0] + 70, 20), (roots[1] + 70, 20)])).unwrap();
    let _ = fs::remove_file(&output);
    let failed = expect_code(&mut salvage(&damaged, &output), 1);
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no root is left"));
    assert!(!output.exists());
}

#[test]
fn the_second_root_serves_readers_with_a_warning() {
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    make(&tiny_tree(1), &source, 1).unwrap();
    let path = folder.path().join("image");
    create(&source, &path, &[]);
    let mut bytes = fs::read(&path).unwrap();
    let truth = image::manifest(&bytes).unwrap();
    let root = sections(&bytes).iter().find(|section| section.2 == 3).unwrap().0;
    bytes[root + 80] ^= 1;
    truth.assert_equals(&image::manifest(&bytes).unwrap(), "the second root");
    fs::write(&path, &bytes).unwrap();
    let output = expect_code(&mut shale([OsStr::new("ls"), path.as_os_str()]), 0);
    assert!(String::from_utf8_lossy(&output.stderr).contains("second root"));
    expect_code(&mut shale([OsStr::new("check"), path.as_os_str()]), 4);
}
