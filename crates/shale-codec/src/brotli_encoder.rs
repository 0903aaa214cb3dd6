//! Encoding brotli, which no level does: it makes the images and streams that hold the decoder to
//! its word. Only in builds with the feature `brotli-encoder`.
//!
//! The output is decoded and compared before it is returned, which costs little next to encoding.
//! This is necessary: with a prefix, the two highest qualities of `brotli` 9.1 now and then write a
//! stream that no decoder takes (2 frames of 24 in a run over Python sources), or stop in the
//! middle (a length of a copy below 2). Such a frame is encoded again at quality 9, and failing
//! that without looking at the prefix, which decodes the same way. Qualities 0 and 1 find no
//! matches in a prefix.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::brotli::enc::StandardAlloc;
use ::brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};

use crate::brotli::{BrotliDecoder, CODEC, window_log};
use crate::lengths::reserve;
use crate::{CodecError, Settings};

/// The highest quality that has not been seen to write what does not decode.
const QUALITY_SOUND: u32 = 9;

/// The largest window without the large window extension.
const WINDOW_LOG_MAX_PLAIN: u32 = 24;

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
