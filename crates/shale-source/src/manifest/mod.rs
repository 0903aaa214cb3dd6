//! A written list of entries as a source.

pub(crate) mod line; // parses one line
pub(crate) mod manifest_source; // the list as a source

pub use crate::listed::{Given, PATH_LEN_MAX};
pub use line::{Detail, parse, parse_xattr};
