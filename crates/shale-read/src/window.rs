//! Rows near each other, decoded together: what a walk in order asks for, entry after entry.
//!
//! A window holds some rows of one page, all columns of each, and is moved when a row outside is
//! asked for. It grows while rows are asked for one after the other, so that a walk that jumps
//! decodes little in vain. What is in it was read and checked exactly as a single row is; where a
//! row of a window is damaged, the window is not used and rows are read one by one, so that only
//! the damaged one is an error.

use std::ops::Range;

use shale_format::InodeRecord;
use shale_format::schema::entries;

use crate::error::ReadError;
use crate::tree::{Attributes, Tree};

const ROWS_FIRST: u64 = 4;
const ROWS_MAX: u64 = 256;

/// Which rows are at hand, and how many will be next.
#[derive(Debug, Default)]
struct Extent {
    rows: Range<u64>,
    len_next: u64,
}

impl Extent {
    /// The rows to read for `row`, at most `count` of them.
    fn moved_to(&mut self, row: u64, count: u64) -> u64 {
        let follows = row == self.rows.end && !self.rows.is_empty();
        self.len_next = if follows { (self.len_next * 2).min(ROWS_MAX) } else { ROWS_FIRST };
        self.rows = row..row;
        self.len_next.min(count)
    }
}

/// Inodes, all columns.
#[derive(Debug, Default)]
pub(crate) struct InodeWindow {
    extent: Extent,
    columns: [Vec<u64>; 14],
    /// The last content asked for and its length: many files have the same.
    content: Option<(u64, u64)>,
}

impl InodeWindow {
    /// As [`Tree::attributes_in`].
    pub(crate) fn attributes(
        &mut self,
        tree: &Tree,
        inode: u64,
        parent: Option<u64>,
    ) -> Result<Attributes, ReadError> {
        let row = inode.wrapping_sub(1);
        if !self.extent.rows.contains(&row) && self.load(tree, inode).is_err() {
            self.extent = Extent::default();
            return tree.attributes_in(inode, parent);
        }
        let at = (row - self.extent.rows.start) as usize;
        let mut columns = [0; 14];
        for (value, column) in columns.iter_mut().zip(&self.columns) {
            *value = column.get(at).copied().unwrap_or_default();
        }
        let record = match InodeRecord::from_columns(&columns) {
            Ok(record) => record,
            // Says what is wrong, and where.
            Err(_) => return tree.attributes_in(inode, parent),
        };
        let known = self.content.filter(|known| known.0 == record.payload).map(|known| known.1);
        let Ok(attributes) = tree.attributes_of(inode, &record, parent, known) else {
            return tree.attributes_in(inode, parent);
        };
        if let Some(content) = attributes.content() {
            self.content = Some((content, attributes.size));
        }
        Ok(attributes)
    }

    fn load(&mut self, tree: &Tree, inode: u64) -> Result<(), ReadError> {
        let (page, at) = tree.inode_row(inode)?;
        let row = inode - 1;
        let len = self.extent.moved_to(row, (page.row_count() - at) as u64);
        for (index, column) in self.columns.iter_mut().enumerate() {
            page.u64_range(index, at..at + len as usize, column)?;
        }
        self.extent.rows = row..row + len;
        Ok(())
    }
}

/// Entries: inode and name.
#[derive(Debug, Default)]
pub(crate) struct EntryWindow {
    extent: Extent,
    inodes: Vec<u64>,
    names: Vec<u8>,
    name_ends: Vec<usize>,
}

impl EntryWindow {
    /// The entry at `row`, which is below `end`.
    pub(crate) fn entry(
        &mut self,
        tree: &Tree,
        row: u64,
        end: u64,
    ) -> Result<(u64, &[u8]), ReadError> {
        if !self.extent.rows.contains(&row) && self.load(tree, row, end - row).is_err() {
            self.extent = Extent::default();
            self.load(tree, row, 1)?;
        }
        let at = (row - self.extent.rows.start) as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.name_ends[before]);
        Ok((self.inodes[at], &self.names[start..self.name_ends[at]]))
    }

    fn load(&mut self, tree: &Tree, row: u64, count: u64) -> Result<(), ReadError> {
        let (page, first_row) = tree.entries().table()?.page_of(row)?;
        let at = (row - first_row) as usize;
        let len = self.extent.moved_to(row, count.min((page.row_count() - at) as u64)) as usize;
        page.u64_range(entries::INODE, at..at + len, &mut self.inodes)?;
        self.names.clear();
        self.name_ends.clear();
        page.scan_bytes(entries::NAME, at..at + len, |_, name| {
            self.names.extend_from_slice(name);
            self.name_ends.push(self.names.len());
            // A page may claim names of any length; those of entries are short.
            self.names.len() <= ROWS_MAX as usize * 1024
        })?;
        // Fewer if names were too long to be names: the last of them is refused when it is met.
        self.extent.rows = row..row + self.name_ends.len() as u64;
        Ok(())
    }
}
