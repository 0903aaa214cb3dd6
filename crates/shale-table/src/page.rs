//! One page: some thousand rows of a table, column by column, read in place.
//!
//! # Wire format
//!
//! | field | kind | meaning |
//! |---|---|---|
//! | version | byte | [`PAGE_VERSION`] |
//! | column count | byte | as in the schema, at most [`COLUMNS_MAX`] |
//! | row count | varint | 1 to [`PAGE_ROWS_MAX`] |
//! | columns | sections | one for each column of the schema, in its order |
//!
//! A column of integers is an integer section ([`crate::integers`]), a column of byte strings is a
//! string section ([`crate::byte_strings`]). Sections determine their own ends; the page ends with
//! the last one. Varints are LEB128 ([`crate::varint`]), packed values are little-endian bit
//! strings ([`crate::bitpack`]). Names and kinds of columns are not stored: they are the schema's.
//!
//! # What is checked
//!
//! [`Page::parse`] checks tags, nesting, counts, the order of runs and that every part lies inside
//! the page. Its time depends on the columns and their runs, not the rows. It allocates less than
//! [`COLUMNS_MAX`] times 2 KiB besides the bytes that it was given. The content of the parts is
//! checked when it is read: on a damaged page every method returns an error or some value, and
//! never panics. Checksums are verified by the caller that fetched the page.

use std::{cmp::Ordering, fmt, mem::size_of, ops::Range};

use crate::{
    Bases, ColumnKind, INDEX_SCHEMA, SHIFTED_INDEX_SCHEMA, Schema, Shift, TableError,
    byte_strings::ByteStrings,
    error::Damage,
    integers::{Integers, TIER_COLUMN},
    limits::{COLUMNS_MAX, PAGE_PLAIN_LEN_MAX, PAGE_ROWS_MAX},
    varint::Reader,
};

/// The page format this crate writes, and the only one it reads.
pub const PAGE_VERSION: u8 = 1;

/// Integers that a search reads at once at its end.
const SEARCH_BLOCK: usize = 64;

/// A parsed page that owns its plain bytes. Rows are counted from the page's first.
///
/// Every method returns [`TableError::RowRange`] for rows that do not exist,
/// [`TableError::ColumnKind`] for a column that is not of the kind the method reads, and
/// [`TableError::ColumnDamaged`] when it meets bytes that cannot be right.
#[derive(Debug)]
pub struct Page {
    plain: Vec<u8>,
    schema: &'static Schema,
    row_count: usize,
    columns: Box<[Column]>,
    bases: Bases,
}

#[derive(Debug)]
struct Column {
    section: Section,
    /// Bytes of the page that the column takes.
    len: u32,
}

#[derive(Debug)]
enum Section {
    U64(Integers),
    Bytes(ByteStrings),
}

impl Page {
    /// Parses the headers of a page and checks the bounds of all its parts. Costs some tens of
    /// nanoseconds a column and some a run, whatever the number of rows.
    ///
    /// # Errors
    /// The page is too long, or its headers contradict the format, the schema or each other.
    pub fn parse(plain: Vec<u8>, schema: &'static Schema) -> Result<Page, TableError> {
        let table = schema.name;
        let damaged = |Damage(what)| TableError::PageDamaged { table, what };
        if plain.len() > PAGE_PLAIN_LEN_MAX {
            let (found, max) = (plain.len() as u64, PAGE_PLAIN_LEN_MAX as u64);
            return Err(TableError::Limit { table, what: "plain page bytes", found, max });
        }
        let mut reader = Reader::new(&plain);
        if reader.byte().map_err(damaged)? != PAGE_VERSION {
            return Err(damaged(Damage("it is not of page format version 1")));
        }
        let column_count = usize::from(reader.byte().map_err(damaged)?);
        // An index page has one of two forms.
        let is_shifted_index = std::ptr::eq(schema, &INDEX_SCHEMA)
            && column_count == SHIFTED_INDEX_SCHEMA.columns.len();
        let schema = if is_shifted_index { &SHIFTED_INDEX_SCHEMA } else { schema };
        if column_count != schema.columns.len() || column_count > COLUMNS_MAX {
            return Err(damaged(Damage("it has not as many columns as its table")));
        }
        let row_count =
            reader.varint_max(PAGE_ROWS_MAX, "it claims too many rows").map_err(damaged)?;
        if row_count == 0 {
            return Err(damaged(Damage("it has no rows")));
        }
        let mut columns = Vec::with_capacity(column_count);
        for spec in schema.columns {
            let start = reader.at();
            let section = match spec.kind {
                ColumnKind::U64 => {
                    Integers::parse(&mut reader, row_count, TIER_COLUMN).map(Section::U64)
                }
                ColumnKind::Bytes => ByteStrings::parse(&mut reader, row_count).map(Section::Bytes),
            };
            let section = section.map_err(|Damage(what)| TableError::ColumnDamaged {
                table,
                column: spec.name,
                what,
            })?;
            columns.push(Column { section, len: (reader.at() - start) as u32 });
        }
        if !reader.is_at_end() {
            return Err(damaged(Damage("bytes follow its last column")));
        }
        let columns = columns.into_boxed_slice();
        Ok(Page { columns, plain, schema, row_count, bases: Bases::default() })
    }

    /// Adds the bases in a reference to this page to its shifted columns, from now on.
    pub fn with_bases(self, bases: Bases) -> Page {
        Page { bases, ..self }
    }

    /// Rows of this page, at least 1.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The schema that the page was parsed with.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Returns whether parsing with this schema and these bases gives this page again.
    pub fn is_read_as(&self, bases: Bases, schema: &'static Schema) -> bool {
        let is_index =
            std::ptr::eq(self.schema, &SHIFTED_INDEX_SCHEMA) && std::ptr::eq(schema, &INDEX_SCHEMA);
        self.bases == bases && (is_index || std::ptr::eq(self.schema, schema))
    }

    /// The page's plain bytes.
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Returns one integer. Costs a few nanoseconds in most codecs, at most a sum over 64
    /// differences.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn u64(&self, column: usize, row: usize) -> Result<u64, TableError> {
        let integers = self.integers(column)?;
        self.check_row(row)?;
        let value = integers.get(&self.plain, row);
        let value = value.map_err(|damage| self.damaged(column, damage))?;
        let mut base = 0u64;
        for (shift, shifted_by) in self.shifts_of(column) {
            let holds = match shift.only {
                None => true,
                Some(only) => only.holds(self.u64(only.column, row)?),
            };
            base = base.wrapping_add(if holds { shifted_by } else { 0 });
        }
        Ok(value.wrapping_add(base))
    }

    /// The shifts of a column whose bases are not zero. A column that decides over rows has none,
    /// so reading it ends there.
    fn shifts_of(&self, column: usize) -> impl Iterator<Item = (&'static Shift, u64)> {
        let decides = self
            .schema
            .shifts
            .iter()
            .any(|shift| shift.only.is_some_and(|only| only.column == column));
        let shifts = self.schema.shifts.iter().zip(self.bases);
        shifts.filter(move |(shift, base)| shift.column == column && *base != 0 && !decides)
    }

    /// Replaces the content of `out` with the integers of `rows`. Cheaper than single reads.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn u64_range(
        &self,
        column: usize,
        rows: Range<usize>,
        out: &mut Vec<u64>,
    ) -> Result<(), TableError> {
        let integers = self.integers(column)?;
        out.clear();
        self.check_rows(&rows)?;
        out.resize(rows.len(), 0);
        let read = integers.read(&self.plain, rows.start, out);
        read.map_err(|damage| self.damaged(column, damage))?;
        for (shift, base) in self.shifts_of(column) {
            let Some(only) = shift.only else {
                out.iter_mut().for_each(|value| *value = value.wrapping_add(base));
                continue;
            };
            let mut deciding = Vec::new();
            self.u64_range(only.column, rows.clone(), &mut deciding)?;
            for (value, deciding) in out.iter_mut().zip(deciding) {
                *value = value.wrapping_add(if only.holds(deciding) { base } else { 0 });
            }
        }
        Ok(())
    }

    /// Finds the first row of `rows` whose integer is greater than `value`; `rows.end` if there is
    /// none. The integers must ascend over `rows` (else the answer is some row of the range).
    /// Allocates nothing.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn search_u64(
        &self,
        column: usize,
        rows: Range<usize>,
        value: u64,
    ) -> Result<usize, TableError> {
        let integers = self.integers(column)?;
        self.check_rows(&rows)?;
        // Columns that ascend are shifted as a whole.
        let base = self.shifts_of(column).find(|(shift, _)| shift.only.is_none());
        let Some(value) = value.checked_sub(base.map_or(0, |(_, base)| base)) else {
            return Ok(rows.start);
        };
        search_integers(integers, &self.plain, rows, value)
            .map_err(|damage| self.damaged(column, damage))
    }

    /// Replaces the content of `out` with one byte string.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn bytes_into(
        &self,
        column: usize,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TableError> {
        let strings = self.strings(column)?;
        self.check_row(row)?;
        let found = strings.find(&self.plain, row, out);
        if let Some(string) = found.map_err(|damage| self.damaged(column, damage))? {
            out.clear();
            out.extend_from_slice(string);
        }
        Ok(())
    }

    /// Returns one byte string.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn bytes(&self, column: usize, row: usize) -> Result<Vec<u8>, TableError> {
        let mut out = Vec::new();
        self.bytes_into(column, row, &mut out)?;
        Ok(out)
    }

    /// Compares the byte string of `row` with `key`: `Less` if the string sorts before the key.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn bytes_cmp(&self, column: usize, row: usize, key: &[u8]) -> Result<Ordering, TableError> {
        let strings = self.strings(column)?;
        self.check_row(row)?;
        let view = strings.view(&self.plain, row, &mut Vec::new()).map(|string| string.cmp(key));
        view.map_err(|damage| self.damaged(column, damage))
    }

    /// Searches the byte strings of `rows` like `slice::binary_search`: `Ok` is a row that holds
    /// `key`, `Err` where it would be. The strings must ascend (else the answer is some row of the
    /// range).
    ///
    /// # Errors
    /// See [`Page`].
    pub fn search_bytes(
        &self,
        column: usize,
        rows: Range<usize>,
        key: &[u8],
    ) -> Result<Result<usize, usize>, TableError> {
        let strings = self.strings(column)?;
        self.check_rows(&rows)?;
        strings.search(&self.plain, rows, key).map_err(|damage| self.damaged(column, damage))
    }

    /// Calls `visit(row, string)` for `rows` in order until it returns false. Much cheaper than
    /// single reads.
    ///
    /// # Errors
    /// See [`Page`].
    pub fn scan_bytes(
        &self,
        column: usize,
        rows: Range<usize>,
        mut visit: impl FnMut(usize, &[u8]) -> bool,
    ) -> Result<(), TableError> {
        let strings = self.strings(column)?;
        self.check_rows(&rows)?;
        strings.scan(&self.plain, rows, &mut visit).map_err(|damage| self.damaged(column, damage))
    }

    /// Returns the memory that this page holds, in bytes; a cache should count this.
    pub fn memory_len(&self) -> usize {
        let heap_len = |column: &Column| match &column.section {
            Section::U64(integers) => integers.heap_len(),
            Section::Bytes(strings) => strings.heap_len(),
        };
        size_of::<Self>()
            + self.plain.capacity()
            + self.columns.len() * size_of::<Column>()
            + self.columns.iter().map(heap_len).sum::<usize>()
    }

    /// Describes the page. The [`fmt::Display`] of the description has one line for each column.
    pub fn describe(&self) -> PageSummary {
        let columns = self.schema.columns.iter().zip(&self.columns).map(|(spec, column)| {
            let codec = match &column.section {
                Section::U64(integers) => integers.to_string(),
                Section::Bytes(strings) => strings.to_string(),
            };
            ColumnSummary { name: spec.name, codec, len: column.len as usize }
        });
        PageSummary {
            table: self.schema.name,
            row_count: self.row_count,
            len: self.plain.len(),
            columns: columns.collect(),
        }
    }

    fn integers(&self, column: usize) -> Result<&Integers, TableError> {
        match self.columns.get(column).map(|column| &column.section) {
            Some(Section::U64(integers)) => Ok(integers),
            _ => Err(self.wrong_kind(column, ColumnKind::U64)),
        }
    }

    fn strings(&self, column: usize) -> Result<&ByteStrings, TableError> {
        match self.columns.get(column).map(|column| &column.section) {
            Some(Section::Bytes(strings)) => Ok(strings),
            _ => Err(self.wrong_kind(column, ColumnKind::Bytes)),
        }
    }

    fn wrong_kind(&self, column: usize, kind: ColumnKind) -> TableError {
        TableError::ColumnKind { table: self.schema.name, column, kind }
    }

    fn check_row(&self, row: usize) -> Result<(), TableError> {
        if row < self.row_count { Ok(()) } else { Err(self.row_range(row)) }
    }

    fn check_rows(&self, rows: &Range<usize>) -> Result<(), TableError> {
        if rows.start <= rows.end && rows.end <= self.row_count {
            return Ok(());
        }
        Err(self.row_range(rows.start.max(rows.end)))
    }

    fn row_range(&self, row: usize) -> TableError {
        let row_count = self.row_count as u64;
        TableError::RowRange { table: self.schema.name, row: row as u64, row_count }
    }

    fn damaged(&self, column: usize, Damage(what): Damage) -> TableError {
        let column = self.schema.columns.get(column).map_or("?", |spec| spec.name);
        TableError::ColumnDamaged { table: self.schema.name, column, what }
    }
}

/// Finds the first value greater than `value`. Probes only rows at which every codec has a
/// checkpoint until a block is left, and reads that as a whole if single values would cost as much.
fn search_integers(
    integers: &Integers,
    page: &[u8],
    rows: Range<usize>,
    value: u64,
) -> Result<usize, Damage> {
    let first_block = rows.start.div_ceil(SEARCH_BLOCK);
    let (mut low, mut high) = (first_block, rows.end.div_ceil(SEARCH_BLOCK));
    while low < high {
        let middle = low + (high - low) / 2;
        if integers.get(page, middle * SEARCH_BLOCK)? <= value {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut end = rows.end.min(low * SEARCH_BLOCK);
    let mut start = if low > first_block { (low - 1) * SEARCH_BLOCK } else { rows.start };
    if !integers.reads_ahead() {
        while start < end {
            let middle = start + (end - start) / 2;
            if integers.get(page, middle)? <= value { start = middle + 1 } else { end = middle }
        }
        return Ok(start);
    }
    let mut buffer = [0; SEARCH_BLOCK];
    let block = &mut buffer[..end.saturating_sub(start).min(SEARCH_BLOCK)];
    integers.read(page, start, block)?;
    Ok(start + block.partition_point(|&v| v <= value))
}

/// Description of a page, for people; see [`Page::describe`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageSummary {
    /// Name of the table's schema.
    pub table: &'static str,
    /// Rows of the page.
    pub row_count: usize,
    /// Plain bytes of the page.
    pub len: usize,
    /// The columns, in the schema's order.
    pub columns: Vec<ColumnSummary>,
}

/// Description of one column of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnSummary {
    /// The column's name.
    pub name: &'static str,
    /// Its codec and the codecs of its parts.
    pub codec: String,
    /// Plain bytes of the column.
    pub len: usize,
}

impl fmt::Display for PageSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} rows, {} bytes", self.table, self.row_count, self.len)?;
        for ColumnSummary { name, codec, len } in &self.columns {
            write!(f, "\n  {name:<14} {len:>8} bytes  {codec}")?;
        }
        Ok(())
    }
}
