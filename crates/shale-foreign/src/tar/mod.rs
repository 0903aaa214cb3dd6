//! tar in all its dialects: v7, ustar, PAX, GNU, star and Solaris; and tar out.

mod header; // one block
mod pax; // extended headers
mod sparse; // maps of files with holes
mod source; // an archive as a source
mod members; // where files lie
mod write; // a tree as an archive

pub(crate) use header::begins_with_header;
pub use header::is_tar;
pub(crate) use members::{Member, members};
pub use source::{TarOptions, TarSource};
pub use write::{TarWriter, Times};
