//! Bits in bytes, the lowest bit of a byte first, and the codes of small numbers made of them.
//!
//! Reading beyond the end gives zeroes; [`BitReader::is_at_end`] tells at the end whether exactly
//! the given bytes were used.

/// Bits that [`BitReader::word`] gives at least.
pub(crate) const WORD_BITS: u32 = 57;

/// Returns a mask of the lowest `count` bits, at most 63.
#[inline(always)]
pub(crate) fn mask(count: u32) -> u64 {
    (1u64 << count) - 1
}

/// Signed numbers as unsigned ones: 0, −1, 1, −2, 2 and so on.
#[inline(always)]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline(always)]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads bits from front to back.
#[derive(Debug, Clone)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position of the next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next bits, at least [`WORD_BITS`], without using them.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        let at = self.at >> 3;
        let word = match self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.last_word(at),
        };
        word >> (self.at & 7)
    }

    #[cold]
    fn last_word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        let rest = self.bytes.get(at..).unwrap_or_default();
        word[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
        u64::from_le_bytes(word)
    }

    #[inline(always)]
    pub(crate) fn skip(&mut self, count: u32) {
        self.at += count as usize;
    }

    /// Returns whether more bits were used than there are.
    pub(crate) fn is_beyond_end(&self) -> bool {
        self.at > self.bytes.len() * 8
    }

    /// Returns whether all bytes were used, and the bits after the last one in its byte are zero.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && self.word() & mask(7) == 0
    }

    /// Uses `count` bits, at most 64.
    pub(crate) fn bits(&mut self, count: u32) -> u64 {
        if count > 32 {
            let low = self.bits(32);
            return low | self.bits(count - 32) << 32;
        }
        let value = self.word() & mask(count);
        self.skip(count);
        value
    }

    /// Reads a number of the exponential Golomb code of order `order`, which is below 16. Returns
    /// `None` if more than 32 zeroes begin the code.
    pub(crate) fn golomb(&mut self, order: u32) -> Option<u64> {
        let zeroes = self.word().trailing_zeros();
        if zeroes > 32 {
            return None;
        }
        self.skip(zeroes + 1);
        let count = zeroes + order;
        let value = self.bits(count) | 1 << count;
        Some(value - (1 << order))
    }
}

/// Writes bits from front to back.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    pub(crate) bytes: Vec<u8>,
    word: u64,
    count: u32,
}

impl BitWriter {
    /// Appends the lowest `count` bits of `value`, at most 64; the others are zero.
    pub(crate) fn bits(&mut self, value: u64, count: u32) {
        if count > 32 {
            self.bits(value & mask(32), 32);
            return self.bits(value >> 32, count - 32);
        }
        self.word |= value << self.count;
        self.count += count;
        if self.count >= 32 {
            self.bytes.extend_from_slice(&(self.word as u32).to_le_bytes());
            self.word >>= 32;
            self.count -= 32;
        }
    }

    /// Appends a number below 2^32 in the exponential Golomb code of this order.
    pub(crate) fn golomb(&mut self, value: u64, order: u32) {
        let value = value + (1 << order);
        let count = value.ilog2();
        self.bits(1 << (count - order), count - order + 1);
        self.bits(value & mask(count), count);
    }

    /// Ends the last byte.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let rest = self.word.to_le_bytes();
        self.bytes.extend_from_slice(&rest[..self.count.div_ceil(8) as usize]);
        self.bytes
    }
}

/// Bits of a number in the exponential Golomb code of this order.
pub(crate) fn golomb_len(value: u64, order: u32) -> u32 {
    let count = (value + (1 << order)).ilog2();
    2 * count - order + 1
}
