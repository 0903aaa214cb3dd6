//! Promise: damage is never data, whatever it is and whoever reads: library, check, extraction and
//! mount, over an image of many leaves, with parity and without.
//!
//! `SHALE_DAMAGES` says how many seeded damages the library and check meet; extraction meets one
//! in 25 of them and a mount one in 50, as each costs processes. `make test` has few.

use shale_tests::command::{Mount, can_mount, create, extract, shale};
use shale_tests::damage::{Kind, damage, judge_more, matrix, truth};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::medium_tree;
use shale_tests::random::Random;
use shale_tests::{image, places};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes at the end of an image without parity in which tables and all small structures lie.
const DENSE_LEN: usize = 24 << 10;
/// Blocks of 64 KiB that may be damaged at once and are always repaired: a body of parity need not
/// lie at a multiple of that, so a block may hit two of at least 18.
const BLOCKS_REPAIRED: usize = 8;
const BLOCK: usize = 64 << 10;

fn damage_count() -> usize {
    let wanted = std::env::var("SHALE_DAMAGES").ok();
    wanted.map_or(400, |count| count.parse().expect("SHALE_DAMAGES is a number"))
}

/// The image that is damaged, without and with parity, and one of another tree.
struct Images {
    plain: Vec<u8>,
    with_parity: Vec<u8>,
    older: Vec<u8>,
}

impl Images {
    /// Made once for all tests.
    fn get() -> &'static Self {
        static IMAGES: OnceLock<Images> = OnceLock::new();
        IMAGES.get_or_init(Self::new)
    }

    fn new() -> Self {
        let folder = places::disk();
        let pack = |name: &str, seed: u64, more: &[&str]| {
            let source = folder.path().join(format!("{name}-source"));
            std::fs::create_dir(&source).unwrap();
            make(&medium_tree(seed), &source, 1).unwrap();
            let path = folder.path().join(name);
            create(&source, &path, more);
            std::fs::read(path).unwrap()
        };
        let plain = pack("plain", 6, &[]);
        let with_parity = pack("parity", 6, &["--parity", "5%"]);
        assert_eq!(with_parity[..plain.len()], plain);
        assert!(plain.len() > 10 * BLOCK, "{} bytes are few leaves", plain.len());
        Self { plain, with_parity, older: pack("older", 7, &["--parity", "5%"]) }
    }

    /// Damage number `case`: the bytes, whether parity has to bring everything back, what was done.
    fn case(&self, case: usize) -> (Vec<u8>, bool, String) {
        let mut random = Random::new(case as u64);
        let whole = if case.is_multiple_of(2) { &self.plain } else { &self.with_parity };
        let kind = Kind::ALL[case / 2 % Kind::ALL.len()];
        let mut damaged = whole.clone();
        // Of the image with parity, what lies before the parity is dense as well.
        let dense = whole.len() - self.plain.len() + DENSE_LEN;
        let mut what = damage(&mut damaged, &self.older, dense, kind, &mut random);
        if random.below(4) == 0 {
            let more = Kind::ALL[random.below(6) as usize];
            what =
                format!("{what}, {}", damage(&mut damaged, &self.older, dense, more, &mut random));
        }
        let blocks = whole.chunks(BLOCK).enumerate();
        let hit =
            blocks.filter(|(at, block)| damaged.chunks(BLOCK).nth(*at) != Some(block)).count();
        let repairs = !case.is_multiple_of(2) && hit <= BLOCKS_REPAIRED;
        (damaged, repairs, format!("damage {case}: {what}"))
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes == self.plain || bytes == self.with_parity
    }
}

#[test]
fn library_and_check_give_right_data_or_errors_and_parity_gives_all() {
    let images = Images::get();
    let truth = truth(&images.plain);
    let tried = AtomicUsize::new(0);
    let count = damage_count();
    let opened = matrix(count, |case| {
        let (damaged, repairs, what) = images.case(case);
        if images.is_whole(&damaged) {
            return Ok(true);
        }
        let judged = judge_more(damaged, &truth).map_err(|error| format!("{what}: {error}"))?;
        if repairs {
            tried.fetch_add(1, Ordering::Relaxed);
            if let Some(error) = judged.error {
                return Err(format!("{what}: not repaired while reading: {error}"));
            }
        }
        Ok(judged.opened)
    });
    let tried = tried.into_inner();
    println!(
        "{count} damages: {opened} images opened; {tried} had to be read in full by parity, and were"
    );
    assert!(opened > count / 3 && tried > count / 4, "{opened} opened, {tried} with parity");
}

#[test]
fn extraction_brings_out_what_is_right_and_says_what_is_not() {
    let images = Images::get();
    let expected = image::manifest(&images.plain).unwrap();
    let folder = places::disk();
    let (path, target) = (folder.path().join("image"), folder.path().join("target"));
    let whole = folder.path().join("whole");
    std::fs::write(&path, &images.plain).unwrap();
    extract(&path, &whole);
    let (mut all, mut part, mut holed) = (0, 0, 0);
    for case in (0..damage_count()).step_by(25) {
        let (damaged, repairs, what) = images.case(case);
        std::fs::write(&path, &damaged).unwrap();
        let mut command = shale(["extract", "--continue", "-q"]);
        let output = command.arg(&path).arg("-C").arg(&target).output().unwrap();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1 | 3 | 4)), "{what}: exit code {code:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(code == Some(0) || !stderr.is_empty(), "{what}: fails without a word");
        assert!(!repairs || code == Some(0), "{what}: not repaired");
        if !target.exists() {
            continue;
        }
        let found = Manifest::of(&target).unwrap();
        if code == Some(0) {
            all += 1;
            expected.assert_equals(&found, &what);
        } else {
            part += 1;
            for (path, record) in &found.records {
                let name = path.escape_ascii();
                let right = expected.records.get(path);
                let right = right.unwrap_or_else(|| panic!("{what}: {name} is invented"));
                assert_eq!(record.kind, right.kind, "{what}: {name}");
                match record.kind {
                    'l' => assert_eq!(record.content, right.content, "{what}: {name} is wrong"),
                    '-' if record.content != right.content => {
                        // What is damaged is a hole in the file, and said.
                        assert!(stderr.contains("now a hole"), "{what}: {name} is wrong");
                        let found = std::fs::read(target.join(OsStr::from_bytes(path))).unwrap();
                        let right = std::fs::read(whole.join(OsStr::from_bytes(path))).unwrap();
                        let mut pairs = found.iter().zip(&right);
                        assert_eq!(found.len(), right.len(), "{what}: {name} has another length");
                        assert!(pairs.all(|(a, b)| a == b || *a == 0), "{what}: {name} is wrong");
                        holed += 1;
                    }
                    _ => {}
                }
            }
        }
        std::fs::remove_dir_all(&target).unwrap();
    }
    println!("extraction: {all} whole, {part} in part with {holed} files with a hole");
    assert!(all > 0);
}

#[test]
fn a_mount_gives_what_is_right_or_an_error() {
    if !can_mount() {
        return;
    }
    let images = Images::get();
    let expected = image::manifest(&images.plain).unwrap();
    let folder = places::disk();
    let (path, point) = (folder.path().join("image"), folder.path().join("point"));
    std::fs::create_dir(&point).unwrap();
    let whole_bytes = contents(&expected, images, &path, &point);
    let (mut mounted, mut right, mut failed) = (0, 0, 0);
    for case in (0..damage_count()).step_by(50).map(|case| case + case / 50 % 2) {
        let (damaged, repairs, what) = images.case(case);
        std::fs::write(&path, &damaged).unwrap();
        let mut command = shale([OsStr::new("mount"), path.as_os_str(), point.as_os_str()]);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        if !status.success() {
            assert!(!repairs, "{what}: not repaired");
            continue;
        }
        mounted += 1;
        let mount = Mount::adopt(&point);
        for (name, bytes) in &whole_bytes {
            match std::fs::read(point.join(OsStr::from_bytes(name))) {
                Ok(found) => {
                    right += 1;
                    assert!(&found == bytes, "{what}: {} is wrong", name.escape_ascii());
                }
                Err(error) => {
                    failed += 1;
                    assert!(!repairs, "{what}: {}: {error}", name.escape_ascii());
                }
            }
        }
        mount.end();
    }
    println!("mount: {mounted} mounted, {right} files right, {failed} refused");
    assert!(mounted > 0 && right > 0);
}

/// The bytes of every file of a moderate size, read through a mount of the whole image.
fn contents(
    expected: &Manifest,
    images: &Images,
    path: &Path,
    point: &Path,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    std::fs::write(path, &images.plain).unwrap();
    let mount = Mount::new(path, point, &[]);
    let files = expected.records.iter().filter(|(_, record)| {
        record.kind == '-' && record.len < 4 << 20 && record.mode & 0o400 != 0
    });
    let found = files
        .map(|(name, _)| {
            let bytes = std::fs::read(point.join(OsStr::from_bytes(name)));
            (name.clone(), bytes.unwrap_or_else(|e| panic!("{}: {e}", name.escape_ascii())))
        })
        .collect();
    mount.end();
    found
}
