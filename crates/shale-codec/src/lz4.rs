//! LZ4, both directions: one raw block per frame.
//!
//! A match reaches back 65,535 bytes, so only the end of a long prefix is used. Level 0 is the fast
//! compressor, levels 2 to 12 are the high compression one. They decode alike.

use std::fmt;

use crate::lengths::{append, reserve, wrong_len};
use crate::lz4_sys::{Compressor, bound, decompress};
use crate::{Codec, CodecError, Settings};

const CODEC: Codec = Codec::Lz4;

pub(crate) struct Lz4Encoder {
    compressor: Compressor,
    /// Prefix and frame end to end, kept for its memory.
    joined: Vec<u8>,
}

impl Lz4Encoder {
    pub(crate) fn new(settings: Settings) -> Result<Lz4Encoder, CodecError> {
        let compressor = Compressor::new(settings.level);
        let no_memory = CodecError::OutOfMemory { codec: CODEC, len: stream_len(&settings) };
        Ok(Lz4Encoder { compressor: compressor.ok_or(no_memory)?, joined: Vec::new() })
    }

    pub(crate) fn encode(
        &mut self,
        prefix: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        // LZ4 gives other results when the prefix happens to end where the frame starts. Copying
        // makes that always so.
        let joined = if prefix.is_empty() {
            plain
        } else {
            self.joined.clear();
            reserve(CODEC, prefix.len() + plain.len(), &mut self.joined)?;
            append(CODEC, prefix, &mut self.joined)?;
            append(CODEC, plain, &mut self.joined)?;
            &self.joined
        };
        let refusal =
            || CodecError::Encode { codec: CODEC, detail: "the block is too long".to_owned() };
        let room = bound(plain.len()).ok_or_else(refusal)?;
        reserve(CODEC, room, out)?;
        self.compressor.compress(joined, prefix.len(), out, room).ok_or_else(refusal)
    }
}

/// The sizes of the library's two kinds of stream.
fn stream_len(settings: &Settings) -> u64 {
    if settings.level == 0 { 16 << 10 } else { 256 << 10 }
}

pub(crate) fn encoder_memory_len(settings: &Settings, frame_len: usize, prefix_len: usize) -> u64 {
    let joined_len = if prefix_len == 0 { 0 } else { frame_len + prefix_len };
    joined_len as u64 + stream_len(settings)
}

impl fmt::Debug for Lz4Encoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Lz4Encoder")
    }
}

/// Needs no memory of its own.
pub(crate) struct Lz4Decoder;

impl Lz4Decoder {
    pub(crate) fn decode(
        &self,
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        reserve(CODEC, plain_len, out)?;
        match decompress(prefix, stored, out, plain_len) {
            Some(len) if len == plain_len => Ok(()),
            Some(len) => Err(wrong_len(CODEC, plain_len, len)),
            None => {
                let detail = "not a block, or longer than expected".to_owned();
                Err(CodecError::Corrupt { codec: CODEC, detail })
            }
        }
    }
}
