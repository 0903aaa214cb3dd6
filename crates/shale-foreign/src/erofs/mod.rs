//! EROFS images, in: uncompressed, in chunks, and compressed with LZ4; and out: uncompressed.

mod superblock; // what the image begins with
mod inode; // one inode, and its attributes
mod compressed; // where the pieces of a compressed file are
mod lz4; // LZ4 blocks
mod content; // the bytes of a file
mod source; // an image as a source
mod encode; // structures of an image that is written
mod write; // a tree as an image

pub(crate) use source::ErofsSource;
pub(crate) use superblock::{MAGIC, MAGIC_OFFSET};
pub use write::ErofsWriter;
