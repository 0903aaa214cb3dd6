//! The frames of the image that is continued: what references of new frames may cost.

use std::ops::Range;

use crate::base::image::{Base, BaseFrame};
use crate::plan::error::WriteError;

/// Bytes for an anchor, as a power of two, where the image is small.
const ANCHOR_STEP_LOG2: u32 = 6;
/// Most anchors that are learned.
const ANCHOR_COUNT_MAX: u64 = 2 << 20;

/// Frames before those of this build. Empty where a build starts an image.
#[derive(Debug, Default)]
pub(crate) struct OldFrames {
    frames: Vec<BaseFrame>,
    /// Start of each in stream space.
    starts: Vec<u64>,
}

impl OldFrames {
    /// Reads the table of frames.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn of(base: &dyn Base) -> Result<Self, WriteError> {
        Ok(Self::new(base.frames()?))
    }

    /// Takes frames in order, the first at the start of the stream.
    pub(crate) fn new(frames: Vec<BaseFrame>) -> Self {
        let mut start = 0;
        let starts = frames.iter().map(|frame| {
            start += frame.plain_len;
            start - frame.plain_len
        });
        Self { starts: starts.collect(), frames }
    }

    /// Number of frames.
    pub(crate) fn count(&self) -> usize {
        self.frames.len()
    }

    /// Bytes for an anchor that is learned of these frames, as a power of two.
    pub(crate) fn anchor_step_log2(&self) -> u32 {
        let stream_len: u64 = self.frames.iter().map(|frame| frame.plain_len).sum();
        let excess = (stream_len >> ANCHOR_STEP_LOG2) / ANCHOR_COUNT_MAX;
        ANCHOR_STEP_LOG2 + u64::BITS - excess.leading_zeros()
    }

    /// Plain bytes of a frame.
    pub(crate) fn len_of(&self, frame: usize) -> u64 {
        self.frames[frame].plain_len
    }

    /// Longest chain of references below a frame.
    pub(crate) fn depth_of(&self, frame: usize) -> u8 {
        self.frames[frame].depth
    }

    /// Frames that a frame refers to.
    pub(crate) fn references_of(&self, frame: usize) -> &[u64] {
        &self.frames[frame].references
    }

    /// The frame that holds the byte at an offset in stream space, and where it starts.
    pub(crate) fn frame_at(&self, stream_offset: u64) -> (usize, u64) {
        let frame = self.starts.partition_point(|&start| start <= stream_offset).saturating_sub(1);
        (frame, self.starts[frame])
    }

    /// The frame that holds the byte at an offset in stream space, if there is one.
    pub(crate) fn frame_with(&self, stream_offset: u64) -> Option<(usize, u64)> {
        let (frame, start) = match self.frames.is_empty() {
            true => return None,
            false => self.frame_at(stream_offset),
        };
        (stream_offset < start + self.len_of(frame)).then_some((frame, start))
    }

    /// The bytes of a frame in stream space.
    pub(crate) fn range_of(&self, frame: usize) -> Range<u64> {
        self.starts[frame]..self.starts[frame] + self.len_of(frame)
    }

    /// All frames that are decoded before a frame.
    pub(crate) fn closure_of(&self, frame: usize) -> Vec<u32> {
        let mut closure: Vec<u32> = Vec::new();
        let mut waiting: Vec<u64> = self.references_of(frame).to_vec();
        while let Some(needed) = waiting.pop() {
            if !closure.contains(&(needed as u32)) {
                closure.push(needed as u32);
                waiting.extend(self.references_of(needed as usize));
            }
        }
        closure
    }
}
