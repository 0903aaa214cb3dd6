//! One door for decompressing with any codec; the stored bytes are not trusted.
//!
//! Whatever the stored bytes are, a call ends with exactly the asked number of bytes or an error.
//! Memory is bounded by the lengths the caller gives, never by what the stored bytes claim, so
//! the caller bounds those lengths. Bytes that decode are not thereby right: the caller's
//! checksum says that.

use crate::brotli::BrotliDecoder;
use crate::encoder::append;
use crate::lz4::Lz4Decoder;
use crate::lzma::LzmaDecoder;
use crate::zstd::ZstdDecoder;
use crate::{Codec, CodecError};

/// Decompresses frames of any codec. One per thread; it can be sent between threads.
///
/// Libraries' contexts are made when first needed and kept. Besides `out`, it holds about 160 KiB
/// for zstd, nothing for LZ4, and for LZMA a copy of the last prefix and frame; during a call for
/// brotli, three times prefix and frame and 4 MiB at the very most.
#[derive(Debug, Default)]
pub struct Decoder {
    zstd: Option<ZstdDecoder>,
    lzma: LzmaDecoder,
}

impl Decoder {
    /// Prepares a decoder; costs nothing.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Appends to `out` the `plain_len` bytes that `stored` stands for, given the prefix it was
    /// encoded with.
    ///
    /// # Errors
    /// The stored bytes are not such a frame, or decode to another length, or there is no
    /// memory; `out` is then as it was.
    pub fn decode(
        &mut self,
        codec: Codec,
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let prefix = crate::codec::useful(codec, prefix);
        crate::codec::check_len(codec, plain_len)?;
        let start = out.len();
        let result = match codec {
            Codec::Stored if stored.len() != plain_len => {
                Err(wrong_len(codec, plain_len, stored.len()))
            }
            Codec::Stored => append(codec, stored, out),
            Codec::Zstd => match &mut self.zstd {
                Some(decoder) => decoder.decode(prefix, stored, plain_len, out),
                none => {
                    let decoder = none.insert(ZstdDecoder::new()?);
                    decoder.decode(prefix, stored, plain_len, out)
                }
            },
            Codec::Lz4 => Lz4Decoder.decode(prefix, stored, plain_len, out),
            Codec::Lzma => self.lzma.decode(prefix, stored, plain_len, out),
            Codec::Brotli => BrotliDecoder.decode(prefix, stored, plain_len, out),
        };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

/// The error of a frame whose length is not the one asked for.
pub(crate) fn wrong_len(codec: Codec, expected: usize, found: usize) -> CodecError {
    CodecError::WrongLength { codec, expected: expected as u64, found: found as u64 }
}
