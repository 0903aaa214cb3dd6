//! Promises about very many names: a directory of a million entries on a mount lists completely,
//! from any position, and knows what is in it.

use std::collections::HashMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use shale_read::{FileSource, Image, Options, SnapshotChoice};
use shale_tests::command::{Mount, can_mount, expect_code, shale};
use shale_tests::places;
use std::sync::Arc;

const COUNT: usize = 1_000_000;

fn name(number: usize) -> String {
    format!("file-{number:06}.txt")
}

/// An image with one large directory, and where it is.
fn image_in(folder: &std::path::Path) -> std::path::PathBuf {
    let manifest = folder.join("manifest");
    let mut out = BufWriter::new(fs::File::create(&manifest).unwrap());
    write!(out, "d 755 0 0 0 - .\nd 755 0 0 0 - d\nf 644 7 8 9 0 d/{}\n", name(0)).unwrap();
    for number in 1..COUNT {
        writeln!(out, "f = = = = 0 d/{}", name(number)).unwrap();
    }
    out.flush().unwrap();
    let image = folder.join("forest.shale");
    let mut create = shale(["create", "-q", "-1", "--no-verify", "--manifest"]);
    expect_code(create.arg(&manifest).arg("-o").arg(&image), 0);
    image
}

#[test]
fn a_directory_of_a_million_entries_lists_from_any_position() {
    let folder = places::disk();
    let image = image_in(folder.path());
    if !can_mount() {
        return;
    }
    let mount = Mount::new(&image, &folder.path().join("m"), &[]);
    let path = mount.path().join("d");
    // A handle that programs of other tests inherit would keep the mount in use.
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    // All of it: each name once, in order, and the position after each, as telldir gives it.
    let mut positions = Vec::with_capacity(COUNT);
    let mut inodes = HashMap::new();
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        let found = entry.file_name().to_str().unwrap();
        if found == "." || found == ".." {
            continue;
        }
        assert_eq!(found, name(positions.len()));
        if positions.len().is_multiple_of(99_991) {
            inodes.insert(positions.len(), entry.ino());
        }
        positions.push(entry.next_entry_cookie());
    }
    assert_eq!(positions.len(), COUNT);
    // Positions mean the same in any order and in a directory opened anew, as seekdir wants it.
    let again = rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    for turn in 0..200 {
        let at = turn * 777_773 % (COUNT - 1);
        let handle = if turn % 2 == 0 { &directory } else { &again };
        rustix::fs::seek(handle, SeekFrom::Start(positions[at])).unwrap();
        let mut entries = RawDir::new(handle, &mut buffer);
        let entry = entries.next().unwrap().unwrap();
        assert_eq!(entry.file_name().to_str().unwrap(), name(at + 1));
        assert_eq!(entry.next_entry_cookie(), positions[at + 1]);
    }
    rustix::fs::seek(&again, SeekFrom::Start(positions[COUNT - 1])).unwrap();
    assert!(RawDir::new(&again, &mut buffer).next().is_none(), "nothing follows the last");
    // Names that are there, with the inode that the listing gave, and names that are not.
    for number in [0, COUNT - 1].into_iter().chain(inodes.keys().copied()) {
        let found = fs::metadata(path.join(name(number))).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mtime(), found.len()), (7, 8, 9, 0));
        assert!(inodes.get(&number).is_none_or(|inode| *inode == found.ino()));
    }
    for missing in ["file-", "file-1000000.txt", "file-500000.tx", "file-500000.txtx", "zzz", "a"] {
        let error = fs::metadata(path.join(missing)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{missing}");
    }
    drop((directory, again));
    mount.end();
}

#[test]
fn a_million_names_cost_each_page_once_and_a_lookup_some_pages() {
    let folder = places::disk();
    let image = image_in(folder.path());
    let source = FileSource::open(&image).unwrap();
    let image = Image::open(Arc::new(source), Options::default()).unwrap();
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    let directory = tree.lookup_path(b"d").unwrap().unwrap();
    let pages_read = || tree.image().counters().snapshot().pages_read;
    let before = pages_read();
    let mut listed = 0;
    // In pieces, as the kernel asks for it.
    while listed < COUNT as u64 {
        let end = listed + 1000;
        let more = tree.list(directory, listed, |entry| {
            listed = entry.cookie;
            listed < end
        });
        more.unwrap();
    }
    // 115 pages of 128 KiB of names, and those of the index: none of them twice.
    assert!(pages_read() - before <= 118, "{} pages for a listing", pages_read() - before);
    for wanted in [name(0), name(COUNT - 1), "file-500000.txtx".to_owned(), "zzz".to_owned()] {
        let before = pages_read();
        let found = tree.lookup(directory, wanted.as_bytes()).unwrap();
        assert_eq!(found.is_some(), !wanted.contains('z') && wanted.len() == name(0).len());
        assert!(pages_read() - before <= 20, "{} pages for {wanted}", pages_read() - before);
    }
}
