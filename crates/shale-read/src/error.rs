//! What can go wrong while reading an image: what, where, expected and found, what to do next.
//!
//! A [`ReadError`] is a [`Fault`] and the place where it was met ("entries row 17 of directory
//! inode 5"). It is one pointer wide, so results on hot paths stay small. Whether a fault means
//! that the *image* is damaged, as opposed to a wrong question or a failing disk, is answered by
//! [`ReadError::is_corrupt`]. This file maps nothing to errno values; that is the mount's business.

use std::fmt;
use std::io;

use shale_codec::CodecError;
use shale_format::{FormatError, Identity};
use shale_table::TableError;
use thiserror::Error;

/// What is wrong, without the place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The source could not be read.
    #[error(
        "reading {len} bytes at offset {offset} failed: {error}; check the disk or the connection, \
         then try again"
    )]
    Io {
        /// Offset in the source (the file, not the image).
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// What the system said.
        error: io::Error,
    },
    /// There is no image in the source.
    #[error(
        "not a ShaleFS image: no superblock at {looked}, {found_len} bytes are there; if other data \
         precedes the image, give its offset"
    )]
    NotImage {
        /// Where a superblock was looked for.
        looked: String,
        /// Bytes of the source.
        found_len: u64,
    },
    /// There is no trailer where the sections end.
    #[error(
        "the image is truncated, it has no trailer: {found_len} bytes are there with \
         {section_count} whole sections, and {what} at offset {offset}; copy or download it again"
    )]
    Truncated {
        /// Bytes from the start of the image to the end of the source.
        found_len: u64,
        /// Sections that are there whole.
        section_count: u64,
        /// Image offset of the first section that is not whole or not a section.
        offset: u64,
        /// What is there instead of a section.
        what: String,
    },
    /// A structure is not what it should be.
    #[error("{error}")]
    Format {
        /// What the structure is and what is wrong with it.
        #[from]
        error: FormatError,
    },
    /// A table page is not what it should be.
    #[error("{error}")]
    Table {
        /// What is wrong.
        #[from]
        error: TableError,
    },
    /// Stored bytes do not decode.
    #[error(
        "the stored bytes do not decode: {error}; run `shale check` to see which files it hits"
    )]
    Codec {
        /// What the codec said.
        #[from]
        error: CodecError,
    },
    /// Bytes are not those that were written.
    #[error(
        "checksum of the {what} bytes is {found:016x}, expected {expected:016x}: damaged; run \
         `shale check` to see which files it hits"
    )]
    Checksum {
        /// Which bytes: stored, plain, payload.
        what: &'static str,
        /// The checksum that the image gives.
        expected: u64,
        /// The checksum of the bytes found.
        found: u64,
    },
    /// Tables contradict each other or a limit of the format.
    #[error("{what} is {found}, expected {expected}")]
    Value {
        /// Which value.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: Expected,
    },
    /// The image says something that cannot be.
    #[error("{what}")]
    Contradiction {
        /// What, and why it cannot be.
        what: &'static str,
    },
    /// One read would decode more than the caller allows.
    #[error(
        "decoding one frame with all it refers to needs more than {bytes_max} bytes or {frames_max} \
         frames; raise the limit on bytes decoded per read if you trust the image"
    )]
    ReadBound {
        /// The limit in plain bytes, see [`crate::Options::read_bytes_max`].
        bytes_max: u64,
        /// The limit in frames.
        frames_max: u64,
    },
    /// The image is another than the one expected.
    #[error(
        "the identity of the image is {found}, expected {expected}: this is another image, or one \
         that was changed; get it again from where the identity comes from"
    )]
    Identity {
        /// What the caller expects.
        expected: Identity,
        /// What the image gives.
        found: Identity,
    },
    /// An identity was expected of an image that has none.
    #[error(
        "the image has no Merkle tree and so no identity to compare with {expected}; it is older \
         than format 0.2. `shale create` or `shale parity add` make one"
    )]
    NoIdentity {
        /// What the caller expects.
        expected: Identity,
    },
    /// There is no such inode in this snapshot.
    #[error("there is no inode {inode}; this tree has inodes 1 to {inode_count}")]
    NoInode {
        /// The number asked for.
        inode: u64,
        /// Inodes there are.
        inode_count: u64,
    },
    /// The inode is of another kind than the question needs.
    #[error("inode {inode} is not a {expected}")]
    WrongKind {
        /// The inode.
        inode: u64,
        /// The kind the question needs.
        expected: Kind,
    },
    /// There is no such snapshot.
    #[error("there is no snapshot {wanted}; the image has {snapshot_count}")]
    NoSnapshot {
        /// The name or number asked for.
        wanted: String,
        /// Snapshots there are.
        snapshot_count: u64,
    },
    /// A row, frame or content beyond the end was asked for by the caller.
    #[error("there is no {what} {index}; there are {count}")]
    NoIndex {
        /// What was asked for.
        what: &'static str,
        /// Its number.
        index: u64,
        /// How many there are.
        count: u64,
    },
}

/// The kinds that questions about an inode can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// For reading bytes.
    File,
    /// For looking up names.
    Directory,
    /// For the target of a link.
    Symlink,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "regular file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
        })
    }
}

/// What a value in an image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Exactly this.
    Exactly(u64),
    /// This or less.
    AtMost(u64),
    /// This or more.
    AtLeast(u64),
    /// Between the two, both included.
    Between(u64, u64),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value}"),
            Self::AtMost(value) => write!(f, "at most {value}"),
            Self::AtLeast(value) => write!(f, "at least {value}"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
        }
    }
}

/// A fault and the place where it was met. One pointer wide.
pub struct ReadError(Box<Located>);

struct Located {
    place: String,
    fault: Fault,
}

impl ReadError {
    /// What is wrong.
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }

    /// Where it was met, from the outermost structure to the innermost; empty if the fault itself
    /// says all.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// Whether the image is damaged or hostile, as opposed to a failing source (`Fault::Io`) or a
    /// question about something that is not there.
    pub fn is_corrupt(&self) -> bool {
        match self.fault() {
            Fault::Codec { error } => !matches!(error, CodecError::OutOfMemory { .. }),
            Fault::Truncated { .. }
            | Fault::Table { .. }
            | Fault::Checksum { .. }
            | Fault::Value { .. }
            | Fault::Contradiction { .. } => true,
            // A newer image is not a damaged one.
            Fault::Format { error } => {
                !matches!(error, FormatError::Version { .. } | FormatError::Features { .. })
            }
            Fault::Identity { .. }
            | Fault::NoIdentity { .. }
            | Fault::Io { .. }
            | Fault::NotImage { .. }
            | Fault::ReadBound { .. }
            | Fault::NoInode { .. }
            | Fault::WrongKind { .. }
            | Fault::NoSnapshot { .. }
            | Fault::NoIndex { .. } => false,
        }
    }

    /// Whether other bytes in the same place could make it good.
    pub(crate) fn is_healable(&self) -> bool {
        matches!(self.fault(), Fault::Io { .. } | Fault::Checksum { .. } | Fault::Format { .. })
    }

    /// Whether nothing was found that could be opened, or the source failed.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.fault(), Fault::Io { .. } | Fault::NotImage { .. })
    }

    /// Puts `place` before the places already named.
    #[cold]
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        let inner = std::mem::take(&mut self.0.place);
        self.0.place = place.into();
        if !inner.is_empty() {
            self.0.place.push_str(": ");
            self.0.place.push_str(&inner);
        }
        self
    }
}

impl<F: Into<Fault>> From<F> for ReadError {
    #[cold]
    fn from(fault: F) -> Self {
        Self(Box::new(Located { place: String::new(), fault: fault.into() }))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.place.is_empty() {
            write!(f, "{}: ", self.0.place)?;
        }
        write!(f, "{}", self.0.fault)
    }
}

impl fmt::Debug for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadError({:?}, {:?})", self.0.place, self.0.fault)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.fault {
            Fault::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Adds a place to the error of a result, formatted only when there is one.
pub(crate) trait Place<T> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, ReadError>;
}

impl<T, E: Into<ReadError>> Place<T> for Result<T, E> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, ReadError> {
        self.map_err(|error| error.into().at(place()))
    }
}

/// A value that contradicts the rest of the image.
#[cold]
pub(crate) fn value(what: &'static str, found: u64, expected: Expected) -> ReadError {
    Fault::Value { what, found, expected }.into()
}

/// A statement of the image that cannot be.
#[cold]
pub(crate) fn contradiction(what: &'static str) -> ReadError {
    Fault::Contradiction { what }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_nest_from_the_outside_in() {
        let error: ReadError = value("inode", 9, Expected::Between(1, 5));
        let error = error.at("entries row 17").at("directory inode 5");
        assert_eq!(
            error.to_string(),
            "directory inode 5: entries row 17: inode is 9, expected 1 to 5"
        );
        assert!(error.is_corrupt());
    }

    #[test]
    fn a_newer_image_and_a_failing_disk_are_not_damage() {
        let newer: ReadError = FormatError::Version { major: 9, minor: 0 }.into();
        assert!(!newer.is_corrupt());
        let disk: ReadError =
            Fault::Io { offset: 1, len: 2, error: io::Error::other("no answer") }.into();
        assert!(!disk.is_corrupt());
        assert!(size_of::<ReadError>() == size_of::<usize>());
    }
}
