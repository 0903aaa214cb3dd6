//! The frame cache: bounded in bytes and shared by the images of a process. Each frame is decoded
//! once.
//!
//! A reader that needs a frame that another reader is decoding waits for it. No lock is held while
//! a frame is decoded. A failed decode is not cached: the next reader tries again. The cache holds
//! `Arc`s, so an evicted frame stays in memory until its readers are done, and no longer.
//!
//! A large scan does not evict frames that are used again and again. While a scan passes a frame of
//! many small files, it uses the frame many times, which says nothing about later. So a use counts
//! as a further one only after other frames have been added.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::counters::{Counters, add};
use crate::error::ReadError;
use crate::storage::decoders::Decoders;

/// Plain bytes of a frame. Holding it keeps the bytes in memory, not in the cache.
pub type FrameBytes = Arc<Vec<u8>>;

/// Memory of one cache entry beside its bytes.
const ENTRY_OVERHEAD_LEN: u64 = 160;
/// Plain bytes of a typical frame, to size the tables of the cache.
const FRAME_LEN_GUESS: u64 = 128 << 10;
/// Least size of a shard, so that the largest frame that the format allows fits in one.
const SHARD_BYTES_MIN: u64 = 128 << 20;
const SHARDS_MAX: u64 = 8;
/// Frames that must be added before another use of a frame counts: more than a scan and its
/// prefetch work on at once.
const PASSING_FRAMES_MAX: u64 = 48;

/// A frame of one of the images that share the cache.
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

/// A frame in the cache.
struct Held {
    bytes: FrameBytes,
    /// The cache's clock when the frame was added, or first used if it was decoded ahead.
    since: AtomicU64,
    /// Set while the frame was decoded on a guess and no reader has used it yet.
    unused: AtomicBool,
    counters: Arc<Counters>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if *self.unused.get_mut() {
            add(&self.counters.prefetch_wasted, 1);
        }
    }
}

#[derive(Debug, Clone)]
struct FrameWeight;

impl Weighter<FrameKey, Arc<Held>> for FrameWeight {
    fn weight(&self, _: &FrameKey, held: &Arc<Held>) -> u64 {
        weight(&held.bytes)
    }
}

fn weight(bytes: &FrameBytes) -> u64 {
    bytes.capacity() as u64 + ENTRY_OVERHEAD_LEN
}

/// A cache of decoded frames. One per process is usual: pass it to every image with
/// [`crate::Options::cache`].
pub struct FrameCache {
    frames: Cache<FrameKey, Arc<Held>, FrameWeight>,
    /// Number of frames added so far.
    clock: AtomicU64,
    /// The last frame that was too large for the cache. Without it, reading such a frame in pieces
    /// would decode it once per piece.
    oversize: Mutex<Option<(FrameKey, FrameBytes)>>,
    decoders: Arc<Decoders>,
}

impl FrameCache {
    /// A cache of at most `bytes_max` bytes of decoded frames. The last frame too large to be
    /// cached is kept beside them, so a cache of 0 bytes still holds one frame.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        // `quick_cache` grants n shards only for an estimate of 32 n frames. Beyond that, the
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
            // This fails only if an option is missing, and none is.
            Err(_) => Cache::with_weighter(frames_guess as usize, bytes_max, FrameWeight),
        };
        Arc::new(Self {
            frames,
            clock: AtomicU64::new(0),
            oversize: Mutex::default(),
            decoders: Arc::default(),
        })
    }

    /// The bound in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.frames.capacity()
    }

    /// Bytes of memory in use, including the overhead of each frame.
    pub fn bytes(&self) -> u64 {
        let oversize = self.lock_oversize().as_ref().map_or(0, |(_, bytes)| bytes.capacity());
        self.frames.weight() + oversize as u64
    }

    /// Number of frames in the cache.
    pub fn frame_count(&self) -> usize {
        self.frames.len() + usize::from(self.lock_oversize().is_some())
    }

    /// Changes the bound. Evicts the excess at once.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.frames.set_capacity(bytes_max);
    }

    /// Frees all memory that no reader holds: frames and idle decoders.
    pub fn clear(&self) {
        self.frames.clear();
        *self.lock_oversize() = None;
        self.decoders.clear();
    }

    /// Decoder contexts, shared by the images that share this cache.
    pub(crate) fn decoders(&self) -> &Arc<Decoders> {
        &self.decoders
    }

    /// Removes the frames of one image. Visits all frames of the cache.
    pub(crate) fn forget(&self, image: u64) {
        self.frames.retain(|key, _| key.image != image);
        let mut oversize = self.lock_oversize();
        if oversize.as_ref().is_some_and(|(key, _)| key.image == image) {
            *oversize = None;
        }
    }

    /// The frame, if it is cached. Does not wait for another reader.
    pub(crate) fn get(&self, key: FrameKey, counters: &Counters) -> Option<FrameBytes> {
        // A peek does not count as a use; `used` decides whether this one does.
        let found = match self.frames.peek(&key) {
            Some(held) => self.used(key, &held, counters),
            None => self.get_oversize(key)?,
        };
        add(&counters.frame_hits, 1);
        Some(found)
    }

    /// Returns whether the frame is cached or being decoded. Does not count as a use.
    pub(crate) fn contains(&self, key: FrameKey) -> bool {
        self.frames.contains_key(&key)
    }

    /// Records a reader's use of a frame.
    fn used(&self, key: FrameKey, held: &Held, counters: &Counters) -> FrameBytes {
        let now = self.clock.load(Relaxed);
        if held.unused.load(Relaxed) && held.unused.swap(false, Relaxed) {
            add(&counters.prefetch_used, 1);
            held.since.store(now, Relaxed);
        }
        // Fewer in a small cache, or no use would ever count.
        let passing = PASSING_FRAMES_MAX.min(self.frames.len() as u64 / 4);
        if now.saturating_sub(held.since.load(Relaxed)) > passing {
            let _ = self.frames.get(&key);
        }
        Arc::clone(&held.bytes)
    }

    /// The frame from the cache, from the reader that is decoding it, or from `decode`.
    pub(crate) fn get_or_decode(
        &self,
        key: FrameKey,
        counters: &Arc<Counters>,
        decode: impl FnOnce() -> Result<FrameBytes, ReadError>,
    ) -> Result<FrameBytes, ReadError> {
        if let Some(bytes) = self.get(key, counters) {
            return Ok(bytes);
        }
        let guard = match self.frames.get_value_or_guard(&key, None) {
            GuardResult::Value(held) => {
                add(&counters.frame_hits, 1);
                if held.unused.swap(false, Relaxed) {
                    add(&counters.prefetch_used, 1);
                }
                return Ok(Arc::clone(&held.bytes));
            }
            GuardResult::Guard(guard) => Some(guard),
            // Cannot happen without a time limit; decoding twice would be correct too.
            GuardResult::Timeout => None,
        };
        // Another reader may have added it since `get`.
        if let Some(bytes) = self.get_oversize(key) {
            add(&counters.frame_hits, 1);
            return Ok(bytes);
        }
        add(&counters.frame_misses, 1);
        let bytes = decode()?;
        if weight(&bytes) > self.shard_bytes_max() {
            // Before the guard is dropped, so that a reader that finds no guard finds this.
            *self.lock_oversize() = Some((key, Arc::clone(&bytes)));
        }
        if let Some(guard) = guard {
            // An error means that the cache was cleared meanwhile; the bytes are still valid.
            let _ = guard.insert(self.held(Arc::clone(&bytes), counters, false));
        }
        Ok(bytes)
    }

    /// Decodes the frame unless it is cached or being decoded. `guessed` says that no reader has
    /// asked for it. Returns whether this call decoded it.
    pub(crate) fn decode_ahead(
        &self,
        key: FrameKey,
        counters: &Arc<Counters>,
        guessed: bool,
        decode: impl FnOnce() -> Result<FrameBytes, ReadError>,
    ) -> Result<bool, ReadError> {
        if self.contains(key) {
            return Ok(false);
        }
        let GuardResult::Guard(guard) = self.frames.get_value_or_guard(&key, Some(Duration::ZERO))
        else {
            return Ok(false);
        };
        let bytes = decode()?;
        let _ = guard.insert(self.held(bytes, counters, guessed));
        Ok(true)
    }

    fn held(&self, bytes: FrameBytes, counters: &Arc<Counters>, guessed: bool) -> Arc<Held> {
        let now = self.clock.fetch_add(1, Relaxed);
        Arc::new(Held {
            bytes,
            since: AtomicU64::new(now),
            unused: AtomicBool::new(guessed),
            counters: Arc::clone(counters),
        })
    }

    fn get_oversize(&self, key: FrameKey) -> Option<FrameBytes> {
        let oversize = self.lock_oversize();
        let (_, bytes) = oversize.as_ref().filter(|(found, _)| *found == key)?;
        Some(Arc::clone(bytes))
    }

    fn lock_oversize(&self) -> std::sync::MutexGuard<'_, Option<(FrameKey, FrameBytes)>> {
        self.oversize.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Size from which on a frame is not admitted: a shard reserves 3 % for new frames.
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
