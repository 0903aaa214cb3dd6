//! The entries of a directory in the order of their names, from any cookie on.
//!
//! Three rules keep a hostile image from leading a walk in circles, or through one directory
//! twice: a directory's index is greater than its parent's; an entry that leads to a directory
//! leads to one whose parent is this directory; and of several entries that lead to one directory
//! at most one is followed, by the rules of [`EntryOrder`], wherever a listing begins. So a walk
//! that enters only what [`list_attributes`] or a lookup returned visits each directory once.

use std::collections::VecDeque;
use std::sync::Arc;

use shale_format::schema::entries;

use crate::error::{ErrorContext, ReadError};
use crate::snapshot::attributes::Attributes;
use crate::snapshot::directory::Directory;
use crate::snapshot::entry_order::EntryOrder;
use crate::snapshot::tables::SnapshotTables;
use crate::snapshot::windows::InodeWindow;

/// Rows taken from a page at once: few at first, because readers often stop soon.
const ROWS_FIRST: u64 = 32;
const ROWS_MAX: u64 = 1024;
/// Entries that [`Entries`] holds at most.
const BATCH_LEN_MAX: usize = 512;

/// One entry of a directory; valid during the visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// Resumes a listing after this entry: the number of entries up to and including it.
    pub cookie: u64,
    /// The name: 1 to 255 bytes without `/` and zero bytes, neither `.` nor `..`.
    pub name: &'a [u8],
    /// The inode that the entry leads to.
    pub inode: u64,
}

/// One entry of a directory with its attributes: an item of [`Entries`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Resumes a listing after this entry: the number of entries up to and including it.
    pub cookie: u64,
    /// The name: 1 to 255 bytes without `/` and zero bytes, neither `.` nor `..`.
    pub name: Vec<u8>,
    /// Attributes of the inode that the entry leads to.
    pub attributes: Attributes,
}

/// The entries of a directory in order: see [`crate::Tree::entries`].
///
/// Reads and holds at most 512 entries at a time. Ends after an error.
pub struct Entries {
    tables: Arc<SnapshotTables>,
    directory_inode: u64,
    cookie: u64,
    batch: VecDeque<Entry>,
    /// An error that follows the entries of the batch.
    error: Option<ReadError>,
    is_at_end: bool,
}

impl Entries {
    pub(crate) fn new(tables: Arc<SnapshotTables>, directory_inode: u64, cookie: u64) -> Self {
        let batch = VecDeque::new();
        Self { tables, directory_inode, cookie, batch, error: None, is_at_end: false }
    }

    fn fill(&mut self) {
        let (batch, cookie) = (&mut self.batch, &mut self.cookie);
        let listed =
            list_attributes(&self.tables, self.directory_inode, *cookie, |entry, attributes| {
                *cookie = entry.cookie;
                let name = entry.name.to_vec();
                batch.push_back(Entry { cookie: entry.cookie, name, attributes: *attributes });
                batch.len() < BATCH_LEN_MAX
            });
        self.is_at_end = listed.is_err() || self.batch.len() < BATCH_LEN_MAX;
        self.error = listed.err();
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_empty() && !self.is_at_end {
            self.fill();
        }
        match self.batch.pop_front() {
            Some(entry) => Some(Ok(entry)),
            None => self.error.take().map(Err),
        }
    }
}

/// Calls `visit` with the entries after `cookie`; see [`crate::Tree::list`].
pub(crate) fn list(
    tables: &SnapshotTables,
    directory_inode: u64,
    cookie: u64,
    mut visit: impl FnMut(EntryRef<'_>) -> bool,
) -> Result<(), ReadError> {
    list_checked(tables, directory_inode, cookie, |_, entry| Ok(visit(entry)))
}

/// As [`list`], with the attributes of each entry; see [`crate::Tree::list_attributes`].
pub(crate) fn list_attributes(
    tables: &SnapshotTables,
    directory_inode: u64,
    cookie: u64,
    mut visit: impl FnMut(EntryRef<'_>, &Attributes) -> bool,
) -> Result<(), ReadError> {
    let mut window = InodeWindow::default();
    list_checked(tables, directory_inode, cookie, |directory, entry| {
        let attributes = window.attributes(tables, entry.inode, Some(directory.index))?;
        Ok(visit(entry, &attributes))
    })
}

fn list_checked(
    tables: &SnapshotTables,
    directory_inode: u64,
    cookie: u64,
    visit: impl FnMut(&Directory, EntryRef<'_>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let directory = tables.directory(directory_inode)?;
    list_rows(tables, &directory, cookie, visit).at(|| format!("directory inode {directory_inode}"))
}

fn list_rows(
    tables: &SnapshotTables,
    directory: &Directory,
    cookie: u64,
    mut visit: impl FnMut(&Directory, EntryRef<'_>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let table = tables.entries().table()?;
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
                .check(tables, directory, row, name, inode)
                .and_then(|()| visit(directory, EntryRef { cookie, name, inode }))
                .at(|| format!("entries row {row}"));
            matches!(outcome, Ok(true))
        })?;
        if !outcome? {
            order.leave(tables, directory);
            return Ok(());
        }
        row = first_row + rows.end as u64;
        rows_max = (rows_max * 2).min(ROWS_MAX);
    }
    Ok(())
}
