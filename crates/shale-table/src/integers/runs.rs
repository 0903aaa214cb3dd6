//! Pieces: a column cut where it stops being constant or linear.
//!
//! Piece `k` holds values `starts[k] .. starts[k + 1]`; value `i` of it is `bases[k] + steps[k] *
//! (i - starts[k])`, wrapping at 64 bits. `starts[0]` is 0 and starts ascend. Plain runs of equal
//! values are the case where all steps are 0; then `steps` is one byte.
//!
//! Layout: `count` varint (1 to the number of values); `starts` as an integer section of tier 0, so
//! that finding a piece is a binary search by single loads; `bases` of the tier below; `steps`, of
//! tier 1 at most.

use std::fmt;

use super::part::{Part, TIER_BLOCKS, TIER_FLAT, Tier};
use crate::{
    bitpack,
    error::Damage,
    varint::{self, Reader},
};

#[derive(Debug)]
pub(crate) struct Runs<P> {
    count: usize,
    starts: P,
    bases: P,
    steps: P,
}

const OUT_OF_ORDER: Damage = Damage("run starts do not ascend from 0");

impl<P: Part> Runs<P> {
    pub(super) fn parse(reader: &mut Reader, count: usize, tier: Tier) -> Result<Self, Damage> {
        let run_count = reader.varint_max(count, "there are more runs than values")?;
        if run_count == 0 {
            return Err(Damage("there are no runs"));
        }
        let starts = P::parse(reader, run_count, TIER_FLAT)?;
        // Now, as a search and a walk would not see the same: some nanoseconds a run.
        let mut least = 0;
        for run in 0..run_count {
            let start = starts.get(reader.page(), run)?;
            if start < least || run == 0 && start > 0 {
                return Err(OUT_OF_ORDER);
            }
            least = start.checked_add(1).ok_or(OUT_OF_ORDER)?;
        }
        Ok(Self {
            count: run_count,
            starts,
            bases: P::parse(reader, run_count, tier - 1)?,
            steps: P::parse(reader, run_count, TIER_BLOCKS)?,
        })
    }

    /// The run that holds `index`, and its start.
    fn find(&self, page: &[u8], index: usize) -> Result<(usize, u64), Damage> {
        let (mut low, mut high) = (0, self.count);
        let mut start = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let candidate = self.starts.get(page, middle)?;
            if candidate <= index as u64 {
                start = Some(candidate);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low.wrapping_sub(1), start.ok_or(OUT_OF_ORDER)?))
    }

    pub(super) fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        let (run, start) = self.find(page, index)?;
        let base = self.bases.get(page, run)?;
        let step = self.steps.get(page, run)?;
        Ok(base.wrapping_add(step.wrapping_mul(index as u64 - start)))
    }

    pub(super) fn read(
        &self,
        page: &[u8],
        first: usize,
        mut out: &mut [u64],
    ) -> Result<(), Damage> {
        if out.is_empty() {
            return Ok(());
        }
        let mut index = first as u64;
        let (mut run, mut start) = self.find(page, first)?;
        loop {
            let end = match run + 1 < self.count {
                true => self.starts.get(page, run + 1)?,
                false => u64::MAX,
            };
            if end <= index {
                return Err(OUT_OF_ORDER);
            }
            let base = self.bases.get(page, run)?;
            let step = self.steps.get(page, run)?;
            let len = (end - index).min(out.len() as u64) as usize;
            let (head, tail) = out.split_at_mut(len);
            let mut next = base.wrapping_add(step.wrapping_mul(index - start));
            for value in head {
                *value = next;
                next = next.wrapping_add(step);
            }
            out = tail;
            if out.is_empty() {
                return Ok(());
            }
            index = end;
            start = end;
            run += 1;
        }
    }

    pub(super) fn heap_len(&self) -> usize {
        self.starts.heap_len() + self.bases.heap_len() + self.steps.heap_len()
    }
}

impl<P: Part> fmt::Display for Runs<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs({}, {}, {})", self.count, self.starts, self.bases, self.steps)
    }
}

/// False if the section would be longer than `len_max`. Greedy: a piece takes as long as the step
/// between its first two values lasts, but a step that would last for two values only and breaks
/// an equal neighbour apart is left to the next piece.
pub(super) fn encode<P: Part>(
    values: &[u64],
    tier: Tier,
    len_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    // Starts alone cost this much each, in bits.
    let start_width = bitpack::width_of(values.len() as u64) as usize;
    let count_max = len_max * 8 / start_width;
    let (mut starts, mut bases, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < values.len() {
        if starts.len() > count_max {
            return false;
        }
        let (len, step) = piece(&values[at..]);
        starts.push(at as u64);
        bases.push(values[at]);
        steps.push(step);
        at += len;
    }
    // A piece of one value may have any step: take its neighbour's, so that steps stay alike.
    for k in 1..steps.len() {
        let end = starts.get(k + 1).copied().unwrap_or(values.len() as u64);
        if end - starts[k] == 1 {
            steps[k] = steps[k - 1];
        }
    }
    varint::write(starts.len() as u64, out);
    P::encode(&starts, TIER_FLAT, out);
    P::encode(&bases, tier - 1, out);
    P::encode(&steps, TIER_BLOCKS, out);
    true
}

/// Length and step of the piece at the start of `values`.
fn piece(values: &[u64]) -> (usize, u64) {
    let step_at = |i: usize| values[i + 1].wrapping_sub(values[i]);
    if values.len() < 2 {
        return (1, 0);
    }
    let step = step_at(0);
    let mut len = 2;
    while len < values.len() && step_at(len - 1) == step {
        len += 1;
    }
    // Two values make no line: if the second starts a longer piece, it belongs there.
    if len == 2 && step != 0 && values.len() > 3 && step_at(1) == step_at(2) {
        return (1, step);
    }
    (len, step)
}
