//! The order of a directory's entries, and what follows from it: a directory has one name.
//!
//! An inode gets its number from its first name in level order. So an entry that leads to a
//! directory leads to a greater number than all entries before it in the same directory. A reader
//! that lists a directory from its beginning sees this as it goes. A reader that begins in the
//! middle, as a driver does at every reply, or that looks up a name, decides by two rules which do
//! not depend on what was read before:
//!
//! - *On the line.* As long as no hard links come between, numbers rise with the rows from the
//!   directory's first entry on. This line has one row for each number, so an entry on it is
//!   accepted as the directory's name: one more row is read.
//! - *Off the line*, after hard links, all entries before it are scanned for a number that is as
//!   great, and the row that the line has for this number must not lead to the same directory.
//!
//! Of two names for one directory at most one passes, and the one of an honest image does. No rule
//! that reads only a few rows could do that: with enough hard links around it, the name of a
//! directory may be in any row, and nothing else in an image tells which. For large directories
//! [`Marks`](crate::snapshot::marks::Marks) record how far they were scanned, so resuming is cheap.
//!
//! Damage in between is no reason to refuse intact entries. It cannot hide a second name either: no
//! listing gets past the damage to the next one.

use shale_format::InodeKind;
use shale_format::limits::NAME_LEN_MAX;
use shale_format::schema::entries;

use crate::error::{Expected, ReadError, contradiction, value};
use crate::snapshot::directory::Directory;
use crate::snapshot::marks::Mark;
use crate::snapshot::tables::SnapshotTables;

/// Rows scanned at once.
const ROWS: u64 = 8192;
/// Rows scanned for one question: some tenths of a second. Only an image made to take long needs
/// more; a listing in order has no such limit.
const ROWS_MAX: u64 = 1 << 26;
/// Rows of a directory from which on marks are kept for it.
const MARKED_ROWS_MIN: u64 = 4096;

/// Checks names and inodes of one directory's entries, one after the other.
#[derive(Debug)]
pub(crate) struct EntryOrder {
    /// Greatest inode of the entries since `from`, at first the directory's own. Directories have
    /// greater ones.
    inode_max: u64,
    /// First row of those checked; the directory's first row if none was left out.
    from: u64,
    /// Inode of the directory's first entry, once it was read; `Some(None)` if it is damaged.
    first: Option<Option<u64>>,
    /// The last row checked, and the greatest inode before it.
    before: (u64, u64),
    previous: Vec<u8>,
}

impl EntryOrder {
    /// Checks the entries of a directory from `row` on.
    pub(crate) fn new(directory: &Directory, row: u64) -> Self {
        Self {
            inode_max: directory.inode,
            from: row,
            first: None,
            before: (row, directory.inode),
            previous: Vec::new(),
        }
    }

    /// Checks that the entry in `row` may follow the entries before it. Touches no page for most
    /// entries. For directories off the line it touches the pages described above; for hard links,
    /// and for entries after them in a resumed listing, the page of the inode.
    pub(crate) fn check(
        &mut self,
        tables: &SnapshotTables,
        directory: &Directory,
        row: u64,
        name: &[u8],
        inode: u64,
    ) -> Result<(), ReadError> {
        check_name(name)?;
        // Empty before the first entry, and every name is greater than the empty one.
        if *name <= *self.previous {
            return Err(contradiction("its name does not come after the one before"));
        }
        self.previous.clear();
        self.previous.extend_from_slice(name);
        tables.check_entry(directory, inode)?;
        self.check_inode(tables, directory, row, inode)
    }

    /// Checks that the entry in `row`, if it leads to a directory, is the one name of it.
    pub(crate) fn check_inode(
        &mut self,
        tables: &SnapshotTables,
        directory: &Directory,
        row: u64,
        inode: u64,
    ) -> Result<(), ReadError> {
        let is_directory = || -> Result<bool, ReadError> {
            Ok(tables.kind_and_payload(inode)?.0 == InodeKind::Directory)
        };
        self.before = (row, self.inode_max);
        if inode <= self.inode_max {
            // A hard link may lead to an earlier file; a directory has one name.
            return if is_directory()? { Err(not_first(self.inode_max, inode)) } else { Ok(()) };
        }
        let line = self.line(tables, directory, row, inode)?;
        if line != Some(row) {
            if self.from > directory.entry_first && is_directory()? {
                let inode_max = inode_max_before(tables, directory, self.from)?;
                self.inode_max = self.inode_max.max(inode_max);
                self.from = directory.entry_first;
                self.before = (row, self.inode_max);
                if inode <= self.inode_max {
                    return Err(not_first(self.inode_max, inode));
                }
            }
            if let Some(line) = line.filter(|line| (row + 1..directory.entry_end).contains(line))
                && unless_damaged(tables.entries().table()?.u64(entries::INODE, line))?
                    == Some(inode)
                && is_directory()?
            {
                return Err(contradiction("another entry leads to the same directory"));
            }
        }
        self.inode_max = inode;
        Ok(())
    }

    /// The row that the line has for an inode; `None` if the inode is below the line or the first
    /// row is damaged.
    fn line(
        &mut self,
        tables: &SnapshotTables,
        directory: &Directory,
        row: u64,
        inode: u64,
    ) -> Result<Option<u64>, ReadError> {
        let first = match self.first {
            Some(first) => first,
            None if row == directory.entry_first => Some(inode),
            None => unless_damaged(
                tables.entries().table()?.u64(entries::INODE, directory.entry_first),
            )?,
        };
        self.first = Some(first);
        let ahead = first.and_then(|first| inode.checked_sub(first));
        Ok(ahead.and_then(|ahead| directory.entry_first.checked_add(ahead)))
    }

    /// Records how far this listing got, so that it can be resumed.
    pub(crate) fn leave(&self, tables: &SnapshotTables, directory: &Directory) {
        let (row, inode_max) = self.before;
        if self.from == directory.entry_first && is_marked(directory, row) {
            tables.marks().note(Mark { directory: directory.index, row, inode_max });
        }
    }
}

fn not_first(inode_max: u64, inode: u64) -> ReadError {
    let expected = Expected::AtLeast(inode_max.saturating_add(1));
    value("inode of a directory in level order", inode, expected)
}

/// The value that was read, or `None` if it is damaged.
fn unless_damaged<T>(result: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_corrupt() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks that `name` can be the name of an entry.
pub(crate) fn check_name(name: &[u8]) -> Result<(), ReadError> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let expected = Expected::Between(1, NAME_LEN_MAX as u64);
        return Err(value("length of the name", name.len() as u64, expected));
    }
    if matches!(name, b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
        return Err(contradiction("its name is `.` or `..`, or holds a slash or a zero byte"));
    }
    Ok(())
}

/// Returns whether marks are kept for `row` of a directory.
fn is_marked(directory: &Directory, row: u64) -> bool {
    row.saturating_sub(directory.entry_first) >= MARKED_ROWS_MIN
}

/// The greatest inode among the entries of `directory` before `row` and the directory itself.
/// Touches the pages of the rows after the nearest mark.
fn inode_max_before(
    tables: &SnapshotTables,
    directory: &Directory,
    row: u64,
) -> Result<u64, ReadError> {
    let is_marked = is_marked(directory, row);
    let mark = if is_marked { tables.marks().before(directory.index, row) } else { None };
    let (start, mut inode_max) = match mark {
        Some(mark) => (mark.row, mark.inode_max),
        None => (directory.entry_first, directory.inode),
    };
    if row - start > ROWS_MAX {
        let found = row - start;
        let expected = Expected::AtMost(ROWS_MAX);
        return Err(value("count of entries before a directory", found, expected));
    }
    let table = tables.entries().table()?;
    let mut found = Vec::new();
    let mut at = start;
    while at < row {
        let some = at..row.min(at + ROWS);
        at = some.end;
        if unless_damaged(table.u64_range(entries::INODE, some, &mut found))?.is_some() {
            inode_max = found.iter().copied().fold(inode_max, u64::max);
        }
    }
    if is_marked {
        tables.marks().note(Mark { directory: directory.index, row, inode_max });
    }
    Ok(inode_max)
}
