//! Open, look up, read, cache and verify a ShaleFS image.
//!
//! The life of a read: [`Image::open`] finds superblock, trailer and root in a [`Source`] with a
//! few reads, whatever the size of the image. [`Image::tree`] gives a [`Tree`], one snapshot: names
//! and attributes come from table pages, fetched, verified and cached one by one. [`Tree::read`]
//! turns a range of a file into extents, extents into frames, and frames into bytes through the
//! [`FrameCache`].
//!
//! Every byte is checked against its checksum before use. Bytes from an image are never trusted:
//! every number is checked before it indexes, sizes or recurses, and what is wrong becomes a
//! [`ReadError`] that says where. This crate knows no writer, kernel or terminal, maps no files and
//! starts no threads but those of [`Workers`], where it is given some; everything in it may be used
//! from many threads at once.

mod error; // what can go wrong, and where
mod counters; // what reading cost, countable
mod source; // where bytes come from: positioned, thread-safe reads
mod faults; // a source that fails or lies, for tests of any crate
mod stored; // the bytes of one image: bounded and counted
mod decoders; // decoder contexts, kept for the next decode
pub mod trust; // identity, and parity that repairs
mod sections; // superblock, section headers, trailer: finding an image in a source
mod image; // an open image: root, tables, snapshots
mod pages; // table pages: fetched, verified, cached
mod tree; // one snapshot: inodes, names, links
mod directory; // one directory: its range of entries, listed
mod order; // which entries may follow each other, and that a directory has one name
mod naming; // from an inode back to a path
mod xattrs; // extended attributes
mod descend; // a whole tree, depth first, safe from loops
mod window; // rows near each other, decoded together
mod content; // from a content to extents and frames
mod file; // from a range of a file to bytes
mod frames; // frame records, and one frame decoded and verified
mod cache; // decoded frames: bounded, each decoded once
mod workers; // threads that decode beside the readers
mod ahead; // frames of one read decoded side by side
mod prefetch; // frames that will be wanted next
mod walk; // sections, tables and frames in bulk, for check and dump

pub use cache::{FrameBytes, FrameCache};
pub use content::{Piece, PieceKind, Pieces};
pub use counters::{CounterSnapshot, Counters};
pub use descend::{Descend, Visit};
pub use directory::EntryRef;
pub use error::{Expected, Fault, Kind, ReadError};
#[doc(hidden)]
pub use faults::FaultySource;
pub use frames::References;
pub use image::{Image, OffsetChoice, Options, Recovery, SnapshotChoice};
pub use pages::TablePages;
pub use sections::SectionWalk;
pub use source::{FileSource, MemorySource, SliceSource, Source};
pub use tree::{Attributes, Tree};
pub use trust::heal::Log;
pub use trust::merkle::identity_of;
pub use walk::{FrameRecords, PageCheck, ReadCost, TableId};
pub use workers::Workers;
pub use xattrs::Xattr;

pub use shale_codec::Codec;
pub use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
pub use shale_format::{Category, Identity, InodeKind, Snapshot, Timestamp};
