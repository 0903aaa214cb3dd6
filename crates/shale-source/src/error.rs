//! Why an input could not be opened: what happened, and to what.

use std::path::PathBuf;

use shale_host::ErrorKind;
use shale_model::SourceError;
use shale_read::ReadError;
use thiserror::Error as ThisError;

/// Any error of this crate.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The host refused something, or the caller cancelled the work.
    #[error(transparent)]
    Host(#[from] shale_host::Error),
    /// The source is damaged, or two sources claim one path.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An image among the inputs could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The source is neither a directory nor an archive.
    #[error(
        "{} is neither a directory nor an archive of a known format: tar and cpio, plain or \
         compressed with gzip, xz, lzma, zstd, bzip2, lz4, lzip, brotli or compress; zip; 7z; \
         ISO 9660; SquashFS; EROFS; DwarFS; ar; Debian and RPM packages; mtree", path.display()
    )]
    NotInput {
        /// The source.
        path: PathBuf,
    },
    /// A source that is no directory was to be cut into shares.
    #[error("{} is not a directory; only directories can be packed in parts", path.display())]
    NotTree {
        /// The source.
        path: PathBuf,
    },
    /// A snapshot was chosen of something that has none.
    #[error("{} is not a ShaleFS image, so it has no snapshots", path.display())]
    NoSnapshots {
        /// The source.
        path: PathBuf,
    },
    /// Listed paths do not exist in the sources.
    #[error(
        "{count} of the listed paths are not in the source, first: {first}; paths are relative to \
         the source, and nothing was packed"
    )]
    NotListed {
        /// The number of such paths.
        count: usize,
        /// The first of them, made printable.
        first: String,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds what was tried and with which file.
    pub(crate) fn io<E: Into<std::io::Error>>(
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
            Self::NotTree { .. } => ErrorKind::Misuse,
            _ => ErrorKind::Failed,
        }
    }
}
