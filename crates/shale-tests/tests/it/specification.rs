//! Promise: the specification is enough. A second reader, written from it alone, reads what the
//! product reads: pages of every codec, damaged pages, and whole images.

use shale_codec::{Codec, Decoder, Filter, lines_form};
use shale_table::{ColumnKind, Page};
use shale_tests::command::create;
use shale_tests::fuzz::SCHEMAS;
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tree};
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::second_reader::image::Image;
use shale_tests::second_reader::lines;
use shale_tests::second_reader::page::{self as second_page, Column};
use shale_tests::seeds;
use std::collections::BTreeSet;

/// What the product reads of a page: `None` if any of it is damaged.
fn product(page: &Page) -> Option<Vec<Column>> {
    let rows = page.row_count();
    let column = |(index, kind)| match kind {
        ColumnKind::U64 => {
            let mut values = Vec::new();
            page.u64_range(index, 0..rows, &mut values).ok()?;
            Some(Column::Integers(values))
        }
        ColumnKind::Bytes => {
            let mut values = Vec::new();
            page.scan_bytes(index, 0..rows, |_, value| {
                values.push(value.to_vec());
                true
            })
            .ok()?;
            Some(Column::Strings(values))
        }
    };
    page.schema().columns.iter().map(|spec| spec.kind).enumerate().map(column).collect()
}

fn both(seed: &[u8]) -> (Option<Vec<Column>>, Option<Vec<Column>>) {
    let schema = SCHEMAS[usize::from(seed[0]) % SCHEMAS.len()];
    let kinds: Vec<bool> = schema.columns.iter().map(|c| c.kind == ColumnKind::U64).collect();
    let first = Page::parse(seed[1..].to_vec(), schema).ok().and_then(|page| product(&page));
    (first, second_page::page(&seed[1..], &kinds))
}

#[test]
fn a_second_reader_reads_the_same() {
    let mut kinds_of_columns = BTreeSet::new();
    for (index, seed) in seeds::pages().iter().enumerate() {
        let (first, second) = both(seed);
        assert!(first.is_some(), "seed {index}");
        assert_eq!(first, second, "seed {index}");
        let schema = SCHEMAS[usize::from(seed[0]) % SCHEMAS.len()];
        let page = Page::parse(seed[1..].to_vec(), schema).unwrap();
        // "delta rising(..)" is the kind delta, and so on: how the page describes itself.
        for line in page.describe().to_string().lines() {
            for word in line.split(|c: char| !c.is_ascii_alphabetic()) {
                kinds_of_columns.insert(word.to_owned());
            }
        }
    }
    for kind in
        ["linear", "packed", "blocks", "runs", "dictionary", "delta", "plain", "front", "numbered"]
    {
        assert!(kinds_of_columns.contains(kind), "no seed uses {kind}: {kinds_of_columns:?}");
    }
}

#[test]
fn where_both_read_a_damaged_page_they_read_the_same() {
    let seeds = seeds::pages();
    let mut random = Random::new(9);
    let mut both_read = 0;
    for _ in 0..6000 {
        let mut seed = seeds[random.below(seeds.len() as u64) as usize].clone();
        let at = 1 + random.below(seed.len() as u64 - 1) as usize;
        seed[at] ^= 1 << random.below(8);
        // The product checks what it is asked for, the second reader all; so only answers count.
        if let (Some(first), Some(second)) = both(&seed) {
            both_read += 1;
            assert_eq!(first, second, "byte {at}");
        }
    }
    assert!(both_read > 500, "{both_read} pages are too few to tell");
}

#[test]
fn both_read_lines_alike_and_refuse_the_same_damage() {
    let mut random = Random::new(11);
    let (mut read, mut refused) = (0, 0);
    for seed in 0..40 {
        let plain = Random::new(seed).log(2000 + 50 * seed as usize);
        let form = lines_form(&plain).expect("a log has a lines form");
        assert_eq!(lines::undo(&form).as_ref(), Some(&plain));
        for _ in 0..500 {
            let mut form = form.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(form.len() as u64) as usize;
                form[at] ^= 1 << random.below(8);
            }
            let second = lines::undo(&form).filter(|second| second.len() >= form.len());
            let plain_len = second.as_ref().map_or(plain.len(), Vec::len);
            let mut stored = vec![form.len() as u8 & 0x7F | 0x80, (form.len() >> 7) as u8];
            stored.extend_from_slice(&form);
            let mut first = Vec::new();
            let ways = (Codec::Stored, Filter::Lines);
            let first = Decoder::new()
                .decode_filtered(ways, &[], &stored, plain_len, &mut first)
                .map(|()| first);
            match &second {
                Some(_) => read += 1,
                None => refused += 1,
            }
            let fault = first.as_ref().err().map(ToString::to_string);
            assert!(first.ok() == second, "read by one only: {fault:?}");
        }
    }
    assert!(read > 2000 && refused > 2000, "{read} read, {refused} refused");
}

#[test]
fn the_example_of_the_specification_is_a_golden_image() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/docs/format.md")).unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        // `00000010: 5a 5a …  ZZ…`, as xxd writes it.
        let Some((offset, rest)) = line.split_once(": ") else { continue };
        if offset.len() != 8 || u64::from_str_radix(offset, 16) != Ok(found.len() as u64) {
            continue;
        }
        let bytes = rest[..47].split_whitespace();
        found.extend(bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    let image = std::fs::read(format!("{root}/testdata/images/0.3-small.shale")).unwrap();
    assert!(found == image, "the example has {} bytes, the image {}", found.len(), image.len());
}

#[test]
fn a_second_reader_reads_whole_images() {
    assert_second_reader_reads(&["-6"]);
}

/// Packs a tree at these levels, and reads the images with the second reader.
pub fn assert_second_reader_reads(levels: &[&str]) {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut options = Options::for_other_programs(9);
    options.large_directory = 9000;
    make(&tree(options), &source, 9).unwrap();
    // Lines as columns, if lines are alike.
    let log = Random::new(5).log(700_000);
    std::fs::write(source.join("log"), log).unwrap();
    let expected = Manifest::of(&source).unwrap();
    for level in levels {
        let path = folder.path().join(format!("level{level}.shale"));
        create(&source, &path, &[level]);
        let bytes = std::fs::read(&path).unwrap();
        let image = Image::open(&bytes).expect("the second reader opens the image");
        let found = image.manifest().expect("the second reader reads the tree");
        expected.assert_equals(&found, level);
    }
}
