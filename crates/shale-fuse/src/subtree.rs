//! A directory of a view shown as the root of another view.
//!
//! Inode numbers stay the same, except that the directory and the old root swap numbers: the kernel
//! requires the number 1 for the root.

use crate::view::{
    Attributes, Entry, MODE_DIRECTORY, MODE_TYPE_MASK, ROOT, Seek, Totals, View, ViewError,
    XattrUse,
};
use std::sync::Arc;

/// The tree below one directory of a view.
pub struct Subtree {
    view: Arc<dyn View>,
    /// The number of our root in the underlying view.
    base: u64,
}

impl Subtree {
    /// Opens the tree below `path` (names separated by `/`; symlinks are not followed). Costs one
    /// lookup for each name.
    ///
    /// # Errors
    /// A name does not exist, or the path is not a directory.
    pub fn open(view: Arc<dyn View>, path: &[u8]) -> Result<Self, ViewError> {
        let mut base = view.attributes(ROOT)?;
        for name in path.split(|&b| b == b'/').filter(|n| !n.is_empty() && *n != b".") {
            base = view.lookup(base.inode, name)?.ok_or(ViewError::NotFound)?;
        }
        if base.mode & MODE_TYPE_MASK != MODE_DIRECTORY {
            return Err(ViewError::NotDirectory);
        }
        Ok(Self { view, base: base.inode })
    }

    /// Maps our numbers to theirs, and theirs to ours: the mapping is its own inverse.
    fn swap(&self, inode: u64) -> u64 {
        match inode {
            ROOT => self.base,
            other if other == self.base => ROOT,
            other => other,
        }
    }

    fn ours(&self, theirs: Attributes) -> Attributes {
        Attributes { inode: self.swap(theirs.inode), ..theirs }
    }
}

impl View for Subtree {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        Ok(self.ours(self.view.attributes(self.swap(inode))?))
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        Ok(self.view.lookup(self.swap(directory), name)?.map(|theirs| self.ours(theirs)))
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        if directory == ROOT {
            return Ok(ROOT);
        }
        Ok(self.swap(self.view.parent(self.swap(directory))?))
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        self.view.list(self.swap(directory), first, &mut |entry| {
            each(Entry { name: entry.name, attributes: self.ours(entry.attributes) })
        })
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError> {
        self.view.link_target(self.swap(inode))
    }

    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        self.view.xattr_names(self.swap(inode), each)
    }

    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        self.view.xattr(self.swap(inode), name)
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        self.view.read(self.swap(inode), offset, buf)
    }

    fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ViewError> {
        self.view.read_ready(self.swap(inode), buf)
    }

    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        self.view.seek(self.swap(inode), offset, what)
    }

    fn totals(&self) -> Totals {
        self.view.totals()
    }

    fn xattr_use(&self) -> XattrUse {
        self.view.xattr_use()
    }

    fn root_changes(&self) -> bool {
        self.base == ROOT && self.view.root_changes()
    }

    fn generation(&self) -> u32 {
        // A file handle made under another root must not be accepted: its file may lie outside this
        // tree.
        self.view.generation() ^ (self.base.wrapping_sub(ROOT) as u32).wrapping_mul(0x9E37_79B1)
    }

    fn id(&self) -> [u8; 16] {
        // Above the bits that hold the offset of the table, and the bits that UUIDs fix.
        let base = u128::from(self.base.wrapping_sub(ROOT)) << 72;
        (u128::from_le_bytes(self.view.id()) ^ base).to_le_bytes()
    }

    fn path(&self, inode: u64) -> Option<Vec<u8>> {
        self.view.path(self.swap(inode))
    }

    fn layout(&self, inode: u64) -> Result<Option<String>, ViewError> {
        self.view.layout(self.swap(inode))
    }

    fn content_key(&self, inode: u64) -> Result<u64, ViewError> {
        self.view.content_key(self.swap(inode))
    }

    fn rest(&self) {
        self.view.rest();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.view.counters()
    }
}
