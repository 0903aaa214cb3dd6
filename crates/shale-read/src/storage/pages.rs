//! Table pages: fetched, verified, decoded, parsed and cached one by one.
//!
//! A page is used only after three checks: its reference is within the limits and the image, its
//! stored bytes have the checksum in the reference, and its plain bytes parse. Pages are kept in a
//! cache that is bounded in bytes and belongs to one image. If several readers miss the same page
//! at once, it is read once. A failed read is not cached.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, OnceLock};

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use shale_codec::Codec;
use shale_format::page_prefix::{self, Prefix};
use shale_format::root::check_page_ref;
use shale_table::{Page, PageRef, PageSource, Schema, Table, TableRoot};

use crate::counters::add;
use crate::error::{ErrorContext, ReadError, contradiction};
use crate::storage::decoders::Decoders;
use crate::storage::plan::Plan;
use crate::storage::stored::{Stored, check_sum};

/// Memory of one cache entry beside its page.
const ENTRY_OVERHEAD_LEN: u64 = 200;
/// Memory of a typical page, to size the tables of the cache.
const PAGE_LEN_GUESS: u64 = 32 << 10;
/// Least size of a shard, so that the largest page that the format allows fits in one.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;

/// Everything that decides what a page's plain bytes are and how they parse. The schema is
/// identified by its address, because a hostile image may let tables of different schemas share
/// one page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageKey {
    page: PageRef,
    dictionary_offset: u64,
    schema: usize,
}

impl Hash for PageKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // This spreads the keys of any honest image; equality compares the rest.
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

/// The pages of all tables of one image.
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
            // This fails only if an option is missing, and none is.
            Err(_) => Cache::with_weighter(pages_guess as usize, bytes_max, PageWeight),
        };
        Self { stored, decoders, cache }
    }

    /// The bytes that the pages lie in.
    pub(crate) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Frees all cached pages that no reader holds.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }

    /// Bytes of memory used by cached pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// Reads and verifies what is stored of a page. One read of the source.
    fn read_stored(&self, page: &PageRef) -> Result<Vec<u8>, ReadError> {
        check_page_ref(page)?;
        let mut stored = self.stored.buffer(page.offset, page.stored_len as usize)?;
        self.stored.read_verified(page.offset, &mut stored, |bytes| {
            add(&self.stored.counters().pages_read, 1);
            check_sum("stored", page.checksum, bytes)
        })?;
        Ok(stored)
    }

    /// Decodes the compressed bytes of a page that has this prefix.
    fn decode(
        &self,
        page: &PageRef,
        prefix: &[u8],
        compressed: &[u8],
    ) -> Result<Vec<u8>, ReadError> {
        let plain_len = page.plain_len as usize;
        let mut plain = Vec::new();
        self.decoders.with(|context| {
            context.decoder.decode(Codec::Zstd, prefix, compressed, plain_len, &mut plain)
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

/// A table's dictionary: read when a page first needs it, then kept as long as the table.
struct Dictionary {
    page: PageRef,
    bytes: OnceLock<Vec<u8>>,
}

impl TablePages {
    pub(crate) fn new(store: Arc<PageStore>, root: &TableRoot) -> Self {
        let dictionary = Dictionary { page: root.dictionary, bytes: OnceLock::new() };
        Self { store, dictionary: Arc::new(dictionary) }
    }

    fn key(&self, page: &PageRef, schema: &'static Schema) -> PageKey {
        PageKey {
            page: *page,
            dictionary_offset: self.dictionary.page.offset,
            schema: ptr::from_ref(schema).addr(),
        }
    }

    /// True if the page is in memory.
    fn is_cached(&self, page: &PageRef, schema: &'static Schema) -> bool {
        self.store.cache.contains_key(&self.key(page, schema))
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
        let bytes = self.plain(page).at(|| format!("dictionary page at offset {}", page.offset))?;
        // Two readers may both read it; they read the same bytes.
        Ok(self.dictionary.bytes.get_or_init(|| bytes))
    }

    /// Reads and verifies a page, and the pages that are its prefix, and returns its plain bytes.
    /// One read each.
    fn plain(&self, page: &PageRef) -> Result<Vec<u8>, ReadError> {
        page_prefix::plain_bytes(
            page,
            |page| self.store.read_stored(page),
            |page, prefix, compressed| {
                let prefix = match prefix {
                    Prefix::None => &[],
                    Prefix::Dictionary => self.dictionary()?,
                    Prefix::Page(plain) => plain,
                };
                self.store.decode(page, prefix, compressed)
            },
        )
    }

    /// Reads and verifies a page and returns its plain bytes, past the cache.
    ///
    /// # Errors
    /// The page or the table's dictionary is damaged or cannot be read.
    pub fn read_plain(&self, page: &PageRef) -> Result<Vec<u8>, ReadError> {
        self.plain(page).at(|| format!("page at offset {}", page.offset))
    }

    /// Reads, verifies and parses a page past the cache.
    ///
    /// # Errors
    /// The page or the table's dictionary is damaged or cannot be read.
    pub fn read_page(
        &self,
        page: &PageRef,
        schema: &'static Schema,
    ) -> Result<Arc<Page>, ReadError> {
        let read = || {
            let parsed = Page::parse(self.plain(page)?, schema)?;
            Ok(Arc::new(parsed.with_bases(page.bases)))
        };
        read().map_err(|error: ReadError| {
            error.at(format!("{} page at offset {}", schema.name, page.offset))
        })
    }
}

impl PageSource for TablePages {
    type Error = ReadError;

    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, ReadError> {
        let key = self.key(page, schema);
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
                // An error means that the cache was cleared meanwhile; the page is still valid.
                let _ = guard.insert(Arc::clone(&page));
                Ok(page)
            }
            // Cannot happen without a time limit; reading twice would be correct too.
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

    /// The table, to read rows from. Copies the root; reads nothing.
    pub(crate) fn table(&self) -> Result<Table<'_, TablePages>, ReadError> {
        Ok(Table::new(self.root, self.schema, &self.pages)?)
    }

    /// Adds the top page of the table and its dictionary to `plan`.
    pub(crate) fn plan_top(&self, plan: &mut Plan<'_>) {
        for page in [self.root.top, self.root.dictionary] {
            plan.add(page.offset, u64::from(page.stored_len));
        }
    }

    /// Adds all data pages to `plan`. Returns false if the table has more than `pages_max`, or the
    /// plan has no room for all of them.
    pub(crate) fn plan_whole(&self, pages_max: u64, plan: &mut Plan<'_>) -> bool {
        if self.root.page_count > pages_max {
            return false;
        }
        let Ok(table) = self.table() else { return false };
        let mut fits = true;
        let _ = table.visit_data_pages(0..self.root.row_count, |page, _| {
            fits = plan.add(page.offset, u64::from(page.stored_len));
            fits
        });
        fits
    }

    /// Adds the data pages of `rows` to `plan`, those that are cached left out. Reads index pages.
    /// Rows that the table does not have are left out, and so is what a damaged page hides.
    pub(crate) fn plan_rows(&self, rows: Range<u64>, plan: &mut Plan<'_>) {
        let rows = rows.start.min(self.root.row_count)..rows.end.min(self.root.row_count);
        let Ok(table) = self.table() else { return };
        let _ = table.visit_data_pages(rows, |page, _| {
            self.pages.is_cached(page, self.schema)
                || plan.add(page.offset, u64::from(page.stored_len))
        });
    }

    /// Where the table is.
    pub(crate) fn root(&self) -> &TableRoot {
        &self.root
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.root.row_count
    }

    /// Rows without the sentinel at the end; 0 if the table has no rows.
    pub(crate) fn item_count(&self) -> u64 {
        self.root.row_count.saturating_sub(1)
    }
}
