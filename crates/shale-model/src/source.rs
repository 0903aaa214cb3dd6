//! A stream of entries: the trait that a directory tree, an archive or an image implements.
//!
//! A source yields its root directory first and every other entry once, in the order in which
//! their contents are to lie in the image. A directory need not precede its entries, but it is
//! cheaper if it does. The build sorts for the tables itself, so the order of a source decides
//! only the locality of content.

use std::sync::Arc;

use crate::content::Content;
use crate::error::{Problem, SourceError};
use crate::metadata::{LinkId, Metadata, Xattr};

/// A tree to be packed.
pub trait EntrySource {
    /// Returns bytes that are equal for equal input, known before the first entry is taken. They
    /// become part of the image's identity.
    fn seed(&self) -> [u8; 32];

    /// Returns a bound on the bytes of all contents together, if it is known before the first entry
    /// is taken. It decides how much memory a build needs, and nothing else.
    fn content_bytes_max(&self) -> Option<u64> {
        None
    }

    /// Returns the next entry; `None` at the end. A content that is read in sequence
    /// ([`Content::Reader`]) is read to its end or dropped before the next call.
    ///
    /// # Errors
    /// The source as a whole cannot be read further.
    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError>;

    /// Returns the entries that the source had to leave out so far.
    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }

    /// Returns warnings about the source as a whole although all entries were yielded, such as a
    /// missing end mark. Called after the last entry.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Reviews what is missing or repeated in all entries together. A source written by people
    /// refuses it; for others the last repeat counts, and missing directories are created.
    ///
    /// # Errors
    /// Ends the build.
    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        let _ = review;
        Ok(())
    }
}

/// What is missing or repeated in all entries together; at most some thousand of each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Review<'a> {
    /// Paths that were given more than once.
    pub repeats: &'a [Repeat],
    /// Directories that exist only as part of other paths.
    pub missing: &'a [Missing],
}

/// A path that came twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// The path.
    pub path: Vec<u8>,
    /// Numbers of both entries in the source, from 1; the second one counts.
    pub sequences: (u64, u64),
}

/// A directory that was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its path; empty for the root.
    pub path: Vec<u8>,
    /// Number of an entry below it in the source, from 1.
    pub sequence: u64,
}

/// One name in the tree.
#[derive(Debug)]
pub struct SourceEntry {
    /// Path below the root: components separated by single slashes, without slashes at its ends.
    /// The root itself is empty.
    pub path: Vec<u8>,
    /// Metadata of the inode.
    pub metadata: Metadata,
    /// Extended attributes, in any order; shared where many entries have the same.
    pub xattrs: Arc<[Xattr]>,
    /// Identity of the inode, if it may have other names.
    pub link: Option<LinkId>,
    /// Target of a symbolic link; else empty.
    pub target: Vec<u8>,
    /// Content of a regular file. The first entry of a [`LinkId`] that has a content decides; the
    /// contents of later ones are not read.
    pub content: Content,
}
