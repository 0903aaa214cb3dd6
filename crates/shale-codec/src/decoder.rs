//! One door for decompressing with any codec; the stored bytes are not trusted.
//!
//! Whatever the stored bytes are, a call ends with exactly the asked number of bytes or an error.
//! Memory is bounded by the lengths the caller gives, never by what the stored bytes claim, so
//! the caller bounds those lengths. Bytes that decode are not thereby right: the caller's
//! checksum says that.

use crate::brotli::BrotliDecoder;
use crate::codec::FRAME_LEN_MAX;
use crate::encoder::{append, reserve};
use crate::lines;
use crate::lz4::Lz4Decoder;
use crate::lzma::LzmaDecoder;
use crate::zstd::ZstdDecoder;
use crate::{Codec, CodecError, Filter};

/// A longer form of lines is given back when it is decoded.
const FORM_KEPT_LEN_MAX: usize = 4 << 20;

/// Decompresses frames of any codec. One per thread; it can be sent between threads.
///
/// Libraries' contexts are made when first needed and kept. Besides `out`, it holds about 160 KiB
/// for zstd, nothing for LZ4, and for LZMA a copy of the last prefix and frame; during a call for
/// brotli, three times prefix and frame and 4 MiB at the very most; and of frames of lines the last
/// one's form, up to 4 MiB. During a call it is the form, which is not longer than the frame, and
/// up to six times as much.
#[derive(Debug, Default)]
pub struct Decoder {
    zstd: Option<ZstdDecoder>,
    lzma: LzmaDecoder,
    /// What was decoded of a frame of lines.
    form: Vec<u8>,
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

    /// As [`Decoder::decode`], of a frame with a filter; the prefix is filtered alike
    /// ([`Filter::apply`]), and empty for a filter that does not work in place.
    ///
    /// # Errors
    /// As for [`Decoder::decode`], or the filter's form is damaged; `out` is then as it was.
    pub fn decode_filtered(
        &mut self,
        (codec, filter): (Codec, Filter),
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        if filter.is_in_place() {
            self.decode(codec, prefix, stored, plain_len, out)?;
            filter.reverse(&mut out[start..]);
            return Ok(());
        }
        let corrupt = |detail: &str| CodecError::Corrupt { codec, detail: detail.to_owned() };
        if !prefix.is_empty() {
            return Err(corrupt("a frame of lines has references"));
        }
        if plain_len > FRAME_LEN_MAX {
            return Err(corrupt("a frame of lines is too long"));
        }
        reserve(codec, plain_len, out)?;
        let Some((form_len, stored)) = lines::split_len(stored, plain_len) else {
            return Err(corrupt("the length of the lines' form is wrong"));
        };
        let mut form = std::mem::take(&mut self.form);
        form.clear();
        let result = self.decode(codec, prefix, stored, form_len, &mut form).and_then(|()| {
            lines::decode(&form, plain_len, out)
                .map_err(|fault| corrupt(&format!("lines: {fault}")))
        });
        // One huge frame must not stay in memory for good.
        self.form = if form.capacity() <= FORM_KEPT_LEN_MAX { form } else { Vec::new() };
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
