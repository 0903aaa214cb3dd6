//! Building a table: takes rows, stores pages level by level, and holds one page of each level.
//!
//! A page ends when it is full and the next row comes; an index page, when it is full and the next
//! reference comes. So the same rows always give the same pages. A builder that resumes a table
//! goes on exactly as the one that built it would have: pages that it loaded and did not change are
//! not stored again.

use crate::{
    Bases, ColumnKind, INDEX_SCHEMA, Page, PageRef, PageSink, PageSource, Patched, Schema,
    TableError, TableRoot, Value,
    index::{self, IndexEntry},
    integers,
    limits::{
        COLUMNS_MAX, LEVELS_MAX, PAGE_BYTES_MAX, PAGE_HELD_MAX, PAGE_ROWS_MAX, ROW_BYTES_MAX,
        VALUE_LEN_MAX,
    },
    shift,
    table::{check_root, last_child_at},
    write::{ColumnBuffer, encode_page, encode_page_by},
};

/// Default rows of a data page, see [`TableBuilder::with_page_rows`].
pub const PAGE_ROWS_DEFAULT: usize = 16_384;

/// Default references of an index page, see [`TableBuilder::with_index_rows`].
pub const INDEX_ROWS_DEFAULT: usize = 512;

/// Default bytes of byte strings in a data page, see [`TableBuilder::with_page_bytes`].
pub const PAGE_BYTES_DEFAULT: usize = 128 << 10;

/// Builds a table from its rows, in order, and streams its pages to a [`PageSink`].
///
/// Holds the rows of one data page ([`PAGE_HELD_MAX`] bytes and one row more) and the references of
/// one index page a level; while a page is encoded, a few times as much.
#[derive(Debug)]
pub struct TableBuilder {
    schema: &'static Schema,
    page_rows: usize,
    page_bytes: usize,
    index_rows: usize,
    columns: Vec<ColumnBuffer>,
    /// Rows in `columns`, and bytes of their strings.
    buffered_rows: usize,
    buffered_bytes: usize,
    /// The stored page that holds exactly these rows, if there is one.
    clean: Option<PageRef>,
    /// Full data pages.
    page_count: u64,
    row_count: u64,
    /// Rows of the pages that are referred to.
    paged_rows: u64,
    /// References that wait for their index page, from level 1 up. A level that exists is not
    /// empty.
    levels: Vec<IndexLevel>,
    dictionary: PageRef,
}

/// The rows of one page, to be encoded; see [`TableBuilder::push_apart`].
#[derive(Debug)]
pub struct PageRows {
    schema: &'static Schema,
    columns: Vec<ColumnBuffer>,
    row_count: usize,
}

impl PageRows {
    /// Decodes the plain bytes of a page of this schema, or of an index page in either form.
    ///
    /// # Errors
    /// The bytes are not a page.
    pub fn from_plain(schema: &'static Schema, plain: Vec<u8>) -> Result<Self, TableError> {
        let (row_count, columns) = Patched::new(plain)?.into_columns()?;
        Ok(Self { schema, columns, row_count })
    }

    /// Returns the plain page that compresses best. It depends on the rows and on `left`, which
    /// tells how many bytes a compressor leaves of some. `left` is called three times for each long
    /// column of integers, with up to 128 KiB. If it always returns the length, the page is as
    /// short as possible.
    ///
    /// # Errors
    /// The page would be beyond its limit, which the builder excludes.
    pub fn encode(&self, left: &mut dyn FnMut(&[u8]) -> usize) -> Result<Vec<u8>, TableError> {
        encode_page_by(self.schema, &self.columns, self.row_count, &mut |values, plain| {
            integers::encode_compressed(values, left, plain);
        })
    }

    /// The schema, the columns and the number of rows.
    pub(crate) fn parts(&self) -> (&'static Schema, &[ColumnBuffer], usize) {
        (self.schema, &self.columns, self.row_count)
    }

    /// Rows of the page, at least 1.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The least number of each shifted column: the bases of the page if it gets some.
    pub fn bases(&self) -> Bases {
        shift::bases(self.schema, &self.columns)
    }

    /// Counts the shifted columns from [`PageRows::bases`]. The page that is made of the rest needs
    /// these bases in its reference.
    pub fn shift(&mut self) -> Bases {
        shift::shift(self.schema, &mut self.columns)
    }

    /// Returns whether `page` holds exactly these rows.
    ///
    /// # Errors
    /// The page is damaged.
    pub fn is_equal(&self, page: &Page) -> Result<bool, TableError> {
        Ok(self.row_count == page.row_count() && shift::is_equal(&self.columns, page)?)
    }

    /// Calls `put` with bytes that say what the rows are, counted from `bases`: rows that give the
    /// same bytes are equal. Cheaper than encoding them.
    pub fn describe(&self, bases: Bases, put: &mut dyn FnMut(&[u8])) {
        shift::describe(self.schema, &self.columns, bases, put);
    }

    /// Splits the rows: the first `row_count`, at least one and not all, and the rest.
    pub fn split(&self, row_count: usize) -> (PageRows, PageRows) {
        let part = |rows: std::ops::Range<usize>| PageRows {
            schema: self.schema,
            columns: self.columns.iter().map(|column| column.part(rows.clone())).collect(),
            row_count: rows.len(),
        };
        (part(0..row_count), part(row_count..self.row_count))
    }

    /// Column 0 of the first row if it holds integers, else 0.
    pub fn first_key(&self) -> u64 {
        match &self.columns[0] {
            ColumnBuffer::U64(values) => values.first().copied().unwrap_or(0),
            ColumnBuffer::Bytes(_) => 0,
        }
    }
}

#[derive(Debug, Default)]
struct IndexLevel {
    entries: Vec<IndexEntry>,
    /// The stored index page that holds exactly these entries, and the one awaited.
    clean: Option<PageRef>,
    /// The clean page's last entry is still open below.
    awaits: bool,
}

impl TableBuilder {
    /// Prepares an empty table.
    ///
    /// # Panics
    ///
    /// If the schema has no columns or more than [`COLUMNS_MAX`]: schemas are constants.
    pub fn new(schema: &'static Schema) -> Self {
        assert!((1..=COLUMNS_MAX).contains(&schema.columns.len()), "{}: columns", schema.name);
        Self {
            schema,
            page_rows: PAGE_ROWS_DEFAULT,
            page_bytes: PAGE_BYTES_DEFAULT,
            index_rows: INDEX_ROWS_DEFAULT,
            columns: schema.columns.iter().map(|spec| ColumnBuffer::new(spec.kind)).collect(),
            buffered_rows: 0,
            buffered_bytes: 0,
            clean: None,
            page_count: 0,
            row_count: 0,
            paged_rows: 0,
            levels: Vec::new(),
            dictionary: PageRef::default(),
        }
    }

    /// Ends data pages at `page_rows` rows, clamped to 1 and [`PAGE_ROWS_MAX`].
    pub fn with_page_rows(mut self, page_rows: usize) -> Self {
        self.page_rows = page_rows.clamp(1, PAGE_ROWS_MAX);
        self
    }

    /// Ends data pages when their byte strings have `page_bytes` bytes, clamped to 1 and
    /// [`PAGE_BYTES_MAX`]. More rows and bytes a page compress better and take longer to fetch.
    pub fn with_page_bytes(mut self, page_bytes: usize) -> Self {
        self.page_bytes = page_bytes.clamp(1, PAGE_BYTES_MAX);
        self
    }

    /// Ends index pages at `index_rows` references, clamped to 2 and [`PAGE_ROWS_MAX`].
    pub fn with_index_rows(mut self, index_rows: usize) -> Self {
        self.index_rows = index_rows.clamp(2, PAGE_ROWS_MAX);
        self
    }

    /// Continues the table at `root` after its last row, like [`TableBuilder::resume_at`].
    ///
    /// # Errors
    /// As for [`TableBuilder::resume_at`].
    pub fn resume<S: PageSource>(
        schema: &'static Schema,
        root: &TableRoot,
        source: &S,
    ) -> Result<Self, S::Error> {
        Self::resume_at(schema, root, root.row_count, source)
    }

    /// Continues the table at `root` after its first `row_count` rows, and drops later rows, such
    /// as a sentinel. Reads one page a level. Full pages stay where they are, and so does the last
    /// one of each level if nothing is pushed: then [`TableBuilder::finish`] returns `root`. The
    /// dictionary is kept. Page sizes that are not the default have to be set again.
    ///
    /// # Errors
    /// There are fewer rows, root or index are damaged, or the source fails.
    pub fn resume_at<S: PageSource>(
        schema: &'static Schema,
        root: &TableRoot,
        row_count: u64,
        source: &S,
    ) -> Result<Self, S::Error> {
        check_root(root, schema)?;
        let mut builder = Self { dictionary: root.dictionary, ..Self::new(schema) };
        if row_count > root.row_count {
            let (table, row) = (schema.name, row_count);
            return Err(TableError::RowRange { table, row, row_count: root.row_count }.into());
        }
        if row_count == 0 {
            return Ok(builder);
        }
        let mut entry = IndexEntry { first_row: 0, first_page: 0, first_key: 0, page: root.top };
        for _ in 1..root.level_count {
            let index = source.page(&entry.page, &INDEX_SCHEMA)?;
            let child = last_child_at(&index, index::FIRST_ROW, row_count - 1)
                .map_err(S::Error::from)?
                .ok_or_else(|| builder.damaged("an index page starts after its place"))?;
            let mut entries = Vec::with_capacity(child);
            for row in 0..child {
                entries.push(IndexEntry::read(&index, row, schema.name)?);
            }
            let clean = (child + 1 == index.row_count()).then_some(entry.page);
            // A level of its own is only for what has more than one entry somewhere.
            if child > 0 || !builder.levels.is_empty() {
                builder.levels.insert(0, IndexLevel { entries, clean, awaits: true });
            }
            entry = IndexEntry::read(&index, child, schema.name)?;
        }
        let page = source.page(&entry.page, schema)?;
        builder.reload(&page, &entry, row_count, root)?;
        Ok(builder)
    }

    /// Loads the rows of the last data page.
    fn reload(
        &mut self,
        page: &Page,
        entry: &IndexEntry,
        row_count: u64,
        root: &TableRoot,
    ) -> Result<(), TableError> {
        let rows =
            row_count.checked_sub(entry.first_row).and_then(|rows| usize::try_from(rows).ok());
        let rows = rows
            .filter(|&rows| rows > 0 && rows <= page.row_count())
            .ok_or_else(|| self.damaged("the last data page does not hold the last row"))?;
        for (column, buffer) in self.columns.iter_mut().enumerate() {
            match buffer {
                ColumnBuffer::U64(values) => page.u64_range(column, 0..rows, values)?,
                ColumnBuffer::Bytes(strings) => page.scan_bytes(column, 0..rows, |_, string| {
                    self.buffered_bytes += string.len();
                    // Damage could make strings far longer than their page.
                    let fits = self.buffered_bytes <= PAGE_BYTES_MAX + ROW_BYTES_MAX;
                    if fits {
                        strings.push(string);
                    }
                    fits
                })?,
            }
        }
        if self.buffered_bytes > PAGE_BYTES_MAX + ROW_BYTES_MAX {
            return Err(self.damaged("the last data page holds more bytes than a page may"));
        }
        if row_count == root.row_count {
            if rows != page.row_count() {
                return Err(self.damaged("the last data page does not end with the last row"));
            }
            if entry.first_page.checked_add(1) != Some(root.page_count) {
                return Err(self.damaged("the root's page count is not the index's"));
            }
        }
        self.buffered_rows = rows;
        self.row_count = row_count;
        self.paged_rows = entry.first_row;
        self.page_count = entry.first_page;
        self.clean = (rows == page.row_count()).then_some(entry.page);
        Ok(())
    }

    /// Ends the page that was loaded by a resume if its rows hold at least `bytes_min` bytes: 8 for
    /// each integer, and those of strings. Later rows begin a page, so a table that grows many
    /// times by a little does not store a long last page again each time. The page stays where it
    /// is; if rows of it were dropped, its rows are returned as by [`TableBuilder::cut`].
    ///
    /// # Errors
    /// As for [`TableBuilder::attach`].
    pub fn end_loaded<S: PageSink>(
        &mut self,
        bytes_min: usize,
        sink: &mut S,
    ) -> Result<Option<PageRows>, S::Error> {
        if self.buffered_rows == 0 || self.held_bytes() < bytes_min {
            return Ok(None);
        }
        if self.clean.is_some() {
            self.put_page(sink)?;
            return Ok(None);
        }
        Ok(self.cut())
    }

    /// Bytes of the rows that are in no page yet: 8 for each integer, and those of strings.
    pub fn held_bytes(&self) -> usize {
        self.buffered_bytes + self.buffered_rows * self.columns.len() * 8
    }

    /// Sets the dictionary of the [`TableRoot`]. The builder itself does not use it.
    pub fn set_dictionary(&mut self, dictionary: PageRef) {
        self.dictionary = dictionary;
    }

    /// Rows of the table so far.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Adds a row and returns its number. May store one page a level.
    ///
    /// # Errors
    /// The row does not match the schema or is beyond [`VALUE_LEN_MAX`] or [`ROW_BYTES_MAX`]; then
    /// nothing is added. Or the sink fails; then the table is lost.
    pub fn push<S: PageSink>(&mut self, row: &[Value<'_>], sink: &mut S) -> Result<u64, S::Error> {
        let row_bytes = self.check_row(row)?;
        if self.page_is_full() {
            self.put_page(sink)?;
        }
        self.buffer_row(row, row_bytes);
        Ok(self.row_count - 1)
    }

    /// Like [`TableBuilder::push`], but returns the rows of a full page instead of storing it, so
    /// that several pages can be encoded at a time. Each of them has to be attached with
    /// [`TableBuilder::attach`], in order, before [`TableBuilder::finish`]. Do not mix with `push`.
    ///
    /// # Errors
    /// The row does not match the schema or is beyond a limit; then nothing is added.
    pub fn push_apart(&mut self, row: &[Value<'_>]) -> Result<Option<PageRows>, TableError> {
        let row_bytes = self.check_row(row)?;
        let full = if self.page_is_full() { self.cut() } else { None };
        self.buffer_row(row, row_bytes);
        Ok(full)
    }

    /// Returns the rows that are in no page yet, for [`TableBuilder::attach`].
    pub fn cut(&mut self) -> Option<PageRows> {
        if self.buffered_rows == 0 {
            return None;
        }
        let fresh = self.schema.columns.iter().map(|spec| ColumnBuffer::new(spec.kind)).collect();
        let columns = std::mem::replace(&mut self.columns, fresh);
        let row_count = std::mem::take(&mut self.buffered_rows);
        self.buffered_bytes = 0;
        self.clean = None;
        Some(PageRows { schema: self.schema, columns, row_count })
    }

    /// Takes rows back that [`TableBuilder::cut`] returned last, or the last part of them.
    pub fn put_back(&mut self, rows: PageRows) {
        debug_assert_eq!(self.buffered_rows, 0, "rows came in between");
        self.buffered_bytes = rows.columns.iter().map(ColumnBuffer::string_bytes).sum();
        self.buffered_rows = rows.row_count;
        self.columns = rows.columns;
    }

    /// Rows that are in no page yet.
    pub fn held_rows(&self) -> usize {
        self.buffered_rows
    }

    /// Adds the page that was made of the oldest rows that were returned. May store index pages.
    ///
    /// # Errors
    /// The sink fails, or the table would have too many levels.
    pub fn attach<S: PageSink>(
        &mut self,
        row_count: usize,
        first_key: u64,
        page: PageRef,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let first_row = self.paged_rows;
        let entry = IndexEntry { first_row, first_page: self.page_count, first_key, page };
        self.page_count += 1;
        self.paged_rows += row_count as u64;
        self.push_entry(0, entry, false, sink)
    }

    /// The table's schema.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn buffer_row(&mut self, row: &[Value<'_>], row_bytes: usize) {
        for (buffer, value) in self.columns.iter_mut().zip(row) {
            match (buffer, value) {
                (ColumnBuffer::U64(values), Value::U64(value)) => values.push(*value),
                (ColumnBuffer::Bytes(strings), Value::Bytes(string)) => strings.push(string),
                _ => {} // check_row refused it
            }
        }
        self.clean = None;
        self.buffered_rows += 1;
        self.buffered_bytes += row_bytes;
        self.row_count += 1;
    }

    /// Stores the remaining pages and returns the table's root.
    ///
    /// # Errors
    /// The sink fails, or the table would have too many levels.
    pub fn finish<S: PageSink>(mut self, sink: &mut S) -> Result<TableRoot, S::Error> {
        let dictionary = self.dictionary;
        if self.row_count == 0 {
            return Ok(TableRoot { dictionary, ..TableRoot::default() });
        }
        if self.buffered_rows > 0 {
            self.put_page(sink)?;
        }
        let mut level = 0;
        // A root has no room for bases: the only page gets an index page of its own if it has some.
        while self.levels.len() > level + 1
            || self.levels[level].entries.len() > 1
            || self.levels[level].entries[0].page.bases != Bases::default()
        {
            self.put_level(level, sink)?;
            level += 1;
        }
        Ok(TableRoot {
            row_count: self.row_count,
            page_count: self.page_count,
            level_count: self.levels.len() as u8,
            top: self.levels[level].entries[0].page,
            dictionary,
        })
    }

    /// Checks a row. Returns the bytes of its strings.
    fn check_row(&self, row: &[Value<'_>]) -> Result<usize, TableError> {
        let table = self.schema.name;
        if row.len() != self.schema.columns.len() {
            let (expected, found) = (self.schema.columns.len(), row.len());
            return Err(TableError::RowShape { table, expected, found });
        }
        let limit = |what, found: usize, max: usize| {
            if found <= max {
                return Ok(());
            }
            Err(TableError::Limit { table, what, found: found as u64, max: max as u64 })
        };
        let mut row_bytes = 0;
        for (column, (spec, value)) in self.schema.columns.iter().zip(row).enumerate() {
            match (spec.kind, value) {
                (ColumnKind::U64, Value::U64(_)) => {}
                (ColumnKind::Bytes, Value::Bytes(string)) => {
                    limit("bytes of one value", string.len(), VALUE_LEN_MAX)?;
                    row_bytes += string.len();
                }
                (kind, _) => return Err(TableError::ColumnKind { table, column, kind }),
            }
        }
        limit("bytes of one row", row_bytes, ROW_BYTES_MAX)?;
        Ok(row_bytes)
    }

    fn page_is_full(&self) -> bool {
        self.buffered_rows >= self.page_rows
            || self.buffered_bytes >= self.page_bytes
            || self.held_bytes() >= PAGE_HELD_MAX
    }

    /// Stores the buffered rows as a data page.
    fn put_page<S: PageSink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let clean = self.clean.take();
        let page = match clean {
            Some(page) => page,
            None => sink.put(&encode_page(self.schema, &self.columns, self.buffered_rows)?)?,
        };
        let first_key = match &self.columns[0] {
            ColumnBuffer::U64(values) => values[0],
            ColumnBuffer::Bytes(_) => 0,
        };
        let first_row = self.paged_rows;
        let entry = IndexEntry { first_row, first_page: self.page_count, first_key, page };
        self.page_count += 1;
        self.paged_rows += self.buffered_rows as u64;
        self.columns.iter_mut().for_each(ColumnBuffer::clear);
        self.buffered_rows = 0;
        self.buffered_bytes = 0;
        self.push_entry(0, entry, clean.is_some(), sink)
    }

    /// Stores the waiting references of `levels[level]` as an index page.
    fn put_level<S: PageSink>(&mut self, level: usize, sink: &mut S) -> Result<(), S::Error> {
        let IndexLevel { entries, clean, .. } = std::mem::take(&mut self.levels[level]);
        let page = match clean {
            Some(page) => page,
            None => {
                let (schema, columns) = index::columns(&entries);
                sink.put(&encode_page(schema, &columns, entries.len())?)?
            }
        };
        self.push_entry(level + 1, IndexEntry { page, ..entries[0] }, clean.is_some(), sink)
    }

    fn push_entry<S: PageSink>(
        &mut self,
        level: usize,
        entry: IndexEntry,
        is_clean: bool,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if level == self.levels.len() {
            if level >= usize::from(LEVELS_MAX) {
                let (table, what) = (self.schema.name, "levels of pages");
                let (found, max) = (level as u64 + 1, u64::from(LEVELS_MAX));
                return Err(TableError::Limit { table, what, found, max }.into());
            }
            self.levels.push(IndexLevel::default());
        }
        // An awaited entry belongs to the page it was in. Recursion ends at the top level, of which
        // there are at most LEVELS_MAX.
        let waiting = &self.levels[level];
        if waiting.entries.len() >= self.index_rows && !waiting.awaits {
            self.put_level(level, sink)?;
        }
        let waiting = &mut self.levels[level];
        // Only what was awaited can be clean: all that comes later is new.
        if !is_clean {
            waiting.clean = None;
        }
        waiting.awaits = false;
        waiting.entries.push(entry);
        Ok(())
    }

    fn damaged(&self, what: &'static str) -> TableError {
        TableError::IndexDamaged { table: self.schema.name, what }
    }
}
