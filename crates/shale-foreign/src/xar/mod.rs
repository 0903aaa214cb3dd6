//! xar archives, in: the packages of macOS.

mod xml; // elements of a text in XML
mod contents; // what the table of contents says
mod source; // an archive as a source

pub(crate) use source::{MAGIC, open};
