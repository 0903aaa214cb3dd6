//! Why something was not extracted, exported or found.

use std::io;
use std::path::PathBuf;

use shale_host::ErrorKind;
use shale_model::pattern::PatternError;
use shale_read::ReadError;
use thiserror::Error as ThisError;

/// Any error of this crate.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The host refused something, or the caller cancelled the work.
    #[error(transparent)]
    Host(#[from] shale_host::Error),
    /// The image could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Some of the files exist in the target already; nothing was extracted.
    #[error(
        "{count} of the files exist already in {}, first: {}; nothing was extracted",
        target.display(), String::from_utf8_lossy(first)
    )]
    TargetsExist {
        /// The target directory.
        target: PathBuf,
        /// How many files exist.
        count: u64,
        /// Path of the first below the target.
        first: Vec<u8>,
    },
    /// A pattern is not valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// No pattern matches anything.
    #[error("nothing in the image matches {patterns}; patterns begin at the root of the image")]
    NoMatch {
        /// The patterns, quoted.
        patterns: String,
    },
    /// The format of an export does not support what was asked for.
    #[error("nothing was exported: {what}")]
    NotExportable {
        /// What it does not support.
        what: String,
    },
    /// The path does not exist in the image.
    #[error("{path}: {what}")]
    Path {
        /// The path in the image, made printable.
        path: String,
        /// Why it does not exist.
        what: &'static str,
    },
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
            Self::Read(error) if error.is_corrupt() => ErrorKind::Damage,
            Self::Pattern(_) | Self::NotExportable { .. } => ErrorKind::Misuse,
            _ => ErrorKind::Failed,
        }
    }
}
