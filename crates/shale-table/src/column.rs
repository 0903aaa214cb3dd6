//! One column of integers read more or less in order: rows near each other are decoded together.

use crate::{PageSource, cursor::Cursor};

/// Rows decoded together.
const RUN_ROWS: usize = 256;

/// A row that is so little ahead of the one before is worth decoding those between.
const NEAR_ROWS: u64 = 64;

/// Reads one column row by row. It costs what a scan costs where rows ascend in small steps, and
/// what [`Cursor::u64`] costs where they jump; a jump does not lose the place.
#[derive(Debug)]
pub struct Column<'s, S> {
    cursor: Cursor<'s, S>,
    column: usize,
    /// Values decoded together, and the row of the first.
    run: Vec<u64>,
    first_row: u64,
    /// The row that was last read alone.
    alone: u64,
}

impl<'s, S: PageSource> Column<'s, S> {
    pub(crate) fn new(cursor: Cursor<'s, S>, column: usize) -> Self {
        Self { cursor, column, run: Vec::new(), first_row: 0, alone: 0 }
    }

    /// One integer. Touches one page a level, or none if the row is in the page of the one before.
    pub fn u64(&mut self, row: u64) -> Result<u64, S::Error> {
        let at = row.checked_sub(self.first_row).and_then(|at| usize::try_from(at).ok());
        if let Some(&value) = at.and_then(|at| self.run.get(at)) {
            return Ok(value);
        }
        let end = self.first_row + self.run.len() as u64;
        let is_near = |before: u64| row.checked_sub(before).is_some_and(|gap| gap <= NEAR_ROWS);
        if !is_near(end) && !is_near(self.alone) {
            self.alone = row;
            return self.cursor.u64(self.column, row);
        }
        self.run.clear();
        let (page, first_row) = self.cursor.page_of(row)?;
        let within = (row - first_row) as usize;
        let rows = within..page.row_count().min(within + RUN_ROWS);
        if let Err(error) = page.u64_range(self.column, rows, &mut self.run) {
            self.run.clear();
            return Err(error.into());
        }
        self.first_row = row;
        // A page holds the row it was asked for, so the run is not empty.
        self.run.first().copied().map_or_else(|| self.cursor.u64(self.column, row), Ok)
    }
}
