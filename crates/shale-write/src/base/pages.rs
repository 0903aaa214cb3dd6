//! The table pages of the image that is continued: read to extend a table, shared where a new table
//! has the same page, and prefixes or bases of pages that resemble them.

use std::collections::HashMap;
use std::sync::Arc;

use shale_format::limits::{PAGE_PATCH_DEPTH_MAX, PAGE_PREFIX_DEPTH_MAX};
use shale_format::page_prefix::{
    self, PAGE_PATCH, PAGE_PREFIX_LEN, PAGE_WITH_PREFIX, PATCH_HEAD_LEN_MAX, PatchHead,
};
use shale_table::{Bases, Page, PageRef, PageSource, Schema, Table, TableRoot};

use crate::base::generation::patched_by;
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

/// A page that new ones resemble: what they may have as their prefix, and what they may patch.
#[derive(Debug, Clone)]
pub(crate) struct Near {
    pub(crate) prefix: Prefix,
    pub(crate) base: PatchBase,
    /// The generation of a page that patches it.
    pub(crate) generation: u64,
}

/// A page that a new one may have as its prefix.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    pub(crate) page: PageRef,
    pub(crate) plain: Arc<Vec<u8>>,
    /// Pages that are needed to read it, beside itself and a dictionary.
    pub(crate) depth: usize,
    /// The prefix of the page, if this build wrote it.
    below: Option<Arc<Self>>,
}

/// A page that a new one may patch.
#[derive(Debug, Clone)]
pub(crate) struct PatchBase {
    pub(crate) page: PageRef,
    /// A page with its rows.
    pub(crate) plain: Arc<Vec<u8>>,
    /// Its place in a row of pages that patch each other.
    generation: u64,
    /// Pages that it patches, one after the other.
    pub(crate) depth: usize,
    /// The page that it patches, if this build wrote it.
    below: Option<Arc<Self>>,
}

/// How a page was stored that another one is near to.
#[derive(Debug)]
pub(crate) enum StoredAs {
    /// On its own, or with a dictionary.
    Alone,
    /// With a prefix.
    Prefixed(Near),
    /// As a patch.
    Patched(Near),
}

/// Returns how many pages lie between a page and the one that a page like it gets as its prefix: so
/// many of those that it needs are passed over. Half of all pages pass over none, a quarter one,
/// and so on. So chains stay short, and what is at their ends becomes newer again.
fn passed_over(page: &PageRef) -> usize {
    page.checksum.trailing_zeros() as usize
}

impl Near {
    /// Returns what a page like `page` of the image may have as its prefix, and what it may patch.
    ///
    /// # Errors
    /// The image cannot be read.
    pub(crate) fn of(
        base: &dyn Base,
        table: &TableRoot,
        page: PageRef,
    ) -> Result<Self, WriteError> {
        let mut at = PageRef { bases: Bases::default(), ..page };
        let mut chain = Vec::new();
        while at.codec == PAGE_PATCH && chain.len() < PAGE_PATCH_DEPTH_MAX {
            let mut head = [0; PATCH_HEAD_LEN_MAX];
            let head = &mut head[..PATCH_HEAD_LEN_MAX.min(at.stored_len as usize)];
            base.read_stored(at.offset, head)?;
            let (head, _) = PatchHead::split(&at, head).map_err(invalid)?;
            chain.push((at, head.generation));
            at = head.base;
        }
        chain.push((at, 0));
        let generation = chain[0].1.saturating_add(1);
        let wanted = patched_by(generation);
        let fits = |&(nth, (_, of)): &(usize, &(PageRef, u64))| {
            *of <= wanted && chain.len() - nth <= PAGE_PATCH_DEPTH_MAX
        };
        let (nth, (patched, of)) = chain.iter().enumerate().find(fits).unwrap_or((0, &chain[0]));
        let plain = Arc::new(base.page_bytes(table, patched)?);
        let depth = chain.len() - 1 - nth;
        let is_last = nth + 1 == chain.len();
        let prefix = Prefix::of(base, table, at, is_last.then(|| Arc::clone(&plain)))?;
        let base = PatchBase { page: *patched, plain, generation: *of, depth, below: None };
        Ok(Self { prefix, base, generation })
    }

    /// Returns the same for a page that this build wrote.
    pub(crate) fn written(page: PageRef, plain: Arc<Vec<u8>>, stored_as: StoredAs) -> Self {
        let base = |generation, below: Option<PatchBase>| PatchBase {
            page,
            plain: Arc::clone(&plain),
            generation,
            depth: below.as_ref().map_or(0, |below| below.depth + 1),
            below: below.map(Arc::new),
        };
        let prefixed = |below| Prefix::written(page, Arc::clone(&plain), below);
        let (prefix, mut base) = match stored_as {
            StoredAs::Alone => (prefixed(None), base(0, None)),
            StoredAs::Prefixed(near) => (prefixed(Some(near.prefix)), base(0, None)),
            StoredAs::Patched(near) => (near.prefix, base(near.generation, Some(near.base))),
        };
        let generation = base.generation + 1;
        let wanted = patched_by(generation);
        while (base.generation > wanted || base.depth >= PAGE_PATCH_DEPTH_MAX)
            && let Some(below) = base.below.as_deref().cloned()
        {
            base = below;
        }
        Self { prefix, base, generation }
    }

    /// Bytes of memory.
    pub(crate) fn len(&self) -> usize {
        self.prefix.plain.len() + self.base.plain.len()
    }
}

fn invalid(error: shale_format::FormatError) -> WriteError {
    WriteError::Base(Box::new(error))
}

impl Prefix {
    /// Returns what a page like `page` of the image may have as its prefix. `plain` is the page.
    fn of(
        base: &dyn Base,
        table: &TableRoot,
        page: PageRef,
        plain: Option<Arc<Vec<u8>>>,
    ) -> Result<Self, WriteError> {
        let mut pages = vec![page];
        while let Some(last) = pages.last().filter(|last| last.codec == PAGE_WITH_PREFIX)
            && pages.len() <= PAGE_PREFIX_DEPTH_MAX
        {
            let mut head = [0; PAGE_PREFIX_LEN];
            base.read_stored(last.offset, &mut head)?;
            pages.push(page_prefix::split(last, &head).map_err(invalid)?.0);
        }
        let at = pages.len().saturating_sub(PAGE_PREFIX_DEPTH_MAX).max(passed_over(&page));
        let at = at.min(pages.len() - 1);
        let depth = pages.len() - 1 - at;
        let plain = match plain.filter(|_| at == 0) {
            Some(plain) => plain,
            None => Arc::new(base.page_bytes(table, &pages[at])?),
        };
        Ok(Self { page: pages[at], plain, depth, below: None })
    }

    /// Returns what a page like `page`, which this build wrote with this prefix, may have as its
    /// prefix.
    pub(crate) fn written(page: PageRef, plain: Arc<Vec<u8>>, prefix: Option<Self>) -> Self {
        let depth = prefix.as_ref().map_or(0, |prefix| prefix.depth + 1);
        let mut near = Self { page, plain, depth, below: prefix.map(Arc::new) };
        let mut left = passed_over(&page);
        while (left > 0 || near.depth >= PAGE_PREFIX_DEPTH_MAX)
            && let Some(below) = near.below.as_deref().cloned()
        {
            (near, left) = (below, left.saturating_sub(1));
        }
        near
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

/// Plain bytes of pages that are kept of one table, so that memory stays bounded.
const NEAR_BYTES_MAX: usize = 4 << 20;

/// A table that this build wrote, for the next one like it.
#[derive(Debug, Default)]
pub(crate) struct WrittenTable {
    pages: HashMap<([u8; 32], u8), PageRef>,
    /// The data pages in order, with the number and the hash of their rows.
    pub(crate) in_order: Vec<(usize, [u8; 32], PageRef)>,
    /// Pages that pages of the next table may have as prefixes, by the offset of the page that
    /// they stand for; as many as fit in [`NEAR_BYTES_MAX`].
    pub(crate) near: HashMap<u64, Near>,
    near_bytes: usize,
    /// The last index page.
    pub(crate) near_index: Option<Near>,
    pub(crate) dictionary: Option<(PageRef, Arc<Vec<u8>>)>,
}

impl WrittenTable {
    /// Notes a page of the table and what is stored of it.
    pub(crate) fn note(&mut self, page: PageRef, stored: &[u8]) {
        self.pages.entry((hash_of(stored), page.codec)).or_insert(page);
    }

    /// Keeps what the next table may have as the prefix of a page like `page`.
    pub(crate) fn keep(&mut self, page: &PageRef, near: Near) {
        if self.near_bytes + near.len() <= NEAR_BYTES_MAX {
            self.near_bytes += near.len();
            self.near.insert(page.offset, near);
        }
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
