//! What the tests share: trees that are hard to keep, builds, and comparison with the real tree.
//!
//! The comparison walks the source with the standard library and `rustix`, not with the code under
//! test, and reads the image with `shale-read`. The digests of the report are recomputed too.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags};
use shale_format::inode::device_number;
use shale_format::{InodeKind, InodeRecord};
use shale_read::{Image, MemorySource, PieceKind, SnapshotChoice, Tree};
use shale_source::{DirectorySource, ScanOptions};
use shale_write::digest::{
    ContentDigest, ContentHasher, EntryPayload, LinkGroup, PathDigest, TreeDigest,
};
use shale_write::{EntrySource, NoProgress, Options, Report, WriteError, create};

/// A generator of bytes that is the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Compresses, but is not the same twice.
    pub fn text(&mut self, len: usize) -> Vec<u8> {
        const WORDS: [&str; 12] = [
            "shale",
            "frame",
            "page",
            "table",
            "inode",
            "extent",
            "the",
            "of",
            "and",
            "column",
            "reference",
            "prefix",
        ];
        let mut text = Vec::with_capacity(len + 20);
        while text.len() < len {
            text.extend_from_slice(WORDS[self.next() as usize % WORDS.len()].as_bytes());
            text.push(if self.next().is_multiple_of(9) { b'\n' } else { b' ' });
        }
        text.truncate(len);
        text
    }
}

pub fn options() -> Options {
    Options { level: 1, threads: 2, ..Options::default() }
}

pub fn scan(root: &Path, options: &Options) -> DirectorySource {
    let scan = ScanOptions {
        threads: options.threads,
        times_kept: options.times_kept,
        ..ScanOptions::default()
    };
    DirectorySource::open(root, &scan, &NoProgress).unwrap()
}

pub fn build(
    source: &mut dyn EntrySource,
    options: &Options,
) -> Result<(Vec<u8>, Report), WriteError> {
    let mut image = Vec::new();
    let report = create(source, &mut image, options, &NoProgress)?;
    assert_eq!(report.image_bytes, image.len() as u64);
    Ok((image, report))
}

pub fn pack(root: &Path, options: &Options) -> (Vec<u8>, Report) {
    build(&mut scan(root, options), options).unwrap()
}

pub fn open(image: &[u8]) -> Tree {
    let source = Arc::new(MemorySource::new(image));
    let image = Image::open(source, shale_read::Options::default()).unwrap();
    image.tree(&SnapshotChoice::Newest).unwrap()
}

pub fn content(tree: &Tree, path: &[u8]) -> Vec<u8> {
    let inode = tree.lookup_path(path).unwrap().expect("the path is there");
    let mut bytes = vec![0; tree.attributes(inode).unwrap().size as usize];
    assert_eq!(tree.read(inode, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Adds up the bytes of all frames that no file points to.
pub fn dead_bytes(tree: &Tree) -> u64 {
    let image = tree.image();
    let mut used: BTreeMap<u64, Vec<Range<u64>>> = BTreeMap::new();
    for inode in 1..=tree.inode_count() {
        let attributes = tree.attributes(inode).unwrap();
        if attributes.kind != InodeKind::File {
            continue;
        }
        for piece in tree.pieces(inode, 0..attributes.size).unwrap() {
            let piece = piece.unwrap();
            if let PieceKind::Frame { frame, frame_offset } = piece.kind {
                used.entry(frame).or_default().push(frame_offset..frame_offset + piece.len);
            }
        }
    }
    let mut dead = 0;
    for frame in 0..image.frame_count() {
        let mut ranges = used.remove(&frame).unwrap_or_default();
        ranges.sort_by_key(|range| range.start);
        let mut at = 0;
        for range in ranges {
            dead += range.start.saturating_sub(at);
            at = at.max(range.end);
        }
        dead += image.frame_record(frame).unwrap().plain_len - at;
    }
    dead
}

/// Recomputes the report's digests from the image.
pub fn assert_digests(tree: &Tree, report: &Report) {
    let image = tree.image();
    let mut digests = Vec::new();
    for id in 0..image.content_count() {
        let mut hasher = ContentHasher::new();
        let len = image.content_len(id).unwrap();
        let feed = |bytes: &[u8]| {
            hasher.update(bytes);
            true
        };
        image.visit_content(id, 0..len, feed).unwrap();
        digests.push(hasher.finish());
    }
    assert_eq!(digests, report.content_digests, "contents");
    assert_eq!(tree_digest(tree, &digests), report.tree_digest, "tree");
}

fn tree_digest(tree: &Tree, contents: &[ContentDigest]) -> TreeDigest {
    let mut digest = TreeDigest::default();
    let mut groups: BTreeMap<u64, LinkGroup> = BTreeMap::new();
    let mut paths = vec![(tree.root_inode(), PathDigest::ROOT)];
    add_entry(tree, contents, &mut digest, &PathDigest::ROOT, b"", tree.root_inode());
    while let Some((directory, path)) = paths.pop() {
        let mut entries = Vec::new();
        tree.list(directory, 0, |entry| {
            entries.push((entry.name.to_vec(), entry.inode));
            true
        })
        .unwrap();
        for (name, inode) in entries {
            add_entry(tree, contents, &mut digest, &path, &name, inode);
            let attributes = tree.attributes(inode).unwrap();
            if attributes.kind == InodeKind::Directory {
                paths.push((inode, path.child(&name)));
            } else {
                groups.entry(inode).or_default().add(&path, &name);
            }
        }
    }
    for (inode, group) in groups {
        assert_eq!(tree.attributes(inode).unwrap().link_count, group.name_count);
        digest.add_links(&group);
    }
    digest
}

fn add_entry(
    tree: &Tree,
    contents: &[ContentDigest],
    digest: &mut TreeDigest,
    parent: &PathDigest,
    name: &[u8],
    inode: u64,
) {
    let attributes = tree.attributes(inode).unwrap();
    let record = InodeRecord {
        kind: attributes.kind,
        permissions: attributes.permissions,
        uid: attributes.uid,
        gid: attributes.gid,
        link_count: attributes.link_count,
        mtime: attributes.mtime,
        atime: attributes.atime,
        ctime: attributes.ctime,
        btime: attributes.btime,
        xattr_set: attributes.xattr_set,
        payload: attributes.payload,
    };
    let target;
    let payload = match attributes.kind {
        InodeKind::File => EntryPayload::Content(&contents[attributes.payload as usize]),
        InodeKind::Symlink => {
            target = tree.link_target(inode).unwrap();
            EntryPayload::Target(&target)
        }
        InodeKind::BlockDevice | InodeKind::CharDevice => EntryPayload::Device(attributes.payload),
        _ => EntryPayload::None,
    };
    let xattrs = tree.xattrs(inode).unwrap();
    let xattrs = xattrs.iter().map(|xattr| (&xattr.name[..], &xattr.value[..]));
    digest.add_entry(parent, name, &record, xattrs, payload);
}

/// Compares everything under `root` with the image.
pub fn assert_same(root: &Path, tree: &Tree) {
    let mut links = BTreeMap::new();
    let mut directories = vec![(PathBuf::new(), tree.root_inode())];
    assert_same_inode(root, tree, tree.root_inode());
    while let Some((path, directory)) = directories.pop() {
        let mut expected: Vec<_> = fs::read_dir(root.join(&path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
            .collect();
        expected.sort();
        let mut found = Vec::new();
        tree.list(directory, 0, |entry| {
            found.push((entry.name.to_vec(), entry.inode));
            true
        })
        .unwrap();
        assert_eq!(found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected);
        for (name, inode) in found {
            let path = path.join(OsStr::from_bytes(&name));
            let metadata = assert_same_inode(&root.join(&path), tree, inode);
            if metadata.is_dir() {
                assert_eq!(tree.parent(inode).unwrap(), directory);
                directories.push((path, inode));
            } else {
                let same = *links.entry((metadata.dev(), metadata.ino())).or_insert(inode);
                assert_eq!(same, inode, "hard links of {path:?}");
            }
        }
    }
}

fn assert_same_inode(path: &Path, tree: &Tree, inode: u64) -> fs::Metadata {
    let metadata = fs::symlink_metadata(path).unwrap();
    let attributes = tree.attributes(inode).unwrap();
    assert_eq!(attributes.mode(), metadata.mode(), "{path:?}");
    assert_eq!((attributes.uid, attributes.gid), (metadata.uid(), metadata.gid()), "{path:?}");
    let mtime = (attributes.mtime.sec, i64::from(attributes.mtime.nsec));
    assert_eq!(mtime, (metadata.mtime(), metadata.mtime_nsec()), "{path:?}");
    if metadata.is_dir() {
        let directories = fs::read_dir(path)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_type().unwrap().is_dir());
        assert_eq!(attributes.link_count, 2 + directories.count() as u64, "{path:?}");
    } else {
        assert_eq!(attributes.link_count, metadata.nlink(), "{path:?}");
    }
    let xattrs: Vec<_> =
        tree.xattrs(inode).unwrap().into_iter().map(|xattr| (xattr.name, xattr.value)).collect();
    assert_eq!(xattrs, xattrs_of(path), "{path:?}");
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(path).unwrap();
        assert_eq!(tree.link_target(inode).unwrap(), target.as_os_str().as_bytes());
    } else if kind.is_block_device() || kind.is_char_device() {
        let device = metadata.rdev();
        let number = device_number(rustix::fs::major(device), rustix::fs::minor(device));
        assert_eq!(attributes.payload, number);
    } else if kind.is_file() {
        assert_same_content(path, tree, inode, metadata.len());
    }
    metadata
}

fn assert_same_content(path: &Path, tree: &Tree, inode: u64, len: u64) {
    assert_eq!(tree.attributes(inode).unwrap().size, len, "{path:?}");
    let file = File::open(path).unwrap();
    let mut at = 0;
    while at < len {
        let data = rustix::fs::seek(&file, SeekFrom::Data(at)).ok();
        assert_eq!(tree.seek_data(inode, at).unwrap(), data, "data in {path:?} from {at}");
        // Of a hole only the ends are compared: some are gigabytes.
        let hole_end = data.unwrap_or(len);
        assert_same_bytes(path, &file, tree, inode, at..hole_end.min(at + 100_000));
        assert_same_bytes(
            path,
            &file,
            tree,
            inode,
            hole_end.saturating_sub(100_000).max(at)..hole_end,
        );
        let Some(data) = data else { break };
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(data)).ok();
        assert_eq!(tree.seek_hole(inode, data).unwrap(), hole, "hole in {path:?} from {data}");
        at = hole.unwrap();
        assert_same_bytes(path, &file, tree, inode, data..at);
    }
}

fn assert_same_bytes(path: &Path, file: &File, tree: &Tree, inode: u64, range: Range<u64>) {
    let mut at = range.start;
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    while at < range.end {
        let want = (range.end - at).min(1 << 20) as usize;
        assert_eq!(tree.read(inode, at, &mut ours[..want]).unwrap(), want);
        file.read_exact_at(&mut theirs[..want], at).unwrap();
        assert!(ours[..want] == theirs[..want], "{path:?} differs near {at}");
        at += want as u64;
    }
}

fn xattrs_of(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; 65536];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut xattrs: Vec<_> = names[..len]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 65536];
            let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(len);
            (name.to_vec(), value)
        })
        .collect();
    xattrs.sort();
    xattrs
}

/// Sets an attribute where the file system can.
pub fn set_xattr(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).is_ok()
}

pub fn set_mtime(path: &Path, sec: i64, nsec: i64) {
    let time = Timespec { tv_sec: sec, tv_nsec: nsec };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Makes a special file; tells whether it was allowed to.
pub fn make_node(path: &Path, kind: FileType, device: u64) -> bool {
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device).is_ok()
}

/// A file with data at the given ranges, filled with `byte`, and holes elsewhere.
pub fn make_sparse(path: &Path, len: u64, data: &[(u64, u64)], byte: u8) {
    let file = File::create(path).unwrap();
    file.set_len(len).unwrap();
    for &(start, end) in data {
        file.write_all_at(&vec![byte; (end - start) as usize], start).unwrap();
    }
}

/// A tree with one of everything that Linux can keep, as far as we may make it.
pub fn make_nasty(root: &Path) {
    fs::create_dir_all(root.join("plain/empty directory")).unwrap();
    fs::create_dir_all(root.join("z/deep/er/and/deeper")).unwrap();
    let mut random = Random(42);
    let write = |path: &str, bytes: &[u8]| fs::write(root.join(path), bytes).unwrap();
    write("empty", b"");
    write("one byte", b"x");
    write("plain/text", &random.text(100_000));
    write("plain/copy of random", &random.bytes(70_000));
    fs::copy(root.join("plain/copy of random"), root.join("z/deep/random")).unwrap();
    write("plain/large", &random.text(3 << 20));
    write("plain/incompressible", &random.bytes(1_500_000));
    let mut zeroes = random.text(300_000);
    zeroes[50_000..200_001].fill(0);
    write("plain/with zeroes", &zeroes);
    write("plain/all zeroes", &vec![0; 1_200_000]);
    for (index, name) in
        [&b"\xff\xfe not utf-8"[..], b"new\nline", b"-rf", b" ", b"..hidden", &[b'n'; 255]]
            .iter()
            .enumerate()
    {
        fs::write(root.join(OsStr::from_bytes(name)), random.text(100 * index)).unwrap();
    }
    for (index, target) in
        ["nowhere", "../outside", "plain/text", &"x/".repeat(2000)].iter().enumerate()
    {
        symlink(target, root.join(format!("z/link {index}"))).unwrap();
    }
    symlink(".", root.join("loop")).unwrap();
    fs::hard_link(root.join("plain/text"), root.join("z/deep/er/text again")).unwrap();
    fs::hard_link(root.join("plain/text"), root.join("a link before the file")).unwrap();
    fs::hard_link(root.join("empty"), root.join("z/empty again")).unwrap();
    fs::hard_link(root.join("z/link 0"), root.join("plain/link again")).unwrap();
    make_sparse(&root.join("sparse small"), 600_000, &[(200_000, 300_000)], 7);
    make_sparse(
        &root.join("sparse large"),
        1 << 32,
        &[(1 << 20, 2 << 20), (3 << 30, (3 << 30) + 5)],
        9,
    );
    make_sparse(&root.join("only a hole"), 12_345_678, &[], 0);
    make_node(&root.join("fifo"), FileType::Fifo, 0);
    make_node(&root.join("socket"), FileType::Socket, 0);
    if make_node(&root.join("char device"), FileType::CharacterDevice, rustix::fs::makedev(5, 300))
    {
        make_node(
            &root.join("block device"),
            FileType::BlockDevice,
            rustix::fs::makedev(259, 70_000),
        );
    }
    for (path, mode) in
        [("plain/text", 0o4755), ("empty", 0o2644), ("z/deep", 0o1777), ("one byte", 0o000)]
    {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    set_xattr(&root.join("plain/text"), "user.one", b"value");
    set_xattr(&root.join("plain/text"), "user.another", &[0, 255, 10]);
    set_xattr(&root.join("plain/large"), "user.one", b"value");
    set_xattr(&root.join("z"), "user.empty", b"");
    set_xattr(&root.join("z/link 1"), "trusted.on a link", b"x");
    set_xattr(&root.join("one byte"), "user.long", &random.bytes(1000));
    set_xattr(&root.join("plain/empty directory"), "system.posix_acl_default", &acl());
    set_xattr(root, "user.root", b"of the tree");
    let _ = rustix::fs::chownat(
        CWD,
        root.join("plain/large"),
        Some(rustix::fs::Uid::from_raw(4_000_000_000)),
        Some(rustix::fs::Gid::from_raw(12_345)),
        AtFlags::SYMLINK_NOFOLLOW,
    );
    set_mtime(&root.join("empty"), -1_000_000_000, 1);
    set_mtime(&root.join("one byte"), 10_000_000_000, 999_999_999);
    set_mtime(&root.join("z/link 2"), 0, 0);
    set_mtime(&root.join("z"), 1, 123_456_789);
}

/// A default ACL: owner rwx, user 1000 r, group r-x, mask r-x, other none.
fn acl() -> Vec<u8> {
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 4, 1000),
        (4, 5, u32::MAX),
        (0x10, 5, u32::MAX),
        (0x20, 0, u32::MAX),
    ] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&permissions.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    acl
}
