//! Several files that together hold one image: a thin image with its base, and the parts of an
//! image that was split.
//!
//! [`gather`] takes the file that a user names, finds the others that it needs, verifies that they
//! are the right ones, and returns one [`ByteSource`](crate::ByteSource) of the whole image.
//! Everything else in this crate sees only that. An image in one file costs one read.

mod place; // where a file is, and what is beside it
mod parts; // the parts of an image that was split
mod base; // a file as the base of a thin image
mod gather; // all files of an image as one source

pub use base::BaseFacts;
pub use gather::{Gathered, gather, open_file};
pub use parts::{PART_LEN_MIN, PARTS_COUNT_MAX, PartName};
pub use place::{Bases, FilePlace, Place};
