//! Why something was not done: what, where, expected and found, and what to do next.

use std::io;
use std::path::PathBuf;

use shale_read::ReadError;
use shale_write::WriteError;
use thiserror::Error;

use crate::pattern::PatternError;

/// Any error of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried: "open", "create", ...
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The source is neither a directory nor an archive.
    #[error(
        "{} is neither a directory nor an archive of a known format: tar, plain or compressed by \
         gzip, xz, lzma, zstd, bzip2 or lz4; SquashFS; DwarFS; zip", path.display()
    )]
    NotInput {
        /// The source.
        path: PathBuf,
    },
    /// The output is there already.
    #[error("{} exists already; choose another name, or replace it with --force", path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// The name of the output is one of a directory.
    #[error("{} ends in a slash, but the output is a file; choose a name without", path.display())]
    DirectoryName {
        /// The output.
        path: PathBuf,
    },
    /// The output is a directory or something else that a file cannot replace.
    #[error("{} is not a regular file; choose another name", path.display())]
    NotReplaceable {
        /// The output.
        path: PathBuf,
    },
    /// Files that are to be extracted are there already; nothing was extracted.
    #[error(
        "{count} of the files exist already in {}, first: {}; nothing was extracted. Choose an \
         empty directory, or how to treat them: --overwrite never, older or always",
        target.display(), String::from_utf8_lossy(first)
    )]
    TargetsExist {
        /// Where to.
        target: PathBuf,
        /// How many.
        count: u64,
        /// Path of the first below the target.
        first: Vec<u8>,
    },
    /// The image could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The image could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What was read back is not what was read from the source.
    #[error(
        "the image was removed: read back, {what}. This is a fault of this program or of the \
         machine's memory or disk, not of the source; please report it if it happens again"
    )]
    Verify {
        /// What differs.
        what: String,
    },
    /// Parity cannot be made.
    #[error("{}: no parity was added: {what}", path.display())]
    Parity {
        /// The image.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// An image cannot be signed, or is not signed as it has to be.
    #[error("{}: {what}", path.display())]
    Sign {
        /// The image.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// A file is not what it has to be.
    #[error("{}: not a file with a {kind} of the form `{kind} ed25519 HEX`", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Its first word.
        kind: String,
    },
    /// An image cannot be restored.
    #[error(
        "{}: it cannot be restored: {what}. `shale repair --salvage` keeps what is left, `shale \
         extract --continue` brings out what is whole, with holes for what is lost",
        path.display()
    )]
    Repair {
        /// The image.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Not even salvage finds anything in it.
    #[error("{}: nothing can be saved: {what}. Get another copy", path.display())]
    Salvage {
        /// The image.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// A pattern is wrong.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A filter rule is wrong.
    #[error(transparent)]
    Rule(#[from] crate::input::RuleError),
    /// Paths of the list of input are not in the sources.
    #[error(
        "{count} of the listed paths are not in the source, first: {first}; paths are relative to \
         the source, and nothing was packed"
    )]
    NotListed {
        /// How many.
        count: usize,
        /// The first, made printable.
        first: String,
    },
    /// The format of an export does not have what was asked for.
    #[error("nothing was exported: {what}")]
    NotExportable {
        /// What it does not have, and what it has.
        what: String,
    },
    /// Patterns match nothing.
    #[error("nothing in the image matches {patterns}; patterns begin at the root of the image")]
    NoMatch {
        /// The patterns, quoted.
        patterns: String,
    },
    /// The path leads nowhere in the image.
    #[error("{path}: {what}")]
    Path {
        /// The path in the image, made printable.
        path: String,
        /// Why it leads nowhere.
        what: &'static str,
    },
    /// There is no image.
    #[error("not a ShaleFS image: it does not begin with the magic bytes of one")]
    NotImage,
    /// A check could not be done.
    #[error("{0}")]
    Check(String),
    /// Cancelled by the caller.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |error| Self::Io { action, path, error: error.into() }
    }

    /// True if the caller asked for the end.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Write(WriteError::Cancelled))
    }

    /// True if whoever read what was written has gone away, such as `head` at the end of a pipe.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Io { error, .. } | Self::Write(WriteError::Output(error)) => {
                error.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }

    /// True if what was asked for is wrong by itself, whatever files and images there are; nothing
    /// was tried then.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Pattern(_) | Self::Rule(_) | Self::NotExportable { .. } => true,
            // How much memory is enough depends on the machine.
            Self::Write(WriteError::Option { option, .. }) => *option != "memory",
            _ => false,
        }
    }

    /// True if the image is damaged, rather than the system or the request at fault.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Read(error) if error.is_corrupt())
    }
}
