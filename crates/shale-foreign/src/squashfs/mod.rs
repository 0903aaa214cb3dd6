//! SquashFS 4.0, in: all its compressors, fragments, holes, hard links and attributes.

mod metadata; // blocks of metadata and the tables
mod inode; // one inode
mod source; // an image as a source

pub use source::SquashfsSource;

/// Bytes that an image begins with.
pub(crate) const MAGIC: &[u8; 4] = b"hsqs";
