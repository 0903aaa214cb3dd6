//! One snapshot: its names, and what each inode is.
//!
//! Modules ask the tables of a snapshot; [`crate::Tree`] is what users of this crate see of them.

pub(crate) mod attributes; // what `stat` reports of an inode
pub(crate) mod directory; // one directory: its range of entries
pub(crate) mod marks; // how far large directories were scanned
pub(crate) mod tables; // the tables of a snapshot: rows, validated
pub(crate) mod entry_order; // the order of entries; a directory has one name
pub(crate) mod windows; // neighbouring rows, decoded together
pub(crate) mod lookup; // from a name or a path to an inode
pub(crate) mod listing; // the entries of a directory, from any cookie on
pub(crate) mod names; // from an inode back to a path
pub(crate) mod xattrs; // extended attributes
pub(crate) mod walk; // a whole tree, depth first, safe from loops
pub(crate) mod shared; // directories that can differ between two snapshots
