//! cpio: all its dialects in, newc out.

mod header; // one header, in five forms
mod source; // an archive as a source
mod write; // a tree as an archive

pub use header::is_cpio;
pub use source::CpioSource;
pub use write::CpioWriter;
pub(crate) use write::seconds;
