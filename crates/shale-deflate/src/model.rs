//! The models: which encoder, with which settings.
//!
//! A model is stored as one number, so that a table of chunks needs one column for it.

use crate::error::DeflateError;

/// An encoder whose output can be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoder {
    /// zlib of Gailly and Adler, 1.2.0 to 1.3.1, levels 1 to 9.
    Zlib = 1,
    /// GNU gzip, 1.2.4 to 1.13, levels 1 to 9.
    Gzip = 2,
    /// zlib of Chromium, 1.2.13 to 1.3.1, as node links it, levels 1 to 9.
    Chromium = 3,
}

/// The search of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Strategy {
    /// `Z_DEFAULT_STRATEGY`.
    Default = 0,
    /// `Z_FILTERED`: short matches are not used.
    Filtered = 1,
    /// `Z_HUFFMAN_ONLY`: no matches.
    HuffmanOnly = 2,
    /// `Z_RLE`: only matches of distance 1.
    Rle = 3,
    /// `Z_FIXED`: no dynamic trees.
    Fixed = 4,
}

/// An encoder and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Model {
    /// Which encoder.
    pub encoder: Encoder,
    /// Level, 1 to 9.
    pub level: u8,
    /// Logarithm of the window's length, 9 to 15.
    pub window_bits: u8,
    /// Memory level, 1 to 9. Always 8 for GNU gzip, which has no such setting.
    pub memory_level: u8,
    /// Strategy. Always the default one for GNU gzip.
    pub strategy: Strategy,
}

/// What a container says of its streams: which level to try first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The slowest level was used.
    Slowest,
    /// The fastest level was used.
    Fastest,
}

/// Numbers of one level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// From this length of the last match on, a quarter of the chain is searched.
    pub(crate) good: usize,
    /// From this length of the last match on, none is searched; with the fast search, longer
    /// matches are not inserted.
    pub(crate) lazy: usize,
    /// A match of this length ends the search.
    pub(crate) nice: usize,
    /// Most matches that are compared.
    pub(crate) chain: u32,
    /// Matches are taken at once.
    pub(crate) is_fast: bool,
}

const fn effort(good: usize, lazy: usize, nice: usize, chain: u32, is_fast: bool) -> Effort {
    Effort { good, lazy, nice, chain, is_fast }
}

const EFFORTS: [Effort; 9] = [
    effort(4, 4, 8, 4, true),
    effort(4, 5, 16, 8, true),
    effort(4, 6, 32, 32, true),
    effort(4, 4, 16, 16, false),
    effort(8, 16, 32, 32, false),
    effort(8, 16, 128, 128, false),
    effort(8, 32, 128, 256, false),
    effort(32, 128, 258, 1024, false),
    effort(32, 258, 258, 4096, false),
];

impl Model {
    /// zlib with a window of 32 KiB and the default strategy.
    pub const fn zlib(level: u8, memory_level: u8) -> Self {
        Self {
            encoder: Encoder::Zlib,
            level,
            window_bits: 15,
            memory_level,
            strategy: Strategy::Default,
        }
    }

    /// GNU gzip.
    pub const fn gzip(level: u8) -> Self {
        Self { encoder: Encoder::Gzip, ..Self::zlib(level, 8) }
    }

    /// Chromium's zlib with a window of 32 KiB and the default strategy.
    pub const fn chromium(level: u8, memory_level: u8) -> Self {
        Self { encoder: Encoder::Chromium, ..Self::zlib(level, memory_level) }
    }

    /// The number of this model: encoder in bits 0–7, level in 8–11, memory level in 12–15, window
    /// bits in 16–19, strategy in 20–23.
    pub fn number(self) -> u64 {
        u64::from(self.encoder as u8)
            | u64::from(self.level) << 8
            | u64::from(self.memory_level) << 12
            | u64::from(self.window_bits) << 16
            | u64::from(self.strategy as u8) << 20
    }

    /// The model with this number.
    ///
    /// # Errors
    /// There is none.
    pub fn from_number(number: u64) -> Result<Self, DeflateError> {
        let part = |shift: u32| (number >> shift & 15) as u8;
        let encoder = match number & 255 {
            1 => Encoder::Zlib,
            2 => Encoder::Gzip,
            3 => Encoder::Chromium,
            _ => return Err(DeflateError::UnknownModel(number)),
        };
        let strategy = match part(20) {
            0 => Strategy::Default,
            1 => Strategy::Filtered,
            2 => Strategy::HuffmanOnly,
            3 => Strategy::Rle,
            4 => Strategy::Fixed,
            _ => return Err(DeflateError::UnknownModel(number)),
        };
        let model = Self {
            encoder,
            level: part(8),
            memory_level: part(12),
            window_bits: part(16),
            strategy,
        };
        let is_gzip_as_such = encoder != Encoder::Gzip || model == Self::gzip(model.level);
        if number >> 24 != 0
            || !(1..=9).contains(&model.level)
            || !(1..=9).contains(&model.memory_level)
            || !(9..=15).contains(&model.window_bits)
            || !is_gzip_as_such
        {
            return Err(DeflateError::UnknownModel(number));
        }
        Ok(model)
    }

    /// Most plain bytes before a chunk that its rebuilding depends on: 32 KiB, and twice that for
    /// the fast search, which has to find out what it had inserted.
    pub fn window_needed(self) -> u64 {
        if self.effort().is_fast { 64 << 10 } else { 32 << 10 }
    }

    pub(crate) fn effort(self) -> Effort {
        EFFORTS[usize::from(self.level.clamp(1, 9)) - 1]
    }

    /// Length of the window.
    pub(crate) fn window_len(self) -> usize {
        1 << self.window_bits
    }

    /// Farthest distance of a match: the window less the longest match and what it looks ahead.
    pub(crate) fn distance_max(self) -> usize {
        self.window_len() - crate::tables::LOOKAHEAD_MIN
    }

    /// Symbols after which a block ends.
    pub(crate) fn block_symbols_max(self) -> usize {
        match self.encoder {
            Encoder::Gzip => (1 << 15) - 1,
            Encoder::Zlib | Encoder::Chromium => (1 << (self.memory_level + 6)) - 1,
        }
    }

    pub(crate) fn hash_bits(self) -> u32 {
        let bits = u32::from(self.memory_level) + 7;
        match self.encoder {
            Encoder::Zlib | Encoder::Gzip => bits,
            Encoder::Chromium => bits.max(15),
        }
    }
}
