//! Every model writes what its encoder writes. The models are frozen: a vector that fails means
//! that images made before cannot be read.

use std::collections::HashMap;

use shale_deflate::{Cut, DeflateError, Limits, Model, Task, analyze, rebuild};

use crate::inputs::named;

const VECTORS: &str = include_str!("../models.txt");

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[test]
fn every_model_writes_what_its_encoder_wrote() {
    let mut inputs = HashMap::new();
    let mut count = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        let model = Model::from_number(
            number(0) | number(1) << 8 | number(2) << 12 | number(3) << 20 | number(4) << 16,
        )
        .expect("a model");
        let input = inputs.entry(fields[5]).or_insert_with(|| named(fields[5]));
        let task = Task { window: &[], plain: input, after: &[] };
        let stream = rebuild(model, &Cut::default(), &task, u64::MAX).expect("rebuilt");
        assert_eq!(stream.len() as u64, number(6), "{line}");
        assert_eq!(format!("{:08x}", crc32(&stream)), fields[7], "{line}");
        count += 1;
    }
    assert_eq!(count, 330);
}

#[test]
fn chunks_are_rebuilt_from_their_cuts() {
    let limits = Limits { chunk_plain_min: 40_000, ..Limits::default() };
    for (model, covered_min) in [
        (Model::zlib(6, 8), 100),
        (Model::zlib(9, 8), 100),
        (Model::zlib(4, 9), 100),
        (Model::zlib(9, 1), 100),
        (Model::gzip(6), 100),
        (Model::gzip(9), 100),
        (Model::chromium(6, 8), 100),
        (Model::chromium(9, 9), 100),
        // One chunk, as what the fast search had inserted is not known at a cut.
        (Model::zlib(1, 8), 100),
    ] {
        let input = named("mix");
        let task = Task { window: &[], plain: &input, after: &[] };
        let stream = rebuild(model, &Cut::default(), &task, u64::MAX).expect("rebuilt");
        let found = analyze(&stream, None, &limits);
        let found = match (model.memory_level, found) {
            // No candidate: nobody uses it.
            (1, Err(DeflateError::Unknown)) => continue,
            (_, found) => found.expect("a known encoder"),
        };
        let covered: usize = found.chunks.iter().map(|chunk| chunk.stream.len()).sum();
        assert!(covered * 100 >= stream.len() * covered_min, "{model:?}: {covered}");
        assert!(found.plain == input, "{model:?}");
        assert!(found.chunks.len() > 1 || model.level == 1, "{model:?}");
        for chunk in &found.chunks {
            let task = chunk.task(found.model, &found.plain);
            let bytes = rebuild(found.model, &chunk.cut, &task, 1 << 25).expect("rebuilt");
            assert!(bytes == stream[chunk.stream.clone()], "{model:?} {chunk:?}");
        }
    }
}

#[test]
fn probes_are_counted_and_limited() {
    let input = named("text");
    let task = Task { window: &[], plain: &input, after: &[] };
    let model = Model::zlib(9, 8);
    let error = rebuild(model, &Cut::default(), &task, 1000).unwrap_err();
    assert_eq!(error, DeflateError::TooManyProbes(1000));
    let limits = Limits { chunk_probes_max: 1000, ..Limits::default() };
    let stream = rebuild(model, &Cut::default(), &task, u64::MAX).unwrap();
    assert_eq!(analyze(&stream, None, &limits).unwrap_err(), DeflateError::Unknown);
}

#[test]
fn numbers_of_no_model_and_cuts_that_cannot_be_are_refused() {
    for number in [0, 4, 0xf_8604, 0xf_8001, 0xf_8a01, 0xf_0601, 0x8_8601, 0x5f_8601, 1 << 32] {
        assert!(Model::from_number(number).is_err(), "{number:#x}");
    }
    assert_eq!(Model::from_number(0xf_8601), Ok(Model::zlib(6, 8)));
    assert!(Model::from_number(0xf_9602).is_err(), "gzip has no memory level");
    let plain = named("short");
    let hand = |len, distance| Some(shale_deflate::InHand { len, distance });
    let cut = Cut { before: 100, bits: 1, bit_count: 1, in_hand: hand(4, 100) };
    let task = Task { window: &plain[..100], plain: &plain[100..], after: &[] };
    let model = Model::zlib(6, 8);
    assert!(rebuild(model, &cut, &task, u64::MAX).is_ok());
    for lie in [
        Cut { before: 99, ..cut },
        Cut { before: 101, ..cut },
        Cut { before: 1 << 40, ..cut },
        Cut { bits: 2, ..cut },
        Cut { bit_count: 8, ..cut },
        Cut { in_hand: hand(4, 101), ..cut },
        Cut { in_hand: hand(4, 0), ..cut },
        Cut { in_hand: hand(259, 1), ..cut },
        Cut { in_hand: hand(2, 1), ..cut },
    ] {
        assert_eq!(rebuild(model, &lie, &task, u64::MAX), Err(DeflateError::BadCut), "{lie:?}");
    }
    let no_end = Task { window: &plain[..100], plain: &plain[100..200], after: &plain[200..] };
    assert!(rebuild(model, &cut, &no_end, u64::MAX).is_err(), "no block ends there");
}
