//! Promise: nothing of a zip archive is lost without a word. Its structures have to agree where
//! they repeat each other, and names and times are what their writer meant.

use crate::common::{Taken, crc32, file, name};
use shale_foreign::ZipSource;
use shale_model::InodeKind;

/// An entry, with everything that a test may want to be wrong.
#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    /// Of the local header, where it is another.
    local_name: Option<Vec<u8>>,
    content: Vec<u8>,
    crc: Option<u32>,
    len: Option<u32>,
    host: u8,
    flags: u16,
    method: u16,
    /// Date and time of MS-DOS.
    dos_time: (u16, u16),
    attributes: u32,
    extra: Vec<u8>,
    local_extra: Vec<u8>,
}

fn entry(name: &str, content: &str) -> Entry {
    Entry {
        name: name.into(),
        local_name: None,
        content: content.into(),
        crc: None,
        len: None,
        host: 3,
        flags: 0,
        method: 0,
        dos_time: (1 << 5 | 1, 0),
        attributes: 0o100644 << 16,
        extra: Vec::new(),
        local_extra: Vec::new(),
    }
}

fn put(out: &mut Vec<u8>, values: &[u64], len: usize) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()[..len]));
}

/// Local headers with data, then the directory; `count` is what the end record says.
fn zip_counted(entries: &[Entry], count: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let offset = out.len() as u64;
        let crc = u64::from(entry.crc.unwrap_or_else(|| crc32(&entry.content)));
        let len = entry.len.map_or(entry.content.len() as u64, u64::from);
        let lens = [crc, entry.content.len() as u64, len];
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        let (date, time) = (u64::from(entry.dos_time.0), u64::from(entry.dos_time.1));
        let common = [u64::from(entry.flags), u64::from(entry.method), time, date];
        out.extend_from_slice(b"PK\x03\x04");
        put(&mut out, &[20], 2);
        put(&mut out, &common, 2);
        put(&mut out, &lens, 4);
        put(&mut out, &[name.len() as u64, entry.local_extra.len() as u64], 2);
        out.extend_from_slice(name);
        out.extend_from_slice(&entry.local_extra);
        out.extend_from_slice(&entry.content);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&[30, entry.host]);
        put(&mut directory, &[20], 2);
        put(&mut directory, &common, 2);
        put(&mut directory, &lens, 4);
        let (name_len, extra_len) = (entry.name.len() as u64, entry.extra.len() as u64);
        put(&mut directory, &[name_len, extra_len, 0, 0, 0], 2);
        put(&mut directory, &[u64::from(entry.attributes), offset], 4);
        directory.extend_from_slice(&entry.name);
        directory.extend_from_slice(&entry.extra);
    }
    let start = out.len() as u64;
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06");
    put(&mut out, &[0, 0, u64::from(count), u64::from(count)], 2);
    put(&mut out, &[directory.len() as u64, start], 4);
    put(&mut out, &[0], 2);
    out
}

fn zip(entries: &[Entry]) -> Vec<u8> {
    zip_counted(entries, entries.len() as u16)
}

fn take_bytes(bytes: &[u8]) -> Taken {
    Taken::of(ZipSource::new(name(), file(bytes), &[], None).map(Box::new))
}

fn take(entries: &[Entry]) -> Taken {
    take_bytes(&zip(entries))
}

fn field(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
}

#[test]
fn what_came_through_a_pipe_is_a_file() {
    let piped = Entry { attributes: 0o010_600 << 16, ..entry("-", "through a pipe") };
    let fifo = Entry { attributes: 0o010_600 << 16, ..entry("fifo", "") };
    let taken = take(&[piped, fifo]);
    taken.expect_whole();
    assert_eq!(taken.entry("-").content, b"through a pipe");
    assert_eq!(taken.kind("-"), InodeKind::File);
    assert_eq!(taken.entry("-").metadata.permissions, 0o600);
    assert_eq!(taken.kind("fifo"), InodeKind::Fifo);
}

#[test]
fn more_entries_than_16_bits_count_all_come() {
    let entries: Vec<Entry> = (0..70_000).map(|n| entry(&n.to_string(), "")).collect();
    let bytes = zip_counted(&entries, (70_000 % 65_536) as u16);
    assert_eq!(take_bytes(&bytes).expect_whole().entries.len(), 70_000);
}

#[test]
fn a_count_that_is_not_that_of_the_directory_is_an_error() {
    let entries: Vec<Entry> = (0..5).map(|n| entry(&n.to_string(), "")).collect();
    for count in [0, 3, 6, 65_535] {
        let taken = take_bytes(&zip_counted(&entries, count));
        taken.expect_error(&["zip archive", "5 entries", &format!("counts {count}"), "corrupt"]);
        assert!(taken.entries.is_empty());
    }
    take_bytes(&zip_counted(&entries, 5)).expect_whole();
    // A directory of no entries is an empty archive.
    assert!(take(&[]).expect_whole().entries.is_empty());
}

#[test]
fn a_length_of_zero_with_a_checksum_is_a_problem() {
    let lost = Entry { crc: Some(7), ..entry("lost", "") };
    let taken = take(&[lost, entry("kept", "x")]);
    taken.expect_problem(&["lost", "checksum", "corrupt"]);
    assert_eq!(taken.paths(), ["kept"]);
    // All bytes are there, but the length is zero.
    take(&[Entry { len: Some(0), crc: Some(0), ..entry("cut", "bytes") }])
        .expect_problem(&["cut", "longer than its length"]);
    take(&[Entry { len: Some(9), ..entry("long", "bytes") }])
        .expect_problem(&["long", "shorter than its length"]);
}

#[test]
fn a_directory_that_differs_from_local_headers_is_a_problem() {
    let renamed =
        Entry { name: b"other".into(), local_name: Some(b"opher".into()), ..entry("", "x") };
    let taken = take(&[entry("a", "1"), renamed, entry("b", "2")]);
    taken.expect_problem(&["other", "another name", "opher", "corrupt"]);
    assert_eq!(taken.paths(), ["a", "b"]);

    let good = zip(&[entry("name", "content")]);
    let header = good.windows(4).position(|bytes| bytes == b"PK\x03\x04").unwrap();
    for (at, word) in [(8, "method"), (14, "checksum"), (18, "length"), (22, "length")] {
        let mut bytes = good.clone();
        bytes[header + at] ^= 1;
        take_bytes(&bytes).expect_problem(&["name: ", word, "corrupt"]);
    }
}

#[test]
fn nothing_lies_below_a_file_or_a_link() {
    let link = Entry { attributes: 0o120_777 << 16, ..entry("link", "/etc") };
    let entries = [entry("a", "file"), entry("a/b", "below"), link, entry("link/passwd", "x")];
    let taken = take(&entries);
    assert_eq!(taken.paths(), ["a", "link"]);
    let expected = [
        "a/b: it lies below a, which is a file in the archive",
        "link/passwd: it lies below link, which is a symbolic link in the archive",
    ];
    assert_eq!(taken.problems, expected);
}

#[test]
fn entries_that_overlap_are_refused_as_a_bomb() {
    let mut bytes = zip(&[entry("a", "one"), entry("b", "two")]);
    let second = bytes.len() - 22 - 47 + 42;
    assert_ne!(bytes[second], 0);
    bytes[second] = 0;
    let taken = take_bytes(&bytes);
    taken.expect_error(&["zip archive", "overlap", "bomb"]);
    assert!(taken.entries.is_empty());
}

#[test]
fn names_of_dos_and_windows_are_paths() {
    let dos = |name: &[u8]| Entry { name: name.into(), host: 0, attributes: 0, ..entry("", "x") };
    let folder = Entry { attributes: 0x10, content: Vec::new(), ..dos(b"dir") };
    let mut renamed = dos(b"?.txt");
    renamed.extra =
        field(0x7075, &[&[1][..], &crc32(b"?.txt").to_le_bytes(), "語.txt".as_bytes()].concat());
    let read_only = Entry { attributes: 1, ..dos(b"read-only") };
    let taken = take(&[dos(b"dir\\sub\\\x81ber"), folder, renamed, read_only]);
    taken.expect_whole();
    assert_eq!(taken.paths(), ["dir", "dir/sub/über", "read-only", "語.txt"]);
    assert_eq!(taken.kind("dir"), InodeKind::Directory);
    assert_eq!(taken.entry("dir/sub/über").metadata.permissions, 0o644);
    assert_eq!(taken.entry("read-only").metadata.permissions, 0o444);
}

#[test]
fn times_and_owners_of_old_extra_fields_are_kept() {
    let times = [100u32.to_le_bytes(), 200u32.to_le_bytes()].concat();
    let old = Entry {
        extra: field(0x5855, &times),
        local_extra: field(0x5855, &[&times[..], &[0xe8, 3, 0xe9, 3]].concat()),
        ..entry("old", "x")
    };
    let second = Entry {
        extra: [field(0x5455, &[&[3][..], &300u32.to_le_bytes()].concat()), field(0x7855, &[])]
            .concat(),
        local_extra: [
            field(0x5455, &[&[3][..], &300u32.to_le_bytes(), &400u32.to_le_bytes()].concat()),
            field(0x7855, &[1, 0, 2, 0]),
        ]
        .concat(),
        ..entry("second", "x")
    };
    // 2100-01-01 in both forms.
    let late = Entry {
        dos_time: (120 << 9 | 1 << 5 | 1, 0),
        extra: field(0x5455, &[&[1][..], &4_102_444_800u32.to_le_bytes()].concat()),
        ..entry("late", "x")
    };
    let taken = take(&[old, second, late]);
    taken.expect_whole();
    let of = |path: &str| {
        let metadata = &taken.entry(path).metadata;
        (metadata.mtime.sec, metadata.atime.sec, metadata.uid, metadata.gid)
    };
    assert_eq!(of("old"), (200, 100, 1000, 1001));
    assert_eq!(of("second"), (300, 400, 1, 2));
    assert_eq!(of("late").0, 4_102_444_800);
}

#[test]
fn entries_in_zstd_and_xz_come() {
    use shale_codec::stream::StreamFormat;
    use std::io::Write;
    let plain = "some text ".repeat(5000);
    for (method, format) in
        [(93, StreamFormat::Zstd), (20, StreamFormat::Zstd), (95, StreamFormat::Xz)]
    {
        let mut content = Vec::new();
        let mut encoder = format.encoder(&mut content, None, 1).unwrap();
        encoder.write_all(plain.as_bytes()).unwrap();
        encoder.finish().unwrap();
        let (len, crc) = (plain.len() as u32, crc32(plain.as_bytes()));
        let packed =
            Entry { method, content, len: Some(len), crc: Some(crc), ..entry("packed", "") };
        let taken = take(std::slice::from_ref(&packed));
        assert_eq!(taken.expect_whole().entry("packed").content, plain.as_bytes(), "{method}");
        take(&[Entry { crc: Some(!crc), ..packed }]).expect_problem(&["packed", "checksum"]);
    }
}

#[test]
fn what_is_not_supported_is_named() {
    for (method, words) in [(6, "imploded"), (97, "WavPack"), (77, "77")] {
        take(&[Entry { method, ..entry("x", "x") }]).expect_problem(&[
            "x: ",
            words,
            "not supported",
        ]);
    }
    take(&[Entry { flags: 1, ..entry("x", "x") }]).expect_problem(&["x: ", "encrypted"]);
    for method in [9, 14, 98] {
        let noise = Entry { method, len: Some(50), ..entry("x", &"nonsense".repeat(9)) };
        take(&[noise]).expect_problem(&["x: ", "corrupt"]);
    }
    let broken = Entry { method: 8, content: vec![0xff; 20], len: Some(5), ..entry("x", "") };
    take(&[broken]).expect_problem(&["x: corrupt deflate data"]);
}

#[test]
fn a_deep_path_costs_no_more_than_its_bytes() {
    let deep = vec!["d"; 8_000].join("/");
    let entries: Vec<Entry> = (0..200).map(|n| entry(&format!("{deep}/{n}"), "")).collect();
    assert_eq!(take(&entries).expect_whole().entries.len(), 200);
    let deeper = vec!["d"; 20_000].join("/");
    let taken = take(&[entry(&deeper, "x"), entry("kept", "x")]);
    taken.expect_problem(&["d/d/d", "... (39999 bytes): its path is longer than 16384 bytes"]);
    assert!(taken.problems[0].len() < 400);
    assert_eq!(taken.paths(), ["kept"]);
}

#[test]
fn any_byte_may_be_damaged() {
    let link = Entry { attributes: 0o120_777 << 16, ..entry("link", "dir/a") };
    let good = zip(&[entry("dir/", ""), entry("dir/a", "content"), link]);
    let whole = take_bytes(&good);
    whole.expect_whole();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let taken = take_bytes(&bytes);
            if taken.error.is_none() && taken.problems.is_empty() {
                assert_eq!(taken.paths(), whole.paths(), "bit {bit} of byte {at}");
                // Only the directory says whether it is a file or a link.
                let entry = taken.entry("dir/a");
                let bytes = [&entry.content[..], &entry.target].concat();
                assert_eq!(bytes, b"content", "bit {bit} of byte {at}");
            }
        }
    }
}
