//! A page store in memory that counts what it is asked for, and tables to put there.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use shale_table::{
    ColumnSpec, Page, PageRef, PageSink, PageSource, Schema, TableBuilder, TableError, TableRoot,
    Value,
};

/// Pages by number; `offset` is the number plus one.
#[derive(Default)]
pub struct Store {
    pub pages: RefCell<Vec<Vec<u8>>>,
    pub gets: Cell<u64>,
}

impl Store {
    pub fn page_count(&self) -> usize {
        self.pages.borrow().len()
    }

    pub fn bytes(&self) -> usize {
        self.pages.borrow().iter().map(Vec::len).sum()
    }

    /// Runs `read` and says how many pages it asked for.
    pub fn counted<T>(&self, read: impl FnOnce() -> T) -> (T, u64) {
        let before = self.gets.get();
        let result = read();
        (result, self.gets.get() - before)
    }
}

impl PageSink for &Store {
    type Error = TableError;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, TableError> {
        let mut pages = self.pages.borrow_mut();
        pages.push(plain.to_vec());
        Ok(PageRef {
            offset: pages.len() as u64,
            checksum: (pages.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            stored_len: plain.len() as u32,
            plain_len: plain.len() as u32,
            ..PageRef::default()
        })
    }
}

impl PageSource for Store {
    type Error = TableError;

    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, TableError> {
        self.gets.set(self.gets.get() + 1);
        let index = page.offset.wrapping_sub(1) as usize;
        let lost = TableError::IndexDamaged { table: schema.name, what: "no such page" };
        let plain = self.pages.borrow().get(index).cloned().ok_or(lost)?;
        Ok(Arc::new(Page::parse(plain, schema)?.with_bases(page.bases)))
    }
}

/// A row of [`EVENTS`].
pub type Event = (u64, Vec<u8>, u64);

pub static EVENTS: Schema = Schema {
    name: "events",
    columns: &[ColumnSpec::u64("base"), ColumnSpec::bytes("name"), ColumnSpec::u64("size")],
    shifts: &[],
};

pub fn push(builder: &mut TableBuilder, rows: &[Event], store: &Store) {
    for (base, name, size) in rows {
        let row = [Value::U64(*base), Value::Bytes(name), Value::U64(*size)];
        let number = builder.push(&row, &mut &*store).unwrap();
        assert_eq!(number + 1, builder.row_count());
    }
}

pub fn build(builder: TableBuilder, rows: &[Event], store: &Store) -> TableRoot {
    let mut builder = builder;
    push(&mut builder, rows, store);
    builder.finish(&mut &*store).unwrap()
}
