//! The bytes of a regular file, and how to read them.

use std::io::{self, Read};
use std::ops::Range;

use crate::metadata::Metadata;

/// Where the bytes of a regular file come from.
#[derive(Default)]
pub enum Content {
    /// No content: not a regular file, an empty one, or another name of a file given before.
    #[default]
    None,
    /// A file that is opened when it is needed, possibly several times and on another thread.
    File(Box<dyn OpenContent>),
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// Bytes that can be read once, in order. The reader yields the bytes outside `holes`
    /// (ascending, not adjacent) and nothing else.
    Reader {
        /// The bytes.
        reader: Box<dyn Read + Send>,
        /// Which ranges are holes.
        holes: Vec<Range<u64>>,
    },
    /// A content that the image which is continued already holds, by its ID there. Nothing is read.
    Held(u64),
}

/// Opens a file of the source.
pub trait OpenContent: Send {
    /// Opens the file for reading. Does not follow a symbolic link and does not block on a fifo.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open(&self) -> io::Result<Box<dyn ContentFile>>;
}

/// An open file of the source.
pub trait ContentFile: Send {
    /// Returns the current metadata. Called before and after reading: if kind, length, mtime or
    /// ctime differ, the file is read again.
    ///
    /// # Errors
    /// The system reports an error.
    fn metadata(&mut self) -> io::Result<Metadata>;

    /// Reads bytes at `offset`. May return fewer bytes than requested; returns 0 only at the end of
    /// the file.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Returns the first range of data that ends after `offset`, in a file of `len` bytes; `None`
    /// if only a hole follows. If holes are unknown, everything is data.
    ///
    /// # Errors
    /// The system reports an error.
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
            Self::Held(content) => write!(f, "Held({content})"),
        }
    }
}
