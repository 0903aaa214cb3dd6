//! Bits in and out, lowest first.

use crate::error::DeflateError;

/// Appends bits to bytes.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    pub(crate) bytes: Vec<u8>,
    held: u64,
    held_count: u32,
}

impl BitWriter {
    /// Begins with the lowest `count` bits of `bits`, fewer than 8.
    pub(crate) fn starting(bits: u8, count: u8) -> Self {
        Self { bytes: Vec::new(), held: u64::from(bits), held_count: u32::from(count) }
    }

    /// Appends the lowest `count` bits of `bits`, at most 16; its other bits are zero.
    pub(crate) fn put(&mut self, bits: u32, count: u32) {
        self.held |= u64::from(bits) << self.held_count;
        self.held_count += count;
        if self.held_count >= 32 {
            self.bytes.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.held_count -= 32;
        }
    }

    /// Moves all whole bytes out of the held bits.
    pub(crate) fn settle(&mut self) {
        while self.held_count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.held_count -= 8;
        }
    }

    /// Fills the last byte with zero bits.
    pub(crate) fn align(&mut self) {
        self.settle();
        if self.held_count > 0 {
            self.bytes.push(self.held as u8);
        }
        self.held = 0;
        self.held_count = 0;
    }

    /// The bits after the last whole byte, and how many. Call `settle` first.
    pub(crate) fn rest(&self) -> (u8, u8) {
        (self.held as u8, self.held_count as u8)
    }
}

/// Takes bits from bytes.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next byte to hold.
    at: usize,
    held: u64,
    held_count: u32,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, held: 0, held_count: 0 }
    }

    /// Holds at least 32 bits, or all that are left.
    pub(crate) fn refill(&mut self) {
        if self.held_count >= 32 {
            return;
        }
        if let Some(four) = self.bytes.get(self.at..self.at + 4) {
            let four = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            self.held |= u64::from(four) << self.held_count;
            self.held_count += 32;
            self.at += 4;
            return;
        }
        while self.held_count <= 32 && self.at < self.bytes.len() {
            self.held |= u64::from(self.bytes[self.at]) << self.held_count;
            self.held_count += 8;
            self.at += 1;
        }
    }

    /// The next bits without taking them; zeroes after the end.
    pub(crate) fn peek(&self) -> u64 {
        self.held
    }

    /// Takes `count` of the held bits.
    pub(crate) fn skip(&mut self, count: u32) -> Result<(), DeflateError> {
        if count > self.held_count {
            return Err(DeflateError::Truncated);
        }
        self.held >>= count;
        self.held_count -= count;
        Ok(())
    }

    /// Takes up to 16 bits.
    pub(crate) fn take(&mut self, count: u32) -> Result<usize, DeflateError> {
        self.refill();
        let bits = self.held & ((1 << count) - 1);
        self.skip(count)?;
        Ok(bits as usize)
    }

    /// Position in bits.
    pub(crate) fn position(&self) -> u64 {
        self.at as u64 * 8 - u64::from(self.held_count)
    }

    /// Goes on at the next whole byte and returns `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DeflateError> {
        let start = self.position().div_ceil(8) as usize;
        let end = start.checked_add(len).ok_or(DeflateError::Truncated)?;
        let bytes = self.bytes.get(start..end).ok_or(DeflateError::Truncated)?;
        (self.at, self.held, self.held_count) = (end, 0, 0);
        Ok(bytes)
    }
}
