//! How this crate meets storage: references to pages, the root of a table, and the two traits that
//! put and get plain pages. Where pages lie, how they are compressed and checked is the
//! implementer's business; this crate only carries the references.

use std::sync::Arc;

use crate::{Page, Schema, TableError};

/// Where a stored page is and how to get its plain bytes back. Opaque to this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageRef {
    /// Offset of the stored bytes.
    pub offset: u64,
    /// Checksum of the stored bytes.
    pub checksum: u64,
    /// Stored bytes.
    pub stored_len: u32,
    /// Plain bytes.
    pub plain_len: u32,
    /// How the page is stored.
    pub codec: u8,
}

/// All that must be kept to find a table again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableRoot {
    /// Rows of the table.
    pub row_count: u64,
    /// Data pages of the table (index pages not counted).
    pub page_count: u64,
    /// 0: empty table; 1: `top` is the only data page; n: `top` is an index page of level n − 1.
    pub level_count: u8,
    /// The one page of the highest level.
    pub top: PageRef,
    /// A page that helps to decode the others (a compression dictionary); all zero: none. This
    /// crate only carries it.
    pub dictionary: PageRef,
}

/// Takes plain pages and stores them.
pub trait PageSink {
    /// The sink's errors; the builder adds its own.
    type Error: From<TableError>;

    /// Stores one plain page (at most [`crate::limits::PAGE_PLAIN_LEN_MAX`] bytes) and says how to
    /// find it again.
    fn put(&mut self, plain: &[u8]) -> Result<PageRef, Self::Error>;
}

/// Gives pages back: fetches, verifies, decompresses, parses ([`Page::parse`]) and, if it is wise,
/// caches.
pub trait PageSource {
    /// The source's errors; the table adds its own.
    type Error: From<TableError>;

    /// The page at `page`. `schema` is the table's own for data pages and
    /// [`crate::INDEX_SCHEMA`] for index pages.
    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, Self::Error>;
}

impl<S: PageSink + ?Sized> PageSink for &mut S {
    type Error = S::Error;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, Self::Error> {
        (**self).put(plain)
    }
}

impl<S: PageSource + ?Sized> PageSource for &S {
    type Error = S::Error;

    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, Self::Error> {
        (**self).page(page, schema)
    }
}
