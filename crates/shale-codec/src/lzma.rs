//! LZMA, both directions: one LZMA1 stream per frame.
//!
//! The first byte of a range coder is always zero, and a decoder must know three numbers (the bits
//! of context). So the first byte of a frame holds these numbers instead of the zero, as
//! `(pb * 5 + lp) * 9 + lc`, and the rest of the range coder's bytes follow. There is no header,
//! end marker or sum: the image knows lengths and keeps its own sums. The dictionary is as long as
//! prefix and frame together, on both sides.
//!
//! LZMA1 and not LZMA2: of frames of 64 to 256 KiB, LZMA2 made those of text and of programs up to
//! 0.03 % larger, by its chunk headers. It made frames of mixed text and compressed files up to
//! 0.5 % smaller, because it stores chunks that do not compress; images keep such files apart.

use std::fmt;

use crate::lengths::{reserve, wrong_len};
use crate::lzma_sys::{End, Parameters, Stream};
use crate::{Codec, CodecError, Settings};

const CODEC: Codec = Codec::Lzma;

/// LZMA's shortest dictionary.
const DICTIONARY_LEN_MIN: usize = 4096;

pub(crate) struct LzmaEncoder {
    settings: Settings,
    stream: Stream,
}

impl LzmaEncoder {
    pub(crate) fn new(settings: Settings) -> Result<LzmaEncoder, CodecError> {
        Ok(LzmaEncoder { settings, stream: Stream::new() })
    }

    pub(crate) fn encode(
        &mut self,
        prefix: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let parameters = parameters(&self.settings, prefix.len() + plain.len());
        let start = out.len();
        self.stream
            .start_encoder(&parameters, prefix)
            .map_err(|end| encode_error(&end, &parameters))?;
        let mut rest = plain;
        // Enough for most frames. Bytes that do not compress need a little more than their length.
        let mut room = plain.len() / 2 + 64;
        loop {
            reserve(CODEC, room, out)?;
            match self.stream.run(&mut rest, true, out, room) {
                End::Whole { .. } => break,
                End::NoRoom => room = plain.len() / 2 + 64,
                end => return Err(encode_error(&end, &parameters)),
            }
        }
        match out.get_mut(start) {
            Some(first @ 0) => {
                *first = parameters.properties();
                Ok(())
            }
            _ => Err(encode_error(&End::Damaged, &parameters)),
        }
    }
}

fn encode_error(end: &End, parameters: &Parameters) -> CodecError {
    match end {
        End::NoMemory => {
            CodecError::OutOfMemory { codec: CODEC, len: parameters.encoder_len().unwrap_or(0) }
        }
        end => CodecError::Encode { codec: CODEC, detail: format!("liblzma: {end:?}") },
    }
}

/// The parameters of these settings for a prefix and frame of `total_len` bytes.
fn parameters(settings: &Settings, total_len: usize) -> Parameters {
    let options = &settings.lzma;
    Parameters {
        dictionary_len: dictionary_len(total_len),
        literal_context_bits: options.literal_context_bits.unwrap_or(3),
        literal_position_bits: options.literal_position_bits.unwrap_or(0),
        position_bits: options.position_bits.unwrap_or(2),
        preset: settings.level.unsigned_abs(),
        extreme: options.extreme,
        nice_len: options.nice_len,
        match_finder: options.match_finder,
        search_depth: options.search_depth,
    }
}

fn dictionary_len(total_len: usize) -> u32 {
    // Lengths are limited before they come here; at worst liblzma refuses the length.
    u32::try_from(total_len.max(DICTIONARY_LEN_MIN)).unwrap_or(u32::MAX)
}

impl Parameters {
    /// The first byte of a frame.
    fn properties(&self) -> u8 {
        let properties =
            (self.position_bits * 5 + self.literal_position_bits) * 9 + self.literal_context_bits;
        // At most (4 * 5 + 4) * 9 + 4.
        properties as u8
    }

    /// The parameters in the first byte of a frame, for the decoder. `None` for a byte that no
    /// encoder writes.
    fn from_properties(properties: u8, total_len: usize) -> Option<Parameters> {
        let properties = u32::from(properties);
        let parameters = Parameters {
            dictionary_len: dictionary_len(total_len),
            literal_context_bits: properties % 9,
            literal_position_bits: properties / 9 % 5,
            position_bits: properties / 45,
            preset: 0,
            extreme: false,
            nice_len: None,
            match_finder: None,
            search_depth: None,
        };
        let context_bits = parameters.literal_context_bits + parameters.literal_position_bits;
        (parameters.position_bits <= 4 && context_bits <= 4).then_some(parameters)
    }
}

pub(crate) fn encoder_memory_len(settings: &Settings, frame_len: usize, prefix_len: usize) -> u64 {
    let total_len = frame_len.saturating_add(prefix_len);
    parameters(settings, total_len).encoder_len().unwrap_or(u64::MAX)
}

impl fmt::Debug for LzmaEncoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LzmaEncoder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Holds a copy of the last prefix and frame, and 30 KiB; nothing before the first frame.
pub(crate) struct LzmaDecoder(Stream);

impl Default for LzmaDecoder {
    fn default() -> LzmaDecoder {
        LzmaDecoder(Stream::new())
    }
}

impl LzmaDecoder {
    pub(crate) fn decode(
        &mut self,
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        reserve(CODEC, plain_len, out)?;
        let mut rest = begin(&mut self.0, prefix, stored, plain_len, out)?;
        let end = self.0.run(&mut rest, true, out, plain_len);
        check_end(end, plain_len, out.len() - start)
    }
}

/// Sets up a stream for a frame. Returns the stored bytes that it still has to read.
fn begin<'a>(
    stream: &mut Stream,
    prefix: &[u8],
    stored: &'a [u8],
    plain_len: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], CodecError> {
    let total_len = prefix.len() + plain_len;
    let (&properties, rest) = stored.split_first().ok_or_else(|| corrupt("the frame is empty"))?;
    let parameters = Parameters::from_properties(properties, total_len)
        .ok_or_else(|| corrupt("its first byte is out of range"))?;
    let error = |end| end_error(&end, total_len);
    stream.start_decoder(&parameters, prefix, plain_len as u64).map_err(error)?;
    // The zero that the properties replaced. It gives no output: the range coder reads four more
    // bytes before it decodes anything.
    match stream.run(&mut &[0][..], false, out, plain_len) {
        End::NoInput | End::NoRoom => Ok(rest),
        end => Err(error(end)),
    }
}

/// Checks that decoding ended as it should, with `len` bytes.
fn check_end(end: End, plain_len: usize, len: usize) -> Result<(), CodecError> {
    match end {
        End::Whole { rest_len: 0 } if len == plain_len => Ok(()),
        End::Whole { rest_len: 0 } => Err(wrong_len(CODEC, plain_len, len)),
        End::Whole { .. } => Err(corrupt("bytes follow the end of the stream")),
        end => Err(end_error(&end, plain_len)),
    }
}

fn end_error(end: &End, memory_len: usize) -> CodecError {
    match end {
        End::NoMemory => CodecError::OutOfMemory { codec: CODEC, len: memory_len as u64 },
        End::NoRoom => corrupt("the frame is longer than expected"),
        End::NoInput => corrupt("the frame ends early"),
        End::Damaged | End::Whole { .. } => corrupt("not an LZMA stream"),
    }
}

/// One decoding that stops where it is told to, and goes on later. The stream holds a copy of the
/// prefix and of what it decoded.
pub(crate) struct LzmaSteps {
    stream: Stream,
    plain: Vec<u8>,
    plain_len: usize,
    /// The end of these bytes, from `taken_len` on, is not decoded yet.
    stored: Vec<u8>,
    taken_len: usize,
    dictionary_len: usize,
    is_complete: bool,
    has_failed: bool,
}

impl LzmaSteps {
    pub(crate) fn new(
        prefix: &[u8],
        stored: Vec<u8>,
        mut plain: Vec<u8>,
        plain_len: usize,
    ) -> Result<LzmaSteps, CodecError> {
        let prefix = crate::codec::useful(CODEC, prefix);
        let mut stream = Stream::new();
        begin(&mut stream, prefix, &stored, plain_len, &mut plain)?;
        let dictionary_len = prefix.len() + plain_len;
        Ok(LzmaSteps {
            stream,
            plain,
            plain_len,
            stored,
            taken_len: 1,
            dictionary_len,
            is_complete: false,
            has_failed: false,
        })
    }

    pub(crate) fn plain(&self) -> &[u8] {
        &self.plain
    }

    pub(crate) fn into_plain(self) -> Vec<u8> {
        self.plain
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(crate) fn memory_len(&self) -> usize {
        self.dictionary_len + self.plain.capacity() + self.stored.capacity()
    }

    /// Decodes until there are `len` bytes.
    pub(crate) fn advance(&mut self, len: usize) -> Result<(), CodecError> {
        let len = len.min(self.plain_len);
        if self.has_failed {
            return Err(corrupt("decoding failed before"));
        }
        if len <= self.plain.len() {
            return Ok(());
        }
        let mut rest = &self.stored[self.taken_len..];
        let room = len - self.plain.len();
        let end = self.stream.run(&mut rest, true, &mut self.plain, room);
        self.taken_len = self.stored.len() - rest.len();
        let result = match end {
            End::NoRoom if len < self.plain_len => Ok(()),
            end => check_end(end, self.plain_len, self.plain.len()),
        };
        self.has_failed = result.is_err();
        self.is_complete = result.is_ok() && self.plain.len() == self.plain_len;
        result
    }
}

fn corrupt(detail: &str) -> CodecError {
    CodecError::Corrupt { codec: CODEC, detail: detail.to_owned() }
}

impl fmt::Debug for LzmaDecoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LzmaDecoder")
    }
}
