//! Why no image was made.

use std::io;

use shale_codec::CodecError;
use shale_format::FormatError;
use shale_model::{Problem, SourceError};
use shale_table::TableError;
use thiserror::Error;

/// An error that ends a build.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Entries of the source could not be read, and the options do not allow an image without them.
    #[error("{} could not be read; nothing was packed. First: {}", count(.0), first(.0))]
    Unreadable(Vec<Problem>),
    /// The source as a whole cannot be read.
    #[error(transparent)]
    Source(SourceError),
    /// The image could not be written.
    #[error("cannot write the image: {0}")]
    Output(io::Error),
    /// A temporary file could not be used.
    #[error("cannot use a temporary file: {0}")]
    TemporaryFile(io::Error),
    /// A temporary file does not hold what was written to it.
    #[error("a temporary file does not hold what was written to it")]
    TemporaryFileDamaged,
    /// The caller set the cancel flag.
    #[error("cancelled")]
    Cancelled,
    /// An option is outside its range or conflicts with another.
    #[error("{option} is {found}, allowed is {allowed}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value given.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// The build needs more memory than it may use.
    #[error("{}", too_little(*.given, *.needed, *.is_limit))]
    Memory {
        /// Bytes that it may use.
        given: u64,
        /// Bytes that it needs with these options and this source.
        needed: u64,
        /// The system gives no more; else the options do not.
        is_limit: bool,
    },
    /// Something in the source exceeds a limit of the format.
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
    /// The image that the build continues cannot be read.
    #[error("cannot continue the image: {0}")]
    Base(Box<dyn std::error::Error + Send + Sync>),
    /// What the build takes over from other images cannot be read.
    #[error("cannot copy from an image: {0}")]
    Copy(Box<dyn std::error::Error + Send + Sync>),
    /// A codec failed to compress.
    #[error("compression failed: {0}")]
    Codec(#[from] CodecError),
    /// A table could not be built: a bug in this program.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A structure could not be encoded: a bug in this program, or a limit of the format.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl From<SourceError> for WriteError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Cancelled => Self::Cancelled,
            error => Self::Source(error),
        }
    }
}

fn too_little(given: u64, needed: u64, is_limit: bool) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match is_limit {
        true => format!(
            "the build needs {} MiB of memory with these options and this source, and the system \
             allows this process {} MiB",
            mib(needed),
            given >> 20
        ),
        false => format!(
            "the memory limit is {} MiB, and the build needs at least {} MiB with these options \
             and this source",
            given >> 20,
            mib(needed)
        ),
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
