//! Pages of tables: cut by one thread, encoded by all threads, written in the order in which they
//! were cut.
//!
//! The first page of a table is the dictionary of the others. It is known while they are written
//! and costs nothing, and pages of one table resemble each other. So to read one page, a reader
//! reads at most one more, once. A table that follows one like it, in the image that is continued
//! or of an earlier tree of this build, has the dictionary of that one, and shares the pages that
//! are equal. A page that resembles one of the earlier table may patch that one, or have it as its
//! prefix. At most a few pages a thread are in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use shale_codec::{Settings, xxh3_64};
use shale_format::SectionType;
use shale_table::{
    Bases, INDEX_SCHEMA, PageRef, PageRows, PageSink, Schema, Table, TableBuilder, TableRoot, Value,
};

use crate::base::image::Base;
use crate::base::pages::{BasePages, Near, Shareable, WrittenTable, dictionary_of};
use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::exec::scratch::EncoderScratch;
use crate::output::emitter::Emitter;
use crate::output::follow::{Follow, Step, hash_of_rows};
use crate::output::pack::{PackedPage, WITH_DICTIONARY, pack};
use crate::plan::error::WriteError;
use crate::plan::report::{Stage, TableCounts};

/// Plain bytes of a last page that stays as it is when its table grows: 8 for each value. That is
/// some 2 KiB of stored bytes. Shorter ones are stored again, so that pages do not become many.
const LOADED_BYTES_MIN: usize = 8 << 10;

/// All tables that are being written.
pub(crate) struct Pages<'p, 'env> {
    build: Build<'env>,
    emitter: &'p mut Emitter<'env>,
    tables: Vec<Writing>,
    flight: VecDeque<(usize, Flight)>,
    /// The last table of each schema, where more trees follow.
    earlier: Option<HashMap<&'static str, WrittenTable>>,
}

/// Identifies a table that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableId(usize);

struct Writing {
    builder: TableBuilder,
    dictionary: Option<Dictionary>,
    dictionary_used: bool,
    /// Pages of an earlier table that this one may share.
    shareable: Shareable,
    /// The pages so far, where more trees follow.
    written: Option<WrittenTable>,
    counts: TableCounts,
    /// The cuts, if the table may share pages wherever they are in an earlier one.
    follow: Option<Follow>,
    /// An index page of an earlier table, which those of this one may patch.
    near_index: Option<Near>,
    /// The page that the first new one continues, if the table is one that grows.
    near_end: Option<Near>,
    /// The table has a page.
    is_begun: bool,
}

/// What a table has from an earlier one like it.
#[derive(Default)]
struct FromEarlier {
    dictionary: Option<(PageRef, Arc<Vec<u8>>)>,
    shareable: Shareable,
    follow: Option<Follow>,
    near_index: Option<Near>,
    near_end: Option<Near>,
}

/// A page on its way to its table.
enum Flight {
    Packing(Ticket<Result<PackedPage, WriteError>>),
    /// A page of the earlier table, with the number of its rows, its first key, and the hash of its
    /// rows where more trees follow.
    There(usize, u64, Option<[u8; 32]>, PageRef, Option<Box<Near>>),
}

struct Dictionary {
    page: PageRef,
    plain: Arc<Vec<u8>>,
}

impl<'p, 'env> Pages<'p, 'env> {
    pub(crate) fn new(build: Build<'env>, emitter: &'p mut Emitter<'env>) -> Self {
        let flight = VecDeque::new();
        Self { build, emitter, tables: Vec::new(), flight, earlier: None }
    }

    /// Lets the tables of each further tree share pages with those of the one before. Takes some
    /// 200 bytes of memory a page.
    pub(crate) fn for_several_trees(self) -> Self {
        Self { earlier: Some(HashMap::new()), ..self }
    }

    /// Begins a table. Several tables may be written at a time.
    pub(crate) fn begin(&mut self, schema: &'static Schema) -> TableId {
        self.begin_with(TableBuilder::new(schema), FromEarlier::default())
    }

    /// Begins a table that may resemble an earlier one of the image: it has the same dictionary,
    /// and shares the pages that are equal.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn begin_like(
        &mut self,
        schema: &'static Schema,
        earlier: TableRoot,
    ) -> Result<TableId, WriteError> {
        if let Some(mut written) = self.earlier.as_mut().and_then(|all| all.remove(schema.name)) {
            let from_earlier = FromEarlier {
                dictionary: written.dictionary.clone(),
                follow: Some(Follow::written(&mut written)),
                near_index: written.near_index.take().filter(|_| self.has_prefixes()),
                shareable: written.shareable(),
                near_end: None,
            };
            return Ok(self.begin_with(TableBuilder::new(schema), from_earlier));
        }
        let Some(base) = self.build.base().filter(|_| earlier.row_count > 0) else {
            return Ok(self.begin(schema));
        };
        let dictionary = dictionary_of(&**base, earlier, schema)?;
        let from_earlier = FromEarlier {
            dictionary: dictionary.map(|(page, plain)| (page, Arc::new(plain))),
            shareable: Shareable::of(&**base, earlier, schema)?,
            follow: Some(Follow::of(&**base, earlier, schema)?),
            near_index: self.near_index(earlier, schema)?,
            near_end: None,
        };
        Ok(self.begin_with(TableBuilder::new(schema), from_earlier))
    }

    /// Whether the readers of the image know pages with prefixes.
    fn has_prefixes(&self) -> bool {
        self.build.base().is_none_or(|base| base.state().version >= (0, 4))
    }

    /// Returns the last index page of a table of the image.
    fn near_index(
        &self,
        earlier: TableRoot,
        schema: &'static Schema,
    ) -> Result<Option<Near>, WriteError> {
        let Some(base) = self.build.base().filter(|_| self.has_prefixes()) else { return Ok(None) };
        let pages = BasePages { base: &**base, table: earlier };
        let mut last = None;
        Table::new(earlier, schema, &pages)?.visit_pages(|visit| {
            last = if visit.level > 0 { Some(visit.page) } else { last };
            Ok(true)
        })?;
        last.map(|page| Near::of(&**base, &earlier, page)).transpose()
    }

    /// Returns the data page of a table of the image that holds the last of its first `row_count`
    /// rows.
    fn near_end(
        &self,
        earlier: TableRoot,
        schema: &'static Schema,
        row_count: u64,
    ) -> Result<Option<Near>, WriteError> {
        let Some(base) = self.build.base().filter(|_| self.has_prefixes()) else { return Ok(None) };
        let Some(row) = row_count.checked_sub(1) else { return Ok(None) };
        let pages = BasePages { base: &**base, table: earlier };
        let mut found = None;
        Table::new(earlier, schema, &pages)?.visit_data_pages(row..row_count, |page, _| {
            found = Some(*page);
            false
        })?;
        found.map(|page| Near::of(&**base, &earlier, page)).transpose()
    }

    /// Continues a table of the image after its first `row_count` rows.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn resume(
        &mut self,
        schema: &'static Schema,
        earlier: TableRoot,
        row_count: u64,
    ) -> Result<TableId, WriteError> {
        let Some(base) = self.build.base().filter(|_| earlier.row_count > 0) else {
            return Ok(self.begin(schema));
        };
        let dictionary = dictionary_of(&**base, earlier, schema)?;
        let dictionary = dictionary.map(|(page, plain)| (page, Arc::new(plain)));
        let pages = BasePages { base: &**base, table: earlier };
        let builder = TableBuilder::resume_at(schema, &earlier, row_count, &pages)?;
        let near_index = self.near_index(earlier, schema)?;
        let near_end = self.near_end(earlier, schema, row_count)?;
        let from_earlier =
            FromEarlier { dictionary, near_index, near_end, ..FromEarlier::default() };
        let id = self.begin_with(builder, from_earlier);
        // Pages that stay may need it.
        self.tables[id.0].dictionary_used = earlier.dictionary != PageRef::default();
        let writing = &mut self.tables[id.0];
        let mut sink = Sink {
            settings: self.build.plan().page_settings,
            emitter: self.emitter,
            base: self.build.base().map(|base| &**base),
            shareable: &writing.shareable,
            follow: None,
            written: writing.written.as_mut(),
            near_index: writing.near_index.as_ref(),
            counts: &mut writing.counts,
        };
        if let Some(rows) = writing.builder.end_loaded(LOADED_BYTES_MIN, &mut sink)? {
            self.cut(id, rows)?;
        }
        Ok(id)
    }

    /// Adds the row that ends a table of several snapshots. If an image is continued and the last
    /// page is not short, the row gets a page of its own: the next append drops it, and need not
    /// store that page again.
    pub(crate) fn sentinel(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), WriteError> {
        let builder = &mut self.tables[table.0].builder;
        if self.build.base().is_some()
            && builder.held_bytes() >= LOADED_BYTES_MIN
            && let Some(rows) = builder.cut()
        {
            self.cut(table, rows)?;
        }
        self.row(table, row)
    }

    fn begin_with(&mut self, builder: TableBuilder, from_earlier: FromEarlier) -> TableId {
        let schema = builder.schema();
        let FromEarlier { dictionary, shareable, follow, near_index, near_end } = from_earlier;
        let dictionary = dictionary.map(|(page, plain)| Dictionary { page, plain });
        self.tables.push(Writing {
            builder,
            dictionary,
            dictionary_used: false,
            shareable,
            written: self.earlier.as_ref().map(|_| WrittenTable::default()),
            counts: TableCounts {
                name: schema.name,
                rows: 0,
                pages: 0,
                plain_bytes: 0,
                stored_bytes: 0,
            },
            follow,
            near_index,
            near_end,
            is_begun: false,
        });
        TableId(self.tables.len() - 1)
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), WriteError> {
        if let Some(rows) = self.tables[table.0].builder.push_apart(row)? {
            self.full(table, rows)?;
        }
        let writing = &mut self.tables[table.0];
        let Some(follow) = &writing.follow else { return Ok(()) };
        if !follow.is_in_step(writing.builder.held_rows()) {
            return Ok(());
        }
        let Some(rows) = writing.builder.cut() else { return Ok(()) };
        let mut parts = self.step(table, rows)?;
        if let Some(last) = parts.pop() {
            self.tables[table.0].builder.put_back(last);
        }
        parts.into_iter().try_for_each(|part| self.piece(table, part))
    }

    /// Lets a page of a table that follows another begin with the next row.
    pub(crate) fn mark(&mut self, table: TableId) -> Result<(), WriteError> {
        let writing = &mut self.tables[table.0];
        let Some(follow) = &mut writing.follow else { return Ok(()) };
        if !follow.mark(writing.builder.held_rows()) {
            return Ok(());
        }
        match writing.builder.cut() {
            Some(rows) => self.piece(table, rows),
            None => Ok(()),
        }
    }

    /// Takes the rows of a page that is full, or the last ones.
    fn full(&mut self, table: TableId, rows: PageRows) -> Result<(), WriteError> {
        if self.tables[table.0].follow.is_none() {
            return self.cut(table, rows);
        }
        let parts = self.step(table, rows)?;
        parts.into_iter().try_for_each(|part| self.piece(table, part))
    }

    /// Takes rows that may be the next page of the earlier table, or resemble it. Returns them in
    /// parts if they do not.
    fn step(&mut self, table: TableId, rows: PageRows) -> Result<Vec<PageRows>, WriteError> {
        let writing = &mut self.tables[table.0];
        let Some(follow) = &mut writing.follow else { return Ok(vec![rows]) };
        let base = self.build.base().map(|base| &**base);
        match follow.step(base, writing.builder.schema(), rows)? {
            Step::Same(rows, page) => {
                self.there(table, &rows, page);
                Ok(Vec::new())
            }
            Step::Alike(rows) => {
                self.cut(table, rows)?;
                Ok(Vec::new())
            }
            Step::Other(parts) => Ok(parts),
        }
    }

    /// Takes the rows of a page of a table that is not in step with the earlier one.
    fn piece(&mut self, table: TableId, rows: PageRows) -> Result<(), WriteError> {
        let writing = &mut self.tables[table.0];
        let base = self.build.base().map(|base| &**base);
        let schema = writing.builder.schema();
        let found = match &mut writing.follow {
            Some(follow) => follow.find(base, schema, &rows)?,
            None => None,
        };
        let Some(page) = found else { return self.cut(table, rows) };
        self.there(table, &rows, page);
        Ok(())
    }

    /// Adds a page of the earlier table.
    fn there(&mut self, table: TableId, rows: &PageRows, page: PageRef) {
        let hash = self.earlier.as_ref().map(|_| hash_of_rows(rows, page.bases));
        let writing = &mut self.tables[table.0];
        writing.is_begun = true;
        let near = writing.follow.as_ref().and_then(|follow| follow.kept(&page));
        let there =
            Flight::There(rows.row_count(), rows.first_key(), hash, page, near.map(Box::new));
        self.flight.push_back((table.0, there));
    }

    /// Adds a row of integers.
    pub(crate) fn u64s<const N: usize>(
        &mut self,
        table: TableId,
        row: [u64; N],
    ) -> Result<(), WriteError> {
        self.row(table, &row.map(Value::U64))
    }

    /// Ends a table: writes the rest of it.
    pub(crate) fn end(&mut self, table: TableId) -> Result<(TableRoot, TableCounts), WriteError> {
        if let Some(rows) = self.tables[table.0].builder.cut() {
            self.full(table, rows)?;
        }
        while !self.flight.is_empty() {
            self.settle()?;
        }
        let writing = &mut self.tables[table.0];
        let schema = writing.builder.schema();
        let builder = std::mem::replace(&mut writing.builder, TableBuilder::new(schema));
        let mut sink = Sink {
            settings: self.build.plan().page_settings,
            emitter: self.emitter,
            base: self.build.base().map(|base| &**base),
            shareable: &writing.shareable,
            follow: writing.follow.as_mut(),
            written: writing.written.as_mut(),
            near_index: writing.near_index.as_ref(),
            counts: &mut writing.counts,
        };
        let mut root = builder.finish(&mut sink)?;
        if let (Some(all), Some(mut written)) = (&mut self.earlier, writing.written.take()) {
            let found = writing.dictionary.as_ref();
            written.dictionary = found.map(|found| (found.page, Arc::clone(&found.plain)));
            all.insert(schema.name, written);
        }
        if let Some(dictionary) = writing.dictionary.take()
            && writing.dictionary_used
        {
            root.dictionary = dictionary.page;
        } else {
            root.dictionary = PageRef::default();
        }
        writing.counts.rows = root.row_count;
        Ok((root, writing.counts))
    }

    fn cut(&mut self, table: TableId, rows: PageRows) -> Result<(), WriteError> {
        let settings = self.build.plan().page_settings;
        let has_prefixes = self.has_prefixes();
        let base = self.build.base().map(|base| &**base);
        let writing = &mut self.tables[table.0];
        let dictionary = writing.dictionary.as_ref().map(|found| Arc::clone(&found.plain));
        let is_first = dictionary.is_none();
        // No row comes in front of the first page, and a table of one page needs no index.
        let has_bases = writing.follow.is_some() && writing.is_begun;
        writing.is_begun = true;
        let is_followed = self.earlier.is_some();
        // The dictionary itself needs no other page.
        let near = match &mut writing.follow {
            Some(follow) if has_prefixes && !is_first => follow.near(base)?,
            _ => writing.near_end.take().filter(|_| !is_first).into_iter().collect(),
        };
        let ticket = self.build.submit(Urgency::Urgent, Stage::Tables, move |scratch| {
            let dictionary = dictionary.as_ref().map_or(&[][..], |plain| plain);
            pack(scratch, settings, rows, (dictionary, &near), (has_bases, is_followed))
        });
        self.flight.push_back((table.0, Flight::Packing(ticket)));
        // All other pages need the dictionary, so it is waited for; of others a few may be in
        // flight.
        let flight_max = if is_first { 0 } else { 2 * self.build.plan().threads };
        while self.flight.len() > flight_max {
            self.settle()?;
        }
        Ok(())
    }

    /// Writes the oldest page in flight.
    fn settle(&mut self) -> Result<(), WriteError> {
        let Some((table, flight)) = self.flight.pop_front() else { return Ok(()) };
        let page = match &flight {
            Flight::Packing(ticket) => Some(self.build.wait(ticket)?),
            Flight::There(..) => None,
        };
        self.build.check_cancel()?;
        let writing = &mut self.tables[table];
        let mut sink = Sink {
            settings: self.build.plan().page_settings,
            emitter: self.emitter,
            base: self.build.base().map(|base| &**base),
            shareable: &writing.shareable,
            follow: writing.follow.as_mut(),
            written: writing.written.as_mut(),
            near_index: writing.near_index.as_ref(),
            counts: &mut writing.counts,
        };
        let Some(page) = page else {
            if let Flight::There(row_count, first_key, hash, page, near) = flight {
                sink.note_rows(row_count, hash, page, near.map(|near| *near));
                // Its prefix may need the dictionary.
                writing.dictionary_used |= page.codec >= WITH_DICTIONARY;
                writing.builder.attach(row_count, first_key, page, &mut sink)?;
            }
            return Ok(());
        };
        let reference = match &writing.dictionary {
            // The dictionary is the first page of the earlier table, and here the same page.
            Some(found) if *found.plain == page.plain && sink.take(&found.page) => found.page,
            _ => {
                let stored = page.stored.as_deref().unwrap_or(&page.plain);
                sink.store(page.plain_len, stored, page.codec)?
            }
        };
        let plain = Arc::new(page.plain);
        let near = sink
            .written
            .is_some()
            .then(|| Near::written(reference, Arc::clone(&plain), page.stored_as));
        let reference = PageRef { bases: page.bases, ..reference };
        sink.note_rows(page.row_count, page.hash, reference, near);
        writing.builder.attach(page.row_count, page.first_key, reference, &mut sink)?;
        writing.dictionary_used |= reference.codec >= WITH_DICTIONARY;
        if writing.dictionary.is_none() {
            writing.dictionary = Some(Dictionary { page: reference, plain });
        }
        Ok(())
    }
}

/// Writes pages to sections and counts them.
struct Sink<'s, 'env> {
    settings: Settings,
    emitter: &'s mut Emitter<'env>,
    base: Option<&'s dyn Base>,
    shareable: &'s Shareable,
    follow: Option<&'s mut Follow>,
    written: Option<&'s mut WrittenTable>,
    near_index: Option<&'s Near>,
    counts: &'s mut TableCounts,
}

impl Sink<'_, '_> {
    /// Notes that the table has a page. Returns false if it had it already.
    fn take(&mut self, page: &PageRef) -> bool {
        self.follow.as_mut().is_none_or(|follow| follow.take(page))
    }

    fn store(&mut self, plain_len: u32, stored: &[u8], codec: u8) -> Result<PageRef, WriteError> {
        let checksum = xxh3_64(stored);
        if let Some(page) = self.shareable.find(self.base, checksum, stored, codec)?
            && self.take(&page)
        {
            self.note(page, stored);
            return Ok(page);
        }
        self.counts.pages += 1;
        self.counts.plain_bytes += u64::from(plain_len);
        self.counts.stored_bytes += stored.len() as u64;
        let page = PageRef {
            checksum,
            stored_len: stored.len() as u32,
            plain_len,
            codec,
            offset: self.emitter.add(SectionType::Pages, stored)?,
            bases: Bases::default(),
        };
        self.note(page, stored);
        Ok(page)
    }

    /// Keeps the rows of a data page for the next table like this one.
    fn note_rows(
        &mut self,
        row_count: usize,
        hash: Option<[u8; 32]>,
        page: PageRef,
        near: Option<Near>,
    ) {
        let Some(written) = &mut self.written else { return };
        if let Some(hash) = hash {
            written.in_order.push((row_count, hash, page));
        }
        if let Some(near) = near {
            written.keep(&page, near);
        }
    }

    /// Keeps a page for the next table like this one.
    fn note(&mut self, page: PageRef, stored: &[u8]) {
        if let Some(written) = &mut self.written {
            written.note(page, stored);
        }
    }
}

/// For index pages, which are few.
impl PageSink for Sink<'_, '_> {
    type Error = WriteError;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, WriteError> {
        let mut scratch = EncoderScratch::default();
        let rows = PageRows::from_plain(&INDEX_SCHEMA, plain.to_vec())?;
        let near: Vec<Near> = self.near_index.cloned().into_iter().collect();
        let page = pack(&mut scratch, self.settings, rows, (&[], &near), (false, false))?;
        let stored = page.stored.as_deref().unwrap_or(&page.plain);
        let reference = self.store(page.plain_len, stored, page.codec)?;
        if let Some(written) = &mut self.written {
            let near = Near::written(reference, Arc::new(page.plain), page.stored_as);
            written.near_index = Some(near);
        }
        Ok(reference)
    }
}
