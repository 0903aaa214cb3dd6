//! Frames: the units of compression, each decoded once, verified and cached.

pub(crate) mod workers; // threads that decode beside the readers
pub(crate) mod part; // frames of which only the front is decoded
pub(crate) mod cache; // decoded frames: bounded, each decoded once
pub(crate) mod records; // frame records and references: the two tables of frames
pub(crate) mod store; // from a frame's number to its plain bytes
