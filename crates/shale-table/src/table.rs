//! Reading a table: finds the pages that hold the rows asked for, and touches few others.
//!
//! A lookup goes down from the top page, one page a level. Every step checks that the index agrees
//! with itself: a damaged or hostile index gives [`TableError::IndexDamaged`] or the values of some
//! row, never a panic or an endless loop.

use std::{ops::Range, sync::Arc};

use crate::{
    ColumnKind, INDEX_SCHEMA, Page, PageRef, PageSource, Schema, TableError, TableRoot,
    index::{self, IndexEntry},
    limits::LEVELS_MAX,
};

/// A table that is read in place. It holds no page, so making and copying one costs nothing. Each
/// method documents how many pages it asks its source for; [`Table::cursor`] asks for fewer.
///
/// Methods fail with the errors of the source, and with those of [`Page`] and
/// [`TableError::IndexDamaged`] where pages or index are damaged.
#[derive(Debug)]
pub struct Table<'s, S> {
    root: TableRoot,
    schema: &'static Schema,
    source: &'s S,
}

impl<S> Clone for Table<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Table<'_, S> {}

/// One page met by [`Table::visit_pages`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageVisit {
    /// 0: data page; above: index page of that level.
    pub level: u8,
    /// First row under the page.
    pub first_row: u64,
    /// Rows under the page, according to the index.
    pub row_count: u64,
    /// Where it is.
    pub page: PageRef,
}

impl<'s, S: PageSource> Table<'s, S> {
    /// Returns the table at `root`. Touches no page.
    ///
    /// # Errors
    /// The root contradicts itself or has too many levels.
    pub fn new(
        root: TableRoot,
        schema: &'static Schema,
        source: &'s S,
    ) -> Result<Self, TableError> {
        check_root(&root, schema)?;
        Ok(Self { root, schema, source })
    }

    /// The root of the table.
    pub fn root(&self) -> &TableRoot {
        &self.root
    }

    /// The schema of the table.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Rows of the table.
    pub fn row_count(&self) -> u64 {
        self.root.row_count
    }

    /// Returns the data page that holds `row`, and the page's first row. Touches one page a level.
    ///
    /// # Errors
    /// There is no such row; else see [`Table`].
    pub fn page_of(&self, row: u64) -> Result<(Arc<Page>, u64), S::Error> {
        if row >= self.root.row_count {
            return Err(self.row_range(row).into());
        }
        let (page, first_row) = self
            .descend(index::FIRST_ROW, row)?
            .ok_or_else(|| self.damaged("the first index page starts after row 0"))?;
        if row.wrapping_sub(first_row) >= page.row_count() as u64 {
            return Err(self.damaged("a data page does not hold the row it was found by").into());
        }
        Ok((page, first_row))
    }

    /// Returns one integer. Touches one page a level.
    ///
    /// # Errors
    /// There is no such row or column; else see [`Table`].
    pub fn u64(&self, column: usize, row: u64) -> Result<u64, S::Error> {
        let (page, first_row) = self.page_of(row)?;
        Ok(page.u64(column, (row - first_row) as usize)?)
    }

    /// Returns one byte string. Touches one page a level.
    ///
    /// # Errors
    /// There is no such row or column; else see [`Table`].
    pub fn bytes(&self, column: usize, row: u64) -> Result<Vec<u8>, S::Error> {
        let (page, first_row) = self.page_of(row)?;
        Ok(page.bytes(column, (row - first_row) as usize)?)
    }

    /// Finds the last row whose column 0 is at most `value`; `None` if there is none. Column 0 must
    /// hold integers that do not descend. Touches one page a level.
    ///
    /// # Errors
    /// Column 0 holds byte strings; else see [`Table`].
    pub fn search_u64(&self, value: u64) -> Result<Option<u64>, S::Error> {
        Ok(self.search_page(value)?.map(|found| found.row))
    }

    /// Like [`Table::search_u64`], and returns the page as well.
    pub(crate) fn search_page(&self, value: u64) -> Result<Option<FoundRow>, S::Error> {
        if self.schema.columns.first().is_none_or(|spec| spec.kind != ColumnKind::U64) {
            let (table, kind) = (self.schema.name, ColumnKind::U64);
            return Err(TableError::ColumnKind { table, column: 0, kind }.into());
        }
        if self.root.row_count == 0 {
            return Ok(None);
        }
        let Some((page, first_row)) = self.descend(index::FIRST_KEY, value)? else {
            return Ok(None);
        };
        match page.search_u64(0, 0..page.row_count(), value)?.checked_sub(1) {
            Some(row) => Ok(Some(FoundRow { row: first_row + row as u64, page, first_row })),
            // With one page there is no index that could have said so.
            None if self.root.level_count == 1 => Ok(None),
            None => Err(self.damaged("a data page starts above its first key").into()),
        }
    }

    /// Searches the byte strings of `rows`, which must ascend, like `slice::binary_search`: `Ok` is
    /// a row that holds `key`, `Err` where it would be. Reads one data page if the range lies in
    /// one, else about the binary logarithm of the number of pages; finding each touches one page a
    /// level.
    ///
    /// # Errors
    /// There are no such rows or column; else see [`Table`].
    pub fn search_bytes(
        &self,
        column: usize,
        rows: Range<u64>,
        key: &[u8],
    ) -> Result<Result<u64, u64>, S::Error> {
        self.check_rows(&rows)?;
        let (mut low, mut high) = (rows.start, rows.end);
        while low < high {
            let (page, first_row) = self.page_of(low + (high - low) / 2)?;
            // The part of the range that this page holds; it is not empty.
            let first = low.max(first_row);
            let end = high.min(first_row + page.row_count() as u64);
            let within = (first - first_row) as usize..(end - first_row) as usize;
            match page.search_bytes(column, within.clone(), key)? {
                Ok(row) => return Ok(Ok(first_row + row as u64)),
                Err(row) if row == within.start => high = first,
                Err(row) if row == within.end => low = end,
                Err(row) => return Ok(Err(first_row + row as u64)),
            }
        }
        Ok(Err(low))
    }

    /// Replaces the content of `out` with the integers of `rows`, eight bytes a row. Touches one
    /// page a level for each data page of the range.
    ///
    /// # Errors
    /// There are no such rows or column; else see [`Table`].
    pub fn u64_range(
        &self,
        column: usize,
        rows: Range<u64>,
        out: &mut Vec<u64>,
    ) -> Result<(), S::Error> {
        self.check_rows(&rows)?;
        out.clear();
        let mut part = Vec::new();
        let mut at = rows.start;
        while at < rows.end {
            let (page, first_row) = self.page_of(at)?;
            let within = within(&page, first_row, at..rows.end);
            at += within.len() as u64;
            page.u64_range(column, within, &mut part)?;
            out.extend_from_slice(&part);
        }
        Ok(())
    }

    /// Calls `visit(row, string)` for `rows` in order until it returns false. Touches one page a
    /// level for each data page of the range, and holds one page.
    ///
    /// # Errors
    /// There are no such rows or column; else see [`Table`].
    pub fn scan_bytes(
        &self,
        column: usize,
        rows: Range<u64>,
        mut visit: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), S::Error> {
        self.check_rows(&rows)?;
        let mut at = rows.start;
        let mut goes_on = true;
        while goes_on && at < rows.end {
            let (page, first_row) = self.page_of(at)?;
            let within = within(&page, first_row, at..rows.end);
            at += within.len() as u64;
            page.scan_bytes(column, within, |row, string| {
                goes_on = visit(first_row + row as u64, string);
                goes_on
            })?;
        }
        Ok(())
    }

    /// Calls `visit` for every page of the table in order of rows, a page before those below it,
    /// until it returns false. Touches each index page once and no data page; holds one index page
    /// a level. Checks that rows and pages are counted without gaps, and stops at the root's page
    /// count, which the caller should know to be possible.
    ///
    /// # Errors
    /// Those of `visit`; else see [`Table`].
    pub fn visit_pages(
        &self,
        mut visit: impl FnMut(PageVisit) -> Result<bool, S::Error>,
    ) -> Result<(), S::Error> {
        if self.root.row_count == 0 {
            return Ok(());
        }
        let TableRoot { row_count, top, level_count, .. } = self.root;
        let mut next = PageVisit { level: level_count - 1, first_row: 0, row_count, page: top };
        // The index pages above, from the top, each with the visit it was met by and its next row.
        let mut above: Vec<(Arc<Page>, PageVisit, usize)> = Vec::new();
        let mut data_pages = 0;
        loop {
            if !visit(next)? {
                return Ok(());
            }
            if next.level > 0 {
                let index = self.source.page(&next.page, &INDEX_SCHEMA)?;
                above.push((index, next, 0));
            } else {
                data_pages += 1;
                if data_pages > self.root.page_count {
                    break;
                }
            }
            while above.last().is_some_and(|(index, _, row)| *row == index.row_count()) {
                above.pop();
            }
            let Some((index, parent, row)) = above.last_mut() else { break };
            next = self.child(index, parent, *row, data_pages)?;
            *row += 1;
        }
        if data_pages != self.root.page_count {
            return Err(self.damaged("the root's page count is not the index's").into());
        }
        Ok(())
    }

    /// The page that row `row` of an index page refers to, checked against its neighbours.
    fn child(
        &self,
        index: &Page,
        parent: &PageVisit,
        row: usize,
        data_pages: u64,
    ) -> Result<PageVisit, TableError> {
        let entry = IndexEntry::read(index, row, self.schema.name)?;
        let end = match row + 1 < index.row_count() {
            true => index.u64(index::FIRST_ROW, row + 1)?,
            false => parent.first_row + parent.row_count,
        };
        let starts_right = row > 0 || entry.first_row == parent.first_row;
        if !starts_right || end <= entry.first_row || end > parent.first_row + parent.row_count {
            return Err(self.damaged("the rows of an index page do not ascend without gaps"));
        }
        if entry.first_page != data_pages {
            return Err(self.damaged("the data pages of an index page are not counted right"));
        }
        Ok(PageVisit {
            level: parent.level - 1,
            first_row: entry.first_row,
            row_count: end - entry.first_row,
            page: entry.page,
        })
    }

    /// Calls `visit` with the data pages of `rows` in order, and the rows of each, until it returns
    /// false. Touches index pages only, one a level below the top for each data page: for those who
    /// fetch pages before they are read.
    ///
    /// # Errors
    /// There are no such rows; else see [`Table`].
    pub fn visit_data_pages(
        &self,
        rows: Range<u64>,
        mut visit: impl FnMut(&PageRef, Range<u64>) -> bool,
    ) -> Result<(), S::Error> {
        self.check_rows(&rows)?;
        let mut at = rows.start;
        while at < rows.end {
            let found = self.locate(index::FIRST_ROW, at)?;
            let (page, held) = found
                .filter(|(_, held)| held.contains(&at))
                .ok_or_else(|| self.damaged("the index has no page for a row"))?;
            at = held.end;
            if !visit(&page, held) {
                break;
            }
        }
        Ok(())
    }

    /// Goes down to the last data page whose `column` in the index is at most `value`. Returns that
    /// page and its first row, or `None` if the very first is greater. The page has exactly the
    /// rows that the index gives it, and all of them are rows of the table.
    fn descend(&self, column: usize, value: u64) -> Result<Option<(Arc<Page>, u64)>, S::Error> {
        let Some((page, rows)) = self.locate(column, value)? else { return Ok(None) };
        let page = self.source.page(&page, self.schema)?;
        if rows.end.checked_sub(rows.start) != Some(page.row_count() as u64) {
            return Err(self
                .damaged("a data page has not the rows that the index gives it")
                .into());
        }
        Ok(Some((page, rows.start)))
    }

    /// As [`Table::descend`], without the data page itself: where it is, and the rows that the
    /// index gives it.
    fn locate(&self, column: usize, value: u64) -> Result<Option<(PageRef, Range<u64>)>, S::Error> {
        let mut page = self.root.top;
        let mut rows = 0..self.root.row_count;
        for level in (1..self.root.level_count).rev() {
            let index = self.source.page(&page, &INDEX_SCHEMA)?;
            let Some(child) = last_child_at(&index, column, value)? else {
                if level + 1 == self.root.level_count {
                    return Ok(None);
                }
                return Err(self.damaged("an index page starts after its place").into());
            };
            let entry = IndexEntry::read(&index, child, self.schema.name)?;
            page = entry.page;
            if child + 1 < index.row_count() {
                rows.end = rows.end.min(index.u64(index::FIRST_ROW, child + 1)?);
            }
            rows.start = entry.first_row;
        }
        Ok(Some((page, rows)))
    }

    pub(crate) fn check_rows(&self, rows: &Range<u64>) -> Result<(), TableError> {
        if rows.start <= rows.end && rows.end <= self.root.row_count {
            return Ok(());
        }
        Err(self.row_range(rows.start.max(rows.end)))
    }

    fn row_range(&self, row: u64) -> TableError {
        let (table, row_count) = (self.schema.name, self.root.row_count);
        TableError::RowRange { table, row, row_count }
    }

    fn damaged(&self, what: &'static str) -> TableError {
        TableError::IndexDamaged { table: self.schema.name, what }
    }
}

/// A row that was found, and its page.
pub(crate) struct FoundRow {
    pub(crate) page: Arc<Page>,
    /// First row of the page.
    pub(crate) first_row: u64,
    pub(crate) row: u64,
}

/// The last row of an index page whose `column` is at most `value`.
pub(crate) fn last_child_at(
    index: &Page,
    column: usize,
    value: u64,
) -> Result<Option<usize>, TableError> {
    Ok(index.search_u64(column, 0..index.row_count(), value)?.checked_sub(1))
}

/// Checks that a root is empty or has pages, and not more levels than allowed.
pub(crate) fn check_root(root: &TableRoot, schema: &'static Schema) -> Result<(), TableError> {
    let table = schema.name;
    if root.level_count > LEVELS_MAX {
        let (found, max) = (u64::from(root.level_count), u64::from(LEVELS_MAX));
        return Err(TableError::Limit { table, what: "levels of pages", found, max });
    }
    let is_empty = root.level_count == 0;
    if (root.row_count == 0) != is_empty || (root.page_count == 0) != is_empty {
        let what = "the root's rows, pages and levels do not go together";
        return Err(TableError::IndexDamaged { table, what });
    }
    Ok(())
}

/// The part of `rows` that a page holds, counted from the page's first row.
fn within(page: &Page, first_row: u64, rows: Range<u64>) -> Range<usize> {
    let end = (rows.end - first_row).min(page.row_count() as u64);
    (rows.start - first_row) as usize..end as usize
}
