//! Stored bytes that are damaged, cut, lengthened, invented or of another codec: a decoder ends
//! with exactly the asked length or an error, leaves what was in the vector, and works as before
//! afterwards.

use proptest::prelude::*;
use shale_codec::{
    ArrayShape, Codec, CodecError, Decoder, Difference, Effort, Encoder, Filter, Meaning,
    SampleLayout, SampleShape, Settings, Shuffle, array_form, lines_form, samples_form,
};

const SETTINGS: &[&str] = &[
    "stored",
    "zstd:1",
    "zstd:19",
    "lz4",
    "lz4:hc=9",
    "lzma:6",
    "lzma:9,lc=0,lp=4,pb=4",
    #[cfg(feature = "brotli-encoder")]
    "brotli:1",
    #[cfg(feature = "brotli-encoder")]
    "brotli:9",
];

struct Frame {
    codec: Codec,
    filter: Filter,
    prefix: Vec<u8>,
    plain: Vec<u8>,
    stored: Vec<u8>,
}

/// Small frames of every codec, with a prefix and without.
fn frames() -> Vec<Frame> {
    let text: Vec<u8> =
        (0..400u32).flat_map(|n| format!("line {} of it\n", n * n % 97).into_bytes()).collect();
    let random: Vec<u8> = (0..300u32).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
    let mut frames = Vec::new();
    for settings in SETTINGS {
        let settings: Settings = settings.parse().unwrap();
        let mut encoder = Encoder::new(settings).unwrap();
        for prefix in [&b""[..], &text[1000..2500]] {
            for plain in [&text[..1200], &random, b"x"] {
                let mut stored = Vec::new();
                encoder.encode(prefix, plain, &mut stored).unwrap();
                let (prefix, plain) = (prefix.to_vec(), plain.to_vec());
                frames.push(Frame {
                    codec: settings.codec,
                    filter: Filter::None,
                    prefix,
                    plain,
                    stored,
                });
            }
        }
        let (mut stored, plain) = (Vec::new(), text[..3000].to_vec());
        encoder.encode_form(&lines_form(&plain).unwrap(), &mut stored).unwrap();
        let (codec, prefix) = (settings.codec, Vec::new());
        frames.push(Frame { codec, filter: Filter::Lines, prefix, plain, stored });
        let (mut form, mut stored, plain) = (Vec::new(), Vec::new(), text[..1003].to_vec());
        let shape = ArrayShape::new(2, 3, Difference::Big, Shuffle::Bits).unwrap();
        array_form(shape, &plain, &mut form);
        encoder.encode_array(shape, &form, &mut stored).unwrap();
        frames.push(Frame { codec, filter: Filter::Array, prefix: Vec::new(), plain, stored });
        let (mut stored, plain) = (Vec::new(), text[..2001].to_vec());
        let shape = SampleShape::new(2, 3, true, Meaning::Unsigned).unwrap();
        let layout = SampleLayout { shape, head_len: 7, samples_len: 1900, row_len: 40 };
        let form = samples_form(layout, Effort::THOROUGH, &plain).unwrap();
        encoder.encode_samples(&form, &mut stored).unwrap();
        frames.push(Frame { codec, filter: Filter::Samples, prefix: Vec::new(), plain, stored });
    }
    frames
}

/// Decodes and checks the promise; says whether the right bytes came out.
fn is_right(decoder: &mut Decoder, frame: &Frame, stored: &[u8], plain_len: usize) -> bool {
    let mut out = b"before".to_vec();
    let ways = (frame.codec, frame.filter);
    match decoder.decode_filtered(ways, &frame.prefix, stored, plain_len, &mut out) {
        Ok(()) => {
            assert_eq!(out.len(), 6 + plain_len);
            assert!(out.starts_with(b"before"));
            out[6..] == frame.plain
        }
        Err(error) => {
            assert_eq!(out, b"before", "{error}");
            false
        }
    }
}

#[test]
fn every_changed_byte_is_an_error_or_the_asked_length() {
    let mut decoder = Decoder::new();
    for frame in frames() {
        for index in 0..frame.stored.len() {
            for change in [0x01, 0x10, 0x80, 0xFF] {
                let mut stored = frame.stored.clone();
                stored[index] ^= change;
                is_right(&mut decoder, &frame, &stored, frame.plain.len());
            }
        }
        assert!(is_right(&mut decoder, &frame, &frame.stored, frame.plain.len()));
    }
}

#[test]
fn every_cut_is_an_error() {
    let mut decoder = Decoder::new();
    for frame in frames() {
        for len in 0..frame.stored.len() {
            let stored = &frame.stored[..len];
            assert!(
                !is_right(&mut decoder, &frame, stored, frame.plain.len()),
                "{}, {len} of {} bytes",
                frame.codec,
                frame.stored.len()
            );
        }
        assert!(is_right(&mut decoder, &frame, &frame.stored, frame.plain.len()));
    }
}

#[test]
fn bytes_behind_the_end_are_an_error() {
    let mut decoder = Decoder::new();
    for frame in frames() {
        for tail in [&[0][..], &[0xFF], &frame.stored] {
            let stored = [&frame.stored, tail].concat();
            assert!(!is_right(&mut decoder, &frame, &stored, frame.plain.len()), "{}", frame.codec);
        }
    }
}

#[test]
fn another_length_than_the_frame_s_is_an_error() {
    let mut decoder = Decoder::new();
    for frame in frames() {
        let len = frame.plain.len();
        for wrong in [0, 1, len / 2, len - 1, len + 1, 2 * len, 1 << 20] {
            if wrong == len {
                continue;
            }
            let mut out = Vec::new();
            let result = decoder.decode(frame.codec, &frame.prefix, &frame.stored, wrong, &mut out);
            assert!(result.is_err(), "{}: {wrong} in place of {len}", frame.codec);
            assert!(out.is_empty());
        }
    }
}

#[test]
fn a_wrong_prefix_is_an_error_or_the_asked_length() {
    let mut decoder = Decoder::new();
    for mut frame in frames() {
        for prefix in [vec![], vec![0; 10], vec![7; 1500], frame.plain.clone()] {
            frame.prefix = prefix;
            is_right(&mut decoder, &frame, &frame.stored, frame.plain.len());
        }
    }
}

#[test]
fn frames_given_to_the_wrong_codec_are_errors_or_the_asked_length() {
    let mut decoder = Decoder::new();
    for mut frame in frames() {
        for codec in Codec::ALL {
            frame.codec = codec;
            is_right(&mut decoder, &frame, &frame.stored, frame.plain.len());
        }
    }
}

#[test]
fn a_large_window_that_nothing_asks_for_is_refused_by_brotli() {
    // 24 bits of window, then an empty last metablock.
    for stored in [&[0x3F][..], &[0x11, 30, 3]] {
        let mut out = Vec::new();
        let result = Decoder::new().decode(Codec::Brotli, b"", stored, 0, &mut out);
        let Err(CodecError::Corrupt { detail, .. }) = result else { panic!("{result:?}") };
        assert!(detail.contains("window"), "{detail}");
    }
}

#[test]
fn a_length_beyond_memory_is_an_error() {
    let mut decoder = Decoder::new();
    for codec in Codec::ALL {
        let result = decoder.decode(codec, b"", &[0; 16], usize::MAX / 2, &mut Vec::new());
        assert!(result.is_err(), "{codec}");
    }
}

#[test]
fn errors_say_codec_and_lengths() {
    let mut out = Vec::new();
    let error = Decoder::new().decode(Codec::Stored, b"", b"abc", 5, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "stored: frame decodes to 3 bytes, 5 expected");
    let error = Decoder::new().decode(Codec::Lzma, b"", b"", 5, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "lzma: stored bytes are damaged: the frame is empty");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn invented_bytes_are_errors_or_the_asked_length(
        stored in proptest::collection::vec(any::<u8>(), 0..200),
        prefix in proptest::collection::vec(any::<u8>(), 0..50),
        plain_len in 0..5000usize,
    ) {
        let mut decoder = Decoder::new();
        for codec in Codec::ALL {
            let (filter, prefix) = (Filter::None, prefix.clone());
            let frame = Frame { codec, filter, prefix, plain: vec![], stored: vec![] };
            is_right(&mut decoder, &frame, &stored, plain_len);
        }
    }
}
