//! Bodies of the fuzz targets: what must hold for *any* bytes. The fuzzer and the smoke test on
//! stable call the same functions.
//!
//! A body returns nothing: it panics, runs out of time or takes too much memory, or all is well.

mod append; // an image that grows
mod build; // a tree built and read back
mod copies; // images merged
mod thin; // images in several files
mod streams; // files taken apart, chunks rebuilt
mod trust; // identity, parity, signatures, check, damage

pub use append::append_index;
pub use build::build_then_read;
pub use copies::merge_images;
pub use streams::{chunk_rebuild, deflate_stream, take_apart};
pub use thin::{thin, thin_seeds};
pub use trust::{check_image, damage_then_read, identity, parity, signature};

use crate::walk::{self, small_options};
use shale_codec::{Codec, Decoder, Filter, Partial, Prefix, xxh3_64};
use shale_format::schema;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_read::MemorySource;
use shale_source::manifest::{self, Detail, Given};
use shale_table::{ColumnKind, Page, Patched, Schema};
use std::sync::Arc;

/// Schemas of pages by the first byte of an input of [`table_page`].
pub const SCHEMAS: [&Schema; 6] = [
    &schema::inodes::SCHEMA,
    &schema::entries::SCHEMA,
    &schema::extents::SCHEMA,
    &schema::frames::SCHEMA,
    &schema::xattr_items::SCHEMA,
    &shale_table::INDEX_SCHEMA,
];

/// Opens the bytes as an image and asks for everything. A damaged sum would end every search at
/// the first byte, so the sums of superblock and sections are made right first.
pub fn open_and_walk(bytes: &[u8]) {
    let mut image = bytes.to_vec();
    mend_sums(&mut image);
    let source = Arc::new(MemorySource::new(image));
    if let Ok(facts) = walk::facts(source.clone(), walk::small_options()) {
        // Asked again, the same reader says the same: nothing is left behind by errors.
        let again = walk::facts(source, walk::small_options());
        assert!(again.is_ok_and(|again| again.answers == facts.answers));
    }
}

/// Parses the bytes after the first as a page of the schema that the first byte chooses, and
/// reads all of it in every way.
pub fn table_page(bytes: &[u8]) {
    let Some((first, plain)) = bytes.split_first() else { return };
    let schema = SCHEMAS[usize::from(*first) % SCHEMAS.len()];
    let Ok(page) = Page::parse(plain.to_vec(), schema) else { return };
    let rows = page.row_count();
    assert!(rows > 0 && page.memory_len() >= plain.len());
    for (column, spec) in schema.columns.iter().enumerate() {
        match spec.kind {
            ColumnKind::U64 => read_integers(&page, column, rows),
            ColumnKind::Bytes => read_strings(&page, column, rows),
        }
    }
}

/// Takes the bytes as the input of [`table_page`], after the two bytes of its length, and a patch.
/// Applies the patch, and reads the result in every way.
pub fn page_patch(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let Some((page, patch)) = rest.split_at_checked(u16::from_le_bytes(*len).into()) else {
        return;
    };
    let Some((schema, plain)) = page.split_first() else { return };
    let Ok(mut patched) = Patched::new(plain.to_vec()) else { return };
    if patched.apply(patch).is_err() {
        return;
    }
    if let Ok(plain) = patched.into_plain() {
        table_page(&[&[*schema], &plain[..]].concat());
    }
}

/// Takes each line of the bytes apart as a line of a manifest, as an entry and as an attribute.
pub fn manifest_lines(bytes: &[u8]) {
    let mut given = Given::default();
    let mut path = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = manifest::parse_xattr(line);
        let Ok((detail, _)) = manifest::parse(line, &mut given, &mut path) else { continue };
        assert!(given.permissions <= 0o7777 && given.mtime.nsec < 1_000_000_000);
        assert!(path.len() <= manifest::PATH_LEN_MAX && !path.contains(&0));
        let mut names = path.split(|&byte| byte == b'/');
        let is_name =
            |name: &[u8]| (1..=255).contains(&name.len()) && name != b"." && name != b"..";
        assert!(path.is_empty() || names.all(is_name), "{}", path.escape_ascii());
        if let Detail::Symlink(target) = detail {
            assert!(!target.is_empty() && !target.contains(&0));
        }
    }
}

fn read_integers(page: &Page, column: usize, rows: usize) {
    let mut all = Vec::new();
    let bulk = page.u64_range(column, 0..rows, &mut all);
    for row in (0..rows).step_by(rows / 200 + 1) {
        let one = page.u64(column, row);
        // In bulk and one by one: the same number, or an error somewhere.
        if let (Ok(()), Ok(one)) = (&bulk, one) {
            assert_eq!(all.get(row), Some(&one), "column {column} row {row}");
        }
    }
    assert!(page.u64(column, rows).is_err());
    for value in [0, 1, u64::MAX, all.get(rows / 2).copied().unwrap_or(7)] {
        if let Ok(at) = page.search_u64(column, 0..rows, value) {
            assert!(at <= rows);
        }
    }
}

fn read_strings(page: &Page, column: usize, rows: usize) {
    let mut scanned: Vec<Vec<u8>> = Vec::new();
    let mut total = 0;
    let scan = page.scan_bytes(column, 0..rows, |_, value| {
        total += value.len();
        scanned.push(value.to_vec());
        // A few bytes of page can claim a long string for each of many rows.
        total < 8 << 20
    });
    let mut one = Vec::new();
    for row in (0..rows).step_by(rows / 50 + 1) {
        let single = page.bytes_into(column, row, &mut one);
        if let (Ok(()), Ok(()), Some(many)) = (&scan, single, scanned.get(row)) {
            assert_eq!(many, &one, "column {column} row {row}");
        }
    }
    for key in [b"".as_slice(), b"name", &one] {
        if let Ok(Ok(at) | Err(at)) = page.search_bytes(column, 0..rows, key) {
            assert!(at <= rows);
        }
    }
}

/// Decodes the bytes as a frame of any codec and filter, with a prefix; the first bytes choose both
/// and lengths.
pub fn frame_decode(bytes: &[u8]) {
    let [ways, prefix_len, low, high, rest @ ..] = bytes else { return };
    let Some(codec) = Codec::from_id(ways % 8) else { return };
    let Some(filter) = Filter::from_id(ways / 8 % 8) else { return };
    let (prefix, stored) = rest.split_at(usize::from(*prefix_len).min(rest.len()));
    let plain_len = usize::from(u16::from_le_bytes([*low, *high]));
    let mut out = vec![7; 3];
    let whole =
        Decoder::new().decode_filtered((codec, filter), prefix, stored, plain_len, &mut out);
    match whole {
        Ok(()) => assert_eq!(out.len(), plain_len + 3, "exactly the length asked for"),
        Err(_) => assert!(out.len() <= plain_len + 3),
    }
    assert_eq!(out.get(..3), Some([7; 3].as_slice()), "what was there before stays");
    let joined = Prefix::Joined(prefix.to_vec());
    let Ok(mut partial) = Partial::new((codec, filter), joined, stored.to_vec(), plain_len) else {
        return;
    };
    for len in [1, plain_len / 2, plain_len] {
        let before = partial.bytes().to_vec();
        let is_over = partial.advance(len).is_err();
        assert!(partial.bytes().starts_with(&before), "what was decoded stays");
        assert!(
            partial.bytes().len() <= plain_len && partial.bytes().len() <= partial.decoded_len()
        );
        if whole.is_ok() {
            assert!(out[3..].starts_with(partial.bytes()), "the front is that of the whole");
        }
        if is_over {
            return;
        }
    }
    assert!(whole.is_ok() || !partial.is_complete(), "what is complete decodes at once, too");
}

/// Makes the sums of superblock, section headers and payloads right, as far as sections can be
/// walked, so that a search gets behind them.
pub fn mend_sums(image: &mut [u8]) {
    if image.len() < SUPERBLOCK_LEN {
        return;
    }
    set_sum(image, 0, SUPERBLOCK_LEN - 8, SUPERBLOCK_LEN - 8);
    let mut at = SUPERBLOCK_LEN;
    for _ in 0..64 {
        let Some(header) = image.get(at..at + SECTION_HEADER_LEN) else { return };
        let stored_len = header[24..32].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let payload = at + SECTION_HEADER_LEN;
        let end = usize::try_from(stored_len).ok().and_then(|len| payload.checked_add(len));
        let Some(end) = end.filter(|end| *end <= image.len()) else { return };
        set_sum(image, payload, end - payload, at + 48);
        set_sum(image, at, SECTION_HEADER_LEN - 8, at + SECTION_HEADER_LEN - 8);
        at = end;
    }
}

fn set_sum(image: &mut [u8], start: usize, len: usize, place: usize) {
    let sum = xxh3_64(&image[start..start + len]).to_le_bytes();
    image[place..place + 8].copy_from_slice(&sum);
}
