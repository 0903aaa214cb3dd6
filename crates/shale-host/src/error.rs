//! Why the host refused something: what was tried, with which file, and what the system said.

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;

/// What an error means to a caller that decides how to go on, for example with which exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller cancelled the work.
    Cancelled,
    /// The reader of the output closed it, such as `head` at the end of a pipe.
    BrokenPipe,
    /// The request itself is wrong, whatever files and images there are. Nothing was tried.
    Misuse,
    /// The image is damaged.
    Damage,
    /// Anything else: the system, the source or the image does not allow it.
    Failed,
}

/// An error of the host.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried: "open", "create", ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The output exists already.
    #[error("{} exists already", path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// The name of the output ends with a slash, but the output is a file.
    #[error("{} ends with a slash, but the output is a file", path.display())]
    DirectoryName {
        /// The output.
        path: PathBuf,
    },
    /// The output is a directory or something else that a file cannot replace.
    #[error("{} is not a regular file", path.display())]
    NotReplaceable {
        /// The output.
        path: PathBuf,
    },
    /// Another process writes to the file.
    #[error("{} is being written by {holder}", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process, in words.
        holder: String,
    },
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// Returns a function for `map_err` that adds what was tried and with which file.
    pub fn io<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        Self::io_as(action, path)
    }

    /// Returns what [`io`](Self::io) does, as the error of a crate that has this one as a case.
    pub fn io_as<T: From<Self>, E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> T {
        let path = path.into();
        move |error| T::from(Self::Io { action, path, error: error.into() })
    }

    /// What the error means to a caller.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Io { error, .. } if error.kind() == io::ErrorKind::BrokenPipe => {
                ErrorKind::BrokenPipe
            }
            _ => ErrorKind::Failed,
        }
    }
}
