//! Segment dedupe: finds, in the stream of unique contents, byte ranges that the stream already
//! holds, so that they become extents instead of frame bytes.
//!
//! Bytes are fed in stream order with content boundaries known. The result is a sequence of
//! [`Piece`]s: new bytes (to be appended to the stream by the caller), matches (a range of the
//! stream that has been emitted before) and zero runs. The horizon is the whole image.
//!
//! How it works: a gear hash rolls over the bytes; positions whose hash starts with enough zero
//! bits are *anchors* (content-defined, one in 2^`step_log2`). The bytes before an anchor are
//! hashed once more and kept in a bounded [`index`]. Where an anchor is met again, the earlier
//! bytes are read
//! back through [`PlainStore`], compared, and the match is extended both ways byte by byte. A hash
//! is never believed: every byte of a match has been compared.
//!
//! A match is only taken when it is worth what it costs a reader (see [`policy`]): a record in the
//! extents table and, more important, another frame to decode.
//!
//! Not done here: whole-file dedupe (it comes before), framing, references.

mod blocks;
pub mod index;
pub mod policy;

use std::io;

pub use blocks::BLOCK_BYTES;
use blocks::Blocks;
use index::{AnchorIndex, WINDOW_LEN_MAX, key_of};
use policy::{Grain, Scatter};

/// Where the bytes that were emitted as [`Piece::New`] can be read back.
pub trait PlainStore {
    /// Fills `buf` with the stream's bytes from `stream_offset` on. Only ranges that were emitted
    /// are asked for.
    fn read_at(&self, stream_offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

/// One piece of a content, in order. The lengths of a content's pieces add up to its length.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes the stream does not hold: the caller appends them to it.
    New(&'a [u8]),
    /// `len` bytes that equal the stream's bytes from `stream_offset` on.
    Match {
        /// Where the equal bytes begin in the stream.
        stream_offset: u64,
        /// How many there are.
        len: u64,
    },
    /// `len` zero bytes.
    Zero {
        /// How many there are.
        len: u64,
    },
}

/// What the segmenter may spend, decided once an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes hashed at an anchor (W), 32 to 1024: shorter common ranges are not found.
    pub window_len: u32,
    /// Bytes of memory the index may use. When it is full, every second anchor is dropped and the
    /// step doubles.
    pub index_bytes_max: u64,
    /// Shortest matches taken from small contents, near and far, see [`Grain`].
    pub lens_min: (u32, u32),
    /// Zero runs of at least this many bytes become [`Piece::Zero`]. 0 turns them off.
    pub zero_len_min: u32,
}

/// Counters for the report; all deterministic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes emitted as new.
    pub new_bytes: u64,
    /// Bytes matched.
    pub match_bytes: u64,
    /// Bytes in zero runs.
    pub zero_bytes: u64,
    /// New runs; one that is emitted in several slices counts once.
    pub new_count: u64,
    /// Matches.
    pub match_count: u64,
    /// Zero runs.
    pub zero_count: u64,
    /// Anchors looked up.
    pub lookup_count: u64,
    /// Candidates whose bytes differed.
    pub false_count: u64,
    /// Matches refused by the policy.
    pub refused_count: u64,
    /// log2 of the step the index ended with.
    pub step_log2: u32,
}

/// Pending bytes are flushed once they pass this; it bounds how far back a match can grow.
const PENDING_LEN_MAX: usize = 1 << 20;
/// Bytes scanned at a time.
const CHUNK_LEN: usize = 256 << 10;
/// Bytes read back from the store at a time while a match is extended.
const COMPARE_LEN: usize = 4 << 10;
const COMPARE_LEN_MAX: usize = 256 << 10;
/// Bytes compared at a time.
const LANE: usize = 32;
/// Alignment at which the scan tests for zeroes.
const ZERO_PROBE_LEN: usize = 256;

/// A match or zero run that reached the end of the bytes at hand and may go on.
#[derive(Clone, Copy)]
enum Open {
    None,
    Match { stream_offset: u64, len: u64, len_max: u64 },
    Zero { len: u64 },
}

/// The state of one image's segment dedupe. Memory: `index_bytes_max` plus [`BLOCK_BYTES`] and
/// about 2 MiB.
pub struct Segmenter {
    settings: Settings,
    index: AnchorIndex,
    scatter: Scatter,
    grain: Grain,
    /// Bytes not emitted yet: `[..scanned]` are new so far, the rest has not been looked at.
    buf: Vec<u8>,
    scanned: usize,
    /// Bytes of the content as far as known, and those of them that were not fed yet.
    content_len: u64,
    ahead_len: u64,
    /// The gear hash at `scanned`, and how many bytes it has seen since it was reset.
    gear: u64,
    gear_len: u64,
    /// Bytes of the stream given out as `New`.
    stream_len: u64,
    /// Bytes of the current new run that were emitted already.
    run_len: u64,
    open: Open,
    scratch: Vec<u8>,
    blocks: Blocks,
    counters: Counters,
}

/// What comes out: called once for every piece.
pub trait Sink {
    /// Takes one piece. After a `New`, the store must be able to read those bytes back.
    fn piece(&mut self, piece: Piece<'_>) -> io::Result<()>;
    /// Reads back what was emitted.
    fn store(&self) -> &dyn PlainStore;
}

impl Segmenter {
    /// Makes an empty segmenter. `settings.window_len` is clamped to 32..=1024.
    pub fn new(settings: Settings) -> Self {
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
            gear: 0,
            gear_len: 0,
            stream_len: 0,
            run_len: 0,
            open: Open::None,
            scratch: vec![0; COMPARE_LEN_MAX],
            blocks: Blocks::default(),
            counters: Counters::default(),
        }
    }

    /// Begins a content of `content_len` bytes (as far as known) with the rules of `grain`.
    pub fn begin_content(&mut self, content_len: u64, grain: Grain) {
        debug_assert!(self.buf.is_empty(), "the content before was not ended");
        self.grain = grain;
        (self.content_len, self.ahead_len) = (content_len, content_len);
        self.gear = 0;
        self.gear_len = 0;
        self.scatter.begin_content(self.stream_len);
    }

    /// Feeds the next bytes of the content.
    pub fn push(&mut self, mut bytes: &[u8], sink: &mut dyn Sink) -> io::Result<()> {
        while !bytes.is_empty() {
            if !matches!(self.open, Open::None) {
                let used = self.grow_open(bytes, sink)?;
                bytes = &bytes[used..];
                self.ahead_len = self.ahead_len.saturating_sub(used as u64);
                continue;
            }
            let take = bytes.len().min(CHUNK_LEN);
            self.buf.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            self.ahead_len = self.ahead_len.saturating_sub(take as u64);
            self.scan(sink)?;
        }
        Ok(())
    }

    /// Ends the content: everything that is pending is emitted.
    pub fn end_content(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        self.close_open(sink)?;
        let pending = self.buf.len();
        self.emit_new(pending, sink)?;
        self.run_len = 0;
        Ok(())
    }

    /// Bytes of the stream emitted so far.
    pub fn stream_len(&self) -> u64 {
        self.stream_len
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        Counters { step_log2: self.index.step_log2(), ..self.counters }
    }

    /// Rolls over the bytes that have not been looked at.
    fn scan(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let table = &index::GEAR;
        while self.scanned < self.buf.len() {
            // Probe for zeroes and remember where the next probe is due.
            let at = self.scanned;
            if self.settings.zero_len_min > 0 && self.try_zero(at, sink)? {
                continue;
            }
            let end = self.buf.len().min(at + ZERO_PROBE_LEN);
            let step_log2 = self.index.step_log2().max(self.grain.step_log2);
            let shift = 64 - step_log2;
            let mut gear = self.gear;
            let mut anchor = None;
            for (i, &byte) in self.buf[at..end].iter().enumerate() {
                gear = (gear << 1).wrapping_add(table[usize::from(byte)]);
                if gear >> shift == 0 {
                    anchor = Some(at + i + 1);
                    break;
                }
            }
            let stop = anchor.unwrap_or(end);
            self.gear = gear;
            self.gear_len += (stop - at) as u64;
            self.scanned = stop;
            if anchor.is_some() && self.gear_len >= u64::from(self.settings.window_len) {
                self.at_anchor(gear, sink)?;
            }
            if self.scanned >= PENDING_LEN_MAX {
                let keep = self.settings.window_len as usize;
                self.emit_new(self.scanned - keep, sink)?;
            }
        }
        Ok(())
    }

    /// Looks the window that ends at `scanned` up, takes the match if there is one, and otherwise
    /// remembers the window.
    fn at_anchor(&mut self, gear: u64, sink: &mut dyn Sink) -> io::Result<()> {
        let end = self.scanned;
        let window_len = self.settings.window_len as usize;
        if end < window_len {
            return Ok(()); // the window began in bytes that were matched or emitted
        }
        let here = self.stream_len + end as u64; // stream position if these bytes stay new
        let key = key_of(&self.buf[end - window_len..end]);
        self.counters.lookup_count += 1;
        let mut best: Option<Found> = None;
        for candidate in self.index.candidates(key) {
            if candidate >= here || candidate < window_len as u64 {
                continue;
            }
            match self.extend(candidate, end, sink.store())? {
                None => self.counters.false_count += 1,
                Some(found) => {
                    if best.is_none_or(|b| found.len() > b.len()) {
                        best = Some(found);
                    }
                }
            }
        }
        if let Some(found) = best {
            // One that reaches the end of the bytes at hand may go on as far as the content does.
            let ahead_len = if found.open { self.ahead_len } else { 0 };
            let len = (found.len() + ahead_len).min(found.len_max);
            let behind_len = self.ahead_len + (self.buf.len() - found.begin) as u64;
            let position = self.content_len.saturating_sub(behind_len);
            if self.scatter.accepts(&self.grain, position, found.stream_offset, len) {
                return self.take(found, sink);
            }
            self.counters.refused_count += 1;
        }
        if self.run_len + (end as u64) >= window_len as u64 {
            self.index.insert(key, gear, here);
        }
        Ok(())
    }

    /// Compares the bytes around `end` with the stream's around `candidate`, both ways.
    fn extend(
        &mut self,
        candidate: u64,
        end: usize,
        store: &dyn PlainStore,
    ) -> io::Result<Option<Found>> {
        let window_len = self.settings.window_len as usize;
        let here = self.stream_len + end as u64;
        // The source may not reach into the bytes that the match itself keeps out of the stream.
        let len_max = here - candidate;
        let forward_max =
            (self.buf.len() - end).min(usize::try_from(len_max).unwrap_or(usize::MAX));
        // Backwards first over the window and what is pending, then forwards.
        let back_max = end.min(usize::try_from(candidate).unwrap_or(usize::MAX));
        let back = self.common_back(candidate, end, back_max, store)?;
        if back < window_len {
            return Ok(None);
        }
        let back = back.min(usize::try_from(len_max).unwrap_or(usize::MAX));
        let forward_max = forward_max.min((len_max - back as u64) as usize);
        let forward = self.common_forward(candidate, end, forward_max, store)?;
        let total = (back + forward) as u64;
        Ok(Some(Found {
            begin: end - back,
            end: end + forward,
            stream_offset: candidate - back as u64,
            len_max,
            open: end + forward == self.buf.len() && total < len_max,
        }))
    }

    fn common_back(
        &mut self,
        candidate: u64,
        end: usize,
        back_max: usize,
        store: &dyn PlainStore,
    ) -> io::Result<usize> {
        let mut done = 0;
        let mut piece = COMPARE_LEN.min(self.settings.window_len as usize * 2);
        while done < back_max {
            let len = piece.min(back_max - done);
            let mut scratch = std::mem::take(&mut self.scratch);
            let from = candidate - (done + len) as u64;
            let read = self.read_back(from, &mut scratch[..len], store);
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

    fn common_forward(
        &mut self,
        candidate: u64,
        end: usize,
        forward_max: usize,
        store: &dyn PlainStore,
    ) -> io::Result<usize> {
        let mut done = 0;
        let mut piece = COMPARE_LEN;
        while done < forward_max {
            let len = piece.min(forward_max - done);
            let mut scratch = std::mem::take(&mut self.scratch);
            let read = self.read_back(candidate + done as u64, &mut scratch[..len], store);
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

    /// Reads stream bytes that may still be pending here.
    fn read_back(&mut self, from: u64, out: &mut [u8], store: &dyn PlainStore) -> io::Result<()> {
        let emitted = self.stream_len.saturating_sub(from).min(out.len() as u64) as usize;
        if emitted > 0 {
            self.blocks.read_at(from, &mut out[..emitted], self.stream_len, store)?;
        }
        if emitted < out.len() {
            let at = (from + emitted as u64 - self.stream_len) as usize;
            let len = out.len() - emitted;
            out[emitted..].copy_from_slice(&self.buf[at..at + len]);
        }
        Ok(())
    }

    /// Emits what is before the match, then the match (or leaves it open).
    fn take(&mut self, found: Found, sink: &mut dyn Sink) -> io::Result<()> {
        let len = found.len();
        self.emit_new(found.begin, sink)?;
        self.run_len = 0;
        self.buf.drain(..len as usize);
        self.scanned = 0;
        self.gear = 0;
        self.gear_len = 0;
        self.open = Open::Match { stream_offset: found.stream_offset, len, len_max: found.len_max };
        if !found.open {
            self.close_open(sink)?;
        }
        Ok(())
    }

    /// Lets an open match or zero run swallow the head of `bytes`; closes it where it stops.
    fn grow_open(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> io::Result<usize> {
        let (used, stopped) = match &mut self.open {
            Open::None => return Ok(0),
            Open::Zero { len } => {
                let used = zero_len(bytes);
                *len += used as u64;
                (used, used < bytes.len())
            }
            Open::Match { stream_offset, len, len_max } => {
                let mut used = 0;
                loop {
                    let want = COMPARE_LEN_MAX.min(bytes.len() - used);
                    let want = want.min(usize::try_from(*len_max - *len).unwrap_or(want));
                    if want == 0 {
                        break (used, used < bytes.len() || *len == *len_max);
                    }
                    sink.store().read_at(*stream_offset + *len, &mut self.scratch[..want])?;
                    let same = common_len(&bytes[used..used + want], &self.scratch[..want]);
                    used += same;
                    *len += same as u64;
                    if same < want {
                        break (used, true);
                    }
                }
            }
        };
        if stopped {
            self.close_open(sink)?;
        }
        Ok(used)
    }

    /// Emits the open match or zero run, if any.
    fn close_open(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => Ok(()),
            Open::Zero { len } => {
                self.counters.zero_bytes += len;
                self.counters.zero_count += 1;
                sink.piece(Piece::Zero { len })
            }
            Open::Match { stream_offset, len, .. } => {
                self.counters.match_bytes += len;
                self.counters.match_count += 1;
                self.scatter.took(stream_offset, len);
                sink.piece(Piece::Match { stream_offset, len })
            }
        }
    }

    /// Tests for a zero run around `at`; takes it if it is long enough.
    fn try_zero(&mut self, at: usize, sink: &mut dyn Sink) -> io::Result<bool> {
        let ahead = zero_len(&self.buf[at..]);
        if ahead == 0 {
            return Ok(false);
        }
        let behind = self.buf[..at].iter().rev().take_while(|&&b| b == 0).count();
        if ahead + behind < self.settings.zero_len_min as usize {
            return Ok(false);
        }
        let (begin, end) = (at - behind, at + ahead);
        self.emit_new(begin, sink)?;
        self.run_len = 0;
        let len = end - begin;
        let open = end - begin == self.buf.len();
        self.buf.drain(..len);
        self.scanned = 0;
        self.gear = 0;
        self.gear_len = 0;
        self.open = Open::Zero { len: len as u64 };
        if !open {
            self.close_open(sink)?;
        }
        Ok(true)
    }

    /// Emits the first `len` pending bytes as new.
    fn emit_new(&mut self, len: usize, sink: &mut dyn Sink) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        sink.piece(Piece::New(&self.buf[..len]))?;
        if self.run_len == 0 {
            self.counters.new_count += 1;
        }
        self.counters.new_bytes += len as u64;
        self.run_len += len as u64;
        self.stream_len += len as u64;
        self.buf.drain(..len);
        self.scanned = self.scanned.saturating_sub(len);
        Ok(())
    }
}

/// A verified match in the pending bytes.
#[derive(Clone, Copy)]
struct Found {
    begin: usize,
    end: usize,
    stream_offset: u64,
    len_max: u64,
    /// It reached the end of the bytes at hand.
    open: bool,
}

impl Found {
    fn len(&self) -> u64 {
        (self.end - self.begin) as u64
    }
}

/// Bytes that two slices of equal length have in common at the front.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let lanes = a.as_chunks::<LANE>().0.iter().zip(b.as_chunks::<LANE>().0);
    let at = lanes.take_while(|(x, y)| x == y).count() * LANE;
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// Bytes that two slices of equal length have in common at the back.
fn common_len_back(a: &[u8], b: &[u8]) -> usize {
    let lanes = a.as_rchunks::<LANE>().1.iter().zip(b.as_rchunks::<LANE>().1).rev();
    let back = lanes.take_while(|(x, y)| x == y).count() * LANE;
    let (a, b) = (&a[..a.len() - back], &b[..b.len() - back]);
    back + a.iter().zip(b).rev().take_while(|(x, y)| x == y).count()
}

/// Zero bytes at the front.
fn zero_len(bytes: &[u8]) -> usize {
    let lanes = bytes.as_chunks::<LANE>().0.iter();
    let at = lanes.take_while(|lane| **lane == [0; LANE]).count() * LANE;
    at + bytes[at..].iter().take_while(|&&b| b == 0).count()
}

#[cfg(test)]
mod tests;
