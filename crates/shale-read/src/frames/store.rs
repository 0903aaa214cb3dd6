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
//!
//! A short read decodes a frame up to the last byte that it wants ([`FrameStore::range`]); its
//! references are decoded whole. A reader that goes on in a frame holds that frame's own lock, and
//! waits only for frames of smaller depth meanwhile.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Weak};

use shale_codec::{Codec, CodecError, Filter, Partial, Prefix};
use shale_format::FrameRecord;
use shale_format::limits::PREFIX_LEN_MAX;

use crate::counters::{Counters, add};
use crate::error::{ErrorContext, Expected, Fault, ReadError, contradiction, value};
use crate::frames::cache::{Cached, Decoded, FrameCache, FrameKey};
use crate::frames::part::{Extent, FrameBytes, Front, PartFrame, extent};
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
            Some(Cached::Whole(bytes)) => Ok(bytes),
            Some(Cached::Part(_)) | None => {
                let mut state = ReadState { may_share: true, ..ReadState::default() };
                self.cached(frame, &self.record(frame)?, &mut state)
            }
        }
    }

    /// Gives a range of the plain bytes of a frame to `copy`, after decoding the frame up to there
    /// or further. Returns the whole frame instead, without calling `copy`, if all of it is decoded
    /// or the range is not inside it.
    pub(crate) fn range(
        &self,
        frame: u64,
        range: Range<u64>,
        copy: impl FnOnce(&[u8]),
    ) -> Result<Option<FrameBytes>, ReadError> {
        // Inside a frame, whose length is below 2^32.
        let range = range.start as usize..range.end as usize;
        let key = self.key(frame);
        let mut state = ReadState { may_share: true, ..ReadState::default() };
        let part = match self.cache.get(key, self.counters()) {
            Some(Cached::Whole(bytes)) => return Ok(Some(bytes)),
            Some(Cached::Part(part)) => part,
            None => {
                let record = self.record(frame)?;
                let decoded = self.cache.get_or_decode(key, self.counters(), || {
                    self.decode(frame, &record, Some(range.end), &mut state)
                })?;
                match decoded {
                    Cached::Whole(bytes) => return Ok(Some(bytes)),
                    Cached::Part(part) => part,
                }
            }
        };
        let mut front = part.lock();
        if front.bytes().len() < range.end {
            self.go_on(frame, &mut front, range.end, &mut state)?;
        } else if state.frames == 0 {
            add(&self.counters().frame_hits, 1);
        }
        match (&*front, front.bytes().get(range)) {
            (Front::Whole(bytes), _) => Ok(Some(Arc::clone(bytes))),
            (_, Some(bytes)) => {
                copy(bytes);
                Ok(None)
            }
            (_, None) => Err(contradiction("a frame ends before its record says")),
        }
    }

    /// As [`FrameStore::range`], but decodes nothing and waits for no one. Returns `false` if the
    /// range is not there.
    pub(crate) fn cached_range(
        &self,
        frame: u64,
        range: Range<u64>,
        copy: impl FnOnce(&[u8]),
    ) -> bool {
        let range = range.start as usize..range.end as usize;
        match self.cache.get(self.key(frame), self.counters()) {
            None => false,
            Some(Cached::Whole(bytes)) => bytes.get(range).map(copy).is_some(),
            Some(Cached::Part(part)) => {
                let Some(front) = part.try_lock() else { return false };
                let found = front.bytes().get(range).map(copy).is_some();
                add(&self.counters().frame_hits, u64::from(found));
                found
            }
        }
    }

    /// The bytes of a chunk of a stream, if they are in the cache.
    pub(crate) fn cached_chunk(&self, chunk: u64) -> Option<FrameBytes> {
        match self.cache.get(self.key(chunk | CHUNK_KEY), self.counters())? {
            Cached::Whole(bytes) => Some(bytes),
            Cached::Part(_) => None, // Never for a chunk.
        }
    }

    /// The bytes of a chunk of a stream: from the cache, or rebuilt into it. Chunks share the cache
    /// with frames.
    pub(crate) fn chunk(
        &self,
        chunk: u64,
        rebuild: impl FnOnce() -> Result<FrameBytes, ReadError>,
    ) -> Result<FrameBytes, ReadError> {
        let rebuild = || rebuild().map(Decoded::Whole);
        match self.cache.get_or_decode(self.key(chunk | CHUNK_KEY), self.counters(), rebuild)? {
            Cached::Whole(bytes) => Ok(bytes),
            Cached::Part(_) => Err(contradiction("a chunk is cached in part")),
        }
    }

    /// Returns whether a whole frame is cached, or the frame is being decoded. Does not count as
    /// use.
    pub(crate) fn is_cached(&self, frame: u64) -> bool {
        self.cache.contains(self.key(frame))
    }

    /// Decodes a frame into the cache, unless it is cached or being decoded. `guessed` says that
    /// no reader has asked for it. Returns whether this call decoded it; a frame that was there in
    /// part is completed and does not count. Leaves nothing to workers.
    pub(crate) fn decode_ahead(&self, frame: u64, guessed: bool) -> Result<bool, ReadError> {
        let key = self.key(frame);
        if let Some(part) = self.cache.part(key) {
            self.whole(frame, &part, &mut ReadState::default())?;
            return Ok(false);
        }
        if self.is_cached(frame) {
            return Ok(false);
        }
        let record = self.record(frame)?;
        self.cache.decode_ahead(key, self.counters(), guessed, || {
            self.decode_whole(frame, &record, &mut ReadState::default())
        })
    }

    /// Reads, decodes and verifies a frame past the cache; see [`crate::Image::frame_verified`].
    pub(crate) fn frame_verified(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        let record = self.record(frame)?;
        self.decode_whole(frame, &record, &mut ReadState::default())
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
        let cached = self.cache.get_or_decode(self.key(frame), self.counters(), || {
            self.decode(frame, record, None, state)
        })?;
        let bytes = match cached {
            Cached::Whole(bytes) => bytes,
            Cached::Part(part) => self.whole(frame, &part, state)?,
        };
        // Only references are used again; the frame asked for is the last one.
        state.used.insert(frame, Arc::clone(&bytes));
        Ok(bytes)
    }

    /// All of a frame that is there in part.
    fn whole(
        &self,
        frame: u64,
        part: &PartFrame,
        state: &mut ReadState,
    ) -> Result<FrameBytes, ReadError> {
        let mut front = part.lock();
        if !matches!(&*front, Front::Whole(_)) {
            self.go_on(frame, &mut front, usize::MAX, state)?;
        }
        match &*front {
            Front::Whole(bytes) => Ok(Arc::clone(bytes)),
            Front::Decoding(_) | Front::Kept(_) => {
                Err(contradiction("a frame ends before its record says"))
            }
        }
    }

    /// Decodes more of a frame that is there in part: up to `wanted_len`, or all of it.
    fn go_on(
        &self,
        frame: u64,
        front: &mut Front,
        wanted_len: usize,
        state: &mut ReadState,
    ) -> Result<(), ReadError> {
        let record = self.record(frame)?;
        let plain_len = record.plain_len as usize;
        if let Front::Whole(_) = front {
            return Ok(());
        }
        if let Front::Decoding(partial) = front {
            let _decoding = self.workers.as_deref().map(Workers::decoding);
            let (codec, _) = ways(&record)?;
            let len = match extent(codec, partial.bytes().len(), wanted_len, plain_len) {
                Extent::Front(len) => len,
                Extent::Whole => plain_len,
            };
            let decoded_len = partial.decoded_len();
            let result = partial.advance(len);
            add(&self.counters().frames_continued, 1);
            let more_len = partial.decoded_len() - decoded_len;
            add(&self.counters().plain_bytes_decoded, more_len as u64);
            if result.is_ok() && partial.bytes().len() < plain_len {
                return Ok(());
            }
        }
        let bytes = match front.take() {
            Front::Decoding(partial) if partial.is_complete() => {
                let bytes = partial.into_bytes();
                check_sum("plain", record.plain_sum, &bytes)
                    .map(|()| Arc::new(bytes))
                    .at(|| format!("frame {frame}"))
            }
            // The decoder's state was dropped, or it met what only decoding the whole can judge.
            _ => self.decode_whole(frame, &record, state),
        };
        match &bytes {
            Ok(bytes) => {
                *front = Front::Whole(Arc::clone(bytes));
                self.cache.complete(self.key(frame), bytes, self.counters());
            }
            // Nothing of it is given to anyone from now on.
            Err(_) => self.cache.remove(self.key(frame)),
        }
        bytes.map(|_| ())
    }

    /// Decodes a frame for the first time: up to `wanted_len`, if that pays, or all of it.
    fn decode(
        &self,
        frame: u64,
        record: &FrameRecord,
        wanted_len: Option<usize>,
        state: &mut ReadState,
    ) -> Result<Decoded, ReadError> {
        self.count_decode(frame, record, state)?;
        let decoded = || -> Result<Decoded, ReadError> {
            let references = self.reference_bytes(record, state)?;
            let _decoding = self.workers.as_deref().map(Workers::decoding);
            if let Some(wanted_len) = wanted_len
                && let Some(decoded) = self.decode_front(record, &references, wanted_len)?
            {
                return Ok(decoded);
            }
            let bytes = self.decode_with(record, &references)?;
            add(&self.counters().plain_bytes_decoded, record.plain_len);
            Ok(Decoded::Whole(Arc::new(bytes)))
        }()
        .at(|| format!("frame {frame}"))?;
        add(&self.counters().frames_decoded, 1);
        Ok(decoded)
    }

    /// Decodes all of a frame.
    fn decode_whole(
        &self,
        frame: u64,
        record: &FrameRecord,
        state: &mut ReadState,
    ) -> Result<FrameBytes, ReadError> {
        match self.decode(frame, record, None, state)? {
            Decoded::Whole(bytes) => Ok(bytes),
            Decoded::Part(..) => Err(contradiction("a whole frame was decoded in part")),
        }
    }

    /// Counts a frame that this read decodes, and checks that it may.
    fn count_decode(
        &self,
        frame: u64,
        record: &FrameRecord,
        state: &mut ReadState,
    ) -> Result<(), ReadError> {
        state.bytes += record.plain_len; // At most 65,536 times 64 MiB.
        state.frames += 1;
        self.check_read_bound(state.bytes, state.frames).at(|| format!("frame {frame}"))
    }

    /// Decodes the front of a frame. Returns `None` if that does not pay, or meets something that
    /// only decoding the whole can judge.
    fn decode_front(
        &self,
        record: &FrameRecord,
        references: &[FrameBytes],
        wanted_len: usize,
    ) -> Result<Option<Decoded>, ReadError> {
        let (codec, filter) = ways(record)?;
        let plain_len = record.plain_len as usize; // At most 64 MiB, by `from_columns`.
        if !Partial::is_possible(codec, filter) {
            return Ok(None);
        }
        let Extent::Front(len) = extent(codec, 0, wanted_len, plain_len) else { return Ok(None) };
        let prefix_len = references.iter().map(|bytes| bytes.len()).sum();
        let stored_len = record.stored_len as usize;
        let memory_len =
            Partial::memory_len_max((codec, filter), prefix_len, stored_len, plain_len) as u64;
        if !self.cache.has_room_for_part(memory_len) {
            return Ok(None);
        }
        let mut stored = vec![0; stored_len];
        self.read_frame(record, &mut stored)?;
        let prefix = match references {
            [one] if filter == Filter::None => Prefix::Shared(Arc::clone(one)),
            several => {
                let mut prefix = Vec::with_capacity(prefix_len);
                join(several, filter, &mut prefix);
                Prefix::Joined(prefix)
            }
        };
        let Ok(mut partial) = Partial::new((codec, filter), prefix, stored, plain_len) else {
            return Ok(None);
        };
        if partial.advance(len).is_err() {
            return Ok(None);
        }
        if partial.bytes().len() == plain_len && !partial.is_complete() {
            return Ok(None);
        }
        add(&self.counters().plain_bytes_decoded, partial.decoded_len() as u64);
        if partial.is_complete() {
            let bytes = partial.into_bytes();
            check_sum("plain", record.plain_sum, &bytes)?;
            return Ok(Some(Decoded::Whole(Arc::new(bytes))));
        }
        Ok(Some(Decoded::Part(PartFrame::new(partial), memory_len)))
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
        let (codec, filter) = ways(record)?;
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
                        join(several, filter, prefix);
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

/// Codec and filter of a frame.
fn ways(record: &FrameRecord) -> Result<(Codec, Filter), ReadError> {
    let Some(codec) = Codec::from_id(record.codec) else {
        return Err(value("codec", u64::from(record.codec), Expected::AtMost(4)));
    };
    let Some(filter) = Filter::from_id(record.filter) else {
        let last = Filter::ALL.last().map_or(0, |filter| u64::from(filter.id()));
        return Err(value("filter", u64::from(record.filter), Expected::AtMost(last)));
    };
    Ok((codec, filter))
}

/// Appends references to a prefix, each filtered on its own.
fn join(references: &[FrameBytes], filter: Filter, prefix: &mut Vec<u8>) {
    for bytes in references {
        let from = prefix.len();
        prefix.extend_from_slice(bytes);
        filter.apply(&mut prefix[from..]);
    }
}

impl Drop for FrameStore {
    fn drop(&mut self) {
        // In a shared cache, nobody can ask for these again.
        self.cache.forget(self.image_number);
    }
}
