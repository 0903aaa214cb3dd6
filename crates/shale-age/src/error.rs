//! Why an encrypted file does not open, or a part of it does not decrypt.

use std::io;

/// Why an encrypted file does not open, or a part of it does not decrypt.
///
/// What a wrong key causes, what damage causes and what truncation causes are told apart as far as
/// the format allows: a cut inside of the last chunk looks like damage of that chunk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not encrypted with age.
    #[error("the file is not encrypted with age")]
    NotAge,
    /// The file is encrypted in the text form of age.
    #[error("the file is encrypted in the text form of age (armor); decode it with `age -d` first")]
    Armored,
    /// The version of the format is not supported.
    #[error("the file is encrypted with another version of age ({0}), which is not supported")]
    Version(String),
    /// The header does not follow the format.
    #[error("the header of the encrypted file is damaged: {0}")]
    Header(&'static str),
    /// The file ends inside of its header.
    #[error("the encrypted file is truncated: it ends inside of its header")]
    HeaderCut,
    /// The key opens the file, but its header was changed.
    #[error(
        "the header of the encrypted file is damaged: its authentication code does not match, \
         although the key is right"
    )]
    HeaderCode,
    /// No key was given.
    #[error("the file is encrypted with age, and no key was given")]
    NoKey,
    /// No key that was given opens the file.
    #[error("wrong key: the file is encrypted to {recipients}, and no key that was given opens it")]
    WrongKey {
        /// The kinds of recipients of the file, in words.
        recipients: String,
    },
    /// The file is encrypted with a passphrase, and none was given.
    #[error("the file is encrypted with a passphrase, and none was given")]
    NoPassphrase,
    /// The passphrase does not open the file.
    #[error("wrong passphrase: it does not open the file")]
    WrongPassphrase,
    /// The passphrase needs more work than allowed.
    #[error("the passphrase has the work factor {0}; at most {max} is supported",
        max = crate::limits::WORK_FACTOR_MAX)]
    WorkFactor(u32),
    /// The system does not give random numbers.
    #[error("the system does not give random numbers")]
    Random(#[source] io::Error),
    /// A chunk does not decrypt.
    #[error(
        "damaged: bytes {at} to {end} of the encrypted file (chunk {chunk} of {chunks}) do not \
         decrypt"
    )]
    Chunk {
        /// Number of the chunk, from 1.
        chunk: u64,
        /// Number of chunks.
        chunks: u64,
        /// Offset of the chunk in the encrypted file.
        at: u64,
        /// Where it ends.
        end: u64,
    },
    /// The last chunk does not decrypt.
    #[error(
        "the last chunk of the encrypted file ({len} bytes at {at}) does not decrypt: the file is \
         truncated inside of it, or it is damaged"
    )]
    LastChunk {
        /// Offset of the chunk in the encrypted file.
        at: u64,
        /// Its length.
        len: u64,
    },
    /// The file ends between two chunks, before its last one, or in a piece shorter than any chunk.
    #[error("the encrypted file is truncated: its last chunk is missing, it ends at byte {len}")]
    Truncated {
        /// Bytes of the file that are there.
        len: u64,
    },
    /// Bytes follow the last chunk.
    #[error("damaged: bytes follow the end of the encrypted file, which is at byte {end}")]
    Followed {
        /// Where the file ends.
        end: u64,
    },
    /// A recipient, identity or a file of them is not valid.
    #[error("{0}")]
    Key(String),
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// True if the file is not as it was written; false if it lacks a key, or cannot be read.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Header(_)
                | Self::HeaderCut
                | Self::HeaderCode
                | Self::Chunk { .. }
                | Self::LastChunk { .. }
                | Self::Truncated { .. }
                | Self::Followed { .. }
        )
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error,
            error => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}
