//! Promise: every limit of the reader is a limit of the writer. Entries around each limit go
//! through the writer without verification: either it leaves the entry out and names its path and
//! the limit, or the reader accepts the image and `check` finds nothing.

use std::sync::Arc;

use proptest::prelude::*;
use shale::read::MemorySource;
use shale::write::{NoProgress as NoBuildProgress, Options};
use shale::{CheckOptions, NoProgress};
use shale_format::limits::{
    FILE_LEN_MAX, LINK_TARGET_LEN_MAX, NAME_LEN_MAX, PATH_LEN_MAX, XATTR_COUNT_MAX,
    XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_model::{
    Content, EntrySource, InodeKind, LinkId, Metadata, SourceEntry, SourceError, Timestamp, Xattr,
};

/// Entries that are given once.
struct Entries(std::vec::IntoIter<SourceEntry>);

impl EntrySource for Entries {
    fn seed(&self) -> [u8; 32] {
        [7; 32]
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        Ok(self.0.next())
    }
}

fn entry(path: &[u8], kind: InodeKind) -> SourceEntry {
    let epoch = Timestamp::default();
    let metadata = Metadata {
        kind,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        mtime: epoch,
        atime: epoch,
        ctime: epoch,
        btime: epoch,
        len: 0,
        device: 0,
    };
    SourceEntry {
        path: path.to_vec(),
        metadata,
        xattrs: Arc::default(),
        link: None,
        target: if kind == InodeKind::Symlink { b"x".to_vec() } else { Vec::new() },
        content: Content::None,
    }
}

/// An entry near a limit, and the number that a refusal names; 0 if any words do.
#[derive(Debug, Clone)]
enum Near {
    Name(usize),
    Path {
        len: usize,
        component_len: usize,
        is_directory: bool,
    },
    Target(usize),
    XattrName(usize),
    XattrValue(usize),
    XattrCount(usize),
    /// A file that is one hole.
    Len(u64),
    Owners(u32, u32),
    Device(u64),
    Permissions(u32),
    Time(i64, u32),
    OddPath(&'static [u8]),
    OddTarget(&'static [u8]),
    OddXattr(&'static [u8]),
    /// Names of one inode.
    Links(usize),
}

fn near(limit: usize) -> impl Strategy<Value = usize> {
    prop_oneof![Just(limit - 1), Just(limit), Just(limit + 1), (limit + 2)..(limit * 2)]
}

fn cases() -> impl Strategy<Value = Near> {
    let edge_64 = prop_oneof![
        (FILE_LEN_MAX - 3)..=(FILE_LEN_MAX + 3),
        Just(u64::MAX),
        Just(u64::MAX - 16),
        any::<u64>(),
    ];
    let seconds = prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), any::<i64>()];
    let nanoseconds =
        prop_oneof![Just(999_999_999), Just(1_000_000_000), Just(u32::MAX), any::<u32>()];
    let owner = || prop_oneof![Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()];
    let odd_paths: Vec<&'static [u8]> =
        vec![b".", b"..", b"/", b"a/../b", b"a//b", b"/a", b"a/", b"a\0b", b"a/.", b"./a"];
    prop_oneof![
        4 => near(NAME_LEN_MAX).prop_map(Near::Name),
        4 => (near(PATH_LEN_MAX), 1..=NAME_LEN_MAX, any::<bool>()).prop_map(
            |(len, component_len, is_directory)| Near::Path { len, component_len, is_directory }
        ),
        4 => near(LINK_TARGET_LEN_MAX).prop_map(Near::Target),
        4 => near(XATTR_NAME_LEN_MAX).prop_map(Near::XattrName),
        4 => near(XATTR_VALUE_LEN_MAX).prop_map(Near::XattrValue),
        1 => ((XATTR_COUNT_MAX as usize - 1)..=(XATTR_COUNT_MAX as usize + 1))
            .prop_map(Near::XattrCount),
        6 => edge_64.prop_map(Near::Len),
        2 => (owner(), owner()).prop_map(|(uid, gid)| Near::Owners(uid, gid)),
        2 => any::<u64>().prop_map(Near::Device),
        2 => any::<u32>().prop_map(Near::Permissions),
        6 => (seconds, nanoseconds).prop_map(|(sec, nsec)| Near::Time(sec, nsec)),
        2 => prop::sample::select(odd_paths).prop_map(Near::OddPath),
        1 => prop::sample::select(vec![&b""[..], b"a\0b"]).prop_map(Near::OddTarget),
        1 => prop::sample::select(vec![&b""[..], b"user.a\0b", b"user."]).prop_map(Near::OddXattr),
        1 => (1..300usize).prop_map(Near::Links),
    ]
}

/// The entries of a case, with names that no other case has, and the limit that a refusal names.
fn made(case: &Near, number: usize) -> (Vec<SourceEntry>, Option<u64>) {
    let own = format!("{number:04}");
    let file = || entry(own.as_bytes(), InodeKind::File);
    let with = |change: &dyn Fn(&mut SourceEntry)| {
        let mut entry = file();
        change(&mut entry);
        vec![entry]
    };
    let xattrs = |set: Vec<Xattr>| with(&|entry| entry.xattrs = set.clone().into());
    let xattr =
        |name: &[u8], value_len: usize| Xattr { name: name.to_vec(), value: vec![b'v'; value_len] };
    match case {
        Near::Name(len) => {
            let mut path = own.clone().into_bytes();
            path.resize(*len, b'n');
            (vec![entry(&path, InodeKind::File)], Some(NAME_LEN_MAX as u64))
        }
        Near::Path { len, component_len, is_directory } => {
            let mut path = own.clone().into_bytes();
            while path.len() < *len {
                let room = (len - path.len()).saturating_sub(1).min(*component_len);
                match room {
                    // What is left is too short for a component: the last one gets longer.
                    0 => path.push(b'x'),
                    room => {
                        path.push(b'/');
                        path.resize(path.len() + room, b'c');
                    }
                }
            }
            let kind = if *is_directory { InodeKind::Directory } else { InodeKind::File };
            (vec![entry(&path, kind)], Some(PATH_LEN_MAX as u64))
        }
        Near::Target(len) => {
            let mut link = entry(own.as_bytes(), InodeKind::Symlink);
            link.target = vec![b't'; *len];
            (vec![link], Some(LINK_TARGET_LEN_MAX as u64))
        }
        Near::XattrName(len) => {
            let mut name = b"user.".to_vec();
            name.resize(*len, b'n');
            (xattrs(vec![xattr(&name, 3)]), Some(*len as u64))
        }
        Near::XattrValue(len) => (xattrs(vec![xattr(b"user.a", *len)]), Some(*len as u64)),
        Near::XattrCount(count) => {
            let all = (0..*count).map(|n| xattr(format!("user.{n}").as_bytes(), 0));
            (xattrs(all.collect()), Some(XATTR_COUNT_MAX))
        }
        Near::Len(len) => {
            let mut hole = file();
            hole.metadata.len = *len;
            if *len > 0 {
                let whole = 0..*len;
                let holes = vec![whole];
                hole.content = Content::Reader { reader: Box::new(std::io::empty()), holes };
            }
            (vec![hole], None)
        }
        Near::Owners(uid, gid) => {
            (with(&|entry| (entry.metadata.uid, entry.metadata.gid) = (*uid, *gid)), None)
        }
        Near::Device(device) => {
            let mut node = entry(own.as_bytes(), InodeKind::BlockDevice);
            node.metadata.device = *device;
            (vec![node], None)
        }
        Near::Permissions(bits) => (with(&|entry| entry.metadata.permissions = *bits), None),
        Near::Time(sec, nsec) => {
            let time = Timestamp { sec: *sec, nsec: *nsec };
            let set = |entry: &mut SourceEntry| {
                entry.metadata.mtime = time;
                entry.metadata.atime = time;
            };
            (with(&set), None)
        }
        Near::OddPath(path) => (vec![entry(path, InodeKind::File)], None),
        Near::OddTarget(target) => {
            let mut link = entry(own.as_bytes(), InodeKind::Symlink);
            link.target = target.to_vec();
            (vec![link], None)
        }
        Near::OddXattr(name) => (xattrs(vec![xattr(name, 1)]), None),
        Near::Links(count) => {
            let name = |n: usize| {
                let mut entry = entry(format!("{own}-{n}").as_bytes(), InodeKind::File);
                entry.link = Some(LinkId { device: 1, inode: number as u64 });
                entry.metadata.len = 3;
                entry.content = Content::Bytes(b"abc".to_vec());
                entry
            };
            ((0..*count).map(name).collect(), None)
        }
    }
}

fn judge(cases: &[Near]) -> Result<(), TestCaseError> {
    let mut all = vec![entry(b"", InodeKind::Directory)];
    let mut limits = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let (entries, limit) = made(case, number);
        limits.extend(entries.iter().map(|entry| (entry.path.clone(), limit)));
        all.extend(entries);
    }
    let mut source = Entries(all.into_iter());
    let options = Options { level: 1, skip_unreadable: true, threads: 1, ..Options::default() };
    let mut image = Vec::new();
    let report = match shale::write::create(&mut source, &mut image, &options, &NoBuildProgress) {
        Ok(report) => report,
        Err(error) => {
            // Files that are each within the limit may be too long together.
            let text = error.to_string();
            let long = cases.iter().filter(|case| matches!(case, Near::Len(len) if *len > 1 << 62));
            prop_assert!(long.count() > 1 && text.contains("limit"), "{}", text);
            return Ok(());
        }
    };
    for problem in &report.problems {
        let named = limits.iter().find(|(path, _)| *path == problem.path);
        prop_assert!(named.is_some(), "{} is the path of no entry", problem);
        if let Some((_, Some(limit))) = named {
            let text = problem.kind.to_string();
            prop_assert!(text.contains(&limit.to_string()), "{} does not name {}", text, limit);
        }
    }
    let checked =
        shale::check(Arc::new(MemorySource::new(image)), &CheckOptions::default(), &NoProgress);
    let checked = checked.map_err(|error| TestCaseError::fail(format!("check: {error}")))?;
    prop_assert!(checked.is_clean(), "{:?}", checked);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_the_writer_accepts_the_reader_accepts(
        cases in prop::collection::vec(cases(), 1..6)
    ) {
        judge(&cases)?;
    }
}

#[test]
fn files_that_are_too_long_together_are_refused_with_the_limit() {
    // Two files of 2^63 - 1 bytes do not fit into the space of contents together.
    let lens = [FILE_LEN_MAX, FILE_LEN_MAX - 1, FILE_LEN_MAX - 2];
    judge(&[Near::Len(lens[0]), Near::Len(lens[1])]).unwrap();
    judge(&lens.map(Near::Len)).unwrap();
}
