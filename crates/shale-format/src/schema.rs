//! Schemas of the metadata tables: names and kinds of their columns, in order on disk.
//!
//! Column indexes are constants beside each schema, so that readers and writers share them. A
//! *sentinel row* is a last row that only ends the range of the row before it.

use crate::limits::SPACE_LEN_MAX;
use shale_model::InodeKind;
use shale_table::{ColumnKind, ColumnSpec, Only, Schema, Shift};

macro_rules! schema {
    ($(#[$doc:meta])* $module:ident, $name:literal,
     [$($column:ident = $index:literal: $kind:ident),* $(,)?]) => {
        $(#[$doc])*
        pub mod $module {
            use super::{ColumnKind, ColumnSpec, Schema};
            $(
                #[doc = concat!("Index of column `", stringify!($column), "`.")]
                #[allow(non_upper_case_globals)]
                pub const $column: usize = $index;
            )*
            /// The schema.
            pub static SCHEMA: Schema = Schema {
                name: $name,
                columns: &[$(ColumnSpec { name: stringify!($column), kind: ColumnKind::$kind }),*],
                shifts: super::shifts_of($name),
            };
        }
    };
}

schema!(
    /// Content space: where each unique content begins. One sentinel row.
    contents, "contents", [BASE = 0: U64]
);
schema!(
    /// From content space to stream space. One sentinel row.
    extents, "extents", [BASE = 0: U64, STREAM = 1: U64]
);
schema!(
    /// Frames in stream order. One sentinel row.
    frames, "frames", [
        PLAIN_START = 0: U64, STORED_OFFSET = 1: U64, STORED_LEN = 2: U64, CODEC = 3: U64,
        CATEGORY = 4: U64, DEPTH = 5: U64, REFERENCE_FIRST = 6: U64, REFERENCE_COUNT = 7: U64,
        STORED_SUM = 8: U64, PLAIN_SUM = 9: U64,
    ]
);
schema!(
    /// Reference frames of all frames, in prefix order.
    references, "references", [FRAME = 0: U64]
);
schema!(
    /// Rebuilt space: chunks of deflate streams, each rebuilt from bytes of a content. One sentinel
    /// row.
    chunks, "chunks", [
        BASE = 0: U64, CONTENT = 1: U64, OFFSET = 2: U64, PLAIN_LEN = 3: U64, MODEL = 4: U64,
        CARRIED = 5: U64, DEPTH = 6: U64, SUM = 7: U64,
    ]
);
schema!(
    /// Inodes; row = inode number - 1.
    inodes, "inodes", [
        MODE = 0: U64, UID = 1: U64, GID = 2: U64, LINK_COUNT = 3: U64,
        MTIME_SEC = 4: U64, MTIME_NSEC = 5: U64, ATIME_SEC = 6: U64, ATIME_NSEC = 7: U64,
        CTIME_SEC = 8: U64, CTIME_NSEC = 9: U64, BTIME_SEC = 10: U64, BTIME_NSEC = 11: U64,
        XATTR_SET = 12: U64, PAYLOAD = 13: U64,
    ]
);
schema!(
    /// Directories in level order. One sentinel row.
    directories, "directories", [ENTRY_FIRST = 0: U64, INODE = 1: U64, PARENT = 2: U64]
);
schema!(
    /// Directory entries by (directory, name).
    entries, "entries", [INODE = 0: U64, NAME = 1: Bytes]
);
schema!(
    /// Targets of symbolic links.
    symlinks, "symlinks", [TARGET = 0: Bytes]
);
schema!(
    /// Distinct sets of extended attributes.
    xattr_sets, "xattr_sets", [ITEM_FIRST = 0: U64, ITEM_COUNT = 1: U64]
);
schema!(
    /// The attributes of all sets, by name within a set.
    xattr_items, "xattr_items", [NAME = 0: Bytes, VALUE = 1: Bytes]
);

/// The columns of a table that a page may count from a base, see `docs/format.md`, 6.1.1.
const fn shifts_of(table: &str) -> &'static [Shift] {
    match table.as_bytes() {
        b"inodes" => &INODE_SHIFTS,
        b"directories" => &DIRECTORY_SHIFTS,
        b"entries" => &ENTRY_SHIFTS,
        _ => &[],
    }
}

const INODE_SHIFTS: [Shift; 2] = [payload_of(InodeKind::Directory), payload_of(InodeKind::Symlink)];
const DIRECTORY_SHIFTS: [Shift; 3] = [
    Shift::all(directories::ENTRY_FIRST),
    Shift::all(directories::INODE),
    Shift::all(directories::PARENT),
];
const ENTRY_SHIFTS: [Shift; 1] = [Shift::all(entries::INODE)];

/// The shift of `inodes.PAYLOAD` for inodes of one kind: their payloads are numbers of rows.
const fn payload_of(kind: InodeKind) -> Shift {
    let bits = kind.mode_bits() as u64;
    let only = Only { column: inodes::MODE, mask: MODE_TYPE_MASK, bits };
    Shift { column: inodes::PAYLOAD, only: Some(only) }
}

/// The bits of `inodes.MODE` that hold the kind.
const MODE_TYPE_MASK: u64 = 0o170_000;

/// `extents.STREAM` of a hole, which reads as zeroes and is reported by SEEK_HOLE.
pub const STREAM_HOLE: u64 = u64::MAX;
/// `extents.STREAM` of a zero run: data that is all zero.
pub const STREAM_ZERO: u64 = u64::MAX - 1;
/// `extents.STREAM` from here on, below [`STREAM_ZERO`], is this plus an offset in rebuilt space.
pub const STREAM_REBUILT: u64 = 1 << 63;
/// End of rebuilt space.
pub const REBUILT_SPACE_LEN_MAX: u64 = SPACE_LEN_MAX - STREAM_REBUILT;
