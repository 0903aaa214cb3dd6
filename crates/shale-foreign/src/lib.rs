//! Formats of others, in and out.
//!
//! Importers are [`shale_model::EntrySource`]s: they yield entries with all metadata that their
//! format keeps, and contents while they are read. [`open()`] recognises the format of a file.
//! Exporters take entries and contents in order and write another format. Nothing here knows
//! images of ShaleFS, and nothing is unpacked to disk.
//!
//! Archives are not trusted. Numbers are checked before they size anything, and paths cannot leave
//! the tree. What cannot be read right is an error or a problem that names the entry and the place,
//! never a guess.

// What all share.
mod names; // paths of archives as paths of a tree
mod error; // why an archive cannot be read
pub mod lacks; // what only the caller can give
mod selection; // filter rules
mod acl; // access control lists as text
mod base64; // bytes as text
mod identity; // hard-link detection

// Archives that are read from front to back.
mod decompress; // decompression with errors in words
mod lzw; // the compression of compress(1)
pub mod lrzip; // lrzip
mod compression; // compression around an archive
mod ahead; // a thread that reads ahead
mod stream; // plain bytes, and contents as parts of them

// Archives that are read at offsets.
mod tree; // bytes at offsets, cached blocks
mod handed; // contents that a thread hands over

// Archives that are written.
pub mod archive; // what every exporter implements
mod way; // the directories on the way to an entry
mod ordered; // threads whose results come in order

// Formats.
pub mod tar; // tar in all its dialects, in and out
mod cpio; // cpio: all dialects in, newc out
mod zip; // zip, in and out
mod squashfs; // SquashFS, in and out
mod dwarfs; // DwarFS, in
mod ar; // ar archives and Debian packages, in
mod rpm; // RPM packages, in
pub mod oci; // images of containers, in and out
mod sevenz; // 7z, in and out
#[cfg(feature = "rar")]
mod rar; // RAR, in
mod iso; // ISO 9660, in and out
mod erofs; // EROFS, in and out
mod xar; // xar, in
mod cab; // cabinets, in
mod mtree; // mtree, out

// Any format.
pub mod detect; // the format of a file
pub mod open; // a file of any format as a source

pub use archive::{Archive, ArchiveEntry};
pub use compression::Compression;
pub use cpio::{CpioSource, CpioWriter};
pub use detect::{Format, detect};
pub use dwarfs::DwarfsSource;
pub use erofs::ErofsWriter;
pub use error::ForeignError;
pub use iso::IsoWriter;
pub use mtree::MtreeWriter;
pub use open::{OpenOptions, open};
pub use selection::Selection;
pub use sevenz::SevenzWriter;
pub use squashfs::{SquashfsOptions, SquashfsSource, SquashfsWriter};
pub use stream::Input;
pub use tar::{TarOptions, TarSource, TarWriter};
pub use tree::ImageFile;
pub use zip::{ZipSource, ZipWriter};
