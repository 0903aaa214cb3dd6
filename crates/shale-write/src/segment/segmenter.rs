//! Segment dedupe: finds byte ranges that the stream already holds, so that they become extents
//! instead of frame bytes.
//!
//! Bytes are fed in stream order, content by content. The result is a sequence of [`Piece`]s: new
//! bytes, which the caller appends to the stream, and matches, which are ranges of the stream. A
//! match may point anywhere in the image so far.
//!
//! A gear hash rolls over the bytes. Positions whose hash starts with enough zero bits are
//! *anchors*: one in 2^`step_log2`, chosen by content. The bytes before an anchor are hashed once
//! more and kept in a bounded index (see [`crate::segment::index`]). Where the hash is found again,
//! the earlier bytes are read back and compared, and the match is extended both ways byte by byte.
//! A hash is never trusted: every byte of a match is compared.
//!
//! A match is taken only if it is worth its cost for a reader (see [`crate::segment::policy`]): a
//! row in the table of extents and, more important, another frame to decode.

use std::ops::Range;

use crate::content::gear::GEAR;

use crate::segment::blocks::Blocks;
use crate::segment::homes::{ContentHomes, Homes};
use crate::segment::index::{AnchorIndex, WINDOW_LEN_MAX, key_of};
use crate::segment::policy::{Grain, Scatter};

/// One piece of a content, in order. The lengths of the pieces add up to that of the content.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes that the stream does not hold; the caller appends them.
    New(&'a [u8]),
    /// `len` bytes that equal the bytes of the stream from `stream_offset` on.
    Match {
        /// Where the equal bytes begin in the stream.
        stream_offset: u64,
        /// How many bytes are equal.
        len: u64,
    },
}

/// Bounds for the segmenter, decided once for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes hashed at an anchor (W), 32 to 1024. Shorter common ranges are not found.
    pub window_len: u32,
    /// Bytes of memory for the index. When it is full, every second anchor is dropped and the step
    /// doubles.
    pub index_bytes_max: u64,
}

/// Counters for the report; all deterministic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Bytes matched.
    pub(crate) match_bytes: u64,
    /// Matches.
    pub(crate) match_count: u64,
}

/// Pending bytes are emitted beyond this length. It bounds how far a match can grow backwards.
const PENDING_LEN_MAX: usize = 1 << 20;
/// Bytes scanned at a time.
const CHUNK_LEN: usize = 256 << 10;
/// Bytes read back at a time while a match is extended, at first and at most. Most matches of lines
/// are short, and refused.
const COMPARE_LEN: usize = 256;
const COMPARE_LEN_MAX: usize = 256 << 10;
/// Bytes compared at a time: a word.
const LANE: usize = 8;
/// Bytes scanned before the step of the index is read again.
const SCAN_LEN: usize = 256;
/// Bytes that decide the gear hash: older ones were shifted out of it.
pub(crate) const GEAR_LEN: u64 = 64;
/// Anchors whose slots in the index are fetched together.
const TOUCH_COUNT: usize = 16;

/// An anchor of bytes that the stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// Key of the window that ends at the anchor.
    pub(crate) key: u32,
    /// The hash that made it an anchor.
    pub(crate) gear: u64,
    /// Position in the stream.
    pub(crate) position: u64,
}

/// Returns the anchors of `bytes`, which lie at `start` in the stream: one in 2^`step_log2` bytes.
pub(crate) fn anchors_of(bytes: &[u8], start: u64, window_len: u32, step_log2: u32) -> Vec<Anchor> {
    let window_len = window_len.clamp(32, WINDOW_LEN_MAX) as usize;
    let mut anchors = Vec::new();
    let mut gear = 0u64;
    for (at, &byte) in bytes.iter().enumerate() {
        gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)]);
        let end = at + 1;
        if gear >> (64 - step_log2) == 0 && end >= window_len {
            let key = key_of(&bytes[end - window_len..end]);
            anchors.push(Anchor { key, gear, position: start + end as u64 });
        }
    }
    anchors
}

/// Appends the anchors of a part of a content to `anchors`: positions in the content, keys, and
/// hashes as a scan from the beginning of the content finds them. The part begins at `position`;
/// `before` are the bytes before it, at least as many as the window and the hash cover, or all.
/// Before the first whole window, keys are 0.
pub(crate) fn anchors_after(
    before: &[u8],
    (bytes, position): (&[u8], u64),
    window_len: u32,
    step_log2: u32,
    anchors: &mut Vec<Anchor>,
) {
    let window_len = window_len.clamp(32, WINDOW_LEN_MAX) as usize;
    let mut gear = 0u64;
    for &byte in before {
        gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)]);
    }
    let shift = 64 - step_log2;
    for (at, &byte) in bytes.iter().enumerate() {
        gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)]);
        if gear >> shift == 0 {
            let end = at + 1;
            let key = match end.checked_sub(window_len) {
                Some(start) => key_of(&bytes[start..end]),
                None if before.len() + end >= window_len => {
                    let old = &before[before.len() - (window_len - end)..];
                    key_of(&[old, &bytes[..end]].concat())
                }
                None => 0,
            };
            anchors.push(Anchor { key, gear, position: position + end as u64 });
        }
    }
}

/// A match that reached the end of the bytes at hand and may continue.
#[derive(Clone, Copy)]
struct OpenMatch {
    stream_offset: u64,
    len: u64,
    len_max: u64,
}

/// The state of segment dedupe for one image. Memory: `index_bytes_max`, the cache of [`Blocks`]
/// and about 2 MiB.
pub struct Segmenter {
    settings: Settings,
    index: AnchorIndex,
    scatter: Scatter,
    grain: Grain,
    /// Bytes that were not emitted yet: `[..scanned]` are new so far, the rest was not scanned.
    buf: Vec<u8>,
    scanned: usize,
    /// Length of the content as far as known, and how much of it was not fed yet.
    content_len: u64,
    ahead_len: u64,
    /// Bytes of the content that were fed.
    fed_len: u64,
    /// The gear hash at `scanned`, and how many bytes it covers since it was reset.
    gear: u64,
    gear_len: u64,
    /// Frames of the image that is continued, if there is one.
    homes: Option<Homes>,
    /// What is known of the content, if all of it was looked at.
    content_homes: Option<ContentHomes>,
    /// Bytes of the stream that were emitted as new, and those that were there before.
    stream_len: u64,
    /// Bytes of the current new run that were already emitted.
    run_len: u64,
    open: Option<OpenMatch>,
    scratch: Vec<u8>,
    blocks: Blocks,
    counters: Counters,
}

/// Where pieces go, and where the stream is read back.
///
/// The segmenter knows nothing of frames, files and threads: an error of the sink passes through
/// it as it is.
pub(crate) trait Sink {
    /// What may go wrong in the sink.
    type Error;

    /// Takes one piece. After a [`Piece::New`], [`Sink::read_at`] must be able to return its bytes.
    fn piece(&mut self, piece: Piece<'_>) -> Result<(), Self::Error>;

    /// Fills `out` with the bytes of the stream from `stream_offset` on. Only bytes that were
    /// emitted are asked for.
    fn read_at(&self, stream_offset: u64, out: &mut [u8]) -> Result<(), Self::Error>;
}

impl Segmenter {
    /// Makes an empty segmenter. `settings.window_len` is clamped to 32..=1024.
    /// The stream holds `stream_len` bytes already.
    pub fn new(settings: Settings, stream_len: u64) -> Self {
        let settings =
            Settings { window_len: settings.window_len.clamp(32, WINDOW_LEN_MAX), ..settings };
        Self {
            settings,
            index: AnchorIndex::new(settings.index_bytes_max),
            scatter: Scatter::default(),
            grain: Grain::TEXT,
            buf: Vec::new(),
            scanned: 0,
            content_len: 0,
            ahead_len: 0,
            fed_len: 0,
            gear: 0,
            gear_len: 0,
            homes: None,
            content_homes: None,
            stream_len,
            run_len: 0,
            open: None,
            scratch: vec![0; COMPARE_LEN_MAX],
            blocks: Blocks::default(),
            counters: Counters::default(),
        }
    }

    /// Remembers anchors of bytes that the stream held before.
    pub(crate) fn learn(&mut self, anchors: &[Anchor]) {
        for anchor in anchors {
            self.index.insert(anchor.key, anchor.gear, anchor.position);
        }
    }

    /// Lets contents share short ranges with the frames that resemble them most.
    pub(crate) fn set_homes(&mut self, homes: Homes) {
        self.homes = Some(homes);
    }

    /// Begins a content of about `content_len` bytes with the rules of `grain`.
    pub fn begin_content(&mut self, content_len: u64, grain: Grain) {
        debug_assert!(self.buf.is_empty(), "the content before was not ended");
        self.grain = grain;
        (self.content_len, self.ahead_len) = (content_len, content_len);
        self.fed_len = 0;
        self.gear = 0;
        self.gear_len = 0;
        self.content_homes = None;
        self.scatter.begin_content(self.stream_len);
    }

    /// Feeds the next bytes of the content. `known` are their anchors, as [`anchors_after`] finds
    /// them with a step that is not larger than that of the index; `None` if they are to be found
    /// here.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn push<S: Sink>(
        &mut self,
        mut bytes: &[u8],
        known: Option<&[Anchor]>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut known = known.map(Known::new);
        while !bytes.is_empty() {
            if self.open.is_some() {
                let used = self.grow_open(bytes, sink)?;
                bytes = &bytes[used..];
                self.feed(used);
                continue;
            }
            let take = bytes.len().min(CHUNK_LEN);
            self.buf.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            self.feed(take);
            self.scan(known.as_mut(), sink)?;
        }
        Ok(())
    }

    fn feed(&mut self, len: usize) {
        self.fed_len += len as u64;
        self.ahead_len = self.ahead_len.saturating_sub(len as u64);
    }

    /// log2 of the step that anchors must have now.
    pub(crate) fn step_log2(&self) -> u32 {
        self.index.step_log2()
    }

    /// Ends the content: emits everything that is pending.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn end_content<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        self.close_open(sink)?;
        let pending = self.buf.len();
        self.emit_new(pending, sink)?;
        self.run_len = 0;
        Ok(())
    }

    /// What was found so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Finds the frames of the image which is continued that have most of these bytes: the first
    /// ones of a content. Keys are enough for that, as every match is compared later. Returns
    /// whether there are any.
    pub(crate) fn find_homes(&mut self, bytes: &[u8], known: Option<&[Anchor]>) -> bool {
        let found = self.homes_of(bytes, known);
        let has_homes = !found.homes.is_empty();
        self.scatter.settle(found.homes.clone());
        // What the first bytes have tells nothing of the others.
        let is_whole = self.content_len <= bytes.len().min(CHUNK_LEN) as u64;
        self.content_homes = is_whole.then_some(found);
        has_homes
    }

    /// Returns these frames, and which others may have something in common with the content.
    fn homes_of(&self, bytes: &[u8], known: Option<&[Anchor]>) -> ContentHomes {
        let Some(homes) = &self.homes else { return ContentHomes::default() };
        let bytes = &bytes[..bytes.len().min(CHUNK_LEN)];
        let step_log2 = self.index.step_log2().max(self.grain.step_log2);
        let window_len = self.settings.window_len;
        let anchors = match known {
            None => anchors_of(bytes, 0, window_len, step_log2),
            Some(known) => {
                let here = u64::from(window_len)..=bytes.len() as u64;
                let kept = known.iter().filter(|anchor| {
                    here.contains(&anchor.position) && anchor.gear >> (64 - step_log2) == 0
                });
                kept.copied().collect()
            }
        };
        let positions = anchors.iter().map(|anchor| self.index.candidates(anchor.key));
        homes.of_content(positions, step_log2, self.grain.far_len_min)
    }

    /// Scans the bytes that were not scanned yet.
    fn scan<S: Sink>(
        &mut self,
        mut known: Option<&mut Known<'_>>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        while self.scanned < self.buf.len() {
            let at = self.scanned;
            let end = self.buf.len().min(at + SCAN_LEN);
            let step_log2 = self.index.step_log2().max(self.grain.step_log2);
            let anchor = match &mut known {
                None => self.roll(at..end, step_log2).map(|stop| (stop, None)),
                Some(known) => {
                    // After a match the hash begins anew, and differs until it covers enough.
                    let own_len = GEAR_LEN.saturating_sub(self.gear_len) as usize;
                    let own_end = end.min(at + own_len);
                    match self.roll(at..own_end, step_log2) {
                        Some(stop) => Some((stop, None)),
                        None => {
                            let start = self.fed_len - self.buf.len() as u64;
                            let range = start + own_end as u64..start + end as u64;
                            let found = known.next_in(range, step_log2, &self.index);
                            found.map(|anchor| ((anchor.position - start) as usize, Some(anchor)))
                        }
                    }
                }
            };
            let (stop, found) = anchor.unwrap_or((end, None));
            self.gear_len += (stop - at) as u64;
            self.scanned = stop;
            if let Some(found) = found {
                self.gear = found.gear;
            }
            if anchor.is_some() && self.gear_len >= u64::from(self.settings.window_len) {
                self.at_anchor(self.gear, found.map(|anchor| anchor.key), sink)?;
            }
            if self.scanned >= PENDING_LEN_MAX {
                let keep = self.settings.window_len as usize;
                self.emit_new(self.scanned - keep, sink)?;
            }
        }
        Ok(())
    }

    /// Rolls the hash over a range of the pending bytes. Stops after the first anchor, and returns
    /// where.
    fn roll(&mut self, range: Range<usize>, step_log2: u32) -> Option<usize> {
        let table = &GEAR;
        let shift = 64 - step_log2;
        let mut gear = self.gear;
        let mut anchor = None;
        for (at, &byte) in range.clone().zip(&self.buf[range]) {
            gear = (gear << 1).wrapping_add(table[usize::from(byte)]);
            if gear >> shift == 0 {
                anchor = Some(at + 1);
                break;
            }
        }
        self.gear = gear;
        anchor
    }

    /// Looks up the window that ends at `scanned`. Takes the match if there is one worth taking,
    /// and otherwise remembers the window. `key` is that of the window, if it is known.
    fn at_anchor<S: Sink>(
        &mut self,
        gear: u64,
        key: Option<u32>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let end = self.scanned;
        let window_len = self.settings.window_len as usize;
        if end < window_len {
            return Ok(()); // the window began in bytes that were matched or emitted
        }
        let here = self.stream_len + end as u64; // stream position if these bytes stay new
        let key = key.unwrap_or_else(|| key_of(&self.buf[end - window_len..end]));
        let mut best: Option<VerifiedMatch> = None;
        for candidate in self.index.candidates(key) {
            if candidate >= here || candidate < window_len as u64 {
                continue;
            }
            if let (Some(homes), Some(found)) = (&self.homes, &self.content_homes)
                && !homes.is_worth_a_look(found, candidate)
            {
                continue;
            }
            if let Some(found) = self.extend(candidate, end, sink)?
                && best.is_none_or(|best| found.len() > best.len())
            {
                best = Some(found);
            }
        }
        if let Some(found) = best {
            // A match that reaches the end of the bytes at hand may continue to the end of the
            // content.
            let ahead_len = if found.open { self.ahead_len } else { 0 };
            let len = (found.len() + ahead_len).min(found.len_max);
            let behind_len = self.ahead_len + (self.buf.len() - found.begin) as u64;
            let position = self.content_len.saturating_sub(behind_len);
            if self.scatter.accepts(&self.grain, position, found.stream_offset, len) {
                return self.take(found, sink);
            }
        }
        if self.run_len + (end as u64) >= window_len as u64 {
            self.index.insert(key, gear, here);
        }
        Ok(())
    }

    /// Compares the bytes around `end` with the stream around `candidate`, in both directions.
    fn extend<S: Sink>(
        &mut self,
        candidate: u64,
        end: usize,
        sink: &S,
    ) -> Result<Option<VerifiedMatch>, S::Error> {
        let window_len = self.settings.window_len as usize;
        let here = self.stream_len + end as u64;
        // The source must not reach into the bytes that the match itself keeps out of the stream.
        let len_max = here - candidate;
        let forward_max =
            (self.buf.len() - end).min(usize::try_from(len_max).unwrap_or(usize::MAX));
        // Backwards first, over the window and pending bytes, then forwards.
        let back_max = end.min(usize::try_from(candidate).unwrap_or(usize::MAX));
        let back = self.common_back(candidate, end, back_max, sink)?;
        if back < window_len {
            return Ok(None);
        }
        let back = back.min(usize::try_from(len_max).unwrap_or(usize::MAX));
        let forward_max = forward_max.min((len_max - back as u64) as usize);
        let forward = self.common_forward(candidate, end, forward_max, sink)?;
        let total = (back + forward) as u64;
        Ok(Some(VerifiedMatch {
            begin: end - back,
            end: end + forward,
            stream_offset: candidate - back as u64,
            len_max,
            open: end + forward == self.buf.len() && total < len_max,
        }))
    }

    fn common_back<S: Sink>(
        &mut self,
        candidate: u64,
        end: usize,
        back_max: usize,
        sink: &S,
    ) -> Result<usize, S::Error> {
        let mut done = 0;
        let mut piece = COMPARE_LEN.max(self.settings.window_len as usize * 2);
        while done < back_max {
            let len = piece.min(back_max - done);
            let mut scratch = std::mem::take(&mut self.scratch);
            let from = candidate - (done + len) as u64;
            let read = self.read_back(from, &mut scratch[..len], sink);
            let same = common_len_back(&self.buf[end - done - len..end - done], &scratch[..len]);
            self.scratch = scratch;
            read?;
            done += same;
            if same < len {
                break;
            }
            piece = (piece * 4).min(COMPARE_LEN_MAX);
        }
        Ok(done)
    }

    fn common_forward<S: Sink>(
        &mut self,
        candidate: u64,
        end: usize,
        forward_max: usize,
        sink: &S,
    ) -> Result<usize, S::Error> {
        let mut done = 0;
        let mut piece = COMPARE_LEN;
        while done < forward_max {
            let len = piece.min(forward_max - done);
            let mut scratch = std::mem::take(&mut self.scratch);
            let read = self.read_back(candidate + done as u64, &mut scratch[..len], sink);
            let same = common_len(&self.buf[end + done..end + done + len], &scratch[..len]);
            self.scratch = scratch;
            read?;
            done += same;
            if same < len {
                break;
            }
            piece = (piece * 4).min(COMPARE_LEN_MAX);
        }
        Ok(done)
    }

    /// Reads bytes of the stream, some of which may still be pending here.
    fn read_back<S: Sink>(&mut self, from: u64, out: &mut [u8], sink: &S) -> Result<(), S::Error> {
        let emitted = self.stream_len.saturating_sub(from).min(out.len() as u64) as usize;
        if emitted > 0 {
            let read = |offset, out: &mut [u8]| sink.read_at(offset, out);
            self.blocks.read_at(from, &mut out[..emitted], self.stream_len, read)?;
        }
        if emitted < out.len() {
            let at = (from + emitted as u64 - self.stream_len) as usize;
            let len = out.len() - emitted;
            out[emitted..].copy_from_slice(&self.buf[at..at + len]);
        }
        Ok(())
    }

    /// Emits the bytes before the match, and then the match, unless it stays open.
    fn take<S: Sink>(&mut self, found: VerifiedMatch, sink: &mut S) -> Result<(), S::Error> {
        let len = found.len();
        self.emit_new(found.begin, sink)?;
        self.run_len = 0;
        self.buf.drain(..len as usize);
        self.scanned = 0;
        self.gear = 0;
        self.gear_len = 0;
        let VerifiedMatch { stream_offset, len_max, .. } = found;
        self.open = Some(OpenMatch { stream_offset, len, len_max });
        if !found.open {
            self.close_open(sink)?;
        }
        Ok(())
    }

    /// Lets the open match cover the head of `bytes`, and closes it where it ends. Returns how many
    /// bytes it covers.
    fn grow_open<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<usize, S::Error> {
        let Some(open) = &mut self.open else { return Ok(0) };
        let mut used = 0;
        let is_over = loop {
            let want = COMPARE_LEN_MAX.min(bytes.len() - used);
            let want = want.min(usize::try_from(open.len_max - open.len).unwrap_or(want));
            if want == 0 {
                break used < bytes.len() || open.len == open.len_max;
            }
            sink.read_at(open.stream_offset + open.len, &mut self.scratch[..want])?;
            let same = common_len(&bytes[used..used + want], &self.scratch[..want]);
            used += same;
            open.len += same as u64;
            if same < want {
                break true;
            }
        };
        if is_over {
            self.close_open(sink)?;
        }
        Ok(used)
    }

    /// Emits the open match, if there is one.
    fn close_open<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let Some(OpenMatch { stream_offset, len, .. }) = self.open.take() else { return Ok(()) };
        self.counters.match_bytes += len;
        self.counters.match_count += 1;
        self.scatter.took(stream_offset, len);
        sink.piece(Piece::Match { stream_offset, len })
    }

    /// Emits the first `len` pending bytes as new.
    fn emit_new<S: Sink>(&mut self, len: usize, sink: &mut S) -> Result<(), S::Error> {
        if len == 0 {
            return Ok(());
        }
        sink.piece(Piece::New(&self.buf[..len]))?;
        self.run_len += len as u64;
        self.stream_len += len as u64;
        self.buf.drain(..len);
        self.scanned = self.scanned.saturating_sub(len);
        Ok(())
    }
}

/// Anchors that were found beforehand.
struct Known<'a> {
    anchors: &'a [Anchor],
    /// The first one that may still be needed.
    next: usize,
    /// The first one whose slots were not fetched.
    untouched: usize,
}

impl<'a> Known<'a> {
    fn new(anchors: &'a [Anchor]) -> Self {
        Self { anchors, next: 0, untouched: 0 }
    }

    /// Returns the first anchor after the start of a range of the content, up to its end, that has
    /// this step.
    fn next_in(
        &mut self,
        range: Range<u64>,
        step_log2: u32,
        index: &AnchorIndex,
    ) -> Option<&'a Anchor> {
        while let Some(anchor) = self.anchors.get(self.next).filter(|a| a.position <= range.end) {
            if self.next >= self.untouched {
                self.untouched = self.anchors.len().min(self.next + TOUCH_COUNT);
                let soon = &self.anchors[self.next..self.untouched];
                index.touch(soon.iter().map(|anchor| anchor.key));
            }
            self.next += 1;
            if anchor.position > range.start && anchor.gear >> (64 - step_log2) == 0 {
                return Some(anchor);
            }
        }
        None
    }
}

/// A match in the pending bytes whose bytes were compared.
#[derive(Clone, Copy)]
struct VerifiedMatch {
    begin: usize,
    end: usize,
    stream_offset: u64,
    len_max: u64,
    /// Whether the match reaches the end of the bytes at hand.
    open: bool,
}

impl VerifiedMatch {
    fn len(&self) -> u64 {
        (self.end - self.begin) as u64
    }
}

/// Returns how many bytes two slices of equal length share at the front.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let ((lanes_a, rest_a), (lanes_b, rest_b)) = (a.as_chunks::<LANE>(), b.as_chunks::<LANE>());
    for (at, (x, y)) in lanes_a.iter().zip(lanes_b).enumerate() {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return at * LANE + differing.trailing_zeros() as usize / 8;
        }
    }
    lanes_a.len() * LANE + rest_a.iter().zip(rest_b).take_while(|(x, y)| x == y).count()
}

/// Returns how many bytes two slices of equal length share at the back.
fn common_len_back(a: &[u8], b: &[u8]) -> usize {
    let ((rest_a, lanes_a), (rest_b, lanes_b)) = (a.as_rchunks::<LANE>(), b.as_rchunks::<LANE>());
    for (at, (x, y)) in lanes_a.iter().zip(lanes_b).rev().enumerate() {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return at * LANE + differing.leading_zeros() as usize / 8;
        }
    }
    let rest = rest_a.iter().zip(rest_b).rev();
    lanes_a.len() * LANE + rest.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests;
