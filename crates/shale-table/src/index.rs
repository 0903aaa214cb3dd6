//! Index pages: one row for each page of the level below.
//!
//! An index page is a page like any other, with a schema of its own. Level 1 refers to data pages,
//! level 2 to pages of level 1, and so on; there is one page at the top. `first_row` and
//! `first_page` count from the table's start, so that a page is found by one search a level, and
//! how many rows and data pages precede it is known without reading its neighbours. An index page
//! has three further columns if a page below has bases (see [`crate::Shift`]): how many columns
//! there are says which form it is.

use crate::{
    Bases, INDEX_SCHEMA, Page, PageRef, SHIFTED_INDEX_SCHEMA, Schema, TableError,
    write::ColumnBuffer,
};

pub(crate) const FIRST_ROW: usize = 0;
pub(crate) const FIRST_PAGE: usize = 1;
pub(crate) const FIRST_KEY: usize = 2;
const OFFSET: usize = 3;
pub(crate) const CHECKSUM: usize = 4;
const STORED_LEN: usize = 5;
const PLAIN_LEN: usize = 6;
const CODEC: usize = 7;
const BASES: usize = 8;

/// One row of an index page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) first_row: u64,
    pub(crate) first_page: u64,
    pub(crate) first_key: u64,
    pub(crate) page: PageRef,
}

impl IndexEntry {
    /// Row `row` of an index page of the table `table`.
    pub(crate) fn read(
        index: &Page,
        row: usize,
        table: &'static str,
    ) -> Result<IndexEntry, TableError> {
        let narrow = |value: u64| {
            u32::try_from(value).map_err(|_| TableError::IndexDamaged {
                table,
                what: "a page's length is beyond 32 bits",
            })
        };
        let mut bases = Bases::default();
        if index.schema().columns.len() > BASES {
            for (at, base) in bases.iter_mut().enumerate() {
                *base = index.u64(BASES + at, row)?;
            }
        }
        Ok(IndexEntry {
            first_row: index.u64(FIRST_ROW, row)?,
            first_page: index.u64(FIRST_PAGE, row)?,
            first_key: index.u64(FIRST_KEY, row)?,
            page: PageRef {
                offset: index.u64(OFFSET, row)?,
                checksum: index.u64(CHECKSUM, row)?,
                stored_len: narrow(index.u64(STORED_LEN, row)?)?,
                plain_len: narrow(index.u64(PLAIN_LEN, row)?)?,
                codec: u8::try_from(index.u64(CODEC, row)?).map_err(|_| {
                    TableError::IndexDamaged { table, what: "a page's codec is beyond 8 bits" }
                })?,
                bases,
            },
        })
    }
}

/// The schema and the columns of an index page.
pub(crate) fn columns(entries: &[IndexEntry]) -> (&'static Schema, Vec<ColumnBuffer>) {
    let has_bases = entries.iter().any(|entry| entry.page.bases != Bases::default());
    let schema = if has_bases { &SHIFTED_INDEX_SCHEMA } else { &INDEX_SCHEMA };
    let fields: [fn(&IndexEntry) -> u64; 11] = [
        |entry| entry.first_row,
        |entry| entry.first_page,
        |entry| entry.first_key,
        |entry| entry.page.offset,
        |entry| entry.page.checksum,
        |entry| u64::from(entry.page.stored_len),
        |entry| u64::from(entry.page.plain_len),
        |entry| u64::from(entry.page.codec),
        |entry| entry.page.bases[0],
        |entry| entry.page.bases[1],
        |entry| entry.page.bases[2],
    ];
    let fields = fields[..schema.columns.len()].iter();
    let columns = fields.map(|field| ColumnBuffer::U64(entries.iter().map(field).collect()));
    (schema, columns.collect())
}
