//! Samples as they are in files, and as integers: width, byte order and meaning of the top bit.

use super::predictor::{Channels, Sample};
use super::shape::{Meaning, SampleShape};

impl Meaning {
    /// A word, with its sign in the top of `bits` bits, as a number with a sign; and back.
    #[inline(always)]
    fn turn(self, word: i64, bits: u32) -> i64 {
        let least = i64::MIN >> (64 - bits);
        match self {
            Meaning::Signed => word,
            Meaning::Unsigned => word ^ least,
            Meaning::Float if word < 0 && word != least => least.wrapping_sub(word),
            Meaning::Float => word,
        }
    }
}

#[inline(always)]
fn load<const W: usize>(bytes: [u8; W], is_big: bool) -> i64 {
    let mut word = [0; 8];
    if is_big {
        word[..W].copy_from_slice(&bytes);
        i64::from_be_bytes(word) >> (64 - 8 * W)
    } else {
        word[8 - W..].copy_from_slice(&bytes);
        i64::from_le_bytes(word) >> (64 - 8 * W)
    }
}

#[inline(always)]
fn store<const W: usize>(word: i64, is_big: bool) -> [u8; W] {
    let mut bytes = [0; W];
    if is_big {
        bytes.copy_from_slice(&word.to_be_bytes()[8 - W..]);
    } else {
        bytes.copy_from_slice(&word.to_le_bytes()[..W]);
    }
    bytes
}

/// Splits whole groups into channels.
pub(crate) fn split<S: Sample>(shape: SampleShape, bytes: &[u8], channels: &mut Channels<S>) {
    match shape.width {
        1 => split_with::<S, 1>(shape, bytes, channels),
        2 => split_with::<S, 2>(shape, bytes, channels),
        3 => split_with::<S, 3>(shape, bytes, channels),
        4 => split_with::<S, 4>(shape, bytes, channels),
        _ => split_with::<S, 8>(shape, bytes, channels),
    }
}

fn split_with<S: Sample, const W: usize>(
    shape: SampleShape,
    bytes: &[u8],
    channels: &mut Channels<S>,
) {
    let (words, _) = bytes.as_chunks::<W>();
    let count = usize::from(shape.channels);
    for channel in 0..count {
        let start = channels.start_of(channel);
        let samples = &mut channels.samples[start..][..channels.group_count];
        for (sample, word) in samples.iter_mut().zip(words[channel..].iter().step_by(count)) {
            let word = load(*word, shape.is_big_endian);
            *sample = S::from_i64(shape.meaning.turn(word, 8 * W as u32));
        }
    }
}

/// Joins the groups of `from..from + len`, whose samples lost the low `unused` bits of each
/// channel.
pub(crate) fn join<S: Sample>(
    shape: SampleShape,
    channels: &Channels<S>,
    (from, len): (usize, usize),
    unused: &[u32],
    out: &mut [u8],
) {
    match shape.width {
        1 => join_with::<S, 1>(shape, channels, (from, len), unused, out),
        2 => join_with::<S, 2>(shape, channels, (from, len), unused, out),
        3 => join_with::<S, 3>(shape, channels, (from, len), unused, out),
        4 => join_with::<S, 4>(shape, channels, (from, len), unused, out),
        _ => join_with::<S, 8>(shape, channels, (from, len), unused, out),
    }
}

fn join_with<S: Sample, const W: usize>(
    shape: SampleShape,
    channels: &Channels<S>,
    (from, len): (usize, usize),
    unused: &[u32],
    out: &mut [u8],
) {
    let (words, _) = out.as_chunks_mut::<W>();
    let count = usize::from(shape.channels);
    for (channel, &unused) in unused.iter().enumerate() {
        let samples = &channels.samples[channels.start_of(channel) + from..][..len];
        let words = words[channel..].iter_mut().step_by(count);
        for (word, sample) in words.zip(samples) {
            let value = shape.meaning.turn(sample.to_i64() << unused, 8 * W as u32);
            *word = store(value, shape.is_big_endian);
        }
    }
}
