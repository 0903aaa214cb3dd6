//! The image as it is written.

pub(crate) mod hashes; // the Merkle tree, stored as far as it is new
pub(crate) mod emitter; // sections and trailer, front to back
pub(crate) mod frame_table; // frames and their references
pub(crate) mod follow; // where pages end, so that they are shared with an earlier table
pub(crate) mod pack; // one page: on its own, as a patch, or with a prefix
pub(crate) mod pages; // pages of tables, encoded by all threads
pub(crate) mod tables; // the metadata tables and the root
