//! Frames: cut, kept until their references are known, compressed.

pub(crate) mod body; // the plain bytes of a frame
pub(crate) mod framer; // cuts the stream into frames
pub(crate) mod waiting; // plain frames that wait for their references
pub(crate) mod compress; // turns the plain bytes of a frame into stored bytes
pub(crate) mod held; // compressed frames that may be taken back
pub(crate) mod pipeline; // frames on their way from the stream to the image
