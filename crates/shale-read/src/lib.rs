//! Opens, looks up, reads, caches and verifies ShaleFS images.
//!
//! [`Image::open`] finds superblock, trailer and root in a [`ByteSource`] with three reads,
//! whatever the size of the image. [`Image::tree`] returns a [`Tree`], one snapshot: names and
//! attributes come from table pages, which are fetched, verified and cached one by one.
//! [`Tree::read`] turns a range of a file into extents, extents into frames, and frames into bytes
//! through the [`FrameCache`].
//!
//! Every byte is compared with its checksum before it is used. Bytes from an image are never
//! trusted: every number is checked before it indexes, sizes or recurses, and damage becomes a
//! [`ReadError`] that says where it is. This crate does not know the writer, the kernel or the
//! terminal. It maps no files and starts no threads but those of [`Workers`], if it is given some.
//! Everything in it may be used from many threads at once.
//!
//! ```
//! use shale_read::{Image, SnapshotChoice};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/0.3-tiny.shale");
//! let tree = Image::open_path(path)?.tree(&SnapshotChoice::Newest)?;
//! let inode = tree.lookup_path(b"symlink")?.expect("the link exists");
//! assert_eq!(tree.link_target(inode)?, b"d/text");
//! let inode = tree.lookup_path(b"d/text")?.expect("the file exists");
//! assert_eq!(tree.read_to_vec(inode, 1 << 20)?.len(), 3000);
//! # Ok::<(), shale_read::ReadError>(())
//! ```
//!
//! The modules below are layers in the order in which data pass them. A layer uses the layers
//! above it in this list, and never the ones below.

mod error; // what can go wrong, and where
mod counters; // what reading costs, in counts
mod storage; // where bytes come from; sections and table pages
pub mod trust; // identity, and parity that repairs
pub mod files; // several files that hold one image: a thin image and its base, parts
mod frames; // frames: decoded, verified, cached
mod content; // the bytes of files: contents, extents, pieces
mod snapshot; // names, attributes, directories, walks
mod options; // how an image is opened
mod image; // an open image: its root, its tables, its frames
mod tree; // one snapshot's file tree
mod file; // a handle to one regular file

pub use content::map::{Piece, PieceKind, Pieces, Unit};
pub use counters::{CounterSnapshot, Counters};
pub use error::{Expected, Fault, Kind, ReadError};
pub use file::FileReader;
pub use frames::cache::FrameCache;
pub use frames::part::FrameBytes;
pub use frames::records::{FrameRecords, References};
pub use frames::store::ReadCost;
pub use frames::workers::Workers;
pub use image::Image;
pub use options::{Options, SnapshotChoice};
pub use snapshot::attributes::Attributes;
pub use snapshot::listing::{Entries, Entry, EntryRef};
pub use snapshot::shared::ChangedDirectories;
pub use snapshot::walk::{Walk, WalkEntry, WalkStep};
#[doc(hidden)]
pub use storage::faulty::FaultySource;
pub use storage::open::{OffsetChoice, Recovery, is_padding};
pub use storage::pages::TablePages;
pub use storage::sections::SectionWalk;
pub use storage::source::{ByteSource, FileSource, MemorySource, SliceSource};
pub use storage::tables::{PageCheck, TableId};
pub use tree::Tree;
pub use trust::heal::Log;
pub use trust::merkle::identity_of;

pub use shale_codec::Codec;
pub use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
pub use shale_format::{Category, Identity, InodeKind, Snapshot, Timestamp};
pub use shale_model::{Metadata, Xattr};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
