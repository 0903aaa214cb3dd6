//! Reads buffered contents ahead of their turn and finds their anchors, on any thread.
//!
//! Whether a position is an anchor depends on the bytes before it alone, so all that a scan of the
//! bytes finds can be found beforehand. What is left for the thread that decides is to look up the
//! anchors and to compare.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::layout::buffered::Buffered;
use crate::plan::error::WriteError;
use crate::plan::report::Stage;
use crate::segment::segmenter::{Anchor, GEAR_LEN, anchors_after};

/// Bytes read in one task, at least, if there are as many.
const TASK_LEN: u64 = 1 << 20;
/// Bytes on their way. They take the place of contents that were read ahead, which are gone by now.
const AHEAD_LEN_MAX: u64 = 8 << 20;

/// A part of a content that will be needed.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Where its content begins in buffer space.
    pub(crate) content_start: u64,
    /// The part, in buffer space.
    pub(crate) range: Range<u64>,
    /// Find anchors, one in this power of two of bytes.
    pub(crate) step_log2: Option<u32>,
}

/// Parts of contents, with what was found in them.
#[derive(Debug, Default)]
pub(crate) struct ScannedParts {
    bytes: Vec<u8>,
    anchors: Vec<Anchor>,
    /// For each part, its bytes and its anchors.
    parts: Vec<(Range<usize>, Option<Range<usize>>)>,
}

impl ScannedParts {
    /// Number of parts.
    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Returns the bytes of a part and its anchors, by positions in its content.
    pub(crate) fn part(&self, index: usize) -> (&[u8], Option<&[Anchor]>) {
        let (bytes, anchors) = &self.parts[index];
        (&self.bytes[bytes.clone()], anchors.clone().map(|range| &self.anchors[range]))
    }
}

/// Tasks that read.
pub(crate) struct ReadAhead<'env> {
    build: Build<'env>,
    buffered: Arc<Buffered>,
    window_len: u32,
    /// The parts of the next task, and their bytes.
    gathered: Vec<Wanted>,
    gathered_len: u64,
    on_the_way: VecDeque<(Ticket<Result<ScannedParts, WriteError>>, u64)>,
    len: u64,
}

impl<'env> ReadAhead<'env> {
    /// Nothing was read yet. Anchors are found with windows of `window_len` bytes.
    pub(crate) fn new(build: Build<'env>, buffered: Arc<Buffered>, window_len: u32) -> Self {
        let (gathered, on_the_way) = (Vec::new(), VecDeque::new());
        Self { build, buffered, window_len, gathered, gathered_len: 0, on_the_way, len: 0 }
    }

    /// Returns whether more parts should be asked for.
    pub(crate) fn has_room(&self) -> bool {
        self.len + self.gathered_len < AHEAD_LEN_MAX
    }

    /// Asks for a part of at most 1 MiB. Parts come in the order in which they were asked for.
    pub(crate) fn ask(&mut self, wanted: Wanted) {
        self.gathered_len += wanted.range.end - wanted.range.start;
        self.gathered.push(wanted);
        if self.gathered_len >= TASK_LEN {
            self.submit();
        }
    }

    fn submit(&mut self) {
        let (wanted, buffered) = (std::mem::take(&mut self.gathered), Arc::clone(&self.buffered));
        let (len, window_len) = (std::mem::take(&mut self.gathered_len), self.window_len);
        let ticket = self
            .build
            .submit(Urgency::Urgent, Stage::Segment, move |_| find(&buffered, &wanted, window_len));
        self.on_the_way.push_back((ticket, len));
        self.len += len;
    }

    /// Waits for the next parts: those of one task.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn next(&mut self) -> Result<ScannedParts, WriteError> {
        if self.on_the_way.is_empty() {
            self.submit();
        }
        let Some((ticket, len)) = self.on_the_way.pop_front() else {
            return Ok(ScannedParts::default());
        };
        self.len -= len;
        self.build.wait(&ticket)
    }
}

/// Reads parts and finds their anchors.
fn find(
    buffered: &Buffered,
    wanted: &[Wanted],
    window_len: u32,
) -> Result<ScannedParts, WriteError> {
    let mut found = ScannedParts::default();
    found.bytes.reserve_exact(
        wanted.iter().map(|part| (part.range.end - part.range.start) as usize).sum(),
    );
    let mut before = Vec::new();
    for part in wanted {
        let Range { start, end } = part.range;
        let at = found.bytes.len();
        found.bytes.resize(at + (end - start) as usize, 0);
        buffered.read_at(start, &mut found.bytes[at..])?;
        let bytes = at..found.bytes.len();
        let Some(step_log2) = part.step_log2 else {
            found.parts.push((bytes, None));
            continue;
        };
        let position = start - part.content_start;
        before.resize(position.min(u64::from(window_len).max(GEAR_LEN)) as usize, 0);
        buffered.read_at(start - before.len() as u64, &mut before)?;
        let first = found.anchors.len();
        let here = (&found.bytes[bytes.clone()], position);
        anchors_after(&before, here, window_len, step_log2, &mut found.anchors);
        found.parts.push((bytes, Some(first..found.anchors.len())));
    }
    Ok(found)
}
