//! Builds with references and segment dedupe, read back.

use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, Mutex};

use shale_codec::Codec;
use shale_format::{InodeKind, Timestamp};
use shale_model::{Content, EntrySource, Metadata, SourceEntry, SourceError};
use shale_read::{Image, MemorySource, SnapshotChoice, Tree};

use crate::create;
use crate::plan::budget::Plan;
use crate::plan::error::WriteError;
use crate::plan::level::ReferenceLimits;
use crate::plan::options::Options;
use crate::plan::order::Order;
use crate::plan::report::Report;
use shale_host::{NoProgress, Progress};

/// Files in memory.
struct Files<'a>(std::slice::Iter<'a, (String, Vec<u8>)>);

impl EntrySource for Files<'_> {
    fn seed(&self) -> [u8; 32] {
        [1; 32]
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        Ok(self.0.next().map(|(path, bytes)| SourceEntry {
            path: path.clone().into_bytes(),
            metadata: Metadata {
                kind: InodeKind::File,
                permissions: 0o644,
                uid: 0,
                gid: 0,
                mtime: Timestamp::default(),
                atime: Timestamp::default(),
                ctime: Timestamp::default(),
                btime: Timestamp::default(),
                len: bytes.len() as u64,
                device: 0,
            },
            xattrs: Arc::default(),
            link: None,
            target: Vec::new(),
            content: Content::Bytes(bytes.clone()),
        }))
    }
}

/// Bytes that do not compress.
pub(crate) fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

/// Versions of a few files: each version changes some bytes. What does not compress alone
/// compresses with an earlier version as prefix.
fn versions() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for version in 0..12u64 {
        for file in 0..3u64 {
            let mut bytes = random(file + 1, 60_000);
            for change in random(100 + version * 3 + file, 20) {
                bytes[usize::from(change) * 200] ^= 0xff;
            }
            bytes.truncate(50_000 + 100 * version as usize);
            files.push((format!("v{version:02}/f{file}"), bytes));
        }
    }
    files
}

fn build(files: &[(String, Vec<u8>)], options: &Options) -> (Vec<u8>, Report) {
    let mut image = Vec::new();
    let mut source = Files(files.iter());
    let report = create(&mut source, &mut image, options, &NoProgress).unwrap();
    assert_comes_back(files, &image);
    (image, report)
}

fn assert_comes_back(files: &[(String, Vec<u8>)], image: &[u8]) {
    let tree = open(image);
    for (path, bytes) in files {
        let inode = tree.lookup_path(path.as_bytes()).unwrap().unwrap();
        let mut read = vec![0; bytes.len()];
        assert_eq!(tree.read(inode, 0, &mut read).unwrap(), bytes.len());
        assert!(read == *bytes, "{path}");
    }
}

fn open(image: &[u8]) -> Tree {
    let source = Arc::new(MemorySource::new(image));
    let image = Image::open(source, shale_read::Options::default()).unwrap();
    image.tree(&SnapshotChoice::Newest).unwrap()
}

fn options(threads: usize) -> Options {
    Options { level: 1, threads, frame_len: Some(64 << 10), ..Options::default() }
}

/// The same with references.
fn referring(count_max: u16, depth_max: u8, threads: usize) -> Options {
    let limits = ReferenceLimits { count_max, depth_max, ..ReferenceLimits::UNBOUNDED };
    Options { references: Some(limits), ..options(threads) }
}

/// The same with the least memory that is allowed for a source of unknown length.
fn with_least_memory(options: Options) -> Options {
    with_least_memory_for(None, options)
}

/// The same with the least memory that is allowed for contents of this many bytes.
fn with_least_memory_for(content_bytes: Option<u64>, options: Options) -> Options {
    let none = Options { memory_bytes_max: 1, ..options.clone() };
    let Err(WriteError::Memory { needed, .. }) = Plan::new(&none, content_bytes).map(drop) else {
        panic!("one byte is not enough");
    };
    Options { memory_bytes_max: needed, ..options }
}

#[test]
fn frames_with_references_come_back_and_are_smaller() {
    let files = versions();
    let (alone, report) = build(&files, &options(2));
    assert_eq!((report.references, report.temporary_file_bytes), (0, 0));
    for (count_max, depth_max) in [(1, 1), (2, 1), (2, 2), (4, 3)] {
        let (image, report) = build(&files, &referring(count_max, depth_max, 1));
        assert!(report.frames_with_references >= report.frames / 3);
        assert!(image.len() * 4 < alone.len() * 3, "{} of {}", image.len(), alone.len());
        assert!(report.reference_saved_bytes > (alone.len() - image.len()) as u64 / 2);
        let bounds = open(&image).image().root().bounds;
        assert!((1..=depth_max).contains(&bounds.depth_max));
        assert!((1..=count_max).contains(&bounds.reference_count_max));
        assert!(bounds.read_bytes_max > bounds.frame_plain_len_max);
        let (again, _) = build(&files, &referring(count_max, depth_max, 3));
        assert!(again == image, "threads change nothing");
    }
}

#[test]
fn little_memory_sends_frames_through_a_file_and_changes_nothing() {
    let files = versions();
    let (image, report) = build(&files, &referring(2, 2, 2));
    assert_eq!(report.temporary_file_bytes, 0);
    let little = with_least_memory(referring(2, 2, 1));
    let (again, report) = build(&files, &little);
    assert!(report.temporary_file_bytes > 0, "{}", report.temporary_file_bytes);
    assert!(again == image);
}

/// At each level with references: what is hot is in front, in short frames that need no other; what
/// is only listed first is not.
#[test]
fn hot_files_decode_quickly_and_others_may_refer_to_them() {
    let mut files = versions();
    let lines = |seed| random(seed, 40_000).iter().map(|byte| format!("value {byte}\n")).collect();
    let text: Vec<String> = vec![lines(1), lines(2)];
    files.extend(text.into_iter().zip(0..).map(|(t, n)| (format!("w/t{n}"), t.into_bytes())));
    let hot: Vec<_> = ["w/t1", "v05/f2", "w/t0", "v07/f1"].map(|path| path.into()).into();
    let hot_len = files.iter().filter(|(path, _)| hot.contains(&path.clone().into_bytes()));
    let hot_len: usize = hot_len.map(|(_, bytes)| bytes.len()).sum();
    for level in [4, 6, 7, 9] {
        let build = |first_is_hot, threads| {
            let first = hot.clone();
            let options = Options { level, threads, first, first_is_hot, ..Options::default() };
            let mut image = Vec::new();
            let mut source = Files(files.iter());
            let report = create(&mut source, &mut image, &options, &NoProgress).unwrap();
            assert_eq!(report.contents_stored_first, hot.len() as u64);
            image
        };
        let image = build(true, 2);
        assert_comes_back(&files, &image);
        assert!(image == build(true, 1), "threads change nothing");
        let tree = open(&image);
        let records: Vec<_> = (0..tree.image().frame_count())
            .map(|frame| tree.image().frame_record(frame).unwrap())
            .collect();
        let in_front = records.iter().position(|r| r.plain_start == hot_len as u64).unwrap();
        assert!(in_front >= 8, "{in_front}");
        for record in &records[..in_front] {
            assert!(record.plain_len <= 128 << 10 && record.reference_count == 0, "{record:?}");
            assert!([Codec::Stored.id(), Codec::Zstd.id()].contains(&record.codec), "{record:?}");
        }
        let mut referred = records[in_front..]
            .iter()
            .flat_map(|record| tree.image().references(record).unwrap().frames().to_vec());
        assert!(referred.any(|frame| frame < in_front as u64), "level {level}");
        let first = open(&build(false, 2));
        let first = first.image().frame_record(0).unwrap();
        assert!(first.plain_len > 128 << 10, "{first:?}");
    }
}

/// Frames share a little, so that references are chosen, but less than a decode is worth.
#[test]
fn references_that_do_not_pay_are_dropped() {
    let shared = random(99, 1500);
    let files: Vec<_> =
        (0..9).map(|n| (format!("f{n}"), [&shared[..], &random(n + 1, 60_000)].concat())).collect();
    let (image, report) = build(&files, &referring(1, 1, 2));
    assert_eq!((report.references, report.frames_with_references), (0, 0));
    assert!(report.frames_references_dropped > 3, "{}", report.frames_references_dropped);
    assert_eq!(open(&image).image().root().bounds.depth_max, 0);
}

#[test]
fn segments_found_elsewhere_come_back_and_are_stored_once() {
    let mut files = versions();
    // Pieces of the others, joined; and a long file that repeats itself.
    let joined = [&files[0].1[10_000..40_000], &files[5].1[..20_000], &files[8].1[5000..]].concat();
    files.push(("w/joined".to_owned(), joined));
    let part = random(77, 300_000);
    let mut long = random(78, 3 << 20);
    for at in [500_000, 1_200_000, 2_600_000] {
        long[at..at + part.len()].copy_from_slice(&part);
    }
    files.push(("w/long".to_owned(), long));
    files.push(("w/zeroes".to_owned(), [vec![1; 5000], vec![0; 50_000], vec![2; 5000]].concat()));
    let (alone, _) = build(&files, &options(2));
    let with_segments = |options| Options { segment_window_len: Some(64), ..options };
    let (image, report) = build(&files, &with_segments(options(1)));
    let (count, bytes) = (report.segments, report.segment_bytes);
    assert!(count > 10 && bytes > 600_000, "{count} of {bytes} bytes");
    assert!(image.len() + 600_000 < alone.len(), "{} of {}", image.len(), alone.len());
    assert_eq!(report.zero_bytes, 50_000);
    let (again, _) = build(&files, &with_segments(options(3)));
    assert!(again == image);
    let by_similarity = |threads| Options {
        order: Some(Order::Similarity),
        ..with_segments(referring(2, 2, threads))
    };
    let (image, report) = build(&files, &by_similarity(2));
    assert!(report.similar_contents > 10, "{}", report.similar_contents);
    let little = with_least_memory(by_similarity(1));
    let (again, report) = build(&files, &little);
    assert!(report.temporary_file_bytes > 0 && again == image);
}

/// Files in memory that can be read once, from front to back, as those of an archive.
struct Streams<'a>(Files<'a>);

impl EntrySource for Streams<'_> {
    fn seed(&self) -> [u8; 32] {
        self.0.seed()
    }

    fn content_bytes_max(&self) -> Option<u64> {
        Some(self.0.0.as_slice().iter().map(|(_, bytes)| bytes.len() as u64).sum())
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let Some(mut entry) = self.0.next_entry()? else { return Ok(None) };
        if let Content::Bytes(bytes) = entry.content {
            entry.content =
                Content::Reader { reader: Box::new(Cursor::new(bytes)), holes: Vec::new() };
        }
        Ok(Some(entry))
    }
}

/// What was said of temporary files before anything was read.
#[derive(Default)]
struct Told(Mutex<Option<u64>>);

impl Progress for Told {
    fn temporary(&self, bytes_max: Option<u64>, _: &Path) {
        *self.0.lock().unwrap() = bytes_max;
    }
}

/// Promise: temporary files hold every content at most once. A long one that comes once and is
/// there already is known by its end, so it waits until then.
#[test]
fn contents_wait_once_in_temporary_files() {
    let mut files: Vec<_> =
        (0..60u64).map(|n| (format!("a/f{n:02}"), random(n + 1, 10_000 + n as usize))).collect();
    let long = random(99, 5 << 20);
    let mut other = long.clone();
    *other.last_mut().unwrap() ^= 1;
    files.push(("b/long".to_owned(), long.clone()));
    files.push(("b/other of this length".to_owned(), other));
    let unique_bytes: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    for duplicates in [0, 1] {
        if duplicates > 0 {
            files.push(("b/the same".to_owned(), long.clone()));
        }
        let duplicate_bytes = duplicates * long.len() as u64;
        for (level, threads) in [(4, 1), (6, 3)] {
            let plenty = Options { level, threads, ..Options::default() };
            let mut first = None;
            let there = Streams(Files(files.iter())).content_bytes_max();
            let least = with_least_memory_for(there, plenty.clone());
            let memory_bytes_max = least.memory_bytes_max + (7 << 20);
            let little = Options { memory_bytes_max, ..least.clone() };
            for options in [least, little, plenty] {
                let mut image = Vec::new();
                let told = Told::default();
                let mut source = Streams(Files(files.iter()));
                let report = create(&mut source, &mut image, &options, &told).unwrap();
                assert_comes_back(&files, &image);
                assert_eq!(report.duplicate_files, duplicates);
                assert_eq!(report.duplicate_bytes, duplicate_bytes);
                let used = report.temporary_file_bytes;
                let told = told.0.into_inner().unwrap().unwrap();
                assert!(used <= told, "{used} bytes, {told} were announced");
                assert!(used <= unique_bytes + duplicate_bytes, "{used} of {unique_bytes}");
                assert!(used > 0 || options.memory_bytes_max == 0, "memory is little");
                assert!(*first.get_or_insert(image.clone()) == image, "memory changes nothing");
            }
        }
    }
}

#[test]
fn temporary_files_that_cannot_be_made_name_their_folder() {
    let options = with_least_memory(Options { level: 6, threads: 2, ..Options::default() });
    let missing = "/nonexistent/folder for temporary files";
    let options = Options { temp_dir: Some(missing.into()), ..options };
    let files = [("f".to_owned(), random(1, 5 << 20))];
    let mut source = Files(files.iter());
    let error = create(&mut source, &mut Vec::new(), &options, &NoProgress).unwrap_err();
    assert!(error.to_string().contains(missing), "{error}");
}
