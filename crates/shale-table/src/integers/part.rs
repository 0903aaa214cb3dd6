//! What an integer codec needs to know of the sections that are its parts: tiers, tags, and how to
//! read and write a part without knowing its codec.

use std::fmt;

use crate::{error::Damage, varint::Reader};

/// How much may nest in a section; see each codec for what its parts may be.
pub(crate) type Tier = u8;

/// A column's own sections: everything.
pub(crate) const TIER_COLUMN: Tier = 4;
/// From this tier on: delta.
pub(super) const TIER_DELTA: Tier = 3;
/// From this tier on: runs and dictionary.
pub(super) const TIER_RUNS: Tier = 2;
/// From this tier on: blocks. Below: constant, linear and packed only.
pub(super) const TIER_BLOCKS: Tier = 1;
/// Constant, linear and packed: a value costs one load.
pub(crate) const TIER_FLAT: Tier = 0;

pub(super) const TAG_LINEAR: u8 = 0x10;
pub(super) const TAG_PACKED: u8 = 0x11;
pub(super) const TAG_BLOCKS: u8 = 0x12;
pub(super) const TAG_RUNS: u8 = 0x13;
pub(super) const TAG_DICTIONARY: u8 = 0x14;
pub(super) const TAG_DELTA_RISING: u8 = 0x15;
pub(super) const TAG_DELTA_ZIGZAG: u8 = 0x16;

/// A section that is part of another one.
pub(crate) trait Part: fmt::Display + Sized {
    /// Reads the headers of a section of `count` values (at least 1).
    fn parse(reader: &mut Reader, count: usize, tier: Tier) -> Result<Self, Damage>;

    /// Value `index`, which must be below the section's count.
    fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage>;

    /// Values `first .. first + out.len()`, all of which must exist.
    fn read(&self, page: &[u8], first: usize, out: &mut [u64]) -> Result<(), Damage>;

    /// Getting one value costs about as much as reading the 64 around it.
    fn reads_ahead(&self) -> bool;

    /// Bytes on the heap.
    fn heap_len(&self) -> usize;

    /// Appends `values` (at least one) as the cheapest section of this tier.
    fn encode(values: &[u64], tier: Tier, out: &mut Vec<u8>);
}
