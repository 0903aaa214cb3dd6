//! DwarFS 2.0 to 2.5, in: sections with and without index, after any header; all its codecs;
//! packed metadata; holes.
//!
//! Written from the public description of the format; where that is silent (metadata fields, Rice
//! and FLAC parameters) the behaviour of its public sources was looked up. No code was taken.

mod codec; // blocks, compressed in its seven ways
mod frozen; // metadata: fields of as many bits as they need
mod thrift; // the encoding of the schema and of headers
mod tables; // what the metadata say, typed and unpacked
mod source; // an image as a source

pub use source::{DwarfsSource, find};
