//! Which directories of two snapshots of one image can differ, as the pages that their tables share
//! tell.
//!
//! A snapshot shares the pages of its tables that did not change with the one before. So rows on
//! shared pages are equal, and only the others are read: the cost is that of the index pages of
//! both, and of what was written anew. A directory whose own rows, entries and inodes are equal in
//! both is the same, and its whole subtree is, unless a directory below it was marked: marks go up
//! to the root.
//!
//! Where rows moved, as entries came or went before them, they count as different, although what
//! they say may be the same. Trees where hard links, link targets or sets of attributes changed are
//! left to those who compare everything.

use std::collections::HashSet;
use std::ops::Range;

use shale_format::InodeKind;
use shale_format::schema::{directories, inodes};
use shale_table::{ColumnKind, PageRef};

use crate::error::ReadError;
use crate::snapshot::attributes::Attributes;
use crate::snapshot::names::entry_to;
use crate::snapshot::tables::{ROOT_INODE, SnapshotTables};
use crate::storage::pages::TableHandle;

/// Different rows beyond which everything is compared; they are held in memory.
const ROWS_MAX: usize = 1 << 20;
/// Rows compared at once.
const ROWS: u64 = 512;

/// Directories that can differ between two snapshots: see [`crate::Tree::changed_directories`].
#[derive(Debug, Default)]
pub struct ChangedDirectories {
    /// Indexes of marked directories, in the one tree and in the other.
    marked: [HashSet<u64>; 2],
}

impl ChangedDirectories {
    /// Returns whether two directories, given by their attributes, can differ in anything below
    /// them. They must have the same path.
    pub fn may_differ(&self, one: &Attributes, other: &Attributes) -> bool {
        let place = |at: &Attributes| (at.kind, at.inode, at.payload);
        place(one) != place(other)
            || self.marked[0].contains(&one.payload)
            || self.marked[1].contains(&other.payload)
    }
}

/// Compares two snapshots of one image. `None` if their pages do not tell what is equal, or if too
/// much differs.
pub(crate) fn changed_directories(
    one: &SnapshotTables,
    other: &SnapshotTables,
) -> Result<Option<ChangedDirectories>, ReadError> {
    let both = [one, other];
    // Inodes name rows of these tables. Rows that were added at the end belong to other inodes.
    let named = [
        both.map(SnapshotTables::symlinks),
        both.map(SnapshotTables::xattr_sets),
        both.map(SnapshotTables::xattr_items),
    ];
    for tables in named {
        let shorter = tables[0].row_count().min(tables[1].row_count());
        match different_rows(tables)? {
            Some(rows) if rows.iter().all(|&row| row >= shorter) => {}
            _ => return Ok(None),
        }
    }
    let all = [
        both.map(SnapshotTables::inodes),
        both.map(SnapshotTables::directories),
        both.map(SnapshotTables::entries),
    ];
    let [inode_rows, directory_rows, entry_rows] = all.map(different_rows);
    let (Some(inode_rows), Some(directory_rows), Some(entry_rows)) =
        (inode_rows?, directory_rows?, entry_rows?)
    else {
        return Ok(None);
    };
    let mut changed = ChangedDirectories::default();
    for (tables, marked) in both.into_iter().zip(&mut changed.marked) {
        for &row in &directory_rows {
            // The end of a directory's entries is in the row after its own.
            for index in [row.saturating_sub(1), row] {
                mark(tables, index, marked)?;
            }
        }
        for &row in entry_rows.iter().filter(|&&row| row < tables.entry_count()) {
            mark_entry(tables, row, marked)?;
        }
        for inode in inode_rows.iter().map(|row| row + 1) {
            if inode == ROOT_INODE || inode > tables.inode_count() {
                continue;
            }
            let is_directory = tables.kind_and_payload(inode)?.0 == InodeKind::Directory;
            if !is_directory && tables.inode_column(inode, inodes::LINK_COUNT)? > 1 {
                return Ok(None);
            }
            match entry_to(tables, inode)? {
                Some(row) => mark_entry(tables, row, marked)?,
                None => return Ok(None),
            }
        }
    }
    Ok(Some(changed))
}

/// Marks the directory that an entry is in.
fn mark_entry(
    tables: &SnapshotTables,
    row: u64,
    marked: &mut HashSet<u64>,
) -> Result<(), ReadError> {
    // Of directories that begin at the same entry, all but the last are empty.
    let index = tables.directories().table()?.search_u64(row)?.unwrap_or(0);
    mark(tables, index, marked)
}

/// Marks a directory and those above it.
fn mark(
    tables: &SnapshotTables,
    mut index: u64,
    marked: &mut HashSet<u64>,
) -> Result<(), ReadError> {
    let table = tables.directories().table()?;
    while index < tables.directory_count() && marked.insert(index) && index > 0 {
        // Parents come before their children, so this ends.
        let parent = table.u64(directories::PARENT, index)?;
        index = parent.min(index - 1);
    }
    Ok(())
}

/// The rows in which two tables differ, and those that only one has. `None` if there are too many.
fn different_rows(tables: [&TableHandle; 2]) -> Result<Option<Vec<u64>>, ReadError> {
    let [one, other] = tables;
    if one.root() == other.root() {
        return Ok(Some(Vec::new()));
    }
    let shorter = one.row_count().min(other.row_count());
    let longer = one.row_count().max(other.row_count());
    let mut different: Vec<u64> = Vec::new();
    for range in unshared(tables)? {
        let mut at = range.start;
        while at < range.end.min(shorter) {
            let some = at..(at + ROWS).min(range.end).min(shorter);
            at = some.end;
            let rows = [rows(one, some.clone())?, rows(other, some.clone())?];
            let both = rows[0].iter().zip(&rows[1]);
            different.extend(some.zip(both).filter(|(_, (a, b))| a != b).map(|(row, _)| row));
            if different.len() > ROWS_MAX {
                return Ok(None);
            }
        }
    }
    if longer - shorter > (ROWS_MAX - different.len().min(ROWS_MAX)) as u64 {
        return Ok(None);
    }
    different.extend(shorter..longer);
    different.sort_unstable();
    different.dedup();
    Ok(Some(different))
}

/// Each row as its numbers and the bytes of its strings.
fn rows(table: &TableHandle, rows: Range<u64>) -> Result<Vec<Vec<u8>>, ReadError> {
    let opened = table.table()?;
    let mut all = vec![Vec::new(); (rows.end - rows.start) as usize];
    let mut numbers = Vec::new();
    for (column, spec) in opened.schema().columns.iter().enumerate() {
        match spec.kind {
            ColumnKind::U64 => {
                opened.u64_range(column, rows.clone(), &mut numbers)?;
                for (row, number) in all.iter_mut().zip(&numbers) {
                    row.extend_from_slice(&number.to_le_bytes());
                }
            }
            ColumnKind::Bytes => {
                let start = rows.start;
                opened.scan_bytes(column, rows.clone(), |row, bytes| {
                    if let Some(row) = all.get_mut((row - start) as usize) {
                        row.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                        row.extend_from_slice(bytes);
                    }
                    true
                })?;
            }
        }
    }
    Ok(all)
}

/// Ascending ranges of rows whose pages the tables do not share.
fn unshared(tables: [&TableHandle; 2]) -> Result<Vec<Range<u64>>, ReadError> {
    let [one, other] = tables;
    let mut pages: [Vec<(Range<u64>, PageRef)>; 2] = Default::default();
    for (table, pages) in tables.into_iter().zip(&mut pages) {
        let opened = table.table()?;
        opened.visit_data_pages(0..table.row_count(), |page, rows| {
            pages.push((rows, *page));
            true
        })?;
    }
    // A page that is compressed with another dictionary is another page.
    let same_dictionary = one.root().dictionary == other.root().dictionary;
    let shared: HashSet<(u64, u64)> = match same_dictionary {
        true => pages[0].iter().map(|(rows, page)| (rows.start, page.offset)).collect(),
        false => HashSet::new(),
    };
    let in_both = |(rows, page): &(Range<u64>, PageRef)| {
        let found = pages[0].binary_search_by_key(&rows.start, |(rows, _)| rows.start);
        shared.contains(&(rows.start, page.offset))
            && found.is_ok_and(|at| pages[0][at] == (rows.clone(), *page))
    };
    let kept: HashSet<u64> =
        pages[1].iter().filter(|page| in_both(page)).map(|(rows, _)| rows.start).collect();
    let all = pages.iter().flatten().filter(|(rows, _)| !kept.contains(&rows.start));
    let mut ranges: Vec<Range<u64>> = all.map(|(rows, _)| rows.clone()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    Ok(joined)
}
