//! How an image is opened, and which snapshot of it.

use std::sync::Arc;

use shale_format::Identity;

use crate::frames::cache::FrameCache;
use crate::frames::workers::Workers;
use crate::storage::open::OffsetChoice;
use crate::trust::heal::Log;

/// Which snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SnapshotChoice {
    /// The newest snapshot, which is the last.
    #[default]
    Newest,
    /// The snapshot with this number; 0 is the oldest.
    Index(usize),
    /// The snapshot with this name; if several have it, the newest of them.
    Name(Vec<u8>),
}

/// How an image is opened, and how much memory it may use.
///
/// ```
/// use shale_read::{FrameCache, Options};
///
/// // Two images that share one cache of 64 MiB.
/// let cache = FrameCache::new(64 << 20);
/// let options = Options::default().cache(cache).page_cache_bytes_max(16 << 20);
/// let both = [options.clone(), options];
/// # drop(both);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where the image begins. Default: [`OffsetChoice::Auto`].
    pub offset: OffsetChoice,
    /// A frame cache shared with other images. Default: one of its own.
    pub cache: Option<Arc<FrameCache>>,
    /// Bytes of the image's own frame cache, if it has one. Default: 256 MiB.
    pub cache_bytes_max: u64,
    /// Bytes of the image's cache of table pages. Default: 64 MiB.
    pub page_cache_bytes_max: u64,
    /// Most plain bytes that reading one frame may decode, with its references and theirs. Default:
    /// 512 MiB, far above what the writer allows; a hostile image could otherwise make one read
    /// take hours.
    pub read_bytes_max: u64,
    /// Threads that decode beside the reading threads. Default: none, so nothing is decoded ahead.
    pub workers: Option<Arc<Workers>>,
    /// Bytes decoded ahead of a sequential reader; 0 disables it. Default: 4 MiB.
    pub prefetch_bytes_max: u64,
    /// Opens only the image with this identity, and verifies every byte that is used against it,
    /// whoever made the image and whatever happened to it on the way. Default: any image.
    pub expect: Option<Identity>,
    /// Repairs damage while reading, in memory, if the image has parity. Default: true.
    pub repair: bool,
    /// Bytes of repaired leaves that are kept. With fewer, a read may have to repair a leaf again;
    /// it still gets all the bytes it needs. Default: 256 MiB.
    pub repaired_bytes_max: u64,
    /// Receives a line for each repair. Default: none.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            offset: OffsetChoice::Auto,
            cache: None,
            cache_bytes_max: 256 << 20,
            page_cache_bytes_max: 64 << 20,
            read_bytes_max: 512 << 20,
            workers: None,
            prefetch_bytes_max: 4 << 20,
            expect: None,
            repair: true,
            repaired_bytes_max: 256 << 20,
            log: None,
        }
    }
}

impl Options {
    /// Sets [`Options::offset`].
    #[must_use]
    pub fn offset(self, offset: OffsetChoice) -> Self {
        Self { offset, ..self }
    }

    /// Sets [`Options::cache`].
    #[must_use]
    pub fn cache(self, cache: Arc<FrameCache>) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// Sets [`Options::cache_bytes_max`].
    #[must_use]
    pub fn cache_bytes_max(self, cache_bytes_max: u64) -> Self {
        Self { cache_bytes_max, ..self }
    }

    /// Sets [`Options::page_cache_bytes_max`].
    #[must_use]
    pub fn page_cache_bytes_max(self, page_cache_bytes_max: u64) -> Self {
        Self { page_cache_bytes_max, ..self }
    }

    /// Sets [`Options::read_bytes_max`].
    #[must_use]
    pub fn read_bytes_max(self, read_bytes_max: u64) -> Self {
        Self { read_bytes_max, ..self }
    }

    /// Sets [`Options::workers`].
    #[must_use]
    pub fn workers(self, workers: Arc<Workers>) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Sets [`Options::prefetch_bytes_max`].
    #[must_use]
    pub fn prefetch_bytes_max(self, prefetch_bytes_max: u64) -> Self {
        Self { prefetch_bytes_max, ..self }
    }

    /// Sets [`Options::expect`].
    #[must_use]
    pub fn expect(self, identity: impl Into<Option<Identity>>) -> Self {
        Self { expect: identity.into(), ..self }
    }

    /// Sets [`Options::repair`].
    #[must_use]
    pub fn repair(self, repair: bool) -> Self {
        Self { repair, ..self }
    }

    /// Sets [`Options::repaired_bytes_max`].
    #[must_use]
    pub fn repaired_bytes_max(self, repaired_bytes_max: u64) -> Self {
        Self { repaired_bytes_max, ..self }
    }

    /// Sets [`Options::log`].
    #[must_use]
    pub fn log(self, log: Log) -> Self {
        Self { log: Some(log), ..self }
    }
}
