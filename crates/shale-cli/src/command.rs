//! One file a subcommand: each turns arguments into a call and the result into words.

pub mod create; // a directory into an image
pub mod mount; // an image onto a directory
pub mod umount; // and off it
pub mod ls; // one directory
pub mod tree; // all below a directory
pub mod stat; // all about a file
pub mod cat; // bytes of files
pub mod extract; // files out of an image
pub mod export; // an image as an archive
pub mod info; // what an image is made of
pub mod check; // whether it is whole
pub mod repair; // whole again
pub mod parity; // so that it can be
pub mod sign; // keys and signatures
pub mod dump; // its structures
pub mod stats; // a mount's counters
pub mod man; // pages
mod attributes; // modes, times and JSON of an inode
