//! What goes in comes out: every codec at cheap and dear levels, with prefixes and without, on
//! inputs of all kinds and awkward lengths; and the same bytes come out of an encoder whatever
//! it did before.

use proptest::prelude::*;
use shale_codec::{Codec, CodecError, Decoder, Encoder, Filter, Settings};

/// Settings that take every path through the codecs.
const SETTINGS: &[&str] = &[
    "stored",
    "zstd:1",
    "zstd:3",
    "zstd:5",
    "zstd:7",
    "zstd:8",
    "zstd:9",
    "zstd:12",
    "zstd:13",
    "zstd:16",
    "zstd:18",
    "zstd:19",
    "zstd:22",
    "zstd:19,strategy=btultra,searchlog=3,minmatch=4,targetlen=64",
    "zstd:9,window=10,hashlog=6,chainlog=6,searchlog=1,minmatch=7,targetlen=131072",
    "zstd:1,window=12,minmatch=3,strategy=btultra2",
    "lz4",
    "lz4:hc=2",
    "lz4:hc=9",
    "lz4:hc=12",
    "lzma:0",
    "lzma:6",
    "lzma:9e,lc=4,pb=0",
    "lzma:3,lc=0,lp=2,pb=3,nice=32",
    #[cfg(feature = "brotli-encoder")]
    "brotli:0",
    #[cfg(feature = "brotli-encoder")]
    "brotli:5",
    #[cfg(feature = "brotli-encoder")]
    "brotli:9",
    #[cfg(feature = "brotli-encoder")]
    "brotli:11",
];

fn settings(text: &str) -> Settings {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn encode(encoder: &mut Encoder, prefix: &[u8], plain: &[u8]) -> Vec<u8> {
    // What is already in the vector must stay.
    let mut out = b"before".to_vec();
    encoder.encode(prefix, plain, &mut out).unwrap_or_else(|error| {
        panic!("{}: {error}", encoder.settings());
    });
    assert!(out.starts_with(b"before"));
    out.split_off(6)
}

fn round_trip(encoder: &mut Encoder, decoder: &mut Decoder, prefix: &[u8], plain: &[u8]) -> usize {
    let codec = encoder.settings().codec;
    let stored = encode(encoder, prefix, plain);
    let mut out = b"before".to_vec();
    let result = decoder.decode(codec, prefix, &stored, plain.len(), &mut out);
    let name = encoder.settings();
    assert_eq!(result, Ok(()), "{name}, prefix {}, plain {}", prefix.len(), plain.len());
    assert!(out.starts_with(b"before"));
    assert!(out[6..] == *plain, "{name}, prefix {}, plain {}", prefix.len(), plain.len());
    stored.len()
}

/// Bytes without any pattern, the same for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Bytes with repetitions near and far, of about the compressibility of text.
fn prose(seed: u64, len: usize) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..200)
        .map(|index| {
            let len = 2 + (index % 9) as usize;
            noise(index, len).iter().map(|byte| b'a' + byte % 26).collect()
        })
        .collect();
    let mut out = Vec::new();
    for byte in noise(seed, len) {
        out.extend_from_slice(&words[usize::from(byte) % words.len()]);
        out.push(b' ');
        if out.len() >= len {
            break;
        }
    }
    out.truncate(len);
    out
}

#[test]
fn awkward_lengths_come_back_with_prefixes_of_awkward_lengths() {
    assert_lengths_come_back(&[0, 1, 9, 65, 4097, 65_537], &[0, 7, 70_000]);
}

/// Encodes and decodes text and noise of these lengths, after prefixes of these lengths.
fn assert_lengths_come_back(lens: &[usize], prefix_lens: &[usize]) {
    let mut decoder = Decoder::new();
    for &text in SETTINGS {
        let mut encoder = Encoder::new(settings(text)).unwrap();
        let (plain, prefix) = (prose(1, 65_537), prose(2, 70_000));
        let random = noise(3, 4097);
        for &prefix_len in prefix_lens {
            let prefix = &prefix[..prefix_len];
            for &len in lens {
                round_trip(&mut encoder, &mut decoder, prefix, &plain[..len]);
                if len < random.len() {
                    round_trip(&mut encoder, &mut decoder, prefix, &random[..len]);
                }
            }
            round_trip(&mut encoder, &mut decoder, prefix, &vec![0; 100_000]);
        }
    }
}

#[test]
fn bytes_that_stand_in_the_prefix_cost_next_to_nothing() {
    let mut decoder = Decoder::new();
    for &text in SETTINGS {
        let mut encoder = Encoder::new(settings(text)).unwrap();
        let plain = noise(5, 50_000);
        let mut prefix = noise(6, 10_000);
        prefix.extend_from_slice(&plain);
        let len = round_trip(&mut encoder, &mut decoder, &prefix, &plain);
        match text {
            "stored" => assert_eq!(len, plain.len()),
            // The fastest brotli does not search prefixes.
            "brotli:0" => assert!(len > plain.len()),
            // A window too small to reach back there.
            _ if text.contains("window=") => assert!(len > plain.len()),
            _ => assert!(len < plain.len() / 50, "{text}: {len}"),
        }
    }
}

#[test]
fn a_prefix_far_longer_than_the_level_s_window_is_used_to_its_start() {
    let mut decoder = Decoder::new();
    let plain = noise(7, 40_000);
    let mut prefix = plain.clone();
    // More than the window of every level here, and than 24 bits of brotli.
    prefix.resize(prefix.len() + (17 << 20), 0);
    for text in [
        "zstd:2",
        "zstd:3",
        "zstd:9",
        "lzma:0",
        #[cfg(feature = "brotli-encoder")]
        "brotli:3",
    ] {
        let mut encoder = Encoder::new(settings(text)).unwrap();
        let len = round_trip(&mut encoder, &mut decoder, &prefix, &plain);
        assert!(len < plain.len() / 10, "{text}: {len}");
    }
}

#[test]
fn a_prefix_longer_than_the_codec_can_use_is_cut_alike_on_both_sides() {
    let mut decoder = Decoder::new();
    let prefix = prose(9, 300_000);
    let cut = &prefix[prefix.len() - Codec::Lz4.prefix_len_max()..];
    let plain = prose(10, 30_000);
    for text in ["lz4", "lz4:hc=9"] {
        let mut encoder = Encoder::new(settings(text)).unwrap();
        round_trip(&mut encoder, &mut decoder, &prefix, &plain);
        assert_eq!(encode(&mut encoder, &prefix, &plain), encode(&mut encoder, cut, &plain));
    }
}

#[test]
fn a_prefix_that_looks_like_a_zstd_dictionary_is_raw_content_all_the_same() {
    let mut prefix = 0xEC30_A437u32.to_le_bytes().to_vec();
    prefix.extend(prose(11, 5000));
    let mut encoder = Encoder::new(settings("zstd:19")).unwrap();
    round_trip(&mut encoder, &mut Decoder::new(), &prefix, &prefix.clone());
}

#[test]
fn an_encoder_s_past_does_not_show_in_its_output() {
    assert_past_does_not_show(&[[2, 4, 4, 0, 1]]);
}

/// Encodes five inputs in these orders with one encoder, and each with an encoder of its own.
fn assert_past_does_not_show(orders: &[[usize; 5]]) {
    let inputs = [
        (Vec::new(), prose(20, 200_000)),
        (prose(21, 100_000), prose(22, 50_000)),
        (noise(23, 9_000), noise(24, 70_000)),
        (prose(25, 40), vec![7; 300_000]),
        (prose(26, 400_000), prose(27, 130_000)),
    ];
    for &text in SETTINGS {
        let fresh: Vec<_> = inputs
            .iter()
            .map(|(prefix, plain)| {
                encode(&mut Encoder::new(settings(text)).unwrap(), prefix, plain)
            })
            .collect();
        let mut encoder = Encoder::new(settings(text)).unwrap();
        for order in orders {
            for &index in order {
                let (prefix, plain) = &inputs[index];
                assert!(encode(&mut encoder, prefix, plain) == fresh[index], "{text}, {index}");
            }
        }
    }
}

#[test]
fn where_the_slices_lie_does_not_show_in_the_output() {
    // One buffer, so that the prefix ends where the frame starts, against two.
    let joined = prose(30, 150_000);
    let (prefix, plain) = joined.split_at(50_000);
    let (prefix_apart, plain_apart) = (prefix.to_vec(), plain.to_vec());
    for &text in SETTINGS {
        let mut encoder = Encoder::new(settings(text)).unwrap();
        let together = encode(&mut encoder, prefix, plain);
        let apart = encode(&mut encoder, &prefix_apart, &plain_apart);
        assert!(together == apart, "{text}");
    }
}

#[test]
fn encoders_and_decoders_work_on_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<Decoder>();
    let plain = prose(31, 30_000);
    for &text in SETTINGS {
        let mut encoder = Encoder::new(settings(text)).unwrap();
        let here = encode(&mut encoder, b"some prefix", &plain);
        let there = std::thread::scope(|scope| {
            scope.spawn(|| encode(&mut encoder, b"some prefix", &plain)).join().unwrap()
        });
        assert!(here == there, "{text}");
    }
}

#[test]
fn a_frame_too_long_for_the_libraries_is_refused() {
    // Not read, so the zero pages cost nothing.
    let plain = vec![0; (512 << 20) + 1];
    for text in [
        "zstd:1",
        "lz4",
        "lzma:0",
        #[cfg(feature = "brotli-encoder")]
        "brotli:0",
    ] {
        let mut out = b"before".to_vec();
        let result = Encoder::new(settings(text)).unwrap().encode(&[], &plain, &mut out);
        assert!(matches!(result, Err(CodecError::TooLong { .. })), "{text}: {result:?}");
        assert_eq!(out, b"before");
    }
    let result = Decoder::new().decode(Codec::Zstd, &[], &[], usize::MAX, &mut Vec::new());
    assert!(matches!(result, Err(CodecError::TooLong { .. })), "{result:?}");
}

/// Bytes whose failures are reported by length: no one reads twenty thousand numbers.
struct Bytes(Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} bytes, xxh3 {:016x}", self.0.len(), shale_codec::xxh3_64(&self.0))
    }
}

/// Bytes of mixed kinds: random, repeated, and copies of what came before.
fn bytes(len_max: usize) -> impl Strategy<Value = Bytes> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        (any::<u8>(), 0..2000usize).prop_map(|(byte, len)| vec![byte; len]),
        (any::<u64>(), 0..3000usize).prop_map(|(seed, len)| prose(seed % 7, len)),
    ];
    proptest::collection::vec((piece, any::<bool>()), 0..12).prop_map(move |pieces| {
        let mut out: Vec<u8> = Vec::new();
        for (piece, is_copied) in pieces {
            if is_copied {
                out.extend_from_within(..out.len().min(piece.len()));
            }
            out.extend(piece);
        }
        out.truncate(len_max);
        Bytes(out)
    })
}

proptest! {
    // A failing case is tens of kilobytes long; shrinking one takes long and says little.
    #![proptest_config(ProptestConfig {
        cases: 40,
        max_shrink_iters: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_come_back_from_every_codec(prefix in bytes(20_000), plain in bytes(20_000)) {
        let (Bytes(prefix), Bytes(plain)) = (prefix, plain);
        let mut decoder = Decoder::new();
        for &text in SETTINGS {
            let mut encoder = Encoder::new(settings(text)).unwrap();
            round_trip(&mut encoder, &mut decoder, &prefix, &plain);
            round_trip(&mut encoder, &mut decoder, &[], &plain);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_come_back_from_every_filter(
        plain in proptest::collection::vec(any::<u8>(), 0..600)
    ) {
        for filter in Filter::ALL {
            let mut bytes = plain.clone();
            filter.apply(&mut bytes);
            filter.reverse(&mut bytes);
            prop_assert_eq!(&bytes, &plain);
            // And the other way about, for what it is worth: each is the other's inverse.
            filter.reverse(&mut bytes);
            filter.apply(&mut bytes);
            prop_assert_eq!(&bytes, &plain);
        }
    }

    #[test]
    fn bytes_full_of_opcodes_come_back_from_every_filter(
        plain in proptest::collection::vec(
            prop::sample::select(vec![
                0xE8, 0xE9, 0x0F, 0x80, 0x8F, 0, 0xFF, 1, 0xFE, 0x94, 0x90, 0xEB,
            ]),
            0..300,
        )
    ) {
        for filter in Filter::ALL {
            let mut bytes = plain.clone();
            filter.apply(&mut bytes);
            filter.reverse(&mut bytes);
            prop_assert_eq!(&bytes, &plain);
        }
    }
}

/// What `make check` tries a sample of.
mod long {
    use super::{assert_lengths_come_back, assert_past_does_not_show};

    #[test]
    fn many_awkward_lengths_come_back() {
        let lens = [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 1000, 4095, 4096, 4097, 65_535, 65_537];
        assert_lengths_come_back(&lens, &[0, 1, 2, 7, 8, 9, 300, 65_535, 65_536, 70_000]);
    }

    #[test]
    fn an_encoder_s_longer_past_does_not_show_in_its_output() {
        assert_past_does_not_show(&[[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]);
    }
}
