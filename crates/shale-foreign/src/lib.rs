//! Formats of others, in and out: what people hold their data in already, and want it back in.
//!
//! Importers are [`shale_write::Source`]s: they yield entries with all metadata that their format
//! keeps, and contents as they are read. Exporters take entries and contents in order and write
//! another format. Nothing here knows images of ShaleFS, and nothing is ever unpacked to disk.
//!
//! What comes from an archive is never trusted: numbers are checked before they size anything,
//! names are made relative and may not climb, and what cannot be read right is an error that names
//! the entry and the place, not a guess.

// What all share.
pub mod error; // why an archive cannot be read
mod names; // paths of archives as paths of a tree
mod acl; // access control lists as text
mod identity; // who is a further name of whom
mod ahead; // a thread that reads ahead
mod tree; // what importers of whole images share
pub mod archive; // what every exporter implements
mod ordered; // threads whose results come in order

// Formats.
pub mod detect; // which format it is
pub mod tar; // tar in all its dialects
pub mod cpio; // cpio, out
pub mod squashfs; // SquashFS
pub mod zip; // zip
pub mod dwarfs; // DwarFS

pub use archive::{Archive, ArchiveEntry};
pub use cpio::CpioWriter;
pub use detect::{Format, detect};
pub use dwarfs::DwarfsSource;
pub use error::ForeignError;
pub use squashfs::{SquashfsOptions, SquashfsSource, SquashfsWriter};
pub use tar::{TarOptions, TarSource, TarWriter};
pub use tree::ImageFile;
pub use zip::{ZipSource, ZipWriter};
