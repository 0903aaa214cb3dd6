//! Promise: an image that a released version wrote is read by every later one, for ever.
//!
//! Beside each image under `testdata/images` lies the manifest of the tree it was made of. Images
//! and manifests are never edited; `make golden` only adds those of a new format version.

use shale::{CheckOptions, NoProgress, RepairOptions, check, repair};
use shale_read::MemorySource;
use shale_tests::image;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Every golden image; tidy compares this list with the folder.
const IMAGES: [&str; 8] = [
    "0.1-tiny.shale",
    "0.1-metadata.shale",
    "0.1-contents.shale",
    "0.2-tiny.shale",
    "0.2-parity.shale",
    "0.3-tiny.shale",
    "0.3-parity.shale",
    "0.3-lines.shale",
];

/// Of the tree of both images of 0.2.
const IDENTITY: &str = "f8ac9382b58aa8db0452df67764359f40055b19916dab846b70a1b930f55eebc";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images")
}

#[test]
fn golden_images_hold_what_they_held() {
    for name in IMAGES {
        let bytes = fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let manifest = folder().join(name.replace(".shale", ".manifest"));
        let expected = fs::read_to_string(manifest).unwrap();
        let found = image::manifest(&bytes).unwrap().to_string();
        for (line, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
            assert_eq!(found, expected, "{name}, line {}", line + 1);
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{name}: entries");
        let source = Arc::new(MemorySource::new(bytes));
        let report = check(source, &CheckOptions::default(), &NoProgress).unwrap();
        assert!(report.is_clean(), "{name}: {:?}", report.problems);
    }
}

#[test]
fn golden_parity_restores_and_golden_identities_stay() {
    let path = folder().join("0.2-parity.shale");
    let whole = fs::read(&path).unwrap();
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("damaged"), place.path().join("repaired"));
    let mut damaged = whole.clone();
    damaged[..3000].fill(0);
    fs::write(&from, damaged).unwrap();
    repair(&from, &to, &RepairOptions::default(), &NoProgress).unwrap();
    assert!(fs::read(&to).unwrap() == whole, "a repaired image is not what was written");
    // The identity is the same with parity and without, and is what it was.
    for name in ["0.2-parity.shale", "0.2-tiny.shale"] {
        let bytes = fs::read(folder().join(name)).unwrap();
        let identity = image::open(&bytes).unwrap().identity().unwrap().unwrap().1;
        assert_eq!(identity.to_string(), IDENTITY, "{name}");
    }
}

#[test]
fn every_golden_image_is_in_the_list() {
    let mut found: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".shale"))
        .collect();
    found.sort();
    let mut listed = IMAGES.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed);
}
