//! How far large directories were scanned, so that a listing that is resumed costs little.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Marks kept per snapshot, each for one reader of one directory.
const MARK_COUNT: usize = 16;
/// A mark moves along with a reader that advances by less than this; otherwise it stays.
const STEP_ROWS_MAX: u64 = 1 << 16;

/// How far a directory was scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Index of the directory.
    pub(crate) directory: u64,
    /// The row after the scanned ones.
    pub(crate) row: u64,
    /// The greatest inode among them, the directory's own included.
    pub(crate) inode_max: u64,
}

/// The marks of a snapshot. The oldest is dropped for a new one.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    fn lock(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last mark of a directory that is not after `row`.
    pub(crate) fn before(&self, directory: u64, row: u64) -> Option<Mark> {
        let marks = self.lock();
        let usable = marks.iter().filter(|mark| mark.directory == directory && mark.row <= row);
        usable.max_by_key(|mark| mark.row).copied()
    }

    /// Adds a mark. Replaces the last mark before it if that is near.
    pub(crate) fn note(&self, mark: Mark) {
        let near = self.before(mark.directory, mark.row);
        let near = near.filter(|near| mark.row - near.row < STEP_ROWS_MAX);
        let mut marks = self.lock();
        if let Some(at) = marks.iter().position(|found| Some(*found) == near) {
            marks.remove(at);
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
