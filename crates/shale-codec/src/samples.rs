//! The filter of samples: sound, pictures and other numbers that are predicted from their
//! neighbours.
//!
//! A sample is predicted from those before it, from those around it in the row before, and from
//! the other channels of its group, by factors that the encoder finds for each block. What is left,
//! mostly noise, is coded by frequencies that depend on how large the residuals before were.
//! Decoding uses integers only. (Linear prediction of sound: Robinson, "SHORTEN", 1994; FLAC,
//! RFC 9639.)
//!
//! Bytes before and after the samples are kept apart and go through a codec. The layout is in
//! `docs/format.md`, chapter 9.4. Any bytes can be stored with any shape: a wrong one costs
//! compression, never correctness.

mod shape; // what samples are
mod bits; // bits and codes of numbers
mod context; // energies, contexts and tokens
mod tables; // frequencies of tokens, and the coder
mod predictor; // samples from earlier ones
mod words; // bytes of samples
mod fit; // the best factors
mod encode; // from samples to the payload
mod decode; // from the payload to samples

use crate::lines::push_varint;

pub(crate) use shape::Header;
pub use shape::{Effort, Meaning, SampleLayout, SampleShape};

use shape::BLOCK_LEN_LOG;

/// Samples in the form in which they are stored, and the bytes around them.
#[derive(Debug)]
pub struct SampleForm {
    /// Header and payload.
    pub(crate) coded: Vec<u8>,
    /// The bytes before and after the samples.
    pub(crate) rest: Vec<u8>,
}

impl SampleForm {
    /// Stored bytes, without those of the codec for the rest.
    pub fn coded_len(&self) -> usize {
        self.coded.len()
    }

    /// The bytes before and after the samples, for the codec.
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }
}

/// Encodes the samples of a frame. Returns `None` if the frame has no samples, or if memory is
/// exhausted.
///
/// Needs about 26 bytes for each sample.
pub fn samples_form(layout: SampleLayout, effort: Effort, plain: &[u8]) -> Option<SampleForm> {
    let SampleLayout { shape, head_len, samples_len, row_len } = layout;
    let rest = plain.get(head_len..)?;
    let group_count = samples_len.min(rest.len()) / shape.group_len();
    let (groups, tail) = rest.split_at(group_count * shape.group_len());
    if groups.is_empty() {
        return None;
    }
    let row_len = if row_len * 4 <= group_count && row_len > 1 { row_len } else { 0 };
    let block_log = BLOCK_LEN_LOG;
    let payload = encode::encode(shape, row_len, 1 << block_log, effort, groups)?;
    let ways = u8::from(shape.is_big_endian) | (shape.meaning as u8) << 1;
    let mut coded = vec![shape.width, shape.channels, ways, block_log as u8];
    for number in [head_len, group_count, row_len, payload.len()] {
        push_varint(number as u64, &mut coded);
    }
    coded.extend_from_slice(&payload);
    Some(SampleForm { coded, rest: [&plain[..head_len], tail].concat() })
}

/// Appends to `out` the samples of a payload.
pub(crate) fn decode(
    header: &Header,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    decode::decode(header, payload, out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Codec, Decoder, Encoder, Filter, Settings};

    /// Stores and decodes a frame. Returns the stored bytes.
    fn round_trip(layout: SampleLayout, effort: Effort, plain: &[u8]) -> Option<Vec<u8>> {
        let form = samples_form(layout, effort, plain)?;
        let mut stored = Vec::new();
        let settings = Settings::new(Codec::Zstd, 3).unwrap();
        Encoder::new(settings).unwrap().encode_samples(&form, &mut stored).unwrap();
        let mut back = b"before".to_vec();
        let ways = (Codec::Zstd, Filter::Samples);
        Decoder::new().decode_filtered(ways, &[], &stored, plain.len(), &mut back).unwrap();
        assert!(back[6..] == *plain, "{layout:?}");
        Some(stored)
    }

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut stream = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        let mut out = vec![0; len];
        stream.fill(&mut out);
        out
    }

    fn shape(width: usize, channels: usize, meaning: Meaning) -> SampleShape {
        SampleShape::new(width, channels, channels.is_multiple_of(2), meaning).unwrap()
    }

    fn whole(shape: SampleShape, row_len: usize, plain: &[u8]) -> SampleLayout {
        SampleLayout { shape, head_len: 0, samples_len: plain.len(), row_len }
    }

    const MEANINGS: [Meaning; 3] = [Meaning::Signed, Meaning::Unsigned, Meaning::Float];

    #[test]
    fn every_shape_gives_any_bytes_back() {
        for (seed, len) in [(0, 1), (1, 16), (2, 257), (3, 5000), (4, 40_001)] {
            let mut plain = noise(seed, len);
            // Extremes, and a part that is one value.
            plain[len / 2..len / 2 + len / 4].fill(if seed % 2 == 0 { 0 } else { 0x80 });
            for width in [1, 2, 3, 4, 8] {
                for channels in [1, 2, 3, 8, 16] {
                    for meaning in MEANINGS {
                        let shape = shape(width, channels, meaning);
                        let layout = SampleLayout {
                            head_len: len / 10,
                            row_len: seed as usize * 7,
                            ..whole(shape, 0, &plain)
                        };
                        let stored = round_trip(layout, Effort::THOROUGH, &plain);
                        let fits = (len - len / 10) >= shape.group_len();
                        assert_eq!(stored.is_some(), fits);
                        round_trip(layout, Effort::FAST, &plain);
                    }
                }
            }
        }
    }

    #[test]
    fn silence_and_unused_bits_cost_next_to_nothing() {
        let layout = |plain: &[u8]| whole(shape(2, 2, Meaning::Signed), 0, plain);
        let silence = vec![0; 400_000];
        let stored = round_trip(layout(&silence), Effort::FAST, &silence).unwrap();
        assert!(stored.len() < 200, "{}", stored.len());
        let constant = [0x12, 0x34, 0xFF, 0x7F].repeat(100_000);
        let stored = round_trip(layout(&constant), Effort::FAST, &constant).unwrap();
        assert!(stored.len() < 300, "{}", stored.len());
        // Of 16 bits, the low 12 are not used: big-endian, so every second byte.
        let coarse: Vec<u8> = noise(5, 100_000).iter().flat_map(|byte| [byte & 0xF0, 0]).collect();
        let stored = round_trip(layout(&coarse), Effort::FAST, &coarse).unwrap();
        assert!(stored.len() < 100_000 * 4 / 8 + 500, "{}", stored.len());
    }

    #[test]
    fn noise_on_a_wave_costs_the_noise_and_rows_help_pictures() {
        let dither = noise(6, 200_000);
        let wave = |i: usize| ((i as f64 / 30.0).sin() * 12_000.0) as i16;
        let sound: Vec<u8> = dither
            .iter()
            .enumerate()
            .flat_map(|(i, byte)| (wave(i) + i16::from(byte & 15)).to_le_bytes())
            .collect();
        let shape = SampleShape::new(2, 1, false, Meaning::Signed).unwrap();
        let stored = round_trip(whole(shape, 0, &sound), Effort::THOROUGH, &sound).unwrap();
        // Four bits of noise, and less than half a bit for not knowing it better.
        assert!(stored.len() < 200_000 * 9 / 16, "{}", stored.len());
        let row = noise(7, 300);
        let picture: Vec<u8> =
            dither.iter().enumerate().map(|(i, b)| (row[i % 300] / 2) + (b & 3)).collect();
        let shape = SampleShape::new(1, 1, false, Meaning::Unsigned).unwrap();
        let with_rows = round_trip(whole(shape, 300, &picture), Effort::THOROUGH, &picture);
        let without = round_trip(whole(shape, 0, &picture), Effort::THOROUGH, &picture);
        assert!(with_rows.unwrap().len() * 2 < without.unwrap().len());
    }

    #[test]
    fn wrong_payloads_are_refused_and_bounded() {
        let plain: Vec<u8> = (0..3000u32).flat_map(|i| (i * i % 977).to_le_bytes()).collect();
        let layout = whole(shape(4, 1, Meaning::Signed), 50, &plain);
        let form = samples_form(layout, Effort::THOROUGH, &plain).unwrap();
        let mut decoder = Decoder::new();
        let ways = (Codec::Stored, Filter::Samples);
        let mut decode = |stored: &[u8], len| {
            let mut out = Vec::new();
            decoder.decode_filtered(ways, &[], stored, len, &mut out).map(|()| out)
        };
        assert_eq!(decode(&form.coded, plain.len()).unwrap(), plain);
        assert!(decode(&form.coded, plain.len() - 1).is_err());
        for cut in 0..form.coded.len() {
            assert!(decode(&form.coded[..cut], plain.len()).is_err(), "{cut}");
        }
        for at in 0..form.coded.len() {
            for change in [1, 0x7F, 0x80, 0xFF] {
                let mut wrong = form.coded.clone();
                wrong[at] ^= change;
                if let Ok(out) = decode(&wrong, plain.len()) {
                    assert_eq!(out.len(), plain.len());
                }
            }
        }
        for header in [[0, 1, 0, 12], [5, 1, 0, 12], [2, 0, 0, 12], [2, 17, 0, 12], [2, 1, 6, 12]] {
            assert!(Header::split(&[&header[..], &[0, 1, 0, 0]].concat(), 100).is_none());
        }
        for numbers in [[0, 51, 0], [99, 1, 0], [0, 0, 0], [0, 9, 10]] {
            let header = [&[2, 1, 0, 12][..], &numbers, &[0]].concat();
            assert!(Header::split(&header, 100).is_none(), "{numbers:?}");
        }
        assert!(Header::split(&[2, 1, 0, 12, 0, 50, 0, 0], 100).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn samples_of_any_kind_come_back(
            seed in any::<u64>(),
            len in 1usize..6000,
            (width, channels) in (prop::sample::select(vec![1usize, 2, 3, 4, 8]), 1usize..9),
            (meaning, is_big) in (prop::sample::select(MEANINGS.to_vec()), any::<bool>()),
            (head_len, row_len, loud) in (0usize..50, 0usize..70, 0u32..8),
        ) {
            // Noise that grows, so that all contexts are met.
            let mut plain = noise(seed, len);
            for (at, byte) in plain.iter_mut().enumerate() {
                if at % width != width - 1 || loud == 0 {
                    *byte = byte.checked_shr(((at / 256) as u32 + loud) % 9).unwrap_or(0);
                }
            }
            let shape = SampleShape::new(width, channels, is_big, meaning).unwrap();
            let layout = SampleLayout { head_len, row_len, ..whole(shape, 0, &plain) };
            round_trip(layout, Effort::THOROUGH, &plain);
        }

        #[test]
        fn any_payload_is_an_error_or_the_asked_length(
            payload in prop::collection::vec(any::<u8>(), 0..400),
            (width, channels) in (prop::sample::select(vec![1u8, 2, 4, 8]), 1u8..4),
            row_len in 0u8..40,
        ) {
            let mut stored = vec![width, channels, 0, 8, 0, 100, row_len];
            push_varint(payload.len() as u64, &mut stored);
            stored.extend_from_slice(&payload);
            let len = 100 * usize::from(width) * usize::from(channels);
            let mut out = Vec::new();
            let ways = (Codec::Stored, Filter::Samples);
            if Decoder::new().decode_filtered(ways, &[], &stored, len, &mut out).is_ok() {
                prop_assert_eq!(out.len(), len);
            }
        }
    }
}
