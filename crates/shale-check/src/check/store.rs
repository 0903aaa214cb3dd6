//! Verified bytes and pages of a source. Nothing is returned before its checksum was compared.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use shale_codec::{Codec, Decoder, xxh3_64};
use shale_format::FormatError;
use shale_format::page_prefix::{self, Prefix};
use shale_format::root::check_page_ref;
use shale_read::ByteSource;
use shale_table::{Page, PageRef, PageSource, Schema, TableError, TableRoot};

/// The bytes of the image.
pub(super) struct Store {
    source: Arc<dyn ByteSource>,
    start: u64,
    len: u64,
    pages_read: AtomicU64,
}

impl Store {
    pub(super) fn new(source: Arc<dyn ByteSource>, start: u64) -> Self {
        let len = source.len().saturating_sub(start);
        Self { source, start, len, pages_read: AtomicU64::new(0) }
    }

    /// Bytes that can be read, from the start of the image.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns a store that refuses to read past the end of the image.
    pub(super) fn limited(&self, image_len: u64) -> Self {
        Self {
            source: Arc::clone(&self.source),
            start: self.start,
            len: self.len.min(image_len),
            pages_read: AtomicU64::new(self.pages_read()),
        }
    }

    pub(super) fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// Replaces `buf` with `len` bytes from `offset` of the image. Callers bound `len` by a limit;
    /// here it is bounded by the image before anything is allocated.
    pub(super) fn read(&self, offset: u64, len: u64, buf: &mut Vec<u8>) -> Result<(), String> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {}
            _ => {
                return Err(format!(
                    "{len} bytes at offset {offset} reach beyond the end at {}",
                    self.len
                ));
            }
        }
        let wanted = usize::try_from(len).map_err(|_| format!("{len} bytes do not fit memory"))?;
        // Old bytes are overwritten: clearing them first takes a twentieth of the time of a check
        // of frames.
        buf.truncate(wanted);
        let more = wanted - buf.len();
        buf.try_reserve_exact(more).map_err(|_| format!("no memory for {len} bytes"))?;
        buf.resize(wanted, 0);
        self.source
            .read_at(self.start + offset, buf)
            .map_err(|error| format!("reading {len} bytes at offset {offset} failed: {error}"))
    }

    /// Returns the plain bytes of a page, after comparing its sum and those of its prefixes.
    pub(super) fn page_bytes(
        &self,
        page: &PageRef,
        dictionary: Option<&[u8]>,
    ) -> Result<Vec<u8>, String> {
        page_prefix::plain_bytes(
            page,
            |page| self.stored_page(page).map_err(PageFault),
            |page, prefix, compressed| {
                let prefix = match (prefix, dictionary) {
                    (Prefix::None, _) => &[],
                    (Prefix::Dictionary, Some(dictionary)) => dictionary,
                    (Prefix::Dictionary, None) => {
                        let what = "page needs a dictionary, and the table has none";
                        return Err(PageFault(what.to_owned()));
                    }
                    (Prefix::Page(plain), _) => plain,
                };
                decode_page(page, prefix, compressed).map_err(PageFault)
            },
        )
        .map_err(|fault| fault.0)
    }

    /// Returns what is stored of a page, after comparing its sum.
    fn stored_page(&self, page: &PageRef) -> Result<Vec<u8>, String> {
        check_page_ref(page).map_err(|error| error.to_string())?;
        let mut stored = Vec::new();
        self.read(page.offset, u64::from(page.stored_len), &mut stored)?;
        self.pages_read.fetch_add(1, Ordering::Relaxed);
        let sum = xxh3_64(&stored);
        if sum != page.checksum {
            return Err(format!(
                "page is damaged: sum {:016x} expected, {sum:016x} found",
                page.checksum
            ));
        }
        Ok(stored)
    }
}

fn decode_page(page: &PageRef, prefix: &[u8], compressed: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    Decoder::new()
        .decode(Codec::Zstd, prefix, compressed, page.plain_len as usize, &mut plain)
        .map_err(|error| format!("page does not decode: {error}"))?;
    Ok(plain)
}

/// Why a page or row could not be read.
#[derive(Debug, Clone)]
pub(super) struct PageFault(pub(super) String);

impl From<FormatError> for PageFault {
    fn from(error: FormatError) -> Self {
        Self(error.to_string())
    }
}

impl From<TableError> for PageFault {
    fn from(error: TableError) -> Self {
        Self(error.to_string())
    }
}

/// The pages of one table.
pub(super) struct TablePages<'a> {
    store: &'a Store,
    dictionary: Option<Vec<u8>>,
    /// The last few pages, for cursors and for walks that return to the index.
    recent: Mutex<HashMap<u64, Arc<Page>>>,
}

/// Pages kept by [`TablePages`]: an index page for each level and a few data pages.
const RECENT_COUNT_MAX: usize = 16;

impl<'a> TablePages<'a> {
    /// Opens the table at `root` and reads its dictionary.
    pub(super) fn new(store: &'a Store, root: &TableRoot) -> Result<Self, PageFault> {
        let dictionary = match root.dictionary {
            none if none == PageRef::default() => None,
            page => Some(store.page_bytes(&page, None).map_err(PageFault)?),
        };
        Ok(Self { store, dictionary, recent: Mutex::new(HashMap::new()) })
    }
}

impl PageSource for TablePages<'_> {
    type Error = PageFault;

    fn page(&self, page: &PageRef, schema: &'static Schema) -> Result<Arc<Page>, PageFault> {
        let recent = || self.recent.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = recent().get(&page.offset)
            && found.is_read_as(page.bases, schema)
        {
            return Ok(Arc::clone(found));
        }
        let plain = self.store.page_bytes(page, self.dictionary.as_deref()).map_err(PageFault)?;
        let parsed = Arc::new(Page::parse(plain, schema)?.with_bases(page.bases));
        let mut recent = recent();
        if recent.len() >= RECENT_COUNT_MAX {
            recent.clear();
        }
        recent.insert(page.offset, Arc::clone(&parsed));
        Ok(parsed)
    }
}
