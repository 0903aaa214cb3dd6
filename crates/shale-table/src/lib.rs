//! Paged columnar tables of integers and byte strings, read in place.
//!
//! A table is rows of typed columns ([`Schema`]). The builder ([`TableBuilder`]) takes rows in
//! order and streams pages to a [`PageSink`], holding one page a level; the reader ([`Table`])
//! finds pages through a small index tree and reads single values out of them ([`Page`]) without
//! unpacking the rest. Each column of each page is stored by the codec that is smallest for it.
//!
//! The crate knows no files, images, compression, checksums or threads. It turns rows into plain
//! pages and plain pages into rows, and carries references ([`PageRef`]) that callers make and
//! follow. It trusts no byte that it reads: a damaged page gives errors or wrong values, never a
//! panic, and memory stays within [`limits`]. The page format is documented where it is
//! implemented: `page` (the page), `integers` and `byte_strings` (the codecs), `index` (index
//! pages).
//!
//! ```
//! use std::{cell::RefCell, sync::Arc};
//! use shale_table::*;
//!
//! static COLOURS: Schema = Schema {
//!     name: "colours",
//!     columns: &[ColumnSpec::u64("wavelength"), ColumnSpec::bytes("name")],
//!     shifts: &[],
//! };
//!
//! /// Keeps plain pages in memory; an image would compress, check and write them.
//! struct Store(RefCell<Vec<Vec<u8>>>);
//!
//! impl PageSink for &Store {
//!     type Error = TableError;
//!     fn put(&mut self, plain: &[u8]) -> Result<PageRef, TableError> {
//!         self.0.borrow_mut().push(plain.to_vec());
//!         let offset = self.0.borrow().len() as u64 - 1;
//!         Ok(PageRef { offset, plain_len: plain.len() as u32, ..PageRef::default() })
//!     }
//! }
//!
//! impl PageSource for Store {
//!     type Error = TableError;
//!     fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, TableError> {
//!         let plain = self.0.borrow()[page.offset as usize].clone();
//!         Page::parse(plain, schema).map(Arc::new)
//!     }
//! }
//!
//! let store = Store(RefCell::default());
//! let mut builder = TableBuilder::new(&COLOURS);
//! for (wavelength, name) in [(380, "violet"), (450, "blue"), (495, "green"), (620, "red")] {
//!     builder.push(&[Value::U64(wavelength), Value::Bytes(name.as_bytes())], &mut &store)?;
//! }
//! let root = builder.finish(&mut &store)?;
//!
//! let table = Table::new(root, &COLOURS, &store)?;
//! let row = table.search_u64(532)?.expect("not below violet");
//! assert_eq!(table.bytes(1, row)?, b"green");
//! # Ok::<(), TableError>(())
//! ```

pub mod limits; // every limit, with its reason
mod error; // what can go wrong
mod schema; // what a table looks like
mod store; // how pages are stored and fetched: the interface to storage
pub mod varint; // variable-length integers, and reading headers
mod bitpack; // integers of a fixed width
mod integers; // codecs of integer columns
mod byte_strings; // codecs of byte string columns
mod index_schema; // the two forms of index pages
mod page; // one parsed page: the format, and reading in place
mod write; // the writing side of a page
mod shift; // columns that are counted from a base of their page
mod index; // index pages: the same format with a schema of its own
mod builder; // rows in, pages out, in bounded memory
mod patch; // a page as its differences from another one
mod table; // rows out, touching few pages
mod cursor; // many reads near each other
mod column; // one column in order

pub use builder::{
    INDEX_ROWS_DEFAULT, PAGE_BYTES_DEFAULT, PAGE_ROWS_DEFAULT, PageRows, TableBuilder,
};
pub use column::Column;
pub use cursor::Cursor;
pub use error::TableError;
pub use index_schema::{INDEX_SCHEMA, SHIFTED_INDEX_SCHEMA};
pub use page::{ColumnSummary, PAGE_VERSION, Page, PageSummary};
pub use patch::{Alignment, Earlier, Patched, patch};
pub use schema::{Bases, ColumnKind, ColumnSpec, Only, SHIFTS_MAX, Schema, Shift, Value};
pub use store::{PageRef, PageSink, PageSource, TableRoot};
pub use table::{PageVisit, Table};
