//! The codecs and their numbers. Numbers are stored in images: never renumber, only add.

use std::fmt;

/// How a frame's plain bytes are stored. The discriminant is the number in images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Codec {
    /// The plain bytes themselves.
    Stored = 0,
    /// Zstandard, RFC 8878, without magic number, content size, checksum and dictionary ID.
    Zstd = 1,
    /// One LZ4 block.
    Lz4 = 2,
    /// LZMA1: a properties byte, then the range coder's bytes without the first (always zero),
    /// without end marker.
    Lzma = 3,
    /// Brotli, RFC 7932, in the large window form where the lengths need it.
    Brotli = 4,
}

impl Codec {
    /// All codecs, in the order of their numbers.
    pub const ALL: [Codec; 5] =
        [Codec::Stored, Codec::Zstd, Codec::Lz4, Codec::Lzma, Codec::Brotli];

    /// Returns the codec with this number, or `None` for a number that this version does not know.
    pub const fn from_id(id: u8) -> Option<Codec> {
        match id {
            0 => Some(Codec::Stored),
            1 => Some(Codec::Zstd),
            2 => Some(Codec::Lz4),
            3 => Some(Codec::Lzma),
            4 => Some(Codec::Brotli),
            _ => None,
        }
    }

    /// The number in images.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Stored => "stored",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
            Codec::Lzma => "lzma",
            Codec::Brotli => "brotli",
        }
    }

    /// Returns the codec with this [`Codec::name`].
    pub fn from_name(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// How many bytes at the end of a prefix this codec can use. It ignores the rest of a longer
    /// prefix, so a caller may cut the prefix to this length, when encoding and when decoding.
    pub const fn prefix_len_max(self) -> usize {
        match self {
            Codec::Stored => 0,
            // An LZ4 match reaches back 65,535 bytes.
            Codec::Lz4 => 65_535,
            Codec::Zstd | Codec::Lzma | Codec::Brotli => PREFIX_LEN_MAX,
        }
    }
}

/// Longer prefixes are cut at their front. This is twice the longest prefix of an image, and small
/// enough that every library's 32-bit lengths hold prefix and frame.
const PREFIX_LEN_MAX: usize = 256 << 20;

/// The part of a prefix that the codec can use, which is its end. Both directions cut alike.
pub(crate) fn useful(codec: Codec, prefix: &[u8]) -> &[u8] {
    &prefix[prefix.len().saturating_sub(codec.prefix_len_max())..]
}

impl fmt::Display for Codec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_codec() {
        for codec in Codec::ALL {
            assert_eq!(Codec::from_id(codec.id()), Some(codec));
            assert_eq!(Codec::from_name(codec.name()), Some(codec));
        }
        assert_eq!(Codec::from_id(5), None);
        assert_eq!(Codec::from_id(255), None);
        assert_eq!(Codec::from_name("ZSTD"), None);
    }
}
