//! How a run of 64-bit integers is stored: seven codecs that nest, the cheapest chosen by size.
//!
//! An *integer section* is one tag byte and what the tag says. The number of values follows from
//! the position of the section and is not stored. Tags:
//!
//! | tag | codec | then |
//! |---|---|---|
//! | 0x80–0xff | constant, the value is tag − 0x80 | nothing |
//! | 0x01–0x08 | constant | the value, tag bytes, little-endian |
//! | 0x10 | [`linear`] | base, step |
//! | 0x11 | [`packed`] | minimum, scale, width, bits |
//! | 0x12 | [`blocks`] | mins, ends, bits: packed with a width for each 64 values |
//! | 0x13 | [`runs`] | count, starts, bases, steps: pieces that are constant or linear |
//! | 0x14 | [`dictionary`] | count, values, codes |
//! | 0x15 | [`delta`], rising | checkpoints, deltas |
//! | 0x16 | [`delta`], zigzag | checkpoints, zigzag deltas |
//!
//! Nested parts are integer sections too. Each section has a *tier* that says how much may still
//! nest ([`Tier`]): 4 for a column, less for its parts. So nesting ends by construction, and a
//! random access costs a bounded number of steps: at most one delta block of 64 values for each
//! tier that may have one. A section with a codec above its tier is damage.
//!
//! The writer takes the smallest encoding. But a codec with a more expensive access must save
//! something: one part in [`SAVING_PARTS`], delta one in [`SAVING_PARTS_DELTA`]. Where a page is
//! compressed, the compressed size counts, and long columns are tried in whole bytes as well
//! ([`encode_compressed`]). The reader unpacks nothing in advance: it checks bounds and the order
//! of runs when the page is parsed, and everything else when a value is read.

mod part; // tiers, tags, and sections that are parts of others
mod linear; // base and step
mod packed; // minimum, scale and fixed-width codes
mod blocks; // packed, with a width for each 64 values
mod runs; // pieces that are constant or linear
mod dictionary; // distinct values and codes
mod delta; // differences, with checkpoints

use std::fmt;

use crate::{error::Damage, varint::Reader};
use part::{
    Part, TAG_BLOCKS, TAG_DELTA_RISING, TAG_DELTA_ZIGZAG, TAG_DICTIONARY, TAG_LINEAR, TAG_PACKED,
    TAG_RUNS, TIER_BLOCKS, TIER_DELTA, TIER_RUNS,
};
pub(crate) use part::{TIER_COLUMN, TIER_FLAT, Tier};
use {blocks::Blocks, delta::Delta, dictionary::Dictionary, linear::Linear, packed::Packed};
use {delta::Sign, runs::Runs};

/// A codec whose access costs some loads more must save one part in this many.
const SAVING_PARTS: usize = 32;

/// The same for delta, whose access sums up to 64 values.
const SAVING_PARTS_DELTA: usize = 16;

/// Shorter columns are not worth a trial.
const TRIAL_LEN_MIN: usize = 512;

/// A parsed integer section.
#[derive(Debug)]
pub(crate) enum Integers {
    Constant(u64),
    Linear(Linear),
    Packed(Packed),
    Blocks(Box<Blocks<Integers>>),
    Runs(Box<Runs<Integers>>),
    Dictionary(Box<Dictionary<Integers>>),
    Delta(Box<Delta<Integers>>),
}

impl Integers {
    /// Reads the headers of a section of `count` values (at least 1).
    pub(crate) fn parse(reader: &mut Reader, count: usize, tier: Tier) -> Result<Self, Damage> {
        let tag = reader.byte()?;
        let lowest_tier = match tag {
            TAG_BLOCKS => TIER_BLOCKS,
            TAG_RUNS | TAG_DICTIONARY => TIER_RUNS,
            TAG_DELTA_RISING | TAG_DELTA_ZIGZAG => TIER_DELTA,
            _ => TIER_FLAT,
        };
        if tier < lowest_tier {
            return Err(Damage("an integer codec stands where it may not nest"));
        }
        Ok(match tag {
            0x80..=0xff => Self::Constant(u64::from(tag - 0x80)),
            0x01..=0x08 => {
                let bytes = reader.span(tag as usize)?.of(reader.page());
                Self::Constant(bytes.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)))
            }
            TAG_LINEAR => Self::Linear(Linear::parse(reader)?),
            TAG_PACKED => Self::Packed(Packed::parse(reader, count)?),
            TAG_BLOCKS => Self::Blocks(Box::new(Blocks::parse(reader, count)?)),
            TAG_RUNS => Self::Runs(Box::new(Runs::parse(reader, count, tier)?)),
            TAG_DICTIONARY => Self::Dictionary(Box::new(Dictionary::parse(reader, count, tier)?)),
            TAG_DELTA_RISING => {
                Self::Delta(Box::new(Delta::parse(reader, count, tier, Sign::Rising)?))
            }
            TAG_DELTA_ZIGZAG => {
                Self::Delta(Box::new(Delta::parse(reader, count, tier, Sign::Zigzag)?))
            }
            _ => return Err(Damage("an integer section has an unknown tag")),
        })
    }

    /// Value `index`, which must be below the section's count.
    pub(crate) fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Linear(linear) => Ok(linear.get(index)),
            Self::Packed(packed) => packed.get(page, index),
            Self::Blocks(blocks) => blocks.get(page, index),
            Self::Runs(runs) => runs.get(page, index),
            Self::Dictionary(dictionary) => dictionary.get(page, index),
            Self::Delta(delta) => delta.get(page, index),
        }
    }

    /// Values `first .. first + out.len()`, all of which must exist.
    pub(crate) fn read(&self, page: &[u8], first: usize, out: &mut [u64]) -> Result<(), Damage> {
        match self {
            Self::Constant(value) => out.fill(*value),
            Self::Linear(linear) => linear.read(first, out),
            Self::Packed(packed) => packed.read(page, first, out)?,
            Self::Blocks(blocks) => blocks.read(page, first, out)?,
            Self::Runs(runs) => runs.read(page, first, out)?,
            Self::Dictionary(dictionary) => dictionary.read(page, first, out)?,
            Self::Delta(delta) => delta.read(page, first, out)?,
        }
        Ok(())
    }

    /// Getting one value costs about as much as reading the 64 around it.
    pub(crate) fn reads_ahead(&self) -> bool {
        match self {
            Self::Delta(_) => true,
            Self::Dictionary(dictionary) => dictionary.reads_ahead(),
            _ => false,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_len(&self) -> usize {
        match self {
            Self::Constant(_) | Self::Linear(_) | Self::Packed(_) => 0,
            Self::Blocks(part) => size_of::<Blocks<Self>>() + part.heap_len(),
            Self::Runs(part) => size_of::<Runs<Self>>() + part.heap_len(),
            Self::Dictionary(part) => size_of::<Dictionary<Self>>() + part.heap_len(),
            Self::Delta(part) => size_of::<Delta<Self>>() + part.heap_len(),
        }
    }
}

impl Part for Integers {
    fn parse(reader: &mut Reader, count: usize, tier: Tier) -> Result<Self, Damage> {
        Self::parse(reader, count, tier)
    }

    fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        self.get(page, index)
    }

    fn read(&self, page: &[u8], first: usize, out: &mut [u64]) -> Result<(), Damage> {
        self.read(page, first, out)
    }

    fn reads_ahead(&self) -> bool {
        self.reads_ahead()
    }

    fn heap_len(&self) -> usize {
        self.heap_len()
    }

    fn encode(values: &[u64], tier: Tier, out: &mut Vec<u8>) {
        encode(values, tier, out);
    }
}

/// For people: the codec and its parts, such as `delta(packed 12 bits, packed 3 bits)`.
impl fmt::Display for Integers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "constant {value}"),
            Self::Linear(part) => part.fmt(f),
            Self::Packed(part) => part.fmt(f),
            Self::Blocks(part) => part.fmt(f),
            Self::Runs(part) => part.fmt(f),
            Self::Dictionary(part) => part.fmt(f),
            Self::Delta(part) => part.fmt(f),
        }
    }
}

/// Appends `values` (at least one) as the cheapest section.
pub(crate) fn encode(values: &[u64], tier: Tier, out: &mut Vec<u8>) {
    let Some((&first, rest)) = values.split_first() else {
        debug_assert!(false, "an empty integer section");
        return;
    };
    if rest.iter().all(|&value| value == first) {
        return encode_constant(first, out);
    }
    let step = values[1].wrapping_sub(first);
    if values.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step) {
        out.push(TAG_LINEAR);
        return linear::encode(first, step, out);
    }

    let mut best = vec![TAG_PACKED];
    packed::encode(values, &mut best);
    // An encoder gets the length at which it may stop.
    let mut offer = |tag: u8, lowest_tier: Tier, encode: &dyn Fn(usize, &mut Vec<u8>) -> bool| {
        let parts = if lowest_tier == TIER_DELTA { SAVING_PARTS_DELTA } else { SAVING_PARTS };
        let len_max = best.len() - best.len().div_ceil(parts);
        let mut section = vec![tag];
        if tier >= lowest_tier && encode(len_max, &mut section) && section.len() <= len_max {
            best = section;
        }
    };
    offer(TAG_BLOCKS, TIER_BLOCKS, &|len_max, out| {
        blocks::encode::<Integers>(values, len_max, out)
    });
    offer(TAG_RUNS, TIER_RUNS, &|len_max, out| {
        runs::encode::<Integers>(values, tier, len_max, out)
    });
    offer(TAG_DICTIONARY, TIER_RUNS, &|len_max, out| {
        dictionary::encode::<Integers>(values, tier, len_max, out)
    });
    let sign = delta::sign_of(values);
    offer(sign.tag(), TIER_DELTA, &|len_max, out| {
        delta::encode::<Integers>(values, sign, tier, len_max, out)
    });
    out.extend_from_slice(&best);
}

/// Appends the column `values` (at least one) as the section that is smallest after the page is
/// compressed, according to `left`: the length that a compressor leaves of bytes.
///
/// Values that are packed to the bit lie differently in their bytes each time, so a compressor does
/// not see repetitions. In whole bytes it does: inode tables of many versions of one tree then need
/// half of the space.
pub(crate) fn encode_compressed(
    values: &[u64],
    left: &mut dyn FnMut(&[u8]) -> usize,
    out: &mut Vec<u8>,
) {
    let mut best = Vec::new();
    encode(values, TIER_COLUMN, &mut best);
    if best.len() >= TRIAL_LEN_MIN {
        let mut len_max = left(&best);
        let mut plain = vec![TAG_PACKED];
        packed::encode_in_bytes(values, &mut plain);
        let sign = delta::sign_of(values);
        let mut deltas = vec![sign.tag()];
        delta::encode_in_bytes::<Integers>(values, sign, &mut deltas);
        for (section, parts) in [(plain, SAVING_PARTS), (deltas, SAVING_PARTS_DELTA)] {
            let len = left(&section);
            if len < len_max - len_max / parts {
                (best, len_max) = (section, len);
            }
        }
    }
    out.extend_from_slice(&best);
}

/// Appends `values` (at least one) as a section that is quick to make: constant or packed.
pub(crate) fn encode_quickly(values: &[u64], out: &mut Vec<u8>) {
    match values.split_first() {
        Some((&first, rest)) if rest.iter().all(|&value| value == first) => {
            encode_constant(first, out);
        }
        _ => {
            out.push(TAG_PACKED);
            packed::encode(values, out);
        }
    }
}

fn encode_constant(value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        return out.push(value as u8 | 0x80);
    }
    let len = 8 - value.leading_zeros() as usize / 8;
    out.push(len as u8);
    out.extend_from_slice(&value.to_le_bytes()[..len]);
}

#[cfg(test)]
mod tests;
