//! Promise: an image that a released version wrote is read by every later one, for ever.
//!
//! Next to each image under `testdata/images` is the manifest of its newest tree. Images and
//! manifests are never edited; `make golden` only adds those that are missing. Together the images
//! use every codec, filter and way to store a column that the format has.

use shale::{CheckOptions, NoProgress, RepairOptions, check, repair};
use shale_codec::xxh3_64;
use shale_format::parity::PARITY_HEAD_LEN;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::{ParityHead, SectionType};
use shale_read::{MemorySource, SnapshotChoice};
use shale_tests::image;
use shale_tests::second_reader::image::Image;
use shale_tests::second_reader::page::Met;
use shale_tests::second_reader::thin::join;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Every golden image; tidy compares this list with the folder.
const IMAGES: [&str; 29] = [
    "0.1-tiny.shale",
    "0.1-metadata.shale",
    "0.1-contents.shale",
    "0.2-tiny.shale",
    "0.2-parity.shale",
    "0.3-tiny.shale",
    "0.3-parity.shale",
    "0.3-lines.shale",
    "0.3-names.shale",
    "0.3-lz4.shale",
    "0.3-lzma.shale",
    "0.3-brotli.shale",
    "0.3-small.shale",
    "0.3-filters.shale",
    "0.3-references.shale",
    "0.3-index.shale",
    "0.3-ignored.shale",
    "0.3-snapshots.shale",
    "0.3-parity-blocks.shale",
    "0.4-arrays.shale",
    "0.4-streams.shale",
    "0.4-samples.shale",
    "0.4-bases.shale",
    "0.4-prefixes.shale",
    "0.4-parity-extended.shale",
    "0.4-patches.shale",
    "0.4-roots.shale",
    "0.4-named-roots.shale",
    "0.4-tiny.shale",
];

/// Of the tree of both images of 0.2.
const IDENTITY: &str = "f8ac9382b58aa8db0452df67764359f40055b19916dab846b70a1b930f55eebc";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images")
}

#[test]
fn golden_images_hold_what_they_held() {
    for name in IMAGES {
        let bytes = fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let manifest = folder().join(name.replace(".shale", ".manifest"));
        let expected = fs::read_to_string(manifest).unwrap();
        let found = image::manifest(&bytes).unwrap().to_string();
        for (line, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
            assert_eq!(found, expected, "{name}, line {}", line + 1);
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{name}: entries");
        let source = Arc::new(MemorySource::new(bytes));
        let report = check(source, &CheckOptions::default(), &NoProgress).unwrap();
        assert!(report.is_clean(), "{name}: {:?}", report.problems);
    }
}

#[test]
fn a_second_reader_reads_every_golden_image() {
    for name in IMAGES {
        let bytes = fs::read(folder().join(name)).unwrap();
        let image = Image::open(&bytes).unwrap_or_else(|| panic!("{name} is not opened"));
        let manifest = folder().join(name.replace(".shale", ".manifest"));
        let expected = fs::read_to_string(manifest).unwrap();
        let found = image.manifest().unwrap_or_else(|| panic!("{name} is not read")).to_string();
        assert!(found == expected, "{name} is read as something else");
    }
}

/// A golden thin image, its base, and the identity of both together.
const THIN: (&str, &str) = ("0.4-over-tiny.thin", "0.3-tiny.shale");

#[test]
fn a_golden_thin_image_holds_what_it_held_for_both_readers() {
    let read = |name: &str| fs::read(folder().join(name)).unwrap();
    let manifest = folder().join(THIN.0.replace(".thin", ".manifest"));
    let expected = fs::read_to_string(manifest).unwrap();
    let image = shale_read::Image::open_path(folder().join(THIN.0)).unwrap();
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    assert!(image::manifest_of(&tree).unwrap().to_string() == expected);
    let (thin, base) = (read(THIN.0), read(THIN.1));
    let whole = join(&thin, &base).expect("the second reader joins it with its base");
    let found = Image::open(&whole).unwrap().manifest().unwrap().to_string();
    assert!(found == expected, "the second reader reads something else");
    let mut stored = vec![0; image.len() as usize];
    image.read_stored(0, &mut stored).unwrap();
    assert!(whole == stored, "both readers join other bytes");
    assert!(join(&thin, &read("0.3-names.shale")).is_none(), "another image is its base");
    assert!(Image::open(&thin).is_none(), "a thin image is read without its base");
    // The name and the manifest of the base are those of the tree below.
    let first = image.tree(&SnapshotChoice::Index(0)).unwrap();
    let tiny = fs::read_to_string(folder().join("0.3-tiny.manifest")).unwrap();
    assert!(image::manifest_of(&first).unwrap().to_string() == tiny);
}

#[test]
fn golden_images_use_everything_that_the_format_has() {
    let mut met = Met::new();
    for name in IMAGES {
        let bytes = fs::read(folder().join(name)).unwrap();
        met.extend(Image::open(&bytes).unwrap().met());
    }
    let all = |kind, numbers: &mut dyn Iterator<Item = u64>| {
        let missing: Vec<u64> = numbers.filter(|&number| !met.contains(&(kind, number))).collect();
        assert!(missing.is_empty(), "no golden image has a {kind} with one of {missing:?}");
    };
    all("codec", &mut (0..=4));
    all("filter", &mut (0..=6));
    all("depth", &mut (0..=8));
    all("encoder", &mut (1..=3));
    all("chunk depth", &mut (1..=3));
    all("page codec", &mut (0..=4));
    // Tables that are empty, that have one page, and with one level or more of index pages.
    all("levels", &mut [0, 1, 3, 4].into_iter());
    // Roots that need no other, and one that needs four.
    all("roots", &mut [1, 5].into_iter());
    // Patches of every form, with every list of rows, and with rows that come and go.
    all("form of patch", &mut (0..=4));
    all("rows of patch", &mut (0..=2));
    all("segments of patch", &mut [1].into_iter());
    // Without bases, and with them.
    all("index columns", &mut [8, 11].into_iter());
    all("snapshots", &mut (1..=3));
    // The form of numbers that has no digits, and the three others.
    all("form", &mut [0, 3, 20, 38].into_iter());
    // 0x80 stands for all small constants.
    all("integers", &mut (0x10..=0x16).chain([1, 2, 4, 8, 0x80]));
    all("strings", &mut (0x20..=0x24));
}

#[test]
fn both_golden_snapshots_are_read() {
    let bytes = fs::read(folder().join("0.3-snapshots.shale")).unwrap();
    let image = image::open(&bytes).unwrap();
    assert_eq!(image.snapshots().len(), 2);
    for (choice, manifest) in [
        (SnapshotChoice::Index(0), "0.3-tiny.manifest"),
        (SnapshotChoice::Name(b"second".to_vec()), "0.3-snapshots.manifest"),
    ] {
        let found = image::manifest_of(&image.tree(&choice).unwrap()).unwrap().to_string();
        assert!(found == fs::read_to_string(folder().join(manifest)).unwrap(), "{manifest}");
    }
    // An interrupted append leaves the earlier state.
    let second = image.trailer().previous_trailer_offset as usize + 128;
    for cut in [second, second + 1, second + SECTION_HEADER_LEN, bytes.len() - 1] {
        let image = image::open(&bytes[..cut]).unwrap();
        assert_eq!(image.snapshots().len(), 1, "cut at {cut}");
    }
}

#[test]
fn golden_parity_restores_and_golden_identities_stay() {
    let path = folder().join("0.2-parity.shale");
    let whole = fs::read(&path).unwrap();
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("damaged"), place.path().join("repaired"));
    let mut damaged = whole.clone();
    damaged[..3000].fill(0);
    fs::write(&from, damaged).unwrap();
    repair(&from, &to, &RepairOptions::default(), &NoProgress).unwrap();
    assert!(fs::read(&to).unwrap() == whole, "a repaired image is not what was written");
    // The identity is the same with parity and without, and is what it was.
    for name in ["0.2-parity.shale", "0.2-tiny.shale"] {
        let bytes = fs::read(folder().join(name)).unwrap();
        let identity = image::open(&bytes).unwrap().identity().unwrap().unwrap().1;
        assert_eq!(identity.to_string(), IDENTITY, "{name}");
    }
}

#[test]
fn golden_parity_of_several_blocks_restores() {
    const LEAF: usize = 65_536;
    let whole = fs::read(folder().join("0.3-parity-blocks.shale")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("damaged"), place.path().join("repaired"));
    // Any two of the three leaves; the last one is short.
    for lost in [[0, 1], [0, 2], [1, 2]] {
        let mut damaged = whole.clone();
        for leaf in lost {
            damaged[leaf * LEAF + 100..][..5000].fill(0xff);
        }
        fs::write(&from, damaged).unwrap();
        let _ = fs::remove_file(&to);
        repair(&from, &to, &RepairOptions::default(), &NoProgress).unwrap();
        assert!(fs::read(&to).unwrap() == whole, "leaves {lost:?} come back as something else");
    }
}

#[test]
fn golden_parity_that_an_append_extended_restores() {
    const LEAF: usize = 65_536;
    let whole = fs::read(folder().join("0.4-parity-extended.shale")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("damaged"), place.path().join("repaired"));
    let opened = image::open(&whole).unwrap();
    let sections = opened.sections().map(Result::unwrap);
    let parities: Vec<_> =
        sections.filter(|it| it.section_type == SectionType::Parity as u16).collect();
    let [first, second] = &parities[..] else { panic!("{parities:?}") };
    let head = &whole[second.payload_offset() as usize..][..PARITY_HEAD_LEN];
    let (head, ..) = ParityHead::decode(head, xxh3_64).unwrap();
    assert_eq!(head.previous_offset(), Some(first.offset));
    let (begin, end) = (first.offset as usize, whole.len());
    // One leaf that each section protects: alone, both, and the one in which the first one begins.
    // In the last case two leaves of the second one are damaged. The first one restores what is
    // before it, and is written again, with its trailer.
    let places: [&[usize]; 6] = [
        &[100],
        &[begin + 10],
        &[LEAF + 5, begin + LEAF],
        &[begin - 10, begin - 5],
        &[begin - 10, end - 70],
        &[begin - 10, second.offset as usize - 200],
    ];
    for places in places {
        let mut damaged = whole.clone();
        places.iter().for_each(|&at| damaged[at] ^= 0x81);
        fs::write(&from, damaged).unwrap();
        let _ = fs::remove_file(&to);
        repair(&from, &to, &RepairOptions::default(), &NoProgress).unwrap();
        assert!(fs::read(&to).unwrap() == whole, "damage at {places:?} comes back otherwise");
    }
    // Beyond what both can do: two leaves of the first one.
    let mut damaged = whole.clone();
    [10, LEAF + 10].iter().for_each(|&at| damaged[at] ^= 0x81);
    fs::write(&from, damaged).unwrap();
    let _ = fs::remove_file(&to);
    assert!(repair(&from, &to, &RepairOptions::default(), &NoProgress).is_err());
    assert!(!to.exists());
}

#[test]
fn every_golden_image_is_in_the_list() {
    let mut found: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".shale"))
        .collect();
    found.sort();
    let mut listed = IMAGES.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed);
}
