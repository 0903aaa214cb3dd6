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

/// Pages of a table that a new one may share.
#[derive(Debug)]
pub(crate) enum Shareable {
    /// Those of the image that is continued, by the sum and the length of what is stored. The
    /// stored bytes are read and compared.
    InImage(HashMap<(u64, u32), PageRef>),
    /// Those that this build wrote, by hash and codec of what is stored.
    Written(HashMap<([u8; 32], u8), PageRef>),
}

impl Default for Shareable {
    fn default() -> Self {
        Self::InImage(HashMap::new())
    }
}

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
        Ok(Self::InImage(found))
    }

    /// Returns the page of the table that is stored as these bytes, with this codec.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn find(
        &self,
        base: Option<&dyn Base>,
        checksum: u64,
        stored: &[u8],
        codec: u8,
    ) -> Result<Option<PageRef>, WriteError> {
        let pages = match self {
            Self::InImage(pages) => pages,
            Self::Written(pages) if pages.is_empty() => return Ok(None),
            Self::Written(pages) => return Ok(pages.get(&(hash_of(stored), codec)).copied()),
        };
        let (Some(base), Some(page)) = (base, pages.get(&(checksum, stored.len() as u32))) else {
            return Ok(None);
        };
        if page.codec != codec {
            return Ok(None);
        }
        let mut bytes = vec![0; stored.len()];
        base.read_stored(page.offset, &mut bytes)?;
        Ok((bytes == stored).then_some(*page))
    }
}

/// A table that this build wrote, for the next one like it.
#[derive(Debug, Default)]
pub(crate) struct WrittenTable {
    pages: HashMap<([u8; 32], u8), PageRef>,
    /// The data pages in order, with the number and the hash of their rows.
    pub(crate) in_order: Vec<(usize, [u8; 32], PageRef)>,
    pub(crate) dictionary: Option<(PageRef, Arc<Vec<u8>>)>,
}

impl WrittenTable {
    /// Notes a page of the table and what is stored of it.
    pub(crate) fn note(&mut self, page: PageRef, stored: &[u8]) {
        self.pages.entry((hash_of(stored), page.codec)).or_insert(page);
    }

    /// The pages that the next table may share.
    pub(crate) fn shareable(self) -> Shareable {
        Shareable::Written(self.pages)
    }
}

fn hash_of(stored: &[u8]) -> [u8; 32] {
    *shale_codec::hash(stored).as_bytes()
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
