//! What can go wrong while reading an image: what, where, expected and found.
//!
//! A [`ReadError`] is a [`Fault`] and the place where it occurred ("entries row 17 of directory
//! inode 5"). It is one pointer wide, so results on hot paths stay small.
//! [`ReadError::is_corrupt`] tells damage of the *image* from a wrong question and from a failing
//! disk. An error converts into an [`io::Error`] of a fitting kind; errno values are the mount's
//! business.

use std::fmt;
use std::io;
use std::path::PathBuf;

use shale_codec::CodecError;
use shale_deflate::DeflateError;
use shale_format::{FormatError, Identity};
use shale_table::TableError;
use thiserror::Error;

/// What went wrong, without the place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file of the image cannot be opened.
    #[error("cannot open {path}: {error}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        #[source]
        error: io::Error,
    },
    /// The source cannot be read.
    #[error("reading {len} bytes at offset {offset} failed: {error}")]
    Io {
        /// Offset in the source (the file, not the image).
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// What the system reported.
        #[source]
        error: io::Error,
    },
    /// The source holds no image.
    #[error("not a ShaleFS image: no superblock at {looked} of {found_len} bytes")]
    NotImage {
        /// Where a superblock was searched.
        looked: String,
        /// Length of the source in bytes.
        found_len: u64,
    },
    /// The source holds only the end of an image, and is read without its base.
    #[error(
        "the image is thin: its beginning is in its base `{name}` with the identity {identity}, \
         which was not looked for"
    )]
    Thin {
        /// Name of the file of the base.
        name: String,
        /// Identity of the base.
        identity: Identity,
    },
    /// The base of a thin image was not found.
    #[error(
        "the image is thin, and its base was not found: the image `{name}` of {base_len} bytes with \
         the identity {identity}; tried {tried}"
    )]
    NoBase {
        /// Name of the file of the base.
        name: String,
        /// Bytes of the base.
        base_len: u64,
        /// Identity of the base.
        identity: Identity,
        /// Each file that was tried, and why it is not the base.
        tried: String,
    },
    /// The parts of an image are not complete.
    #[error("{what}")]
    Parts {
        /// Which part is missing or wrong, and how.
        what: String,
    },
    /// The sections end without a trailer.
    #[error(
        "the image is truncated, it has no trailer: {found_len} bytes were found with \
         {section_count} complete sections, then {what} at offset {offset}; copy or download it \
         again"
    )]
    Truncated {
        /// Bytes from the start of the image to the end of the source.
        found_len: u64,
        /// Complete sections before the end.
        section_count: u64,
        /// Image offset after the last complete section.
        offset: u64,
        /// What was found there instead of a section.
        what: String,
    },
    /// A structure is invalid.
    #[error("{error}")]
    Format {
        /// Which structure, and what is wrong with it.
        #[from]
        error: FormatError,
    },
    /// A table page is invalid.
    #[error("{error}")]
    Table {
        /// What is wrong.
        #[from]
        error: TableError,
    },
    /// Stored bytes do not decode.
    #[error("the stored bytes do not decode: {error}")]
    Codec {
        /// What the codec reported.
        #[from]
        error: CodecError,
    },
    /// A deflate stream cannot be rebuilt.
    #[error("a compressed stream cannot be rebuilt: {error}")]
    Rebuild {
        /// What is wrong.
        error: DeflateError,
    },
    /// A deflate stream needs a model that this version does not have.
    #[error("the image needs a newer version of ShaleFS: model {model} of an encoder is unknown")]
    UnknownModel {
        /// The number of the model.
        model: u64,
    },
    /// Bytes are not the bytes that were written.
    #[error("checksum of the {what} bytes is {found:016x}, expected {expected:016x}: damaged")]
    Checksum {
        /// Which bytes: stored, plain or payload.
        what: &'static str,
        /// The checksum in the image.
        expected: u64,
        /// The checksum of the bytes that were read.
        found: u64,
    },
    /// A value contradicts another one, or a limit of the format.
    #[error("{what} is {found}, expected {expected}")]
    Value {
        /// Which value.
        what: &'static str,
        /// The value in the image.
        found: u64,
        /// The allowed values.
        expected: Expected,
    },
    /// The image contradicts itself.
    #[error("{what}")]
    Contradiction {
        /// How it contradicts itself.
        what: &'static str,
    },
    /// One read would decode more than the caller allows.
    #[error(
        "decoding one frame with its references needs more than {bytes_max} bytes or {frames_max} \
         frames; raise the limit on bytes decoded per read if you trust the image"
    )]
    ReadBound {
        /// The limit in plain bytes, see [`crate::Options::read_bytes_max`].
        bytes_max: u64,
        /// The limit in frames.
        frames_max: u64,
    },
    /// The image does not have the expected identity.
    #[error(
        "the identity of the image is {found}, expected {expected}: this is another image, or it \
         was changed"
    )]
    Identity {
        /// The identity that the caller expects.
        expected: Identity,
        /// The identity of the image.
        found: Identity,
    },
    /// An identity was expected, but the image has none.
    #[error(
        "the image has no Merkle tree, so no identity to compare with {expected}: it is older than \
         format 0.2"
    )]
    NoIdentity {
        /// The identity that the caller expects.
        expected: Identity,
    },
    /// The snapshot has no such inode.
    #[error("there is no inode {inode}; this tree has inodes 1 to {inode_count}")]
    NoInode {
        /// The number asked for.
        inode: u64,
        /// Number of inodes.
        inode_count: u64,
    },
    /// The inode has another kind than the call needs.
    #[error("inode {inode} is not a {expected}")]
    WrongKind {
        /// The inode.
        inode: u64,
        /// The kind that the call needs.
        expected: Kind,
    },
    /// The image has no such snapshot.
    #[error("there is no snapshot {wanted}; the image has {snapshot_count}: {names}")]
    NoSnapshot {
        /// The name, number or time asked for.
        wanted: String,
        /// Number of snapshots.
        snapshot_count: u64,
        /// Numbers and names of the snapshots; if there are many, of the first and the last ones.
        names: String,
    },
    /// The caller asked for a row, frame or content beyond the last one.
    #[error("there is no {what} {index}; there are {count}")]
    NoIndex {
        /// What was asked for.
        what: &'static str,
        /// The number asked for.
        index: u64,
        /// How many exist.
        count: u64,
    },
    /// A file is longer than the caller allows.
    #[error("the file has {len} bytes, more than the {len_max} allowed")]
    TooLong {
        /// Length of the file in bytes.
        len: u64,
        /// The longest length that the caller allows.
        len_max: u64,
    },
}

/// The kinds of inodes that calls can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file, to read bytes.
    File,
    /// A directory, to look up or list names.
    Directory,
    /// A symbolic link, to read its target.
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

/// The allowed values of a number in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// Exactly this value.
    Exactly(u64),
    /// This value or less.
    AtMost(u64),
    /// This value or more.
    AtLeast(u64),
    /// Between these values, both included.
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

/// A fault and the place where it occurred. One pointer wide.
///
/// [`std::error::Error::source`] returns the error of the system, the codec, the table or the
/// structure that caused the fault, if there is one.
pub struct ReadError(Box<Located>);

struct Located {
    place: String,
    fault: Fault,
}

impl ReadError {
    /// What went wrong.
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }

    /// Where it occurred, from the outermost structure to the innermost; empty if the fault says
    /// everything.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// Returns whether the image is damaged or hostile, as opposed to a failing source
    /// ([`Fault::Io`]) or a call for something that does not exist.
    pub fn is_corrupt(&self) -> bool {
        match self.fault() {
            Fault::Codec { error } => {
                !matches!(error, CodecError::OutOfMemory { .. } | CodecError::NotBuilt { .. })
            }
            Fault::Truncated { .. }
            | Fault::Rebuild { .. }
            | Fault::Table { .. }
            | Fault::Checksum { .. }
            | Fault::Value { .. }
            | Fault::Contradiction { .. } => true,
            // A newer image is not a damaged one.
            Fault::Format { error } => {
                !matches!(error, FormatError::Version { .. } | FormatError::Features { .. })
            }
            Fault::Identity { .. }
            | Fault::UnknownModel { .. }
            | Fault::NoIdentity { .. }
            | Fault::Thin { .. }
            | Fault::NoBase { .. }
            | Fault::Parts { .. }
            | Fault::Open { .. }
            | Fault::Io { .. }
            | Fault::TooLong { .. }
            | Fault::NotImage { .. }
            | Fault::ReadBound { .. }
            | Fault::NoInode { .. }
            | Fault::WrongKind { .. }
            | Fault::NoSnapshot { .. }
            | Fault::NoIndex { .. } => false,
        }
    }

    /// Returns whether a repair of the bytes that were read could remove the fault.
    pub(crate) fn is_repairable(&self) -> bool {
        match self.fault() {
            Fault::Io { error, .. } => !is_of_network(error),
            fault => matches!(fault, Fault::Checksum { .. } | Fault::Format { .. }),
        }
    }

    /// Returns whether no image was found, or the source failed.
    pub(crate) fn is_lost(&self) -> bool {
        match self.fault() {
            Fault::Io { error, .. } => !is_of_network(error),
            fault => matches!(fault, Fault::NotImage { .. }),
        }
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

/// True if reading other bytes of the source fails in the same way, as far as one can tell: no
/// repair helps.
fn is_of_network(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound
            | Kind::PermissionDenied
            | Kind::Unsupported
            | Kind::StaleNetworkFileHandle
            | Kind::HostUnreachable
            | Kind::TimedOut
            | Kind::ConnectionAborted
    )
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
            Fault::Open { error, .. } | Fault::Io { error, .. } => Some(error),
            Fault::Format { error } => Some(error),
            Fault::Table { error } => Some(error),
            Fault::Codec { error } => Some(error),
            _ => None,
        }
    }
}

impl From<ReadError> for io::Error {
    /// Keeps the error as the source of an [`io::Error`]. The kind is that of the system's error if
    /// there is one, `InvalidData` for damage, `NotFound` for what does not exist.
    #[cold]
    fn from(error: ReadError) -> Self {
        let kind = match error.fault() {
            Fault::Open { error, .. } | Fault::Io { error, .. } => error.kind(),
            Fault::Codec { error: CodecError::OutOfMemory { .. } } => io::ErrorKind::OutOfMemory,
            Fault::Codec { error: CodecError::NotBuilt { .. } } => io::ErrorKind::Unsupported,
            Fault::Format { error: FormatError::Version { .. } | FormatError::Features { .. } } => {
                io::ErrorKind::Unsupported
            }
            Fault::Thin { .. } => io::ErrorKind::Unsupported,
            Fault::NoBase { .. }
            | Fault::NoInode { .. }
            | Fault::NoSnapshot { .. }
            | Fault::NoIndex { .. } => io::ErrorKind::NotFound,
            Fault::WrongKind { expected: Kind::Directory, .. } => io::ErrorKind::NotADirectory,
            Fault::WrongKind { .. } => io::ErrorKind::InvalidInput,
            Fault::TooLong { .. } => io::ErrorKind::FileTooLarge,
            Fault::ReadBound { .. } => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// Adds a place to the error of a result. The place is formatted only if there is an error.
pub(crate) trait ErrorContext<T> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, ReadError>;
}

impl<T, E: Into<ReadError>> ErrorContext<T> for Result<T, E> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, ReadError> {
        self.map_err(|error| error.into().at(place()))
    }
}

/// An error for a value that contradicts the rest of the image.
#[cold]
pub(crate) fn value(what: &'static str, found: u64, expected: Expected) -> ReadError {
    Fault::Value { what, found, expected }.into()
}

/// An error for an image that contradicts itself.
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

    #[test]
    fn the_cause_of_an_error_is_its_source_and_gives_the_kind_of_an_io_error() {
        use std::error::Error;
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let disk: ReadError = Fault::Io { offset: 1, len: 2, error: denied() }.into();
        assert!(disk.source().is_some_and(|source| source.is::<io::Error>()));
        assert_eq!(io::Error::from(disk).kind(), io::ErrorKind::PermissionDenied);
        let newer: ReadError = FormatError::Version { major: 9, minor: 0 }.into();
        assert!(newer.source().is_some_and(|source| source.is::<FormatError>()));
        assert_eq!(io::Error::from(newer).kind(), io::ErrorKind::Unsupported);
        let damaged = io::Error::from(contradiction("two roots").at("root section"));
        assert_eq!(damaged.kind(), io::ErrorKind::InvalidData);
        assert_eq!(damaged.to_string(), "root section: two roots");
        let inner = damaged.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
        assert!(inner.is_some_and(ReadError::is_corrupt));
    }
}
