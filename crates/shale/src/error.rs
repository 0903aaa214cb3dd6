//! Why an image was not created or described: what happened, and to what.

use std::io;
use std::path::PathBuf;

use shale_host::ErrorKind;
use shale_model::{PatternError, SourceError};
use shale_read::ReadError;
use shale_write::WriteError;
use thiserror::Error;

/// Any error of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The host refused something, or the caller cancelled the work.
    #[error(transparent)]
    Host(#[from] shale_host::Error),
    /// Parity, repair, check or signature.
    #[error(transparent)]
    Check(#[from] shale_check::Error),
    /// Extraction, export or a path in an image.
    #[error(transparent)]
    Extract(#[from] shale_extract::Error),
    /// A source could not be opened.
    #[error(transparent)]
    Source(shale_source::Error),
    /// All tags were asked for of something that has none.
    #[error(
        "{} is neither an OCI image layout nor an archive of `docker save`, so it has no tags",
        path.display()
    )]
    NoTags {
        /// The source.
        path: PathBuf,
    },
    /// Nothing can be appended to the image.
    #[error("cannot append to {}: {what}", path.display())]
    NotAppendable {
        /// The file of the image.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// Only the end of the image is written, and parity of it would need all bytes before.
    #[error(
        "cannot append to {}: it has parity, and that of the new part needs all of it",
        path.display()
    )]
    ParityNeedsAll {
        /// The file of the image.
        path: PathBuf,
    },
    /// No thin image can be made over this base.
    #[error("{base} cannot be the base of a thin image: {what}")]
    NotBase {
        /// The base.
        base: String,
        /// Why.
        what: String,
    },
    /// The image is not thin.
    #[error("{image} is not a thin image: all of it is in its file")]
    NotThin {
        /// The image.
        image: String,
    },
    /// The thin image is of another base.
    #[error(
        "{thin} does not continue {base}, but the image of {base_len} bytes with the identity \
         {identity}: {why}"
    )]
    OtherBase {
        /// The thin image.
        thin: String,
        /// The base that was given.
        base: String,
        /// Identity of the base that is wanted.
        identity: shale_read::Identity,
        /// Bytes of the base that is wanted.
        base_len: u64,
        /// Why the base that was given is another.
        why: String,
    },
    /// The image cannot be split in this way.
    #[error("the image was not split: {what}")]
    Split {
        /// Why.
        what: String,
    },
    /// A file whose bytes are copied is damaged.
    #[error("damaged: {what}; nothing was written")]
    Damaged {
        /// What is damaged, and how that was found.
        what: String,
    },
    /// More snapshots than an image can have.
    #[error("{found} snapshots are too many for one image, which has at most {max}")]
    Snapshots {
        /// Snapshots of the sources.
        found: u64,
        /// Most snapshots of an image.
        max: u64,
    },
    /// The output is a pipe or a device, and has to be read back.
    #[error("{} is not a regular file; this command needs one", path.display())]
    NotFile {
        /// The output.
        path: PathBuf,
    },
    /// A bundle cannot begin with this file.
    #[error("{} cannot be the runtime of a bundle: {what}", path.display())]
    Runtime {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The image could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The image could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The image that was read back differs from the source.
    #[error(
        "the image was removed: read back, {what}. This is a fault of this program or of the \
         machine's memory or disk, not of the source; please report it if it happens again"
    )]
    Verify {
        /// What differs.
        what: String,
    },
    /// A filter rule is not valid.
    #[error(transparent)]
    Rule(#[from] PatternError),
}

impl Error {
    /// Returns a function for `map_err` that adds what was tried and with which file.
    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        shale_host::Error::io_as(action, path)
    }

    /// What the error means to a caller.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Host(error) => error.kind(),
            Self::Check(error) => error.kind(),
            Self::Extract(error) => error.kind(),
            Self::Write(WriteError::Cancelled) => ErrorKind::Cancelled,
            Self::Write(WriteError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                ErrorKind::BrokenPipe
            }
            Self::Write(WriteError::Option { .. }) => ErrorKind::Misuse,
            Self::Write(WriteError::Base(error) | WriteError::Copy(error)) => {
                match error.downcast_ref::<ReadError>() {
                    Some(error) if error.is_corrupt() => ErrorKind::Damage,
                    _ => ErrorKind::Failed,
                }
            }
            Self::Rule(_) => ErrorKind::Misuse,
            Self::Damaged { .. } => ErrorKind::Damage,
            Self::Source(error) => error.kind(),
            Self::Read(error) if error.is_corrupt() => ErrorKind::Damage,
            _ => ErrorKind::Failed,
        }
    }
}

impl From<shale_source::Error> for Error {
    fn from(error: shale_source::Error) -> Self {
        match error {
            shale_source::Error::Host(error) => Self::Host(error),
            shale_source::Error::Source(error) => error.into(),
            shale_source::Error::Read(error) => Self::Read(error),
            error => Self::Source(error),
        }
    }
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        Self::Write(error.into())
    }
}

/// What an error means to a caller, if it is one of this crate or of the crates that it re-exports;
/// `None` for any other error.
pub fn error_kind(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let own = error.downcast_ref::<Error>().map(Error::kind);
    let host = || error.downcast_ref::<shale_host::Error>().map(shale_host::Error::kind);
    let check = || error.downcast_ref::<shale_check::Error>().map(shale_check::Error::kind);
    let extract = || error.downcast_ref::<shale_extract::Error>().map(shale_extract::Error::kind);
    own.or_else(host).or_else(check).or_else(extract)
}
