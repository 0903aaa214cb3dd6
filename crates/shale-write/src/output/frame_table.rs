//! Frames and their references as rows of the tables.

use shale_format::FrameRecord;

use crate::base::image::BaseState;

/// The frames that were written, in the order of the image.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    /// One for each frame.
    pub(crate) records: Vec<FrameRecord>,
    /// References of all frames, one after the other, as indexes of the whole image.
    pub(crate) references: Vec<u64>,
    /// Index of the first frame.
    pub(crate) first: u64,
    /// Where the first frame starts in stream space.
    pub(crate) stream_start: u64,
    /// Row of the first reference.
    pub(crate) first_reference: u64,
}

impl FrameTable {
    /// Starts after the frames of an image.
    pub(crate) fn after(state: &BaseState) -> Self {
        Self {
            first: state.frame_count(),
            stream_start: state.stream_len,
            first_reference: state.root.references.row_count,
            ..Self::default()
        }
    }

    /// End of the last frame in stream space.
    pub(crate) fn stream_end(&self) -> u64 {
        let last = self.records.last();
        last.map_or(self.stream_start, |last| last.plain_start + last.plain_len)
    }

    /// References of a frame, by its number in this table.
    pub(crate) fn references_of(&self, local: usize) -> &[u64] {
        let record = &self.records[local];
        let first = (record.reference_first - self.first_reference) as usize;
        &self.references[first..first + record.reference_count as usize]
    }
}
