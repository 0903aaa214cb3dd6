//! A written list of entries as a source.

pub(crate) mod line; // parses one line
pub(crate) mod content; // contents of files
pub(crate) mod manifest_source; // the list as a source

pub use line::{Detail, Given, PATH_LEN_MAX, parse, parse_xattr};
