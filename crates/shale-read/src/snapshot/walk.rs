//! A walk over a whole tree, depth first in name order, without recursion and safe from loops.
//!
//! Each step costs a name, an inode and its attributes: less than a microsecond with cached pages.
//! Memory is one path and, for each directory on it, a record and up to 256 names. Every directory
//! is entered once, as `listing.rs` explains, so a walk ends whatever the image claims.

use std::sync::Arc;

use shale_format::InodeKind;
use shale_format::limits::PATH_LEN_MAX;

use crate::error::{ErrorContext, Expected, ReadError, value};
use crate::snapshot::attributes::Attributes;
use crate::snapshot::directory::Directory;
use crate::snapshot::entry_order::EntryOrder;
use crate::snapshot::tables::SnapshotTables;
use crate::snapshot::windows::{EntryWindow, InodeWindow};

/// One step of a walk: see [`Walk::advance`]. Valid until the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkStep<'a> {
    /// Names from the start of the walk on, joined by `/`; empty for the start itself.
    pub path: &'a [u8],
    /// Number of names in `path`.
    pub depth: usize,
    /// Attributes of the inode at `path`.
    pub attributes: Attributes,
}

impl<'a> WalkStep<'a> {
    /// The last name of the path; empty for the start itself.
    pub fn name(&self) -> &'a [u8] {
        self.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

/// One step of a walk with a path of its own: an item of [`Walk`] as an iterator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalkEntry {
    /// Names from the start of the walk on, joined by `/`; empty for the start itself.
    pub path: Vec<u8>,
    /// Number of names in `path`.
    pub depth: usize,
    /// Attributes of the inode at `path`.
    pub attributes: Attributes,
}

/// A walk over a tree: see [`crate::Tree::walk`].
///
/// As an iterator it allocates a path for each item; [`Walk::advance`] lends the path instead.
/// After an error the walk continues with the next entry.
pub struct Walk {
    tables: Arc<SnapshotTables>,
    path: Vec<u8>,
    /// The directories that are being listed, from the outermost to the innermost.
    open: Vec<OpenDirectory>,
    /// The start, until the first step returns it.
    start: Option<Attributes>,
    /// The directory that the last step returned; the next step enters it.
    entering: Option<Directory>,
    inodes: InodeWindow,
}

/// A directory that is being listed.
struct OpenDirectory {
    directory: Directory,
    row: u64,
    order: EntryOrder,
    entries: EntryWindow,
    /// Length of this directory's path.
    path_len: usize,
}

impl Walk {
    /// A walk over everything below `inode`, and `inode` itself first.
    pub(crate) fn new(tables: Arc<SnapshotTables>, inode: u64) -> Result<Self, ReadError> {
        let start = Some(tables.attributes(inode, None)?);
        Ok(Self {
            tables,
            path: Vec::new(),
            open: Vec::new(),
            start,
            entering: None,
            inodes: InodeWindow::default(),
        })
    }

    /// The next step, or `None` at the end.
    ///
    /// # Errors
    /// An entry or its inode cannot be read. The walk can continue after that entry.
    pub fn advance(&mut self) -> Result<Option<WalkStep<'_>>, ReadError> {
        if let Some(attributes) = self.start.take() {
            self.arrive(&attributes)?;
            return Ok(Some(WalkStep { path: &self.path, depth: 0, attributes }));
        }
        if let Some(directory) = self.entering.take() {
            self.open.push(OpenDirectory {
                directory,
                row: directory.entry_first,
                order: EntryOrder::new(&directory, directory.entry_first),
                entries: EntryWindow::default(),
                path_len: self.path.len(),
            });
        }
        while let Some(open) = self.open.last_mut() {
            self.path.truncate(open.path_len);
            if open.row >= open.directory.entry_end {
                self.open.pop();
                continue;
            }
            let row = open.row;
            open.row += 1;
            let inode = open.directory.inode;
            let attributes = step(&self.tables, open, row, &mut self.path, &mut self.inodes)
                .at(|| format!("entries row {row}"))
                .at(|| format!("directory inode {inode}"))?;
            self.arrive(&attributes)?;
            let depth = self.open.len();
            return Ok(Some(WalkStep { path: &self.path, depth, attributes }));
        }
        Ok(None)
    }

    /// Does not enter the directory that the last step returned. Has no effect after other steps.
    pub fn skip_directory(&mut self) {
        self.entering = None;
    }

    fn arrive(&mut self, attributes: &Attributes) -> Result<(), ReadError> {
        if attributes.kind == InodeKind::Directory {
            let directory = self.tables.directory_at(attributes.payload, attributes.inode)?;
            self.entering = Some(directory);
        }
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.advance().transpose()?;
        Some(step.map(|WalkStep { path, depth, attributes }| WalkEntry {
            path: path.to_vec(),
            depth,
            attributes,
        }))
    }
}

/// Reads one entry of a directory and appends its name to the path.
fn step(
    tables: &SnapshotTables,
    open: &mut OpenDirectory,
    row: u64,
    path: &mut Vec<u8>,
    inodes: &mut InodeWindow,
) -> Result<Attributes, ReadError> {
    let (inode, name) = open.entries.entry(tables, row, open.directory.entry_end)?;
    open.order.check(tables, &open.directory, row, name, inode)?;
    let path_len = path.len() + 1 + name.len();
    if path_len > PATH_LEN_MAX {
        let expected = Expected::AtMost(PATH_LEN_MAX as u64);
        return Err(value("length of the path", path_len as u64, expected));
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    inodes.attributes(tables, inode, Some(open.directory.index))
}
