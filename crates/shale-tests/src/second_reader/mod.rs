//! A second reader of images, written from `docs/format.md` alone.
//!
//! It is slow and plain on purpose: what it shares with the product is the specification, and the
//! codecs that the specification refers to. It reads every table whole and checks little beyond
//! what it needs. If it and the product disagree, one of them or the specification is wrong.

/// Chapter 6: table pages.
pub mod page;
/// Chapter 9.1: the filter of lines.
pub mod lines;
/// Chapter 9.2: the filter of arrays.
pub mod array;
/// Chapter 9.4: the filter of samples.
pub mod samples;
/// Chapter 9.3: models of encoders.
pub mod model;
/// Chapters 4, 5, 7 and 8: from the superblock to the bytes of a file.
pub mod image;
/// Appendix E: a thin image and its base as one image.
pub mod thin;
/// Appendix A: the Merkle tree, computed again.
pub mod merkle;
