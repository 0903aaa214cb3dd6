//! Promise: what was packed comes back, bit for bit and attribute for attribute, through the
//! library, the mount and the extraction. Tested with the nasty tree, on disk and in memory.

use shale_tests::command::{Mount, can_mount, create, extract, run};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tree};
use shale_tests::{image, places};
use std::path::Path;

#[test]
fn the_nasty_tree_comes_back() {
    for (place, folder) in places::all() {
        let source = folder.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let items = tree(Options::everything(1));
        let made = make(&items, &source, 1).unwrap();
        for line in &made.left_out {
            println!("left out in {place}: {line}");
        }
        let expected = Manifest::of(&source).unwrap();
        // All but what was reported must be there, or this test proves nothing.
        assert!(expected.records.len() + made.left_out.len() >= items.len());
        let path = folder.path().join("nasty.shale");
        create(&source, &path, &[]);
        Manifest::of(&source).unwrap().assert_equals(&expected, "packing changed its source");
        round_trip(&expected, &path, folder.path(), place);
    }
}

/// Compares `expected` with what library, mount and extraction make of the image at `path`.
fn round_trip(expected: &Manifest, path: &Path, folder: &Path, place: &str) {
    let bytes = std::fs::read(path).unwrap();
    let through_library = image::manifest(&bytes).unwrap();
    expected.assert_equals(&through_library, &format!("library, {place}"));
    run(["check".as_ref(), path.as_os_str()]);

    if can_mount() {
        let mount = Mount::new(path, &folder.join("mount"), &[]);
        let through_mount = Manifest::of(mount.path()).unwrap();
        expected.assert_equals(&through_mount, &format!("mount, {place}"));
        mount.end();
    }
    let target = folder.join("extracted");
    extract(path, &target);
    let extracted = Manifest::of(&target).unwrap();
    expected.assert_equals(&extracted, &format!("extraction, {place}"));
}

#[test]
fn an_empty_tree_comes_back() {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let path = folder.path().join("empty.shale");
    create(&source, &path, &[]);
    round_trip(&Manifest::of(&source).unwrap(), &path, folder.path(), "empty");
}

#[test]
fn every_level_brings_the_same_tree_back() {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut options = Options::for_other_programs(5);
    options.large_directory = 50;
    make(&tree(options), &source, 5).unwrap();
    let expected = Manifest::of(&source).unwrap();
    for level in 0..=9 {
        let path = folder.path().join(format!("level-{level}.shale"));
        create(&source, &path, &[&format!("-{level}")]);
        let found = image::manifest(&std::fs::read(&path).unwrap()).unwrap();
        expected.assert_equals(&found, &format!("level {level}"));
    }
}
