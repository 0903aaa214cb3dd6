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

mod bits; // bits and codes of numbers
mod context; // energies, contexts and tokens
mod tables; // frequencies of tokens, and the coder
mod predictor; // samples from earlier ones
mod words; // bytes of samples
mod fit; // the best factors
mod encode; // from samples to the payload
mod decode; // from the payload to samples

use crate::lines::push_varint;

/// Most channels.
const CHANNEL_COUNT_MAX: usize = 16;
/// Logarithm of the length of blocks that the encoder makes, in groups.
const BLOCK_LEN_LOG: u32 = 12;
/// Most tables of frequencies in a frame.
const TABLE_COUNT_MAX: usize = 32;
/// Logarithms of block lengths.
const BLOCK_LEN_LOGS: std::ops::RangeInclusive<u32> = 8..=16;
/// States of the entropy coder. They take turns, so that a processor can work at all of them.
const STATES_AT_ONCE: usize = 4;

/// What the bits of a sample mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// An integer in two's complement.
    Signed = 0,
    /// An integer from 0 on.
    Unsigned = 1,
    /// A number of IEEE 754.
    Float = 2,
}

/// Samples in groups: one sample of each channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleShape {
    width: u8,
    channels: u8,
    is_big_endian: bool,
    meaning: Meaning,
}

impl SampleShape {
    /// Describes groups of `channels` samples of `width` bytes. Returns nothing for widths other
    /// than 1, 2, 3, 4 and 8, and for no channels or more than 16.
    pub fn new(
        width: usize,
        channels: usize,
        is_big_endian: bool,
        meaning: Meaning,
    ) -> Option<SampleShape> {
        let fits = matches!(width, 1..=4 | 8) && (1..=CHANNEL_COUNT_MAX).contains(&channels);
        fits.then_some(SampleShape {
            width: width as u8,
            channels: channels as u8,
            is_big_endian,
            meaning,
        })
    }

    /// Bytes of a group.
    pub fn group_len(self) -> usize {
        usize::from(self.width) * usize::from(self.channels)
    }

    fn bits(self) -> u32 {
        8 * u32::from(self.width)
    }
}

/// Where the samples of a frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleLayout {
    /// The samples.
    pub shape: SampleShape,
    /// Bytes before the first of them.
    pub head_len: usize,
    /// Bytes of them; what is more than whole groups is treated as what follows.
    pub samples_len: usize,
    /// Groups of a row of a picture; 0 if there are no rows.
    pub row_len: usize,
}

/// How much work the encoder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Most samples of the channel itself that take part.
    own_count_max: usize,
    other_count: usize,
    row_reach: usize,
}

impl Effort {
    /// For levels that are fast.
    pub const FAST: Effort = Effort { own_count_max: 8, other_count: 2, row_reach: 1 };
    /// For all others.
    pub const THOROUGH: Effort = Effort { own_count_max: 32, other_count: 4, row_reach: 3 };

    /// Samples of the channel itself for samples of so many bits. More of them take longer to
    /// decode, and short samples gain less.
    fn own_count_of(self, bits: u32) -> usize {
        self.own_count_max.min(if bits <= 16 { 12 } else { 32 })
    }
}

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

/// Encodes the samples of a frame. Returns nothing if there are none, or there is no memory.
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

/// What is before the payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    shape: SampleShape,
    block_log: u32,
    pub(crate) head_len: usize,
    group_count: usize,
    row_len: usize,
}

impl Header {
    fn block_len(&self) -> usize {
        1 << self.block_log
    }

    /// Bytes of the samples.
    pub(crate) fn samples_len(&self) -> usize {
        self.group_count * self.shape.group_len()
    }

    /// Splits stored bytes into header, payload and the codec's bytes. Returns nothing if the
    /// header is damaged or does not fit a frame of `plain_len` bytes.
    pub(crate) fn split(stored: &[u8], plain_len: usize) -> Option<(Header, &[u8], &[u8])> {
        let (&[width, channels, ways, block_log], mut rest) = stored.split_first_chunk()?;
        let meaning = match ways >> 1 {
            0 => Meaning::Signed,
            1 => Meaning::Unsigned,
            2 => Meaning::Float,
            _ => return None,
        };
        let (width, channels) = (usize::from(width), usize::from(channels));
        let shape = SampleShape::new(width, channels, ways & 1 == 1, meaning)?;
        let mut number = || {
            let mut value = 0u64;
            for place in 0..5 {
                let (&byte, after) = rest.split_first()?;
                rest = after;
                value |= u64::from(byte & 0x7F) << (7 * place);
                if byte < 0x80 {
                    return usize::try_from(value).ok();
                }
            }
            None
        };
        let (head_len, group_count, row_len) = (number()?, number()?, number()?);
        let payload_len = number()?;
        let samples_len = group_count.checked_mul(shape.group_len())?;
        let fits = group_count > 0
            && row_len <= group_count
            && head_len.checked_add(samples_len)? <= plain_len
            && BLOCK_LEN_LOGS.contains(&u32::from(block_log));
        let (payload, rest) = rest.split_at_checked(payload_len)?;
        let block_log = block_log.into();
        let header = Header { shape, block_log, head_len, group_count, row_len };
        fits.then_some((header, payload, rest))
    }
}

/// Appends to `out` the samples of a payload.
pub(crate) fn decode(
    header: &Header,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    decode::decode(header, payload, out)
}
