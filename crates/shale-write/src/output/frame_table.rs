//! Frames and their references as rows of the tables.

use shale_format::FrameRecord;

/// The frames that were written, in the order of the image.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    /// One for each frame.
    pub(crate) records: Vec<FrameRecord>,
    /// References of all frames, one after the other.
    pub(crate) references: Vec<u64>,
}
