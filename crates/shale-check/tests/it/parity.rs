//! Promise: what parity covers comes back bit for bit: bursts, scattered blocks, a lost beginning,
//! a lost end; by `repair` into a new file and by every reader while it reads.

use shale::read::{ByteSource, Image, MemorySource, Options, SnapshotChoice};
use shale::{
    CheckError as Error, CheckOptions, CreateOptions, NoProgress, Output, ParityOptions,
    ParityProblem, RepairOptions, add_parity, check, create, repair,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use tempfile::TempDir;

const LEAF: usize = 64 << 10;
const MIB: usize = 1 << 20;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = vec![0; len];
    bytes.chunks_mut(4).for_each(|piece| {
        let word = random.next().to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    });
    bytes
}

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An image of `len` bytes of noise in files of many sizes.
    fn image(&self, name: &str, len: usize, parity_ppm: u32) -> Vec<u8> {
        let source = self.path("source");
        if !source.exists() {
            fs::create_dir(&source).unwrap();
            let (mut left, mut number) = (len, 0);
            while left > 0 {
                let len = left.min(1 + (number as usize * 7919) % (2 * MIB));
                let folder = source.join(format!("{}", number % 7));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(format!("file {number}")), noise(len, number)).unwrap();
                left -= len;
                number += 1;
            }
        }
        let options = CreateOptions::default().parity_ppm(parity_ppm);
        let path = self.path(name);
        create(&[source.as_path().into()], Output::Path(path.clone()), &options, &NoProgress)
            .unwrap();
        fs::read(path).unwrap()
    }
}

fn open(bytes: Vec<u8>) -> Arc<Image> {
    Image::open(Arc::new(MemorySource::new(bytes)), Options::default()).unwrap()
}

/// Every file's bytes, in the order of the tree.
fn contents(image: &Arc<Image>) -> Result<Vec<Vec<u8>>, String> {
    let read = || {
        let tree = image.tree(&SnapshotChoice::Newest)?;
        let (mut found, mut waiting) = (Vec::new(), vec![tree.root_inode()]);
        while let Some(inode) = waiting.pop() {
            let attributes = tree.attributes(inode)?;
            if attributes.kind == shale::read::InodeKind::Directory {
                tree.list(inode, 0, |entry| {
                    waiting.push(entry.inode);
                    true
                })?;
            } else if attributes.kind == shale::read::InodeKind::File {
                let mut bytes = vec![0; attributes.size as usize];
                tree.read(inode, 0, &mut bytes)?;
                found.push(bytes);
            }
        }
        Ok(found)
    };
    read().map_err(|error: shale::read::ReadError| error.to_string())
}

/// Repairs `damaged` and compares; reads it while it is damaged and compares.
fn assert_restored(place: &Place, damaged: &[u8], truth: &[u8], files: &[Vec<u8>], what: &str) {
    let (from, to) = (place.path("damaged"), place.path("repaired"));
    fs::write(&from, damaged).unwrap();
    let options = RepairOptions::default().overwrite(true);
    let report =
        repair(&from, &to, &options, &NoProgress).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(report.is_whole(), "{what}");
    assert!(fs::read(&to).unwrap() == truth, "{what}: other bytes than before");
    let image = Image::open(Arc::new(MemorySource::new(damaged)), Options::default())
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = contents(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(found == files, "{what}: read other contents");
}

fn zero(bytes: &[u8], from: usize, len: usize) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    let end = (from + len).min(bytes.len());
    damaged[from..end].fill(0);
    damaged
}

#[test]
fn bursts_blocks_a_lost_beginning_and_a_lost_end_are_restored() {
    assert_losses_are_restored(2, 1);
}

/// Loses the beginning, the end, bursts at one more than this many places, and leaves in this many
/// choices.
fn assert_losses_are_restored(bursts: usize, choices: u64) {
    let place = Place::new();
    let bytes = place.image("image", 24 * MIB, 50_000);
    let files = contents(&open(bytes.clone())).unwrap();
    let len = bytes.len();
    assert!(len < 27 * MIB, "{len} bytes");
    let restored = |damaged: &[u8], what: &str| {
        assert_restored(&place, damaged, &bytes, &files, what);
    };
    restored(&bytes, "nothing");
    restored(&zero(&bytes, 0, MIB), "the first MiB is zero");
    restored(&bytes[..len - MIB], "the last MiB is cut off");
    let burst = len / 25;
    for part in 0..=bursts {
        let from = (len - burst) / bursts * part;
        restored(&zero(&bytes, from, burst), &format!("a burst at {from}"));
    }
    // Where data end and parity begins, at odd places.
    let parity = Image::open(Arc::new(MemorySource::new(bytes.as_slice())), Options::default());
    let parity = parity.unwrap().trailer().previous_trailer_offset as usize + 128;
    for from in [parity - burst, parity - burst / 2 + 1, parity - 100, parity, parity + 65] {
        restored(&zero(&bytes, from, burst), &format!("a burst at {from}, parity at {parity}"));
    }
    for seed in 0..choices {
        let mut random = Random(seed);
        let mut damaged = bytes.clone();
        for _ in 0..len / LEAF / 25 {
            let from = random.below(len / LEAF) * LEAF;
            let noise = noise(LEAF, random.next());
            damaged[from..from + LEAF].copy_from_slice(&noise);
        }
        restored(&damaged, &format!("4 % of all leaves, seed {seed}"));
    }
}

#[test]
fn as_many_leaves_as_there_are_bodies_and_not_one_more() {
    let place = Place::new();
    let bytes = place.image("image", 5 * MIB, 50_000);
    let files = contents(&open(bytes.clone())).unwrap();
    let path = place.path("image");
    let report = add_parity_report(&place, &path);
    let bodies = 18;
    assert_eq!(report, bodies, "the floor of small images");
    // Leaves of frames, away from metadata, which has parity of its own.
    let lose = |count: usize| {
        let mut damaged = bytes.clone();
        (0..count).for_each(|leaf| damaged[(2 * leaf + 1) * LEAF] ^= 1);
        damaged
    };
    assert_restored(&place, &lose(bodies), &bytes, &files, "all that parity can");
    let one_more = lose(bodies + 1);
    let damaged = place.path("damaged");
    fs::write(&damaged, &one_more).unwrap();
    let output = place.path("not there");
    let error = repair(&damaged, &output, &RepairOptions::default(), &NoProgress).unwrap_err();
    assert!(matches!(error, Error::Repair { .. }) && error.to_string().contains("19"), "{error}");
    assert!(!output.exists());
    let image = Image::open(Arc::new(MemorySource::new(one_more)), Options::default()).unwrap();
    assert!(contents(&image).unwrap_err().contains("checksum"));
    // What is whole is kept on request, and what is lost is named.
    let salvage = RepairOptions::default().salvage(true);
    let report = repair(&damaged, &output, &salvage, &NoProgress).unwrap();
    assert_eq!(report.leaves_lost, 19);
    assert!(!report.is_whole() && report.check.damaged_path_count > 0);
}

#[test]
fn each_of_several_groups_is_restored_by_itself() {
    let place = Place::new();
    let plain = place.image("image", 5 * MIB, 0);
    let files = contents(&open(plain.clone())).unwrap();
    let path = place.path("image");
    let options = ParityOptions::default().parts_per_million(250_000).group_leaves_max(20);
    let report = add_parity(&path, &options, &NoProgress).unwrap();
    let bytes = fs::read(&path).unwrap();
    let (groups, bodies) = (report.groups as usize, report.parity_of_group as usize);
    assert!(groups >= 4 && (3..20).contains(&bodies), "{groups} groups of {bodies} bodies");
    // Leaf n is of group n mod groups; metadata, which have more parity, lie last.
    let lose = |lost: &[(usize, usize)]| {
        let mut damaged = bytes.clone();
        for &(group, count) in lost {
            (0..count).for_each(|index| damaged[(index * groups + group) * LEAF + 7] ^= 0x20);
        }
        damaged
    };
    let all: Vec<(usize, usize)> = (0..groups).map(|group| (group, bodies)).collect();
    assert_restored(&place, &lose(&all), &bytes, &files, "as much of each group as it has parity");
    let burst = report.burst_bytes as usize;
    assert!(burst >= (groups * bodies - 1) * LEAF);
    for from in [0, 3 * LEAF + 1, plain.len() - burst / 2, bytes.len() - burst] {
        let what = format!("a burst of {burst} at {from}, over all groups");
        assert_restored(&place, &zero(&bytes, from, burst), &bytes, &files, &what);
    }
    // One more in one group: that one is lost, the others are not, and check counts them.
    let mut lost = all.clone();
    lost[1].1 += 1;
    let damaged = lose(&lost);
    let report =
        check(Arc::new(MemorySource::new(&damaged[..])), &CheckOptions::default(), &NoProgress);
    let shale::ParityState::Found { damaged_leaves, lost_leaves, .. } = report.unwrap().parity
    else {
        panic!("there is parity")
    };
    assert_eq!(damaged_leaves as usize, groups * bodies + 1);
    assert_eq!(lost_leaves as usize, bodies + 1);
    let (from, to) = (place.path("damaged"), place.path("not there yet"));
    fs::write(&from, &damaged).unwrap();
    assert!(repair(&from, &to, &RepairOptions::default(), &NoProgress).is_err() && !to.exists());
    let salvage = RepairOptions::default().salvage(true);
    let report = repair(&from, &to, &salvage, &NoProgress).unwrap();
    assert_eq!(report.leaves_lost as usize, bodies + 1);
    assert_eq!(report.leaves_repaired as usize, (groups - 1) * bodies);
}

/// Reads all of a damaged image while no more than `kept` repaired leaves are kept, by one thread
/// and by several at once; the bytes that one thread read from the source.
fn assert_read(damaged: &[u8], files: &[Vec<u8>], kept: usize, what: &str) -> u64 {
    let options = Options::default().repaired_bytes_max((kept * LEAF) as u64).cache_bytes_max(0);
    let source = Arc::new(Counted::new(damaged.to_vec()));
    let open =
        || Image::open(source.clone(), options.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let read = |image: &Arc<Image>| {
        let found = contents(image).unwrap_or_else(|e| panic!("{what}, {kept} leaves kept: {e}"));
        assert!(found == files, "{what}, {kept} leaves kept: read other contents");
    };
    read(&open());
    let bytes = source.read.load(Ordering::Relaxed);
    let shared = open();
    std::thread::scope(|scope| {
        (0..3).for_each(|_| _ = scope.spawn(|| read(&shared)));
    });
    bytes
}

/// A source that counts what is read of it, and cannot be read from some offset on for a while.
struct Counted {
    bytes: RwLock<Vec<u8>>,
    read: AtomicU64,
    readable: AtomicU64,
}

impl Counted {
    fn new(bytes: Vec<u8>) -> Self {
        let (read, readable) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Self { bytes: RwLock::new(bytes), read, readable }
    }

    /// Bytes read since this was asked last.
    fn take(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed) as usize
    }
}

impl ByteSource for Counted {
    fn len(&self) -> u64 {
        self.bytes.read().unwrap().len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        if offset + buf.len() as u64 > self.readable.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("it cannot be read now"));
        }
        let range = offset as usize..offset as usize + buf.len();
        let bytes = self.bytes.read().unwrap();
        buf.copy_from_slice(bytes.get(range).ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Reads all files and gives the bytes that were read of the source.
fn cost(source: &Arc<Counted>, image: &Arc<Image>) -> (Result<Vec<Vec<u8>>, String>, usize) {
    image.clear_caches();
    source.take();
    (contents(image), source.take())
}

#[test]
fn nobody_looks_for_parity_where_trailers_say_that_there_is_none() {
    let place = Place::new();
    let bytes = place.image("image", 5 * MIB, 0);
    let path = place.path("image");
    let key = place.path("key");
    shale::generate_key(&key, "").unwrap();
    let key = shale::read_secret_key(&key).unwrap();
    let options = shale::SignOptions::default();
    let signature = shale::sign(&path, &key, &options, &NoProgress).unwrap();
    shale::embed_signature(&path, &signature, &options).unwrap();
    for (mut bytes, what) in [(bytes, "as built"), (fs::read(&path).unwrap(), "signed")] {
        bytes[3 * MIB] ^= 1;
        let source = Arc::new(Counted::new(bytes));
        let never = Options::default().repair(false);
        let never = Image::open(source.clone(), never).unwrap();
        let (found, least) = cost(&source, &never);
        assert!(found.is_err(), "{what}");
        let image = Image::open(source.clone(), Options::default()).unwrap();
        let (found, bytes) = cost(&source, &image);
        assert!(found.unwrap_err().contains("checksum"), "{what}");
        assert!(bytes <= least + 1024, "{what}: {bytes} bytes read, without repair {least}");
    }
}

#[test]
fn parity_that_could_not_be_read_once_is_looked_for_again() {
    let place = Place::new();
    let mut bytes = place.image("image", 3 * MIB, 50_000);
    let files = contents(&open(bytes.clone())).unwrap();
    let trailer = open(bytes.clone()).trailer().previous_trailer_offset;
    bytes[MIB] ^= 1;
    let source = Arc::new(Counted::new(bytes));
    let image = Image::open(source.clone(), Options::default()).unwrap();
    let fail = |from: u64| source.readable.store(from, Ordering::Relaxed);
    fail(trailer);
    assert!(contents(&image).is_err(), "parity cannot be read");
    let (found, first) = cost(&source, &image);
    assert!(found.is_err() && first < MIB * 5 / 2, "{first} bytes: all was looked through again");
    fail(u64::MAX);
    assert!(contents(&image).unwrap() == files);
}

#[test]
fn a_group_that_is_beyond_repair_is_read_once() {
    let place = Place::new();
    let bytes = place.image("image", 5 * MIB, 50_000);
    let files = contents(&open(bytes.clone())).unwrap();
    let mut damaged = bytes.clone();
    (0..19).for_each(|leaf| damaged[(2 * leaf + 1) * LEAF] ^= 1);
    let source = Arc::new(Counted::new(damaged));
    let image = Image::open(source.clone(), Options::default()).unwrap();
    let (found, first) = cost(&source, &image);
    assert!(found.is_err() && first > bytes.len() - MIB, "{first} bytes of {}", bytes.len());
    let (found, again) = cost(&source, &image);
    assert!(found.is_err() && again < first - bytes.len() * 4 / 5, "{again} bytes, first {first}");

    // Where it is the source that fails, that may pass.
    let mut damaged = bytes.clone();
    damaged[3 * LEAF] ^= 1;
    let source = Arc::new(Counted::new(damaged));
    let options = Options::default().repaired_bytes_max(0).cache_bytes_max(0);
    let image = Image::open(source.clone(), options).unwrap();
    assert!(contents(&image).unwrap() == files, "its parity is known now");
    source.readable.store(MIB as u64, Ordering::Relaxed);
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    let mut buf = vec![0; MIB];
    let failed = (1..20).filter(|&inode| tree.read(inode, 0, &mut buf).is_err()).count();
    assert!(failed > 1, "{failed} failed");
    source.readable.store(u64::MAX, Ordering::Relaxed);
    assert!(contents(&image).unwrap() == files);
}

#[test]
fn a_read_gets_all_that_parity_restores_however_little_is_kept() {
    let place = Place::new();
    let plain = place.image("image", 5 * MIB, 0);
    let files = contents(&open(plain.clone())).unwrap();
    let path = place.path("image");
    let add = |parts_per_million, group_leaves_max| {
        fs::write(&path, &plain).unwrap();
        let options = ParityOptions::default()
            .parts_per_million(parts_per_million)
            .group_leaves_max(group_leaves_max);
        let report = add_parity(&path, &options, &NoProgress).unwrap();
        (fs::read(&path).unwrap(), report)
    };
    // One group, which loses many times what is kept, from the very first leaf on.
    let (bytes, _) = add(1_000_000, u64::from(u32::MAX));
    let damaged = zero(&bytes, 0, plain.len() - LEAF);
    for kept in [0, 1, 5, 40] {
        assert_read(&damaged, &files, kept, "a group");
    }
    // Several groups, where leaves that lie side by side are of different ones.
    let (bytes, report) = add(250_000, 20);
    let damaged = zero(&bytes, 3 * LEAF + 1, report.burst_bytes as usize);
    let by_kept = [0, 1, 5, 40].map(|kept| assert_read(&damaged, &files, kept, "groups"));
    // What follows a read is kept for the next one: half of the burst costs each group twice.
    assert!(by_kept[3] < 5 * bytes.len() as u64, "{by_kept:?} of {}", bytes.len());
    assert!(by_kept[3] < by_kept[1] / 2, "{by_kept:?}");
}

#[test]
fn a_read_gets_what_is_restored_only_after_leaves_of_another_group() {
    let place = Place::new();
    let source = place.path("source");
    fs::create_dir(&source).unwrap();
    // Names that fill a few leaves with metadata.
    let mut random = Random(3);
    for _ in 0..16_000 {
        fs::write(source.join(format!("{:x}{:x}", random.next(), random.next())), "").unwrap();
    }
    fs::write(source.join("noise"), noise(3 * MIB, 1)).unwrap();
    let plain = place.image("image", 0, 0);
    let path = place.path("image");
    let options = ParityOptions::default().group_leaves_max(20);
    let report = add_parity(&path, &options, &NoProgress).unwrap();
    let (groups, bodies) = (report.groups as usize, report.parity_of_group as usize);
    let bytes = fs::read(&path).unwrap();
    // All of one group's parity, and a leaf of metadata more, which metadata's own parity restores
    // with another one of another group.
    let last = (plain.len() - 1) / LEAF;
    let lost = [last - 1, last - 2];
    assert!(groups > 1 && lost[0] % groups != lost[1] % groups && lost[1] * LEAF > 3 * MIB);
    let mut damaged = bytes.clone();
    lost.iter().for_each(|leaf| damaged[leaf * LEAF + 9] ^= 1);
    (0..bodies).for_each(|index| damaged[(index * groups + lost[0] % groups) * LEAF + 9] ^= 1);
    // Metadata are read before they are damaged, so nobody asks for a repair of them.
    let files = contents(&open(bytes.clone())).unwrap();
    let source = Arc::new(Counted::new(bytes.clone()));
    let options = Options::default().cache_bytes_max(0);
    let image = Image::open(source.clone(), options).unwrap();
    assert!(contents(&image).unwrap() == files);
    source.bytes.write().unwrap().copy_from_slice(&damaged);
    assert!(contents(&image).unwrap() == files);
    assert_eq!(image.counters().snapshot().reads_repaired, 1);
    assert_restored(&place, &damaged, &bytes, &files, "metadata before frames");
}

/// Bodies of the first set of the image at `path`.
fn add_parity_report(place: &Place, path: &Path) -> usize {
    // A copy without parity gets the same parity: adding later is the same as at once.
    let plain = place.path("plain");
    let source = place.path("source");
    create(
        &[source.as_path().into()],
        Output::Path(plain.clone()),
        &CreateOptions::default(),
        &NoProgress,
    )
    .unwrap();
    let before = fs::read(&plain).unwrap();
    let report = add_parity(&plain, &ParityOptions::default(), &NoProgress).unwrap();
    let after = fs::read(&plain).unwrap();
    assert!(after == fs::read(path).unwrap(), "added later, it is another");
    assert!(after[..before.len()] == before, "adding changed what was there");
    let identity = open(before).identity().unwrap().unwrap().1;
    assert_eq!(report.identity, identity);
    assert_eq!(open(after).identity().unwrap().unwrap().1, identity);
    report.parity_of_group as usize
}

#[test]
fn every_state_on_the_way_to_parity_is_the_image_before() {
    let place = Place::new();
    let with = place.image("image", 2 * MIB, 50_000);
    let plain = place.image("plain", 0, 0);
    let files = contents(&open(plain.clone())).unwrap();
    let mut random = Random(5);
    for _ in 0..40 {
        let end = plain.len() + random.below(with.len() - plain.len());
        for keep_header in [false, true] {
            let mut state = with[..end].to_vec();
            if !keep_header {
                let header = plain.len()..(plain.len() + 64).min(end);
                state[header].fill(0);
            }
            let image = open(state);
            assert!(contents(&image).unwrap() == files, "{end} bytes");
        }
    }
    // Without force, nothing that follows an image is overwritten.
    let path = place.path("rest");
    fs::write(&path, &with[..with.len() - 1000]).unwrap();
    let error = add_parity(&path, &ParityOptions::default(), &NoProgress).unwrap_err();
    let problem = ParityProblem::InterruptedWriter;
    assert!(matches!(error, Error::Parity { problem: found, .. } if found == problem));
    let force = ParityOptions::default().force(true);
    add_parity(&path, &force, &NoProgress).unwrap();
    assert!(fs::read(&path).unwrap() == with);
    fs::write(&path, [plain.as_slice(), b"more"].concat()).unwrap();
    let error = add_parity(&path, &ParityOptions::default(), &NoProgress);
    assert!(error.is_err(), "bytes behind");
}

#[test]
fn nothing_is_cut_off_a_file_that_gets_no_parity() {
    let place = Place::new();
    let with = place.image("image", MIB, 50_000);
    let path = place.path("rest");
    let rest = &with[..with.len() - 1000];
    let mut damaged = rest.to_vec();
    damaged[MIB / 2] ^= 1;
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images");
    let old = fs::read(golden.join("0.1-tiny.shale")).unwrap();
    let old = [&old[..], b"\x8bSECTN\r\nmore"].concat();
    let force = ParityOptions::default().force(true);
    for (what, bytes) in [("damage", damaged.as_slice()), ("cancelled", rest)] {
        fs::write(&path, bytes).unwrap();
        if what == "cancelled" {
            force.cancel.cancel();
        }
        assert!(add_parity(&path, &force, &NoProgress).is_err(), "{what}");
        assert!(fs::read(&path).unwrap() == bytes, "{what}: the file is another");
    }
    // An image of the first format is checked without what is cut off.
    fs::write(&path, &old).unwrap();
    let force = ParityOptions::default().force(true);
    add_parity(&path, &force, &NoProgress).unwrap();
    let report = check(
        Arc::new(MemorySource::new(fs::read(&path).unwrap())),
        &CheckOptions::default(),
        &NoProgress,
    );
    assert!(report.unwrap().is_clean());
}

#[test]
fn parity_is_not_made_of_damage() {
    let place = Place::new();
    let plain = place.image("image", MIB, 0);
    let path = place.path("damaged");
    for at in [100_000, plain.len() - 1500] {
        let mut damaged = plain.clone();
        damaged[at] ^= 4;
        fs::write(&path, &damaged).unwrap();
        let error = add_parity(&path, &ParityOptions::default(), &NoProgress).unwrap_err();
        // What is told depends on which structure the byte belongs to.
        let text = error.to_string();
        assert!(text.contains("damage") || text.contains("section header"), "{text}");
        assert!(fs::read(&path).unwrap() == damaged, "the file is as it was");
    }
}

#[test]
fn any_cut_and_any_flipped_byte_of_the_parity_is_restored() {
    let place = Place::new();
    let bytes = place.image("image", MIB / 2, 200_000);
    let files = contents(&open(bytes.clone())).unwrap();
    let plain_len = {
        let image = open(bytes.clone());
        image.trailer().previous_trailer_offset as usize + 128
    };
    let mut random = Random(11);
    for case in 0..60 {
        let at = plain_len + random.below(bytes.len() - plain_len);
        let mut damaged = bytes.clone();
        match case % 3 {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 0x80,
            _ => damaged = zero(&bytes, at, 5000),
        }
        assert_restored(&place, &damaged, &bytes, &files, &format!("case {case} at {at}"));
    }
    // A byte of every structure between data and bodies, and of the last ones.
    for at in (plain_len..plain_len + 300).chain(bytes.len() - 300..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_restored(&place, &damaged, &bytes, &files, &format!("byte {at}"));
    }
}

#[test]
fn a_failing_disk_is_repaired_from_the_rest() {
    let place = Place::new();
    let bytes = place.image("image", 3 * MIB, 50_000);
    let files = contents(&open(bytes.clone())).unwrap();
    let source = Arc::new(Sectors { bytes, bad: [MIB, MIB + 300_000, 2 * MIB + 1] });
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let told =
        shale::read::Log(Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned())));
    let options = Options::default().log(told);
    let image = Image::open(source.clone(), options).unwrap();
    assert!(contents(&image).unwrap() == files);
    // The first repair of a group repairs all of it.
    assert_eq!(image.counters().snapshot().reads_repaired, 1);
    assert_eq!(log.lock().unwrap().len(), 3, "{:?}", log.lock().unwrap());
    let never = Options::default().repair(false);
    assert!(contents(&Image::open(source, never).unwrap()).is_err());
}

/// A disk with a few sectors that cannot be read.
struct Sectors {
    bytes: Vec<u8>,
    bad: [usize; 3],
}

impl ByteSource for Sectors {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let range = offset as usize..offset as usize + buf.len();
        if self.bad.iter().any(|bad| range.contains(bad)) {
            return Err(std::io::Error::other("a sector cannot be read"));
        }
        let bytes = self.bytes.get(range).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn an_image_of_the_first_format_gets_parity_and_an_identity() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images");
    let before = fs::read(golden.join("0.1-tiny.shale")).unwrap();
    let place = Place::new();
    let path = place.path("old");
    fs::write(&path, &before).unwrap();
    let report = add_parity(&path, &ParityOptions::default(), &NoProgress).unwrap();
    let after = fs::read(&path).unwrap();
    assert!(after[..before.len()] == before);
    let files = contents(&open(before.clone())).unwrap();
    let expect = Options::default().expect(report.identity);
    let image = Image::open(Arc::new(MemorySource::new(after.as_slice())), expect).unwrap();
    assert!(contents(&image).unwrap() == files);
    let source = Arc::new(MemorySource::new(after.as_slice()));
    assert!(check(source, &CheckOptions::default(), &NoProgress).unwrap().is_clean());
    let damaged = zero(&after, 0, before.len().min(after.len() / 4));
    assert_restored(&place, &damaged, &after, &files, "half of it is zero");
}

/// What `make check` tries a sample of.
mod long {
    use super::assert_losses_are_restored;

    #[test]
    fn many_bursts_and_lost_blocks_are_restored() {
        assert_losses_are_restored(12, 6);
    }
}
