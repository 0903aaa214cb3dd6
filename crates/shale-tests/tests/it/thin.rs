//! Promise: a thin image is what an append adds, at every level and of trees that are hard to keep;
//! a delta gives every machine the same image; a kill leaves the file before or the new one.

use std::path::{Path, PathBuf};

use shale_read::files::{Bases, FilePlace, Place, gather, open_file};
use shale_read::{Image, Options as ReadOptions, SnapshotChoice};
use shale_tests::command::{create, expect_code, extract, run, shale};
use shale_tests::image;
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tiny_tree, tree};
use shale_tests::places;
use shale_tests::second_reader::thin::join;
use shale_tests::wait;
use tempfile::TempDir;

/// A folder with `source`, and `base.shale` of an earlier state of it.
fn stage(level: &str, large: usize) -> (TempDir, PathBuf) {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut options = Options::for_other_programs(5);
    options.large_directory = large;
    make(&tree(options), &source, 5).unwrap();
    create(&source, &folder.path().join("base.shale"), &[level]);
    let text: String = (0..9000).map(|n| format!("line {n} of a log\n")).collect();
    std::fs::write(source.join("new"), &text).unwrap();
    std::fs::write(source.join("changing"), &text[..100_000]).unwrap();
    std::fs::create_dir(source.join("directory")).unwrap();
    std::fs::hard_link(source.join("new"), source.join("directory/link")).unwrap();
    (folder, source)
}

fn command(words: &[&str], folder: &Path) -> std::process::Command {
    let mut command = shale(words);
    command.current_dir(folder);
    command
}

#[test]
fn thin_images_are_what_an_append_adds() {
    assert_thin_is_what_is_added(&["-6"]);
}

/// Compares thin images with appends of the same tree at each of these levels.
pub fn assert_thin_is_what_is_added(levels: &[&str]) {
    for &level in levels {
        let (folder, source) = stage(level, 40);
        let at = |name: &str| folder.path().join(name);
        let words = ["create", "source", level, "--base", "base.shale", "-o", "thin.shale"];
        expect_code(&mut command(&words, folder.path()), 0);
        std::fs::copy(at("base.shale"), at("grown.shale")).unwrap();
        let words = ["append", "grown.shale", "source", level, "--snapshot", ""];
        expect_code(&mut command(&words, folder.path()), 0);
        let read = |name: &str| std::fs::read(at(name)).unwrap();
        let (base, thin, grown) = (read("base.shale"), read("thin.shale"), read("grown.shale"));
        assert!(thin.ends_with(&grown[base.len()..]), "{level}: an append adds something else");
        assert!(join(&thin, &base).unwrap() == grown, "{level}: by the specification");
        let expected = Manifest::of(&source).unwrap();
        extract(&at("thin.shale"), &at("out"));
        expected.assert_equals(&Manifest::of(&at("out")).unwrap(), "the extracted thin image");
        run(["check".as_ref(), at("thin.shale").as_os_str()]);
        // In one tenth more than an append adds, however little that is.
        let added = grown.len() - base.len();
        assert!(thin.len() * 10 <= added * 11, "{level}: {} for {added} bytes", thin.len());
    }
}

#[test]
fn deltas_between_images_give_their_tree_and_one_identity() {
    let (folder, source) = stage("-6", 60);
    let at = |name: &str| folder.path().join(name);
    create(&source, &at("new.shale"), &["-3", "--keep-times", "atime,ctime"]);
    let words = ["delta", "base.shale", "new.shale", "-o", "delta"];
    expect_code(&mut command(&words, folder.path()), 0);
    // Twice, with other numbers of threads: the same bytes.
    let words = ["delta", "base.shale", "new.shale", "-o", "again", "--threads", "1"];
    expect_code(&mut command(&words, folder.path()), 0);
    let read = |name: &str| std::fs::read(at(name)).unwrap();
    assert!(read("delta") == read("again"), "the number of threads shows");
    for output in ["one", "two"] {
        let words = ["patch", "base.shale", "delta", "-o", output];
        expect_code(&mut command(&words, folder.path()), 0);
    }
    assert!(read("one") == read("two"));
    let (patched, new) = (image::manifest(&read("one")), image::manifest(&read("new.shale")));
    new.unwrap().assert_equals(&patched.unwrap(), "the tree of the patched image");
    // Machines that compact what they patched have one image again.
    std::fs::copy(at("base.shale"), at("here")).unwrap();
    expect_code(&mut command(&["patch", "here", "delta"], folder.path()), 0);
    for (from, to) in [("one", "small-1"), ("here", "small-2")] {
        let words = ["compact", from, "--keep", "latest", "-o", to];
        expect_code(&mut command(&words, folder.path()), 0);
    }
    assert!(read("small-1") == read("small-2"));
}

#[test]
fn a_base_behind_a_header_is_a_base() {
    let (folder, source) = stage("-1", 0);
    let at = |name: &str| folder.path().join(name);
    let base = std::fs::read(at("base.shale")).unwrap();
    // As in a program that carries its image, with a page of zeroes at its end.
    let carried = [&vec![0x7f; 5000][..], &base, &[0; 300]].concat();
    std::fs::write(at("program"), &carried).unwrap();
    let words = ["create", "source", "--base", "program", "-o", "thin.shale"];
    expect_code(&mut command(&words, folder.path()), 0);
    let found = Image::open_path(at("thin.shale")).unwrap();
    let tree = found.tree(&SnapshotChoice::Newest).unwrap();
    let expected = Manifest::of(&source).unwrap();
    expected.assert_equals(&image::manifest_of(&tree).unwrap(), "over a base after a header");
    run(["check".as_ref(), at("thin.shale").as_os_str()]);
    // The same image without the header fits as well.
    std::fs::write(at("program"), &base).unwrap();
    run(["check".as_ref(), at("thin.shale").as_os_str()]);
    std::fs::remove_file(at("program")).unwrap();
    let words = ["check", "thin.shale", "--base", "base.shale"];
    expect_code(&mut command(&words, folder.path()), 0);
}

#[test]
fn opening_a_thin_image_costs_a_few_reads_whatever_its_size() {
    let (folder, _source) = stage("-1", 300);
    let words = ["create", "source", "--base", "base.shale", "-o", "thin.shale"];
    expect_code(&mut command(&words, folder.path()), 0);
    let found = open_file(folder.path().join("thin.shale")).unwrap();
    assert_eq!(found.base.as_ref().map(|base| base.depth()), Some(1));
    let image = Image::open(found.source, ReadOptions::default()).unwrap();
    // As an image in one file: superblock, trailer and root, and the root of the base.
    assert_eq!(image.counters().snapshot().source_reads, 4);
    assert_eq!(image.snapshots().len(), 2);
}

#[test]
fn a_hostile_name_leads_nowhere_else() {
    // A head whose name was changed to lead out of the directory, with its sums made right.
    let (folder, _source) = stage("-1", 0);
    let at = |name: &str| folder.path().join(name);
    let words = ["create", "source", "--base", "base.shale", "-o", "thin.shale"];
    expect_code(&mut command(&words, folder.path()), 0);
    std::fs::create_dir(at("below")).unwrap();
    let thin = std::fs::read(at("thin.shale")).unwrap();
    for name in [&b"../base.sh"[..], b"/etc/passw", b"..\0base.sh", b"base.shal\0"] {
        let mut bytes = thin.clone();
        bytes[176..176 + name.len()].copy_from_slice(name);
        shale_tests::fuzz::mend_sums(&mut bytes);
        std::fs::write(at("below/thin.shale"), &bytes).unwrap();
        let place = FilePlace::new(at("below/thin.shale"));
        let Err(error) = gather(place.open().unwrap(), &place, &Bases::default()) else {
            panic!("{} was followed", name.escape_ascii());
        };
        assert!(error.to_string().contains("name is"), "{error}");
    }
}

#[test]
fn kills_of_delta_and_patch_leave_the_file_before_or_the_new_one() {
    let folder = places::disk();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("source")).unwrap();
    let options = Options { large_directory: 300, ..Options::for_other_programs(3) };
    make(&tree(options), &at("source"), 1).unwrap();
    create(&at("source"), &at("base.shale"), &["-1"]);
    std::fs::create_dir(at("source/more")).unwrap();
    make(&tiny_tree(9), &at("source/more"), 2).unwrap();
    let noise = shale_tests::random::Random::new(4).bytes(3 << 20);
    std::fs::write(at("source/noise"), noise).unwrap();
    let delta = ["delta", "base.shale", "source", "-q", "-f", "-1", "-o", "delta"];
    expect_code(&mut command(&delta, folder.path()), 0);
    let read = |name: &str| std::fs::read(at(name)).unwrap();
    let (whole, base) = (read("delta"), read("base.shale"));
    std::fs::copy(at("base.shale"), at("here")).unwrap();
    let patch = ["patch", "here", "delta", "-q"];
    expect_code(&mut command(&patch, folder.path()), 0);
    let patched = read("here");
    let old = b"what was there before".to_vec();
    let (mut killed, mut made) = (0, 0);
    for (words, name, before, after) in
        [(&delta[..], "delta", &old, &whole), (&patch[..], "here", &base, &patched)]
    {
        std::fs::write(at(name), before).unwrap();
        if name == "here" {
            std::fs::write(at("delta"), &whole).unwrap();
        }
        let work = wait::whole_work(&mut command(words, folder.path()));
        for point in 0..8 {
            std::fs::write(at(name), before).unwrap();
            let mut child = command(words, folder.path()).spawn().unwrap();
            wait::for_work(&mut child, work * point / 8);
            let _ = child.kill();
            killed += u32::from(child.wait().unwrap().code().is_none());
            let found = read(name);
            made += u32::from(&found == after);
            if name == "here" {
                // Bytes after the image, which a reader ignores; the next try gets all of it.
                assert!(found.starts_with(before), "bytes of the image were changed");
                let image = image::open(&found).unwrap();
                assert!(matches!(image.snapshots().len(), 1 | 2));
                if &found != after {
                    expect_code(&mut command(words, folder.path()), 0);
                    assert!(&read(name) == after, "a second try makes something else");
                }
            } else {
                assert!(&found == before || &found == after, "half a file has the name");
            }
        }
    }
    println!("{killed} killed in time, {made} new files");
    assert!(killed >= 8, "only {killed} were killed in time");
}
