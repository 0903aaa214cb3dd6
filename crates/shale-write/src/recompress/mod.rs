//! Compressed files as what is in them: deflate streams in containers, taken apart so that a
//! reader can rebuild them.

pub(crate) mod gzip; // members of gzip files
pub(crate) mod zip; // entries of zip files
pub(crate) mod zlib; // streams with zlib's header
pub(crate) mod git; // objects in packs of git
pub(crate) mod pdf; // streams of PDF documents
pub(crate) mod tar; // files in tar archives
pub(crate) mod container; // which of them a file is
pub(crate) mod gate; // memory that threads share
pub(crate) mod take_apart; // streams as plain bytes and chunks
