//! Table pages: fetched, verified, decoded, parsed and cached one by one.
//!
//! A page is used only after its reference is within the limits and the image, its stored bytes
//! have the checksum that the reference gives, and its plain bytes parse. Pages are kept in a
//! cache that is bounded in bytes and belongs to one image; readers that miss the same page at
//! once read it once. A failed read is not kept.

use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::{Arc, OnceLock};

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use shale_codec::Codec;
use shale_format::root::check_page_ref;
use shale_table::{Page, PageRef, PageSource, Schema, Table, TableRoot};

use crate::counters::add;
use crate::decoders::Decoders;
use crate::error::{Place, ReadError, contradiction};
use crate::stored::{Stored, check_sum};

/// What one entry costs beside its page.
const ENTRY_OVERHEAD_LEN: u64 = 200;
/// Memory of a usual page, for sizing the cache's own tables.
const PAGE_LEN_GUESS: u64 = 32 << 10;
/// A shard holds at least this much, so that the largest page the format allows fits in one.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;

/// All that decides what a page's plain bytes are and how they parse. The schema is told by its
/// address: a hostile image may let tables of different schemas share one page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageKey {
    page: PageRef,
    dictionary_offset: u64,
    schema: usize,
}

impl Hash for PageKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Enough to spread the keys of any honest image; equality compares the rest.
        state.write_u64(self.page.offset);
        state.write_u64(self.page.checksum);
    }
}

#[derive(Debug, Clone)]
struct PageWeight;

impl Weighter<PageKey, Arc<Page>> for PageWeight {
    fn weight(&self, _: &PageKey, page: &Arc<Page>) -> u64 {
        page.memory_len() as u64 + ENTRY_OVERHEAD_LEN
    }
}

/// Pages of all tables of one image.
pub(crate) struct PageStore {
    stored: Stored,
    decoders: Arc<Decoders>,
    cache: Cache<PageKey, Arc<Page>, PageWeight>,
}

impl PageStore {
    pub(crate) fn new(stored: Stored, decoders: Arc<Decoders>, bytes_max: u64) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let pages_guess = (bytes_max / PAGE_LEN_GUESS).clamp(32 * shards, 1 << 20);
        let cache = match OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(pages_guess as usize)
            .weight_capacity(bytes_max)
            .build()
        {
            Ok(options) => Cache::with_options(
                options,
                PageWeight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            // Only a missing option makes this fail, and none is.
            Err(_) => Cache::with_weighter(pages_guess as usize, bytes_max, PageWeight),
        };
        Self { stored, decoders, cache }
    }

    /// Frees all cached pages that no reader holds.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }

    /// Bytes of memory that cached pages take.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// The verified plain bytes of the page at `page`, with `dictionary` as prefix where its codec
    /// asks for one. One read of the source.
    fn read_plain(&self, page: &PageRef, dictionary: &[u8]) -> Result<Vec<u8>, ReadError> {
        check_page_ref(page)?;
        let mut stored = self.stored.room(page.offset, page.stored_len as usize)?;
        self.stored.healing(page.offset, &mut stored, |bytes| {
            add(&self.stored.counters().pages_read, 1);
            check_sum("stored", page.checksum, bytes)
        })?;
        if page.codec == 0 {
            return Ok(stored); // `check_page_ref` has seen that the lengths agree.
        }
        let plain_len = page.plain_len as usize;
        let mut plain = Vec::new();
        self.decoders.with(|context| {
            context.decoder.decode(Codec::Zstd, dictionary, &stored, plain_len, &mut plain)
        })?;
        Ok(plain)
    }
}

/// The pages of one table: a `PageSource` for [`shale_table::Table`]. Cheap to clone.
#[derive(Clone)]
pub struct TablePages {
    store: Arc<PageStore>,
    dictionary: Arc<Dictionary>,
}

/// A table's dictionary: read when the first page needs it, then kept as long as the table.
struct Dictionary {
    page: PageRef,
    bytes: OnceLock<Vec<u8>>,
}

impl TablePages {
    pub(crate) fn new(store: Arc<PageStore>, root: &TableRoot) -> Self {
        let dictionary = Dictionary { page: root.dictionary, bytes: OnceLock::new() };
        Self { store, dictionary: Arc::new(dictionary) }
    }

    fn dictionary(&self) -> Result<&[u8], ReadError> {
        if let Some(bytes) = self.dictionary.bytes.get() {
            return Ok(bytes);
        }
        let page = &self.dictionary.page;
        if *page == PageRef::default() {
            return Err(contradiction("a page needs a dictionary, but its table has none"));
        }
        if page.codec > 1 {
            return Err(contradiction("a dictionary page claims to need a dictionary itself"));
        }
        let bytes = self
            .store
            .read_plain(page, &[])
            .at(|| format!("dictionary page at offset {}", page.offset))?;
        // Two readers may both have read it; they have read the same.
        Ok(self.dictionary.bytes.get_or_init(|| bytes))
    }

    /// Reads, verifies and parses a page, whether or not it is cached, and does not cache it.
    pub fn read_page(
        &self,
        page: &PageRef,
        schema: &'static Schema,
    ) -> Result<Arc<Page>, ReadError> {
        let read = || {
            let dictionary = if page.codec == 2 { self.dictionary()? } else { &[] };
            Ok(Arc::new(Page::parse(self.store.read_plain(page, dictionary)?, schema)?))
        };
        read().map_err(|error: ReadError| {
            error.at(format!("{} page at offset {}", schema.name, page.offset))
        })
    }
}

impl PageSource for TablePages {
    type Error = ReadError;

    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, ReadError> {
        let key = PageKey {
            page: *page,
            dictionary_offset: self.dictionary.page.offset,
            schema: ptr::from_ref(schema).addr(),
        };
        let store = &*self.store;
        if let Some(page) = store.cache.get(&key) {
            add(&store.stored.counters().page_hits, 1);
            return Ok(page);
        }
        match store.cache.get_value_or_guard(&key, None) {
            GuardResult::Value(page) => {
                add(&store.stored.counters().page_hits, 1);
                Ok(page)
            }
            GuardResult::Guard(guard) => {
                let page = self.read_page(page, schema)?;
                // An error means that the cache was cleared meanwhile; the page is as good.
                let _ = guard.insert(Arc::clone(&page));
                Ok(page)
            }
            // Not with an endless wait; if ever, reading twice is right as well.
            GuardResult::Timeout => self.read_page(page, schema),
        }
    }
}

/// A table of the image: root, schema and pages.
#[derive(Clone)]
pub(crate) struct TableHandle {
    root: TableRoot,
    schema: &'static Schema,
    pages: TablePages,
}

impl TableHandle {
    pub(crate) fn new(store: &Arc<PageStore>, root: TableRoot, schema: &'static Schema) -> Self {
        Self { root, schema, pages: TablePages::new(Arc::clone(store), &root) }
    }

    /// The table, to read from. Copies the root; reads nothing.
    pub(crate) fn table(&self) -> Result<Table<'_, TablePages>, ReadError> {
        Ok(Table::new(self.root, self.schema, &self.pages)?)
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.root.row_count
    }

    /// Rows without the sentinel at the end; 0 for a table that lacks it.
    pub(crate) fn item_count(&self) -> u64 {
        self.root.row_count.saturating_sub(1)
    }
}
