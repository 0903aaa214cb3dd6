//! Why no image was made.

use std::io;

use shale_format::FormatError;
use shale_table::TableError;
use thiserror::Error;

use crate::report::Problem;

/// An error that ended a build.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Entries of the source could not be read, and the options do not allow to pack without.
    #[error("{} could not be read; nothing was packed. First: {}", count(.0), first(.0))]
    Unreadable(Vec<Problem>),
    /// The source as a whole failed: its root is missing, the archive is damaged.
    #[error("cannot read the source {}: {error}", String::from_utf8_lossy(.path))]
    Source {
        /// What was read.
        path: Vec<u8>,
        /// Why it failed.
        error: io::Error,
    },
    /// The image could not be written.
    #[error("cannot write the image: {0}")]
    Output(io::Error),
    /// A temporary file could not be used.
    #[error("cannot use a temporary file: {}", spool_failure(.0))]
    Spool(io::Error),
    /// The caller's cancel flag was set.
    #[error("cancelled")]
    Cancelled,
    /// An option is outside its range or does not go with another.
    #[error("{option} is {found}, allowed is {allowed}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value given.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// Something of the source is beyond a limit of the format.
    #[error("{}: {what} is {found}, the limit is {max}", String::from_utf8_lossy(.path))]
    Limit {
        /// Path of the entry within the source.
        path: Vec<u8>,
        /// What is too large, with its unit.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        max: u64,
    },
    /// A codec failed to encode.
    #[error("compression failed: {0}")]
    Codec(String),
    /// A table could not be built; a bug of this program.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A structure could not be encoded; a bug of this program, or a limit of the format.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Why a temporary file cannot be used, and what helps.
fn spool_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{error}; choose another place with more room for it")
        }
        _ => error.to_string(),
    }
}

fn count(problems: &[Problem]) -> String {
    match problems.len() {
        1 => "1 entry of the source".to_owned(),
        n => format!("{n} entries of the source"),
    }
}

fn first(problems: &[Problem]) -> String {
    problems.first().map(Problem::to_string).unwrap_or_default()
}
