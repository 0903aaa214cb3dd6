//! Compressed files as what is in them: deflate streams in containers, taken apart so that a
//! reader can rebuild them.

pub(crate) mod gzip; // members of gzip files
pub(crate) mod zip; // entries of zip files
pub(crate) mod take_apart; // streams as plain bytes and chunks
