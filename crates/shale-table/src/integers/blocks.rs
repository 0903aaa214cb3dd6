//! Fixed width for each 64 values: for columns where a few places hold much larger values.
//!
//! Block `k` holds values `64 k ..`; value `64 k + i` is `mins[k] + code`, wrapping at 64 bits, and
//! the code has `ends[k] - ends[k - 1]` bits (`ends[-1]` is 0; at most 64).
//!
//! Layout: `mins` and `ends`, each an integer section of tier 0 with one value a block; then the
//! blocks' codes (see [`crate::bitpack`]). A full block of width `w` takes `8 w` bytes, so block
//! `k` starts at byte `8 * ends[k - 1]`; the last block takes no more bytes than it needs.

use std::fmt;

use super::part::{Part, TIER_FLAT};
use crate::{
    bitpack,
    error::Damage,
    varint::{Reader, Span},
};

const BLOCK_VALUES: usize = 64;

#[derive(Debug)]
pub(crate) struct Blocks<P> {
    mins: P,
    ends: P,
    codes: Span,
}

impl<P: Part> Blocks<P> {
    pub(super) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let block_count = count.div_ceil(BLOCK_VALUES);
        let mins = P::parse(reader, block_count, TIER_FLAT)?;
        let ends = P::parse(reader, block_count, TIER_FLAT)?;
        let (start, width) = place(&ends, reader.page(), block_count - 1)?;
        let last_count = count - (block_count - 1) * BLOCK_VALUES;
        let codes_len = start
            .checked_add(bitpack::packed_len(last_count, width))
            .ok_or(Damage("blocks are longer than a page can be"))?;
        Ok(Self { mins, ends, codes: reader.span(codes_len)? })
    }

    pub(super) fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        let mut value = [0];
        self.read(page, index, &mut value)?;
        Ok(value[0])
    }

    pub(super) fn read(
        &self,
        page: &[u8],
        mut first: usize,
        mut out: &mut [u64],
    ) -> Result<(), Damage> {
        while !out.is_empty() {
            let block = first / BLOCK_VALUES;
            let within = first % BLOCK_VALUES;
            let (head, tail) = out.split_at_mut(out.len().min(BLOCK_VALUES - within));
            let min = self.mins.get(page, block)?;
            let (start, width) = place(&self.ends, page, block)?;
            if start > self.codes.len() {
                return Err(Damage("a block starts after the end of all blocks"));
            }
            bitpack::read(page, self.codes.start() + start, within, width, head)?;
            for value in head.iter_mut() {
                *value = min.wrapping_add(*value);
            }
            first += head.len();
            out = tail;
        }
        Ok(())
    }

    pub(super) fn heap_len(&self) -> usize {
        self.mins.heap_len() + self.ends.heap_len()
    }
}

/// Where a block's codes start, in bytes, and their width.
fn place<P: Part>(ends: &P, page: &[u8], block: usize) -> Result<(usize, u32), Damage> {
    let start = if block == 0 { 0 } else { ends.get(page, block - 1)? };
    let width = ends.get(page, block)?.wrapping_sub(start);
    if width > 64 {
        return Err(Damage("a block's values are wider than 64 bits"));
    }
    let start = start.checked_mul(8).and_then(|start| usize::try_from(start).ok());
    Ok((start.ok_or(Damage("a block starts beyond what a page can be"))?, width as u32))
}

impl<P: Part> fmt::Display for Blocks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocks({}, {})", self.mins, self.ends)
    }
}

/// False if the section would be longer than `len_max`.
pub(super) fn encode<P: Part>(values: &[u64], len_max: usize, out: &mut Vec<u8>) -> bool {
    let mut mins = Vec::with_capacity(values.len().div_ceil(BLOCK_VALUES));
    let mut ends = Vec::with_capacity(mins.capacity());
    let mut end = 0;
    let mut codes_len = 0;
    for block in values.chunks(BLOCK_VALUES) {
        let min = block.iter().copied().min().unwrap_or(0);
        let max = block.iter().copied().max().unwrap_or(0);
        let width = bitpack::width_of(max - min);
        mins.push(min);
        end += u64::from(width);
        ends.push(end);
        codes_len += bitpack::packed_len(block.len(), width);
    }
    if codes_len >= len_max {
        return false;
    }
    P::encode(&mins, TIER_FLAT, out);
    P::encode(&ends, TIER_FLAT, out);
    let mut before = 0;
    for (k, block) in values.chunks(BLOCK_VALUES).enumerate() {
        let width = (ends[k] - before) as u32;
        before = ends[k];
        bitpack::write(block.iter().map(|value| value - mins[k]), width, out);
    }
    true
}
