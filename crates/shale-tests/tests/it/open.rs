//! Promises about finding an image: after a header of another program, from a newer version, not
//! there at all. Each refusal says why in words that lead on.

use shale_read::MemorySource;
use shale_tests::command::{Mount, can_mount, create, expect_code, extract, run, shale};
use shale_tests::fuzz::mend_sums;
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::walk::{facts, small_options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn packed() -> (TempDir, PathBuf, PathBuf) {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(2), &source, 1).unwrap();
    let path = folder.path().join("small.shale");
    create(&source, &path, &[]);
    (folder, source, path)
}

#[test]
fn an_image_behind_a_header_is_found() {
    let (folder, source, path) = packed();
    let expected = Manifest::of(&source).unwrap();
    let image = std::fs::read(path).unwrap();
    for header_len in [1, 1000, 4096, 100_001] {
        let mut bytes = Random::new(header_len).bytes(header_len as usize);
        bytes.extend_from_slice(&image);
        let path = folder.path().join(format!("behind-{header_len}.shale"));
        std::fs::write(&path, bytes).unwrap();
        run(["ls".as_ref(), path.as_os_str()]);
        run(["check".as_ref(), path.as_os_str()]);
        let target = folder.path().join(format!("target-{header_len}"));
        extract(&path, &target);
        expected.assert_equals(&Manifest::of(&target).unwrap(), "extraction");
        if can_mount() {
            let mount = Mount::new(&path, &folder.path().join("mount"), &[]);
            expected.assert_equals(&Manifest::of(mount.path()).unwrap(), "mount");
            mount.end();
        }
    }
}

/// Every command that reads `path` fails with exit code 1 and says each of `words`.
#[track_caller]
fn refused(path: &Path, folder: &Path, words: &[&str]) {
    let (target, mount) = (folder.join("no-target"), folder.join("no-mount"));
    std::fs::create_dir_all(&mount).unwrap();
    let path = path.to_str().unwrap();
    for arguments in [
        vec!["ls", path],
        vec!["cat", path, "d/text"],
        vec!["info", path],
        vec!["extract", path, "-C", target.to_str().unwrap()],
        vec!["mount", path, mount.to_str().unwrap()],
    ] {
        let output = expect_code(&mut shale(&arguments), 1);
        let text = String::from_utf8_lossy(&output.stderr).to_lowercase();
        for word in words {
            assert!(text.contains(word), "{arguments:?} does not say `{word}`:\n{text}");
        }
    }
}

#[test]
fn a_newer_version_is_called_that() {
    let (folder, _, path) = packed();
    let image = std::fs::read(&path).unwrap();
    let newer = |at: usize, value: u8| {
        let mut bytes = image.clone();
        bytes[at] = value;
        mend_sums(&mut bytes);
        bytes
    };
    // Major version, minor version, a bit of the incompatible features.
    for bytes in [newer(8, 1), newer(10, 200), newer(24, 2)] {
        let path = folder.path().join("newer.shale");
        std::fs::write(&path, bytes).unwrap();
        refused(&path, folder.path(), &["newer shale"]);
    }
    // A compatible bit does not matter.
    let path = folder.path().join("compatible.shale");
    std::fs::write(&path, newer(16, 1)).unwrap();
    run(["ls".as_ref(), path.as_os_str()]);
}

#[test]
fn what_is_no_image_is_refused() {
    let (folder, _, path) = packed();
    let image = std::fs::read(&path).unwrap();
    let other = folder.path().join("other.shale");
    for bytes in [Vec::new(), b"hello".to_vec(), Random::new(1).bytes(100_000), vec![0; 4096]] {
        std::fs::write(&other, bytes).unwrap();
        refused(&other, folder.path(), &["not a shale"]);
    }
    refused(&folder.path().join("missing.shale"), folder.path(), &["no such file"]);
    // Cut in the middle: the superblock is right, so this is an image, and it is not whole.
    std::fs::write(&other, &image[..image.len() / 2]).unwrap();
    refused(&other, folder.path(), &["trailer"]);
}

#[test]
fn an_image_inside_an_image_is_not_mistaken() {
    let (folder, source, path) = packed();
    std::fs::copy(&path, source.join("inner.shale")).unwrap();
    let outer = folder.path().join("outer.shale");
    create(&source, &outer, &["-0"]);
    let mut bytes = std::fs::read(&outer).unwrap();
    let whole = facts(Arc::new(MemorySource::new(bytes.clone())), small_options()).unwrap();
    assert_eq!(whole.errors, [""; 0]);
    // Without its own trailer the outer image must not turn into the inner one.
    bytes.truncate(bytes.len() - 128);
    if let Ok(cut) = facts(Arc::new(MemorySource::new(bytes)), small_options()) {
        cut.judge(&whole).unwrap();
    }
}
