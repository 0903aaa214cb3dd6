//! The frame cache: bounded in bytes and shared by the images of a process. Each frame is decoded
//! once.
//!
//! A reader that needs a frame that another reader is decoding waits for it. No lock is held while
//! a frame is decoded. A failed decode is not cached: the next reader tries again. The cache holds
//! `Arc`s, so an evicted frame stays in memory until its readers are done, and no longer.
//!
//! A frame may be there in part ([`PartFrame`]). The states of the decoders that could go on take a
//! bounded part of the cache; the oldest are dropped.
//!
//! A large scan does not evict frames that are used again and again. While a scan passes a frame of
//! many small files, it uses the frame many times, which says nothing about later. So a use counts
//! as a further one only after other frames have been added.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::counters::{Counters, add};
use crate::error::ReadError;
use crate::frames::part::{FrameBytes, PartFrame};
use crate::storage::decoders::Decoders;

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
/// The states of decoders may take this part of the cache (one eighth).
const STATES_PART: u64 = 8;
/// States of decoders at most. Older ones have seldom been of use.
const STATES_MAX: usize = 64;

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

/// What the cache has of a frame.
#[derive(Clone)]
pub(crate) enum Cached {
    /// All of it.
    Whole(FrameBytes),
    /// The front.
    Part(Arc<PartFrame>),
}

/// A frame that was just decoded.
pub(crate) enum Decoded {
    /// All of it.
    Whole(FrameBytes),
    /// The front, with a decoder's state, and the memory that this takes.
    Part(PartFrame, u64),
}

/// A frame in the cache.
struct Held {
    cached: Cached,
    /// Memory of this entry.
    weight: u64,
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
        held.weight
    }
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
    /// Frames in part that have a decoder's state, and the memory of each, oldest first.
    states: Mutex<VecDeque<(FrameKey, Weak<PartFrame>, u64)>>,
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
            states: Mutex::default(),
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
        self.lock_states().clear();
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

    /// The frame, if it is cached. Does not wait for another reader. A whole frame counts as a hit.
    pub(crate) fn get(&self, key: FrameKey, counters: &Counters) -> Option<Cached> {
        // A peek does not count as a use; `used` decides whether this one does.
        let found = match self.frames.peek(&key) {
            Some(held) => self.used(key, &held, counters),
            None => Cached::Whole(self.get_oversize(key)?),
        };
        if let Cached::Whole(_) = found {
            add(&counters.frame_hits, 1);
        }
        Some(found)
    }

    /// Returns whether the whole frame is cached, or the frame is being decoded. Does not count as
    /// a use.
    pub(crate) fn contains(&self, key: FrameKey) -> bool {
        self.frames.contains_key(&key) && self.part(key).is_none()
    }

    /// The frame, if it is cached in part. Does not count as a use.
    pub(crate) fn part(&self, key: FrameKey) -> Option<Arc<PartFrame>> {
        match &self.frames.peek(&key)?.cached {
            Cached::Whole(_) => None,
            Cached::Part(part) => Some(Arc::clone(part)),
        }
    }

    /// Records a reader's use of a frame.
    fn used(&self, key: FrameKey, held: &Held, counters: &Counters) -> Cached {
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
        held.cached.clone()
    }

    /// The frame from the cache, from the reader that is decoding it, or from `decode`.
    pub(crate) fn get_or_decode(
        &self,
        key: FrameKey,
        counters: &Arc<Counters>,
        decode: impl FnOnce() -> Result<Decoded, ReadError>,
    ) -> Result<Cached, ReadError> {
        if let Some(cached) = self.get(key, counters) {
            return Ok(cached);
        }
        let guard = match self.frames.get_value_or_guard(&key, None) {
            GuardResult::Value(held) => {
                if let Cached::Whole(_) = held.cached {
                    add(&counters.frame_hits, 1);
                }
                if held.unused.swap(false, Relaxed) {
                    add(&counters.prefetch_used, 1);
                }
                return Ok(held.cached.clone());
            }
            GuardResult::Guard(guard) => Some(guard),
            // Cannot happen without a time limit; decoding twice would be correct too.
            GuardResult::Timeout => None,
        };
        // Another reader may have added it since `get`.
        if let Some(bytes) = self.get_oversize(key) {
            add(&counters.frame_hits, 1);
            return Ok(Cached::Whole(bytes));
        }
        add(&counters.frame_misses, 1);
        let held = self.held(decode()?, counters, false);
        let cached = held.cached.clone();
        if let Cached::Whole(bytes) = &cached
            && held.weight > self.shard_bytes_max()
        {
            // Before the guard is dropped, so that a reader that finds no guard finds this.
            *self.lock_oversize() = Some((key, Arc::clone(bytes)));
        }
        let weight = held.weight;
        if let Some(guard) = guard {
            // An error means that the cache was cleared meanwhile; the bytes are still valid.
            let _ = guard.insert(held);
        }
        if let Cached::Part(part) = &cached {
            self.keep_state(key, part, weight, counters);
        }
        Ok(cached)
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
        if self.frames.contains_key(&key) {
            return Ok(false);
        }
        let GuardResult::Guard(guard) = self.frames.get_value_or_guard(&key, Some(Duration::ZERO))
        else {
            return Ok(false);
        };
        let decoded = Decoded::Whole(decode()?);
        let _ = guard.insert(self.held(decoded, counters, guessed));
        Ok(true)
    }

    fn held(&self, decoded: Decoded, counters: &Arc<Counters>, guessed: bool) -> Arc<Held> {
        let now = self.clock.fetch_add(1, Relaxed);
        let (cached, len) = match decoded {
            Decoded::Whole(bytes) => {
                let len = bytes.capacity() as u64;
                (Cached::Whole(bytes), len)
            }
            Decoded::Part(part, len) => (Cached::Part(Arc::new(part)), len),
        };
        Arc::new(Held {
            cached,
            weight: len.saturating_add(ENTRY_OVERHEAD_LEN),
            since: AtomicU64::new(now),
            unused: AtomicBool::new(guessed),
            counters: Arc::clone(counters),
        })
    }

    /// Returns whether a frame in part may be kept that takes this memory.
    pub(crate) fn has_room_for_part(&self, memory_len: u64) -> bool {
        memory_len.saturating_add(ENTRY_OVERHEAD_LEN)
            <= self.shard_bytes_max().min(self.bytes_max() / STATES_PART)
    }

    /// Puts a frame in the place of its part, if that is still there.
    pub(crate) fn complete(&self, key: FrameKey, bytes: &FrameBytes, counters: &Arc<Counters>) {
        let whole = Cached::Whole(Arc::clone(bytes));
        self.replace(key, whole, bytes.capacity() as u64, counters);
    }

    /// Removes a frame of which no more can be decoded.
    pub(crate) fn remove(&self, key: FrameKey) {
        let _ = self.frames.remove(&key);
    }

    fn replace(&self, key: FrameKey, cached: Cached, len: u64, counters: &Arc<Counters>) {
        let held = Held {
            cached,
            weight: len.saturating_add(ENTRY_OVERHEAD_LEN),
            since: AtomicU64::new(self.clock.load(Relaxed)),
            unused: AtomicBool::new(false),
            counters: Arc::clone(counters),
        };
        // An error means that it was evicted.
        let _ = self.frames.replace(key, Arc::new(held), true);
    }

    /// Notes that a frame has a decoder's state, and drops the oldest states that are too many.
    fn keep_state(
        &self,
        key: FrameKey,
        part: &Arc<PartFrame>,
        weight: u64,
        counters: &Arc<Counters>,
    ) {
        let mut states = self.lock_states();
        // Those that are complete or evicted by now.
        states.retain(|(_, part, _)| part.strong_count() > 0);
        states.push_back((key, Arc::downgrade(part), weight));
        let mut bytes: u64 = states.iter().map(|(_, _, weight)| weight).sum();
        let bytes_max = self.bytes_max() / STATES_PART;
        // Each at most once: one that is in use stays.
        for _ in 0..states.len() {
            if states.len() <= STATES_MAX && bytes <= bytes_max {
                break;
            }
            let Some((key, part, weight)) = states.pop_front() else { break };
            let Some(part) = part.upgrade() else {
                bytes -= weight;
                continue;
            };
            let smaller = Cached::Part(Arc::clone(&part));
            match part.shed(|len| self.replace(key, smaller, len as u64, counters)) {
                true => bytes -= weight,
                false => states.push_back((key, Arc::downgrade(&part), weight)),
            }
        }
    }

    fn get_oversize(&self, key: FrameKey) -> Option<FrameBytes> {
        let oversize = self.lock_oversize();
        let (_, bytes) = oversize.as_ref().filter(|(found, _)| *found == key)?;
        Some(Arc::clone(bytes))
    }

    fn lock_oversize(&self) -> MutexGuard<'_, Option<(FrameKey, FrameBytes)>> {
        self.oversize.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_states(&self) -> MutexGuard<'_, VecDeque<(FrameKey, Weak<PartFrame>, u64)>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
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
