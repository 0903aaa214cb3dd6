//! Pages of tables on their way: cut by one thread, encoded by all, written in the order in which
//! they were cut.
//!
//! The first page of a table serves the others as dictionary: it is known while they are written,
//! it costs nothing, and pages of one table are alike. A reader of one page so reads at most one
//! more, once. At most a few pages a thread are in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use shale_codec::{Codec, Settings, xxh3_64};
use shale_format::SectionType;
use shale_table::{PageRef, PageRows, PageSink, Schema, TableBuilder, TableRoot, Value};

use crate::WriteError;
use crate::compress::Bench;
use crate::emit::Emitter;
use crate::flow::Env;
use crate::pool::{Pool, Ticket, Urgency};
use crate::report::TableCounts;

/// Codec of a page that needs its table's dictionary: a number of page references only.
const WITH_DICTIONARY: u8 = 2;

/// What tells how well a column will be compressed.
const TRIAL: Settings = Settings { codec: Codec::Zstd, level: 9, ..Settings::STORED };

/// All tables that are being written.
pub(crate) struct Pages<'p, 'env> {
    env: &'env Env<'env>,
    pool: &'p mut Pool<'env>,
    emitter: &'p mut Emitter<'env>,
    tables: Vec<Writing>,
    flight: VecDeque<(usize, Ticket<Result<PackedPage, WriteError>>)>,
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableId(usize);

struct Writing {
    builder: TableBuilder,
    dictionary: Option<Dictionary>,
    dictionary_used: bool,
    counts: TableCounts,
}

struct Dictionary {
    page: PageRef,
    plain: Arc<Vec<u8>>,
}

/// A page ready to be written.
struct PackedPage {
    row_count: usize,
    first_key: u64,
    plain: Vec<u8>,
    stored: Option<Vec<u8>>,
    codec: u8,
}

impl<'p, 'env> Pages<'p, 'env> {
    pub(crate) fn new(
        env: &'env Env<'env>,
        pool: &'p mut Pool<'env>,
        emitter: &'p mut Emitter<'env>,
    ) -> Self {
        Self { env, pool, emitter, tables: Vec::new(), flight: VecDeque::new() }
    }

    /// Begins a table. Several may be written at a time.
    pub(crate) fn begin(&mut self, schema: &'static Schema) -> TableId {
        self.tables.push(Writing {
            builder: TableBuilder::new(schema),
            dictionary: None,
            dictionary_used: false,
            counts: TableCounts {
                name: schema.name,
                rows: 0,
                pages: 0,
                plain_bytes: 0,
                stored_bytes: 0,
            },
        });
        TableId(self.tables.len() - 1)
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), WriteError> {
        match self.tables[table.0].builder.push_apart(row)? {
            None => Ok(()),
            Some(rows) => self.cut(table, rows),
        }
    }

    /// Adds a row of integers.
    pub(crate) fn u64s<const N: usize>(
        &mut self,
        table: TableId,
        row: [u64; N],
    ) -> Result<(), WriteError> {
        self.row(table, &row.map(Value::U64))
    }

    /// Writes what is left of a table.
    pub(crate) fn end(&mut self, table: TableId) -> Result<(TableRoot, TableCounts), WriteError> {
        if let Some(rows) = self.tables[table.0].builder.cut() {
            self.cut(table, rows)?;
        }
        while !self.flight.is_empty() {
            self.settle()?;
        }
        let writing = &mut self.tables[table.0];
        let schema = writing.builder.schema();
        let builder = std::mem::replace(&mut writing.builder, TableBuilder::new(schema));
        let mut sink = Sink {
            settings: self.env.plan.page_settings,
            pool: self.pool,
            emitter: self.emitter,
            counts: &mut writing.counts,
        };
        let mut root = builder.finish(&mut sink)?;
        if let Some(dictionary) = writing.dictionary.take()
            && writing.dictionary_used
        {
            root.dictionary = dictionary.page;
        }
        writing.counts.rows = root.row_count;
        Ok((root, writing.counts))
    }

    fn cut(&mut self, table: TableId, rows: PageRows) -> Result<(), WriteError> {
        let settings = self.env.plan.page_settings;
        let writing = &self.tables[table.0];
        let dictionary = writing.dictionary.as_ref().map(|found| Arc::clone(&found.plain));
        let is_first = dictionary.is_none();
        let ticket = self.pool.submit(Urgency::Urgent, &self.env.leave, move |bench| {
            pack(bench, settings, &rows, dictionary.as_ref().map_or(&[][..], |plain| plain))
        });
        self.flight.push_back((table.0, ticket));
        // The dictionary of all others is waited for; of others not too many are in flight.
        let flight_max = if is_first { 0 } else { 2 * self.env.plan.threads };
        while self.flight.len() > flight_max {
            self.settle()?;
        }
        Ok(())
    }

    /// Writes the oldest page in flight.
    fn settle(&mut self) -> Result<(), WriteError> {
        let Some((table, ticket)) = self.flight.pop_front() else { return Ok(()) };
        let page = self.pool.wait(&ticket)?;
        self.env.options.check_cancel()?;
        let writing = &mut self.tables[table];
        let mut sink = Sink {
            settings: self.env.plan.page_settings,
            pool: self.pool,
            emitter: self.emitter,
            counts: &mut writing.counts,
        };
        let reference = sink.store(&page.plain, page.stored.as_deref(), page.codec)?;
        writing.builder.attach(page.row_count, page.first_key, reference, &mut sink)?;
        writing.dictionary_used |= page.codec == WITH_DICTIONARY;
        if writing.dictionary.is_none() {
            writing.dictionary = Some(Dictionary { page: reference, plain: Arc::new(page.plain) });
        }
        Ok(())
    }
}

fn pack(
    bench: &mut Bench,
    settings: Settings,
    rows: &PageRows,
    dictionary: &[u8],
) -> Result<PackedPage, WriteError> {
    let mut failure = None;
    let plain = rows.encode(&mut |section| match bench.encode(TRIAL, &[], section) {
        Ok(left) => left.len(),
        Err(error) => {
            failure = Some(error);
            section.len()
        }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    let stored = bench.encode(settings, dictionary, &plain)?;
    let stored = (stored.len() < plain.len()).then_some(stored);
    let codec = match (&stored, dictionary) {
        (None, _) => Codec::Stored.id(),
        (Some(_), []) => Codec::Zstd.id(),
        (Some(_), _) => WITH_DICTIONARY,
    };
    Ok(PackedPage {
        row_count: rows.row_count(),
        first_key: rows.first_key(),
        plain,
        stored,
        codec,
    })
}

/// Puts pages into sections and counts them.
struct Sink<'s, 'env> {
    settings: Settings,
    pool: &'s mut Pool<'env>,
    emitter: &'s mut Emitter<'env>,
    counts: &'s mut TableCounts,
}

impl Sink<'_, '_> {
    fn store(
        &mut self,
        plain: &[u8],
        stored: Option<&[u8]>,
        codec: u8,
    ) -> Result<PageRef, WriteError> {
        let stored = stored.unwrap_or(plain);
        self.counts.pages += 1;
        self.counts.plain_bytes += plain.len() as u64;
        self.counts.stored_bytes += stored.len() as u64;
        Ok(PageRef {
            checksum: xxh3_64(stored),
            stored_len: stored.len() as u32,
            plain_len: plain.len() as u32,
            codec,
            offset: self.emitter.add(self.pool, SectionType::Pages, stored)?,
        })
    }
}

/// For index pages, which are few.
impl PageSink for Sink<'_, '_> {
    type Error = WriteError;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, WriteError> {
        let stored = Bench::default().encode(self.settings, &[], plain)?;
        if stored.len() < plain.len() {
            self.store(plain, Some(&stored), Codec::Zstd.id())
        } else {
            self.store(plain, None, Codec::Stored.id())
        }
    }
}

#[cfg(test)]
mod tests {
    use shale_format::schema::references;
    use shale_table::Page;

    use super::*;
    use crate::tests::random;

    /// Numbers of 13 bits.
    fn numbers(seed: u64, count: usize) -> Vec<u64> {
        let bytes = random(seed, 2 * count);
        bytes.chunks(2).map(|two| u64::from(two[0]) << 5 | u64::from(two[1]) >> 3).collect()
    }

    /// The packed page of one column of integers, and what is left of it packed to the bit.
    fn packed(values: &[u64]) -> (PackedPage, usize) {
        let mut builder = TableBuilder::new(&references::SCHEMA);
        for &value in values {
            assert!(builder.push_apart(&[Value::U64(value)]).unwrap().is_none());
        }
        let rows = builder.cut().unwrap();
        let settings: Settings = "zstd:19".parse().unwrap();
        let mut bench = Bench::default();
        let to_the_bit = bench.encode(settings, &[], &rows.encode(&mut |_| 0).unwrap()).unwrap();
        (pack(&mut bench, settings, &rows, &[]).unwrap(), to_the_bit.len())
    }

    #[test]
    fn numbers_that_come_again_are_compressed_and_others_take_no_more() {
        // Contents of a tree in 20 versions, each with a new one; an odd number of them, so that
        // values of 13 bits lie differently in their bytes each time.
        let mut version = numbers(1, 501);
        let mut versions = Vec::new();
        for (number, new) in numbers(2, 20).into_iter().enumerate() {
            version[number * 7] = new;
            versions.extend_from_slice(&version);
        }
        let (page, to_the_bit) = packed(&versions);
        let stored = page.stored.unwrap();
        assert!(stored.len() * 3 < to_the_bit, "{} of {to_the_bit}", stored.len());
        let parsed = Page::parse(page.plain, &references::SCHEMA).unwrap();
        let mut back = Vec::new();
        parsed.u64_range(0, 0..versions.len(), &mut back).unwrap();
        assert_eq!(back, versions);

        let (page, to_the_bit) = packed(&numbers(3, 10_000));
        assert!(page.stored.map_or(page.plain.len(), |stored| stored.len()) <= to_the_bit);
    }
}
