//! Why an image could not be checked, repaired, signed or given parity.

use std::io;
use std::path::PathBuf;

use shale_format::{FormatError, Identity};
use shale_host::ErrorKind;
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
    /// The source does not begin with the magic bytes of an image.
    #[error("not a ShaleFS image: it does not begin with the magic bytes of one")]
    NotImage,
    /// This version cannot check the image.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The image has more frames than fit in memory.
    #[error("{frame_count} frames do not fit in memory")]
    Memory {
        /// How many frames it has.
        frame_count: u64,
    },
    /// Parity cannot be added.
    #[error("{}: no parity was added: {problem}", path.display())]
    Parity {
        /// The image.
        path: PathBuf,
        /// Why not.
        problem: ParityProblem,
    },
    /// The image cannot be signed, or no trusted key signed it.
    #[error("{}: {problem}", path.display())]
    Sign {
        /// The image.
        path: PathBuf,
        /// Why not.
        problem: SignProblem,
    },
    /// A file does not hold a key or signature.
    #[error("{}: not a file with a {kind} of the form `{kind} ed25519 HEX`", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What it should hold, the first word of such a file.
        kind: String,
    },
    /// The image cannot be restored.
    #[error("{}: it cannot be restored: {what}", path.display())]
    Repair {
        /// The image.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Salvage finds nothing in the file.
    #[error("{}: nothing can be saved: {what}", path.display())]
    Salvage {
        /// The image.
        path: PathBuf,
        /// Why not.
        what: String,
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
            _ => ErrorKind::Failed,
        }
    }
}

/// Why parity cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ParityProblem {
    /// The image is damaged, and its parity may be what repairs it.
    #[error("the image is damaged, and its parity may be able to repair it")]
    DamagedBeforeRemoval,
    /// [`ParityOptions::force`](crate::ParityOptions::force) allows to cut these bytes off.
    #[error("an interrupted writer left bytes after the image")]
    InterruptedWriter,
    /// Something was appended to the image after its parity.
    #[error("the image was appended to after the parity was added, so it cannot be removed")]
    AppendedAfter,
    /// Other data follows the image.
    #[error("other data follows the image, which parity would overwrite")]
    OtherDataFollows,
    /// The image is damaged.
    #[error("the image is damaged, and parity would preserve the damage")]
    Damaged,
    /// The format has no place for that much parity.
    #[error("there cannot be that much: {0}")]
    TooMuch(FormatError),
    /// The parity could not be computed.
    #[error("{0}")]
    Coding(String),
}

/// Why an image cannot be signed, or its signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SignProblem {
    /// A signature can be appended only where the image ends its file.
    #[error("something follows the image in its file, so nothing can be appended")]
    NotAtEnd,
    /// The image has no Merkle tree, so it has no identity that could be signed.
    #[error("it has no Merkle tree, so it has no identity to sign")]
    NoIdentity,
    /// The image holds no signature, and no detached one was given.
    #[error("it holds no signature")]
    NoSignature,
    /// No trusted key made any of the signatures.
    #[error("none of {count} signatures over its identity {identity} is by a key that is trusted")]
    NotTrusted {
        /// Signatures that were looked at.
        count: usize,
        /// The identity of the image.
        identity: Identity,
    },
    /// The trailer and the Merkle tree name different roots.
    #[error("its trailer leads to another root than its Merkle tree covers")]
    OtherRoot,
    /// The bytes of the image do not have its identity.
    #[error("its bytes are not those of its identity")]
    OtherBytes,
}
