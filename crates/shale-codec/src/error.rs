//! What can go wrong when encoding and decoding, and when reading settings from text.
//!
//! Decoding errors mean that the stored bytes (or the lengths or prefix given with them) are
//! wrong. They carry what was expected and found. Nothing here panics.

use std::io;

use crate::Codec;

/// Why bytes could not be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The settings given to an encoder are not allowed.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The frame is longer than this crate handles.
    #[error("{codec}: a frame of {len} bytes is longer than the {len_max} allowed")]
    TooLong {
        /// The codec that was asked.
        codec: Codec,
        /// The frame's plain length, in bytes.
        len: u64,
        /// The most that is allowed, in bytes.
        len_max: u64,
    },
    /// The library refused to compress, because of a limit or a bug.
    #[error("{codec}: compression failed: {detail}")]
    Encode {
        /// The codec that was asked.
        codec: Codec,
        /// The library's words.
        detail: String,
    },
    /// This build of the crate lacks the feature for the codec.
    #[error("{codec}: this build cannot do it")]
    NotBuilt {
        /// The codec that was asked.
        codec: Codec,
    },
    /// The stored bytes are not a frame of this codec, or the prefix is not the one it was made
    /// with.
    #[error("{codec}: stored bytes are damaged: {detail}")]
    Corrupt {
        /// The codec that was asked.
        codec: Codec,
        /// The library's words.
        detail: String,
    },
    /// The stored bytes decode to another length than expected.
    #[error("{codec}: frame decodes to {found} bytes, {expected} expected")]
    WrongLength {
        /// The codec that was asked.
        codec: Codec,
        /// The length the caller asked for, in bytes.
        expected: u64,
        /// The length found, in bytes; for a frame that is too long, what was seen of it.
        found: u64,
    },
    /// Memory for the result or for a library's tables was refused.
    #[error("{codec}: no memory for {len} bytes")]
    OutOfMemory {
        /// The codec that was asked.
        codec: Codec,
        /// The amount asked for, in bytes.
        len: u64,
    },
}

/// Why a text or a set of numbers is not a codec setting, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("codec setting `{input}`: {problem}; allowed: {allowed}")]
pub struct SettingsError {
    /// The text at fault, as given (or as it would be written).
    pub input: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be accepted in its place.
    pub allowed: String,
}

impl From<CodecError> for io::Error {
    fn from(error: CodecError) -> io::Error {
        let kind = match error {
            CodecError::Settings(_) | CodecError::TooLong { .. } => io::ErrorKind::InvalidInput,
            CodecError::Corrupt { .. } | CodecError::WrongLength { .. } => {
                io::ErrorKind::InvalidData
            }
            CodecError::OutOfMemory { .. } => io::ErrorKind::OutOfMemory,
            CodecError::Encode { .. } => io::ErrorKind::Other,
            CodecError::NotBuilt { .. } => io::ErrorKind::Unsupported,
        };
        io::Error::new(kind, error)
    }
}
