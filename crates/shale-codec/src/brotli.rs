//! Decoding brotli, in Rust alone.
//!
//! A frame is an RFC 7932 stream whose window covers prefix and frame. Where that takes more than
//! 24 bits, it is a stream in the large window form (RFC 9841). A prefix is attached as a raw
//! dictionary, as in RFC 9841: its bytes are at distances just beyond the start of the frame, and
//! the built-in dictionary is beyond those.
//!
//! The decoder refuses a window larger than prefix and frame need, so a damaged frame cannot decide
//! how much memory is used.

use brotli_decompressor::{
    BrotliDecompressStreamWithDictionary, BrotliResult, BrotliState, StandardAlloc,
};

use crate::lengths::{reserve, wrong_len};
use crate::{Codec, CodecError};

pub(crate) const CODEC: Codec = Codec::Brotli;

/// The fastest qualities write at least this window.
const WINDOW_LOG_MIN_FAST: u32 = 18;

/// Brotli's windows are this much shorter than a power of two.
const WINDOW_GAP: usize = 16;

/// The logarithm of the smallest window that covers `len` bytes.
pub(crate) fn window_log(len: usize) -> u32 {
    ((len + WINDOW_GAP) as u64).next_power_of_two().ilog2().clamp(10, 30)
}

/// Keeps nothing from frame to frame.
pub(crate) struct BrotliDecoder;

impl BrotliDecoder {
    pub(crate) fn decode(
        &self,
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let window_log_max = window_log(prefix.len() + plain_len).max(WINDOW_LOG_MIN_FAST);
        match claimed_window_log(stored) {
            Some(claimed) if claimed <= window_log_max => {}
            Some(claimed) => {
                return Err(corrupt(&format!(
                    "a window of {claimed} bits is more than the {window_log_max} of this frame"
                )));
            }
            None => return Err(corrupt("no window size")),
        }
        reserve(CODEC, plain_len, out)?;
        let start = out.len();
        out.resize(start + plain_len, 0);
        let mut state = BrotliState::new(
            StandardAlloc::default(),
            StandardAlloc::default(),
            StandardAlloc::default(),
        );
        if !prefix.is_empty() && !state.attach_external_dictionary(prefix.len()) {
            return Err(corrupt("the prefix is too long"));
        }
        let (mut stored_rest, mut stored_offset) = (stored.len(), 0);
        let (mut room_rest, mut plain_offset) = (plain_len, 0);
        let mut written_len = 0;
        let result = BrotliDecompressStreamWithDictionary(
            &mut stored_rest,
            &mut stored_offset,
            stored,
            &mut room_rest,
            &mut plain_offset,
            &mut out[start..],
            &mut written_len,
            prefix,
            &mut state,
        );
        match result {
            BrotliResult::ResultSuccess if stored_rest != 0 => {
                Err(corrupt("bytes follow the end of the stream"))
            }
            BrotliResult::ResultSuccess if plain_offset != plain_len => {
                Err(wrong_len(CODEC, plain_len, plain_offset))
            }
            BrotliResult::ResultSuccess => Ok(()),
            BrotliResult::NeedsMoreInput => Err(corrupt("the frame ends early")),
            BrotliResult::NeedsMoreOutput => Err(corrupt("the frame is longer than expected")),
            BrotliResult::ResultFailure => Err(corrupt("not a brotli stream")),
        }
    }
}

/// The window that a stream claims in its first bits (RFC 7932, section 9.1; for the large window
/// extension the pattern reserved there and six bits more).
fn claimed_window_log(stored: &[u8]) -> Option<u32> {
    let first = u32::from(*stored.first()?);
    if first & 1 == 0 {
        return Some(16);
    }
    match (first >> 1 & 7, first >> 4 & 7) {
        (0, 0) => Some(17),
        (0, 1) => {
            let second = u32::from(*stored.get(1)?);
            (first & 0x80 == 0).then_some(second & 0x3F)
        }
        (0, bits) => Some(8 + bits),
        (bits, _) => Some(17 + bits),
    }
}

fn corrupt(detail: &str) -> CodecError {
    CodecError::Corrupt { codec: CODEC, detail: detail.to_owned() }
}
