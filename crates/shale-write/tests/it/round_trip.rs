//! What goes in comes out: trees packed and read back through the real reader.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::*;
use shale_format::InodeKind;
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_write::Options;

#[test]
fn everything_a_tree_has_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    make_nasty(dir.path());
    for level in [0, 1, 6] {
        let options = Options { level, ..options() };
        let (image, report) = pack(dir.path(), &options);
        let tree = open(&image);
        assert_same(dir.path(), &tree);
        assert_digests(&tree, &report);
        assert!(report.problems.is_empty());
        assert_eq!(report.duplicate_files, 1);
        assert_eq!(report.entries.hard_links, 4);
        assert_eq!(report.file_bytes, tree.file_bytes());
    }
}

#[test]
fn an_empty_tree_is_a_small_image() {
    let dir = tempfile::tempdir().unwrap();
    let (image, report) = pack(dir.path(), &options());
    assert_same(dir.path(), &open(&image));
    assert_digests(&open(&image), &report);
    // Of these, a third are the Merkle tree and the second root.
    assert!(image.len() < 1280, "{} bytes", image.len());
    assert_eq!(report.entries.inodes, 1);
}

#[test]
fn a_gigabyte_of_zeroes_is_an_image_of_two_kilobytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zeroes");
    // Data, not a hole, as far as the system knows: the first and last block are written.
    let len = 1 << 30;
    make_sparse(&path, len, &[(0, 4096), (len - 4096, len)], 0);
    let (image, report) = pack(dir.path(), &Options { level: 7, ..options() });
    assert!(image.len() <= 2048, "{} bytes", image.len());
    assert_eq!(report.hole_bytes + report.zero_bytes, len);
    assert_eq!(report.frames, 0);
    assert_same(dir.path(), &open(&image));
}

#[test]
fn five_thousand_levels_of_directories_are_fine() {
    // A disk takes a quarter of a minute to remove them.
    let memory = tempfile::tempdir_in("/dev/shm");
    let dir = memory.or_else(|_| tempfile::tempdir()).unwrap();
    let mut fd = rustix::fs::open(
        dir.path(),
        rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    let name = "d";
    for level in 0..5000 {
        rustix::fs::mkdirat(&fd, name, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
        fd = rustix::fs::openat(&fd, name, flags, rustix::fs::Mode::empty()).unwrap();
        if level % 1000 == 999 {
            let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            let mode = rustix::fs::Mode::from_raw_mode(0o644);
            let file = rustix::fs::openat(&fd, "file", flags, mode).unwrap();
            rustix::io::write(&file, format!("level {level}").as_bytes()).unwrap();
        }
    }
    let (image, report) = pack(dir.path(), &options());
    let tree = open(&image);
    assert_digests(&tree, &report);
    assert_eq!(report.entries.directories, 5001);
    let path = format!("{}/file", vec![name; 5000].join("/"));
    assert_eq!(content(&tree, path.as_bytes()), b"level 4999");
    // The standard library removes by recursion. The kernel takes its time while the deepest one
    // is open.
    drop(fd);
    let status = std::process::Command::new("rm").arg("-rf").arg(dir.path()).status().unwrap();
    assert!(status.success());
}

#[test]
fn wide_directories_span_pages() {
    let dir = tempfile::tempdir().unwrap();
    let wide = dir.path().join("wide");
    fs::create_dir(&wide).unwrap();
    for index in 0..20_000u32 {
        let name = format!("{:08x}-{index}", index.wrapping_mul(2_654_435_761));
        if index % 10 == 0 {
            symlink(format!("to {index}"), wide.join(name)).unwrap();
        } else {
            fs::write(
                wide.join(name),
                if index % 3 == 0 { format!("{index}") } else { String::new() },
            )
            .unwrap();
        }
    }
    let (image, report) = pack(dir.path(), &options());
    let tree = open(&image);
    assert_digests(&tree, &report);
    assert_same(dir.path(), &tree);
    assert_eq!((report.entries.symlinks, report.entries.files), (2000, 18_000));
    let entries = report.tables.iter().find(|table| table.name == "entries").unwrap();
    assert!(entries.pages > 2, "{entries:?}");
    // The first page helps to store the others, and everything above was read through it.
    assert_ne!(tree.snapshot().entries.dictionary, Default::default());
}

#[test]
fn times_are_kept_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"x").unwrap();
    set_mtime(&dir.path().join("file"), 1_234_567, 89);
    for kept in [0, TIME_MTIME, TIME_ATIME | TIME_CTIME, 15] {
        let options = Options { times_kept: kept, ..options() };
        let (image, report) = pack(dir.path(), &options);
        let tree = open(&image);
        assert_digests(&tree, &report);
        let inode = tree.lookup_path(b"file").unwrap().unwrap();
        let attributes = tree.attributes(inode).unwrap();
        let is_set = |time: shale_format::Timestamp| time != Default::default();
        assert_eq!(tree.snapshot().times_kept, kept);
        assert_eq!(is_set(attributes.mtime), kept & TIME_MTIME != 0);
        assert_eq!(is_set(attributes.atime), kept & TIME_ATIME != 0);
        assert_eq!(is_set(attributes.ctime), kept & TIME_CTIME != 0);
        assert!(kept & TIME_BTIME != 0 || !is_set(attributes.btime));
    }
}

#[test]
fn small_files_of_one_directory_share_frames_and_are_not_split() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(5);
    for directory in ["a", "b", "c"] {
        fs::create_dir(dir.path().join(directory)).unwrap();
        for index in 0..100 {
            let len = 500 + random.next() as usize % 9000;
            let path = dir.path().join(directory).join(format!("{index}"));
            fs::write(path, random.text(len)).unwrap();
        }
    }
    let options = Options { frame_len: Some(64 << 10), ..options() };
    let (image, report) = pack(dir.path(), &options);
    let tree = open(&image);
    assert_digests(&tree, &report);
    assert_eq!(report.extents, 1, "one row whatever the number of files");
    let mut walk = tree.walk(tree.root_inode()).unwrap();
    while let Some(visit) = walk.advance().unwrap() {
        if visit.attributes.kind == InodeKind::File {
            let pieces = tree.pieces(visit.attributes.inode, 0..u64::MAX).unwrap().count();
            assert_eq!(pieces, 1, "{}", String::from_utf8_lossy(visit.path));
        }
    }
}
