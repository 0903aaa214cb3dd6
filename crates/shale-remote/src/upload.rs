//! Writes an object to a store: all of it or nothing, and never over another one by accident.
//!
//! Each store has its protocol. All of them send an object in pieces, make it an object with the
//! last request, and refuse bytes that changed on their way. Bytes that the object already has are
//! not sent again where the store can take them over.

mod azure; // Azure Blob Storage: blocks, and lists of them
mod contents; // what is written, over what
mod destination; // an object that is written
mod google; // Google Cloud Storage: sessions, and objects that are composed
mod name; // which object
mod parts; // pieces, and several of them at once
mod s3; // Amazon S3, and stores with its protocol: parts
mod task; // one upload, and whether it may replace what there is

pub use contents::{Contents, Replace, State, Watch};
pub use destination::Destination;
