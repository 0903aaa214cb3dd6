//! Decompressing with any codec. The stored bytes are not trusted.
//!
//! Whatever the stored bytes are, a call gives exactly the asked number of bytes or an error.
//! Memory is bounded by the lengths that the caller gives, never by what the stored bytes claim;
//! so the caller has to bound these lengths. Damaged bytes may decode: only the caller's checksum
//! tells that they are right.

use crate::array;
#[cfg(feature = "brotli")]
use crate::brotli::BrotliDecoder;
use crate::lengths::{FRAME_LEN_MAX, append, check_len, reserve, wrong_len};
use crate::lines;
use crate::lz4::Lz4Decoder;
use crate::lzma::LzmaDecoder;
use crate::samples;
use crate::zstd::ZstdDecoder;
use crate::{ArrayShape, Codec, CodecError, Filter};

/// The memory of a longer lines form is freed after the call.
const FORM_KEPT_LEN_MAX: usize = 4 << 20;

/// Decompresses frames of any codec. Use one for each thread; it can be sent between threads.
///
/// Contexts of libraries are made when they are first needed, and kept. Memory besides `out`:
///
/// - zstd: about 160 KiB. LZ4: none. LZMA: a copy of the last prefix and frame.
/// - brotli: during a call at most three times prefix and frame, and 4 MiB.
/// - lines: the last lines form, up to 4 MiB. During a call up to seven times the form, which is
///   at most as long as the frame. Arrays: a form that is as long as the frame.
/// - samples: four bytes for each sample, or eight if it has eight, as much again for rows, and at
///   most 512 KiB for tables.
#[derive(Debug, Default)]
pub struct Decoder {
    zstd: Option<ZstdDecoder>,
    lzma: LzmaDecoder,
    /// The last lines form that was decoded, for its memory.
    form: Vec<u8>,
}

impl Decoder {
    /// Prepares a decoder. Costs nothing.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Appends to `out` the `plain_len` bytes that `stored` decodes to with the prefix that it was
    /// encoded with.
    ///
    /// # Errors
    /// The stored bytes are not a frame of this codec, decode to another length, or there is no
    /// memory. `out` is then unchanged.
    pub fn decode(
        &mut self,
        codec: Codec,
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let prefix = crate::codec::useful(codec, prefix);
        check_len(codec, plain_len)?;
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
            #[cfg(feature = "brotli")]
            Codec::Brotli => BrotliDecoder.decode(prefix, stored, plain_len, out),
            #[cfg(not(feature = "brotli"))]
            Codec::Brotli => Err(CodecError::NotBuilt { codec }),
        };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Like [`Decoder::decode`], for a frame with a filter. The prefix must be filtered already
    /// ([`Filter::apply`]), and be empty for a filter that does not work in place.
    ///
    /// # Errors
    /// As for [`Decoder::decode`], or the form is damaged. `out` is then unchanged.
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
            return Err(corrupt(&format!("a frame with the filter {filter} has references")));
        }
        if plain_len > FRAME_LEN_MAX {
            return Err(corrupt(&format!("a frame with the filter {filter} is too long")));
        }
        reserve(codec, plain_len, out)?;
        let mut form = std::mem::take(&mut self.form);
        form.clear();
        let result = if filter == Filter::Samples {
            self.decode_samples(codec, stored, plain_len, &mut form, out)
        } else if filter == Filter::Array {
            match ArrayShape::split(stored) {
                None => Err(corrupt("the shape of the array is not defined")),
                Some((shape, stored)) => self
                    .decode(codec, prefix, stored, plain_len, &mut form)
                    .map(|()| array::undo(shape, &form, out)),
            }
        } else {
            match lines::split_len(stored, plain_len) {
                None => Err(corrupt("the length of the lines form is wrong")),
                Some((form_len, stored)) => {
                    self.decode(codec, prefix, stored, form_len, &mut form).and_then(|()| {
                        lines::decode(&form, plain_len, out)
                            .map_err(|fault| corrupt(&format!("lines: {fault}")))
                    })
                }
            }
        };
        // A huge frame must not hold its memory for good.
        self.form = if form.capacity() <= FORM_KEPT_LEN_MAX { form } else { Vec::new() };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Appends samples and the bytes around them.
    fn decode_samples(
        &mut self,
        codec: Codec,
        stored: &[u8],
        plain_len: usize,
        rest: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let corrupt = |detail: &str| CodecError::Corrupt { codec, detail: detail.to_owned() };
        let (header, payload, stored) = samples::Header::split(stored, plain_len)
            .ok_or_else(|| corrupt("the header of the samples is not defined"))?;
        let rest_len = plain_len - header.samples_len();
        if rest_len > 0 {
            self.decode(codec, &[], stored, rest_len, rest)?;
        } else if !stored.is_empty() {
            return Err(corrupt("bytes follow the samples"));
        }
        let (head, tail) = rest.split_at(header.head_len);
        out.extend_from_slice(head);
        samples::decode(&header, payload, out)
            .map_err(|fault| corrupt(&format!("samples: {fault}")))?;
        out.extend_from_slice(tail);
        Ok(())
    }
}
