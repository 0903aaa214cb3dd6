//! What a ShaleFS image is: every byte on disk, typed.
//!
//! This crate is the only place that knows the layout of an image. It holds the fixed structures
//! (superblock, section header, trailer, root), the schemas of the metadata tables and all limits.
//! It does no I/O, starts no threads and links no codec: callers hand it bytes and get typed,
//! validated values back, or the other way round. The normative text is `docs/format.md`; its
//! tables are compared with the structures here by `cargo xtask tidy`.

/// Errors of decoding a structure.
pub mod error;
/// Every limit, with its reason.
pub mod limits;
/// Feature bits that say who may read an image.
pub mod features;
/// The first bytes of an image.
pub mod superblock;
/// The self-describing header before every section.
pub mod section;
/// The last section: where the newest root is.
pub mod trailer;
/// The Merkle tree over all of it, and the identity made of that.
pub mod merkle;
/// Signatures over the identity.
pub mod signature;
/// Parity: where bodies and hashes lie in a parity section.
pub mod parity;
/// The root: tables, bounds and snapshots.
pub mod root;
/// Schemas of the metadata tables.
pub mod schema;
/// The typed row of the frame table.
pub mod frame;
/// The typed row of the inode table: kinds, times, device numbers.
pub mod inode;

pub use error::FormatError;
pub use features::Features;
pub use frame::{Category, FrameRecord};
pub use inode::{InodeKind, InodeRecord, Timestamp};
pub use merkle::{Identity, MerkleHead};
pub use parity::ParityHead;
pub use root::{ReadBounds, Root, Snapshot};
pub use section::{SectionHeader, SectionType};
pub use signature::Signature;
pub use superblock::Superblock;
pub use trailer::Trailer;

/// Format version written by this crate: major changes are unreadable by older readers.
pub const VERSION_MAJOR: u16 = 0;
/// Minor version: additions an older reader of the same major version may ignore.
pub const VERSION_MINOR: u16 = 3;

/// XXH3-64 of `bytes`, supplied by callers so that this crate links no digest.
///
/// Structures that carry their own checksum take one of these, always `shale_codec::xxh3_64`.
pub type Checksum = fn(&[u8]) -> u64;
