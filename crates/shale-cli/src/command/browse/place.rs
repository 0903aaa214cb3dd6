//! A directory that is shown: its entries, and where the cursor is.

use shale::listing::{Entry, each_entry};
use shale::read::{InodeKind, ReadError, Tree};

/// Entries of a directory that are shown. Each takes some 150 bytes.
pub const ENTRIES_MAX: usize = 1_000_000;

/// A directory.
pub struct OpenDirectory {
    /// Path in the image; empty for the root.
    pub path: Vec<u8>,
    /// Its entries in name order, directories first.
    pub entries: Vec<Entry>,
    /// There are more.
    pub is_cut: bool,
    /// Where the cursor is, and the first entry on the screen.
    pub cursor: usize,
    pub top: usize,
}

/// Ends a listing.
enum End {
    Full,
    Read(ReadError),
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl OpenDirectory {
    /// Lists a directory. Costs one pass over its entries.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(tree: &Tree, inode: u64, path: Vec<u8>) -> Result<Self, ReadError> {
        let mut entries = Vec::new();
        let listed = each_entry(tree, inode, |entry| {
            if entries.len() == ENTRIES_MAX {
                return Err(End::Full);
            }
            entries.push(entry);
            Ok(())
        });
        let is_cut = match listed {
            Ok(()) => false,
            Err(End::Full) => true,
            Err(End::Read(error)) => return Err(error),
        };
        // Stable: names stay in order.
        entries.sort_by_key(|entry| entry.attributes.kind != InodeKind::Directory);
        Ok(Self { path, entries, is_cut, cursor: 0, top: 0 })
    }

    /// The entry at the cursor.
    pub fn selected(&self) -> Option<&Entry> {
        self.entries.get(self.cursor)
    }

    /// The path of an entry.
    pub fn path_of(&self, entry: &Entry) -> Vec<u8> {
        match self.path.is_empty() {
            true => entry.name.clone(),
            false => [&self.path[..], b"/", &entry.name].concat(),
        }
    }

    /// Puts the cursor on an entry.
    pub fn select(&mut self, name: &[u8]) {
        let found = self.entries.iter().position(|entry| entry.name == name);
        self.cursor = found.unwrap_or(self.cursor);
    }
}

/// Moves a cursor by some lines of `count`, and keeps it among them.
pub fn moved(cursor: usize, by: isize, count: usize) -> usize {
    cursor.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// The first line on a screen of `height` lines, so that the cursor is on it.
pub fn top_for(cursor: usize, top: usize, height: usize) -> usize {
    top.clamp((cursor + 1).saturating_sub(height), cursor)
}
