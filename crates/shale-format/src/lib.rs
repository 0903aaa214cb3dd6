//! What a ShaleFS image is: every byte on disk, typed.
//!
//! This crate is the only place that knows the layout of an image. It has the fixed structures
//! (superblock, section header, trailer, root), the schemas of the metadata tables and all limits.
//! It does no I/O, starts no threads and links no codec: callers pass bytes and get typed, checked
//! values, or pass values and get bytes. The normative text is `docs/format.md`; `cargo xtask tidy`
//! compares its tables with the structures here.
//!
//! ```
//! use shale_format::Superblock;
//!
//! // Not a real sum: callers pass `shale_codec::xxh3_64`.
//! let sum = |bytes: &[u8]| bytes.iter().fold(1, |sum, &byte| sum * 3 % 1009 + u64::from(byte));
//! let superblock = Superblock::new([7; 16]);
//! let bytes = superblock.encode(sum);
//! assert_eq!(Superblock::decode(&bytes, sum)?, superblock);
//!
//! let mut damaged = bytes;
//! damaged[32] ^= 1;
//! assert!(Superblock::decode(&damaged, sum).is_err());
//! # Ok::<(), shale_format::FormatError>(())
//! ```

/// Bytes as hexadecimal text.
pub mod hex;
/// Errors of decoding a structure.
mod error;
/// Every limit, with its reason.
pub mod limits;
/// Feature bits that say who may read an image.
pub mod features;
/// The first bytes of an image.
pub mod superblock;
/// The header of every section.
pub mod section;
/// The last section: where the newest root is.
pub mod trailer;
/// The Merkle tree over the image, and its identity.
pub mod merkle;
/// The head of a file that holds only the end of an image.
pub mod thin;
/// Signatures over the identity.
pub mod signature;
/// Parity: where its bodies and hashes lie.
pub mod parity;
/// Fingerprints of frames, for appends.
pub mod append_index;
/// The root: tables, bounds and snapshots.
pub mod root;
/// Table pages that are compressed with another page as their prefix.
pub mod page_prefix;
/// Schemas of the metadata tables.
pub mod schema;
/// The typed row of the frame table.
mod frame;
/// The typed row of the table of chunks: deflate streams that are rebuilt.
mod chunk;
/// The typed row of the inode table: kinds, times, device numbers.
pub mod inode;
/// The header of a bundle: an executable and an image in one file.
pub mod bundle;

pub use append_index::AppendIndex;
pub use bundle::Bundle;
pub use chunk::{Carried, ChunkRecord};
pub use error::FormatError;
pub use features::Features;
pub use frame::{Category, FrameRecord};
pub use inode::InodeRecord;
pub use merkle::{Identity, MerkleHead};
pub use parity::ParityHead;
pub use root::{EarlierRoot, ReadBounds, Root, Snapshot};
pub use section::{SectionHeader, SectionType};
pub use signature::Signature;
pub use superblock::Superblock;
pub use thin::ThinHead;
pub use trailer::Trailer;

pub use shale_model::{InodeKind, Timestamp};

/// Major version of the format. Older readers refuse a newer one.
pub const VERSION_MAJOR: u16 = 0;
/// Minor version of the format.
pub const VERSION_MINOR: u16 = 4;

/// XXH3-64 of bytes, passed by callers so that this crate links no digest.
///
/// Structures with a checksum of their own take one of these: always `shale_codec::xxh3_64`.
pub type Checksum = fn(&[u8]) -> u64;
