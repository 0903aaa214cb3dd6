//! Promise: `compact`, `forget`, `merge`, and `rewrite` of metadata, keep every byte and attribute
//! of what they keep, copy frames as they are stored, and never copy damage.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shale_tests::command::{create, expect_code, run, shale};
use shale_tests::image;
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

/// What tells the stored bytes of the frames of an image apart.
fn frames(folder: &Path, image: &str) -> HashSet<(u64, u64, u64)> {
    let image = image::open(&std::fs::read(folder.join(image)).unwrap()).unwrap();
    let records = image.frame_records(0..u64::MAX).map(|record| record.unwrap().1);
    records.map(|record| (record.stored_sum, record.stored_len, record.plain_sum)).collect()
}

#[test]
fn rewrite_of_metadata_copies_frames() {
    // Settings that no level has: what was packed again would be other frames.
    let folder = places::disk();
    let folder = folder.path();
    let source = folder.join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(3), &source, 3).unwrap();
    std::fs::write(source.join("large"), noise(NOISE_LEN, 1)).unwrap();
    std::fs::write(source.join("text"), "a line of text\n".repeat(30_000)).unwrap();
    create(&source, &folder.join("old.shale"), &["-1", "-C", "zstd:7", "--parity", "5%"]);
    let old = frames(folder, "old.shale");
    let how = ["--owner", "7", "--group=8", "--chmod", "F600", "--mtime", "@1700000000.5"];
    let rewrite = |more: &[&str], output: &str| {
        let words = [&["rewrite", "old.shale", "-o", output, "-v"], &how[..], more].concat();
        shale_in(folder, &words, 0).1
    };
    let said = rewrite(&[], "new.shale");
    assert!(said.contains("copied") && said.contains("verified"), "{said}");
    assert_eq!(frames(folder, "new.shale"), old);
    // A level packs anew. The tree is the same.
    rewrite(&["-2"], "packed.shale");
    assert_ne!(frames(folder, "packed.shale"), old);
    shale_in(folder, &["diff", "new.shale", "packed.shale"], 0);
    image::manifest_at(&folder.join("new.shale"))
        .assert_equals(&image::manifest_at(&folder.join("packed.shale")), "packed anew");
    shale_in(folder, &["check", "new.shale"], 0);
    let (info, _) = shale_in(folder, &["info", "new.shale", "--json"], 0);
    assert!(!info.contains("\"parity\": null"), "{info}");

    // What is left out takes its frames with it.
    rewrite(&["--exclude", "large", "--snapshot", "less", "--label", "a b"], "less.shale");
    let less = frames(folder, "less.shale");
    assert!(less.len() < old.len() && less.is_subset(&old));
    assert!(len_of(folder, "less.shale") < len_of(folder, "new.shale") - NOISE_LEN as u64 / 2);
    shale_in(folder, &["ls", "less.shale", "large", "--snapshot", "less"], 1);
    let (info, _) = shale_in(folder, &["info", "less.shale", "--json"], 0);
    assert!(info.contains("\"a b\"") && info.contains("rewrite writer="), "{info}");
    rewrite(&["--exclude", "large", "-2"], "packed-less.shale");
    shale_in(folder, &["diff", "less.shale", "packed-less.shale"], 0);

    // Entries that are added, and empty directories that are left out.
    std::fs::write(folder.join("pseudo"), "added d 700 1 2\nnode c 600 0 0 5 1\n").unwrap();
    rewrite(&["--pseudo", "pseudo", "--max-size", "1M"], "pseudo.shale");
    rewrite(&["--pseudo", "pseudo", "--max-size", "1M", "-2"], "packed-pseudo.shale");
    shale_in(folder, &["diff", "pseudo.shale", "packed-pseudo.shale"], 0);
    assert!(frames(folder, "pseudo.shale").is_subset(&old));

    // Without any of it, an image is packed anew, as ever.
    let words = ["rewrite", "old.shale", "-o", "anew.shale"];
    shale_in(folder, &words, 0);
    assert_ne!(frames(folder, "anew.shale"), old);
    shale_in(folder, &["diff", "old.shale", "anew.shale"], 0);
}

#[test]
fn every_snapshot_is_whole_after_append_compact_forget_and_merge() {
    let (folder, manifests) = grown("-3");
    let folder = folder.path();
    let names = ["2026-01-01", "2026-01-02", "2026-02-01"];
    shale_in(folder, &["compact", "image.shale", "-o", "compact.shale"], 0);
    let words = ["forget", "image.shale", "--keep-last", "2", "-o", "kept.shale"];
    shale_in(folder, &words, 0);
    let words = ["compact", "image.shale", "--keep", "#0", "-o", "first.shale"];
    shale_in(folder, &words, 0);
    let words = ["merge", "first.shale", "kept.shale", "--snapshots", "-o", "merged.shale"];
    shale_in(folder, &words, 0);
    // An image that was merged grows on.
    let source = folder.join("source");
    std::fs::write(source.join("late"), noise(70_000, 9)).unwrap();
    let words = ["append", "merged.shale", "source", "-3", "--snapshot", "2026-03-01"];
    shale_in(folder, &words, 0);
    let late = Manifest::of(&source).unwrap();
    for image in ["image.shale", "compact.shale", "merged.shale"] {
        for (name, manifest) in names.iter().zip(&manifests) {
            assert_snapshot(folder, image, name, manifest);
        }
        shale_in(folder, &["check", "--level", "content", image], 0);
    }
    for (name, manifest) in names.iter().zip(&manifests).skip(1) {
        assert_snapshot(folder, "kept.shale", name, manifest);
    }
    assert_snapshot(folder, "merged.shale", "2026-03-01", &late);
    // What came apart and together again has no byte twice.
    let stored = |image: &str| {
        let image = image::open(&std::fs::read(folder.join(image)).unwrap()).unwrap();
        image.frame_count()
    };
    let words = ["compact", "merged.shale", "--keep=#0", "--keep=#1", "--keep=#2"];
    shale_in(folder, &[&words[..], &["-o", "again.shale"]].concat(), 0);
    assert!(stored("again.shale") <= stored("compact.shale") + 4);
}

#[test]
fn a_hundred_images_are_merged_at_once() {
    let folder = places::disk();
    let folder = folder.path();
    let mut words = vec!["merge".to_owned()];
    for number in 0..100 {
        let source = folder.join(format!("s{number}"));
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("own"), noise(3000, number)).unwrap();
        std::fs::write(source.join("shared"), noise(9000, 1)).unwrap();
        create(&source, &folder.join(format!("{number}.shale")), &["-1"]);
        words.push(format!("{number}.shale=/{number}"));
    }
    words.extend(["-o", "all.shale", "--json"].map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (json, _) = shale_in(folder, &words, 0);
    assert_eq!(number(&json, "equal_contents"), 99, "{json}");
    assert_eq!(number(&json, "contents"), 102, "a hundred, the shared one and the empty one");
    shale_in(folder, &["check", "all.shale"], 0);
}

#[test]
fn signed_sources_are_told_and_damaged_tables_are_refused() {
    let (folder, _) = two();
    let folder = folder.path();
    shale_in(folder, &["keygen", "key"], 0);
    shale_in(folder, &["sign", "a.shale", "--key", "key", "--embed"], 0);
    let outputs: [&[&str]; 3] = [
        &["merge", "a.shale=/a", "b.shale=/b", "-o", "c.shale"],
        &["compact", "a.shale", "-o", "d.shale"],
        &["rewrite", "a.shale", "--owner", "1", "-o", "e.shale"],
    ];
    for words in outputs {
        let (_, stderr) = shale_in(folder, words, 0);
        assert!(stderr.contains("signature"), "{words:?}: {stderr}");
        let output = words.last().unwrap();
        shale_in(folder, &["check", output], 0);
        std::fs::remove_file(folder.join(output)).unwrap();
    }
    // The damage is in the tables: in the last quarter of an image of little noise.
    let source = folder.join("small");
    std::fs::create_dir(&source).unwrap();
    for number in 0..2000 {
        let text = format!("file {number}\n").repeat(number % 7 + 1);
        std::fs::write(source.join(format!("name-{number}")), text).unwrap();
    }
    create(&source, &folder.join("small.shale"), &["-1"]);
    let whole = std::fs::read(folder.join("small.shale")).unwrap();
    let mut refused = 0;
    for part in 1..40 {
        let mut bytes = whole.clone();
        let at = bytes.len() * part / 40;
        bytes[at] ^= 0x10;
        std::fs::write(folder.join("small.shale"), &bytes).unwrap();
        let mut command =
            shale(["merge", "small.shale=/s", "b.shale=/b", "-q", "-f", "-o", "c.shale"]);
        let output = command.current_dir(folder).output().unwrap();
        match output.status.code() {
            // The Merkle tree and the second root are not copied.
            Some(0 | 3) => {
                shale_in(folder, &["check", "-q", "c.shale"], 0);
                std::fs::remove_file(folder.join("c.shale")).unwrap();
            }
            Some(1) => {
                refused += 1;
                assert!(!folder.join("c.shale").exists());
            }
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    assert!(refused > 10, "{refused} of 39 damages were refused");
}

#[test]
fn a_copy_to_a_full_disk_leaves_no_file() {
    let (folder, _) = two();
    let folder = folder.path();
    let small = folder.join("small");
    std::fs::create_dir(&small).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&small);
    if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: a small disk needs the right to mount");
        return;
    }
    let commands: [&[&str]; 4] = [
        &["merge", "a.shale=/a", "b.shale=/b"],
        &["compact", "a.shale"],
        &["forget", "a.shale", "--keep-last", "1"],
        &["rewrite", "a.shale", "--owner", "1"],
    ];
    let mut outputs = Vec::new();
    for words in commands {
        let mut command = shale(words);
        let output = command.current_dir(folder).args(["-o", "small/out.shale"]).output().unwrap();
        outputs.push((words, output, std::fs::read_dir(&small).unwrap().count()));
    }
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    for (words, output, left) in outputs {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains("No space left"), "{words:?}: {text}");
        assert_eq!(left, 0, "{words:?}: a partial file stays behind");
    }
}
