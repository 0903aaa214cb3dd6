//! One directory: a validated row of the table of directories.

use std::ops::Range;

use crate::error::{Expected, ReadError, value};

/// A validated row of the table of directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) inode: u64,
    pub(crate) index: u64,
    /// Index of the parent directory. The root is its own parent.
    pub(crate) parent: u64,
    pub(crate) entry_first: u64,
    pub(crate) entry_end: u64,
}

impl Directory {
    pub(crate) fn entries(&self) -> Range<u64> {
        self.entry_first..self.entry_end
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.entry_end - self.entry_first
    }

    /// Checks that an entry of the directory with index `parent` may lead to this directory.
    pub(crate) fn check_parent(&self, parent: u64) -> Result<(), ReadError> {
        if self.index == 0 || self.parent != parent {
            let error =
                value("directory index of its parent", self.parent, Expected::Exactly(parent));
            return Err(error.at(format!("directory inode {}", self.inode)));
        }
        Ok(())
    }
}
