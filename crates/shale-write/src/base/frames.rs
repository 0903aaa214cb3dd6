//! The frames of the image that is continued: what references of new frames may cost.

use crate::base::image::{Base, BaseFrame};
use crate::plan::error::WriteError;

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
        let frames = base.frames()?;
        let mut start = 0;
        let starts = frames.iter().map(|frame| {
            start += frame.plain_len;
            start - frame.plain_len
        });
        Ok(Self { starts: starts.collect(), frames })
    }

    /// Number of frames.
    pub(crate) fn count(&self) -> usize {
        self.frames.len()
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
