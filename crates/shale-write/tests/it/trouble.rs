//! Sources and outputs that misbehave: everything ends with a named error or a right image.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::*;
use shale_format::{InodeKind, Timestamp};
use shale_model::SourceError;
use shale_model::{Content, ContentFile, LinkId, Metadata, OpenContent, Xattr};
use shale_source::file_identity;
use shale_source::{DirectorySource, ScanOptions};
use shale_write::{
    EntrySource, NoProgress, Options, ProblemKind, Progress, SourceEntry, WriteError, create,
};

/// A source of entries made by hand.
pub struct Made(std::vec::IntoIter<SourceEntry>);

impl Made {
    pub fn new(entries: Vec<SourceEntry>) -> Self {
        Self(entries.into_iter())
    }
}

impl EntrySource for Made {
    fn seed(&self) -> [u8; 32] {
        [7; 32]
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        Ok(self.0.next())
    }
}

fn metadata(kind: InodeKind, len: u64) -> Metadata {
    Metadata {
        kind,
        permissions: 0o644,
        uid: 1,
        gid: 2,
        mtime: Timestamp { sec: 3, nsec: 4 },
        atime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        len,
        device: 0,
    }
}

pub fn entry(path: &str, content: Content, len: u64) -> SourceEntry {
    SourceEntry {
        path: path.as_bytes().to_vec(),
        metadata: metadata(InodeKind::File, len),
        xattrs: Arc::default(),
        link: None,
        target: Vec::new(),
        content,
    }
}

fn entry_of_directory(path: &str) -> SourceEntry {
    SourceEntry { metadata: metadata(InodeKind::Directory, 0), ..entry(path, Content::None, 0) }
}

/// What a file does to whoever reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trick {
    /// Its mtime is another after each reading.
    Touched,
    /// It ends before its length.
    Shrinks,
    /// It is longer afterwards.
    Grows,
    /// It cannot be read.
    Broken,
    /// Its second half cannot be read.
    BreaksLate,
    /// It is not there any more.
    Vanishes,
    /// It is a fifo by now.
    Exchanged,
}

/// A file that plays a trick the first `times` times.
struct Tricky {
    trick: Trick,
    times: u64,
    bytes: Arc<Vec<u8>>,
    opened: Arc<AtomicU64>,
}

struct OpenTricky {
    trick: Option<Trick>,
    bytes: Arc<Vec<u8>>,
    looks: i64,
}

impl OpenContent for Tricky {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        let opened = self.opened.fetch_add(1, Ordering::Relaxed);
        let trick = (opened < self.times).then_some(self.trick);
        if trick == Some(Trick::Vanishes) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(OpenTricky { trick, bytes: Arc::clone(&self.bytes), looks: 0 }))
    }
}

impl ContentFile for OpenTricky {
    fn metadata(&mut self) -> io::Result<Metadata> {
        self.looks += 1;
        let kind = match self.trick {
            Some(Trick::Exchanged) => InodeKind::Fifo,
            _ => InodeKind::File,
        };
        let mut metadata = metadata(kind, self.bytes.len() as u64);
        match self.trick {
            Some(Trick::Touched) => metadata.mtime.sec += self.looks,
            Some(Trick::Grows) if self.looks > 1 => metadata.len += 1,
            _ => {}
        }
        Ok(metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let end = match self.trick {
            Some(Trick::Broken) => return Err(io::Error::from_raw_os_error(5)),
            Some(Trick::BreaksLate) if offset >= self.bytes.len() as u64 / 2 => {
                return Err(io::Error::from_raw_os_error(5));
            }
            Some(Trick::Shrinks) => self.bytes.len() - 1,
            _ => self.bytes.len(),
        };
        let rest = &self.bytes[(offset as usize).min(end)..end];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

pub fn tricky(trick: Trick, times: u64, bytes: Vec<u8>) -> (Content, Arc<AtomicU64>) {
    let opened = Arc::new(AtomicU64::new(0));
    let content = Tricky { trick, times, bytes: Arc::new(bytes), opened: Arc::clone(&opened) };
    (Content::File(Box::new(content)), opened)
}

pub const LENS: [usize; 2] = [5000, 3 << 20];

#[test]
fn files_that_change_are_read_again() {
    for trick in [Trick::Touched, Trick::Shrinks, Trick::Grows] {
        for len in LENS {
            let bytes = Random(len as u64).text(len);
            let (content_before, _) = tricky(trick, 0, Random(9).text(len));
            let (content_changing, opened) = tricky(trick, 3, bytes.clone());
            let entries = vec![
                entry("before", content_before, len as u64),
                entry("changing", content_changing, len as u64),
                entry("after", Content::Bytes(b"after".to_vec()), 5),
            ];
            let options = Options { strict: true, ..options() };
            let (image, report) = build(&mut Made::new(entries), &options).unwrap();
            let tree = open(&image);
            assert_digests(&tree, &report);
            assert_eq!(dead_bytes(&tree), 0);
            assert!(content(&tree, b"changing") == bytes, "{trick:?}");
            assert_eq!(content(&tree, b"after"), b"after");
            assert_eq!(opened.load(Ordering::Relaxed), 4);
            assert_eq!(report.files_read_again, 3);
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_everything() {
    for trick in [
        Trick::Touched,
        Trick::Shrinks,
        Trick::Grows,
        Trick::Broken,
        Trick::Vanishes,
        Trick::Exchanged,
    ] {
        for len in LENS {
            let entries = || {
                let bytes = Random(1).text(len);
                let mut bad = entry("d/bad", tricky(trick, u64::MAX, bytes).0, len as u64);
                bad.link = Some(LinkId { device: 1, inode: 1 });
                let mut second = entry("also bad", Content::None, len as u64);
                second.link = bad.link;
                let (vanished, _) = tricky(Trick::Vanishes, u64::MAX, Vec::new());
                let (good, opened) = tricky(trick, 0, Random(2).text(len));
                let good = entry("good", good, len as u64);
                (vec![bad, second, good, entry("gone", vanished, 1)], opened)
            };
            let options = Options { strict: true, ..options() };
            let error = build(&mut Made::new(entries().0), &options).unwrap_err();
            let WriteError::Unreadable(problems) = error else { panic!("{error}") };
            let paths: Vec<_> = problems.iter().map(|p| p.path.as_slice()).collect();
            assert_eq!(paths, [&b"also bad"[..], b"d/bad", b"gone"], "{trick:?}");
            let expected = match trick {
                Trick::Broken => ProblemKind::Unreadable("Input/output error".to_owned()),
                Trick::Vanishes => ProblemKind::Vanished,
                _ => ProblemKind::Changed,
            };
            assert_eq!(problems[1].kind, expected);

            let options = Options { skip_unreadable: true, ..options };
            let (image, report) = build(&mut Made::new(entries().0), &options).unwrap();
            assert_eq!(report.problems, problems);
            let tree = open(&image);
            assert_eq!(dead_bytes(&tree), 0);
            assert_digests(&tree, &report);
            assert_eq!(tree.entry_count(), 2, "the directory d and good");
            assert!(content(&tree, b"good") == Random(2).text(len));
        }
    }
}

#[test]
fn nothing_is_read_once_there_can_be_no_image() {
    let bytes = Random(1).text(10_000);
    let (gone, _) = tricky(Trick::Vanishes, u64::MAX, Vec::new());
    // Far enough after it that the first one's fate is known before these are read.
    let mut entries = vec![entry("gone", gone, 10_000)];
    let mut counts = Vec::new();
    for index in 0..2000 {
        // A file that fails when read, not when opened.
        let (content, opened) = tricky(Trick::Broken, u64::MAX, bytes.clone());
        entries.push(entry(&format!("file {index}"), content, 10_000));
        counts.push(opened);
    }
    let options = Options { threads: 1, strict: true, ..options() };
    let error = build(&mut Made::new(entries), &options).unwrap_err();
    let WriteError::Unreadable(problems) = error else { panic!("{error}") };
    assert!(problems.len() < 1000, "{} were read", problems.len());
    assert!(counts.iter().all(|opened| opened.load(Ordering::Relaxed) == 1), "all were opened");
}

#[test]
fn unreadable_directories_and_files_of_a_real_tree_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/file"), b"x").unwrap();
    fs::write(dir.path().join("kept"), b"kept").unwrap();
    let options = Options { strict: true, ..options() };
    let mut source = scan(dir.path(), &options);
    // The walk is over; these are gone when their content is wanted.
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    let error = build(&mut source, &options).unwrap_err();
    assert!(error.to_string().contains("a/b/file"), "{error}");
    assert!(error.to_string().contains("vanished"), "{error}");
}

/// Runs as another user, if we may become one: what root may read is everything.
fn as_nobody(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let nobody = rustix::fs::Uid::from_raw(65_534);
            // Only this thread, and those it starts.
            if rustix::thread::set_thread_uid(nobody).is_ok()
                || !rustix::process::getuid().is_root()
            {
                test();
            }
        });
    });
}

#[test]
fn permissions_are_an_error_that_names_files_and_directories() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let set = |path: &str, mode| {
        fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir_all(dir.path().join("closed/inner")).unwrap();
    fs::create_dir(dir.path().join("open")).unwrap();
    fs::write(dir.path().join("open/readable"), b"yes").unwrap();
    fs::write(dir.path().join("open/secret"), b"no").unwrap();
    fs::write(dir.path().join("open/empty secret"), b"").unwrap();
    for (path, mode) in [
        ("", 0o755),
        ("closed", 0o700),
        ("open", 0o755),
        ("open/readable", 0o644),
        ("open/secret", 0o600),
        ("open/empty secret", 0o600),
    ] {
        set(path, mode);
    }
    as_nobody(|| {
        let options = options();
        let error = build(&mut scan(dir.path(), &options), &options).unwrap_err();
        let WriteError::Unreadable(problems) = &error else { panic!("{error}") };
        let paths: Vec<_> = problems.iter().map(|p| p.path.as_slice()).collect();
        assert_eq!(paths, [&b"closed"[..], b"open/secret"]);
        let denied = ProblemKind::Unreadable("Permission denied".to_owned());
        assert!(problems.iter().all(|problem| problem.kind == denied), "{problems:?}");
        assert!(error.to_string().contains("closed: Permission denied"), "{error}");

        let options = Options { skip_unreadable: true, ..options };
        let (image, report) = build(&mut scan(dir.path(), &options), &options).unwrap();
        let tree = open(&image);
        assert_digests(&tree, &report);
        assert_eq!(report.problems.len(), 2);
        assert_eq!(content(&tree, b"open/readable"), b"yes");
        assert!(tree.lookup_path(b"open/secret").unwrap().is_none());
        assert!(tree.lookup_path(b"open/empty secret").unwrap().is_some(), "nothing to read");
        let closed = tree.lookup_path(b"closed").unwrap().unwrap();
        assert_eq!(tree.attributes(closed).unwrap().size, 0, "the directory, without its entries");
    });
}

#[test]
fn a_file_of_the_source_is_taken_as_it_is_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for (before, after) in [(10, 2_000_000), (2_000_000, 10), (10, 0), (10, 20), (2_000_000, 0)] {
        fs::write(&path, Random(1).text(before)).unwrap();
        let options = options();
        let mut source = scan(dir.path(), &options);
        fs::write(&path, Random(2).text(after)).unwrap();
        let (image, report) = build(&mut source, &options).unwrap();
        let tree = open(&image);
        assert_digests(&tree, &report);
        assert!(content(&tree, b"file") == Random(2).text(after), "{before} {after}");
        let inode = tree.lookup_path(b"file").unwrap().unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!(tree.attributes(inode).unwrap().mtime.sec, fs::metadata(&path).unwrap().mtime());
    }
}

#[test]
fn a_source_that_is_missing_or_no_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"x").unwrap();
    for name in ["missing", "file"] {
        let path = dir.path().join(name);
        let error = DirectorySource::open(&path, &ScanOptions::default(), &NoProgress).unwrap_err();
        assert!(matches!(error, SourceError::Unreadable { .. }));
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn other_file_systems_are_left_out_if_asked() {
    use std::os::unix::fs::MetadataExt;
    let device = |path| fs::metadata(path).map_or(0, |metadata| metadata.dev());
    let Ok(inner) = tempfile::tempdir_in("/dev/shm") else { return };
    if device("/dev") == device("/dev/shm") {
        return; // Nothing is mounted there.
    }
    fs::write(inner.path().join("file"), b"x").unwrap();
    for one_file_system in [true, false] {
        let options = ScanOptions { one_file_system, ..ScanOptions::default() };
        let mut source = DirectorySource::open(Path::new("/dev"), &options, &NoProgress).unwrap();
        let mut paths = Vec::new();
        while let Some(entry) = source.next_entry().unwrap() {
            paths.push(entry.path);
        }
        assert!(paths.contains(&b"shm".to_vec()), "the mount point stays");
        let below = paths.iter().any(|path| path.starts_with(b"shm/"));
        assert_eq!(below, !one_file_system);
    }
}

#[test]
fn the_image_itself_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"x").unwrap();
    let path = dir.path().join("image.shale");
    let mut output = fs::File::create(&path).unwrap();
    let scan =
        ScanOptions { excluded: vec![file_identity(&output).unwrap()], ..ScanOptions::default() };
    let mut source = DirectorySource::open(dir.path(), &scan, &NoProgress).unwrap();
    create(&mut source, &mut output, &options(), &NoProgress).unwrap();
    let tree = open(&fs::read(&path).unwrap());
    assert_eq!(tree.entry_count(), 1);
    assert_eq!(content(&tree, b"file"), b"x");
}

/// An output with room for this many bytes.
struct Full(u64);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = (bytes.len() as u64).min(self.0);
        self.0 -= taken;
        Ok(taken as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn make_files(root: &Path, count: u64) {
    for index in 0..count {
        let bytes = Random(index).bytes(50_000);
        fs::write(root.join(format!("{index}")), bytes).unwrap();
    }
}

#[test]
fn an_output_that_is_full_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    make_files(dir.path(), 400);
    for threads in [1, 3] {
        let options = Options { threads, ..options() };
        for room in [0, 10, 64, 100, 1 << 20, 17 << 20, 19 << 20] {
            let result =
                create(&mut scan(dir.path(), &options), &mut Full(room), &options, &NoProgress);
            assert!(matches!(result, Err(WriteError::Output(_))), "{room} bytes");
        }
    }
}

#[test]
fn a_file_in_the_place_of_another_does_not_become_its_other_names() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let put = |name: &str, bytes: &str| {
        let new = dir.path().join("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(&new, root.join(name)).unwrap();
    };
    let options = Options { strict: true, ..options() };
    let made = |skip_unreadable, names: &[&str]| {
        put("a", "old content");
        put("alone", "old content");
        let _ = fs::remove_file(root.join("b"));
        fs::hard_link(root.join("a"), root.join("b")).unwrap();
        let mut source = scan(&root, &options);
        names.iter().for_each(|name| put(name, "new content"));
        build(&mut source, &Options { skip_unreadable, ..options.clone() })
    };
    // As it is now, like a file that was written again.
    let (image, _) = made(false, &["alone"]).unwrap();
    let tree = open(&image);
    assert_eq!(content(&tree, b"alone"), b"new content");
    assert_eq!(content(&tree, b"b"), b"old content");
    // What leads to the inode that was there is not known any more.
    let Err(WriteError::Unreadable(problems)) = made(false, &["a"]) else {
        panic!("packed");
    };
    assert!(problems.iter().all(|problem| problem.kind == ProblemKind::Replaced), "{problems:?}");
    let (image, report) = made(true, &["a"]).unwrap();
    assert!(report.problems.iter().any(|problem| problem.path == b"a"));
    let tree = open(&image);
    for name in [&b"a"[..], b"b"] {
        let found = tree.lookup_path(name).unwrap();
        assert!(found.is_none() || content(&tree, name) == b"old content");
    }
    // The attributes that were listed are not those of the new file.
    put("alone", "old content");
    let attributed = root.join("alone");
    if rustix::fs::setxattr(&attributed, "user.x", b"1", rustix::fs::XattrFlags::empty()).is_ok() {
        let mut source = scan(&root, &options);
        put("alone", "newer content");
        let Err(WriteError::Unreadable(problems)) = build(&mut source, &options) else {
            panic!("packed with attributes of another file");
        };
        assert_eq!(problems[0].kind, ProblemKind::Replaced);
    }
}

/// Sets the cancel flag after this many reports.
struct CancelAfter(AtomicU64, Arc<AtomicBool>);

impl Progress for CancelAfter {
    fn done(&self, _entries: u64, _bytes: u64) {
        self.count();
    }

    fn compressed(&self, _plain_bytes: u64, _stored_bytes: u64) {
        self.count();
    }
}

impl CancelAfter {
    fn count(&self) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn cancel_ends_a_build_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    make_files(dir.path(), 300);
    fs::write(dir.path().join("large"), Random(1).text(20 << 20)).unwrap();
    for threads in [1, 3] {
        for after in [1, 100, 400] {
            let cancel = Arc::new(AtomicBool::new(false));
            let progress = CancelAfter(AtomicU64::new(after), Arc::clone(&cancel));
            let options = Options { threads, cancel: Some(Arc::clone(&cancel)), ..options() };
            let mut source = scan(dir.path(), &options);
            let result = create(&mut source, &mut Vec::new(), &options, &progress);
            assert!(matches!(result, Err(WriteError::Cancelled)), "after {after}");
        }
    }
    let options =
        ScanOptions { cancel: Some(Arc::new(AtomicBool::new(true))), ..ScanOptions::default() };
    let result = DirectorySource::open(dir.path(), &options, &NoProgress);
    assert!(matches!(result, Err(SourceError::Cancelled)));
}

/// Yields bytes, or fails after some.
struct Stream {
    bytes: io::Cursor<Vec<u8>>,
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // As pipes do.
        let len = out.len().min(70_001);
        self.bytes.read(&mut out[..len])
    }
}

fn stream(bytes: &[u8], holes: &[Range<u64>]) -> Content {
    let mut data = bytes.to_vec();
    for hole in holes.iter().rev() {
        data.drain(hole.start as usize..hole.end as usize);
    }
    let reader = Box::new(Stream { bytes: io::Cursor::new(data) });
    Content::Reader { reader, holes: holes.to_vec() }
}

#[test]
fn contents_that_can_be_read_once_are_deduped_and_keep_their_holes() {
    let mut large = Random(1).text(4 << 20);
    large[1 << 20..3 << 20].fill(0);
    let mut other = large.clone();
    other[10] ^= 1;
    let mut late = large.clone();
    late[700_000] ^= 1;
    let small = Random(2).text(30_000);
    let hole = std::slice::from_ref(&((1 << 20)..(2 << 20)));
    let len = large.len() as u64;
    let entries = vec![
        entry("dir/large", stream(&large, hole), len),
        entry("dir/same", stream(&large, hole), len),
        entry("dir/no hole", stream(&large, &[]), len),
        entry("dir/bytes", Content::Bytes(large.clone()), len),
        entry("other", stream(&other, hole), len),
        entry("late", stream(&late, &[]), len),
        entry("small", stream(&small, &[]), small.len() as u64),
        entry("small again", Content::Bytes(small.clone()), small.len() as u64),
        entry("short", stream(&small, &[]), small.len() as u64 + 1),
        entry("large and short", stream(&large, &[]), len + 1),
    ];
    let options = Options { skip_unreadable: true, ..options() };
    let (image, report) = build(&mut Made::new(entries), &options).unwrap();
    let tree = open(&image);
    assert_digests(&tree, &report);
    for (path, bytes) in [
        ("dir/large", &large),
        ("dir/same", &large),
        ("dir/no hole", &large),
        ("dir/bytes", &large),
        ("other", &other),
        ("late", &late),
        ("small", &small),
        ("small again", &small),
    ] {
        assert!(content(&tree, path.as_bytes()) == *bytes, "{path}");
    }
    let seek = |path: &str| {
        let inode = tree.lookup_path(path.as_bytes()).unwrap().unwrap();
        tree.seek_hole(inode, 0).unwrap().unwrap()
    };
    assert_eq!((seek("dir/large"), seek("dir/same"), seek("other")), (1 << 20, 1 << 20, 1 << 20));
    assert_eq!((seek("dir/no hole"), seek("late"), seek("dir/bytes")), (len, len, len));
    assert_eq!(report.duplicate_files, 4);
    assert_eq!(report.problems.len(), 2);
    assert_eq!(dead_bytes(&tree), 0);
}

#[test]
fn a_file_never_replaces_a_directory_that_came_before_it() {
    let text = |text: &str| Content::Bytes(text.as_bytes().to_vec());
    let linked = |path: &str| SourceEntry {
        link: Some(LinkId { device: 1, inode: 1 }),
        ..entry(path, text("linked"), 6)
    };
    // Given itself or made up for what is in it.
    let given: [fn() -> Vec<SourceEntry>; 2] = [|| vec![entry_of_directory("d")], Vec::new];
    for before in given {
        let entries = || {
            let inside = entry("d/x", text("in"), 2);
            let more =
                vec![inside, linked("a"), entry("d", text("lost"), 4), linked("d"), linked("z")];
            before().into_iter().chain(more).collect()
        };
        let Err(WriteError::Unreadable(problems)) = build(&mut Made::new(entries()), &options())
        else {
            panic!("a file is lost");
        };
        assert_eq!(problems[0].path, b"d");
        assert!(problems.iter().all(|problem| problem.kind == ProblemKind::Collision));
        let options = Options { skip_unreadable: true, ..options() };
        let (image, report) = build(&mut Made::new(entries()), &options).unwrap();
        assert_eq!(report.problems, problems);
        let tree = open(&image);
        assert_digests(&tree, &report);
        assert_eq!(content(&tree, b"d/x"), b"in");
        assert_eq!(content(&tree, b"z"), b"linked");
    }
    // A directory that comes later does replace.
    let entries =
        vec![entry("d", text("old"), 3), entry_of_directory("d"), entry("d/x", text("in"), 2)];
    let (image, report) = build(&mut Made::new(entries), &options()).unwrap();
    assert!(report.problems.is_empty());
    assert_eq!(content(&open(&image), b"d/x"), b"in");
}

#[test]
fn sources_may_be_in_any_order_and_repeat_themselves() {
    let text = |text: &str| Content::Bytes(text.as_bytes().to_vec());
    let mut directory = entry("later/dir", Content::None, 0);
    directory.metadata.kind = InodeKind::Directory;
    directory.metadata.permissions = 0o700;
    directory.xattrs = Arc::from([
        Xattr { name: b"user.b".to_vec(), value: b"2".to_vec() },
        Xattr { name: b"user.a".to_vec(), value: b"1".to_vec() },
    ]);
    let mut root = entry("", Content::None, 0);
    root.metadata.kind = InodeKind::Directory;
    root.metadata.uid = 99;
    let entries = vec![
        entry("later/dir/file", text("one"), 3),
        entry("x", text("first"), 5),
        directory,
        entry("x", text("second"), 6),
        root,
    ];
    let (image, report) = build(&mut Made::new(entries), &options()).unwrap();
    let tree = open(&image);
    assert_digests(&tree, &report);
    assert_eq!(content(&tree, b"x"), b"second");
    assert_eq!(content(&tree, b"later/dir/file"), b"one");
    let inode = |path: &[u8]| tree.lookup_path(path).unwrap().unwrap();
    assert_eq!(tree.attributes(inode(b"later/dir")).unwrap().permissions, 0o700);
    assert_eq!(tree.attributes(inode(b"later")).unwrap().permissions, 0o755, "made up");
    assert_eq!(tree.attributes(1).unwrap().uid, 99);
    let names = tree.xattr_names(inode(b"later/dir")).unwrap();
    assert_eq!(names, [b"user.a".to_vec(), b"user.b".to_vec()]);
    assert_eq!(tree.entry_count(), 4);
}

#[test]
fn what_is_beyond_a_limit_is_a_problem_by_name() {
    let long = "n".repeat(256);
    let mut link = entry("link", Content::None, 0);
    link.metadata.kind = InodeKind::Symlink;
    link.target = vec![b'x'; 4096];
    let mut empty_link = entry("empty link", Content::None, 0);
    empty_link.metadata.kind = InodeKind::Symlink;
    let mut xattr = entry("xattr", Content::None, 0);
    xattr.xattrs = Arc::from([Xattr { name: b"user.x".to_vec(), value: vec![0; 65_537] }]);
    let entries = vec![
        entry(&long, Content::Bytes(vec![1]), 1),
        entry("a/../b", Content::Bytes(vec![1]), 1),
        entry("a//b", Content::Bytes(vec![1]), 1),
        entry("/a", Content::Bytes(vec![1]), 1),
        entry("huge", Content::None, 1 << 63),
        link,
        empty_link,
        xattr,
        entry("fine", Content::Bytes(vec![1]), 1),
    ];
    let error = build(&mut Made::new(entries), &options()).unwrap_err();
    let WriteError::Unreadable(problems) = error else { panic!("{error}") };
    assert_eq!(problems.len(), 8);
    assert!(problems.iter().all(|p| matches!(p.kind, ProblemKind::Limit(_))), "{problems:?}");
}

/// Panics when the first directory was listed.
struct Panicking;

impl Progress for Panicking {
    fn found(&self, _: u64, _: u64) {
        panic!("as it was told to");
    }
}

#[test]
fn a_thread_that_panics_while_it_scans_leaves_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    let root = folder.path().to_owned();
    std::thread::spawn(move || {
        let options = ScanOptions { threads: 4, ..ScanOptions::default() };
        let scan = || DirectorySource::open(&root, &options, &Panicking).is_ok();
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scan));
        ended.send(panic.is_err()).unwrap();
    });
    // Long, as only what never ends is wrong.
    let minutes = std::time::Duration::from_secs(120);
    assert_eq!(end.recv_timeout(minutes), Ok(true), "the others wait");
}
