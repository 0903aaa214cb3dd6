//! Where entries come from: the trait that a directory tree, an archive or another image
//! implements, and what an entry is.
//!
//! A source yields its root directory first and every other entry once, in the order in which
//! contents shall lie in the image. Directories need not precede what is in them, but it is
//! cheaper if they do. The pipeline sorts for the tables itself, so the order of a source only
//! decides locality of content.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use shale_format::{InodeKind, Timestamp};

use crate::{Problem, WriteError};

/// A tree to be packed.
pub trait Source {
    /// Bytes that are the same for the same input, known before the first entry is taken; they
    /// become part of the image's identity.
    fn seed(&self) -> [u8; 32];

    /// The next entry; `None` at the end. A content that is read in sequence
    /// ([`Content::Reader`]) is used up or dropped before the next call.
    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError>;

    /// Entries that the source itself had to leave out, so far.
    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }

    /// Looks at what all entries together lack. A source that is written by people refuses; others
    /// need not: what came last stays, and missing directories are made up.
    ///
    /// # Errors
    /// Ends the build.
    fn review(&self, review: &Review<'_>) -> Result<(), WriteError> {
        let _ = review;
        Ok(())
    }
}

/// What all entries together lack; at most some thousand of each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Review<'a> {
    /// Paths that were given more than once.
    pub repeats: &'a [Repeat],
    /// Directories that were only mentioned in paths.
    pub missing: &'a [Missing],
}

/// A path that came twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// The path.
    pub path: Vec<u8>,
    /// Which entries of the source, from 1; the second stays.
    pub sequences: (u64, u64),
}

/// A directory that was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its path; empty for the root.
    pub path: Vec<u8>,
    /// An entry of the source that lies below it, from 1.
    pub sequence: u64,
}

/// Metadata of an inode, as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Kind of inode.
    pub kind: InodeKind,
    /// Permission bits with setuid, setgid and sticky.
    pub permissions: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Last modification of the content.
    pub mtime: Timestamp,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Bytes of content of a regular file; else 0.
    pub len: u64,
    /// Device number of a device (`shale_format::inode::device_number`); else 0.
    pub device: u64,
}

/// One extended attribute: full name (`user.x`), value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Full name with its namespace.
    pub name: Vec<u8>,
    /// Value, any bytes.
    pub value: Vec<u8>,
}

/// What names of one inode have in common: the same identity is the same inode. For a walked
/// tree these are device and inode number; other sources may choose any numbers. They are never
/// stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// Device.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// One name in the tree.
#[derive(Debug)]
pub struct SourceEntry {
    /// Path below the root, components separated by single slashes, none at the ends; the root
    /// itself is empty.
    pub path: Vec<u8>,
    /// Metadata of the inode.
    pub metadata: Metadata,
    /// Extended attributes, in any order; shared where many entries have the same.
    pub xattrs: Arc<[Xattr]>,
    /// Given where the inode may have further names.
    pub link: Option<LinkId>,
    /// Target of a symbolic link; else empty.
    pub target: Vec<u8>,
    /// Content of a regular file. The first entry of a [`LinkId`] that brings one decides;
    /// contents of later ones are not read.
    pub content: Content,
}

/// How the bytes of a regular file are had.
#[derive(Default)]
pub enum Content {
    /// No content: not a regular file, or a further name of one, or an empty file.
    #[default]
    None,
    /// A file that is opened when its turn comes, possibly more than once and on another thread.
    File(Box<dyn OpenContent>),
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// Bytes that can be read once, in order. The reader yields what is outside of `holes`
    /// (ascending, not touching) and nothing else.
    Reader {
        /// The bytes.
        reader: Box<dyn Read + Send>,
        /// Which ranges are holes.
        holes: Vec<Range<u64>>,
    },
}

/// Opens a file of the source.
pub trait OpenContent: Send {
    /// Opens the file for reading, without following a symbolic link and without blocking on a
    /// fifo.
    fn open(&self) -> io::Result<Box<dyn ContentFile>>;
}

/// An open file of the source.
pub trait ContentFile: Send {
    /// What the system says of the file now. Asked for before and after reading; if kind, length,
    /// mtime or ctime differ, the file is read again.
    fn metadata(&mut self) -> io::Result<Metadata>;

    /// Reads bytes at `offset`; fewer than asked only at the end of the file or by chance, none
    /// only at the end.
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// The first range of data that ends after `offset`, of a file `len` bytes long; `None` if
    /// only a hole follows. Where holes are not known, everything is data.
    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        Ok((offset < len).then_some(offset..len))
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::File(_) => f.write_str("File(..)"),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Reader { holes, .. } => write!(f, "Reader({} holes)", holes.len()),
        }
    }
}
