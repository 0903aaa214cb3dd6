//! Compressed frames of a large content that is still being read, which may be taken back: in
//! memory up to a budget, then in a temporary file.

use std::path::PathBuf;

use crate::exec::spill::{Spill, Spilled};
use crate::frame::compress::Packed;
use crate::frame::framer::Framer;
use crate::plan::error::WriteError;

/// Frames in order, and the state before them.
#[derive(Debug)]
pub(crate) struct HeldFrames {
    framer: Framer,
    /// Frames in flight that were submitted before, and pass by.
    before: usize,
    frames: Vec<(Packed, Spilled<Vec<u8>>)>,
    spill: Spill,
}

impl HeldFrames {
    /// No frames, after `before` others that are in flight.
    pub(crate) fn new(
        framer: Framer,
        before: usize,
        memory_bytes_max: u64,
        temp_dir: Option<PathBuf>,
    ) -> Self {
        Self { framer, before, frames: Vec::new(), spill: Spill::new(memory_bytes_max, temp_dir) }
    }

    /// Returns whether the oldest frame in flight was submitted before, and counts it.
    pub(crate) fn passes(&mut self) -> bool {
        let passes = self.before > 0;
        self.before = self.before.saturating_sub(1);
        passes
    }

    /// Number of frames in flight that were submitted before.
    pub(crate) fn before(&self) -> usize {
        self.before
    }

    /// Adds the next frame.
    pub(crate) fn push(&mut self, mut packed: Packed) -> Result<(), WriteError> {
        let stored = std::mem::take(&mut packed.stored);
        let memory_len = stored.capacity() as u64;
        let kept = self.spill.keep(stored, memory_len).map_err(WriteError::TemporaryFile)?;
        self.frames.push((packed, kept));
        Ok(())
    }

    /// Gives each frame to `take`, in order.
    pub(crate) fn each(
        self,
        mut take: impl FnMut(Packed) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        for (packed, kept) in self.frames {
            let stored = match kept {
                Spilled::Memory(stored) => stored,
                in_file => {
                    let mut stored = vec![0; in_file.len()];
                    let read = self.spill.read(&in_file, 0, &mut stored);
                    read.map_err(WriteError::TemporaryFile)?;
                    stored
                }
            };
            take(Packed { stored, ..packed })?;
        }
        Ok(())
    }

    /// The frame that was being filled before.
    pub(crate) fn into_framer(self) -> Framer {
        self.framer
    }

    /// Bytes in the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.spill.file_len()
    }
}
