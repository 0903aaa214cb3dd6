//! Front coding: a string is the part that it shares with the one before, and the rest. After each
//! interval, a string is stored as a whole (a restart), so that a string can be rebuilt from the
//! restart before it.
//!
//! Layout: `interval` byte (1 to 64); `shared`, an integer section of tier 1, the bytes each string
//! shares with the one before (0 at restarts, which are the strings whose index is a multiple of
//! the interval); `ends`, of tier 3, where each string's rest ends (see [`super::plain`]); then the
//! rests' length, varint, and the rests.
//!
//! Lengths and rests are stored apart: lengths pack into a few bits, and rests compress better as
//! text. Random access reads at most one interval; search is a binary search over the
//! restarts and a scan of one interval that rebuilds nothing: it follows how much of the key the
//! string before matched.

use std::{cmp::Ordering, fmt, ops::Range};

use super::{
    buffer::{StringBuffer, TOO_LONG, shared_len},
    plain,
};
use crate::{
    error::Damage,
    integers::{self, Integers},
    limits::{PAGE_PLAIN_LEN_MAX, VALUE_LEN_MAX},
    varint::{self, Reader, Span},
};

const TIER_SHARED: integers::Tier = 1;
const TIER_ENDS: integers::Tier = 3;
const INTERVAL_MAX: usize = 64;
/// The interval of the writer. Measured on names of a root file system: 16 costs 1.5 % more bytes
/// after compression, 64 saves 0.8 %, and a string's cost grows with the interval.
const INTERVAL: usize = 32;

#[derive(Debug)]
pub(crate) struct Front {
    interval: usize,
    shared: Integers,
    ends: Integers,
    rests: Span,
}

/// The headers of up to one interval of strings.
struct Window<'p> {
    rests: &'p [u8],
    shared: [u64; INTERVAL_MAX],
    ends: [u64; INTERVAL_MAX + 1],
}

impl<'p> Window<'p> {
    /// What string `i` of the window shares with the one before it, and its rest.
    fn get(&self, i: usize) -> Result<(usize, &'p [u8]), Damage> {
        let rest = plain::cut(self.rests, self.ends[i], self.ends[i + 1])?;
        let shared = self.shared[i].min(usize::MAX as u64) as usize;
        Ok((shared, rest))
    }
}

impl Front {
    pub(super) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let interval = usize::from(reader.byte()?);
        if !(1..=INTERVAL_MAX).contains(&interval) {
            return Err(Damage("the restart interval is not 1 to 64"));
        }
        let shared = Integers::parse(reader, count, TIER_SHARED)?;
        let ends = Integers::parse(reader, count, TIER_ENDS)?;
        let len = reader.varint_max(PAGE_PLAIN_LEN_MAX, "strings are longer than a page")?;
        Ok(Self { interval, shared, ends, rests: reader.span(len)? })
    }

    /// The headers of `range`, at most one interval long.
    fn window<'p>(&self, page: &'p [u8], range: Range<usize>) -> Result<Window<'p>, Damage> {
        let mut window = Window {
            rests: self.rests.of(page),
            shared: [0; INTERVAL_MAX],
            ends: [0; INTERVAL_MAX + 1],
        };
        let len = range.len().min(INTERVAL_MAX);
        self.shared.read(page, range.start, &mut window.shared[..len])?;
        plain::read_ends(&self.ends, page, range.start, &mut window.ends[..len + 1])?;
        Ok(window)
    }

    fn restart<'p>(&self, page: &'p [u8], index: usize) -> Result<&'p [u8], Damage> {
        let mut ends = [0; 2];
        plain::read_ends(&self.ends, page, index, &mut ends)?;
        plain::cut(self.rests.of(page), ends[0], ends[1])
    }

    /// A restart lies in the page; any other string is rebuilt in `scratch`.
    pub(super) fn find<'p>(
        &self,
        page: &'p [u8],
        index: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<&'p [u8]>, Damage> {
        let within = index % self.interval;
        if within == 0 {
            return self.restart(page, index).map(Some);
        }
        let window = self.window(page, index - within..index + 1)?;
        for i in 0..=within {
            let (shared, rest) = window.get(i)?;
            extend(scratch, if i == 0 { 0 } else { shared }, rest)?;
        }
        Ok(None)
    }

    pub(super) fn scan(
        &self,
        page: &[u8],
        range: Range<usize>,
        visit: &mut dyn FnMut(usize, &[u8]) -> bool,
    ) -> Result<(), Damage> {
        let mut string = Vec::new();
        let mut index = range.start - range.start % self.interval;
        while index < range.end {
            let group = index..range.end.min(index + self.interval);
            let window = self.window(page, group.clone())?;
            for i in 0..group.len() {
                let (shared, rest) = window.get(i)?;
                extend(&mut string, if i == 0 { 0 } else { shared }, rest)?;
                if index >= range.start && !visit(index, &string) {
                    return Ok(());
                }
                index += 1;
            }
        }
        Ok(())
    }

    pub(super) fn search(
        &self,
        page: &[u8],
        range: Range<usize>,
        key: &[u8],
    ) -> Result<Result<usize, usize>, Damage> {
        if range.is_empty() {
            return Ok(Err(range.start));
        }
        // Groups whose restart lies in the range; the strings before the first such restart are the
        // tail of a group whose restart need not be in order with the range.
        let first_group = range.start.div_ceil(self.interval);
        let (mut low, mut high) = (first_group, range.end.div_ceil(self.interval));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.restart(page, middle * self.interval)?.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle * self.interval)),
                Ordering::Greater => high = middle,
            }
        }
        // The restart of group `low`, if there is one, is above the key; the one before, below.
        let end = range.end.min(low * self.interval);
        let start = if low > first_group { (low - 1) * self.interval } else { range.start };
        if start >= end {
            return Ok(Err(start));
        }
        self.search_group(page, start..end, key)
    }

    /// Searches inside one group.
    fn search_group(
        &self,
        page: &[u8],
        range: Range<usize>,
        key: &[u8],
    ) -> Result<Result<usize, usize>, Damage> {
        let mut scratch = Vec::new();
        let first = self.find(page, range.start, &mut scratch)?.unwrap_or(&scratch);
        match first.cmp(key) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(Ok(range.start)),
            Ordering::Greater => return Ok(Err(range.start)),
        }
        // The string before is below the key and shares `matched` bytes with it.
        let mut matched = shared_len(first, key);
        let rest_range = range.start + 1..range.end;
        let window = self.window(page, rest_range.clone())?;
        for (i, index) in rest_range.enumerate() {
            let (shared, rest) = window.get(i)?;
            match shared.cmp(&matched) {
                // Equal to the string before beyond where that fell below the key.
                Ordering::Greater => continue,
                // Above the string before, where that still matched the key.
                Ordering::Less => return Ok(Err(index)),
                Ordering::Equal => {}
            }
            let key_rest = key.get(matched..).unwrap_or_default();
            match rest.cmp(key_rest) {
                Ordering::Less => matched += shared_len(rest, key_rest),
                Ordering::Equal => return Ok(Ok(index)),
                Ordering::Greater => return Ok(Err(index)),
            }
        }
        Ok(Err(range.end))
    }

    pub(super) fn heap_len(&self) -> usize {
        self.shared.heap_len() + self.ends.heap_len()
    }
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "front({}, {}, {} bytes)", self.shared, self.ends, self.rests.len())
    }
}

/// Makes the next string out of the one before.
fn extend(string: &mut Vec<u8>, shared: usize, rest: &[u8]) -> Result<(), Damage> {
    if shared > string.len() {
        return Err(Damage("a string shares more than the string before it has"));
    }
    if shared + rest.len() > VALUE_LEN_MAX {
        return Err(TOO_LONG);
    }
    string.truncate(shared);
    string.extend_from_slice(rest);
    Ok(())
}

pub(super) fn encode(strings: &StringBuffer, out: &mut Vec<u8>) {
    let mut shared = Vec::with_capacity(strings.len());
    let mut ends = Vec::with_capacity(strings.len());
    let mut rests = Vec::with_capacity(strings.bytes.len());
    let mut before: &[u8] = &[];
    for (index, string) in strings.iter().enumerate() {
        let len = if index % INTERVAL == 0 { 0 } else { shared_len(before, string) };
        shared.push(len as u64);
        rests.extend_from_slice(&string[len..]);
        ends.push(rests.len() as u64);
        before = string;
    }
    out.push(INTERVAL as u8);
    integers::encode(&shared, TIER_SHARED, out);
    integers::encode(&ends, TIER_ENDS, out);
    varint::write(rests.len() as u64, out);
    out.extend_from_slice(&rests);
}
