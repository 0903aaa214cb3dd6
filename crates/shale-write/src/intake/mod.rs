//! The first half of a build: takes entries through all stages up to the last frame.

mod treatment; // how one file is treated
mod sketched; // what is found out about a content beforehand
mod outcome; // what became of a content
mod large; // large contents, read by the threads
mod copied; // contents that come once
pub(crate) mod contents; // puts contents into the stream
pub(crate) mod entries; // takes entries in, in the order of the source
