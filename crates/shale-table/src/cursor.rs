//! Many reads near each other: a table that keeps its last data page.

use std::sync::Arc;

use crate::{Page, PageSource, Table};

impl<'s, S: PageSource> Table<'s, S> {
    /// Returns a reader of this table that keeps the last data page: reads near each other touch no
    /// page.
    pub fn cursor(&self) -> Cursor<'s, S> {
        Cursor { table: *self, at_hand: None, string: Vec::new() }
    }
}

/// Reads a table row by row. A read in the page of the last read asks the source for nothing.
#[derive(Debug)]
pub struct Cursor<'s, S> {
    table: Table<'s, S>,
    /// The last data page, and its first row.
    at_hand: Option<(Arc<Page>, u64)>,
    string: Vec<u8>,
}

impl<'s, S: PageSource> Cursor<'s, S> {
    /// The table.
    pub fn table(&self) -> &Table<'s, S> {
        &self.table
    }

    /// Returns the data page that holds `row`, and the page's first row. Touches one page a level,
    /// or none.
    ///
    /// # Errors
    /// As for [`Table::page_of`].
    pub fn page_of(&mut self, row: u64) -> Result<(&Arc<Page>, u64), S::Error> {
        let holds = |(page, first_row): &(Arc<Page>, u64)| {
            row.checked_sub(*first_row).is_some_and(|row| row < page.row_count() as u64)
        };
        let found = match self.at_hand.take().filter(holds) {
            Some(found) => found,
            None => self.table.page_of(row)?,
        };
        let (page, first_row) = self.at_hand.insert(found);
        Ok((page, *first_row))
    }

    /// Returns one integer.
    ///
    /// # Errors
    /// As for [`Table::u64`].
    pub fn u64(&mut self, column: usize, row: u64) -> Result<u64, S::Error> {
        let (page, first_row) = self.page_of(row)?;
        Ok(page.u64(column, (row - first_row) as usize)?)
    }

    /// Returns one byte string, which is valid until the next call.
    ///
    /// # Errors
    /// As for [`Table::bytes`].
    pub fn bytes(&mut self, column: usize, row: u64) -> Result<&[u8], S::Error> {
        let mut string = std::mem::take(&mut self.string);
        let (page, first_row) = self.page_of(row)?;
        page.bytes_into(column, (row - first_row) as usize, &mut string)?;
        self.string = string;
        Ok(&self.string)
    }

    /// Like [`Table::search_u64`]. Touches one page a level, or none if the row is certainly in the
    /// page that is kept.
    ///
    /// # Errors
    /// As for [`Table::search_u64`].
    pub fn search_u64(&mut self, value: u64) -> Result<Option<u64>, S::Error> {
        if let Some((page, first_row)) = &self.at_hand {
            let end = page.search_u64(0, 0..page.row_count(), value)?;
            // At either end of the page, the row may lie in a neighbour.
            if 0 < end && end < page.row_count() {
                return Ok(Some(first_row + end as u64 - 1));
            }
        }
        Ok(self.table.search_page(value)?.map(|found| {
            self.at_hand = Some((found.page, found.first_row));
            found.row
        }))
    }
}
