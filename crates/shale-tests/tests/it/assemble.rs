//! Promise: `compact`, `forget` and `merge` keep every byte and attribute of what they keep, copy
//! frames as they are stored, and never copy damage.

use std::path::{Path, PathBuf};

use shale_tests::command::{create, expect_code, run, shale};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::places;
use tempfile::TempDir;

/// Runs `shale` with these words, in a folder. Returns what it printed on both streams.
#[track_caller]
fn shale_in(folder: &Path, words: &[&str], code: i32) -> (String, String) {
    let mut command = shale(words);
    let output = expect_code(command.current_dir(folder), code);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// Extracts a snapshot and compares it.
#[track_caller]
fn assert_snapshot(folder: &Path, image: &str, snapshot: &str, expected: &Manifest) {
    let target = folder.join("extracted");
    let _ = std::fs::remove_dir_all(&target);
    std::fs::create_dir(&target).unwrap();
    shale_in(folder, &["extract", image, "-C", "extracted", "--snapshot", snapshot], 0);
    expected.assert_equals(&Manifest::of(&target).unwrap(), &format!("{image}, {snapshot}"));
}

/// A log of which each snapshot holds more, and one file that exists only in the first.
fn grown(level: &str) -> (TempDir, Vec<Manifest>) {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(3), &source, 3).unwrap();
    std::fs::write(source.join("only-first"), noise(NOISE_LEN, 1)).unwrap();
    let image = folder.path().join("image.shale");
    create(&source, &image, &[level, "--snapshot", "2026-01-01"]);
    let mut manifests = vec![Manifest::of(&source).unwrap()];
    std::fs::remove_file(source.join("only-first")).unwrap();
    for (day, name) in (2..).zip(["2026-01-02", "2026-02-01"]) {
        let text: String = (0..day * 2000).map(|n| format!("line {n} of a log\n")).collect();
        std::fs::write(source.join("log"), text).unwrap();
        shale_in(folder.path(), &["append", "image.shale", "source", level, "--snapshot", name], 0);
        manifests.push(Manifest::of(&source).unwrap());
    }
    (folder, manifests)
}

/// A number of a JSON report.
#[track_caller]
fn number(report: &str, key: &str) -> u64 {
    let (_, rest) = report.split_once(&format!("\"{key}\": ")).unwrap();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    rest[..end].parse().unwrap()
}

/// Several frames of any level.
const NOISE_LEN: usize = 3 << 20;

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn len_of(folder: &Path, image: &str) -> u64 {
    std::fs::metadata(folder.join(image)).unwrap().len()
}

#[test]
fn compact_keeps_all_snapshots_and_is_the_same_again() {
    for level in ["-1", "-6"] {
        let (folder, manifests) = grown(level);
        let folder = folder.path();
        shale_in(folder, &["compact", "image.shale", "-o", "compact.shale"], 0);
        for (number, manifest) in manifests.iter().enumerate() {
            assert_snapshot(folder, "compact.shale", &format!("#{number}"), manifest);
        }
        run(["check".as_ref(), folder.join("compact.shale").as_os_str()]);
        let (grown, compact) = (len_of(folder, "image.shale"), len_of(folder, "compact.shale"));
        assert!(compact < grown, "{compact} of {grown}: two Merkle trees and roots less");
        // Neither threads nor verification matter, nor that it was compacted before.
        let words = ["compact", "compact.shale", "-o", "again.shale", "--no-verify", "--threads=1"];
        shale_in(folder, &words, 0);
        let read = |name| std::fs::read(folder.join(name)).unwrap();
        assert!(read("compact.shale") == read("again.shale"), "level {level}");
        let (history, _) = shale_in(folder, &["info", "again.shale", "--json"], 0);
        assert_eq!(history.matches("compact writer=").count(), 1, "{history}");
    }
}

#[test]
fn forgotten_snapshots_take_their_frames_with_them() {
    let (folder, manifests) = grown("-3");
    let folder = folder.path();
    let before = std::fs::read(folder.join("image.shale")).unwrap();
    let (stdout, _) = shale_in(folder, &["forget", "image.shale", "--keep-monthly", "2"], 0);
    let verbs: Vec<&str> = stdout.lines().map(|line| &line[..4]).collect();
    assert_eq!(verbs, ["drop", "keep", "keep"], "{stdout}");
    let words = ["forget", "image.shale", "--keep-monthly", "2", "-o", "new.shale", "--json"];
    let (json, _) = shale_in(folder, &words, 0);
    assert_eq!(number(&json, "snapshots"), 2);
    assert!(number(&json, "dropped_frames") > 0, "{json}");
    assert!(before == std::fs::read(folder.join("image.shale")).unwrap(), "it was changed");
    assert_snapshot(folder, "new.shale", "2026-01-02", &manifests[1]);
    assert_snapshot(folder, "new.shale", "latest", &manifests[2]);
    shale_in(folder, &["ls", "new.shale", "--snapshot", "2026-01-01"], 1);
    // The noise is gone.
    let gone = len_of(folder, "image.shale") - len_of(folder, "new.shale");
    assert!(gone > NOISE_LEN as u64 / 2, "{gone} bytes");
    // Another way to keep the same is the same image.
    let words = ["compact", "image.shale", "--keep=#1", "--keep=latest", "-o", "other.shale"];
    shale_in(folder, &words, 0);
    let read = |name| std::fs::read(folder.join(name)).unwrap();
    assert!(read("new.shale") == read("other.shale"));
    // Rules that keep nothing are errors, and so is no rule.
    shale_in(folder, &["forget", "image.shale"], 2);
    shale_in(folder, &["forget", "image.shale", "--keep", "no-such"], 1);
}

/// Two images of the same tree, each with one more file.
fn two() -> (TempDir, Vec<PathBuf>) {
    let folder = places::disk();
    let mut sources = Vec::new();
    for (seed, name) in (7..).zip(["a", "b"]) {
        let source = folder.path().join(name);
        std::fs::create_dir(&source).unwrap();
        make(&tiny_tree(2), &source, 1).unwrap();
        std::fs::write(source.join("shared"), noise(NOISE_LEN, 1)).unwrap();
        std::fs::write(source.join(format!("own-{name}")), noise(50_000, seed)).unwrap();
        let image = folder.path().join(format!("{name}.shale"));
        create(&source, &image, &["-1", "--snapshot", &format!("of-{name}")]);
        sources.push(source);
    }
    (folder, sources)
}

#[test]
fn merge_puts_trees_side_by_side_and_stores_equal_files_once() {
    let (folder, sources) = two();
    let folder = folder.path();
    let words = ["merge", "a.shale=/x/a", "b.shale=/x/b", "-o", "both.shale", "--json"];
    let (json, _) = shale_in(folder, &words, 0);
    assert!(number(&json, "equal_contents") > 0, "{json}");
    let apart = len_of(folder, "a.shale") + len_of(folder, "b.shale");
    let both = len_of(folder, "both.shale");
    assert!(both < apart - NOISE_LEN as u64 / 2, "{both} of {apart}");
    shale_in(folder, &["check", "both.shale"], 0);
    for (source, name) in sources.iter().zip(["a", "b"]) {
        let target = folder.join(format!("out-{name}"));
        std::fs::create_dir(&target).unwrap();
        let to = target.to_str().unwrap();
        shale_in(folder, &["extract", "both.shale", "-C", to, &format!("x/{name}")], 0);
        let found = Manifest::of(&target.join("x").join(name)).unwrap();
        Manifest::of(source).unwrap().assert_equals(&found, name);
    }
    // Without verification the same bytes.
    let mut words = words.to_vec();
    words.retain(|&word| word != "--json");
    words[4] = "unverified.shale";
    words.push("--no-verify");
    shale_in(folder, &words, 0);
    let read = |name| std::fs::read(folder.join(name)).unwrap();
    assert!(read("both.shale") == read("unverified.shale"));

    let words = ["merge", "a.shale", "b.shale", "--snapshots", "-o", "all.shale"];
    shale_in(folder, &words, 0);
    for (source, name) in sources.iter().zip(["of-a", "of-b"]) {
        assert_snapshot(folder, "all.shale", name, &Manifest::of(source).unwrap());
    }
}

#[test]
fn merge_refuses_conflicts_unless_told_to_replace() {
    let (folder, _) = two();
    let folder = folder.path();
    let (_, stderr) = shale_in(folder, &["merge", "a.shale", "b.shale", "-o", "c.shale"], 1);
    assert!(stderr.contains("in more than one source"), "{stderr}");
    assert!(!folder.join("c.shale").exists());
    let words = ["merge", "a.shale", "b.shale", "-o", "c.shale", "--replace"];
    let (_, stderr) = shale_in(folder, &words, 3);
    assert!(stderr.contains("replaced"), "{stderr}");
    let (listed, _) = shale_in(folder, &["ls", "c.shale"], 0);
    assert!(listed.contains("own-a") && listed.contains("own-b"), "{listed}");
    let (_, stderr) = shale_in(folder, &words, 1);
    assert!(stderr.contains("exists"), "{stderr}");
    shale_in(folder, &["check", "c.shale"], 0);
}

#[test]
fn damage_is_not_copied() {
    let (folder, _) = two();
    let folder = folder.path();
    let mut bytes = std::fs::read(folder.join("a.shale")).unwrap();
    // In the frame of incompressible bytes.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(folder.join("a.shale"), &bytes).unwrap();
    for more in [&[][..], &["--no-verify"]] {
        for words in
            [&["compact", "a.shale", "-o"][..], &["merge", "a.shale=/a", "b.shale=/b", "-o"]]
        {
            let words = [words, &["c.shale"], more].concat();
            let (_, stderr) = shale_in(folder, &words, 1);
            assert!(stderr.contains("damaged"), "{stderr}");
            assert!(!folder.join("c.shale").exists());
        }
    }
}

#[test]
fn parity_is_kept_and_repairs_while_copying() {
    let (folder, _) = two();
    let folder = folder.path();
    shale_in(folder, &["parity", "add", "a.shale", "--parity", "20%"], 0);
    let mut bytes = std::fs::read(folder.join("a.shale")).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(folder.join("a.shale"), &bytes).unwrap();
    let (json, _) = shale_in(folder, &["compact", "a.shale", "-o", "c.shale", "--json"], 0);
    assert!(!json.contains("\"parity\": null"), "{json}");
    shale_in(folder, &["check", "c.shale"], 0);
}
