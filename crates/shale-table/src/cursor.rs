//! Many reads near each other: a table with its last data page kept at hand.

use std::sync::Arc;

use crate::{Page, PageSource, Table};

/// Reads a table row by row. A read in the page of the read before asks the source for nothing.
#[derive(Debug)]
pub struct Cursor<'s, S> {
    table: Table<'s, S>,
    /// The last data page, and its first row.
    at_hand: Option<(Arc<Page>, u64)>,
    string: Vec<u8>,
}

impl<'s, S: PageSource> Cursor<'s, S> {
    pub(crate) fn new(table: Table<'s, S>) -> Self {
        Self { table, at_hand: None, string: Vec::new() }
    }

    /// The table that is read.
    pub fn table(&self) -> &Table<'s, S> {
        &self.table
    }

    /// The data page that holds `row`, and the page's first row. Touches one page a level, or none.
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

    /// One integer.
    pub fn u64(&mut self, column: usize, row: u64) -> Result<u64, S::Error> {
        let (page, first_row) = self.page_of(row)?;
        Ok(page.u64(column, (row - first_row) as usize)?)
    }

    /// One byte string, which stays until the next call.
    pub fn bytes(&mut self, column: usize, row: u64) -> Result<&[u8], S::Error> {
        let mut string = std::mem::take(&mut self.string);
        let (page, first_row) = self.page_of(row)?;
        page.bytes_into(column, (row - first_row) as usize, &mut string)?;
        self.string = string;
        Ok(&self.string)
    }

    /// As [`Table::search_u64`]. Touches one page a level, or none if the row is surely in the page
    /// at hand.
    pub fn search_u64(&mut self, value: u64) -> Result<Option<u64>, S::Error> {
        if let Some((page, first_row)) = &self.at_hand {
            let end = page.search_u64(0, 0..page.row_count(), value)?;
            // At either end of the page the row may lie in a neighbour.
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
