//! Streams of any encoder: each chunk that is found is rebuilt exactly, or there is none. Damaged
//! streams are refused without a panic.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;
use shale_deflate::{AFTER_LEN, Cut, InHand, Limits, Model, Task, analyze, parse, rebuild};

use crate::inputs::{noise, text};

/// A stream of zlib-rs, which no model knows in general.
fn foreign(input: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(input).expect("written to memory");
    encoder.finish().expect("written to memory")
}

/// Checks every chunk of a stream, if there are any. Returns the bytes that they cover.
fn check(stream: &[u8], limits: &Limits) -> usize {
    let Ok(found) = analyze(stream, None, limits) else { return 0 };
    assert!(found.stream_len <= stream.len());
    let mut end = 0;
    for chunk in &found.chunks {
        assert!(chunk.stream.start >= end && chunk.stream.end <= found.stream_len);
        end = chunk.stream.end;
        let task = chunk.task(found.model, &found.plain);
        let bytes = rebuild(found.model, &chunk.cut, &task, limits.chunk_probes_max);
        assert!(bytes.expect("rebuilt before") == stream[chunk.stream.clone()]);
    }
    found.chunks.iter().map(|chunk| chunk.stream.len()).sum()
}

#[test]
fn streams_of_a_foreign_encoder_are_rebuilt_exactly_or_not_at_all() {
    let limits = Limits { chunk_plain_min: 10_000, ..Limits::default() };
    for level in 0..=9 {
        for input in [text(70_000, 7), noise(40_000, 8), vec![b'a'; 5000], text(300, 9)] {
            let stream = foreign(&input, level);
            assert!(parse(&stream, input.len()).expect("a stream").plain == input);
            assert!(parse(&stream, input.len() - 1).is_err(), "more than allowed");
            check(&stream, &limits);
        }
    }
}

#[test]
fn a_bomb_is_given_up_at_the_limit() {
    let stream = foreign(&vec![0; 8 << 20], 9);
    let limits = Limits { plain_max: 1 << 20, ..Limits::default() };
    assert!(analyze(&stream, None, &limits).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_is_no_panic_and_no_wrong_chunk(
        seed in 1u64..1000,
        level in 1u32..10,
        at in 0usize..2000,
        mask in 1u8..255,
        cut in 0usize..4000,
    ) {
        let limits = Limits { plain_max: 1 << 20, ..Limits::default() };
        let mut stream = foreign(&text(6000, seed), level);
        check(&stream, &limits);
        let at = at % stream.len();
        stream[at] ^= mask;
        check(&stream, &limits);
        stream.truncate(cut);
        check(&stream, &limits);
    }

    #[test]
    fn any_cut_of_any_model_is_no_panic(
        seed in 1u64..1000,
        number in 0u64..1 << 24,
        before in 0u64..200_000,
        bits in any::<u8>(),
        bit_count in 0u8..9,
        len in 0u16..300,
        distance in any::<u16>(),
        plain_len in 1usize..5000,
        after_len in 0usize..=AFTER_LEN,
    ) {
        let encoder = 1 + number % 3;
        let Ok(model) = Model::from_number(number & !255 | encoder) else { return Ok(()) };
        let window_len = before.min(model.window_needed()) as usize;
        let bytes = text(window_len + plain_len + after_len, seed);
        let (window, rest) = bytes.split_at(window_len);
        let (plain, after) = rest.split_at(plain_len);
        let none_found = InHand { len: 2, distance: 0 };
        for in_hand in [None, Some(InHand { len, distance }), Some(none_found)] {
            let cut = Cut { before, bits: bits & 1, bit_count, in_hand };
            let task = Task { window, plain, after };
            if let Ok(bytes) = rebuild(model, &cut, &task, 1 << 22) {
                // At worst, each byte takes 15 bits, and each block its codes.
                prop_assert!(bytes.len() < 4 * plain_len + 100_000);
            }
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes, &Limits { plain_max: 1 << 20, ..Limits::default() });
    }
}
