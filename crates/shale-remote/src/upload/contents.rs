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

/// A header that makes a store refuse a request if the name has another object than expected.
pub(super) type Condition = (&'static str, String);

impl Replace {
    /// The condition of a request in the protocols of S3 and Azure.
    pub(super) fn condition(&self) -> Option<Condition> {
        match self {
            Replace::Nothing => Some(("if-none-match", "*".to_owned())),
            Replace::Anything => None,
            Replace::Only(etag) => Some(("if-match", etag.clone())),
        }
    }
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
    /// Bytes at the start of the object that is replaced, as many as its store can copy. 0 unless
    /// it is replaced by [`Replace::Only`].
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
