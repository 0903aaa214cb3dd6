//! The codecs and their ids. The ids are on disk: never renumber, only add.

use std::fmt;

use crate::CodecError;

/// How a frame's plain bytes are kept. The number is the id stored in images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Codec {
    /// The plain bytes themselves.
    Stored = 0,
    /// Zstandard, RFC 8878, without magic number, content size, checksum and dictionary id.
    Zstd = 1,
    /// One LZ4 block.
    Lz4 = 2,
    /// LZMA1: a properties byte, then the range coder's bytes without the first (always zero),
    /// without end marker.
    Lzma = 3,
    /// Brotli, RFC 7932, with large windows where the lengths ask for them.
    Brotli = 4,
}

impl Codec {
    /// All codecs, in the order of their ids.
    pub const ALL: [Codec; 5] =
        [Codec::Stored, Codec::Zstd, Codec::Lz4, Codec::Lzma, Codec::Brotli];

    /// The codec of a stored id, or `None` for an id that this version does not know.
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

    /// The id kept in images.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name used in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Stored => "stored",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
            Codec::Lzma => "lzma",
            Codec::Brotli => "brotli",
        }
    }

    /// The codec of a name, as [`Codec::name`] gives it.
    pub fn from_name(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// How many bytes at the end of a prefix can be of use to this codec. A caller may cut a
    /// longer prefix to this many bytes, on both sides alike; the codec does so itself.
    pub const fn prefix_len_max(self) -> usize {
        match self {
            Codec::Stored => 0,
            // An LZ4 match reaches back 65,535 bytes.
            Codec::Lz4 => 65_535,
            Codec::Zstd | Codec::Lzma | Codec::Brotli => PREFIX_LEN_MAX,
        }
    }
}

/// Prefixes longer than this are cut, from the front: four times the longest the design asks for,
/// and small enough that every library's 32-bit lengths hold prefix and frame.
const PREFIX_LEN_MAX: usize = 256 << 20;

/// The longest frame. Callers have lower limits of their own; this one keeps the libraries'
/// 32-bit lengths and window logarithms out of reach.
pub(crate) const FRAME_LEN_MAX: usize = 512 << 20;

/// The end of a prefix that the codec can use. Both directions cut alike.
pub(crate) fn useful(codec: Codec, prefix: &[u8]) -> &[u8] {
    &prefix[prefix.len().saturating_sub(codec.prefix_len_max())..]
}

/// Refuses frames that the libraries' lengths could not hold.
pub(crate) fn check_len(codec: Codec, frame_len: usize) -> Result<(), CodecError> {
    if codec != Codec::Stored && frame_len > FRAME_LEN_MAX {
        let (len, len_max) = (frame_len as u64, FRAME_LEN_MAX as u64);
        return Err(CodecError::TooLong { codec, len, len_max });
    }
    Ok(())
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
    fn ids_and_names_lead_back_to_their_codec() {
        for codec in Codec::ALL {
            assert_eq!(Codec::from_id(codec.id()), Some(codec));
            assert_eq!(Codec::from_name(codec.name()), Some(codec));
        }
        assert_eq!(Codec::from_id(5), None);
        assert_eq!(Codec::from_id(255), None);
        assert_eq!(Codec::from_name("ZSTD"), None);
    }
}
