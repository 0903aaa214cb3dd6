//! Segment dedupe: ranges of bytes that the stream already holds.

pub(crate) mod policy; // which matches are worth taking
pub(crate) mod index; // where windows were seen
pub(crate) mod blocks; // the blocks of the stream that were read back last
pub(crate) mod homes; // frames of the image that is continued which a content resembles
pub(crate) mod segmenter; // splits contents into new bytes and matches
pub(crate) mod ahead; // contents and their anchors, ahead of their turn
pub(crate) mod stage; // connects the segmenter with the pipeline
