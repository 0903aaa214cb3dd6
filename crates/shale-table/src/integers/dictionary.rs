//! Distinct values: value `i` is `values[codes[i]]`.
//!
//! Layout: `count` varint (1 to the number of values); `values`, the distinct values in ascending
//! order, as an integer section of tier 0, so that each code costs one load; `codes` of the tier
//! below. A code that is not below the count is damage.

use std::fmt;

use super::part::{Part, TIER_FLAT, Tier};
use crate::{
    bitpack,
    error::Damage,
    varint::{self, Reader},
};

#[derive(Debug)]
pub(crate) struct Dictionary<P> {
    count: usize,
    values: P,
    codes: P,
}

impl<P: Part> Dictionary<P> {
    pub(super) fn parse(reader: &mut Reader, count: usize, tier: Tier) -> Result<Self, Damage> {
        let value_count = reader.varint_max(count, "a dictionary has more values than are used")?;
        if value_count == 0 {
            return Err(Damage("a dictionary is empty"));
        }
        Ok(Self {
            count: value_count,
            values: P::parse(reader, value_count, TIER_FLAT)?,
            codes: P::parse(reader, count, tier - 1)?,
        })
    }

    fn value(&self, page: &[u8], code: u64) -> Result<u64, Damage> {
        if code >= self.count as u64 {
            return Err(Damage("a code is beyond its dictionary"));
        }
        self.values.get(page, code as usize)
    }

    pub(super) fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        self.value(page, self.codes.get(page, index)?)
    }

    pub(super) fn read(&self, page: &[u8], first: usize, out: &mut [u64]) -> Result<(), Damage> {
        self.codes.read(page, first, out)?;
        for value in out {
            *value = self.value(page, *value)?;
        }
        Ok(())
    }

    pub(super) fn reads_ahead(&self) -> bool {
        self.codes.reads_ahead()
    }

    pub(super) fn heap_len(&self) -> usize {
        self.values.heap_len() + self.codes.heap_len()
    }
}

impl<P: Part> fmt::Display for Dictionary<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dictionary of {}({}, {})", self.count, self.values, self.codes)
    }
}

/// False if the section would be longer than `len_max`, or the values are too many to be worth it.
pub(super) fn encode<P: Part>(
    values: &[u64],
    tier: Tier,
    len_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    let mut distinct = values.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    // Values that fill their range are codes already.
    let reach = distinct[distinct.len() - 1] - distinct[0];
    let width = bitpack::width_of(reach);
    if distinct.len() > values.len() / 2 || bitpack::width_of(distinct.len() as u64 - 1) == width {
        return false;
    }
    varint::write(distinct.len() as u64, out);
    P::encode(&distinct, TIER_FLAT, out);
    if out.len() >= len_max {
        return false;
    }
    let codes: Vec<u64> =
        values.iter().map(|value| distinct.partition_point(|v| v < value) as u64).collect();
    P::encode(&codes, tier - 1, out);
    true
}
