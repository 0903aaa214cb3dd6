//! The frame store: from a frame's number to its plain bytes, decoded and verified.
//!
//! A frame is decoded with the plain bytes of its references as prefix, so decoding one may mean
//! decoding others first. This recursion is bounded by the image's shape, which is checked before
//! each step: the depth of a reference is smaller than the frame's own. So there are no cycles and
//! at most eight levels, also between readers that wait for each other. The caller's limit bounds
//! what one read may decode in all.
//!
//! A long read needs several frames, and a frame may need several references. The reader leaves
//! all but the first missing one to the [`Workers`], then goes through them in order as if it were
//! alone: it finds frames that are decoded by then, waits for those being decoded and decodes the
//! rest itself. A frame is still decoded once.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Weak};

use shale_codec::{Codec, CodecError, Filter};
use shale_format::FrameRecord;
use shale_format::limits::PREFIX_LEN_MAX;

use crate::counters::{Counters, add};
use crate::error::{ErrorContext, Expected, Fault, ReadError, contradiction, value};
use crate::frames::cache::{FrameBytes, FrameCache, FrameKey};
use crate::frames::records::{FrameRecords, FrameTables, References};
use crate::frames::workers::Workers;
use crate::storage::decoders::Context;
use crate::storage::plan::Plan;
use crate::storage::stored::check_sum;

/// Frames that one read may decode; far more than honest bounds on bytes allow.
const FRAMES_PER_READ_MAX: u64 = 65_536;
/// Frames that one read leaves to the workers at most.
const SHARED_MAX: usize = 64;
/// The frames of one read may take this part of the cache (one quarter), or they would evict each
/// other.
const CACHE_PART: u64 = 4;

/// Set in the cache's keys of chunks. An image has fewer frames.
const CHUNK_KEY: u64 = 1 << 63;

/// What reading one byte of a frame costs with an empty cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReadCost {
    /// Frames to decode: the frame and all that it needs, each once.
    pub frames: u64,
    /// Plain bytes of these frames; the root's `read_bytes_max` is an upper bound.
    pub plain_bytes: u64,
    /// Stored bytes of these frames.
    pub stored_bytes: u64,
}

/// What one read has decoded so far.
#[derive(Default)]
struct ReadState {
    bytes: u64,
    frames: u64,
    /// Frames used by this read: none is decoded twice for it, however small the cache.
    used: HashMap<u64, FrameBytes>,
    /// A reader waits for this, so workers may be asked to help.
    may_share: bool,
}

/// All frames of one image.
pub(crate) struct FrameStore {
    /// A number that no other image opened by this process has.
    image_number: u64,
    tables: FrameTables,
    cache: Arc<FrameCache>,
    workers: Option<Arc<Workers>>,
    read_bytes_max: u64,
    /// For jobs, which must not keep the image alive.
    me: Weak<Self>,
}

impl FrameStore {
    pub(crate) fn new(
        image_number: u64,
        tables: FrameTables,
        cache: Arc<FrameCache>,
        workers: Option<Arc<Workers>>,
        read_bytes_max: u64,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            image_number,
            tables,
            cache,
            workers,
            read_bytes_max,
            me: Weak::clone(me),
        })
    }

    pub(crate) fn image_number(&self) -> u64 {
        self.image_number
    }

    pub(crate) fn tables(&self) -> &FrameTables {
        &self.tables
    }

    pub(crate) fn cache(&self) -> &Arc<FrameCache> {
        &self.cache
    }

    pub(crate) fn workers(&self) -> Option<&Arc<Workers>> {
        self.workers.as_ref()
    }

    pub(crate) fn read_bytes_max(&self) -> u64 {
        self.read_bytes_max
    }

    /// True if it pays to plan reads.
    pub(crate) fn is_far(&self) -> bool {
        self.tables.stored().is_far()
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        self.tables.stored().counters()
    }

    /// Frees this image's cached frames, and idle decoders.
    pub(crate) fn clear(&self) {
        self.cache.forget(self.image_number);
        self.cache.decoders().clear();
    }

    fn key(&self, frame: u64) -> FrameKey {
        FrameKey { image: self.image_number, frame }
    }

    pub(crate) fn record(&self, frame: u64) -> Result<FrameRecord, ReadError> {
        self.tables.record(frame)
    }

    pub(crate) fn references(&self, record: &FrameRecord) -> Result<References, ReadError> {
        self.tables.references(record)
    }

    pub(crate) fn records(&self, frames: Range<u64>) -> FrameRecords<'_> {
        self.tables.records(frames)
    }

    /// The plain bytes of a frame; see [`crate::Image::frame`].
    pub(crate) fn frame(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        match self.cache.get(self.key(frame), self.counters()) {
            Some(bytes) => Ok(bytes),
            None => {
                let mut state = ReadState { may_share: true, ..ReadState::default() };
                self.cached(frame, &self.record(frame)?, &mut state)
            }
        }
    }

    /// The plain bytes of a frame, if they are in the cache.
    pub(crate) fn cached_frame(&self, frame: u64) -> Option<FrameBytes> {
        self.cache.get(self.key(frame), self.counters())
    }

    /// The bytes of a chunk of a stream, if they are in the cache.
    pub(crate) fn cached_chunk(&self, chunk: u64) -> Option<FrameBytes> {
        self.cache.get(self.key(chunk | CHUNK_KEY), self.counters())
    }

    /// The bytes of a chunk of a stream: from the cache, or rebuilt into it. Chunks share the cache
    /// with frames.
    pub(crate) fn chunk(
        &self,
        chunk: u64,
        rebuild: impl FnOnce() -> Result<FrameBytes, ReadError>,
    ) -> Result<FrameBytes, ReadError> {
        self.cache.get_or_decode(self.key(chunk | CHUNK_KEY), self.counters(), rebuild)
    }

    /// Returns whether a frame is cached or being decoded. Does not count as use.
    pub(crate) fn is_cached(&self, frame: u64) -> bool {
        self.cache.contains(self.key(frame))
    }

    /// Decodes a frame into the cache, unless it is cached or being decoded. `guessed` says that
    /// no reader has asked for it. Returns whether this call decoded it. Leaves nothing to workers.
    pub(crate) fn decode_ahead(&self, frame: u64, guessed: bool) -> Result<bool, ReadError> {
        if self.is_cached(frame) {
            return Ok(false);
        }
        let record = self.record(frame)?;
        self.cache.decode_ahead(self.key(frame), self.counters(), guessed, || {
            self.decode(frame, &record, &mut ReadState::default())
        })
    }

    /// Reads, decodes and verifies a frame past the cache; see [`crate::Image::frame_verified`].
    pub(crate) fn frame_verified(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        let record = self.record(frame)?;
        self.decode(frame, &record, &mut ReadState::default())
    }

    /// What a read of one byte of a frame costs; see [`crate::Image::read_cost`].
    pub(crate) fn read_cost(&self, frame: u64) -> Result<ReadCost, ReadError> {
        let mut cost = ReadCost::default();
        // Each frame with the depth that it must be below.
        let mut waiting = vec![(frame, u8::MAX)];
        let mut depths: HashMap<u64, u8> = HashMap::new();
        while let Some((next, depth_end)) = waiting.pop() {
            let depth = match depths.get(&next) {
                Some(&depth) => depth,
                None => {
                    let record = self.record(next)?;
                    cost.frames += 1;
                    cost.plain_bytes += record.plain_len;
                    cost.stored_bytes += record.stored_len;
                    self.check_read_bound(cost.plain_bytes, cost.frames)
                        .at(|| format!("frame {frame}"))?;
                    depths.insert(next, record.depth);
                    let references = self.references(&record)?;
                    waiting.extend(references.frames().iter().map(|&below| (below, record.depth)));
                    record.depth
                }
            };
            if depth >= depth_end {
                let expected = Expected::AtMost(u64::from(depth_end.saturating_sub(1)));
                let error = value("depth of a reference", u64::from(depth), expected);
                return Err(error.at(format!("reference to frame {next}")));
            }
        }
        Ok(cost)
    }

    /// Says that `frames` will be decoded: a source that is far away fetches them and all that they
    /// refer to at once. Reads their records, with one round trip for each depth of references.
    pub(crate) fn plan(&self, frames: &[u64]) {
        let stored = self.tables.stored();
        let Some(mut plan) = Plan::new(stored) else { return };
        let missing = |frame: &u64| !self.is_cached(*frame);
        let mut wave: Vec<u64> = frames.iter().copied().filter(missing).collect();
        let mut met: HashSet<u64> = wave.iter().copied().collect();
        while !wave.is_empty() {
            if let Some(mut pages) = Plan::new(stored) {
                self.tables.plan_records(&wave, &mut pages);
                pages.tell();
            }
            // Damaged records are reported by those who read them.
            let records: Vec<_> =
                wave.iter().filter_map(|frame| self.record(*frame).ok()).collect();
            for record in &records {
                if !plan.add(record.stored_offset, record.stored_len) {
                    return plan.tell();
                }
            }
            if let Some(mut pages) = Plan::new(stored) {
                self.tables.plan_references(&records, &mut pages);
                pages.tell();
            }
            let references = records.iter().filter_map(|record| self.references(record).ok());
            let below: Vec<u64> =
                references.flat_map(|references| references.frames().to_vec()).collect();
            wave = below.into_iter().filter(|frame| met.insert(*frame) && missing(frame)).collect();
        }
        plan.tell();
    }

    /// Leaves the missing ones of `frames` to the workers, all but the first. Each frame comes with
    /// a length that is roughly its own or less. Does nothing without workers.
    pub(crate) fn share(&self, frames: impl Iterator<Item = (u64, u64)>) {
        let Some(workers) = &self.workers else { return };
        let mut bytes_left = self.cache.bytes_max() / CACHE_PART;
        let missing = frames.filter(|(frame, _)| !self.is_cached(*frame));
        for (frame, len) in missing.skip(1).take(SHARED_MAX) {
            let Some(left) = bytes_left.checked_sub(len) else { return };
            bytes_left = left;
            let store = self.me.clone();
            workers.want(move || {
                // The reader meets the same error and reports it.
                if let Some(store) = store.upgrade()
                    && store.decode_ahead(frame, false).is_ok_and(|decoded| decoded)
                {
                    add(&store.counters().frames_shared, 1);
                }
            });
        }
    }

    /// Checks that one read may decode this much.
    fn check_read_bound(&self, bytes: u64, frames: u64) -> Result<(), ReadError> {
        let bytes_max = self.read_bytes_max;
        if bytes > bytes_max || frames > FRAMES_PER_READ_MAX {
            return Err(Fault::ReadBound { bytes_max, frames_max: FRAMES_PER_READ_MAX }.into());
        }
        Ok(())
    }

    /// A frame from this read, from the cache, or decoded into the cache.
    fn cached(
        &self,
        frame: u64,
        record: &FrameRecord,
        state: &mut ReadState,
    ) -> Result<FrameBytes, ReadError> {
        if let Some(bytes) = state.used.get(&frame) {
            add(&self.counters().frame_hits, 1);
            return Ok(Arc::clone(bytes));
        }
        let bytes = self.cache.get_or_decode(self.key(frame), self.counters(), || {
            self.decode(frame, record, state)
        })?;
        // Only references are used again; the frame asked for is the last one.
        state.used.insert(frame, Arc::clone(&bytes));
        Ok(bytes)
    }

    fn decode(
        &self,
        frame: u64,
        record: &FrameRecord,
        state: &mut ReadState,
    ) -> Result<FrameBytes, ReadError> {
        state.bytes += record.plain_len; // At most 65,536 times 64 MiB.
        state.frames += 1;
        self.check_read_bound(state.bytes, state.frames).at(|| format!("frame {frame}"))?;
        let bytes = self
            .reference_bytes(record, state)
            .and_then(|references| {
                let _decoding = self.workers.as_deref().map(Workers::decoding);
                self.decode_with(record, &references)
            })
            .at(|| format!("frame {frame}"))?;
        add(&self.counters().frames_decoded, 1);
        add(&self.counters().plain_bytes_decoded, record.plain_len);
        Ok(Arc::new(bytes))
    }

    /// The plain bytes of a frame's references, pinned as long as they are held.
    fn reference_bytes(
        &self,
        record: &FrameRecord,
        state: &mut ReadState,
    ) -> Result<Vec<FrameBytes>, ReadError> {
        if record.reference_count == 0 {
            return Ok(Vec::new());
        }
        if Filter::from_id(record.filter).is_some_and(|filter| !filter.is_in_place()) {
            let count = u64::from(record.reference_count);
            return Err(value(
                "references of a frame of lines or of an array",
                count,
                Expected::Exactly(0),
            ));
        }
        let references = self.references(record)?;
        let mut records = Vec::with_capacity(references.frames().len());
        let mut prefix_len = 0;
        for &frame in references.frames() {
            let reference = self.record(frame)?;
            // Before anything waits for it: this is what makes waiting free of cycles.
            if reference.depth >= record.depth {
                let expected = Expected::AtMost(u64::from(record.depth.saturating_sub(1)));
                let error = value("depth of a reference", u64::from(reference.depth), expected);
                return Err(error.at(format!("reference to frame {frame}")));
            }
            prefix_len += reference.plain_len; // At most 16 times 64 MiB.
            records.push((frame, reference));
        }
        if prefix_len > PREFIX_LEN_MAX {
            let expected = Expected::AtMost(PREFIX_LEN_MAX);
            return Err(value("length of all references", prefix_len, expected));
        }
        if state.may_share {
            self.share(records.iter().map(|(frame, record)| (*frame, record.plain_len)));
        }
        records.iter().map(|(frame, record)| self.cached(*frame, record, state)).collect()
    }

    /// Fills `buf` with the stored bytes of a frame and verifies them.
    fn read_frame(&self, record: &FrameRecord, buf: &mut [u8]) -> Result<(), ReadError> {
        self.tables.stored().read_verified(record.stored_offset, buf, |bytes| {
            check_sum("stored", record.stored_sum, bytes)
        })
    }

    /// Reads and decodes one frame, given the plain bytes of its references.
    fn decode_with(
        &self,
        record: &FrameRecord,
        references: &[FrameBytes],
    ) -> Result<Vec<u8>, ReadError> {
        let Some(codec) = Codec::from_id(record.codec) else {
            return Err(value("codec", u64::from(record.codec), Expected::AtMost(4)));
        };
        let Some(filter) = Filter::from_id(record.filter) else {
            let last = Filter::ALL.last().map_or(0, |filter| u64::from(filter.id()));
            return Err(value("filter", u64::from(record.filter), Expected::AtMost(last)));
        };
        let plain_len = record.plain_len as usize; // At most 64 MiB, by `from_columns`.
        let mut plain = Vec::new();
        plain
            .try_reserve_exact(plain_len)
            .map_err(|_| CodecError::OutOfMemory { codec, len: record.plain_len })?;
        if codec == Codec::Stored && filter.is_in_place() {
            // Straight into the result.
            if record.stored_len != record.plain_len {
                let expected = Expected::Exactly(record.plain_len);
                return Err(value("length of a stored frame", record.stored_len, expected));
            }
            plain.resize(plain_len, 0);
            self.read_frame(record, &mut plain)?;
            filter.reverse(&mut plain);
        } else {
            self.cache.decoders().with(|context| -> Result<(), ReadError> {
                let Context { decoder, stored, prefix } = context;
                stored.clear();
                stored.resize(record.stored_len as usize, 0);
                self.read_frame(record, stored)?;
                let prefix = match references {
                    [] => &[][..],
                    [one] if filter == Filter::None => one,
                    several => {
                        prefix.clear();
                        for bytes in several {
                            let from = prefix.len();
                            prefix.extend_from_slice(bytes);
                            filter.apply(&mut prefix[from..]);
                        }
                        prefix
                    }
                };
                let ways = (codec, filter);
                Ok(decoder.decode_filtered(ways, prefix, stored, plain_len, &mut plain)?)
            })?;
        }
        if plain.len() != plain_len {
            return Err(contradiction("a frame decodes to another length than its record says"));
        }
        check_sum("plain", record.plain_sum, &plain)?;
        Ok(plain)
    }
}

impl Drop for FrameStore {
    fn drop(&mut self) {
        // In a shared cache, nobody can ask for these again.
        self.cache.forget(self.image_number);
    }
}
