//! What is written, over what, and what the caller hears of it.

use std::fs::File;
use std::ops::Range;

/// Which object may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replace {
    /// None: the name must be free.
    Nothing,
    /// Whatever has the name.
    Anything,
    /// The object with this ETag.
    Only(String),
}

/// The state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its length.
    pub len: u64,
    /// Its ETag, if the store has them.
    pub etag: Option<String>,
}

/// The bytes of a new object: the start of the one that is replaced, and then those of a file.
#[derive(Debug)]
pub struct Contents<'f> {
    /// Bytes at the start of the object that is replaced, as many as its store can copy.
    pub copied_len: u64,
    /// The file.
    pub file: &'f File,
    /// The bytes of the file that follow. Not empty.
    pub range: Range<u64>,
}

/// What an upload asks and tells its caller.
pub trait Watch: Sync {
    /// True if the upload shall be given up.
    fn is_cancelled(&self) -> bool;
    /// So many more bytes are in the store.
    fn advance(&self, bytes: u64);
}
