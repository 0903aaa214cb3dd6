//! What is packed, as a stream of entries: directory trees, manifests, archives of other formats
//! and images; which of their entries, below which prefix, with which metadata.
//!
//! [`open()`] makes one [`EntrySource`](shale_model::EntrySource) of all inputs. This crate does
//! not know how an image is built: `shale-write` takes any such stream.

mod error; // why an input could not be opened
mod described; // what the caller names
mod directory; // a directory tree, walked in parallel
mod listed; // what written lists of entries share
pub mod manifest; // a manifest
mod mtree; // an mtree list
mod adjust; // other metadata
mod chmod; // changes of permissions
mod pseudo; // entries and changes of a pseudo file
mod labels; // SELinux labels of a file of file contexts
mod caches; // what lies in directories of caches
mod git; // what `.gitignore` files leave out
mod join; // several sources as one
mod share; // a part of the entries, for one of several builds
mod choose; // which entries are taken
mod options; // what the caller decides
mod cut; // shares for several builds
mod follow; // links as what they lead to
mod pipe; // what comes through a pipe
mod whole; // all bytes of a file
mod image; // an image of ShaleFS as a source
mod copied; // a tree whose contents are copied as they are stored
mod single; // a file that is no archive
mod open; // all of it as one source

pub use adjust::{Adjust, IdRange};
pub use chmod::Chmod;
pub use choose::{Choose, Decision, Listed, Record};
pub use copied::{added, copied};
pub use cut::{Cutting, PART_BYTES_MIN, cut};
pub use described::{Input, InputKind};
pub use directory::directory_source::DirectorySource;
pub use directory::list::file_identity;
pub use directory::options::ScanOptions;
pub use error::Error;
pub use image::held;
pub use join::{Claims, Joined, Part, join};
pub use labels::FileContexts;
pub use manifest::manifest_source::ManifestSource;
pub use open::{open, parts, without_empty};
pub use options::{Container, OtherImages, Password, SourceOptions};
pub use pseudo::Pseudo;
pub use share::Share;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
