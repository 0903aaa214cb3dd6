//! tar in all its dialects: v7, ustar, PAX, GNU, star and Solaris; and tar out.

mod header; // one block
mod pax; // extended headers
mod sparse; // maps of files with holes
mod source; // an archive as a source
mod write; // a tree as an archive

pub use source::{TarOptions, TarSource};
pub use write::{TarWriter, Times};

/// Whether an archive begins like this: a header with the right sum, or the empty archive.
pub fn is_tar(head: &[u8]) -> bool {
    match head.first_chunk::<{ header::BLOCK_LEN }>() {
        Some(block) => header::is_header(block) || (head.len() >= 1024 && is_zero(head)),
        None => false,
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
