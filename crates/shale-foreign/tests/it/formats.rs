//! Promise: every format is recognised by its bytes, wherever it begins, and what it holds comes;
//! a format that is not supported is named, with a program that reads it.

use crate::common::{Taken, name, tar_entry};
use shale_codec::stream::StreamFormat;
use shale_foreign::archive::{Archive, ArchiveEntry};
use shale_foreign::{OpenOptions, SquashfsOptions, SquashfsWriter, ZipWriter};
use shale_model::{InodeKind, Metadata, Timestamp};
use std::io::{Cursor, Write};

/// Opens the bytes as a file that begins at `offset`.
fn open_at(bytes: &[u8], offset: u64) -> Taken {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let options = OpenOptions { offset, ..OpenOptions::default() };
    match shale_foreign::open(name(), file, options) {
        Ok(None) => Taken { error: Some("unknown".to_owned()), ..Taken::default() },
        Ok(Some(source)) => Taken::of(Ok(source)),
        Err(error) => Taken { error: Some(error.to_string()), ..Taken::default() },
    }
}

fn open(bytes: &[u8]) -> Taken {
    open_at(bytes, 0)
}

fn tar() -> Vec<u8> {
    [tar_entry(b"file", b'0', b"content", b""), vec![0; 1024]].concat()
}

#[track_caller]
fn expect_file(taken: &Taken) {
    taken.expect_whole();
    assert_eq!(taken.entry("file").content, b"content");
}

/// A form of cpio headers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cpio {
    Newc,
    Crc,
    Odc,
    Little,
    Big,
}

/// An entry of a cpio archive: name, mode, inode and number of names, and data.
fn cpio_entry(
    form: Cpio,
    name: &str,
    mode: u32,
    (inode, links): (u32, u32),
    data: &[u8],
) -> Vec<u8> {
    let (len, name_len) = (data.len() as u32, name.len() as u32 + 1);
    let sum = data.iter().map(|&byte| u32::from(byte)).sum();
    let words = |to_bytes: fn(u16) -> [u8; 2]| {
        let words = [
            0o070_707,
            3,
            inode,
            mode,
            7,
            8,
            links,
            0x105,
            1,
            2,
            name_len,
            len >> 16,
            len & 0xffff,
        ];
        words.iter().flat_map(|&word| to_bytes(word as u16)).collect()
    };
    let (mut out, alignment): (Vec<u8>, usize) = match form {
        Cpio::Newc | Cpio::Crc => {
            let sum = if form == Cpio::Crc { sum } else { 0 };
            let magic = if form == Cpio::Crc { "070702" } else { "070701" };
            let fields = [inode, mode, 7, 8, links, 0x1_0002, len, 0, 3, 1, 5, name_len, sum];
            let fields = fields.iter().map(|field| format!("{field:08x}"));
            ((magic.to_owned() + &fields.collect::<String>()).into(), 4)
        }
        Cpio::Odc => {
            let small = [3, inode, mode, 7, 8, links, 0x105].map(|value| format!("{value:06o}"));
            let text = format!("070707{}{:011o}{name_len:06o}{len:011o}", small.concat(), 0x1_0002);
            (text.into(), 1)
        }
        Cpio::Little => (words(u16::to_le_bytes), 2),
        Cpio::Big => (words(u16::to_be_bytes), 2),
    };
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(alignment), 0);
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(alignment), 0);
    out
}

fn trailer(form: Cpio) -> Vec<u8> {
    cpio_entry(form, "TRAILER!!!", 0, (0, 1), b"")
}

const CPIO_FORMS: [Cpio; 5] = [Cpio::Newc, Cpio::Crc, Cpio::Odc, Cpio::Little, Cpio::Big];

#[test]
fn cpio_of_every_form_is_read() {
    for form in CPIO_FORMS {
        let bytes = [
            cpio_entry(form, ".", 0o040_755, (1, 2), b""),
            cpio_entry(form, "./file", 0o100_640, (2, 1), b"content"),
            cpio_entry(form, "link", 0o120_777, (3, 1), b"file"),
            cpio_entry(form, "null", 0o020_666, (4, 1), b""),
            cpio_entry(form, "pipe", 0o010_644, (5, 1), b""),
            trailer(form),
            vec![0; 300],
        ];
        let taken = open(&bytes.concat());
        taken.expect_whole();
        assert!(taken.warnings.is_empty(), "{:?}", taken.warnings);
        assert_eq!(taken.paths(), ["", "file", "link", "null", "pipe"], "{form:?}");
        let file = taken.entry("file");
        assert_eq!(file.content, b"content", "{form:?}");
        let metadata = &file.metadata;
        assert_eq!((metadata.permissions, metadata.uid, metadata.gid), (0o640, 7, 8));
        assert_eq!(metadata.mtime, Timestamp { sec: 0x1_0002, nsec: 0 }, "{form:?}");
        assert_eq!(taken.entry("link").target, b"file");
        assert_eq!(taken.kind("pipe"), InodeKind::Fifo);
        assert_eq!(taken.entry("null").metadata.device, shale_model::device_number(1, 5));
    }
}

#[test]
fn names_of_one_inode_come_with_its_content_wherever_that_is() {
    for (first, second, third) in
        [("", "", "content"), ("content", "", ""), ("content", "content", "content")]
    {
        let form = Cpio::Newc;
        let one = |name, data: &str| cpio_entry(form, name, 0o100_644, (9, 3), data.as_bytes());
        let empty = |name| cpio_entry(form, name, 0o100_644, (10, 2), b"");
        let bytes = [
            one("a", first),
            empty("e"),
            one("b", second),
            one("c", third),
            empty("f"),
            trailer(form),
        ];
        let taken = open(&bytes.concat());
        taken.expect_whole();
        assert_eq!(taken.paths(), ["a", "b", "c", "e", "f"]);
        let link = |path: &str| taken.entry(path).link.unwrap();
        assert!(link("a") == link("b") && link("b") == link("c") && link("e") == link("f"));
        assert_ne!(link("a"), link("e"));
        let contents: Vec<usize> =
            ["a", "b", "c"].map(|path| taken.entry(path).content.len()).into();
        assert_eq!(contents.iter().max(), Some(&7));
        // The first name of an inode brings what all have.
        let first_of_it = taken.order.iter().find(|path| ["a", "b", "c"].contains(&path.as_str()));
        assert_eq!(taken.entry(first_of_it.unwrap()).content, b"content");
    }
}

#[test]
fn names_of_one_inode_with_different_contents_are_a_problem() {
    for (first, second) in [("content", "kontent"), ("content", "longer content")] {
        for form in CPIO_FORMS {
            let one = |name, data: &str| cpio_entry(form, name, 0o100_644, (9, 3), data.as_bytes());
            let bytes = [one("a", first), one("b", second), one("c", first), trailer(form)];
            let taken = open(&bytes.concat());
            taken.expect_problem(&["b: ", "content", "inode"]);
            assert_eq!(taken.paths(), ["a", "c"], "{form:?}");
        }
    }
}

#[test]
fn cpio_says_what_is_wrong() {
    let file = |data: &[u8]| cpio_entry(Cpio::Crc, "file", 0o100_644, (2, 1), data);
    let mut wrong = file(b"content");
    let at = wrong.len() - 4;
    wrong[at] ^= 1;
    open(&[wrong, trailer(Cpio::Crc)].concat()).expect_problem(&["file: corrupt", "checksum"]);
    let large = vec![7; 3 << 20];
    expect_file(&open(&[file(b"content"), trailer(Cpio::Crc)].concat()));
    let mut wrong = file(&large);
    let at = wrong.len() - 1;
    wrong[at] ^= 1;
    open(&[wrong, trailer(Cpio::Crc)].concat()).expect_problem(&["file: ", "checksum"]);
    assert_eq!(open(&[file(&large), trailer(Cpio::Crc)].concat()).entry("file").content, large);

    open(&file(b"content")[..120]).expect_error(&["cpio archive, entry file", "it was cut"]);
    let taken = open(&file(b"content"));
    expect_file(&taken);
    assert!(taken.warnings[0].contains("ends without a trailer"), "{:?}", taken.warnings);
    open(&[file(b"content"), b"garbage".to_vec()].concat())
        .expect_error(&["at byte 124", "corrupt"]);

    let more = cpio_entry(Cpio::Odc, "more", 0o100_644, (2, 1), b"x");
    let two =
        [file(b"content"), trailer(Cpio::Crc), vec![0; 77], more, trailer(Cpio::Odc)].concat();
    assert_eq!(open(&two).expect_whole().paths(), ["file", "more"]);
    let taken = open(&[file(b"content"), trailer(Cpio::Crc), vec![0; 9], vec![0x1f; 50]].concat());
    expect_file(&taken);
    assert!(taken.warnings[0].contains("follows its end"), "{:?}", taken.warnings);
    let below = cpio_entry(Cpio::Crc, "file/x", 0o100_644, (3, 1), b"");
    open(&[file(b"content"), below, trailer(Cpio::Crc)].concat())
        .expect_problem(&["file/x: it lies below file"]);
}

fn ar_member(name: &str, data: &[u8]) -> Vec<u8> {
    let mut out =
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8o}{:<10}`\n", 5, 1, 2, 0o100_600, data.len());
    assert_eq!(out.len(), 60);
    if data.len() % 2 == 1 {
        out.push(' ');
    }
    let mut out = out.into_bytes();
    let padding = out.split_off(60);
    out.extend_from_slice(data);
    out.extend(padding);
    out
}

#[test]
fn ar_archives_of_gnu_and_bsd_are_read() {
    let long = "a-name-that-is-longer-than-16-bytes.o";
    let gnu = [
        b"!<arch>\n".to_vec(),
        ar_member("/", b"symbols"),
        ar_member("//", format!("{long}/\n").as_bytes()),
        ar_member("file/", b"content"),
        ar_member("/0", b"long"),
    ];
    let bsd = [
        b"!<arch>\n".to_vec(),
        ar_member("__.SYMDEF SORTED", b"symbols"),
        ar_member("file", b"content"),
        ar_member(&format!("#1/{}", long.len() + 3), format!("{long}\0\0\0long").as_bytes()),
    ];
    for bytes in [gnu.concat(), bsd.concat()] {
        let taken = open(&bytes);
        expect_file(&taken);
        assert_eq!(taken.paths(), [long, "file"]);
        assert_eq!(taken.entry(long).content, b"long");
        let metadata = &taken.entry("file").metadata;
        assert_eq!((metadata.permissions, metadata.uid, metadata.gid), (0o600, 1, 2));
        assert_eq!(metadata.mtime.sec, 5);
        open(&bytes[..bytes.len() - 3]).expect_error(&["ar archive, at byte", "it was cut"]);
    }
    // A space in front belongs to the name, which is then not that of a symbol table.
    let spaced = [b"!<arch>\n".to_vec(), ar_member(" /", b"content")].concat();
    assert_eq!(open(&spaced).expect_whole().entry(" ").content, b"content");
    assert!(open(b"!<arch>\n").expect_whole().entries.is_empty());
    open(&[b"!<arch>\n".to_vec(), ar_member("../x", b"")].concat()).expect_problem(&["../x: "]);
}

fn packed(format: StreamFormat, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = format.encoder(&mut out, None, 1).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap();
    out
}

#[test]
fn packages_of_debian_give_their_files() {
    let package = |name: &str, data: &[u8]| {
        let control = packed(
            StreamFormat::Gzip,
            &[tar_entry(b"control", b'0', b"", b""), vec![0; 1024]].concat(),
        );
        let members = [
            ar_member("debian-binary", b"2.0\n"),
            ar_member("control.tar.gz", &control),
            ar_member(name, data),
        ];
        [b"!<arch>\n".to_vec(), members.concat()].concat()
    };
    for format in StreamFormat::ALL {
        let name = format!("data.tar.{}", format.extension());
        let taken = open(&package(&name, &packed(format, &tar())));
        expect_file(&taken);
        assert_eq!(taken.paths(), ["file"]);
    }
    expect_file(&open(&package("data.tar", &tar())));
    open(&package("other", b"")).expect_error(&["Debian package", "no data.tar"]);
}

#[test]
fn packages_of_rpm_give_their_files() {
    let header = |index: u32, store: &[u8]| {
        let mut out = b"\x8e\xad\xe8\x01\0\0\0\0".to_vec();
        out.extend_from_slice(&index.to_be_bytes());
        out.extend_from_slice(&(store.len() as u32).to_be_bytes());
        out.resize(out.len() + index as usize * 16, 7);
        out.extend_from_slice(store);
        out
    };
    let package = |payload: &[u8]| {
        let mut out = b"\xed\xab\xee\xdb\x03\0".to_vec();
        out.resize(96, 0);
        out.extend(header(2, b"a signature"));
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend(header(3, b"the names and the owners"));
        out.extend_from_slice(payload);
        out
    };
    let files =
        [cpio_entry(Cpio::Newc, "./file", 0o100_644, (1, 1), b"content"), trailer(Cpio::Newc)]
            .concat();
    for format in StreamFormat::ALL {
        expect_file(&open(&package(&packed(format, &files))));
    }
    expect_file(&open(&package(&files)));
    open(&package(b"07070X00000000")).expect_error(&["RPM package", "4 GiB", "rpm2archive"]);
    open(&package(&packed(StreamFormat::Gzip, b"text")))
        .expect_error(&["RPM package", "not a cpio archive"]);
    open(&package(&files)[..120]).expect_error(&["RPM package", "was cut or is corrupt"]);
}

/// lzip around the stream of LZMA that has no length.
fn lzip(plain: &[u8]) -> Vec<u8> {
    let alone = packed(StreamFormat::Lzma, plain);
    let dictionary_bits = u32::from_le_bytes(alone[1..5].try_into().unwrap()).ilog2();
    let mut out = [b"LZIP\x01", &[dictionary_bits as u8][..], &alone[13..]].concat();
    out.extend_from_slice(&crate::common::crc32(plain).to_le_bytes());
    out.extend_from_slice(&(plain.len() as u64).to_le_bytes());
    let len = out.len() as u64 + 8;
    out.extend_from_slice(&len.to_le_bytes());
    out
}

/// compress(1) with codes of 9 bits: the table is emptied before they get wider.
fn compress(plain: &[u8]) -> Vec<u8> {
    const CLEAR: u16 = 256;
    let mut out = vec![0x1f, 0x9d, 0x90];
    let pieces = plain.chunks(200).collect::<Vec<_>>();
    for (n, piece) in pieces.iter().enumerate() {
        let mut codes: Vec<u16> = piece.iter().map(|&byte| byte.into()).collect();
        let is_last = n + 1 == pieces.len();
        if !is_last {
            codes.push(CLEAR);
        }
        for group in codes.chunks(8) {
            let bits = group.iter().rev().fold(0u128, |bits, &code| bits << 9 | u128::from(code));
            // The group that empties the table is padded, the last one of all is cut.
            let len = if is_last { (group.len() * 9).div_ceil(8) } else { 9 };
            out.extend_from_slice(&bits.to_le_bytes()[..len]);
        }
    }
    out
}

/// brotli that does not compress: one block of bytes as they are, and the end.
fn brotli(plain: &[u8]) -> Vec<u8> {
    assert!((1..=1 << 16).contains(&plain.len()));
    // A window of 64 KiB, not the last block, four digits of length, the length, not compressed.
    let bits = (plain.len() as u32 - 1) << 4 | 1 << 20;
    [&bits.to_le_bytes()[..3], plain, &[3]].concat()
}

#[test]
fn compressions_without_an_encoder_here_are_read() {
    let cpio = [cpio_entry(Cpio::Newc, "file", 0o100_644, (1, 1), b"content"), trailer(Cpio::Newc)]
        .concat();
    for plain in [tar(), cpio] {
        expect_file(&open(&lzip(&plain)));
        expect_file(&open(&[lzip(&plain[..200]), lzip(&plain[200..])].concat()));
        expect_file(&open(&compress(&plain)));
        expect_file(&open(&brotli(&plain)));
    }
    let mut bad = lzip(&tar());
    let at = bad.len() - 18;
    bad[at] ^= 1;
    open(&bad).expect_error(&["compressed archive", "corrupt lzip data"]);
    let mut bad = compress(&tar());
    bad.truncate(40);
    bad.extend([0xff; 90]);
    open(&bad).expect_error(&["corrupt compress (.Z) data"]);
}

/// The one file as an archive that a writer makes.
fn written(archive: Box<dyn Archive + '_>) {
    let mut archive = archive;
    let metadata = |kind, len| Metadata {
        kind,
        permissions: 0o755,
        uid: 0,
        gid: 0,
        mtime: Timestamp::default(),
        atime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        len,
        device: 0,
    };
    for (path, kind, data) in
        [("", InodeKind::Directory, &b""[..]), ("file", InodeKind::File, b"content")]
    {
        let range = 0..data.len() as u64;
        let entry = ArchiveEntry {
            path: path.as_bytes(),
            metadata: &metadata(kind, range.end),
            link_count: 1,
            inode: range.end,
            xattrs: &[],
            target: b"",
            hard_link: None,
            data: if data.is_empty() { &[] } else { std::slice::from_ref(&range) },
            content: range.end,
            is_repeat: false,
        };
        if archive.entry(&entry).unwrap().is_in {
            if !data.is_empty() {
                archive.data(data).unwrap();
            }
            archive.end_entry().unwrap();
        }
    }
    archive.finish().unwrap();
}

#[test]
fn archives_behind_a_program_are_found() {
    let program: Vec<u8> =
        b"\x7fELF".iter().copied().chain((0..3_000_000u32).map(|n| (n >> 3) as u8)).collect();
    let mut zip = Cursor::new(Vec::new());
    written(Box::new(ZipWriter::new(&mut zip, 6, 1)));
    let mut squashfs = Cursor::new(Vec::new());
    let options = SquashfsOptions { block_len: 4096, compression: None, level: None, threads: 1 };
    written(Box::new(SquashfsWriter::new(&mut squashfs, &options).unwrap()));
    let behind = |archive: &[u8]| [&program[..], archive].concat();
    for archive in [zip.into_inner(), squashfs.into_inner()] {
        expect_file(&open(&archive));
        expect_file(&open(&behind(&archive)));
        expect_file(&open_at(&behind(&archive), program.len() as u64));
    }
    // A zip archive whose offsets count from the beginning of the file, as `zip -A` makes it.
    let mut zip = Cursor::new(Vec::new());
    written(Box::new(ZipWriter::new(&mut zip, 6, 1)));
    let mut bytes = behind(&zip.into_inner());
    let end = bytes.len() - 22;
    let start = u32::from_le_bytes(bytes[end + 16..end + 20].try_into().unwrap());
    let shift = program.len() as u32;
    bytes[end + 16..end + 20].copy_from_slice(&(start + shift).to_le_bytes());
    let entry = (start + shift) as usize + 42;
    bytes[entry..entry + 4].copy_from_slice(&shift.to_le_bytes());
    expect_file(&open(&bytes));

    // What has no end of its own is only found by its offset.
    open(&behind(&tar())).expect_error(&["unknown"]);
    expect_file(&open_at(&behind(&tar()), program.len() as u64));
    let compressed = packed(StreamFormat::Xz, &tar());
    expect_file(&open_at(&behind(&compressed), program.len() as u64));
    open_at(b"short", 100).expect_error(&["unknown"]);
}

#[test]
fn what_is_not_supported_is_named_with_what_reads_it() {
    open(b"MSWIM\0\0\0").expect_error(&["WIM image", "not supported", "7z"]);
    open(b"Rar!\x1a\x07\x01\0").expect_error(&["RAR archive", "was cut"]);
    let mut iso = vec![0; 40_000];
    iso[32_769..32_774].copy_from_slice(b"CD001");
    open(&iso).expect_error(&["ISO 9660 image"]);
    open(&packed(StreamFormat::Zstd, &iso)).expect_error(&["zstd data", "ISO 9660 image"]);
    open(&packed(StreamFormat::Gzip, b"text"))
        .expect_error(&["gzip data", "no tar or cpio archive"]);
    // An image in a tar archive is a file.
    let inside = [tar_entry(b"x.iso", b'0', &iso, b""), vec![0; 1024]].concat();
    assert_eq!(open(&inside).expect_whole().paths(), ["x.iso"]);
    open(b"only text").expect_error(&["unknown"]);
    open(b"").expect_error(&["unknown"]);
}
