//! Files out of ShaleFS images: into a directory, into an archive, or listed.
//!
//! [`extract()`] writes files below a directory and never outside of it; [`export()`] writes an
//! archive of another format; [`listing`] finds paths in an image and walks directories.
//!
//! This crate reads images. It does not know the build pipeline.

mod error; // why something was not extracted or exported
pub mod listing; // paths in an image
mod extract; // an image into a directory
mod export; // an image into an archive

pub use error::Error;
pub use export::{ExportFormat, ExportOptions, ExportReport, export, export_to_archive};
pub use extract::{
    ExtractOptions, ExtractReport, Overwrite, Owner, Problem, ProblemKind, Sparse, extract,
};
pub use listing::patterns_in_tree;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
