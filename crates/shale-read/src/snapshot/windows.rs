//! Neighbouring rows, decoded together: for walks and listings, which ask for one after the other.
//!
//! A window holds some rows of one page with all their columns. It moves when a row outside is
//! asked for, and it grows while rows are asked for in sequence, so a walk that jumps decodes
//! little in vain. Rows in a window are read and checked exactly as single rows are. If a row of a
//! window is damaged, rows are read one by one instead, so that only the damaged one is an error.

use std::ops::Range;

use shale_format::InodeRecord;
use shale_format::schema::entries;

use crate::error::ReadError;
use crate::snapshot::attributes::Attributes;
use crate::snapshot::tables::SnapshotTables;

const ROWS_FIRST: u64 = 4;
const ROWS_MAX: u64 = 256;

/// The rows of a window, and how many rows its next move loads.
#[derive(Debug, Default)]
struct Span {
    rows: Range<u64>,
    len_next: u64,
}

impl Span {
    /// Moves the window to `row`; returns how many rows to load, at most `count`.
    fn moved_to(&mut self, row: u64, count: u64) -> u64 {
        let follows = row == self.rows.end && !self.rows.is_empty();
        self.len_next = if follows { (self.len_next * 2).min(ROWS_MAX) } else { ROWS_FIRST };
        self.rows = row..row;
        self.len_next.min(count)
    }
}

/// A window over inodes, with all columns.
#[derive(Debug, Default)]
pub(crate) struct InodeWindow {
    span: Span,
    columns: [Vec<u64>; 14],
    /// The content asked for last and its length: many files have equal contents.
    content: Option<(u64, u64)>,
}

impl InodeWindow {
    /// As [`SnapshotTables::attributes`].
    pub(crate) fn attributes(
        &mut self,
        tables: &SnapshotTables,
        inode: u64,
        parent: Option<u64>,
    ) -> Result<Attributes, ReadError> {
        let row = inode.wrapping_sub(1);
        if !self.span.rows.contains(&row) && self.load(tables, inode).is_err() {
            self.span = Span::default();
            return tables.attributes(inode, parent);
        }
        let at = (row - self.span.rows.start) as usize;
        let mut columns = [0; 14];
        for (value, column) in columns.iter_mut().zip(&self.columns) {
            *value = column.get(at).copied().unwrap_or_default();
        }
        let record = match InodeRecord::from_columns(&columns) {
            Ok(record) => record,
            // Reports what is wrong, and where.
            Err(_) => return tables.attributes(inode, parent),
        };
        let known = self.content.filter(|known| known.0 == record.payload).map(|known| known.1);
        let Ok(attributes) = tables.attributes_of(inode, &record, parent, known) else {
            return tables.attributes(inode, parent);
        };
        if let Some(content) = attributes.content() {
            self.content = Some((content, attributes.size));
        }
        Ok(attributes)
    }

    fn load(&mut self, tables: &SnapshotTables, inode: u64) -> Result<(), ReadError> {
        let (page, at) = tables.inode_row(inode)?;
        let row = inode - 1;
        let len = self.span.moved_to(row, (page.row_count() - at) as u64);
        for (index, column) in self.columns.iter_mut().enumerate() {
            page.u64_range(index, at..at + len as usize, column)?;
        }
        self.span.rows = row..row + len;
        Ok(())
    }
}

/// A window over entries: inodes and names.
#[derive(Debug, Default)]
pub(crate) struct EntryWindow {
    span: Span,
    inodes: Vec<u64>,
    names: Vec<u8>,
    name_ends: Vec<usize>,
}

impl EntryWindow {
    /// The entry at `row`, which is below `end`.
    pub(crate) fn entry(
        &mut self,
        tables: &SnapshotTables,
        row: u64,
        end: u64,
    ) -> Result<(u64, &[u8]), ReadError> {
        if !self.span.rows.contains(&row) && self.load(tables, row, end - row).is_err() {
            self.span = Span::default();
            self.load(tables, row, 1)?;
        }
        let at = (row - self.span.rows.start) as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.name_ends[before]);
        Ok((self.inodes[at], &self.names[start..self.name_ends[at]]))
    }

    fn load(&mut self, tables: &SnapshotTables, row: u64, count: u64) -> Result<(), ReadError> {
        let (page, first_row) = tables.entries().table()?.page_of(row)?;
        let at = (row - first_row) as usize;
        let len = self.span.moved_to(row, count.min((page.row_count() - at) as u64)) as usize;
        page.u64_range(entries::INODE, at..at + len, &mut self.inodes)?;
        self.names.clear();
        self.name_ends.clear();
        page.scan_bytes(entries::NAME, at..at + len, |_, name| {
            self.names.extend_from_slice(name);
            self.name_ends.push(self.names.len());
            // A page may hold strings of any length; names of entries are short.
            self.names.len() <= ROWS_MAX as usize * 1024
        })?;
        // Fewer rows if strings are too long to be names: the last one is refused when it is used.
        self.span.rows = row..row + self.name_ends.len() as u64;
        Ok(())
    }
}
