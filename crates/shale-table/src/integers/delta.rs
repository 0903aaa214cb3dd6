//! Differences, with a checkpoint each 64 values: value `i` is `checkpoints[i / 64]` plus the
//! deltas of the values after that checkpoint up to `i`, wrapping at 64 bits.
//!
//! Two tags: in a *rising* section a delta is the plain difference to the value before; in a
//! *zigzag* section it is the zigzag-coded signed difference.
//!
//! Layout: `checkpoints`, an integer section of tier 1 with one value for each 64; `deltas`, of the
//! tier below (2 at most when written), with one value for each value. The deltas at checkpoints
//! are not used: the writer repeats the second delta as the first, and else writes the real ones.

use std::fmt;

use super::{
    packed,
    part::{Part, TAG_DELTA_RISING, TAG_DELTA_ZIGZAG, TAG_PACKED, TIER_BLOCKS, TIER_RUNS, Tier},
};
use crate::{
    error::Damage,
    varint::{self, Reader},
};

const BLOCK_VALUES: usize = 64;

/// How differences are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    Rising,
    Zigzag,
}

impl Sign {
    pub(super) fn tag(self) -> u8 {
        match self {
            Self::Rising => TAG_DELTA_RISING,
            Self::Zigzag => TAG_DELTA_ZIGZAG,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Delta<P> {
    sign: Sign,
    checkpoints: P,
    deltas: P,
}

impl<P: Part> Delta<P> {
    pub(super) fn parse(
        reader: &mut Reader,
        count: usize,
        tier: Tier,
        sign: Sign,
    ) -> Result<Self, Damage> {
        Ok(Self {
            sign,
            checkpoints: P::parse(reader, count.div_ceil(BLOCK_VALUES), TIER_BLOCKS)?,
            deltas: P::parse(reader, count, tier - 1)?,
        })
    }

    fn difference(&self, delta: u64) -> u64 {
        match self.sign {
            Sign::Rising => delta,
            Sign::Zigzag => varint::unzigzag(delta),
        }
    }

    pub(super) fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        let block = index / BLOCK_VALUES;
        let checkpoint = self.checkpoints.get(page, block)?;
        let mut buffer = [0; BLOCK_VALUES];
        let deltas = &mut buffer[..index % BLOCK_VALUES];
        self.deltas.read(page, block * BLOCK_VALUES + 1, deltas)?;
        let sum = deltas.iter().map(|&delta| self.difference(delta)).fold(0, u64::wrapping_add);
        Ok(checkpoint.wrapping_add(sum))
    }

    pub(super) fn read(
        &self,
        page: &[u8],
        mut first: usize,
        mut out: &mut [u64],
    ) -> Result<(), Damage> {
        let mut buffer = [0; BLOCK_VALUES];
        while !out.is_empty() {
            let block = first / BLOCK_VALUES;
            let within = first % BLOCK_VALUES;
            let (head, tail) = out.split_at_mut(out.len().min(BLOCK_VALUES - within));
            let deltas = &mut buffer[..within + head.len() - 1];
            self.deltas.read(page, block * BLOCK_VALUES + 1, deltas)?;
            let mut value = self.checkpoints.get(page, block)?;
            for &delta in &deltas[..within] {
                value = value.wrapping_add(self.difference(delta));
            }
            head[0] = value;
            for (slot, &delta) in head[1..].iter_mut().zip(&deltas[within..]) {
                value = value.wrapping_add(self.difference(delta));
                *slot = value;
            }
            first += head.len();
            out = tail;
        }
        Ok(())
    }

    pub(super) fn heap_len(&self) -> usize {
        self.checkpoints.heap_len() + self.deltas.heap_len()
    }
}

impl<P: Part> fmt::Display for Delta<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.sign == Sign::Rising { "rising" } else { "zigzag" };
        write!(f, "{sign} delta({}, {})", self.checkpoints, self.deltas)
    }
}

/// Rising if no value is below the one before it.
pub(super) fn sign_of(values: &[u64]) -> Sign {
    if values.is_sorted() { Sign::Rising } else { Sign::Zigzag }
}

/// False if the section would be longer than `len_max`. Needs at least two values.
pub(super) fn encode<P: Part>(
    values: &[u64],
    sign: Sign,
    tier: Tier,
    len_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    encode_checkpoints::<P>(values, out);
    if out.len() >= len_max {
        return false;
    }
    P::encode(&deltas(values, sign), (tier - 1).min(TIER_RUNS), out);
    true
}

/// As [`encode`], with deltas of whole bytes, however long that is.
pub(super) fn encode_in_bytes<P: Part>(values: &[u64], sign: Sign, out: &mut Vec<u8>) {
    encode_checkpoints::<P>(values, out);
    out.push(TAG_PACKED);
    packed::encode_in_bytes(&deltas(values, sign), out);
}

fn encode_checkpoints<P: Part>(values: &[u64], out: &mut Vec<u8>) {
    let checkpoints: Vec<u64> = values.iter().copied().step_by(BLOCK_VALUES).collect();
    P::encode(&checkpoints, TIER_BLOCKS, out);
}

/// One delta for each of at least two values.
fn deltas(values: &[u64], sign: Sign) -> Vec<u64> {
    let differences = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    let mut deltas = Vec::with_capacity(values.len());
    deltas.push(0);
    match sign {
        Sign::Rising => deltas.extend(differences),
        Sign::Zigzag => deltas.extend(differences.map(varint::zigzag)),
    }
    deltas[0] = deltas[1];
    deltas
}
