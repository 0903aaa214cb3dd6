//! Contents: the bytes of regular files, put together from frames, holes and zero runs.

pub(crate) mod chunks; // deflate streams, rebuilt from plain bytes
pub(crate) mod map; // from a range of a content to extents and frames
pub(crate) mod prefetch; // what readers will want next, by what they did
pub(crate) mod sequences; // contents read from front to back, for a source that is far away
pub(crate) mod store; // from a range of a content to bytes
