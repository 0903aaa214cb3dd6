//! A directory tree as a source.

pub(crate) mod options; // how the tree is walked
pub(crate) mod xattrs; // extended attributes
pub(crate) mod list; // lists one directory
pub(crate) mod walk; // lists all directories, in parallel
pub(crate) mod file; // one regular file
pub(crate) mod directory_source; // the walked tree as a source
