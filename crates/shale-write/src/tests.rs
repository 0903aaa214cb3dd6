//! References and segment dedupe end to end, with referrers made for the purpose.

use std::sync::Arc;

use shale_codec::Codec;
use shale_format::{InodeKind, Timestamp};
use shale_read::{Image, MemorySource, SnapshotChoice, Tree};

use crate::laying::Order;
use crate::levels::ReferenceLimits;
use crate::refer::Shape;
use crate::reference::{Choice, Referrer, Sketches};
use crate::source::{Content, Metadata};
use crate::spread::Spreads;
use crate::{
    NoProgress, Options, Report, Source, SourceEntry, Stages, WriteError, create, create_with,
    segment,
};

/// Files in memory.
struct Files<'a>(std::slice::Iter<'a, (String, Vec<u8>)>);

impl Source for Files<'_> {
    fn seed(&self) -> [u8; 32] {
        [1; 32]
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
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

fn build(files: &[(String, Vec<u8>)], options: &Options, stages: Stages<'_>) -> (Vec<u8>, Report) {
    let mut image = Vec::new();
    let mut source = Files(files.iter());
    let report = create_with(&mut source, &mut image, options, &NoProgress, stages).unwrap();
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

/// Refers by number: frames of class `n % classes` refer to the frames `back` or `ahead` of them,
/// as far as those are of a lower class.
struct ByNumber {
    classes: u64,
    offsets: Vec<i64>,
}

impl Referrer for ByNumber {
    fn sketch(&self, plain: &[u8]) -> Vec<u64> {
        vec![plain.len() as u64]
    }

    fn choose(
        &self,
        sketches: Sketches,
        shapes: &[Shape],
        _: &Spreads,
        _: &dyn Fn() -> bool,
    ) -> Choice {
        assert_eq!(sketches.frame_count(), shapes.len());
        for (frame, shape) in shapes.iter().enumerate() {
            assert_eq!(
                sketches.of(frame),
                [u64::from(shape.len)],
                "sketches in the order of frames"
            );
        }
        let count = shapes.len() as i64;
        let class = |frame: i64| (frame as u64 / 3) % self.classes;
        let mut choice = Choice::default();
        for frame in 0..count {
            let others = self.offsets.iter().map(|offset| frame + offset);
            let others = others
                .filter(|&other| (0..count).contains(&other) && class(other) < class(frame))
                .map(|other| other as u32);
            choice.push(&others.collect::<Vec<_>>());
        }
        choice
    }

    fn limits(&self) -> ReferenceLimits {
        ReferenceLimits {
            count_max: self.offsets.len() as u16,
            depth_max: self.classes as u8 - 1,
            ..ReferenceLimits::UNBOUNDED
        }
    }
}

#[test]
fn frames_with_references_come_back_and_are_smaller() {
    let files = versions();
    let (alone, report) = build(&files, &options(2), Stages::default());
    assert_eq!((report.references, report.spool_bytes), (0, 0));
    for (classes, offsets) in [(2, vec![-3]), (3, vec![-3, -6]), (3, vec![3, -3]), (4, vec![-3, 3])]
    {
        let referrer = ByNumber { classes, offsets };
        let stages = || Stages { referrer: Some(&referrer), ..Stages::default() };
        let (image, report) = build(&files, &options(1), stages());
        assert!(report.frames_with_references >= report.frames / 3);
        assert!(image.len() * 4 < alone.len() * 3, "{} of {}", image.len(), alone.len());
        assert!(report.reference_saved_bytes > (alone.len() - image.len()) as u64 / 2);
        let bounds = open(&image).image().root().bounds;
        assert!(bounds.depth_max > 0 && u64::from(bounds.depth_max) < classes);
        assert!(bounds.read_bytes_max > bounds.frame_plain_len_max);
        let (again, _) = build(&files, &options(3), stages());
        assert!(again == image, "threads change nothing");
    }
}

#[test]
fn little_memory_sends_frames_through_a_file_and_changes_nothing() {
    let files = versions();
    let referrer = ByNumber { classes: 3, offsets: vec![-3, 6] };
    let stages = || Stages { referrer: Some(&referrer), ..Stages::default() };
    let (image, report) = build(&files, &options(2), stages());
    assert_eq!(report.spool_bytes, 0);
    let little = Options { memory_bytes_max: 59 << 20, ..options(1) };
    let (again, report) = build(&files, &little, stages());
    assert!(report.spool_bytes > 0, "{}", report.spool_bytes);
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
            assert_eq!(report.contents_laid_first, hot.len() as u64);
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

#[test]
fn references_that_do_not_pay_are_dropped() {
    let files: Vec<_> = (0..9).map(|n| (format!("f{n}"), random(n + 1, 60_000))).collect();
    let referrer = ByNumber { classes: 2, offsets: vec![-3] };
    let stages = Stages { referrer: Some(&referrer), ..Stages::default() };
    let (image, report) = build(&files, &options(2), stages);
    assert_eq!((report.references, report.frames_with_references), (0, 0));
    assert_eq!(report.frames_references_dropped, 3);
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
    let (alone, _) = build(&files, &options(2), Stages::default());
    let settings = segment::Settings {
        window_len: 64,
        index_bytes_max: 1 << 20,
        lens_min: (512, 4096),
        zero_len_min: 0,
    };
    let stages = || Stages { segment: Some(settings), ..Stages::default() };
    let (image, report) = build(&files, &options(1), stages());
    let (count, bytes) = (report.segments, report.segment_bytes);
    assert!(count > 10 && bytes > 600_000, "{count} of {bytes} bytes");
    assert!(image.len() + 600_000 < alone.len(), "{} of {}", image.len(), alone.len());
    assert_eq!(report.zero_bytes, 50_000);
    let (again, _) = build(&files, &options(3), stages());
    assert!(again == image);
    let referrer = ByNumber { classes: 3, offsets: vec![-1, -3] };
    let both = || Stages { segment: Some(settings), referrer: Some(&referrer) };
    let laid = |threads| Options { order: Some(Order::Similarity), ..options(threads) };
    let (image, report) = build(&files, &laid(2), both());
    assert!(report.kin_contents > 10, "{}", report.kin_contents);
    let little = Options { memory_bytes_max: 177 << 20, ..laid(1) };
    let (again, report) = build(&files, &little, both());
    assert!(report.spool_bytes > 0 && again == image);
}
