//! Finds the model of a stream.
//!
//! Candidates are tried in a fixed order, so that the same stream always gives the same result. A
//! wrong candidate is dropped at its first wrong token, mostly within some hundred bytes. The
//! number of symbols of the first block excludes most of them before that.

use std::ops::Range;

use crate::blocks::{BlockEnd, Blocks};
use crate::chunk::{AFTER_LEN, Task, rebuild};
use crate::cut::Cut;
use crate::error::DeflateError;
use crate::matcher::Matcher;
use crate::model::{Encoder, Hint, Model, Strategy};
use crate::parse::{BlockForm, Parsed, parse};

/// Bounds of an analysis.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most plain bytes of the stream.
    pub plain_max: usize,
    /// A chunk ends with the first block from this many plain bytes on.
    pub chunk_plain_min: usize,
    /// Most plain bytes of a chunk; blocks beyond are not rebuilt.
    pub chunk_plain_max: usize,
    /// Most probes of a chunk.
    pub chunk_probes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            plain_max: 64 << 20,
            chunk_plain_min: 128 << 10,
            chunk_plain_max: 512 << 10,
            chunk_probes_max: 1 << 25,
        }
    }
}

/// A stream and how it is rebuilt.
#[derive(Debug)]
pub struct Analysis {
    /// What the stream holds. If its end cannot be rebuilt, it ends [`AFTER_LEN`] after the last
    /// chunk.
    pub plain: Vec<u8>,
    /// The model.
    pub model: Model,
    /// Bytes of the stream; the input may go on after it.
    pub stream_len: usize,
    /// What can be rebuilt, in order. Bytes of the stream in none of them must be kept.
    pub chunks: Vec<Chunk>,
}

/// A part of a stream that can be rebuilt on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// What the encoder carried over.
    pub cut: Cut,
    /// Its plain bytes.
    pub plain: Range<usize>,
    /// Its bytes of the stream.
    pub stream: Range<usize>,
}

/// Takes apart the deflate stream at the start of `input` and finds out how it is rebuilt. Every
/// chunk was rebuilt and compared.
///
/// # Errors
/// The input does not begin with a deflate stream, or none of its chunks can be rebuilt within the
/// limits.
pub fn analyze(
    input: &[u8],
    hint: Option<Hint>,
    limits: &Limits,
) -> Result<Analysis, DeflateError> {
    let mut parsed = parse(input, limits.plain_max)?;
    if parsed.plain.is_empty() {
        return Err(DeflateError::Unknown);
    }
    let stream_len = parsed.stream_len;
    let stream = &input[..stream_len];
    let mut best: Option<(Model, Vec<BlockEnd>)> = None;
    for model in candidates(&parsed, hint) {
        let (ends, is_whole) = ends_with(model, &parsed, stream, limits);
        let is_better = best.as_ref().is_none_or(|(_, other)| ends.len() > other.len());
        if !ends.is_empty() && is_better {
            best = Some((model, ends));
        }
        if is_whole {
            break;
        }
    }
    let (model, ends) = best.ok_or(DeflateError::Unknown)?;
    let chunks = chunks_of(model, &ends, &parsed, stream, limits);
    let last = chunks.last().ok_or(DeflateError::Unknown)?;
    if last.stream.end < stream_len {
        parsed.plain.truncate(last.plain.end.saturating_add(AFTER_LEN));
        parsed.plain.shrink_to_fit();
    }
    Ok(Analysis { plain: parsed.plain, model, stream_len, chunks })
}

/// Models that could have made the stream, the likeliest first.
fn candidates(parsed: &Parsed, hint: Option<Hint>) -> Vec<Model> {
    use Strategy::{Filtered, Fixed, HuffmanOnly, Rle};
    let levels: [u8; 9] = match hint {
        Some(Hint::Fastest) => [1, 2, 6, 9, 3, 4, 5, 7, 8],
        Some(Hint::Slowest) => [9, 8, 6, 7, 5, 4, 3, 2, 1],
        None => [6, 9, 1, 5, 7, 8, 4, 3, 2],
    };
    let mut all = Vec::new();
    all.extend(levels.map(|level| Model::zlib(level, 8)));
    all.extend(levels.map(|level| Model::zlib(level, 9)));
    all.extend(levels.map(Model::gzip));
    for memory_level in [8, 9] {
        all.extend(levels.map(|level| Model::chromium(level, memory_level)));
    }
    for strategy in [Filtered, Rle, HuffmanOnly, Fixed] {
        for memory_level in [8, 9] {
            let is_search = matches!(strategy, Filtered | Fixed);
            for level in levels {
                let is_one_of_all = level == 6;
                let is_other = is_search && !(strategy == Filtered && level < 4);
                if is_one_of_all || is_other {
                    all.push(Model { strategy, ..Model::zlib(level, memory_level) });
                }
            }
        }
    }
    // All blocks but the last one have as many symbols as fit, unless gzip ended them early.
    let mut symbols = parsed.blocks.iter().scan(0, |start, block| {
        let count = block.token_end - *start;
        *start = block.token_end;
        Some((block, count))
    });
    let first = symbols.next();
    all.retain(|model| match first {
        Some((block, count)) if block.form != BlockForm::Stored => {
            if block.is_last {
                count <= model.block_symbols_max()
            } else {
                let is_early = model.encoder == Encoder::Gzip && count & 0xfff == 0;
                count == model.block_symbols_max() || is_early
            }
        }
        _ => true,
    });
    all
}

/// Ends of the blocks that come out as they are in the stream, and whether all do.
fn ends_with(
    model: Model,
    parsed: &Parsed,
    stream: &[u8],
    limits: &Limits,
) -> (Vec<BlockEnd>, bool) {
    let chunk_count = (parsed.plain.len() / limits.chunk_plain_min.max(1)) as u64 + 1;
    let probes_max = limits.chunk_probes_max.saturating_mul(chunk_count);
    let mut matcher = Matcher::new(&parsed.plain, 0, model, probes_max);
    let Ok(mut blocks) = Blocks::expecting(model, parsed, stream) else {
        return (Vec::new(), false);
    };
    let result = matcher.run(&mut blocks, 0, None, None);
    (std::mem::take(&mut blocks.ends), result.is_ok())
}

/// Cuts a stream at ends of blocks. Keeps the chunks that are rebuilt from their cuts.
fn chunks_of(
    model: Model,
    ends: &[BlockEnd],
    parsed: &Parsed,
    stream: &[u8],
    limits: &Limits,
) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    // The fast search is rebuilt best without cuts.
    let is_fast = model.window_needed() > 32 << 10;
    let plain_min = if is_fast { limits.chunk_plain_max } else { limits.chunk_plain_min };
    let mut start = BlockEnd { plain: 0, bit: 0, in_hand: None };
    for (index, end) in ends.iter().enumerate() {
        let is_last = index + 1 == ends.len();
        // Blocks without plain bytes belong to the chunk before.
        let is_end_of_plain = end.plain == parsed.plain.len() && index + 1 < parsed.blocks.len();
        let next_is_too_long = ends
            .get(index + 1)
            .is_some_and(|next| next.plain - start.plain > limits.chunk_plain_max);
        let len = end.plain - start.plain;
        if !is_last && (is_end_of_plain || len < plain_min && !next_is_too_long) {
            continue;
        }
        let is_end_of_stream = index + 1 == parsed.blocks.len();
        let first_byte = (start.bit / 8) as usize;
        let bit_count = (start.bit % 8) as u8;
        let end_byte = if is_end_of_stream { stream.len() } else { (end.bit / 8) as usize };
        let cut = Cut {
            before: start.plain as u64,
            bits: stream[first_byte.min(stream.len() - 1)] & ((1 << bit_count) - 1),
            bit_count,
            in_hand: start.in_hand,
        };
        let chunk = Chunk { cut, plain: start.plain..end.plain, stream: first_byte..end_byte };
        if !chunk.stream.is_empty() && is_rebuilt(model, &chunk, &parsed.plain, stream, limits) {
            chunks.push(chunk);
        }
        start = *end;
    }
    chunks
}

fn is_rebuilt(model: Model, chunk: &Chunk, plain: &[u8], stream: &[u8], limits: &Limits) -> bool {
    if chunk.plain.len() > limits.chunk_plain_max {
        return false;
    }
    let task = chunk.task(model, plain);
    rebuild(model, &chunk.cut, &task, limits.chunk_probes_max)
        .is_ok_and(|bytes| bytes == stream[chunk.stream.clone()])
}

impl Chunk {
    /// The bytes of `plain` that the chunk is rebuilt from.
    pub fn task<'a>(&self, model: Model, plain: &'a [u8]) -> Task<'a> {
        let Range { start, end } = self.plain;
        let after_end = plain.len().min(end.saturating_add(AFTER_LEN));
        Task {
            window: &plain[start.saturating_sub(model.window_needed() as usize)..start],
            plain: &plain[start..end],
            after: &plain[end..after_end],
        }
    }
}
