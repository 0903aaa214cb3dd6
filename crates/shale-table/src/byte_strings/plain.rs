//! The strings end to end, and where each ends: for strings that share little.
//!
//! Layout: `ends`, an integer section of tier 3 with one value a string: string `i` is bytes
//! `ends[i - 1] .. ends[i]` (`ends[-1]` is 0); then the bytes' length, varint, and the bytes.

use std::{fmt, ops::Range};

use super::buffer::{StringBuffer, TOO_LONG};
use crate::{
    error::Damage,
    integers::{self, Integers},
    limits::{PAGE_PLAIN_LEN_MAX, VALUE_LEN_MAX},
    varint::{self, Reader, Span},
};

const TIER_ENDS: integers::Tier = 3;
const BATCH: usize = 64;

#[derive(Debug)]
pub(crate) struct Plain {
    ends: Integers,
    bytes: Span,
}

impl Plain {
    pub(super) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let ends = Integers::parse(reader, count, TIER_ENDS)?;
        let len = reader.varint_max(PAGE_PLAIN_LEN_MAX, "strings are longer than a page")?;
        Ok(Self { ends, bytes: reader.span(len)? })
    }

    pub(super) fn get<'p>(&self, page: &'p [u8], index: usize) -> Result<&'p [u8], Damage> {
        let mut ends = [0; 2];
        read_ends(&self.ends, page, index, &mut ends)?;
        cut(self.bytes.of(page), ends[0], ends[1])
    }

    pub(super) fn scan(
        &self,
        page: &[u8],
        range: Range<usize>,
        visit: &mut dyn FnMut(usize, &[u8]) -> bool,
    ) -> Result<(), Damage> {
        let bytes = self.bytes.of(page);
        let mut buffer = [0; BATCH + 1];
        let mut index = range.start;
        while index < range.end {
            let ends = &mut buffer[..(range.end - index).min(BATCH) + 1];
            read_ends(&self.ends, page, index, ends)?;
            for pair in ends.windows(2) {
                if !visit(index, cut(bytes, pair[0], pair[1])?) {
                    return Ok(());
                }
                index += 1;
            }
        }
        Ok(())
    }

    pub(super) fn heap_len(&self) -> usize {
        self.ends.heap_len()
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plain({}, {} bytes)", self.ends, self.bytes.len())
    }
}

/// The end before string `index` (0 for the first) and the ends of `out.len() - 1` strings from it.
pub(super) fn read_ends(
    ends: &Integers,
    page: &[u8],
    index: usize,
    out: &mut [u64],
) -> Result<(), Damage> {
    if index > 0 {
        return ends.read(page, index - 1, out);
    }
    match out.split_first_mut() {
        Some((before, rest)) => {
            *before = 0;
            ends.read(page, 0, rest)
        }
        None => Ok(()),
    }
}

/// `bytes[start..end]`, checked.
pub(super) fn cut(bytes: &[u8], start: u64, end: u64) -> Result<&[u8], Damage> {
    if end.wrapping_sub(start) > VALUE_LEN_MAX as u64 {
        return Err(TOO_LONG);
    }
    // Lossless below the length of any page; beyond it `get` finds nothing either way.
    let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(TOO_LONG);
    };
    bytes.get(start..end).ok_or(Damage("a byte string lies outside its section"))
}

pub(super) fn encode(strings: &StringBuffer, out: &mut Vec<u8>) {
    integers::encode(&strings.ends, TIER_ENDS, out);
    varint::write(strings.bytes.len() as u64, out);
    out.extend_from_slice(&strings.bytes);
}
