//! What can be wrong with a structure of an image.
//!
//! Errors here name the structure and the field, what was expected and what was found. The reader
//! adds the file and the offset.

use thiserror::Error;

/// Why bytes are not the structure that they should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The structure needs more bytes than there are.
    #[error("{structure} needs {expected} bytes, but only {found} are there")]
    Short {
        /// The structure.
        structure: &'static str,
        /// Bytes it needs.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The first bytes are not the structure's magic.
    #[error("{structure} does not begin with its magic bytes")]
    Magic {
        /// The structure.
        structure: &'static str,
    },
    /// The checksum of the structure is not the stored one.
    #[error("{structure} is damaged: checksum {expected:016x} stored, {found:016x} computed")]
    Checksum {
        /// The structure.
        structure: &'static str,
        /// The stored checksum.
        expected: u64,
        /// The checksum of the bytes found.
        found: u64,
    },
    /// Written by a newer major version.
    #[error(
        "the image has format version {major}.{minor}, newer than this program reads \
         ({}.x); use a newer shale",
        crate::VERSION_MAJOR
    )]
    Version {
        /// Major version of the image.
        major: u16,
        /// Minor version of the image.
        minor: u16,
    },
    /// Uses a feature this reader does not know and must not ignore.
    #[error(
        "the image uses features this program does not know (bits {bits:#x}); use a newer shale"
    )]
    Features {
        /// The unknown incompatible bits.
        bits: u64,
    },
    /// A field holds a value outside its limits.
    #[error("{structure}: {field} is {found}, allowed is {allowed}")]
    Field {
        /// The structure.
        structure: &'static str,
        /// The field.
        field: &'static str,
        /// The value found.
        found: u64,
        /// What is allowed.
        allowed: &'static str,
    },
}
