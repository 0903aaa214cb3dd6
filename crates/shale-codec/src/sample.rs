//! Decides by a look at a few kilobytes whether compressing is worth a try.
//!
//! A codec takes as long for compressed, encrypted and random bytes as for others. The look here
//! costs a tenth of a millisecond, whatever the length, and decides by two counts: how evenly byte
//! values are used, and how often four bytes are repeated.

/// Bytes of one look.
const WINDOW_LEN: usize = 1024;

/// Looks at a long input, spread evenly from its start to its end.
const WINDOW_COUNT: usize = 24;

/// Bytes of all looks.
const SEEN_LEN_MAX: usize = WINDOW_LEN * WINDOW_COUNT;

/// Shorter inputs are never called incompressible: they cost little to try, and their counts say
/// little.
const LEN_MIN: usize = 512;

/// If one part in this many is repeated, compressing is worth a try.
const REPEATED_SHARE: usize = 50;

/// See [`is_even`].
const UNEVEN_SHARE: u64 = 32;

/// Reports whether bytes look random, so that compressing them alone would save no more than about
/// one per cent.
///
/// Looks at no more than 24 KiB; allocates nothing.
///
/// - A wrong `false`, for bytes that do not compress, costs the attempt.
/// - A wrong `true`, for bytes that would have compressed, happens when all repetitions are far
///   apart (two equal random halves of a file, which deduplication and references find) or lie
///   between the looks (an archive with few compressible members), or when the regularity is not
///   one of bytes (every n-th bit). So ask this of one file, not of a frame of many, and after
///   deduplication.
///
/// Measured on 20 MiB of text and gzipped text, mixed, in pieces of 64 KiB: of 158 pieces that
/// zstd:3 shortens by less than one per cent, 142 were recognised; of 162 others, none was
/// misjudged. In pieces of 256 KiB, each many files, 3 of 55 others were. Of shared libraries,
/// none was misjudged.
pub fn looks_incompressible(sample: &[u8]) -> bool {
    if sample.len() < LEN_MIN {
        return false;
    }
    let mut seen = [0; SEEN_LEN_MAX];
    let seen = if sample.len() <= SEEN_LEN_MAX {
        sample
    } else {
        // At least one byte, as the sample is longer than all windows.
        let stride = (sample.len() - WINDOW_LEN) / (WINDOW_COUNT - 1);
        for (index, window) in seen.chunks_mut(WINDOW_LEN).enumerate() {
            window.copy_from_slice(&sample[index * stride..][..WINDOW_LEN]);
        }
        &seen
    };
    is_even(seen) && repeated_len(seen) * REPEATED_SHARE < seen.len()
}

/// Reports whether byte values are used about as evenly as in random bytes.
///
/// For n even choices the squared counts add up to n(n-1)/256 + n, on average. The excess over
/// that grows with the loss of entropy (each is the other's first order): an excess of one part
/// in `UNEVEN_SHARE` is about 0.02 bits a byte.
fn is_even(seen: &[u8]) -> bool {
    let mut counts = [0u32; 256];
    for &byte in seen {
        counts[usize::from(byte)] += 1;
    }
    let len = seen.len() as u64;
    let squares: u64 = counts.iter().map(|&count| u64::from(count) * u64::from(count)).sum();
    let even = len * (len - 1) / 256 + len;
    // What chance may add: the sum's deviation is len * sqrt(2 / 256), of which this is
    // more than five.
    let chance = len / 2;
    squares < even + even / UNEVEN_SHARE + chance
}

/// Counts the bytes of repetitions of four bytes.
fn repeated_len(seen: &[u8]) -> usize {
    const HASH_LOG: u32 = 13;
    // The last position of each hash, plus one; positions are below 24 KiB.
    let mut places = [0u16; 1 << HASH_LOG];
    let mut repeated_len = 0;
    let mut place = 0;
    while let Some(four) = seen.get(place..).and_then(|rest| rest.first_chunk::<4>()) {
        let hash = u32::from_le_bytes(*four).wrapping_mul(0x9E37_79B1) >> (32 - HASH_LOG);
        let before = std::mem::replace(&mut places[hash as usize], place as u16 + 1);
        if before > 0 && seen[usize::from(before) - 1..].starts_with(four) {
            repeated_len += 4;
            place += 4;
        } else {
            place += 1;
        }
    }
    repeated_len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, Settings};

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut stream = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        let mut out = vec![0; len];
        stream.fill(&mut out);
        out
    }

    fn prose(len: usize) -> Vec<u8> {
        let words = ["frame", "of", "the", "prefix", "a", "shale", "layer", "and", "stone"];
        let chosen = noise(1, len);
        let text = chosen.iter().flat_map(|byte| [words[usize::from(byte % 9)], " "]);
        text.flat_map(str::bytes).take(len).collect()
    }

    #[test]
    fn random_and_compressed_bytes_look_incompressible_at_every_length() {
        for len in [512, 513, 1000, 4096, 24_575, 24_576, 24_577, 65_536, 1_000_003] {
            for seed in 0..40 {
                assert!(looks_incompressible(&noise(seed, len)), "{len} bytes, seed {seed}");
            }
        }
        for text in [
            "zstd:3",
            "lzma:6",
            #[cfg(feature = "brotli-encoder")]
            "brotli:5",
        ] {
            let settings: Settings = text.parse().unwrap();
            let mut stored = Vec::new();
            Encoder::new(settings).unwrap().encode(&[], &prose(900_000), &mut stored).unwrap();
            assert!(stored.len() > 50_000);
            assert!(looks_incompressible(&stored), "{text}");
        }
    }

    #[test]
    fn bytes_with_something_to_gain_do_not() {
        let random = noise(7, 300_000);
        let base64: Vec<u8> = random.iter().map(|byte| b' ' + (byte & 63)).collect();
        let floats: Vec<u8> = random
            .chunks_exact(4)
            .flat_map(|bits| {
                let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
                (bits as f32 / u32::MAX as f32).to_le_bytes()
            })
            .collect();
        let samples: Vec<u8> =
            random.chunks_exact(2).flat_map(|pair| [pair[0], pair[1] & 0x0F]).collect();
        let records: Vec<u8> =
            random.chunks(60).flat_map(|chunk| [chunk, b"head"].concat()).collect();
        let mut archive = random.clone();
        archive[100_000..120_000].copy_from_slice(&prose(20_000));
        for (name, bytes) in [
            ("zeros", vec![0; 100_000]),
            ("text", prose(100_000)),
            ("base64", base64),
            ("floats", floats),
            ("12-bit samples", samples),
            ("records with heads", records),
            ("an archive with a text of a fifteenth", archive),
        ] {
            assert!(!looks_incompressible(&bytes), "{name}");
            assert!(!looks_incompressible(&bytes[..20_000]) || name.contains("archive"), "{name}");
        }
    }

    #[test]
    fn short_inputs_are_worth_a_try() {
        for len in 0..LEN_MIN {
            assert!(!looks_incompressible(&noise(9, len)));
        }
    }

    #[test]
    fn two_equal_random_halves_are_the_known_error() {
        let half = noise(10, 400_000);
        assert!(looks_incompressible(&half.repeat(2)));
    }
}
