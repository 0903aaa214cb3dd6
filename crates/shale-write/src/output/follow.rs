//! Where the pages of a table end that has an earlier one like it, so that both share pages.
//!
//! A table of a tree is cut in step with the earlier table first: a page ends with as many rows as
//! there, and if it holds the same rows, it is that page. At the first page in which rows came or
//! went, this stops. From there on a page may end only at a *mark*: before an entry whose path has
//! a certain hash. So a change moves few ends of pages, and later trees find the pages of this one
//! again, wherever they are. The numbers of rows in them are counted from bases (see
//! [`shale_table::Shift`]), so pages stay equal if rows come or go in front of them.
//!
//! A page that is new resembles one of the few pages that follow the last one which both tables
//! have: those are the ones that it may patch, or have as its prefix.

use std::collections::{HashMap, HashSet};

use shale_codec::{Hasher, xxh3_64};
use shale_table::{Bases, Earlier, PAGE_ROWS_DEFAULT, PageRef, PageRows, Schema, Table, TableRoot};

use crate::base::image::Base;
use crate::base::pages::{BasePages, Near, WrittenTable};
use crate::plan::error::WriteError;

/// One entry in this number is a mark.
const MARK_STEP: u64 = 1024;
/// Least rows of a page that ends at a mark.
const ROW_COUNT_MIN: usize = 512;
/// Most pages of an earlier table that are compared with one new page.
const COMPARED_MAX: usize = 8;

/// Pages of an earlier table that are tried as prefixes, and how many of them lie before the place
/// where the tables part.
const NEAR_COUNT: usize = 9;
const NEAR_BEFORE: usize = 4;

/// Returns whether a page may begin with the entry that has this key.
pub(crate) fn is_mark(key: &[u8]) -> bool {
    xxh3_64(key).is_multiple_of(MARK_STEP)
}

/// Returns the hash of rows that are counted from these bases.
pub(crate) fn hash_of_rows(rows: &PageRows, bases: Bases) -> [u8; 32] {
    let mut hasher = Hasher::new();
    rows.describe(bases, &mut |bytes| {
        hasher.update(bytes);
    });
    *hasher.finalize().as_bytes()
}

/// The cuts of one table.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    /// The earlier table and its pages, in order, with the number of rows of each.
    root: TableRoot,
    pages: Vec<(usize, PageRef)>,
    /// Hashes of the rows of these pages, if this build wrote them.
    hashes: Option<Vec<[u8; 32]>>,
    by_row_count: HashMap<usize, Vec<usize>>,
    /// The page that the held rows may turn out to be, while the table is in step.
    next: Option<usize>,
    /// Marks in the held rows, while the table is in step.
    marks: Vec<usize>,
    /// Pages of the earlier table that this one has already. A table has no page twice.
    used: HashSet<u64>,
    /// The page after the last one that both tables have.
    at: usize,
    /// Pages that may be prefixes or patched, if this build wrote them; else those that were read
    /// lately.
    near: HashMap<u64, Near>,
}

/// Pages that are kept after they were read.
const NEAR_READ_MAX: usize = 4 * NEAR_COUNT;

/// What the rows of a table are that is in step with an earlier one.
pub(crate) enum Step {
    /// The next page of the earlier table.
    Same(PageRows, PageRef),
    /// Like it, with as many rows.
    Alike(PageRows),
    /// Something else, in parts. The last part may go on.
    Other(Vec<PageRows>),
}

impl Follow {
    /// Follows a table of the image that is continued. Reads its index pages.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn of(
        base: &dyn Base,
        root: TableRoot,
        schema: &'static Schema,
    ) -> Result<Self, WriteError> {
        let mut follow = Self { root, next: Some(0), ..Self::default() };
        let pages = BasePages { base, table: root };
        Table::new(root, schema, &pages)?.visit_pages(|visit| {
            if visit.level == 0 {
                let row_count = visit.row_count as usize;
                follow.by_row_count.entry(row_count).or_default().push(follow.pages.len());
                follow.pages.push((row_count, visit.page));
            }
            Ok(true)
        })?;
        Ok(follow)
    }

    /// Follows a table that this build wrote: its data pages in order, with the number and the
    /// hash of their rows.
    pub(crate) fn written(table: &mut WrittenTable) -> Self {
        let near = std::mem::take(&mut table.near);
        let mut follow = Self { next: Some(0), near, ..Self::default() };
        let mut hashes = Vec::new();
        for &(row_count, hash, page) in &table.in_order {
            follow.by_row_count.entry(row_count).or_default().push(follow.pages.len());
            follow.pages.push((row_count, page));
            hashes.push(hash);
        }
        follow.hashes = Some(hashes);
        follow
    }

    /// Notes a mark before the next row. Returns whether a page ends here.
    pub(crate) fn mark(&mut self, held_rows: usize) -> bool {
        if self.next.is_some() {
            self.marks.push(held_rows);
            return false;
        }
        held_rows >= ROW_COUNT_MIN
    }

    /// Returns whether the held rows are as many as the next page of the earlier table has.
    pub(crate) fn is_in_step(&self, held_rows: usize) -> bool {
        self.next.and_then(|next| self.pages.get(next)).is_some_and(|page| page.0 == held_rows)
    }

    /// Compares rows with the next page of the earlier table. If that is another one, or if there
    /// is none, the tables are not in step any more.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn step(
        &mut self,
        base: Option<&dyn Base>,
        schema: &'static Schema,
        rows: PageRows,
    ) -> Result<Step, WriteError> {
        let next = self.next.take();
        let Some((next, &(row_count, page))) = next.and_then(|n| Some((n, self.pages.get(n)?)))
        else {
            return Ok(Step::Other(self.split(rows)));
        };
        let has_bases = page.bases != Bases::default();
        let bases = if has_bases { rows.bases() } else { Bases::default() };
        if row_count != rows.row_count() {
            return Ok(Step::Other(self.split(rows)));
        }
        if self.is_page(base, schema, &rows, next, bases)? {
            self.used.insert(page.offset);
            (self.next, self.at) = (Some(next + 1), next + 1);
            self.marks.clear();
            return Ok(Step::Same(rows, PageRef { bases, ..page }));
        }
        self.at = next;
        if !self.is_alike(base, &rows, page)? {
            return Ok(Step::Other(self.split(rows)));
        }
        self.next = Some(next + 1);
        self.marks.clear();
        Ok(Step::Alike(rows))
    }

    /// Returns whether most rows are those of a page of the earlier table. If rows came or went,
    /// the next page begins elsewhere, so the tables are alike only if pages end by their number of
    /// rows anyway.
    fn is_alike(
        &mut self,
        base: Option<&dyn Base>,
        rows: &PageRows,
        page: PageRef,
    ) -> Result<bool, WriteError> {
        let Some(near) = self.near_page(base, page)? else { return Ok(false) };
        let earlier = Earlier::new(near.base.plain.to_vec())?;
        let Some(aligned) = earlier.align(rows) else { return Ok(false) };
        let row_count = rows.row_count();
        let is_cut_by_count = row_count == PAGE_ROWS_DEFAULT;
        Ok(aligned.equal() * 2 >= row_count && (is_cut_by_count || !aligned.moves()))
    }

    /// Returns what is near to a page of the earlier table, if it can be known.
    fn near_page(
        &mut self,
        base: Option<&dyn Base>,
        page: PageRef,
    ) -> Result<Option<Near>, WriteError> {
        if let Some(near) = self.near.get(&page.offset) {
            return Ok(Some(near.clone()));
        }
        let (None, Some(base)) = (&self.hashes, base) else { return Ok(None) };
        let near = Near::of(base, &self.root, page)?;
        if self.near.len() >= NEAR_READ_MAX {
            self.near.clear();
        }
        self.near.insert(page.offset, near.clone());
        Ok(Some(near))
    }

    /// Splits rows that are not in step at their marks.
    fn split(&mut self, mut rows: PageRows) -> Vec<PageRows> {
        self.next = None;
        let mut parts = Vec::new();
        let mut start = 0;
        for mark in std::mem::take(&mut self.marks) {
            if mark - start >= ROW_COUNT_MIN && mark - start < rows.row_count() {
                let (part, rest) = rows.split(mark - start);
                parts.push(part);
                (rows, start) = (rest, mark);
            }
        }
        parts.push(rows);
        parts
    }

    /// Finds a page of the earlier table that holds these rows, wherever it is.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn find(
        &mut self,
        base: Option<&dyn Base>,
        schema: &'static Schema,
        rows: &PageRows,
    ) -> Result<Option<PageRef>, WriteError> {
        let bases = rows.bases();
        let same = self.by_row_count.get(&rows.row_count());
        let same = same.into_iter().flatten().copied();
        let is_free = |at: &usize| !self.used.contains(&self.pages[*at].1.offset);
        let same: Vec<usize> = same.filter(is_free).take(COMPARED_MAX).collect();
        for at in same {
            if self.is_page(base, schema, rows, at, bases)? {
                let page = self.pages[at].1;
                self.used.insert(page.offset);
                self.at = at + 1;
                return Ok(Some(PageRef { bases, ..page }));
            }
        }
        Ok(None)
    }

    /// Returns the pages of the earlier table that the next new page may have as its prefix, or
    /// patch.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn near(&mut self, base: Option<&dyn Base>) -> Result<Vec<Near>, WriteError> {
        let first = self.at.saturating_sub(NEAR_BEFORE).min(self.pages.len());
        let end = self.pages.len().min(first + NEAR_COUNT);
        let found = (first..end).map(|at| self.near_page(base, self.pages[at].1));
        found.filter_map(Result::transpose).collect()
    }

    /// Returns what was kept for pages like this one, which both tables have.
    pub(crate) fn kept(&self, page: &PageRef) -> Option<Near> {
        self.near.get(&page.offset).cloned()
    }

    /// Notes that the table has a page. Returns false if it had it already.
    pub(crate) fn take(&mut self, page: &PageRef) -> bool {
        self.used.insert(page.offset)
    }

    /// Returns whether a page of the earlier table holds these rows if it has these bases.
    fn is_page(
        &self,
        base: Option<&dyn Base>,
        schema: &'static Schema,
        rows: &PageRows,
        at: usize,
        bases: Bases,
    ) -> Result<bool, WriteError> {
        if let Some(hashes) = &self.hashes {
            return Ok(hashes[at] == hash_of_rows(rows, bases));
        }
        let page = self.pages[at].1;
        let Some(base) = base else { return Ok(false) };
        let found = base.page(&self.root, &PageRef { bases, ..page }, schema)?;
        Ok(rows.is_equal(&found)?)
    }
}
