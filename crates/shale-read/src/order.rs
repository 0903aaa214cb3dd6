//! The order of a directory's entries, and what follows from it: a directory has one name.
//!
//! An inode has the number that its first name in level order gave it, so an entry that leads to a
//! directory leads to a greater number than all before it in its directory. Who reads a directory
//! from its beginning sees that as it goes. For those who begin in the middle, as a driver does at
//! every reply, or look a name up, it is decided by the same two rules, whatever was read before:
//!
//! - *On the line.* As long as no hard links come between, numbers rise with the rows from the
//!   directory's first entry on. There is one row for each number on this line, so an entry that
//!   lies on it is taken for the directory's name: one row more is looked at.
//! - *Off the line*, behind hard links, all entries before are looked through for a number that is
//!   as great, and the row that the line has for this number must not lead there as well.
//!
//! Of two names for one directory at most one passes, and that of an honest image does. No rule
//! that looks at a few rows only could do that: with enough hard links around it, the name of a
//! directory may be in any row, and nothing else in an image tells which. What was looked through
//! is remembered for the directories that are large, so that going on costs little.
//!
//! What is damaged in between is no reason to refuse what is whole. It cannot hide a name either:
//! no listing gets past it to the next one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shale_format::InodeKind;
use shale_format::limits::NAME_LEN_MAX;
use shale_format::schema::entries;

use crate::directory::Directory;
use crate::error::{Expected, ReadError, contradiction, value};
use crate::tree::Tree;

/// Rows looked through at once.
const ROWS: u64 = 8192;
/// Rows looked through for one question: some tenths of a second. More is to be expected only of
/// an image that was made to take long; a listing in order comes by any number.
const ROWS_MAX: u64 = 1 << 26;
/// Rows of a directory from which on it is remembered how far it was looked through.
const MARKED_ROWS_MIN: u64 = 4096;
/// Places remembered in a tree, each for one reader of one directory.
const MARK_COUNT: usize = 16;
/// A reader that has moved less than this takes his mark along; one who jumps leaves it.
const STEP_ROWS_MAX: u64 = 1 << 16;

/// Checks names and inodes of one directory's entries as they pass in order.
#[derive(Debug)]
pub(crate) struct EntryOrder {
    /// Greatest inode met since `from`, the directory's own to begin with: directories come above
    /// it.
    inode_max: u64,
    /// Row behind those that were not met; the directory's first if there are none such.
    from: u64,
    /// Inode of the directory's first entry, once it was asked for; none if it is damaged.
    first: Option<Option<u64>>,
    /// The row before the last one met, and the greatest inode until then.
    before: (u64, u64),
    previous: Vec<u8>,
}

impl EntryOrder {
    /// Of the entries of a directory from `row` on.
    pub(crate) fn new(directory: &Directory, row: u64) -> Self {
        Self {
            inode_max: directory.inode,
            from: row,
            first: None,
            before: (row, directory.inode),
            previous: Vec::new(),
        }
    }

    /// That the entry in `row` may follow those before it. Touches no page for most entries; for
    /// directories off the line what is said above, for hard links and for what comes behind them
    /// where a listing was resumed the page of the inode.
    pub(crate) fn check(
        &mut self,
        tree: &Tree,
        directory: &Directory,
        row: u64,
        name: &[u8],
        inode: u64,
    ) -> Result<(), ReadError> {
        check_name(name)?;
        // Empty before the first, and every name is greater than that.
        if *name <= *self.previous {
            return Err(contradiction("its name does not come after the one before"));
        }
        self.previous.clear();
        self.previous.extend_from_slice(name);
        tree.check_entry(directory, inode)?;
        self.check_inode(tree, directory, row, inode)
    }

    /// That the entry in `row`, if it leads to a directory, is the one name of that.
    pub(crate) fn check_inode(
        &mut self,
        tree: &Tree,
        directory: &Directory,
        row: u64,
        inode: u64,
    ) -> Result<(), ReadError> {
        let is_directory = || -> Result<bool, ReadError> {
            Ok(tree.kind_and_payload(inode)?.0 == InodeKind::Directory)
        };
        self.before = (row, self.inode_max);
        if inode <= self.inode_max {
            // A file is met again by a hard link; a directory has one name.
            return if is_directory()? { Err(not_first(self.inode_max, inode)) } else { Ok(()) };
        }
        let line = self.line(tree, directory, row, inode)?;
        if line != Some(row) {
            if self.from > directory.entry_first && is_directory()? {
                let inode_max = tree.inode_max_before(directory, self.from)?;
                self.inode_max = self.inode_max.max(inode_max);
                self.from = directory.entry_first;
                self.before = (row, self.inode_max);
                if inode <= self.inode_max {
                    return Err(not_first(self.inode_max, inode));
                }
            }
            if let Some(line) = line.filter(|line| (row + 1..directory.entry_end).contains(line))
                && whole(tree.entries().table()?.u64(entries::INODE, line))? == Some(inode)
                && is_directory()?
            {
                return Err(contradiction("another entry leads to the same directory"));
            }
        }
        self.inode_max = inode;
        Ok(())
    }

    /// The row that the line has for an inode; none for those below it, and where the first row
    /// is damaged.
    fn line(
        &mut self,
        tree: &Tree,
        directory: &Directory,
        row: u64,
        inode: u64,
    ) -> Result<Option<u64>, ReadError> {
        let first = match self.first {
            Some(first) => first,
            None if row == directory.entry_first => Some(inode),
            None => whole(tree.entries().table()?.u64(entries::INODE, directory.entry_first))?,
        };
        self.first = Some(first);
        let ahead = first.and_then(|first| inode.checked_sub(first));
        Ok(ahead.and_then(|ahead| directory.entry_first.checked_add(ahead)))
    }

    /// Remembers how far the entries were met, for who goes on from here.
    pub(crate) fn leave(&self, tree: &Tree, directory: &Directory) {
        let (row, inode_max) = self.before;
        if self.from == directory.entry_first && directory.is_marked(row) {
            tree.marks().note(Mark { directory: directory.index, row, inode_max });
        }
    }
}

fn not_first(inode_max: u64, inode: u64) -> ReadError {
    let expected = Expected::AtLeast(inode_max.saturating_add(1));
    value("inode of a directory in level order", inode, expected)
}

/// What was read; none if it is damaged.
fn whole<T>(result: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_corrupt() => Ok(None),
        Err(error) => Err(error),
    }
}

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

impl Directory {
    fn is_marked(&self, row: u64) -> bool {
        row.saturating_sub(self.entry_first) >= MARKED_ROWS_MIN
    }
}

impl Tree {
    /// The greatest inode of the entries of `directory` before `row`, and its own. Touches the
    /// pages of the rows that lie behind the nearest mark.
    fn inode_max_before(&self, directory: &Directory, row: u64) -> Result<u64, ReadError> {
        let is_marked = directory.is_marked(row);
        let mark = if is_marked { self.marks().before(directory.index, row) } else { None };
        let (start, mut inode_max) = match mark {
            Some(mark) => (mark.row, mark.inode_max),
            None => (directory.entry_first, directory.inode),
        };
        if row - start > ROWS_MAX {
            let found = row - start;
            let expected = Expected::AtMost(ROWS_MAX);
            return Err(value("count of entries before a directory", found, expected));
        }
        let table = self.entries().table()?;
        let mut found = Vec::new();
        let mut at = start;
        while at < row {
            let some = at..row.min(at + ROWS);
            at = some.end;
            if whole(table.u64_range(entries::INODE, some, &mut found))?.is_some() {
                inode_max = found.iter().copied().fold(inode_max, u64::max);
            }
        }
        if is_marked {
            self.marks().note(Mark { directory: directory.index, row, inode_max });
        }
        Ok(inode_max)
    }
}

/// How far a directory was looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    /// Index of the directory.
    directory: u64,
    /// The row behind those looked at.
    row: u64,
    /// The greatest inode among them, the directory's own included.
    inode_max: u64,
}

/// The marks of a tree; the oldest is forgotten for a new one.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    fn lock(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last one of a directory that is not behind `row`.
    fn before(&self, directory: u64, row: u64) -> Option<Mark> {
        let marks = self.lock();
        let usable = marks.iter().filter(|mark| mark.directory == directory && mark.row <= row);
        usable.max_by_key(|mark| mark.row).copied()
    }

    /// Adds a mark, in the place of the last before it if that is near.
    fn note(&self, mark: Mark) {
        let near = self.before(mark.directory, mark.row);
        let near = near.filter(|near| mark.row - near.row < STEP_ROWS_MAX);
        let mut marks = self.lock();
        let place = marks.iter().position(|found| Some(*found) == near);
        if let Some(place) = place {
            marks.remove(place);
        } else if marks.len() >= MARK_COUNT {
            marks.remove(0);
        }
        marks.push(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_move_with_their_readers_and_the_oldest_goes() {
        let marks = Marks::default();
        let mark = |directory, row| Mark { directory, row, inode_max: row + 7 };
        // Two readers of one directory, far apart.
        for row in (5_000..100_000).step_by(1_000) {
            marks.note(mark(1, row));
            marks.note(mark(1, row + 1_000_000));
        }
        assert_eq!(marks.before(1, 4_999), None);
        assert_eq!(marks.before(1, 99_000), Some(mark(1, 99_000)));
        assert_eq!(marks.before(1, 1_000_000), Some(mark(1, 99_000)));
        assert_eq!(marks.before(1, u64::MAX), Some(mark(1, 1_099_000)));
        assert_eq!(marks.before(2, u64::MAX), None);
        assert_eq!(marks.lock().len(), 2);
        for directory in 2..2 + MARK_COUNT as u64 - 1 {
            marks.note(mark(directory, 5_000));
        }
        assert_eq!(marks.lock().len(), MARK_COUNT);
        assert_eq!(marks.before(1, 1_000_000), None, "the oldest stays");
        assert_eq!(marks.before(1, u64::MAX), Some(mark(1, 1_099_000)));
    }
}
