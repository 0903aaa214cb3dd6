//! The table pages of the image that is continued: read to extend a table, and shared where a new
//! table has the same page.

use std::collections::HashMap;
use std::sync::Arc;

use shale_table::{Page, PageRef, PageSource, Schema, Table, TableRoot};

use crate::base::image::Base;
use crate::plan::error::WriteError;

/// The pages of one table.
pub(crate) struct BasePages<'b> {
    pub(crate) base: &'b dyn Base,
    pub(crate) table: TableRoot,
}

impl PageSource for BasePages<'_> {
    type Error = WriteError;

    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, WriteError> {
        Ok(self.base.page(&self.table, page, schema)?)
    }
}

/// Pages of a table that a new one may share, by the sum and the length of what is stored.
#[derive(Debug, Default)]
pub(crate) struct Shareable(HashMap<(u64, u32), PageRef>);

impl Shareable {
    /// Notes all pages of a table. Reads its index pages.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn of(
        base: &dyn Base,
        table: TableRoot,
        schema: &'static Schema,
    ) -> Result<Self, WriteError> {
        let pages = BasePages { base, table };
        let mut found = HashMap::new();
        Table::new(table, schema, &pages)?.visit_pages(|visit| {
            found.entry((visit.page.checksum, visit.page.stored_len)).or_insert(visit.page);
            Ok(true)
        })?;
        Ok(Self(found))
    }

    /// Returns the page of the table that is stored as these bytes, with this codec.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn find(
        &self,
        base: &dyn Base,
        checksum: u64,
        stored: &[u8],
        codec: u8,
    ) -> Result<Option<PageRef>, WriteError> {
        let Some(page) = self.0.get(&(checksum, stored.len() as u32)) else { return Ok(None) };
        if page.codec != codec {
            return Ok(None);
        }
        let mut bytes = vec![0; stored.len()];
        base.read_stored(page.offset, &mut bytes)?;
        Ok((bytes == stored).then_some(*page))
    }
}

/// Returns the page that is the dictionary of a table which follows `table`: the dictionary of that
/// one, or its first page, which needs none.
///
/// # Errors
/// The image cannot be read.
pub(crate) fn dictionary_of(
    base: &dyn Base,
    table: TableRoot,
    schema: &'static Schema,
) -> Result<Option<(PageRef, Vec<u8>)>, WriteError> {
    let mut page = table.dictionary;
    if page == PageRef::default() {
        let pages = BasePages { base, table };
        Table::new(table, schema, &pages)?.visit_pages(|visit| {
            page = visit.page;
            Ok(visit.level > 0)
        })?;
    }
    if page == PageRef::default() || page.codec > 1 {
        return Ok(None);
    }
    Ok(Some((page, base.page_bytes(&table, &page)?)))
}
