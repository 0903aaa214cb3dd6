//! A straight line: value `i` is `base + i * step`, wrapping at 64 bits.
//!
//! Layout: `base` varint, `step` zigzag varint.

use std::fmt;

use crate::{
    error::Damage,
    varint::{self, Reader},
};

#[derive(Debug)]
pub(crate) struct Linear {
    base: u64,
    step: u64,
}

impl Linear {
    pub(super) fn parse(reader: &mut Reader) -> Result<Self, Damage> {
        Ok(Self { base: reader.varint()?, step: varint::unzigzag(reader.varint()?) })
    }

    pub(super) fn get(&self, index: usize) -> u64 {
        self.base.wrapping_add(self.step.wrapping_mul(index as u64))
    }

    pub(super) fn read(&self, first: usize, out: &mut [u64]) {
        let mut next = self.get(first);
        for value in out {
            *value = next;
            next = next.wrapping_add(self.step);
        }
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linear {:+}", self.step as i64)
    }
}

pub(super) fn encode(base: u64, step: u64, out: &mut Vec<u8>) {
    varint::write(base, out);
    varint::write(varint::zigzag(step), out);
}
