//! Brotli, both directions, in Rust alone.
//!
//! A frame is an RFC 7932 stream whose window covers prefix and frame. Where that takes more than
//! 24 bits, it is a stream in the large window form (RFC 9841). A prefix is attached as a raw
//! dictionary, as in RFC 9841: its bytes are at distances just beyond the start of the frame, and
//! the built-in dictionary is beyond those.
//!
//! An encoder's output is decoded and compared before it is returned, which costs little next to
//! encoding. This is necessary: with a prefix, the two highest qualities of
//! `brotli` 9.1 now and then write a stream that no decoder takes (2 frames of 24 in a run over
//! Python sources), or stop in the middle (a length of a copy below 2). Such a frame is encoded
//! again at quality 9, and failing that without looking at the prefix, which decodes the same way.
//!
//! The decoder refuses a window larger than prefix and frame need, so a damaged frame cannot decide
//! how much memory is used. Qualities 0 and 1 find no matches in a prefix.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::brotli::enc::StandardAlloc;
use ::brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use brotli_decompressor::{BrotliDecompressStreamWithDictionary, BrotliResult, BrotliState};

use crate::lengths::{reserve, wrong_len};
use crate::{Codec, CodecError, Settings};

const CODEC: Codec = Codec::Brotli;

/// The fastest qualities write at least this window.
const WINDOW_LOG_MIN_FAST: u32 = 18;

/// The highest quality that has not been seen to write what does not decode.
const QUALITY_SOUND: u32 = 9;

/// The largest window without the large window extension.
const WINDOW_LOG_MAX_PLAIN: u32 = 24;

/// Brotli's windows are this much shorter than a power of two.
const WINDOW_GAP: usize = 16;

#[derive(Debug)]
pub(crate) struct BrotliEncoder {
    settings: Settings,
    /// What the last output decoded to, kept for its memory.
    decoded: Vec<u8>,
}

impl BrotliEncoder {
    pub(crate) fn new(settings: Settings) -> BrotliEncoder {
        BrotliEncoder { settings, decoded: Vec::new() }
    }

    pub(crate) fn encode(
        &mut self,
        prefix: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        let quality = self.settings.level.unsigned_abs();
        let attempts = [(quality, true), (quality.min(QUALITY_SOUND), true), (quality, false)];
        for (quality, is_prefix_searched) in attempts {
            // Nothing of the library's state is used after a panic.
            let attempt =
                AssertUnwindSafe(|| compress(quality, prefix, is_prefix_searched, plain, out));
            if let Ok(result) = catch_unwind(attempt) {
                result?;
                self.decoded.clear();
                let result =
                    BrotliDecoder.decode(prefix, &out[start..], plain.len(), &mut self.decoded);
                if result.is_ok() && self.decoded == plain {
                    return Ok(());
                }
                if let Err(error @ CodecError::OutOfMemory { .. }) = result {
                    return Err(error);
                }
            }
            out.truncate(start);
        }
        let detail = "the library's output does not decode".to_owned();
        Err(CodecError::Encode { codec: CODEC, detail })
    }
}

/// Appends a stream for `plain`, to be decoded with `prefix` attached.
fn compress(
    quality: u32,
    prefix: &[u8],
    is_prefix_searched: bool,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let window_log = window_log(prefix.len() + plain.len());
    let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
    for (parameter, value) in [
        (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality),
        (
            BrotliEncoderParameter::BROTLI_PARAM_LARGE_WINDOW,
            u32::from(window_log > WINDOW_LOG_MAX_PLAIN),
        ),
        (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window_log),
        (BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, plain.len() as u32),
    ] {
        if !state.set_parameter(parameter, value) {
            return Err(refusal());
        }
    }
    if !prefix.is_empty() {
        // An empty one still turns the built-in dictionary off, whose place in the distances
        // depends on the prefix.
        let searched = if is_prefix_searched { prefix } else { &[] };
        state.set_custom_dictionary(searched.len(), searched);
    }
    let mut rest_len = plain.len();
    let mut plain_offset = 0;
    let mut room = plain.len() / 2 + 64;
    loop {
        let start = out.len();
        reserve(CODEC, room, out)?;
        out.resize(start + room, 0);
        let mut room_rest = room;
        let mut written_len = 0;
        let is_taken = state.compress_stream(
            BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
            &mut rest_len,
            plain,
            &mut plain_offset,
            &mut room_rest,
            &mut out[start..],
            &mut written_len,
            &mut None,
            &mut |_, _, _, _| (),
        );
        out.truncate(start + written_len);
        if !is_taken {
            return Err(refusal());
        }
        if state.is_finished() {
            return Ok(());
        }
        if room_rest > 0 && rest_len == 0 && !state.has_more_output() {
            // Neither finished nor in need of anything is a bug of the library, and no endless
            // loop.
            return Err(refusal());
        }
        room = plain.len() / 4 + 64;
    }
}

fn refusal() -> CodecError {
    CodecError::Encode { codec: CODEC, detail: "the encoder stopped".to_owned() }
}

/// The logarithm of the smallest window that covers `len` bytes.
fn window_log(len: usize) -> u32 {
    ((len + WINDOW_GAP) as u64).next_power_of_two().ilog2().clamp(10, 30)
}

pub(crate) fn encoder_memory_len(settings: &Settings, frame_len: usize, prefix_len: usize) -> u64 {
    let window_len = 1u64 << window_log(frame_len + prefix_len);
    // The hash tables of the library's match finders; the two highest qualities have trees in
    // their place, of a word or so for each byte of the window, and costs of a block.
    let tables_len = match settings.level {
        0..=4 => 2 << 20,
        5..=8 => 16 << 20,
        9 => 36 << 20,
        _ => 4 * window_len + (20 << 20),
    };
    // A ring buffer of twice the window, and what the output is decoded to.
    2 * window_len + tables_len + frame_len as u64
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
