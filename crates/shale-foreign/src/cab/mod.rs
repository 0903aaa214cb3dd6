//! Cabinet files (`.cab`), in: stored, MSZIP and LZX.

mod headers; // what a cabinet says of its folders and files
mod folder; // the bytes of a folder
mod source; // a cabinet as a source

pub(crate) use headers::MAGIC;
pub(crate) use source::open;
