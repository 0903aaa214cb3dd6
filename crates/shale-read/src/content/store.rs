//! The content store: from a range of a content to its bytes.
//!
//! Frames come through the frame cache; holes and zero runs cost no decode. A range is clipped to
//! the content, so a read beyond its end gives no bytes, as `pread` does.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use shale_format::ChunkRecord;
use shale_format::limits::CHUNK_DEPTH_MAX;
use shale_format::schema::{STREAM_HOLE, STREAM_ZERO};

use crate::content::chunks::{ChunkTable, NESTED_PLAIN_LEN_MAX, Recipe};
use crate::content::map::{ContentMap, Piece, PieceKind, Pieces, Segments, Unit};
use crate::content::prefetch::{Guess, Prefetch};
use crate::content::sequences::Sequences;
use crate::counters::add;
use crate::error::{ErrorContext, Expected, ReadError, value};
use crate::frames::part::FrameBytes;
use crate::frames::store::FrameStore;
use crate::storage::plan::Plan;

/// Shorter reads than this seldom cover more than a frame or two; looking for frames to share
/// would cost more than it gains.
const SHARED_READ_LEN_MIN: u64 = 96 << 10;

/// Bytes of a content that are planned, fetched and used together, if the source is far away.
const FAR_STEP_LEN: u64 = 1 << 20;
/// Segments of a content that are looked at for its place.
const PLACE_SEGMENTS_MAX: usize = 4;

/// Frames of one plan at most.
const FAR_FRAMES_MAX: usize = 4096;
/// Plain bytes of the contents that one plan asks for ahead. As stored bytes they may be a
/// hundredth.
const FAR_WALK_LEN: u64 = 16 << 20;

/// The bytes of holes and zero runs, handed out piece by piece.
static ZEROES: [u8; 16 << 10] = [0; 16 << 10];

/// How much of its frames a read decodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// What it takes, as little more may be read of them soon.
    Part,
    /// All of them.
    Whole,
}

/// Where a read stands among chunks that need other chunks.
struct Nesting {
    /// Chunks from this depth on are refused.
    depth_end: u64,
    /// Plain bytes that may still be rebuilt for the chunk that was asked for.
    plain_bytes_left: u64,
}

impl Default for Nesting {
    fn default() -> Self {
        Self { depth_end: CHUNK_DEPTH_MAX + 1, plain_bytes_left: NESTED_PLAIN_LEN_MAX }
    }
}

/// All contents of one image.
pub(crate) struct ContentStore {
    map: ContentMap,
    prefetch: Prefetch,
    /// What was planned for a source that is far away.
    far: Mutex<Sequences>,
    /// For jobs, which must not keep the image alive.
    me: Weak<Self>,
}

impl ContentStore {
    /// Contents that are read through `map`, with at most `prefetch_bytes_max` bytes decoded ahead
    /// of a sequential reader.
    pub(crate) fn new(map: ContentMap, prefetch_bytes_max: u64) -> Arc<Self> {
        let prefetch = Prefetch::new(prefetch_bytes_max);
        let far = Mutex::default();
        Arc::new_cyclic(|me| Self { map, prefetch, far, me: Weak::clone(me) })
    }

    pub(crate) fn frames(&self) -> &Arc<FrameStore> {
        self.map.frames()
    }

    pub(crate) fn content_count(&self) -> u64 {
        self.map.content_count()
    }

    /// Adds the top pages of the tables to `plan`.
    pub(crate) fn plan_tops(&self, plan: &mut Plan<'_>) {
        self.map.plan_tops(plan);
    }

    /// Adds the lengths of all contents to `plan`.
    pub(crate) fn plan_lengths(&self, plan: &mut Plan<'_>) {
        self.map.plan_lengths(plan);
    }

    pub(crate) fn content_len(&self, content: u64) -> Result<u64, ReadError> {
        self.map.content_len(content)
    }

    pub(crate) fn pieces(&self, content: u64, range: Range<u64>) -> Result<Pieces<'_>, ReadError> {
        self.map.pieces(content, range)
    }

    pub(crate) fn segments(
        &self,
        content: u64,
        range: Range<u64>,
    ) -> Result<Segments<'_>, ReadError> {
        self.map.segments(content, range)
    }

    /// Fills `buf` with a content's bytes; see [`crate::Image::read_content`].
    pub(crate) fn read(
        &self,
        content: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, ReadError> {
        let mut filled = 0;
        self.read_with(content, offset..offset.saturating_add(buf.len() as u64), |bytes| {
            buf[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        })?;
        Ok(filled)
    }

    /// Gives the bytes of `range` of a content to `take`; see [`crate::Image::read_content_with`].
    pub(crate) fn read_with(
        &self,
        content: u64,
        range: Range<u64>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        self.plan(content, &range);
        let start = range.start;
        let has_workers = self.frames().workers().is_some();
        let mut taken_len = 0;
        let take = |bytes: &[u8]| {
            take(bytes);
            taken_len += bytes.len() as u64;
            true
        };
        if has_workers && range.end - range.start >= SHARED_READ_LEN_MIN {
            // All pieces first, so that workers can begin with the later ones. A piece is at least
            // a byte of what the caller has room for, and usually a frame.
            let pieces = self.pieces(content, range)?.collect::<Result<Vec<_>, _>>()?;
            self.share(&pieces);
            self.take_pieces(pieces.into_iter().map(Ok), take)?;
        } else {
            self.take_pieces(self.pieces(content, range)?, take)?;
        }
        if has_workers && taken_len > 0 {
            let content_len = self.content_len(content)?;
            self.prefetch_after(content, start, start + taken_len, content_len);
        }
        Ok(())
    }

    /// Where a content is stored; see [`crate::Image::content_place`].
    pub(crate) fn place(&self, content: u64) -> Result<u64, ReadError> {
        // A sparse file may begin with any number of holes; its place is of no great importance.
        for segment in self.map.segments(content, 0..u64::MAX)?.take(PLACE_SEGMENTS_MAX) {
            let stream = segment?.stream;
            if stream != STREAM_HOLE && stream != STREAM_ZERO {
                return Ok(stream);
            }
        }
        Ok(u64::MAX)
    }

    /// Fills `buf` with a whole content of that length, if its frames and chunks are cached; see
    /// [`crate::Tree::read_ready`].
    pub(crate) fn read_ready(&self, content: u64, buf: &mut [u8]) -> Result<bool, ReadError> {
        let len = buf.len() as u64;
        let mut filled = 0usize;
        // One byte more, to see that the content ends there.
        for piece in self.pieces(content, 0..len.saturating_add(1))? {
            let Piece { len, kind, .. } = piece?;
            let Some(target) = buf.get_mut(filled..filled.saturating_add(len as usize)) else {
                return Ok(false);
            };
            filled += target.len();
            // What is wrong with the tables is reported by the reader of the file.
            let is_ready = match kind.unit() {
                Some((Unit::Frame(frame), from)) => {
                    let range = from..from.saturating_add(len);
                    let copy = |bytes: &[u8]| target.copy_from_slice(bytes);
                    self.frames().cached_range(frame, range, copy)
                }
                Some((Unit::Chunk(chunk), from)) => {
                    let bytes = self.frames().cached_chunk(chunk);
                    let range = from as usize..(from as usize).saturating_add(len as usize);
                    let slice = bytes.as_ref().and_then(|bytes| bytes.get(range));
                    slice.map(|slice| target.copy_from_slice(slice)).is_some()
                }
                None => {
                    target.fill(0);
                    true
                }
            };
            if !is_ready {
                return Ok(false);
            }
        }
        if filled < buf.len() {
            return Ok(false);
        }
        if len > 0 {
            self.prefetch_after(content, 0, len, len);
        }
        Ok(true)
    }

    /// Calls `visit` with the bytes of `range` of a content; see [`crate::Image::visit_content`].
    pub(crate) fn visit(
        &self,
        content: u64,
        range: Range<u64>,
        visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        let mut visit = visit;
        if !self.frames().is_far() {
            return self.visit_pieces(self.pieces(content, range)?, visit);
        }
        // In steps, so that each is fetched while the one before is used.
        let end = range.end.min(self.content_len(content)?);
        let (mut at, mut goes_on) = (range.start, true);
        while at < end && goes_on {
            let step = at..end.min(at.saturating_add(FAR_STEP_LEN));
            self.plan(content, &step);
            at = step.end;
            self.visit_pieces(self.pieces(content, step)?, |bytes| {
                goes_on = visit(bytes);
                goes_on
            })?;
        }
        Ok(())
    }

    /// Says to a source that is far away what a read of `range` needs, and what is likely to be
    /// read after it: the rest of a file that is read from front to back, and the contents that
    /// follow if contents are read one after the other.
    fn plan(&self, content: u64, range: &Range<u64>) {
        if !self.frames().is_far() {
            return;
        }
        let lock = || self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let (wanted, next) = {
            let mut sequences = lock();
            let next = if range.start == 0 { sequences.walk(content) } else { None };
            (sequences.wanted(content, range), next)
        };
        let mut frames = Vec::new();
        if let Some(wanted) = wanted {
            self.frames_of(content, wanted, &mut frames);
        }
        if let Some(next) = next {
            let (mut end, mut len) = (next.start, 0);
            while end < next.end.min(self.content_count()) && len < FAR_WALK_LEN {
                len += self.frames_of(end, 0..FAR_WALK_LEN - len, &mut frames);
                end += 1;
            }
            lock().asked(end);
        }
        frames.dedup();
        frames.truncate(FAR_FRAMES_MAX);
        self.frames().plan(&frames);
    }

    /// Adds the frames of a range of a content, and returns its length. Ignores damage to the
    /// tables: the read that follows reports it.
    fn frames_of(&self, content: u64, range: Range<u64>, frames: &mut Vec<u64>) -> u64 {
        let Ok(pieces) = self.pieces(content, range) else { return 0 };
        let mut len = 0;
        for piece in pieces.map_while(Result::ok).take(FAR_FRAMES_MAX) {
            len += piece.len;
            if let PieceKind::Frame { frame, .. } = piece.kind {
                frames.push(frame);
            }
        }
        len
    }

    /// Bytes of a content that are not in holes. Walks over all of its extents.
    pub(crate) fn data_len(&self, content: u64) -> Result<u64, ReadError> {
        let mut len = 0;
        for segment in self.segments(content, 0..u64::MAX)? {
            let segment = segment?;
            if segment.stream != STREAM_HOLE {
                len += segment.len; // Together at most the content's length.
            }
        }
        Ok(len)
    }

    /// Calls `take` with the bytes of pieces. Decodes no more of their frames than it takes.
    fn take_pieces(
        &self,
        pieces: impl Iterator<Item = Result<Piece, ReadError>>,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        self.visit_within(pieces, Wanted::Part, &mut Nesting::default(), take)
    }

    fn visit_pieces(
        &self,
        pieces: impl Iterator<Item = Result<Piece, ReadError>>,
        visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        self.visit_within(pieces, Wanted::Whole, &mut Nesting::default(), visit)
    }

    fn visit_within(
        &self,
        pieces: impl Iterator<Item = Result<Piece, ReadError>>,
        wanted: Wanted,
        nesting: &mut Nesting,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        // The last frame or chunk is held: pieces of one often follow each other, and the cache may
        // be too small to keep it.
        let mut held: Option<(Unit, FrameBytes)> = None;
        for piece in pieces {
            let Piece { len, kind, .. } = piece?;
            let Some((unit, from)) = kind.unit() else {
                if !visit_zeroes(len, &mut visit) {
                    return Ok(());
                }
                continue;
            };
            let bytes = match (&held, unit) {
                (Some((held_unit, bytes)), _) if *held_unit == unit => bytes,
                (_, Unit::Frame(frame)) if wanted == Wanted::Part => {
                    let range = from..from.saturating_add(len);
                    let mut goes_on = true;
                    let copy = |bytes: &[u8]| goes_on = visit(bytes);
                    match self.frames().range(frame, range, copy)? {
                        Some(bytes) => &held.insert((unit, bytes)).1,
                        None if goes_on => continue,
                        None => return Ok(()),
                    }
                }
                _ => &held.insert((unit, self.unit_within(unit, nesting)?)).1,
            };
            // Inside the frame or chunk, whose length is below 2^32.
            let Some(slice) =
                bytes.get(from as usize..(from as usize).saturating_add(len as usize))
            else {
                let expected = Expected::AtMost(bytes.len() as u64);
                return Err(value("end of a piece in its frame or chunk", from + len, expected));
            };
            if !visit(slice) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The bytes of a frame or chunk; see [`crate::Image::unit`].
    pub(crate) fn unit(&self, unit: Unit) -> Result<FrameBytes, ReadError> {
        self.unit_within(unit, &mut Nesting::default())
    }

    fn unit_within(&self, unit: Unit, nesting: &mut Nesting) -> Result<FrameBytes, ReadError> {
        match unit {
            Unit::Frame(frame) => self.frames().frame(frame),
            Unit::Chunk(chunk) => self.chunk_within(chunk, nesting),
        }
    }

    pub(crate) fn chunks(&self) -> &ChunkTable {
        self.map.chunks()
    }

    /// The bytes of a chunk that another chunk may need.
    fn chunk_within(&self, chunk: u64, nesting: &mut Nesting) -> Result<FrameBytes, ReadError> {
        let record = self.map.chunks().record(chunk)?;
        // Before anything waits for it: depths that decrease make waiting free of cycles.
        if record.depth >= nesting.depth_end {
            let expected = Expected::AtMost(nesting.depth_end.saturating_sub(1));
            return Err(value("depth", record.depth, expected).at(format!("chunk {chunk}")));
        }
        self.frames().chunk(chunk, || self.rebuild(record, nesting).at(|| format!("chunk {chunk}")))
    }

    fn rebuild(&self, record: ChunkRecord, nesting: &mut Nesting) -> Result<FrameBytes, ReadError> {
        // The chunk that is asked for is bounded by its limits, and what it needs by this.
        let is_nested = nesting.depth_end <= CHUNK_DEPTH_MAX;
        if is_nested {
            let left = nesting.plain_bytes_left.checked_sub(record.plain_len);
            nesting.plain_bytes_left = left.ok_or_else(|| {
                value(
                    "plain bytes of the chunks that a chunk needs",
                    NESTED_PLAIN_LEN_MAX + 1,
                    Expected::AtMost(NESTED_PLAIN_LEN_MAX),
                )
            })?;
        }
        let recipe = Recipe::new(record)?;
        let range = recipe.range();
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let outer = std::mem::replace(&mut nesting.depth_end, record.depth);
        let pieces = self.pieces(record.content, range)?;
        let read = self.visit_within(pieces, Wanted::Whole, nesting, |part| {
            bytes.extend_from_slice(part);
            true
        });
        nesting.depth_end = outer;
        read?;
        let rebuilt = recipe.rebuild(&bytes)?;
        add(&self.frames().counters().chunks_rebuilt, 1);
        Ok(rebuilt)
    }

    /// Leaves the missing frames of `pieces` to the workers, all but the first.
    fn share(&self, pieces: &[Piece]) {
        let mut last = None;
        self.frames().share(pieces.iter().filter_map(|piece| match piece.kind {
            PieceKind::Frame { frame, .. } if last != Some(frame) => {
                last = Some(frame);
                Some((frame, piece.len))
            }
            _ => None,
        }));
    }

    /// Notes a read of `content`, and may have workers decode what is likely to be read next.
    fn prefetch_after(&self, content: u64, offset: u64, end: u64, content_len: u64) {
        let frames = self.frames();
        let Some(workers) = frames.workers() else { return };
        if !self.prefetch.is_enabled(frames.cache().bytes_max()) {
            return;
        }
        let Some(guess) = self.prefetch.observe(content, offset, end, content_len) else { return };
        if !self.prefetch.pays(frames.counters()) {
            return;
        }
        let store = self.me.clone();
        workers.guess(move || {
            if let Some(store) = store.upgrade() {
                store.follow(guess);
            }
        });
    }

    /// Decodes the missing frames of a guess. An error ends it; readers will meet the same error.
    fn follow(&self, guess: Guess) {
        match guess {
            Guess::Range { content, from, to } => {
                let _ = self.decode_range(content, from, to, u64::MAX);
            }
            Guess::Contents { first, count, len } => {
                let mut left = len;
                let end = self.content_count().min(first.saturating_add(count));
                let mut content = first;
                while content < end && left > 0 {
                    match self.decode_range(content, 0, left, left) {
                        Some(decoded) => left = left.saturating_sub(decoded),
                        None => break,
                    }
                    content += 1;
                }
                self.prefetch.followed(first..content);
            }
        }
    }

    /// Decodes the missing frames of a range. Returns their bytes, or `None` after an error.
    fn decode_range(&self, content: u64, from: u64, to: u64, bytes_max: u64) -> Option<u64> {
        let frames = self.frames();
        let mut decoded_len = 0;
        for piece in self.pieces(content, from..to).ok()? {
            let PieceKind::Frame { frame, .. } = piece.ok()?.kind else { continue };
            if frames.is_cached(frame) {
                continue;
            }
            if decoded_len >= bytes_max {
                break;
            }
            if frames.decode_ahead(frame, true).ok()? {
                add(&frames.counters().frames_prefetched, 1);
                decoded_len += frames.record(frame).ok()?.plain_len;
            }
        }
        Some(decoded_len)
    }
}

fn visit_zeroes(mut len: u64, visit: &mut impl FnMut(&[u8]) -> bool) -> bool {
    while len > 0 {
        let step = len.min(ZEROES.len() as u64);
        if !visit(&ZEROES[..step as usize]) {
            return false;
        }
        len -= step;
    }
    true
}
