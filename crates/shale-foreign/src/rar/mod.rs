//! RAR, in: versions 1.5 to 7. The decompressor is that of the crate `rars`, which is Rust without
//! `unsafe`.

mod headers; // what headers say, as entries of a tree
mod source; // an archive as a source

pub(crate) use headers::find;
pub(crate) use source::open;

/// What every archive begins with; a byte for the version follows.
pub(crate) const MAGIC: &[u8] = b"Rar!\x1a\x07";

const FORMAT: &str = "RAR archive";
