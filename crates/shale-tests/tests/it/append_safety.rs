//! Promise: whatever ends an append early, and in whatever order its bytes reached the disk, the
//! image is the one before, or the new one with all of it; and the next append puts it in order.
//!
//! An append syncs three times before its end: after the mark that it begins with, after its first
//! section, and after everything but its last section. What was not synced may be there or not,
//! sector by sector. The tests make such files from a whole append; the real program is also
//! stopped at a limit for the length of files, as a full disk would stop it. `SHALE_KILLS` says how
//! many points the slow ones get.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use shale::{AppendOptions, Input, NoProgress};
use shale_format::merkle::LEAF_LEN;
use shale_format::section::{SECTION_HEADER_LEN, SECTION_MAGIC};
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_read::{Image, MemorySource, Options, SnapshotChoice};
use shale_tests::command::{create, expect_code, run, shale, shale_path};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::random::Random;
use shale_tests::{image, places};
use tempfile::TempDir;

/// The length of a sector: what a disk writes whole or not at all.
const SECTOR_LEN: usize = 512;

fn point_count() -> u64 {
    let wanted = std::env::var("SHALE_KILLS").ok();
    wanted.map_or(20, |count| count.parse().expect("SHALE_KILLS is a number"))
}

/// An image, the same image after an append, and what was appended.
struct Stage {
    folder: TempDir,
    source: PathBuf,
    first: Manifest,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Stage {
    fn new(level: &str, more: &[&str]) -> Self {
        // What reaches a disk is simulated; a real one would only make each of the syncs slow.
        let folder = places::quick();
        let source = folder.path().join("source");
        std::fs::create_dir(&source).unwrap();
        make(&tiny_tree(2), &source, 1).unwrap();
        let path = folder.path().join("image.shale");
        create(&source, &path, &[&[level][..], more].concat());
        let before = std::fs::read(&path).unwrap();
        let first = Manifest::of(&source).unwrap();
        // Something that compresses, something that does not, and a tree that changes.
        std::fs::write(source.join("new"), Random::new(5).bytes(30_000)).unwrap();
        let text: String = (0..4000).map(|n| format!("line {n} of what is new\n")).collect();
        std::fs::write(source.join("text"), text).unwrap();
        append(&path, &source);
        let after = std::fs::read(&path).unwrap();
        assert!(after.starts_with(&before), "a byte of the image was changed");
        Self { folder, source, first, before, after }
    }

    /// Where an append syncs: after the mark that it begins with, after its first section, after
    /// all but the last, and at the end.
    fn sync_points(&self) -> [usize; 4] {
        let start = self.before.len();
        let stored_len = self.after[start + 24..start + 32].try_into().unwrap();
        let first = start + SECTION_HEADER_LEN + u64::from_le_bytes(stored_len) as usize;
        let mark_end = start + SECTION_MAGIC.len();
        [mark_end, first, self.after.len() - TRAILER_SECTION_LEN, self.after.len()]
    }

    /// Looks at what was left: it reads as the image before, or as the new one. Returns whether it
    /// is the new one.
    #[track_caller]
    fn judge(&self, found: &[u8], what: &str) -> bool {
        assert!(found.starts_with(&self.before), "{what}: a byte of the image was changed");
        let snapshots = image::open(found).unwrap().snapshots().len();
        if snapshots == 2 {
            assert_eq!(found, self.after, "{what}: it counts, and is not whole");
            return true;
        }
        assert_eq!(snapshots, 1, "{what}");
        self.first.assert_equals(&image::manifest(found).unwrap(), what);
        false
    }

    /// Appends to what was left: all of it is there afterwards.
    #[track_caller]
    fn append_again(&self, found: &[u8], what: &str) {
        let path = self.folder.path().join("again.shale");
        std::fs::write(&path, found).unwrap();
        append(&path, &self.source);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(&self.before), "{what}");
        let newest = image::manifest(&bytes).unwrap();
        Manifest::of(&self.source).unwrap().assert_equals(&newest, what);
        let source = Arc::new(MemorySource::new(bytes));
        let report = shale::check(source, &shale::CheckOptions::default(), &NoProgress).unwrap();
        assert!(report.is_clean(), "{what}: {report:?}");
    }
}

/// Appends a tree, in this process.
#[track_caller]
fn append(path: &Path, source: &Path) {
    let mut options = AppendOptions::default();
    options.create.build.level = 6;
    options.create.build.threads = 1;
    options.create.verify = false;
    shale::append(path, &[Input::new(source)], &options, &NoProgress).unwrap();
}

#[test]
fn a_crash_leaves_the_image_before_whatever_sectors_reached_the_disk() {
    assert_crashes_are_survived(8);
}

/// Loses sectors of an append in this many ways. Most leave a file that is neither the image before
/// nor a whole one; the next append puts it in order.
pub fn assert_crashes_are_survived(turns: usize) {
    let stage = Stage::new("-6", &[]);
    let [marked, first, all, end] = stage.sync_points();
    let mut random = Random::new(11);
    let appended = Manifest::of(&stage.source).unwrap();
    let mut states = 0;
    for turn in 0..turns {
        // What was synced last, and up to where the file may reach.
        let (synced, reach) = match turn % 4 {
            0 => (marked, first),
            3 => (all, end),
            _ => (first, all),
        };
        let len = synced + random.below((reach - synced) as u64 + 1) as usize;
        let mut found = stage.after[..len].to_vec();
        // Each sector after the last sync is there, lost or torn. One in two turns loses few.
        let lost_in_16 = [1, 8][random.below(2) as usize];
        let mut at = synced;
        while at < len {
            let sector_end = (at / SECTOR_LEN + 1) * SECTOR_LEN;
            let sector_end = sector_end.min(len);
            if random.below(16) < lost_in_16 {
                found[at..sector_end].fill(0);
            }
            at = sector_end;
        }
        if turn % 5 == 0 && len > synced {
            // The last sector is torn: bytes that no one wrote.
            let from = ((len - 1) / SECTOR_LEN * SECTOR_LEN).max(synced);
            let from = from + random.below((len - from) as u64) as usize;
            found[from..].copy_from_slice(&random.bytes(len - from));
        }
        let what = format!("turn {turn}: {len} bytes, synced to {synced}");
        if stage.judge(&found, &what) {
            continue;
        }
        states += 1;
        let path = stage.folder.path().join("torn.shale");
        std::fs::write(&path, &found).unwrap();
        let options = AppendOptions::default();
        let again = shale::append(&path, &[Input::new(&stage.source)], &options, &NoProgress);
        assert!(again.is_ok(), "{what}: {again:?}");
        appended.assert_equals(&image::manifest(&std::fs::read(&path).unwrap()).unwrap(), &what);
    }
    assert!(states * 4 >= turns * 3, "{states} of {turns}");
}

#[test]
fn every_length_that_a_crash_leaves_is_put_in_order() {
    assert_lengths_are_put_in_order(point_count() / 4);
}

/// Cuts an append at this many lengths and near its beginning and end; the next one goes on.
pub fn assert_lengths_are_put_in_order(count: u64) {
    let stage = Stage::new("-6", &[]);
    let [_, first, all, end] = stage.sync_points();
    let start = stage.before.len();
    let step = 1 + (all - first) as u64 / count;
    let lens = (first..all).step_by(step as usize);
    let near = [start, start + 1, start + 7, start + 8, start + 63, start + 64, first - 1];
    for len in lens.chain(near).chain([all, all + 1, all + 64, end - 1]) {
        let what = format!("cut at {len} of {end}");
        assert!(!stage.judge(&stage.after[..len], &what), "{what}");
        stage.append_again(&stage.after[..len], &what);
    }
}

#[test]
fn a_disk_that_is_full_at_any_byte_leaves_the_image_before() {
    let stage = Stage::new("-1", &[]);
    let path = stage.folder.path().join("full.shale");
    let grows = stage.after.len() - stage.before.len();
    let points = point_count() / 2;
    let mut failed = 0;
    for point in 0..points {
        std::fs::write(&path, &stage.before).unwrap();
        // The limit is in blocks of 512 bytes.
        let allowed = stage.before.len() + grows * point as usize / points as usize;
        let script = format!("ulimit -f {}; trap '' XFSZ; exec \"$@\"", allowed / SECTOR_LEN);
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(shale_path());
        command.args(["append", "-q", "--no-verify"]).arg(&path).arg(&stage.source);
        let output = command.output().unwrap();
        let found = std::fs::read(&path).unwrap();
        if output.status.success() {
            continue;
        }
        failed += 1;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("nothing was appended"), "{said}");
        assert_eq!(found, stage.before, "after a failure at {allowed} bytes");
    }
    assert!(failed * 2 > points, "{failed}");
    append(&path, &stage.source);
}

#[test]
fn two_appends_at_once_take_turns_or_one_is_refused() {
    let stage = Stage::new("-1", &[]);
    let path = stage.folder.path().join("image.shale");
    let file = std::fs::File::open(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let words = |more: &[&str]| {
        let mut command = shale(["append".as_ref(), path.as_os_str(), stage.source.as_os_str()]);
        command.args(more).stdout(Stdio::null());
        command
    };
    let said = expect_code(&mut words(&[]), 1).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), stage.after);
    // Those that wait take turns once the lock is free.
    let mut waiting: Vec<_> = (0..3).map(|_| words(&["--wait"]).spawn().unwrap()).collect();
    drop(file);
    for child in &mut waiting {
        assert!(child.wait().unwrap().success());
    }
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(&stage.after));
    assert_eq!(image::open(&bytes).unwrap().snapshots().len(), 5);
    run(["check".as_ref(), path.as_os_str()]);
}

#[test]
fn an_image_with_parity_is_protected_after_an_append_too() {
    let stage = Stage::new("-6", &["--parity", "40%"]);
    let path = stage.folder.path().join("image.shale");
    let bytes = std::fs::read(&path).unwrap();
    let grown_len = {
        let source = Arc::new(MemorySource::new(bytes.clone()));
        Image::open(source, shale_read::Options::default()).unwrap().len() as usize
    };
    let repaired = stage.folder.path().join("repaired.shale");
    // Damage in the part before and in the new one.
    for at in [stage.before.len() / 3, (stage.before.len() + grown_len) / 2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        let mut command = shale(["repair", "-q", "-f", "-o"]);
        expect_code(command.arg(&repaired).arg(&path), 0);
        assert_eq!(std::fs::read(&repaired).unwrap(), bytes, "damage at {at}");
    }
}

#[test]
fn an_append_extends_parity_and_codes_only_what_it_added() {
    let folder = places::quick();
    let [source, path, repaired] =
        ["source", "image.shale", "repaired.shale"].map(|name| folder.path().join(name));
    std::fs::create_dir(&source).unwrap();
    let mut random = Random::new(8);
    let mut add = |name: &str, len: usize| std::fs::write(source.join(name), random.bytes(len));
    add("first", 12 << 20).unwrap();
    create(&source, &path, &["-1", "--parity", "10%"]);
    let mut ends = vec![std::fs::metadata(&path).unwrap().len() as usize];
    for (name, len) in [("second", 300_000), ("third", 700_000), ("fourth", 1000)] {
        add(name, len).unwrap();
        let mut options = AppendOptions::default();
        options.create.build.level = 1;
        let report = shale::append(&path, &[Input::new(&source)], &options, &NoProgress).unwrap();
        let parity = report.parity.unwrap();
        // Its leaves are the end of the image; those before keep their parity.
        assert!(parity.leaves < 64, "{name}: {parity:?}");
        let added = report.added_bytes + parity.added_bytes;
        assert!(added < 3 << 20, "{name}: {added} bytes added");
        // All that was added, its last leaf, hashes of the leaves before, and sections.
        ends.push(std::fs::metadata(&path).unwrap().len() as usize);
    }
    let whole = std::fs::read(&path).unwrap();
    let opened = image::open(&whole).unwrap();
    let facts = shale::parity_facts(&opened).unwrap().unwrap();
    assert_eq!(facts.sections, 4);
    assert_eq!(facts.parts_per_million / 10_000, 10, "{facts:?}");
    let tree = Manifest::of(&source).unwrap();
    tree.assert_equals(&image::manifest(&whole).unwrap(), "as made");
    // A burst as long as is promised, at any of these places, and one byte in each part at once.
    let burst = facts.burst_bytes as usize;
    assert!(burst > 1 << 20, "{facts:?}");
    let last = whole.len() - 1;
    let starts =
        [70_000, 5 << 20, ends[0] - burst / 2, ends[0] - 100, ends[1] - 100, ends[2] - 100];
    // Each damage is places and a length. The last but one is where parity ends and what was
    // appended begins, in the middle of a leaf of both.
    let mut damages: Vec<(Vec<usize>, usize)> =
        starts.iter().map(|&at| (vec![at], burst.min(last - at))).collect();
    damages.push((vec![ends[0] - 10], 20));
    damages.push((ends.iter().flat_map(|&end| [end - 20, end / 2]).collect(), 1));
    for ranges in damages {
        let mut damaged = whole.clone();
        for &at in &ranges.0 {
            damaged[at..at + ranges.1].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        std::fs::write(&path, &damaged).unwrap();
        // A reader repairs what it reads, as far as it finds the image.
        let source = Arc::new(MemorySource::new(damaged.clone()));
        if let Ok(opened) = Image::open(source, Options::default())
            && opened.snapshots().len() == 4
        {
            let tree_read = opened.tree(&SnapshotChoice::Newest).unwrap();
            tree.assert_equals(&image::manifest_of(&tree_read).unwrap(), &format!("{ranges:?}"));
        }
        let said = shale(["check", "-q"]).arg(&path).output().unwrap();
        assert_eq!(said.status.code(), Some(4), "{ranges:?}: {said:?}");
        let mut repair = shale(["repair", "-q", "-f", "-o"]);
        expect_code(repair.arg(&repaired).arg(&path), 0);
        assert!(std::fs::read(&repaired).unwrap() == whole, "{ranges:?}");
    }
    // Each state before is an image of its own, with its own parity.
    for &end in &ends[..3] {
        let mut damaged = whole[..end].to_vec();
        damaged[end / 3] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let mut repair = shale(["repair", "-q", "-f", "-o"]);
        expect_code(repair.arg(&repaired).arg(&path), 0);
        assert!(std::fs::read(&repaired).unwrap() == whole[..end], "{end}");
    }
    // What doubles is protected anew, all of it.
    std::fs::write(&path, &whole).unwrap();
    add("fifth", 20 << 20).unwrap();
    let mut options = AppendOptions::default();
    options.create.build.level = 1;
    let report = shale::append(&path, &[Input::new(&source)], &options, &NoProgress).unwrap();
    let len = report.build.image_bytes;
    assert_eq!(report.parity.unwrap().leaves, len.div_ceil(LEAF_LEN));
    expect_code(shale(["check", "-q"]).arg(&path), 0);
}

#[test]
fn a_signature_stays_one_of_the_state_that_was_signed() {
    let stage = Stage::new("-1", &[]);
    let path = stage.folder.path().join("signed.shale");
    std::fs::write(&path, &stage.before).unwrap();
    let key = stage.folder.path().join("key");
    run(["keygen".as_ref(), key.as_os_str()]);
    run(["sign".as_ref(), "--embed".as_ref(), "-k".as_ref(), key.as_os_str(), path.as_os_str()]);
    let signed = std::fs::read(&path).unwrap();
    let mut command = shale(["append".as_ref(), path.as_os_str(), stage.source.as_os_str()]);
    let said = String::from_utf8(expect_code(&mut command, 0).stderr).unwrap();
    assert!(said.contains("its signature is of the state before"), "{said}");
    let grown = std::fs::read(&path).unwrap();
    assert!(grown.starts_with(&signed));
    let found = image::open(&grown).unwrap();
    assert_eq!(found.snapshots().len(), 2);
    run(["check".as_ref(), path.as_os_str()]);
}
