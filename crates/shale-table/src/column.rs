//! One column of integers, read mostly in order: rows near each other are decoded together.

use crate::{Cursor, PageSource, Table};

/// Rows decoded together.
const RUN_ROWS: usize = 256;

/// If a row is at most this far ahead of the last one, the rows between are decoded too.
const NEAR_ROWS: u64 = 64;

impl<'s, S: PageSource> Table<'s, S> {
    /// Returns a reader of one column of integers, for rows that are mostly in order.
    pub fn column(&self, column: usize) -> Column<'s, S> {
        let cursor = self.cursor();
        Column { cursor, column, run: Vec::new(), first_row: 0, alone: 0 }
    }
}

/// Reads one column row by row. Costs as much as a scan where rows ascend in small steps, and as
/// much as [`Cursor::u64`] where they jump. After a jump, the decoded rows are still there.
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
    /// Returns one integer. Touches one page a level, or none if the row is in the page of the last
    /// one.
    ///
    /// # Errors
    /// As for [`Table::u64`].
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
