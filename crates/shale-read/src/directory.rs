//! One directory: its place in the tree and its entries, listed from any cookie on.
//!
//! What keeps a hostile image from leading a walk in circles, or through one directory twice:
//! a directory's index is greater than its parent's; an entry that leads to a directory leads to
//! one whose parent is this directory; and of several entries that lead to one directory at most
//! one is followed, by the rules of `order.rs`, wherever a listing begins. A walk that enters only
//! what [`Tree::list_attributes`] or [`Tree::lookup`] gave it visits each directory once.

use std::ops::Range;

use shale_format::InodeKind;
use shale_format::schema::{directories, entries};

use crate::error::{Expected, Fault, Kind, Place, ReadError, contradiction, value};
use crate::order::EntryOrder;
use crate::tree::{Attributes, ROOT_INODE, Tree};
use crate::window::InodeWindow;

/// Rows taken from a page at once: few at first, as a reader often stops soon.
const ROWS_FIRST: u64 = 32;
const ROWS_MAX: u64 = 1024;
/// Longest path that is put together. Real trees end far below; a chain of directories made to
/// fill memory does not.
pub(crate) const PATH_LEN_MAX: usize = 1 << 20;

/// One entry of a directory; valid during the visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// Resumes a listing behind this entry: the number of entries up to and including it.
    pub cookie: u64,
    /// The name: 1 to 255 bytes without `/` and zero, neither `.` nor `..`.
    pub name: &'a [u8],
    /// The inode it leads to.
    pub inode: u64,
}

/// A validated row of the table of directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) inode: u64,
    pub(crate) index: u64,
    /// Index of the parent; the root's is 0, itself.
    pub(crate) parent: u64,
    pub(crate) entry_first: u64,
    pub(crate) entry_end: u64,
}

impl Directory {
    pub(crate) fn entries(&self) -> Range<u64> {
        self.entry_first..self.entry_end
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.entry_end - self.entry_first
    }

    /// That an entry of the directory `parent` may lead here.
    pub(crate) fn check_parent(&self, parent: u64) -> Result<(), ReadError> {
        if self.index == 0 || self.parent != parent {
            let error =
                value("directory index of its parent", self.parent, Expected::Exactly(parent));
            return Err(error.at(format!("directory inode {}", self.inode)));
        }
        Ok(())
    }
}

impl Tree {
    /// The directory of a directory inode.
    pub(crate) fn directory(&self, inode: u64) -> Result<Directory, ReadError> {
        match self.kind_and_payload(inode)? {
            (InodeKind::Directory, index) => {
                self.directory_at(index, inode).at(|| format!("directory inode {inode}"))
            }
            _ => Err(Fault::WrongKind { inode, expected: Kind::Directory }.into()),
        }
    }

    /// Row `index` of the table of directories, which has to belong to `inode`. Touches one page,
    /// or two at a page's end.
    pub(crate) fn directory_at(&self, index: u64, inode: u64) -> Result<Directory, ReadError> {
        let count = self.directory_count();
        if index >= count {
            let expected = Expected::AtMost(count.saturating_sub(1));
            return Err(value("directory index", index, expected));
        }
        let directory = || -> Result<Directory, ReadError> {
            let table = self.directories().table()?;
            let (page, first_row) = table.page_of(index)?;
            let row = (index - first_row) as usize;
            let entry_first = page.u64(directories::ENTRY_FIRST, row)?;
            let entry_end = if row + 1 < page.row_count() {
                page.u64(directories::ENTRY_FIRST, row + 1)?
            } else {
                table.u64(directories::ENTRY_FIRST, index + 1)?
            };
            let back = page.u64(directories::INODE, row)?;
            if back != inode {
                return Err(value("inode", back, Expected::Exactly(inode)));
            }
            if (index == 0) != (inode == ROOT_INODE) {
                return Err(contradiction("only the root has directory index 0"));
            }
            let parent = page.u64(directories::PARENT, row)?;
            let parent_max = index.saturating_sub(1);
            if parent > parent_max {
                return Err(value("index of the parent", parent, Expected::AtMost(parent_max)));
            }
            if entry_first > entry_end || entry_end > self.entry_count() {
                let expected = Expected::Between(entry_first, self.entry_count());
                return Err(value("end of its entries", entry_end, expected));
            }
            Ok(Directory { inode, index, parent, entry_first, entry_end })
        };
        directory().at(|| format!("directories row {index}"))
    }

    /// Calls `visit` with the entries behind `cookie` (0: all) in the order of their names' bytes,
    /// until it returns false. `.` and `..` are not among them; a cookie behind the end gives none.
    ///
    /// Reads the entries' pages in order; touches no page of inodes but the directory's own, except
    /// for hard links and what comes behind them. So it cannot check that a directory met here has
    /// this one as its parent: enter what [`Tree::lookup`] or [`Tree::list_attributes`] gives.
    pub fn list(
        &self,
        directory_inode: u64,
        cookie: u64,
        mut visit: impl FnMut(EntryRef<'_>) -> bool,
    ) -> Result<(), ReadError> {
        self.list_checked(directory_inode, cookie, |_, entry| Ok(visit(entry)))
    }

    /// As [`Tree::list`], with the attributes of each entry. New inodes lie in the order of the
    /// listing and are read some at a time; for others this costs what [`Tree::attributes`] costs.
    pub fn list_attributes(
        &self,
        directory_inode: u64,
        cookie: u64,
        mut visit: impl FnMut(EntryRef<'_>, &Attributes) -> bool,
    ) -> Result<(), ReadError> {
        let mut window = InodeWindow::default();
        self.list_checked(directory_inode, cookie, |directory, entry| {
            let attributes = window.attributes(self, entry.inode, Some(directory.index))?;
            Ok(visit(entry, &attributes))
        })
    }

    fn list_checked(
        &self,
        directory_inode: u64,
        cookie: u64,
        visit: impl FnMut(&Directory, EntryRef<'_>) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        let directory = self.directory(directory_inode)?;
        self.list_rows(&directory, cookie, visit)
            .at(|| format!("directory inode {directory_inode}"))
    }

    fn list_rows(
        &self,
        directory: &Directory,
        cookie: u64,
        mut visit: impl FnMut(&Directory, EntryRef<'_>) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        let table = self.entries().table()?;
        let mut row = directory.entry_first.saturating_add(cookie);
        let mut order = EntryOrder::new(directory, row);
        let mut inodes = Vec::new();
        let mut rows_max = ROWS_FIRST;
        while row < directory.entry_end {
            let (page, first_row) = table.page_of(row)?;
            let from = (row - first_row) as usize;
            let rows_left = (directory.entry_end - row).min(rows_max) as usize;
            let rows = from..page.row_count().min(from + rows_left);
            page.u64_range(entries::INODE, rows.clone(), &mut inodes)?;
            let mut outcome = Ok(true);
            page.scan_bytes(entries::NAME, rows.clone(), |at, name| {
                let row = first_row + at as u64;
                let cookie = row + 1 - directory.entry_first;
                let Some(&inode) = inodes.get(at - from) else { return false };
                outcome = order
                    .check(self, directory, row, name, inode)
                    .and_then(|()| visit(directory, EntryRef { cookie, name, inode }))
                    .at(|| format!("entries row {row}"));
                matches!(outcome, Ok(true))
            })?;
            if !outcome? {
                order.leave(self, directory);
                return Ok(());
            }
            row = first_row + rows.end as u64;
            rows_max = (rows_max * 2).min(ROWS_MAX);
        }
        Ok(())
    }

    /// The path of a directory from the root, without a leading slash; empty for the root. Scans
    /// the entries of each directory above for the one that leads down.
    pub fn directory_path(&self, directory_inode: u64) -> Result<Vec<u8>, ReadError> {
        // Ends at the root: `parent` gives ever smaller numbers.
        self.climb(directory_inode, "directory inode", |inode| {
            let parent = self.parent(inode)?;
            Ok((self.name_in(parent, inode)?, parent))
        })
    }

    /// The first name in a directory that leads to `inode`.
    fn name_in(&self, directory_inode: u64, inode: u64) -> Result<Vec<u8>, ReadError> {
        let mut found = None;
        self.list(directory_inode, 0, |entry| {
            if entry.inode == inode {
                found = Some(entry.name.to_vec());
            }
            found.is_none()
        })?;
        found.ok_or_else(|| {
            let error = contradiction("its parent has no entry for it");
            error.at(format!("directory inode {inode}"))
        })
    }
}
