//! Entries gathered before they are extracted.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// Most entries gathered before they are extracted, including directories that the walk has left.
/// Enough to sort the contents of a whole tree into the order of the image, few enough (below 100
/// MB) for memory. Tests use fewer, so that small trees fill a batch.
pub(super) const BATCH_ITEMS_MAX: usize = if cfg!(test) { 50 } else { 500_000 };

/// A directory that is selected, or on the way to a selected entry.
pub(super) struct Directory {
    pub(super) parent: usize,
    pub(super) name: Vec<u8>,
    pub(super) inode: u64,
    /// It exists: created, or found and merged.
    pub(super) is_made: bool,
    /// Its attributes are to be restored.
    pub(super) is_restored: bool,
    /// Its name is stripped from paths: it stands for the target.
    pub(super) is_stripped: bool,
}

/// A second or later name of a file.
pub(super) struct Link {
    pub(super) inode: u64,
    pub(super) directory: usize,
    pub(super) name: Vec<u8>,
}

/// A file, link or device to create, or a part of a long file.
pub(super) struct Item {
    /// Content id; 0 if there is no content.
    pub(super) content: u64,
    /// Bytes of content, or of the part.
    pub(super) len: u64,
    pub(super) inode: u64,
    /// Index in [`Batch::directories`].
    pub(super) directory: usize,
    pub(super) name: Box<[u8]>,
    /// For a part: index in [`Batch::large`], and its range of the file.
    pub(super) part: Option<(usize, Range<u64>)>,
}

/// A long file that is written in parts.
pub(super) struct Large {
    pub(super) state: Mutex<LargeState>,
    pub(super) parts_left: AtomicUsize,
}

pub(super) enum LargeState {
    New,
    Open(Arc<File>),
    /// It was kept as it is, or cannot be created; its parts are skipped.
    Skipped,
}

impl Large {
    pub(super) fn new(parts: u64) -> Self {
        let parts = usize::try_from(parts).unwrap_or(usize::MAX);
        Self { state: Mutex::new(LargeState::New), parts_left: AtomicUsize::new(parts) }
    }
}

/// The entries gathered for one round.
pub(super) struct Batch {
    /// The root first, parents before children.
    pub(super) directories: Vec<Directory>,
    pub(super) items: Vec<Item>,
    /// Files written in parts, by index in [`Item::part`].
    pub(super) large: Vec<Large>,
    pub(super) links: Vec<Link>,
    pub(super) bytes: u64,
}

impl Batch {
    /// True if the batch is to be extracted before more is gathered. The `open_count` directories
    /// on the way down stay in any case and do not count.
    pub(super) fn is_full(&self, open_count: usize) -> bool {
        let left = self.directories.len().saturating_sub(open_count);
        self.items.len() + self.links.len() + left >= BATCH_ITEMS_MAX
    }

    /// Path of a directory, without slashes at its ends; empty for the target.
    pub(super) fn path(&self, directory: usize) -> Vec<u8> {
        let mut chain = Vec::new();
        let mut at = directory;
        while at != 0 && !self.directories[at].is_stripped {
            chain.push(at);
            at = self.directories[at].parent;
        }
        let mut path = Vec::new();
        for &at in chain.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&self.directories[at].name);
        }
        path
    }

    pub(super) fn path_of(&self, directory: usize, name: &[u8]) -> Vec<u8> {
        let mut path = self.path(directory);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }
}
