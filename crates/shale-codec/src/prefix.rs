//! The prefix of a frame that is decoded in steps: bytes that stay where they are meanwhile.

use std::ops::Deref;
use std::sync::Arc;

/// The prefix of a frame, for as long as its decoding goes on.
#[derive(Debug, Clone)]
pub enum Prefix {
    /// Bytes that others use too.
    Shared(Arc<Vec<u8>>),
    /// Bytes of its own.
    Joined(Vec<u8>),
}

impl Prefix {
    /// Bytes of memory that nothing else uses.
    pub(crate) fn own_len(&self) -> usize {
        match self {
            Prefix::Shared(_) => 0,
            Prefix::Joined(bytes) => bytes.capacity(),
        }
    }
}

impl Deref for Prefix {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Prefix::Shared(bytes) => bytes,
            Prefix::Joined(bytes) => bytes,
        }
    }
}
