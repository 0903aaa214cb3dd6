//! Chunks: rebuilt from a cut.

use crate::bits::BitWriter;
use crate::blocks::Blocks;
use crate::cut::Cut;
use crate::error::DeflateError;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::tables::{MATCH_MAX, MATCH_MIN};

/// Plain bytes after a chunk that its rebuilding depends on: the longest match at its end, and what
/// zlib looks ahead.
pub const AFTER_LEN: usize = 1 << 10;

/// The plain bytes that a chunk is rebuilt from.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The bytes before, as many as the stream has, at most
    /// [`Model::window_needed`].
    pub window: &'a [u8],
    /// The bytes of the chunk.
    pub plain: &'a [u8],
    /// The bytes after, as many as the stream has, at most [`AFTER_LEN`]. Empty for the last chunk.
    pub after: &'a [u8],
}

impl Cut {
    /// Checks that the numbers fit each other.
    fn check(&self, task: &Task<'_>, model: Model) -> Result<(), DeflateError> {
        let window_len = self.before.min(model.window_needed());
        let has_bits = self.bit_count > 0 || self.bits > 0;
        let is_start = self.before == 0;
        let fits = task.window.len() as u64 == window_len
            && !task.plain.is_empty()
            && task.after.len() <= AFTER_LEN
            && self.bit_count < 8
            && self.bits >> self.bit_count == 0
            && !(is_start && (has_bits || self.in_hand.is_some()));
        let hand_fits = self.in_hand.is_none_or(|hand| match (hand.len, hand.distance) {
            (2, 0) => true,
            (len, distance) => {
                (MATCH_MIN..=MATCH_MAX).contains(&usize::from(len))
                    && (1..=window_len).contains(&u64::from(distance))
            }
        });
        if fits && hand_fits { Ok(()) } else { Err(DeflateError::BadCut) }
    }
}

/// Rebuilds the bytes of a chunk: from the byte in which its first block begins to the byte before
/// the one in which its last block ends, or to the end of the stream.
///
/// Takes memory for about twice the plain bytes and 1 MiB, and at most `probes_max` probes of the
/// search for matches, each of which costs some nanoseconds.
///
/// # Errors
/// The cut does not fit the bytes or the model, or there were too many probes.
pub fn rebuild(
    model: Model,
    cut: &Cut,
    task: &Task<'_>,
    probes_max: u64,
) -> Result<Vec<u8>, DeflateError> {
    Model::from_number(model.number())?;
    cut.check(task, model)?;
    let bytes = [task.window, task.plain, task.after].concat();
    let start = task.window.len();
    let end = (!task.after.is_empty()).then_some(start + task.plain.len());
    let base = cut.before - start as u64;
    let mut matcher = Matcher::new(&bytes, base, model, probes_max);
    let bits = BitWriter::starting(cut.bits, cut.bit_count);
    let mut blocks = Blocks::new(model, start, bits);
    matcher.run(&mut blocks, start, cut.in_hand, end)?;
    Ok(blocks.into_bytes(end.is_none()))
}
