//! What every exporter implements: entries in order, each with its data right after it.

use std::io;
use std::ops::Range;

use shale_model::{Metadata, Xattr};

/// One entry to be written.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveEntry<'a> {
    /// Path below the root, without slashes at its ends; the root itself is empty.
    pub path: &'a [u8],
    /// Metadata of the inode.
    pub metadata: &'a Metadata,
    /// Names that lead to the inode, among those that are written.
    pub link_count: u64,
    /// Number of the inode.
    pub inode: u64,
    /// Extended attributes, by name.
    pub xattrs: &'a [Xattr],
    /// Target of a symbolic link; else empty.
    pub target: &'a [u8],
    /// Path of an entry written before that is the same inode: this is a further name of it. No
    /// data follows, unless the format keeps no hard links ([`Keeps::hard_links`]).
    pub hard_link: Option<&'a [u8]>,
    /// Where a regular file has data; the rest are holes. Ascending, not touching.
    pub data: &'a [Range<u64>],
    /// Number of the content, which files of the same bytes and holes have in common; 0 for none.
    pub content: u64,
    /// The content was given with an earlier entry, so no data follows; only where the format
    /// shares contents ([`Keeps::shared_contents`]).
    pub is_repeat: bool,
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

/// What became of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// It is in the archive. Data follows if it is a regular file with data.
    pub is_in: bool,
    /// What the format cannot hold of it, each as words for people; all of it if it is not in.
    pub lost: Vec<String>,
    /// A fraction of its modification time was dropped.
    pub is_rounded: bool,
}

impl Taken {
    /// All of it.
    pub fn whole() -> Self {
        Self { is_in: true, lost: Vec::new(), is_rounded: false }
    }

    /// Nothing of it. No data may follow.
    pub fn not(why: impl Into<String>) -> Self {
        Self { is_in: false, lost: vec![why.into()], is_rounded: false }
    }

    /// Takes note of the attributes that a format loses which keeps none, or only those that
    /// `is_kept` says.
    pub(crate) fn lose_xattrs(&mut self, xattrs: &[Xattr], is_kept: impl Fn(&[u8]) -> bool) {
        let lost = xattrs.iter().filter(|xattr| !is_kept(&xattr.name));
        let names: Vec<String> = lost.map(|x| x.name.escape_ascii().to_string()).collect();
        if !names.is_empty() {
            self.lost.push(format!("without its attributes {}", names.join(", ")));
        }
    }
}

/// What a format can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// Holes: [`Archive::data`] gets only what is outside of them; else it gets them as zeroes.
    pub holes: bool,
    /// Several names of one inode; else each brings the data again.
    pub hard_links: bool,
    /// Several files with one content, whose data is given once.
    pub shared_contents: bool,
}

/// A format that is written.
pub trait Archive {
    /// What the format can say.
    fn keeps(&self) -> Keeps;

    /// Begins an entry. Parents come before what is in them, and what is in a directory right
    /// after it.
    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken>;

    /// The next bytes of the entry that was begun last.
    fn data(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// The entry is over: all its data was given.
    fn end_entry(&mut self) -> io::Result<()>;

    /// Writes what is left.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
