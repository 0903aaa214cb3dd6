//! What every exporter implements: entries in order, each with its data right behind it.

use std::io;
use std::ops::Range;

use shale_write::source::{Metadata, Xattr};

/// One entry to be written.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveEntry<'a> {
    /// Path below the root, without slashes at its ends; the root itself is empty.
    pub path: &'a [u8],
    /// Metadata of the inode.
    pub metadata: &'a Metadata,
    /// Names that lead to the inode.
    pub link_count: u64,
    /// Number of the inode.
    pub inode: u64,
    /// Extended attributes, by name.
    pub xattrs: &'a [Xattr],
    /// Target of a symbolic link; else empty.
    pub target: &'a [u8],
    /// Path of an entry written before that is the same inode: this is a further name of it, and
    /// no data follows.
    pub hard_link: Option<&'a [u8]>,
    /// Where a regular file has data; the rest are holes. Ascending, not touching.
    pub data: &'a [Range<u64>],
}

impl ArchiveEntry<'_> {
    /// Bytes outside of holes.
    pub fn data_len(&self) -> u64 {
        self.data.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether it has holes.
    pub fn has_holes(&self) -> bool {
        self.data_len() < self.metadata.len
    }
}

/// Whether an entry was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It was. Data follows if it is a regular file with data and no hard link.
    Whole,
    /// It was, without something that the format cannot hold.
    Without(String),
    /// It was not, as the format cannot hold it. No data may follow.
    Not(String),
}

/// A format that is written.
pub trait Archive {
    /// Whether holes are kept. If so, [`Archive::data`] gets only what is outside of holes; else
    /// it gets them as zeroes.
    fn keeps_holes(&self) -> bool;

    /// Begins an entry. Parents come before what is in them.
    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken>;

    /// The next bytes of the entry that was begun last.
    fn data(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// The entry is over: all its data was given.
    fn end_entry(&mut self) -> io::Result<()>;

    /// Writes what is left.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
