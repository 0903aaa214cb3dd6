//! Promise: an append adds a snapshot and changes no other; whatever ends it early, the image is
//! the one before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use shale_format::SectionType;
use shale_tests::command::{Mount, can_mount, create, expect_code, extract, run, shale};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tiny_tree, tree};
use shale_tests::random::Random;
use shale_tests::second_reader::image::Image;
use shale_tests::second_reader::merkle;
use shale_tests::{image, places};
use tempfile::TempDir;

/// A folder with a tree and an image of it.
fn packed(level: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(2), &source, 1).unwrap();
    let path = folder.path().join("image.shale");
    create(&source, &path, &[level, "--snapshot", "first"]);
    (folder, source, path)
}

/// Appends with these arguments after the image.
#[track_caller]
fn append<A: AsRef<std::ffi::OsStr>>(
    image: &Path,
    more: impl IntoIterator<Item = A>,
    code: i32,
) -> String {
    let mut command = shale(["append".as_ref(), image.as_os_str()]);
    let output = expect_code(command.args(more), code);
    String::from_utf8(output.stderr).unwrap()
}

/// Extracts a snapshot and compares it.
#[track_caller]
fn assert_snapshot(image: &Path, folder: &Path, snapshot: &str, expected: &Manifest) {
    let target = folder.join(format!("extracted-{snapshot}"));
    let _ = std::fs::remove_dir_all(&target);
    std::fs::create_dir_all(&target).unwrap();
    let mut command = shale(["extract".as_ref(), image.as_os_str()]);
    expect_code(command.arg("-C").arg(&target).args(["--snapshot", snapshot]), 0);
    expected.assert_equals(&Manifest::of(&target).unwrap(), &format!("snapshot {snapshot}"));
}

#[test]
fn every_snapshot_stays_as_it_was() {
    assert_snapshots_stay(&["-6"]);
}

/// Appends a changing tree at each of these levels, and compares every snapshot.
pub fn assert_snapshots_stay(levels: &[&str]) {
    for &level in levels {
        let folder = places::disk();
        let source = folder.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let mut options = Options::for_other_programs(3);
        options.large_directory = 40;
        make(&tree(options), &source, 3).unwrap();
        let path = folder.path().join("image.shale");
        create(&source, &path, &[level, "--snapshot", "s0"]);
        let mut expected = vec![Manifest::of(&source).unwrap()];
        let text: String = (0..9000).map(|n| format!("line {n} of a log\n")).collect();
        for turn in 1..4 {
            // Something new, something changed, something gone; the rest is as it was.
            std::fs::write(source.join(format!("new-{turn}")), &text[turn..]).unwrap();
            std::fs::write(source.join("changing"), &text[..turn * 1000]).unwrap();
            let _ = std::fs::remove_file(source.join(format!("new-{}", turn - 1)));
            std::fs::create_dir(source.join(format!("directory-{turn}"))).unwrap();
            std::fs::hard_link(source.join("changing"), source.join(format!("link-{turn}")))
                .unwrap();
            let words = [source.to_str().unwrap(), level, "--snapshot", &format!("s{turn}")];
            append(&path, words, 0);
            expected.push(Manifest::of(&source).unwrap());
        }
        run(["check".as_ref(), path.as_os_str()]);
        for (number, expected) in expected.iter().enumerate() {
            assert_snapshot(&path, folder.path(), &format!("s{number}"), expected);
        }
        let bytes = std::fs::read(&path).unwrap();
        let (found, _) = merkle::identity(&bytes).expect("every hash is as the leaves say");
        let (_, identity) = image::open(&bytes).unwrap().identity().unwrap().unwrap();
        assert_eq!(found, identity.0, "by the second reader");
        let newest = image::manifest(&bytes).unwrap();
        expected[3].assert_equals(&newest, "the newest one, by the library");
    }
}

#[test]
fn nothing_new_adds_two_kilobytes_at_most_and_reads_nothing() {
    let folder = places::disk();
    let (source, path) = (folder.path().join("source"), folder.path().join("image.shale"));
    std::fs::create_dir(&source).unwrap();
    for n in 0..40 {
        std::fs::write(source.join(format!("file-{n}")), format!("{n}").repeat(50)).unwrap();
    }
    // A time that no change has tells nothing: the file is read.
    let old = std::fs::File::options().write(true).open(source.join("file-7")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    create(&source, &path, &[]);
    let before = std::fs::metadata(&path).unwrap().len();
    let report = append_json(&path, &source, &[]);
    assert_eq!(number(&report, "new_contents"), 0);
    assert_eq!((number(&report, "duplicate_files"), number(&report, "unread_files")), (1, 39));
    let added = std::fs::metadata(&path).unwrap().len() - before;
    assert_eq!(number(&report, "added_bytes"), added);
    assert!(added <= 2048, "{added}");
    // With --checksum everything is read, and found to be there.
    let report = append_json(&path, &source, &["--checksum"]);
    assert_eq!((number(&report, "new_contents"), number(&report, "unread_files")), (0, 0));
}

/// Appends and returns the report.
fn append_json(image: &Path, source: &Path, more: &[&str]) -> String {
    let mut command = shale(["append".as_ref(), image.as_os_str(), source.as_os_str()]);
    String::from_utf8(expect_code(command.arg("--json").args(more), 0).stdout).unwrap()
}

/// A number of a report.
#[track_caller]
fn number(report: &str, key: &str) -> u64 {
    let (_, rest) = report.split_once(&format!("\"{key}\": ")).unwrap();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    rest[..end].parse().unwrap()
}

#[test]
fn snapshots_tell_what_each_added_and_when() {
    let (_folder, source, path) = packed("-1");
    let first = std::fs::metadata(&path).unwrap().len();
    run(["parity".as_ref(), "add".as_ref(), path.as_os_str(), "--parity=20%".as_ref()]);
    std::fs::write(source.join("new"), "something new").unwrap();
    let second = append_json(&path, &source, &["--snapshot", "2026-11-24T10:00:00Z"]);
    let json = run(["snapshots".as_ref(), "--json".as_ref(), path.as_os_str()]).stdout;
    let json = String::from_utf8(json).unwrap();
    let (before, after) = json.split_once("2026-11-24T10:00:00Z").unwrap();
    // Parity is not what a snapshot adds.
    assert_eq!(number(before, "added_bytes"), first, "{json}");
    let both = [before.split_once("},").unwrap().1, after].concat();
    assert_eq!(number(&both, "added_bytes"), number(&second, "added_bytes"), "{json}");
    assert!(before.contains("\"time\": null"), "{json}");
    assert!(after.contains("\"time\": \"1795514400.000000000\""), "{json}");

    // A copy writes all snapshots together.
    let copy = path.with_extension("copy");
    run(["compact".as_ref(), path.as_os_str(), "-o".as_ref(), copy.as_os_str()]);
    let json = run(["snapshots".as_ref(), "--json".as_ref(), copy.as_os_str()]).stdout;
    assert_eq!(String::from_utf8(json).unwrap().matches("\"added_bytes\": null").count(), 2);
}

#[test]
fn a_part_is_added_and_another_removed() {
    let (folder, source, path) = packed("-6");
    let first = Manifest::of(&source).unwrap();
    let day = folder.path().join("day");
    std::fs::create_dir(&day).unwrap();
    std::fs::write(day.join("log"), "a day").unwrap();
    let add = format!("logs/2026-11-23={}", day.display());
    append(&path, ["--add", &add, "--remove", "/d", "--snapshot", "second"], 0);
    let names = |snapshot: &str| {
        let output =
            run(["find".as_ref(), path.as_os_str(), "--snapshot".as_ref(), snapshot.as_ref()]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(names("second").contains("logs/2026-11-23/log"), "{}", names("second"));
    assert!(!names("second").lines().any(|line| line.trim_start_matches("./").starts_with("d/")));
    assert_snapshot(&path, folder.path(), "first", &first);
    // What is added replaces what has the same path.
    std::fs::write(day.join("log"), "the same day, longer").unwrap();
    append(&path, ["--add", &add], 0);
    let text = run(["cat".as_ref(), path.as_os_str(), "logs/2026-11-23/log".as_ref()]).stdout;
    assert_eq!(text, b"the same day, longer");
    // A pattern that matches nothing is said.
    let said = append(&path, ["--remove", "/no-such-name"], 3);
    assert!(said.contains("/no-such-name"), "{said}");
    run(["check".as_ref(), path.as_os_str()]);
}

#[test]
fn an_interrupted_append_leaves_the_image_before_and_the_next_one_cleans_up() {
    let (folder, source, path) = packed("-3");
    let first = Manifest::of(&source).unwrap();
    let before = std::fs::read(&path).unwrap();
    std::fs::write(source.join("new"), vec![b'x'; 5000]).unwrap();
    append(&path, [source.as_os_str()], 0);
    let after = std::fs::read(&path).unwrap();
    assert_eq!(after[..before.len()], before, "no byte of the image is changed");
    let torn = folder.path().join("torn.shale");
    let lens = (before.len()..after.len()).step_by(1 + (after.len() - before.len()) / 16);
    for len in lens.chain([after.len() - 1, after.len() - 64, after.len() - 127]) {
        for tail in [&after[before.len()..len], &vec![0; len - before.len()]] {
            std::fs::write(&torn, [&before[..], tail].concat()).unwrap();
            let found = image::manifest(&std::fs::read(&torn).unwrap()).unwrap();
            first.assert_equals(&found, &format!("cut at {len}"));
            append(&torn, [source.as_os_str()], 0);
            run(["check".as_ref(), torn.as_os_str()]);
        }
    }
}

#[test]
fn an_image_that_grows_now_is_not_called_damaged() {
    let (_folder, source, path) = packed("-1");
    let before = std::fs::read(&path).unwrap();
    std::fs::write(source.join("new"), vec![b'x'; 5000]).unwrap();
    append(&path, [source.as_os_str()], 0);
    let after = std::fs::read(&path).unwrap();
    std::fs::write(&path, &after[..after.len() - 200]).unwrap();
    let list = || {
        let output = expect_code(&mut shale(["ls".as_ref(), path.as_os_str()]), 0);
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(list().contains("damaged"), "nobody appends, so it was interrupted");
    // The lock of an append, held by this process.
    let file = std::fs::File::open(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    assert_eq!(list(), "");
    drop(file);
    assert!(list().contains("damaged"));
    assert!(after[..before.len()] == before);
}

#[test]
fn bytes_of_others_after_an_image_are_kept() {
    let (_folder, source, path) = packed("-3");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"something else that someone put here");
    std::fs::write(&path, &bytes).unwrap();
    let said = append(&path, [source.as_os_str()], 1);
    assert!(said.contains("36 bytes that are not part of it follow it"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn an_image_behind_a_header_and_one_of_an_earlier_version_grow() {
    let (folder, source, path) = packed("-3");
    let expected = Manifest::of(&source).unwrap();
    let behind = folder.path().join("behind.shale");
    let header = b"#!/bin/sh\nexit\n".repeat(70);
    std::fs::write(&behind, [&header[..], &std::fs::read(&path).unwrap()].concat()).unwrap();
    append(&behind, [source.as_os_str()], 0);
    assert_eq!(std::fs::read(&behind).unwrap()[..header.len()], header);
    assert_snapshot(&behind, folder.path(), "#1", &expected);
    for name in ["0.1-tiny", "0.2-tiny", "0.3-tiny", "0.3-snapshots"] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images");
        let old = std::fs::read(golden.join(format!("{name}.shale"))).unwrap();
        let grown = folder.path().join("grown.shale");
        std::fs::write(&grown, &old).unwrap();
        let before = run(["find".as_ref(), grown.as_os_str(), "-ls".as_ref()]).stdout;
        append(&grown, ["--add", &format!("more={}", source.display())], 0);
        run(["check".as_ref(), grown.as_os_str()]);
        let snapshots = run(["snapshots".as_ref(), grown.as_os_str()]).stdout;
        let last = snapshots.iter().filter(|&&byte| byte == b'\n').count() - 2;
        let earlier = format!("#{}", last - 1);
        let words = [
            "find".as_ref(),
            grown.as_os_str(),
            "--snapshot".as_ref(),
            earlier.as_ref(),
            "-ls".as_ref(),
        ];
        assert_eq!(run(words).stdout, before, "{name}");
        let target = folder.path().join(format!("more-{name}"));
        extract(&grown, &target);
        expected.assert_equals(&Manifest::of(&target.join("more")).unwrap(), name);
    }
}

#[test]
fn a_mounted_image_grows_and_the_mount_stays_as_it_is() {
    if !can_mount() {
        return;
    }
    let (folder, source, path) = packed("-6");
    let first = Manifest::of(&source).unwrap();
    let mount = Mount::new(&path, &folder.path().join("mount"), &[]);
    std::fs::write(source.join("new"), "new").unwrap();
    append(&path, [source.as_os_str()], 0);
    first.assert_equals(&Manifest::of(mount.path()).unwrap(), "the mount");
    mount.end();
    let mount = Mount::new(&path, &folder.path().join("mount"), &[]);
    Manifest::of(&source).unwrap().assert_equals(&Manifest::of(mount.path()).unwrap(), "after it");
    mount.end();
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let (folder, source, path) = packed("-3");
    let bytes = std::fs::read(&path).unwrap();
    let missing = folder.path().join("missing");
    for (words, code, what) in [
        (vec![missing.to_str().unwrap()], 1, "No such file"),
        (vec!["--add", "a=/no/such/place"], 1, "No such file"),
        (vec![source.to_str().unwrap(), "--add", "x"], 2, "cannot be used with"),
        (vec![], 2, "required"),
        (vec!["--add", "../x=."], 2, ".."),
        (vec![source.to_str().unwrap(), "--snapshot", &"n".repeat(256)], 2, "255"),
    ] {
        let said = append(&path, &words, code);
        assert!(said.contains(what), "{words:?}: {said}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{words:?}");
    }
    let text = source.join("d/text");
    assert!(append(&text, [source.as_os_str()], 1).contains("image"));
    assert!(append(folder.path(), [source.as_os_str()], 1).contains("directory"));
    assert!(append(&missing, [source.as_os_str()], 1).contains("No such file"));
}

#[test]
fn rows_that_only_moved_are_not_written_again() {
    let folder = places::disk();
    let (source, path) = (folder.path().join("source"), folder.path().join("image.shale"));
    for directory in 0..60 {
        let inner = source.join(format!("m{directory:02}/inner"));
        std::fs::create_dir_all(&inner).unwrap();
        std::os::unix::fs::symlink("inner", inner.with_file_name("link")).unwrap();
        for file in 0..90u32 {
            std::fs::write(inner.join(format!("f{}", file * 7919 + directory)), [file as u8; 3])
                .unwrap();
        }
    }
    create(&source, &path, &["-1"]);
    let before = Manifest::of(&source).unwrap();
    let mut added = Vec::new();
    // Each release stands in front of all that is there, so all numbers of rows grow.
    for release in ["d", "c", "b", "a"] {
        let new = source.join(release);
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join("one"), release).unwrap();
        std::os::unix::fs::symlink("one", new.join("two")).unwrap();
        added.push(number(&append_json(&path, &source, &["--snapshot", release]), "added_bytes"));
    }
    // The first one cuts the tables anew.
    assert!(added[1..].iter().all(|&bytes| bytes * 2 < added[0]), "{added:?}");
    run(["check".as_ref(), path.as_os_str()]);
    assert_snapshot(&path, folder.path(), "#0", &before);
    let newest = Manifest::of(&source).unwrap();
    assert_snapshot(&path, folder.path(), "a", &newest);
    // The second reader, and a copy of all snapshots.
    let bytes = std::fs::read(&path).unwrap();
    let found = Image::open(&bytes).unwrap();
    assert!(found.met().contains(&("index columns", 11)), "no page was shared");
    assert!(found.met().contains(&("page codec", 4)), "no page is a patch");
    let found = found.manifest().expect("the second reader reads it").to_string();
    assert!(found == image::manifest(&bytes).unwrap().to_string());
    let copy = path.with_extension("copy");
    run(["compact".as_ref(), path.as_os_str(), "-o".as_ref(), copy.as_os_str()]);
    assert_snapshot(&copy, folder.path(), "a", &newest);
    let len = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(len(&copy) <= len(&path) * 102 / 100, "{} of {}", len(&copy), len(&path));
}

#[test]
fn nights_store_what_changed_and_open_as_one_does() {
    let folder = places::disk();
    let (source, path) = (folder.path().join("source"), folder.path().join("image.shale"));
    let mut random = Random::new(48);
    let mut files = Vec::new();
    for directory in 0..20 {
        let inner = source.join(format!("directory-{directory:02}"));
        std::fs::create_dir_all(&inner).unwrap();
        for file in 0..60 {
            files.push(inner.join(format!("file-{file:03}-{:x}", random.below(1 << 20))));
        }
    }
    // Times as programs leave them: each its own, to the nanosecond.
    let mut seconds = 1_700_000_000;
    let mut change = |path: &Path| {
        let len = 20 + random.below(60) as usize;
        std::fs::write(path, random.bytes(len)).unwrap();
        seconds += random.below(3);
        let time = std::time::Duration::new(seconds, random.below(1_000_000_000) as u32);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + time).unwrap();
        random.below(1 << 30) as usize
    };
    let mut some = files.iter().map(|path| change(path)).last().unwrap();
    create(&source, &path, &["-1"]);
    let pages = || {
        let bytes = std::fs::read(&path).unwrap();
        let opened = image::open(&bytes).unwrap();
        let sections = opened.sections().map(Result::unwrap);
        let pages = sections.filter(|s| s.section_type == SectionType::Pages as u16);
        pages.map(|section| section.stored_len).sum::<u64>()
    };
    let one = pages();
    // One file in a hundred each night.
    let mut sizes = vec![one];
    for _ in 0..24 {
        for _ in 0..12 {
            some = change(&files[some % files.len()]);
        }
        append(&path, [source.to_str().unwrap(), "-1", "--no-verify"], 0);
        sizes.push(pages());
    }
    let all = sizes[24];
    assert!(all < one * 2, "{} times the pages of one tree: {sizes:?}", all as f64 / one as f64);
    run(["check".as_ref(), path.as_os_str()]);
    let newest = Manifest::of(&source).unwrap();
    assert_snapshot(&path, folder.path(), "latest", &newest);
    let bytes = std::fs::read(&path).unwrap();
    let found = Image::open(&bytes).unwrap();
    for form in 0..=2 {
        assert!(found.met().contains(&("form of patch", form)), "no column has form {form}");
    }
    let found = found.manifest().expect("the second reader reads it").to_string();
    assert!(found == image::manifest(&bytes).unwrap().to_string());
    // A file that comes and one that goes.
    std::fs::write(source.join("directory-07/between"), "new").unwrap();
    std::fs::remove_file(&files[900]).unwrap();
    append(&path, [source.to_str().unwrap(), "-1"], 0);
    let bytes = std::fs::read(&path).unwrap();
    Manifest::of(&source).unwrap().assert_equals(&image::manifest(&bytes).unwrap(), "moved");
    let found = Image::open(&bytes).unwrap();
    assert!(found.met().contains(&("segments of patch", 1)), "no rows came or went");
    assert!(found.manifest().unwrap().to_string() == image::manifest(&bytes).unwrap().to_string());
}

#[test]
fn an_append_stores_new_hashes_only_and_every_reader_proves_all_leaves() {
    let folder = places::disk();
    let (source, path) = (folder.path().join("source"), folder.path().join("image.shale"));
    std::fs::create_dir(&source).unwrap();
    let mut random = Random::new(43);
    // More than one node of leaves, so that nodes are continued, too.
    std::fs::write(source.join("large"), random.bytes(18 << 20)).unwrap();
    create(&source, &path, &["-1"]);
    let (mut sizes, mut runs) = (Vec::new(), Vec::new());
    let mut states = Vec::new();
    for turn in 0..12 {
        std::fs::write(source.join(format!("new-{turn}")), random.bytes(100_000 + turn * 9973))
            .unwrap();
        append(&path, [source.to_str().unwrap(), "-1", "--no-verify"], 0);
        let bytes = std::fs::read(&path).unwrap();
        let opened = image::open(&bytes).unwrap();
        let (head, identity) = opened.identity().unwrap().unwrap();
        let (found, run_count) = merkle::identity(&bytes).expect("all hashes are right");
        assert_eq!(found, identity.0);
        let at = opened.trailer().merkle_offset;
        sizes.push(opened.section_at(at).unwrap().unwrap().stored_len);
        runs.push(run_count);
        let whole_leaves = head.covered_len / shale_format::merkle::LEAF_LEN;
        assert_eq!(opened.leaf_hashes().unwrap().len() as u64, whole_leaves);
        states.push(identity);
    }
    // All hashes are 32 bytes for each 64 KiB of 20 MiB; an append adds three leaves and two nodes.
    assert!(sizes.iter().all(|&len| len < 2000), "{sizes:?}");
    assert!(runs.iter().all(|&count| (2..12).contains(&count)), "{runs:?}");
    run(["check".as_ref(), path.as_os_str()]);

    // A reader with an identity proves every byte, and notices one that was changed with its sums.
    let bytes = std::fs::read(&path).unwrap();
    let expecting = |bytes: &[u8], identity| {
        let options = shale_read::Options::default().expect(identity).repair(false);
        let image =
            shale_read::Image::open(Arc::new(shale_read::MemorySource::new(bytes)), options)?;
        image::manifest_of(&image.tree(&shale_read::SnapshotChoice::Newest)?)
    };
    let newest = states[states.len() - 1];
    let expected = Manifest::of(&source).unwrap();
    expected.assert_equals(&expecting(&bytes, newest).unwrap(), "proven");
    assert!(expecting(&bytes, states[3]).is_err(), "an earlier state is another image");
    let opened = image::open(&bytes).unwrap();
    let (_, hash_runs) = opened.hash_runs().unwrap().unwrap();
    for leaf in [3, 270] {
        let place = hash_runs.places(leaf..leaf + 1).next().unwrap();
        let mut changed = bytes.clone();
        changed[place.start as usize] ^= 1;
        let error = expecting(&changed, newest).unwrap_err().to_string();
        assert!(error.contains("does not match the expected identity"), "{error}");
        let broken = path.with_extension("broken");
        std::fs::write(&broken, &changed).unwrap();
        let mut command = shale(["check".as_ref(), broken.as_os_str()]);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("merkle tree"), "{output:?}");
        // An append to it would make an image of hashes that do not hold.
        assert!(append(&broken, [source.to_str().unwrap()], 1).contains("Merkle tree"));
        assert!(std::fs::read(&broken).unwrap() == changed);
    }
}

#[test]
fn an_image_of_an_earlier_version_keeps_all_hashes_in_one_section() {
    let folder = places::disk();
    let path = folder.path().join("old.shale");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images");
    std::fs::copy(golden.join("0.3-tiny.shale"), &path).unwrap();
    let source = folder.path().join("new");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "text").unwrap();
    for _ in 0..2 {
        append(&path, [source.to_str().unwrap()], 0);
        assert_eq!(merkle::identity(&std::fs::read(&path).unwrap()).expect("it is whole").1, 0);
    }
}
