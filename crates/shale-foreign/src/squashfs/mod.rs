//! SquashFS 4.0, in and out: compressors, fragments, holes, hard links and attributes.

mod metadata; // blocks of metadata and the tables
mod inode; // one inode
mod source; // an image as a source
mod layout; // what metadata is made of, out
mod write; // an image as an output

pub(crate) use metadata::{MAGIC, find};
pub use source::SquashfsSource;
pub use write::{SquashfsOptions, SquashfsWriter};
