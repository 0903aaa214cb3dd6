//! Fixed width: value `i` is `min + scale * code[i]`, wrapping at 64 bits, codes of `width` bits.
//!
//! Layout: `min` varint, `scale` varint, `width` byte (0 to 64), then the codes (see
//! [`crate::bitpack`]). The scale is the greatest common divisor of all distances to the minimum,
//! so that sizes in whole blocks or times in whole seconds do not pay for their zeros.

use std::fmt;

use crate::{
    bitpack,
    error::Damage,
    varint::{self, Reader, Span},
};

#[derive(Debug)]
pub(crate) struct Packed {
    min: u64,
    scale: u64,
    width: u32,
    codes: Span,
}

impl Packed {
    pub(super) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let min = reader.varint()?;
        let scale = reader.varint()?;
        let width = u32::from(reader.byte()?);
        if width > 64 {
            return Err(Damage("packed values are wider than 64 bits"));
        }
        let codes = reader.span(bitpack::packed_len(count, width))?;
        Ok(Self { min, scale, width, codes })
    }

    pub(super) fn get(&self, page: &[u8], index: usize) -> Result<u64, Damage> {
        let code = bitpack::get(page, self.codes.start(), index, self.width)?;
        Ok(self.min.wrapping_add(self.scale.wrapping_mul(code)))
    }

    pub(super) fn read(&self, page: &[u8], first: usize, out: &mut [u64]) -> Result<(), Damage> {
        bitpack::read(page, self.codes.start(), first, self.width, out)?;
        for value in out {
            *value = self.min.wrapping_add(self.scale.wrapping_mul(*value));
        }
        Ok(())
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packed {} bits", self.width)?;
        if self.scale > 1 { write!(f, " x {}", self.scale) } else { Ok(()) }
    }
}

pub(super) fn encode(values: &[u64], out: &mut Vec<u8>) {
    let min = values.iter().copied().min().unwrap_or(0);
    let mut scale = 0;
    let mut reach = 0;
    for value in values {
        let distance = value - min;
        reach = reach.max(distance);
        if scale != 1 {
            scale = gcd(scale, distance);
        }
    }
    let scale = scale.max(1);
    let width = bitpack::width_of(reach / scale);
    varint::write(min, out);
    varint::write(scale, out);
    out.push(width as u8);
    if scale == 1 {
        bitpack::write(values.iter().map(|value| value - min), width, out);
    } else {
        bitpack::write(values.iter().map(|value| (value - min) / scale), width, out);
    }
}

/// As [`encode`], with codes of whole bytes, and values as they are where they take no more of
/// them: longer, but a compressor sees what repeats in the page, and from page to page.
pub(super) fn encode_in_bytes(values: &[u64], out: &mut Vec<u8>) {
    let min = values.iter().copied().min().unwrap_or(0);
    let max = values.iter().copied().max().unwrap_or(0);
    let width_in_bytes = |reach: u64| bitpack::width_of(reach).next_multiple_of(8);
    let width = width_in_bytes(max - min);
    let base = if width_in_bytes(max) == width { 0 } else { min };
    varint::write(base, out);
    varint::write(1, out);
    out.push(width as u8);
    bitpack::write(values.iter().map(|value| value - base), width, out);
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
