//! Frames decoded in part: wherever decoding stops and goes on, the bytes are those of the whole
//! frame, none is decoded twice, and a bad end is noticed there.

use std::sync::Arc;

use shale_codec::{Codec, Decoder, Encoder, Filter, Partial, Prefix, Settings};

/// Text with some chance in it, and with calls of x86 and ARM in between.
fn plain(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        match next() % 8 {
            0 => bytes.extend_from_slice(&[0xE8, next() as u8, next() as u8, 0, 0]),
            1 => bytes.extend_from_slice(&[0xE9, 0xE8, 0xE9, 0xE8, next() as u8]),
            2 => bytes.extend_from_slice(&[next() as u8, 0, 0, 0xEB]),
            3 => bytes.extend_from_slice(&[next() as u8, 1, 0, 0x94]),
            _ => bytes.extend_from_slice(format!("line {} of it\n", next() % 3000).as_bytes()),
        }
    }
    bytes.truncate(len);
    bytes
}

fn encoded(settings: &str, filter: Filter, prefix: &[u8], plain: &[u8]) -> (Codec, Vec<u8>) {
    let settings: Settings = settings.parse().unwrap();
    let mut filtered = plain.to_vec();
    filter.apply(&mut filtered);
    let mut stored = Vec::new();
    Encoder::new(settings).unwrap().encode(prefix, &filtered, &mut stored).unwrap();
    stored.shrink_to_fit();
    (settings.codec, stored)
}

const FILTERS: [Filter; 4] = [Filter::None, Filter::BcjX86, Filter::BcjArm64, Filter::BcjArm];

#[test]
fn wherever_decoding_stops_the_bytes_are_those_of_the_whole() {
    let (len, before) = (400_001, plain(50_000, 9));
    let plain = plain(len, 7);
    for settings in ["zstd:1", "zstd:12", "lzma:1"] {
        for filter in FILTERS {
            let mut prefix = before.clone();
            filter.apply(&mut prefix);
            for prefix in [Vec::new(), prefix] {
                let (codec, stored) = encoded(settings, filter, &prefix, &plain);
                let ways = (codec, filter);
                for shared in [false, true] {
                    let prefix = match shared {
                        true => Prefix::Shared(Arc::new(prefix.clone())),
                        false => Prefix::Joined(prefix.clone()),
                    };
                    let mut partial = Partial::new(ways, prefix, stored.clone(), len).unwrap();
                    assert_eq!((partial.bytes().len(), partial.decoded_len()), (0, 0));
                    for wanted in [1, 4096, 131_072, 131_073, 100, 262_140, 399_999, len] {
                        let before_len = partial.decoded_len();
                        partial.advance(wanted).unwrap();
                        let bytes = partial.bytes();
                        assert!(bytes.len() >= wanted, "{settings} {filter} {wanted}");
                        assert_eq!(*bytes, plain[..bytes.len()], "{settings} {filter} {wanted}");
                        assert!(partial.decoded_len() >= before_len);
                        let step_len = Partial::step_len(codec, wanted, len).max(before_len);
                        // The filter may have no cut right there.
                        let more_len = if filter == Filter::None { 0 } else { 131_072 };
                        assert!(partial.decoded_len() <= step_len + more_len);
                        assert_eq!(partial.is_complete(), bytes.len() == len);
                    }
                    assert_eq!(partial.decoded_len(), len);
                    assert_eq!(partial.into_bytes(), plain);
                }
            }
        }
    }
}

#[test]
fn the_memory_said_is_at_least_the_memory_held() {
    let plain = plain(300_000, 3);
    for settings in ["zstd:3", "lzma:1"] {
        for filter in FILTERS {
            let (codec, stored) = encoded(settings, filter, &[], &plain);
            let ways = (codec, filter);
            let said = Partial::memory_len_max(ways, 0, stored.len(), plain.len());
            let mut partial =
                Partial::new(ways, Prefix::Joined(Vec::new()), stored, plain.len()).unwrap();
            partial.advance(plain.len()).unwrap();
            assert!(partial.memory_len() <= said, "{} held, {said} said", partial.memory_len());
        }
    }
}

/// Decodes in steps of about a third, and compares with decoding at once.
fn compare(ways: (Codec, Filter), prefix: &[u8], stored: &[u8], plain_len: usize) {
    let mut whole = Vec::new();
    let result = Decoder::new().decode_filtered(ways, prefix, stored, plain_len, &mut whole);
    let partial = Partial::new(ways, Prefix::Joined(prefix.to_vec()), stored.to_vec(), plain_len);
    let Ok(mut partial) = partial else { return };
    for wanted in [plain_len / 3, plain_len / 3 * 2, plain_len] {
        let before = partial.bytes().to_vec();
        let advanced = partial.advance(wanted);
        assert!(partial.bytes().starts_with(&before), "what was decoded stays");
        assert!(partial.bytes().len() <= plain_len);
        if result.is_ok() {
            assert!(whole.starts_with(partial.bytes()));
        }
        if advanced.is_err() {
            let _ = partial.advance(plain_len);
            assert!(!partial.is_complete());
            return;
        }
    }
    // Whatever is complete is what decoding at once gives.
    if partial.is_complete() {
        assert!(result.is_ok());
        assert_eq!(partial.into_bytes(), whole);
    }
}

#[test]
fn damage_ends_as_it_does_for_the_whole() {
    let before = plain(3000, 2);
    let plain = plain(140_000, 5);
    for settings in ["zstd:1", "lzma:1"] {
        for filter in [Filter::None, Filter::BcjX86] {
            let (codec, stored) = encoded(settings, filter, &before, &plain);
            let ways = (codec, filter);
            // The front, where headers are, and places all over.
            let places = (0..40).chain((40..stored.len()).step_by(stored.len() / 40));
            for place in places {
                for flip in [0x01, 0x80, 0xFF] {
                    let mut damaged = stored.clone();
                    damaged[place] ^= flip;
                    compare(ways, &before, &damaged, plain.len());
                }
                compare(ways, &before, &stored[..place], plain.len());
            }
            let mut longer = stored.clone();
            longer.extend_from_slice(&stored);
            for plain_len in [plain.len(), 2 * plain.len(), plain.len() - 1, plain.len() + 1, 1] {
                compare(ways, &before, &longer, plain_len);
                compare(ways, &before, &stored, plain_len);
            }
            // A prefix that is another one, or missing.
            compare(ways, &plain[..3000], &stored, plain.len());
            compare(ways, &[], &stored, plain.len());
        }
    }
}

#[test]
fn a_match_before_the_start_is_an_error() {
    // No flags, a window of 1 KiB, and a compressed block without literals whose first match
    // reaches one byte back, where nothing is.
    let block = [0x00, 0x01, 0x54, 0x00, 0x00, 0x00, 0x01];
    let header = (block.len() as u32) << 3 | 2 << 1 | 1;
    let mut stored = vec![0x00, 0x00];
    stored.extend_from_slice(&header.to_le_bytes()[..3]);
    stored.extend_from_slice(&block);
    compare((Codec::Zstd, Filter::None), &[], &stored, 3);
    compare((Codec::Zstd, Filter::None), &[], &stored, 1000);
}

#[test]
fn other_codecs_and_filters_are_decoded_whole() {
    for codec in [Codec::Stored, Codec::Lz4, Codec::Brotli] {
        assert!(!Partial::is_possible(codec, Filter::None));
    }
    for filter in Filter::ALL {
        let ways = (Codec::Zstd, filter);
        assert_eq!(Partial::is_possible(ways.0, ways.1), filter.is_in_place());
        let made = Partial::new(ways, Prefix::Joined(Vec::new()), vec![0; 20], 100);
        assert_eq!(made.is_ok(), filter.is_in_place());
    }
}
