//! Bodies of the fuzz targets of importers, and their seeds: any bytes taken for an archive are an
//! error or a tree, in bounded memory and time.

use crate::random::Random;
use crate::tar;
use shale_foreign::archive::{Archive, ArchiveEntry};
use shale_foreign::tar::Times;
use shale_foreign::{
    CpioSource, CpioWriter, DwarfsSource, ImageFile, Input, OpenOptions, SquashfsOptions,
    SquashfsSource, SquashfsWriter, TarOptions, TarSource, TarWriter, ZipSource, ZipWriter,
};
use shale_format::InodeKind;
use shale_model::{Content, Metadata, Xattr};
use shale_model::{EntrySource, SourceError};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

/// Bytes of contents read of one input; more are a bomb, which is for the budget of a build.
const CONTENT_LEN_MAX: u64 = 16 << 20;
/// Entries taken of one input.
const ENTRY_COUNT_MAX: usize = 10_000;

/// Takes the bytes for a tar archive.
pub fn tar(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    tar::mend(&mut bytes);
    let stream = Box::new(Cursor::new(bytes));
    take(TarSource::new(Path::new("fuzz"), stream, None, TarOptions::default()));
}

/// Takes the bytes for a cpio archive.
pub fn cpio(bytes: &[u8]) {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let Ok(input) = Input::open(Path::new("fuzz"), stream, None) else { return };
    take(Ok(CpioSource::new(input, &[], None)));
}

/// Takes the bytes for an archive of the format that they look like.
pub fn any(bytes: &[u8]) {
    let Some(file) = memory_file(bytes) else { return };
    let opened = shale_foreign::open(Path::new("fuzz"), file, OpenOptions::default());
    if let Ok(Some(source)) = opened {
        take_boxed(source);
    }
}

/// Takes the bytes for a zip archive.
pub fn zip(bytes: &[u8]) {
    let Some(file) = file(bytes) else { return };
    take(ZipSource::new(Path::new("fuzz"), file, &[], None));
}

/// Takes the bytes for a SquashFS image.
pub fn squashfs(bytes: &[u8]) {
    let Some(file) = file(bytes) else { return };
    take(SquashfsSource::new(Path::new("fuzz"), file, &[], None));
}

/// Takes the bytes for a DwarFS image, with its sums made right.
pub fn dwarfs(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_dwarfs(&mut bytes);
    let Some(file) = file(&bytes) else { return };
    take(DwarfsSource::new(Path::new("fuzz"), file, &[], None));
}

/// The bytes as a file in memory.
fn memory_file(bytes: &[u8]) -> Option<File> {
    let file = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let file = File::from(file);
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).ok()?;
    Some(file)
}

fn file(bytes: &[u8]) -> Option<ImageFile> {
    ImageFile::new(memory_file(bytes)?, 0).ok()
}

/// Asks for everything.
fn take<S: EntrySource + 'static>(source: Result<S, SourceError>) {
    if let Ok(source) = source {
        take_boxed(Box::new(source));
    }
}

fn take_boxed(mut source: Box<dyn EntrySource>) {
    let mut left = CONTENT_LEN_MAX;
    for _ in 0..ENTRY_COUNT_MAX {
        let Ok(Some(entry)) = source.next_entry() else { break };
        let mut names = entry.path.split(|&byte| byte == b'/');
        let is_name =
            |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
        assert!(entry.path.is_empty() || names.all(is_name), "{}", entry.path.escape_ascii());
        match entry.content {
            Content::Bytes(bytes) => {
                assert_eq!(bytes.len() as u64, entry.metadata.len);
                left = left.saturating_sub(bytes.len() as u64);
            }
            Content::Reader { reader, holes } => {
                let mut at = 0;
                for hole in holes {
                    assert!(hole.start >= at && hole.start < hole.end, "{hole:?} after {at}");
                    at = hole.end;
                }
                assert!(at <= entry.metadata.len, "holes to {at}");
                let read = std::io::copy(&mut reader.take(left), &mut std::io::sink());
                left = left.saturating_sub(read.unwrap_or(0));
            }
            Content::None | Content::File(_) | Content::Held(_) => {}
        }
        if left == 0 {
            break;
        }
    }
    let _ = source.take_problems();
}

/// Makes the short sums of sections right, and takes away the long ones, as old images have it.
fn mend_dwarfs(bytes: &mut [u8]) {
    const HEADER_LEN: usize = 64;
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER_LEN) {
        if &header[..6] != b"DWARFS" {
            return;
        }
        let len = header[56..64].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let end = usize::try_from(len).ok().and_then(|len| (at + HEADER_LEN).checked_add(len));
        let Some(end) = end.filter(|&end| end <= bytes.len()) else { return };
        let sum = shale_codec::xxh3_64(&bytes[at + 48..end]).to_le_bytes();
        bytes[at + 40..at + 48].copy_from_slice(&sum);
        at = end;
    }
}

/// Inputs of [`tar`].
pub fn tars() -> Vec<Vec<u8>> {
    let mut out = Cursor::new(Vec::new());
    let times = Times { access: true, ..Times::default() };
    fill(Box::new(TarWriter::new(&mut out, times)));
    vec![out.into_inner()]
}

/// Inputs of [`cpio`].
pub fn cpios() -> Vec<Vec<u8>> {
    let mut out = Cursor::new(Vec::new());
    fill(Box::new(CpioWriter::new(&mut out)));
    let newc = out.into_inner();
    let words = [0o070_707u16, 3, 4, 0o100_644, 7, 8, 2, 0, 1, 2, 2, 0, 8];
    let mut binary: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    binary.extend_from_slice(b"x\0content.");
    let odc = "070707000003000004100644000007000010000002000000000000000010000020000000000\
               010x\0content.";
    vec![newc, binary, odc.into()]
}

/// Inputs of [`any`]: packages and compressions that no other target has.
pub fn packages() -> Vec<Vec<u8>> {
    let member = |name: &str, data: &[u8]| {
        let head =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8o}{:<10}`\n", 5, 1, 2, 0o100_600, data.len());
        let padding = &b"\n"[..data.len() % 2];
        [head.as_bytes(), data, padding].concat()
    };
    let tar = tars().concat();
    let ar = [b"!<arch>\n".to_vec(), member("a/", b"content"), member("#1/3", b"abccontent")];
    let deb = [b"!<arch>\n".to_vec(), member("debian-binary", b"2.0\n"), member("data.tar", &tar)];
    let header = b"\x8e\xad\xe8\x01\0\0\0\0\0\0\0\x01\0\0\0\x08sixteen bytes ..eight...";
    let lead = [b"\xed\xab\xee\xdb".to_vec(), vec![0; 92]].concat();
    let rpm = [lead, header.to_vec(), header.to_vec(), cpios().swap_remove(0)];
    let lzw = b"\x1f\x9d\x90a\x02\x0a\x1c\x48\xb0\xa0\xc1".to_vec();
    vec![ar.concat(), deb.concat(), rpm.concat(), lzw]
}

/// Inputs of [`any`]: images and archives that other programs make, of those that are there.
pub fn images() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let names = ["iso", "erofs", "7z", "xar", "cab", "rar", "lrzip"];
    let formats = names.into_iter().filter_map(crate::against::format);
    formats.flat_map(|format| crate::against::seeds(format, folder.path())).collect()
}

/// Inputs of [`zip`].
pub fn zips() -> Vec<Vec<u8>> {
    let archive = |level| {
        let mut out = Cursor::new(Vec::new());
        fill(Box::new(ZipWriter::new(&mut out, level, 1)));
        out.into_inner()
    };
    vec![archive(6), archive(0)]
}

/// Inputs of [`squashfs`].
pub fn squashfses() -> Vec<Vec<u8>> {
    use shale_codec::stream::StreamFormat::{Gzip, Lz4, Xz, Zstd};
    let image = |compression| {
        let mut out = Cursor::new(Vec::new());
        let options = SquashfsOptions { block_len: 4096, compression, level: None, threads: 1 };
        let writer = SquashfsWriter::new(&mut out, &options).expect("the options are valid");
        fill(Box::new(writer));
        out.into_inner()
    };
    [None, Some(Gzip), Some(Xz), Some(Lz4), Some(Zstd)].map(image).into()
}

/// Inputs of [`dwarfs`]: what lies beside the project.
pub fn dwarfses() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dwarfs");
    let files = std::fs::read_dir(folder).expect("the images are there").flatten();
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "dwarfs"));
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Writes a few entries of every kind.
fn fill(mut archive: Box<dyn Archive + '_>) {
    let mut inode = 0;
    let mut add = |path: &str, kind, content: &[u8], data: &[std::ops::Range<u64>], link: &str| {
        inode += 1;
        let xattrs = [Xattr { name: b"user.a".to_vec(), value: b"some value".to_vec() }];
        let is_file = kind == InodeKind::File;
        let len = data.last().map_or(0, |range| range.end) + if inode == 4 { 5000 } else { 0 };
        let metadata = Metadata {
            kind,
            permissions: 0o755,
            uid: 1000,
            gid: 100,
            mtime: shale_format::Timestamp { sec: 1_700_000_000, nsec: 5 },
            atime: shale_format::Timestamp::default(),
            ctime: shale_format::Timestamp::default(),
            btime: shale_format::Timestamp::default(),
            len: if is_file { len } else { 0 },
            device: if kind == InodeKind::CharDevice { 5 << 32 | 1 } else { 0 },
        };
        let entry = ArchiveEntry {
            path: path.as_bytes(),
            metadata: &metadata,
            link_count: 2,
            inode: if link.is_empty() { inode } else { 3 },
            xattrs: &xattrs,
            target: if kind == InodeKind::Symlink { b"d/text" } else { b"" },
            hard_link: (!link.is_empty()).then_some(link.as_bytes()),
            data,
            content: 0,
            is_repeat: false,
        };
        let keeps = archive.keeps();
        let taken = archive.entry(&entry).expect("it can be written");
        if taken.is_in && is_file && (link.is_empty() || !keeps.hard_links) {
            match keeps.holes {
                true => archive.data(content),
                false => archive.data(&vec![0; len as usize]),
            }
            .expect("it can be written");
        }
        if taken.is_in {
            archive.end_entry().expect("it can be written");
        }
    };
    let text = Random::new(1).text(9000);
    let whole = 0..9000;
    let pieces = [4096..8192, 20_480..24_576];
    add("", InodeKind::Directory, b"", &[], "");
    add("d", InodeKind::Directory, b"", &[], "");
    add("d/text", InodeKind::File, &text, std::slice::from_ref(&whole), "");
    add("d/holes", InodeKind::File, &text[..8192], &pieces, "");
    add("d/same", InodeKind::File, &text, std::slice::from_ref(&whole), "d/text");
    add("link", InodeKind::Symlink, b"", &[], "");
    add("null", InodeKind::CharDevice, b"", &[], "");
    add("pipe", InodeKind::Fifo, b"", &[], "");
    archive.finish().expect("it can be written");
}
