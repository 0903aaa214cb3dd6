//! 7z archives, in and out.

mod source; // an archive as a source
mod write; // a tree as an archive

pub(crate) use source::{MAGIC, open};
pub use write::SevenzWriter;
