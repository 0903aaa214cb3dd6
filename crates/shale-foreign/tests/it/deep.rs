//! Promise: depth costs no more than bytes of path, and no format is read in a circle.

use crate::common::{Taken, name};
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

/// A directory record of ISO 9660.
fn record(name: &[u8], sector: u32, len: u32, flags: u8) -> Vec<u8> {
    let mut record = vec![0; (33 + name.len()).next_multiple_of(2)];
    record[0] = record.len() as u8;
    record[2..6].copy_from_slice(&sector.to_le_bytes());
    record[10..14].copy_from_slice(&len.to_le_bytes());
    record[25] = flags;
    record[32] = name.len() as u8;
    record[33..33 + name.len()].copy_from_slice(name);
    record
}

/// An image whose root is in sector 18 and has these records besides its own.
fn iso(records: &[Vec<u8>]) -> Vec<u8> {
    let mut image = vec![0; 2048 * 20];
    for (sector, kind) in [(16, 1), (17, 255)] {
        let at = sector * 2048;
        image[at] = kind;
        image[at + 1..at + 7].copy_from_slice(b"CD001\x01");
    }
    image[16 * 2048 + 128..][..2].copy_from_slice(&2048u16.to_le_bytes());
    let root = record(&[0], 18, 2048, 2);
    image[16 * 2048 + 156..][..root.len()].copy_from_slice(&root);
    let all = [&[root, record(&[1], 18, 2048, 2)], records].concat().concat();
    image[18 * 2048..][..all.len()].copy_from_slice(&all);
    image[19 * 2048..].fill(b'c');
    image
}

#[test]
fn an_iso_image_made_byte_by_byte_comes() {
    let taken = open(&iso(&[record(b"A.TXT;1", 19, 7, 0), record(b"B.;1", 19, 7, 0)]));
    taken.expect_whole();
    assert_eq!(taken.entry("A.TXT").content, b"ccccccc");
    assert_eq!(taken.entry("A.TXT").link, taken.entry("B").link);
    // Two records of one file.
    let pieces = [record(b"L;1", 19, 2048, 0x80), record(b"L;1", 18, 2048, 0)];
    assert_eq!(open(&iso(&pieces)).expect_whole().entry("L").content.len(), 4096);
}

#[test]
fn a_resource_fork_is_not_left_out_without_a_word() {
    let taken = open(&iso(&[record(b"A", 19, 7, 4), record(b"A", 19, 7, 0)]));
    taken.expect_whole();
    assert_eq!(taken.paths(), ["", "A"]);
    assert!(taken.warnings.concat().contains("1 resource forks"), "{:?}", taken.warnings);
}

#[test]
fn a_circle_of_directories_is_refused() {
    open(&iso(&[record(b"D", 18, 2048, 2)])).expect_error(&["ISO 9660", "circle"]);
    // Two names of one directory.
    let twice = [record(b"D", 19, 0, 2), record(b"E", 19, 0, 2)];
    open(&iso(&twice)).expect_error(&["circle"]);
}

#[test]
fn overlapping_and_cut_files_of_an_iso_image_are_problems() {
    open(&iso(&[record(b"A", 19, 2000, 0), record(b"B", 19, 1000, 0)]))
        .expect_problem(&["overlap"]);
    open(&iso(&[record(b"A", 19, 2049, 0)])).expect_problem(&["A", "beyond the end"]);
    open(&iso(&[record(b"A", 19, u32::MAX, 2)])).expect_error(&["ISO 9660", "corrupt"]);
    open(&iso(&[record(b"..", 19, 1, 0)])).expect_problem(&["name"]);
    let mut slash = iso(&[record(b"a/b", 19, 1, 0)]);
    open(&slash).expect_problem(&["name"]);
    slash.truncate(17 * 2048);
    open(&slash).expect_error(&["ISO 9660"]);
}
