//! Sources of entries: a directory tree, and a written list.

pub(crate) mod scan; // a directory tree
pub mod manifest; // a written list of entries

pub use scan::list::file_identity;
pub use shale_model::{
    Content, ContentFile, LinkId, Metadata, Missing, OpenContent, Repeat, Review, Xattr,
};
