//! Decoding a frame up to where it is wanted, and going on later.
//!
//! Zstd stops between its blocks, which are at most 128 KiB long; LZMA stops anywhere. A filter for
//! machine code is undone up to the last place where what follows has no influence. Other codecs
//! decode whole frames only, and so do the filters that change the order of bytes.
//!
//! What is decoded is what [`Decoder`] would decode. Stored bytes that end badly are noticed where
//! they end: a caller that needs to know whether all of the frame is right has to decode it whole.

use std::fmt;

#[cfg(doc)]
use crate::Decoder;
use crate::lengths::{check_len, reserve};
use crate::lzma::LzmaSteps;
use crate::zstd_sys::BlockDecoder;
use crate::{Codec, CodecError, Filter, Prefix};

/// A frame that is decoded up to some place. Holds the decoder's state, the prefix and the stored
/// bytes.
pub struct Partial {
    filter: Filter,
    codec: Codec,
    plain_len: usize,
    coder: Coder,
    /// The decoded bytes with the filter undone; empty without a filter.
    undone: Vec<u8>,
}

enum Coder {
    Zstd(BlockDecoder),
    Lzma(LzmaSteps),
}

impl Partial {
    /// Returns whether frames of this codec and filter can be decoded in part.
    pub const fn is_possible(codec: Codec, filter: Filter) -> bool {
        matches!(codec, Codec::Zstd | Codec::Lzma) && filter.is_in_place()
    }

    /// Bytes that are decoded if `len` bytes of a frame of `plain_len` are wanted, as far as the
    /// codec tells. More may be decoded, for a filter or in small blocks.
    pub const fn step_len(codec: Codec, len: usize, plain_len: usize) -> usize {
        let len = match codec {
            Codec::Zstd => len.div_ceil(ZSTD_BLOCK_LEN).saturating_mul(ZSTD_BLOCK_LEN),
            _ => len,
        };
        if len < plain_len { len } else { plain_len }
    }

    /// Bytes of memory that a frame takes while it is decoded in part, at most.
    pub fn memory_len_max(
        (codec, filter): (Codec, Filter),
        prefix_len: usize,
        stored_len: usize,
        plain_len: usize,
    ) -> usize {
        let coder_len = match codec {
            Codec::Lzma => LZMA_LEN + prefix_len + plain_len,
            _ => ZSTD_LEN,
        };
        let undone_len = if filter == Filter::None { 0 } else { plain_len };
        coder_len + prefix_len + stored_len + plain_len + undone_len
    }

    /// Prepares for decoding a frame, whose stored bytes are not trusted. Decodes nothing yet. The
    /// prefix must be filtered already ([`Filter::apply`]).
    ///
    /// # Errors
    /// This codec with this filter decodes whole frames only, or memory is exhausted.
    pub fn new(
        (codec, filter): (Codec, Filter),
        prefix: Prefix,
        stored: Vec<u8>,
        plain_len: usize,
    ) -> Result<Partial, CodecError> {
        check_len(codec, plain_len)?;
        let no_memory = || CodecError::OutOfMemory { codec, len: plain_len as u64 };
        let mut plain = Vec::new();
        reserve(codec, plain_len, &mut plain)?;
        let coder = match codec {
            _ if !Partial::is_possible(codec, filter) => {
                let detail = "such frames are not decoded in part".to_owned();
                return Err(CodecError::Corrupt { codec, detail });
            }
            Codec::Lzma => Coder::Lzma(LzmaSteps::new(&prefix, stored, plain, plain_len)?),
            _ => {
                let prefix_len_max = codec.prefix_len_max();
                let made = BlockDecoder::new(prefix, prefix_len_max, stored, plain, plain_len);
                Coder::Zstd(made.ok_or_else(no_memory)?)
            }
        };
        let mut undone = Vec::new();
        if filter != Filter::None {
            reserve(codec, plain_len, &mut undone)?;
        }
        Ok(Partial { filter, codec, plain_len, coder, undone })
    }

    /// The plain bytes so far.
    pub fn bytes(&self) -> &[u8] {
        match self.filter {
            Filter::None => self.coder.plain(),
            _ => &self.undone,
        }
    }

    /// Number of bytes decoded, which is at least that of [`Partial::bytes`].
    pub fn decoded_len(&self) -> usize {
        self.coder.plain().len()
    }

    /// Decodes until there are at least `len` plain bytes, or all.
    ///
    /// # Errors
    /// The stored bytes are not a frame of this codec, as far as they had to be decoded. Then
    /// nothing more can be decoded. What there was before is still as it was.
    pub fn advance(&mut self, len: usize) -> Result<(), CodecError> {
        let len = len.min(self.plain_len);
        let mut wanted_len = len;
        while self.bytes().len() < len {
            self.coder.advance(self.codec, wanted_len)?;
            if self.filter == Filter::None {
                continue;
            }
            let (filtered, start) = (self.coder.plain(), self.undone.len());
            let end = match filtered.len() == self.plain_len {
                true => self.plain_len,
                false => self.filter.last_cut(filtered, start),
            };
            // Where no cut was found, twice as much is looked at next.
            let more_len = (filtered.len() - end).max(CUT_STEP_LEN);
            wanted_len = filtered.len().saturating_add(more_len).min(self.plain_len);
            self.undone.extend_from_slice(&filtered[start..end]);
            self.filter.reverse_part(&mut self.undone[start..], start);
        }
        Ok(())
    }

    /// Returns whether all of the frame is decoded, and nothing is left over.
    pub fn is_complete(&self) -> bool {
        self.bytes().len() == self.plain_len && self.coder.is_complete()
    }

    /// The plain bytes so far, without the rest.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.filter {
            Filter::None => self.coder.into_plain(),
            _ => self.undone,
        }
    }

    /// Bytes of memory in use, without those of a shared prefix.
    pub fn memory_len(&self) -> usize {
        self.coder.memory_len() + self.undone.capacity()
    }
}

/// The longest block of zstd.
const ZSTD_BLOCK_LEN: usize = 128 << 10;
/// Bytes that are decoded beyond a place where a filter could not be undone.
const CUT_STEP_LEN: usize = 4 << 10;
/// A context of zstd, rounded up.
const ZSTD_LEN: usize = 192 << 10;
/// A decoder of LZMA without its dictionary, rounded up.
const LZMA_LEN: usize = 64 << 10;

impl Coder {
    fn plain(&self) -> &[u8] {
        match self {
            Coder::Zstd(coder) => coder.plain(),
            Coder::Lzma(coder) => coder.plain(),
        }
    }

    fn advance(&mut self, codec: Codec, len: usize) -> Result<(), CodecError> {
        match self {
            Coder::Zstd(coder) => coder.advance(len).map_err(|code| {
                let detail = zstd_safe::get_error_name(code).to_owned();
                CodecError::Corrupt { codec, detail }
            }),
            Coder::Lzma(coder) => coder.advance(len),
        }
    }

    fn is_complete(&self) -> bool {
        match self {
            Coder::Zstd(coder) => coder.is_complete(),
            Coder::Lzma(coder) => coder.is_complete(),
        }
    }

    fn into_plain(self) -> Vec<u8> {
        match self {
            Coder::Zstd(coder) => coder.into_plain(),
            Coder::Lzma(coder) => coder.into_plain(),
        }
    }

    fn memory_len(&self) -> usize {
        match self {
            Coder::Zstd(coder) => coder.memory_len(),
            Coder::Lzma(coder) => coder.memory_len(),
        }
    }
}

impl fmt::Debug for Partial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Partial")
            .field("codec", &self.codec)
            .field("filter", &self.filter)
            .field("decoded_len", &self.decoded_len())
            .field("plain_len", &self.plain_len)
            .finish()
    }
}
