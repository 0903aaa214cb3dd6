//! The interface to storage: references to pages, the root of a table, and the two traits that
//! store and fetch plain pages. Implementers decide where pages lie, and how they are compressed
//! and checked; this crate only carries the references.

use std::sync::Arc;

use crate::{Bases, Page, Schema, TableError};

/// Where a stored page is and how it becomes plain. Opaque to this crate.
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
    /// Codec of the page: how it is stored.
    pub codec: u8,
    /// What is added to the shifted columns of a data page, see [`crate::Shift`]. A source gives
    /// them to [`Page::with_bases`].
    pub bases: Bases,
}

/// Everything that is needed to read a table.
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
    /// A page that serves the others as compression dictionary; all zero if there is none. This
    /// crate only carries it.
    pub dictionary: PageRef,
}

/// Takes plain pages and stores them.
pub trait PageSink {
    /// The sink's errors; the builder adds its own.
    type Error: From<TableError>;

    /// Stores one plain page (at most [`crate::limits::PAGE_PLAIN_LEN_MAX`] bytes) and returns a
    /// reference to it.
    ///
    /// # Errors
    /// Those of the implementer.
    fn put(&mut self, plain: &[u8]) -> Result<PageRef, Self::Error>;
}

/// Fetches pages: reads, verifies, decompresses, parses ([`Page::parse`]) and caches them.
pub trait PageSource {
    /// The source's errors; the table adds its own.
    type Error: From<TableError>;

    /// Returns the page at `page`. `schema` is that of the table for data pages and
    /// [`crate::INDEX_SCHEMA`] for index pages.
    ///
    /// # Errors
    /// Those of the implementer.
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
