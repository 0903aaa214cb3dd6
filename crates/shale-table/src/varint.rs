//! Variable-length integers, and a reader that walks a page's headers without ever leaving it.
//!
//! A varint is LEB128: seven bits a byte, lowest first, the high bit set on all bytes but the last;
//! at most ten bytes, and a value beyond 64 bits is damage. Signed values are zigzag-coded first.

use crate::error::Damage;

/// Appends `value`.
pub fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint from the front of `bytes`, which are shorter than 4 GiB. `None` if they do not
/// begin with one of 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut reader = Reader::new(bytes);
    let value = reader.varint().ok()?;
    *bytes = &bytes[reader.at()..];
    Some(value)
}

/// Maps small signed values, given as wrapped 64-bit ones, to small unsigned values.
pub(crate) fn zigzag(value: u64) -> u64 {
    (value << 1) ^ ((value as i64) >> 63) as u64
}

/// Undoes [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// A part of a page. Pages are far below 4 GiB, so 32 bits do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// The bytes; empty if the span is not of this page.
    pub(crate) fn of<'p>(&self, page: &'p [u8]) -> &'p [u8] {
        let start = self.start as usize;
        page.get(start..start + self.len as usize).unwrap_or_default()
    }

    pub(crate) fn start(&self) -> usize {
        self.start as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

/// Reads a page's headers from front to back.
pub(crate) struct Reader<'p> {
    page: &'p [u8],
    at: usize,
}

impl<'p> Reader<'p> {
    /// Starts at the page's first byte. The page must be shorter than 4 GiB.
    pub(crate) fn new(page: &'p [u8]) -> Self {
        debug_assert!(page.len() < u32::MAX as usize);
        Self { page, at: 0 }
    }

    pub(crate) fn page(&self) -> &'p [u8] {
        self.page
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.page.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damage> {
        let byte = *self.page.get(self.at).ok_or(Damage("it ends inside a header"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage("a varint is longer than 64 bits"))
    }

    /// A varint that may be at most `max`.
    pub(crate) fn varint_max(&mut self, max: usize, what: &'static str) -> Result<usize, Damage> {
        let value = self.varint()?;
        if value > max as u64 {
            return Err(Damage(what));
        }
        Ok(value as usize)
    }

    /// The next `len` bytes, which must lie inside the page.
    pub(crate) fn span(&mut self, len: usize) -> Result<Span, Damage> {
        if len > self.page.len() - self.at {
            return Err(Damage("a section is longer than what is left of the page"));
        }
        let span = Span { start: self.at as u32, len: len as u32 };
        self.at += len;
        Ok(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            let bits = 64 - value.leading_zeros() as usize;
            prop_assert_eq!(bytes.len(), bits.max(1).div_ceil(7));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_at_end());
            bytes.push(7);
            let mut rest = &bytes[..];
            prop_assert_eq!((take(&mut rest), rest), (Some(value), &[7][..]));
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn varints_beyond_64_bits_are_damage() {
        let mut bytes = [0xff; 10];
        bytes[9] = 0x02;
        assert!(Reader::new(&bytes).varint().is_err());
        bytes[9] = 0x01;
        assert_eq!(Reader::new(&bytes).varint(), Ok(u64::MAX));
        assert!(Reader::new(&[0x80; 11]).varint().is_err());
        assert!(Reader::new(&[0x80; 3]).varint().is_err());
        assert_eq!(take(&mut &[0x80; 3][..]), None);
    }

    #[test]
    fn zigzag_keeps_small_magnitudes_small() {
        assert_eq!([0u64, u64::MAX, 1, u64::MAX - 1].map(zigzag), [0, 1, 2, 3]);
    }
}
