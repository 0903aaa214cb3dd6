//! Decoded frames: bounded in bytes, shared by the images of a process, each decoded once.
//!
//! Readers that ask for a frame that another reader is decoding wait for that one. No lock is held
//! while a frame is decoded. A failed decode is not kept: the next reader tries again. The cache
//! holds `Arc`s, so a frame in use stays in memory when it is evicted, and only until its readers
//! are done.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::counters::{Counters, add};
use crate::decoders::Decoders;
use crate::error::ReadError;

/// Plain bytes of a frame. Holding it keeps the bytes in memory, not in the cache.
pub type FrameBytes = Arc<Vec<u8>>;

/// What one entry costs beside its bytes.
const ENTRY_OVERHEAD_LEN: u64 = 160;
/// Plain bytes of a usual frame, for sizing the cache's own tables.
const FRAME_LEN_GUESS: u64 = 128 << 10;
/// A shard holds at least this much, so that the largest frame the format allows fits in one.
const SHARD_BYTES_MIN: u64 = 128 << 20;
const SHARDS_MAX: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameKey {
    /// Number of the image in this process.
    pub(crate) image: u64,
    pub(crate) frame: u64,
}

impl Hash for FrameKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.image);
        state.write_u64(self.frame);
    }
}

#[derive(Debug, Clone)]
struct FrameWeight;

impl Weighter<FrameKey, FrameBytes> for FrameWeight {
    fn weight(&self, _: &FrameKey, bytes: &FrameBytes) -> u64 {
        bytes.capacity() as u64 + ENTRY_OVERHEAD_LEN
    }
}

/// The cache. One per process is usual: give it to every [`crate::Options`].
pub struct FrameCache {
    frames: Cache<FrameKey, FrameBytes, FrameWeight>,
    /// The last frame that was too large to be kept: without it, reading such a frame piece by
    /// piece would decode it once a piece.
    oversize: Mutex<Option<(FrameKey, FrameBytes)>>,
    pub(crate) decoders: Arc<Decoders>,
}

impl FrameCache {
    /// A cache of at most `bytes_max` bytes of decoded frames. The last frame that is larger than
    /// the cache is kept beside it, so a cache of 0 bytes still holds one frame.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        // Two shards need an estimate of 64 frames to be granted, and so on; beyond that the
        // estimate only sizes the list of keys recently evicted.
        let frames_guess = (bytes_max / FRAME_LEN_GUESS).clamp(32 * shards, 1 << 20);
        let frames = match OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(frames_guess as usize)
            .weight_capacity(bytes_max)
            .build()
        {
            Ok(options) => Cache::with_options(
                options,
                FrameWeight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            // Only a missing option makes this fail, and none is.
            Err(_) => Cache::with_weighter(frames_guess as usize, bytes_max, FrameWeight),
        };
        Arc::new(Self { frames, oversize: Mutex::default(), decoders: Arc::default() })
    }

    /// The bound it was made with or last set to.
    pub fn bytes_max(&self) -> u64 {
        self.frames.capacity()
    }

    /// Bytes held now, the cache's own per frame included.
    pub fn bytes(&self) -> u64 {
        let oversize = self.lock_oversize().as_ref().map_or(0, |(_, bytes)| bytes.capacity());
        self.frames.weight() + oversize as u64
    }

    /// Frames held now.
    pub fn frame_count(&self) -> usize {
        self.frames.len() + usize::from(self.lock_oversize().is_some())
    }

    /// Changes the bound; evicts at once what is over it.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.frames.set_capacity(bytes_max);
    }

    /// Gives all memory back that no reader holds: frames and idle decoders.
    pub fn clear(&self) {
        self.frames.clear();
        *self.lock_oversize() = None;
        self.decoders.clear();
    }

    /// Forgets the frames of one image. Walks over all frames held.
    pub(crate) fn forget(&self, image: u64) {
        self.frames.retain(|key, _| key.image != image);
        let mut oversize = self.lock_oversize();
        if oversize.as_ref().is_some_and(|(key, _)| key.image == image) {
            *oversize = None;
        }
    }

    /// The frame, if it is here now; does not wait.
    pub(crate) fn get(&self, key: FrameKey, counters: &Counters) -> Option<FrameBytes> {
        let found = self.frames.get(&key).or_else(|| self.get_oversize(key))?;
        add(&counters.frame_hits, 1);
        Some(found)
    }

    /// The frame from here, from the reader that is decoding it now, or by `decode`.
    pub(crate) fn get_or_decode(
        &self,
        key: FrameKey,
        counters: &Counters,
        decode: impl FnOnce() -> Result<FrameBytes, ReadError>,
    ) -> Result<FrameBytes, ReadError> {
        let guard = match self.frames.get_value_or_guard(&key, None) {
            GuardResult::Value(bytes) => {
                add(&counters.frame_hits, 1);
                return Ok(bytes);
            }
            GuardResult::Guard(guard) => Some(guard),
            // Not with an endless wait; if ever, decoding twice is right as well.
            GuardResult::Timeout => None,
        };
        // Another reader may have put it there since the caller looked.
        if let Some(bytes) = self.get_oversize(key) {
            add(&counters.frame_hits, 1);
            return Ok(bytes);
        }
        add(&counters.frame_misses, 1);
        let bytes = decode()?;
        if FrameWeight.weight(&key, &bytes) > self.shard_bytes_max() {
            // Before the guard goes, so that a reader that finds the guard gone finds this.
            *self.lock_oversize() = Some((key, Arc::clone(&bytes)));
        }
        if let Some(guard) = guard {
            // An error means that the cache was cleared meanwhile; the bytes are as good.
            let _ = guard.insert(Arc::clone(&bytes));
        }
        Ok(bytes)
    }

    fn get_oversize(&self, key: FrameKey) -> Option<FrameBytes> {
        let oversize = self.lock_oversize();
        let (_, bytes) = oversize.as_ref().filter(|(found, _)| *found == key)?;
        Some(Arc::clone(bytes))
    }

    fn lock_oversize(&self) -> std::sync::MutexGuard<'_, Option<(FrameKey, FrameBytes)>> {
        self.oversize.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes beyond which a frame is not admitted: a shard keeps 3 % for newcomers.
    fn shard_bytes_max(&self) -> u64 {
        let shard = self.frames.shard_capacity();
        shard - shard / 32
    }
}

impl std::fmt::Debug for FrameCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameCache")
            .field("bytes_max", &self.bytes_max())
            .field("bytes", &self.bytes())
            .field("frame_count", &self.frame_count())
            .finish()
    }
}
