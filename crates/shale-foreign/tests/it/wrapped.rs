//! Promise: cabinets and xar archives made byte by byte come, and hostile ones are refused with the
//! reason: wrong sums, contents beyond the end, parts of sets, shared bytes, depth without end.

use crate::common::{Taken, name};
use sha1::{Digest, Sha1};
use shale_codec::stream::zlib_block_encode;
use shale_foreign::OpenOptions;
use std::io::Write;

fn open(bytes: &[u8]) -> Taken {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    match shale_foreign::open(name(), file, OpenOptions::default()) {
        Ok(None) => Taken { error: Some("unknown".to_owned()), ..Taken::default() },
        Ok(Some(source)) => Taken::of(Ok(source)),
        Err(error) => Taken { error: Some(error.to_string()), ..Taken::default() },
    }
}

/// A file of a cabinet: name, attributes, where it begins and its length.
type CabFile<'f> = (&'f [u8], u16, u32, u32);

fn block_sum(bytes: &[u8], seed: u32) -> u32 {
    let mut words = bytes.chunks_exact(4);
    let sum =
        words.by_ref().fold(seed, |sum, word| sum ^ u32::from_le_bytes(word.try_into().unwrap()));
    sum ^ words.remainder().iter().fold(0, |last, byte| last << 8 | u32::from(*byte))
}

/// A cabinet with one folder, whose blocks are given as they are stored, with their plain lengths.
fn cabinet(method: u16, blocks: &[(Vec<u8>, u16)], files: &[CabFile<'_>]) -> Vec<u8> {
    let mut list = Vec::new();
    for (name, attributes, start, len) in files {
        list.extend_from_slice(&len.to_le_bytes());
        list.extend_from_slice(&start.to_le_bytes());
        // Folder 0, 2020-01-02 03:04:06.
        for number in [0, 40 << 9 | 1 << 5 | 2, 3 << 11 | 4 << 5 | 3, *attributes] {
            list.extend_from_slice(&u16::to_le_bytes(number));
        }
        list.extend_from_slice(name);
        list.push(0);
    }
    let data_at = 44 + list.len() as u32;
    let mut data = Vec::new();
    for (stored, plain_len) in blocks {
        let lens = [(stored.len() as u16).to_le_bytes(), plain_len.to_le_bytes()].concat();
        let sum = block_sum(&lens, block_sum(stored, 0));
        data.extend_from_slice(&sum.to_le_bytes());
        data.extend_from_slice(&lens);
        data.extend_from_slice(stored);
    }
    let len = data_at + data.len() as u32;
    let mut out = b"MSCF\0\0\0\0".to_vec();
    for number in [len, 0, 44, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&[3, 1]);
    for number in [1, files.len() as u16, 0, 7, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&data_at.to_le_bytes());
    out.extend_from_slice(&(blocks.len() as u16).to_le_bytes());
    out.extend_from_slice(&method.to_le_bytes());
    [out, list, data].concat()
}

/// A deflate stream of one block that is not compressed.
fn mszip(plain: &[u8]) -> Vec<u8> {
    let len = plain.len() as u16;
    let mut out = b"CK\x01".to_vec();
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    [&out, plain].concat()
}

/// An LZX stream of one block that is not compressed.
fn lzx(plain: &[u8]) -> Vec<u8> {
    // No translation of calls; block type 3; its length in 24 bits; padding to 16 bits.
    let bits = 3u32 << 28 | (plain.len() as u32) << 4;
    let mut out = [(bits >> 16) as u16, bits as u16].map(u16::to_le_bytes).concat();
    [1u32; 3].iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
    [&out, plain].concat()
}

const FILES: [CabFile<'static>; 3] =
    [(b"d\\first", 0x21, 0, 10), (b"d\\m\x94gen", 0x40, 10, 6), ("ü".as_bytes(), 0x80, 16, 10)];
const PLAIN: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

#[test]
fn cabinets_of_each_method_come() {
    for (method, stored) in [(0, PLAIN.to_vec()), (1, mszip(PLAIN)), (15 << 8 | 3, lzx(PLAIN))] {
        let taken = open(&cabinet(method, &[(stored, 26)], &FILES));
        taken.expect_whole();
        assert_eq!(taken.paths(), ["d/first", "d/mögen", "ü"], "method {method}");
        assert_eq!(taken.entry("d/first").content, b"abcdefghij");
        assert_eq!(taken.entry("ü").content, b"qrstuvwxyz");
        assert_eq!(taken.entry("d/first").metadata.permissions, 0o444);
        assert_eq!(taken.entry("d/mögen").metadata.permissions, 0o755);
        assert_eq!(taken.entry("ü").metadata.mtime.sec, 1_577_934_246);
    }
    // MSZIP refers to what the blocks before it held: here, 32 KiB before.
    let long: Vec<u8> = (0..32_768u32).map(|n| (n % 251) as u8).collect();
    let reference = [b"CK".to_vec(), vec![0x03, 0x00]].concat();
    let blocks = [(mszip(&long), 32_768), (reference, 1)];
    // An empty deflate stream gives nothing, although a byte is promised.
    open(&cabinet(1, &blocks, &[(b"a", 0, 0, 32_769)])).expect_error(&["cannot be decompressed"]);
}

#[test]
fn cabinets_that_are_not_what_they_say_are_refused() {
    let good = cabinet(0, &[(PLAIN.to_vec(), 26)], &FILES);
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let taken = open(&wrong);
    let said = [taken.problems.concat(), taken.error.unwrap_or_default()].concat();
    assert!(said.contains("checksum"), "{said}");
    open(&good[..good.len() - 1]).expect_error(&["cabinet", "cut"]);
    for (flag, words) in [(1, "cabextract"), (2, "several cabinets")] {
        let mut part = good.clone();
        part[30] = flag;
        open(&part).expect_error(&["cabinet", words]);
    }
    open(&cabinet(2, &[(PLAIN.to_vec(), 26)], &FILES)).expect_error(&["Quantum", "cabextract"]);
    open(&cabinet(22 << 8 | 3, &[(lzx(PLAIN), 26)], &FILES)).expect_error(&["LZX", "2^22"]);
    open(&cabinet(0, &[(PLAIN.to_vec(), 26)], &[(b"a", 0, 20, 7)])).expect_problem(&["a", "cut"]);
    open(&cabinet(0, &[(PLAIN.to_vec(), 26)], &[(b"a", 0, 0, 20), (b"b", 0, 10, 16)]))
        .expect_problem(&["b", "overlaps"]);
    for (name, words) in [(&b"..\\a"[..], ".."), (b"", "no name"), (b"\\", "no name")] {
        open(&cabinet(0, &[(PLAIN.to_vec(), 26)], &[(name, 0, 0, 2)])).expect_problem(&[words]);
    }
    open(&cabinet(0, &[(PLAIN.to_vec(), 26)], &[(b"a", 0, 0, 2), (b"a", 0, 2, 2)]))
        .expect_problem(&["twice"]);
    open(&cabinet(0, &[(PLAIN.to_vec(), 26)], &[(b"a", 0, 0, 2), (b"a\\b", 0, 2, 2)]))
        .expect_problem(&["below a"]);
}

/// A xar archive with this text in its table and these bytes after the sum of the table.
fn xar(table: &str, heap: &[u8]) -> Vec<u8> {
    let document = format!(
        "<?xml version=\"1.0\"?><xar><toc><checksum style=\"sha1\"><offset>0</offset>\
         <size>20</size></checksum>{table}</toc></xar>"
    );
    let stored = zlib_block_encode(document.as_bytes(), 6).unwrap();
    let mut out = b"xar!\0\x1c\0\x01".to_vec();
    out.extend_from_slice(&(stored.len() as u64).to_be_bytes());
    out.extend_from_slice(&(document.len() as u64).to_be_bytes());
    out.extend_from_slice(&1u32.to_be_bytes());
    out.extend_from_slice(&stored);
    out.extend_from_slice(&Sha1::digest(&stored));
    [&out, heap].concat()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file of 7 bytes at the beginning of the heap.
fn content(more: &str) -> String {
    let sum = hex(&Sha1::digest(b"content"));
    format!(
        "<data><offset>20</offset><length>7</length><size>7</size>\
         <encoding style=\"application/octet-stream\"/>\
         <extracted-checksum style=\"sha1\">{sum}</extracted-checksum></data>{more}"
    )
}

fn file(name: &str, more: &str) -> String {
    format!("<file id=\"{name}\"><name>{name}</name><type>file</type>{more}</file>")
}

#[test]
fn a_xar_archive_made_byte_by_byte_comes() {
    let attributes = "<ea><name>user.a</name><offset>20</offset><length>3</length><size>3</size></ea>\
                      <ea><name>com.apple.x</name><offset>20</offset><length>3</length>\
                      <size>3</size></ea>";
    let table = [
        "<file id=\"1\"><type>directory</type><name>d</name>".to_owned(),
        file(
            "a&amp;b",
            &content("<mode>4711</mode><uid>7</uid><mtime>2020-01-02T03:04:06Z</mtime>"),
        ),
        "</file>".to_owned(),
        file("e", &content(attributes)),
        "<file id=\"9\"><name>null</name><type>character special</type><device><major>1</major>\
         <minor>3</minor></device></file>"
            .to_owned(),
    ];
    let taken = open(&xar(&table.concat(), b"content"));
    taken.expect_whole();
    assert_eq!(taken.paths(), ["d", "d/a&b", "e", "null"]);
    let found = taken.entry("d/a&b");
    assert_eq!((&found.content[..], found.metadata.uid), (&b"content"[..], 7));
    assert_eq!((found.metadata.permissions, found.metadata.mtime.sec), (0o4711, 1_577_934_246));
    assert_eq!(taken.entry("e").xattrs, [("user.a".to_owned(), b"con".to_vec())]);
    assert_eq!(taken.entry("null").metadata.device, 1 << 32 | 3);
    let warnings = taken.warnings.concat();
    assert!(warnings.contains("1 extended attributes of other systems"), "{warnings}");
    // The value of the attribute has no sum.
    assert!(warnings.contains("1 checksums"), "{warnings}");
}

#[test]
fn xar_archives_that_are_not_what_they_say_are_refused() {
    let good = xar(&file("a", &content("")), b"content");
    open(&good).expect_whole();
    let with = |from: &str, to: &str| {
        let changed = file("a", &content("")).replace(from, to);
        assert_ne!(changed, file("a", &content("")));
        open(&xar(&changed, b"content"))
    };
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 1;
    open(&wrong).expect_problem(&["a", "checksum of a content"]);
    let sum_at = good.len() - 27;
    let mut wrong = good.clone();
    wrong[sum_at] ^= 1;
    open(&wrong).expect_error(&["checksum of its table of contents"]);
    with("<size>7", "<size>8").expect_problem(&["shorter than it says"]);
    with("<size>7", "<size>6").expect_problem(&["longer than it says"]);
    with("<length>7", "<length>8").expect_problem(&["beyond the end"]);
    with("<offset>20", &format!("<offset>{}", u64::MAX)).expect_problem(&["beyond the end"]);
    with("application/octet-stream", "application/x-rot13").expect_problem(&["rot13"]);
    with("application/octet-stream", "application/x-gzip").expect_problem(&["no zlib data"]);
    with("<type>file", "<type>tape").expect_problem(&["tape"]);
    with("<name>a", "<name>../a").expect_problem(&[".."]);
    with("<name>a", "<name>").expect_problem(&["no name"]);
    with("<offset>20", "<offset>x").expect_error(&["number"]);
    with("</data>", "</dat>").expect_error(&["XML"]);
    with("<type>file</type>", "<type link=\"9\">hardlink</type>").expect_problem(&["not there"]);
    open(&xar("<!DOCTYPE x [<!ENTITY a 'aaa'>]>", b"")).expect_error(&["document type"]);
    let mut long = good.clone();
    long[16] = 1;
    open(&long).expect_error(&["table of contents", "corrupt"]);
}

#[test]
fn contents_that_many_files_share_are_refused_as_a_bomb() {
    let claim = content("").replace("<size>7", &format!("<size>{}", 1u64 << 29));
    let table: String = (0..9).map(|n| file(&format!("f{n}"), &claim)).collect();
    let taken = open(&xar(&table, b"content"));
    let refused =
        taken.problems.iter().filter(|problem| problem.contains("far more than it stores"));
    assert_eq!(refused.count(), 6, "{:?}", taken.problems);
}

#[test]
fn directories_without_end_cost_no_more_than_their_bytes() {
    const DEPTH: usize = 200_000;
    let open_all = "<file><name>d</name><type>directory</type>".repeat(DEPTH);
    let table = open_all + &"</file>".repeat(DEPTH) + &file("kept", &content(""));
    let taken = open(&xar(&table, b"content"));
    assert_eq!(taken.error, None);
    assert_eq!(taken.problems.len(), DEPTH - 8192);
    assert!(taken.problems[0].contains("longer than 16384 bytes"), "{}", taken.problems[0]);
    assert_eq!(taken.entry("kept").content, b"content");
}

#[test]
fn any_byte_may_be_damaged() {
    let cabinets = [
        cabinet(0, &[(PLAIN.to_vec(), 26)], &FILES),
        cabinet(1, &[(mszip(PLAIN), 26)], &FILES),
        cabinet(15 << 8 | 3, &[(lzx(PLAIN), 26)], &FILES),
    ];
    let archive = xar(&file("a", &content("")), b"content");
    for bytes in cabinets.iter().chain([&archive]) {
        for at in 0..bytes.len() {
            for mask in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                // No panic, and no other content under a name that stayed.
                let taken = open(&damaged);
                if let Some(found) = taken.entries.get("a").filter(|_| bytes == &archive) {
                    assert_eq!(found.content, b"content", "byte {at}");
                }
            }
        }
    }
}
