//! Promise: same input, same bytes. Whatever the number of threads, the order in which the tree
//! was made and is listed, and whether the output is a file or a pipe.

use shale_tests::command::{create, expect_code, shale};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tree};
use shale_tests::places;
use std::path::Path;

fn tree_in(folder: &Path, order: u64) {
    std::fs::create_dir(folder).unwrap();
    let mut options = Options::for_other_programs(2);
    options.large_directory = 500;
    make(&tree(options), folder, order).unwrap();
}

#[track_caller]
fn assert_same(first: &Path, second: &Path, what: &str) {
    let (first, second) = (std::fs::read(first).unwrap(), std::fs::read(second).unwrap());
    let place = first.iter().zip(&second).position(|(a, b)| a != b);
    assert_eq!(first.len(), second.len(), "{what}: lengths differ, first difference {place:?}");
    assert_eq!(place, None, "{what}: bytes differ");
}

#[test]
fn threads_and_order_do_not_show() {
    for (place, folder) in places::all() {
        let path = |name: &str| folder.path().join(name);
        tree_in(&path("one"), 1);
        tree_in(&path("two"), 99);
        let (one, two) = (Manifest::of(&path("one")).unwrap(), Manifest::of(&path("two")).unwrap());
        one.assert_equals(&two, "the copies are one tree");

        create(&path("one"), &path("a.shale"), &["--threads", "1"]);
        for threads in ["2", "4"] {
            create(&path("one"), &path("b.shale"), &["--threads", threads]);
            assert_same(&path("a.shale"), &path("b.shale"), &format!("{threads} threads, {place}"));
            std::fs::remove_file(path("b.shale")).unwrap();
        }
        create(&path("two"), &path("c.shale"), &[]);
        assert_same(&path("a.shale"), &path("c.shale"), &format!("another order, {place}"));

        let mut command = shale(["create".as_ref(), path("two").as_os_str()]);
        let output = expect_code(command.args(["-o", "-"]), 0);
        std::fs::write(path("d.shale"), output.stdout).unwrap();
        assert_same(&path("a.shale"), &path("d.shale"), &format!("a pipe, {place}"));
    }
}

#[test]
fn every_level_is_reproducible() {
    let folder = places::disk();
    let source = folder.path().join("source");
    tree_in(&source, 7);
    for level in ["-0", "-3", "-6"] {
        let (a, b) = (folder.path().join("a.shale"), folder.path().join("b.shale"));
        create(&source, &a, &[level, "--threads", "1"]);
        create(&source, &b, &[level, "--threads", "3"]);
        assert_same(&a, &b, level);
        std::fs::remove_file(a).unwrap();
        std::fs::remove_file(b).unwrap();
    }
}
