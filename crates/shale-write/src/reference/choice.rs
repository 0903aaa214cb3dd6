//! The frames for which references are chosen, and the result.

/// What is known of a frame beside its sketch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameShape {
    /// Plain bytes.
    pub len: u32,
    /// The frame gets no references, whatever it shares.
    pub is_alone: bool,
}

/// References of all frames.
#[derive(Debug, Default)]
pub(crate) struct ReferenceChoice {
    references: Vec<u32>,
    /// Where the references of each frame end.
    ends: Vec<usize>,
}

impl ReferenceChoice {
    /// Adds the references of the next frame, in prefix order.
    pub(crate) fn push(&mut self, references: &[u32]) {
        self.references.extend_from_slice(references);
        self.ends.push(self.references.len());
    }

    /// Number of frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the references of a frame; none if nothing was chosen.
    pub(crate) fn of(&self, frame: usize) -> &[u32] {
        let Some(&end) = self.ends.get(frame) else {
            return &[];
        };
        let start = frame.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.references[start..end]
    }
}
