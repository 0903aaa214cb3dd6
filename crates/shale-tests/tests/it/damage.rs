//! Promise: damage is never data. Every byte of a small image is flipped and the image is cut at
//! every length: each read path gives an error or what the whole image gives.
//!
//! The matrix goes through the library, as ten thousand processes would take an hour; a sample of
//! it goes through the command.

use shale_tests::command::{create, shale};
use shale_tests::damage::{judge, matrix, truth};
use shale_tests::manifest::Manifest;
use shale_tests::model::{Item, make};
use shale_tests::nasty::{Options, tiny_tree, tree};
use shale_tests::random::Random;
use shale_tests::{image, places};

/// An image of a few KiB with every kind of inode.
fn small_image() -> Vec<u8> {
    let bytes = image_of(&tiny_tree(1));
    assert!(bytes.len() < 64 << 10, "{} bytes are too many to flip each", bytes.len());
    bytes
}

fn image_of(items: &[Item]) -> Vec<u8> {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(items, &source, 1).unwrap();
    let path = folder.path().join("image.shale");
    create(&source, &path, &[]);
    let bytes = std::fs::read(&path).unwrap();
    let expected = Manifest::of(&source).unwrap();
    expected.assert_equals(&image::manifest(&bytes).unwrap(), "the undamaged image");
    bytes
}

#[test]
fn every_flipped_byte_is_an_error_or_right_data() {
    let bytes = small_image();
    let truth = truth(&bytes);
    for mask in [0xff, 0x01, 0x80] {
        let opened = matrix(bytes.len(), |index| {
            let mut damaged = bytes.clone();
            damaged[index] ^= mask;
            judge(damaged, &truth).map_err(|what| format!("{what} (mask {mask:#x})"))
        });
        println!("{opened} of {} images opened", bytes.len());
        assert!(opened > bytes.len() / 3, "{opened} of {}", bytes.len());
    }
}

#[test]
fn a_larger_image_is_sampled() {
    assert_damage_is_found(8);
}

/// Flips a bit at each of this many places of an image of some megabytes.
pub fn assert_damage_is_found(count: usize) {
    // Tables of several pages with index pages, many frames, equal and similar contents.
    let mut options = Options::for_other_programs(6);
    options.large_directory = 6000;
    let bytes = image_of(&tree(options));
    let truth = truth(&bytes);
    // The tables come last; they are a small part of the bytes and most of what can go wrong.
    let mut random = Random::new(3);
    let tables = bytes.len() - 64 * 1024;
    let places: Vec<usize> = (0..count)
        .map(|index| match index % 4 {
            0 => random.below(tables as u64) as usize,
            _ => tables + random.below((bytes.len() - tables) as u64) as usize,
        })
        .collect();
    let opened = matrix(places.len(), |index| {
        let mut damaged = bytes.clone();
        damaged[places[index]] ^= 0x10;
        judge(damaged, &truth).map_err(|what| format!("{what} (byte {})", places[index]))
    });
    assert!(opened > places.len() / 2, "{opened} of {}", places.len());
}

#[test]
fn every_cut_is_an_error_or_right_data() {
    let bytes = small_image();
    let truth = truth(&bytes);
    matrix(bytes.len(), |len| judge(bytes[..len].to_vec(), &truth));
}

#[test]
fn swapped_and_overwritten_blocks_are_errors_or_right_data() {
    let bytes = small_image();
    let truth = truth(&bytes);
    let block = 64;
    let blocks = bytes.len() / block;
    matrix(blocks * 3, |case| {
        let (at, kind) = (case / 3 * block, case % 3);
        let other = (at + bytes.len() / 2 / block * block) % (blocks * block);
        let mut damaged = bytes.clone();
        match kind {
            0 => damaged[at..at + block].fill(0),
            1 => damaged[at..at + block].fill(0xff),
            _ => {
                let copy = bytes[other..other + block].to_vec();
                damaged[other..other + block].copy_from_slice(&bytes[at..at + block]);
                damaged[at..at + block].copy_from_slice(&copy);
            }
        }
        if damaged == bytes { Ok(true) } else { judge(damaged, &truth) }
    });
}

#[test]
fn the_command_reports_damage_and_never_lies() {
    let bytes = small_image();
    let folder = places::disk();
    let path = folder.path().join("damaged.shale");
    std::fs::write(&path, &bytes).unwrap();
    let reads = [vec!["ls"], vec!["tree"], vec!["cat", "d/text"], vec!["cat", "holes"]];
    let right: Vec<Vec<u8>> = reads
        .iter()
        .map(|words| {
            let mut command = shale([words[0].as_ref(), path.as_os_str()]);
            let output = command.args(&words[1..]).output().unwrap();
            assert!(output.status.success(), "{words:?}");
            output.stdout
        })
        .collect();
    // Some forty places, odd ones too, so that every structure is met.
    for at in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        for (words, right) in reads.iter().zip(&right) {
            let mut command = shale([words[0].as_ref(), path.as_os_str()]);
            let output = command.args(&words[1..]).output().unwrap();
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 1 | 3 | 4)), "byte {at}: {words:?} ends with {code:?}");
            if code == Some(0) {
                assert_eq!(&output.stdout, right, "byte {at}: {words:?} lies");
            } else {
                assert!(!output.stderr.is_empty(), "byte {at}: {words:?} fails without a word");
            }
        }
        let output = shale(["check".as_ref(), path.as_os_str()]).output().unwrap();
        assert!(!output.status.success(), "byte {at}: check finds nothing");
        let target = folder.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let mut command = shale(["extract".as_ref(), path.as_os_str(), "-C".as_ref()]);
        let output = command.arg(&target).output().unwrap();
        if output.status.success() {
            let found = Manifest::of(&target).unwrap();
            image::manifest(&bytes).unwrap().assert_equals(&found, &format!("byte {at}: extract"));
        }
        std::fs::remove_dir_all(&target).unwrap();
    }
}
