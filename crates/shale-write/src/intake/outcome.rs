//! What became of a content that was to be stored.

use std::io;

use shale_model::{ChangeKind, Metadata, ProblemKind};

/// What became of the content of a file.
pub(crate) enum Outcome {
    /// It has this id; the file had these metadata when it was read.
    Stored(Metadata, u64, Option<ChangeKind>),
    /// It could not be read.
    LeftOut(ProblemKind),
}

/// A content that is stored.
pub(super) struct Stored {
    pub(super) id: u64,
    pub(super) len: u64,
    pub(super) change: Option<ChangeKind>,
}

/// What came of one attempt to read a content.
pub(super) enum Attempt<T> {
    /// It was read.
    Done(T),
    /// It changed meanwhile.
    Changed,
    /// The source failed.
    Failed(io::Error),
}

impl Stored {
    /// The outcome for a file that had these metadata when it was opened.
    pub(super) fn outcome(self, metadata: Metadata) -> Outcome {
        Outcome::Stored(Metadata { len: self.len, ..metadata }, self.id, self.change)
    }
}
