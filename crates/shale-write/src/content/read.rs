//! Reads contents: bytes, holes, zero runs and digest in one pass.
//!
//! The metadata of a file are read before and after its bytes. If kind, length, mtime or ctime
//! differ, or bytes are missing, the bytes may be a mixture of two states. Then the file is read
//! again, up to [`ATTEMPTS_MAX`] times, and the last reading is taken, unless the caller is strict.
//! A file that only grew is taken at once, with the length that it had when it was opened. Small
//! files are read whole, by any thread; large ones in pieces, by the caller, see [`PieceReader`].

use std::io::{self, Read};
use std::ops::Range;

use crate::content::categorize::category_of;
use crate::content::samples::{SampleFinder, SampleRun};
use crate::plan::digest::{ContentDigest, ContentHasher, is_zero};
use crate::recompress::container::Container;
use crate::recompress::gate::Reservation;
use shale_format::{Category, ChunkRecord, InodeKind};
use shale_model::{ChangeKind, ContentFile, Metadata, OpenContent, ProblemKind};

/// Files up to this length are read whole into memory.
pub(crate) const SMALL_LEN_MAX: u64 = 1 << 20;
/// Attempts to read a file before it is reported as changing.
pub(crate) const ATTEMPTS_MAX: u32 = 4;
/// An aligned block of this length that is all zero starts a zero run. A run costs two rows of the
/// table of extents, about ten bytes. A codec stores as many zeroes in about as much, but a reader
/// has to decode them.
pub(crate) const ZERO_BLOCK_LEN: usize = 4096;
/// Shorter runs of zeroes between samples are no runs.
const SAMPLE_ZEROES_LEN_MIN: u64 = 256 << 10;
/// Bytes read at a time from large files: a multiple of the blocks of zeroes and of digests.
pub(crate) const PIECE_LEN: usize = 1 << 20;

/// A part of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Run {
    /// Bytes, at this range of the buffer.
    Data(Range<usize>),
    /// This many zero bytes that are data.
    Zero(u64),
    /// This many bytes of a hole.
    Hole(u64),
}

/// A content that was read whole.
#[derive(Debug)]
pub(crate) struct SmallContent {
    pub(crate) metadata: Metadata,
    pub(crate) bytes: Vec<u8>,
    pub(crate) runs: Vec<Run>,
    pub(crate) holes: Vec<Range<u64>>,
    pub(crate) digest: ContentDigest,
    pub(crate) category: Category,
    /// Ranges of samples, in order.
    pub(crate) samples: Vec<(Range<usize>, SampleRun)>,
    /// See [`crate::layout::similarity`]; empty where the order does not need it.
    pub(crate) similarity_sketch: Vec<u64>,
    /// Number of further attempts.
    pub(crate) read_again: u64,
    /// The change of the file while it was read, if there was one.
    pub(crate) change: Option<ChangeKind>,
    /// Deflate streams in it, in order.
    pub(crate) streams: Vec<FoundStream>,
    /// Its streams were not looked for yet: an equal file was met, or there was no memory.
    pub(crate) is_deferred: bool,
    /// The memory that the streams take.
    pub(crate) reservation: Option<Reservation>,
}

/// A deflate stream in a content.
#[derive(Debug)]
pub(crate) struct FoundStream {
    /// What it holds.
    pub(crate) plain: Box<SmallContent>,
    /// Ranges of the content, ascending, and what they are rebuilt from. `base`, `content` and
    /// `depth` are not known yet.
    pub(crate) chunks: Vec<(Range<usize>, ChunkRecord)>,
    /// What it was found in.
    pub(crate) kind: Container,
}

/// What to do about files that change while they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Never take a reading that may mix two states.
    pub(crate) strict: bool,
}

impl Patience {
    /// Returns whether to take what an attempt has read.
    pub(crate) fn takes(self, change: Option<ChangeKind>, attempt: u32) -> bool {
        match change {
            None => true,
            Some(_) if self.strict => false,
            // The file was appended to, as logs are: its beginning is what it was.
            Some(ChangeKind::Grew { .. }) => true,
            Some(_) => attempt + 1 == ATTEMPTS_MAX,
        }
    }
}

/// Why a content was not read.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// The entry is left out for this reason.
    Problem(ProblemKind),
    /// The file became large meanwhile and must be read in pieces.
    Large,
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        Self::Problem(ProblemKind::of(&error))
    }
}

/// Opens and reads a file of at most `len_max` bytes. `cancelled` is asked before each attempt.
pub(crate) fn read_small(
    content: &dyn OpenContent,
    len_max: u64,
    patience: Patience,
    cancelled: &dyn Fn() -> bool,
) -> Result<SmallContent, ReadFailure> {
    for attempt in 0..ATTEMPTS_MAX {
        if cancelled() {
            break;
        }
        let mut file = content.open()?;
        let before = file.metadata()?;
        if before.kind != InodeKind::File {
            return Err(ReadFailure::Problem(ProblemKind::Changed));
        }
        if before.len > len_max {
            return Err(ReadFailure::Large);
        }
        let (mut bytes, mut holes) = read_whole(&mut *file, before.len)?;
        let after = file.metadata()?;
        // What seemed to be a hole at the end may have been cut off.
        let len = after.len.min(bytes.len() as u64);
        bytes.truncate(len as usize);
        holes.retain_mut(|hole| {
            hole.end = hole.end.min(len);
            !hole.is_empty()
        });
        let change = change_of(&before, &after, len);
        if patience.takes(change, attempt) {
            let read_again = u64::from(attempt);
            let metadata = Metadata { len, ..before };
            return Ok(SmallContent {
                read_again,
                change,
                ..small_content(metadata, bytes, holes)
            });
        }
    }
    Err(ReadFailure::Problem(ProblemKind::Changed))
}

/// Returns the first bytes of a file, at most `len`.
pub(crate) fn first_bytes(content: &dyn OpenContent, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read_len = read_up_to(&mut *content.open()?, 0, &mut bytes)?;
    bytes.truncate(read_len);
    Ok(bytes)
}

/// Returns the sample of a large content that is in memory; see [`LargeFile::sample`].
pub(crate) fn sample_of(bytes: &[u8]) -> u64 {
    let parts = sample_ranges(bytes.len() as u64);
    let parts = parts.map(|range| &bytes[range.start as usize..range.end as usize]);
    shale_codec::xxh3_64(&parts.concat())
}

/// Checks that a file can be opened, without reading it.
pub(crate) fn probe(content: &dyn OpenContent) -> Result<(), ProblemKind> {
    let mut file = content.open().map_err(|error| ProblemKind::of(&error))?;
    match file.metadata() {
        Ok(metadata) if metadata.kind == InodeKind::File => Ok(()),
        Ok(_) => Err(ProblemKind::Changed),
        Err(error) => Err(ProblemKind::of(&error)),
    }
}

/// Digests a content that is in memory.
pub(crate) fn small_content(
    metadata: Metadata,
    bytes: Vec<u8>,
    holes: Vec<Range<u64>>,
) -> SmallContent {
    let mut hasher = ContentHasher::new();
    hasher.update(&bytes);
    let mut runs = Vec::new();
    let mut at = 0;
    for hole in &holes {
        split_runs(&bytes, at..hole.start as usize, &mut runs);
        runs.push(Run::Hole(hole.end - hole.start));
        at = hole.end as usize;
    }
    split_runs(&bytes, at..bytes.len(), &mut runs);
    let mut finder = SampleFinder::new(bytes.len() as u64);
    let samples = finder.push(&bytes);
    if !samples.is_empty() {
        join_short_runs(&mut runs);
    }
    SmallContent {
        metadata,
        runs,
        holes,
        digest: hasher.finish(),
        category: finder.category().unwrap_or_else(|| category_of(&bytes)),
        samples,
        similarity_sketch: Vec::new(),
        bytes,
        read_again: 0,
        change: None,
        streams: Vec::new(),
        is_deferred: false,
        reservation: None,
    }
}

/// Compares two looks at the metadata of a file, between which `len` bytes of it were read.
fn change_of(before: &Metadata, after: &Metadata, len: u64) -> Option<ChangeKind> {
    let key = |m: &Metadata| (m.kind, m.len, m.mtime, m.ctime);
    if len < before.len {
        Some(ChangeKind::Shrank { len })
    } else if after.len > before.len {
        Some(ChangeKind::Grew { len })
    } else if key(before) != key(after) {
        Some(ChangeKind::Rewritten)
    } else {
        None
    }
}

/// Reads a small content that comes in sequence: fills holes with zeroes, the rest from `reader`.
pub(crate) fn read_sequence(
    reader: &mut dyn Read,
    len: u64,
    holes: &[Range<u64>],
) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    let mut at = 0;
    for hole in holes.iter().chain([&(len..len)]) {
        if hole.start < at || hole.end < hole.start || hole.end > len {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its holes overlap"));
        }
        reader.read_exact(&mut bytes[at as usize..hole.start as usize])?;
        at = hole.end;
    }
    Ok(bytes)
}

/// Reads a file up to `len`, or up to its end if that comes first.
fn read_whole(file: &mut dyn ContentFile, len: u64) -> io::Result<(Vec<u8>, Vec<Range<u64>>)> {
    let mut bytes = vec![0; len as usize];
    let mut holes = Vec::new();
    let mut at = 0;
    while let Some(data) = file.data_after(at, len)? {
        push_hole(&mut holes, at..data.start);
        let out = &mut bytes[data.start as usize..data.end as usize];
        let read_len = read_up_to(file, data.start, out)? as u64;
        at = data.start + read_len;
        if at < data.end {
            bytes.truncate(at as usize);
            return Ok((bytes, holes));
        }
    }
    push_hole(&mut holes, at..len);
    Ok((bytes, holes))
}

fn push_hole(holes: &mut Vec<Range<u64>>, hole: Range<u64>) {
    if hole.is_empty() {
        return;
    }
    match holes.last_mut() {
        Some(last) if last.end == hole.start => last.end = hole.end,
        _ => holes.push(hole),
    }
}

/// Fills `out`, or the part of it that comes before the end of the file. Returns its length.
fn read_up_to(file: &mut dyn ContentFile, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read_at(offset + filled as u64, &mut out[filled..])? {
            0 => break,
            len => filled += len,
        }
    }
    Ok(filled)
}

/// Splits a range of data into bytes and zero runs. A run starts at an aligned block of zeroes and
/// includes all zeroes around it.
pub(crate) fn split_runs(bytes: &[u8], range: Range<usize>, runs: &mut Vec<Run>) {
    let mut data_start = range.start;
    let mut at = range.start.next_multiple_of(ZERO_BLOCK_LEN);
    while at + ZERO_BLOCK_LEN <= range.end {
        if !is_zero(&bytes[at..at + ZERO_BLOCK_LEN]) {
            at += ZERO_BLOCK_LEN;
            continue;
        }
        let before = &bytes[data_start..at];
        let start = data_start + before.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
        let mut end = at + ZERO_BLOCK_LEN;
        while end + ZERO_BLOCK_LEN <= range.end && is_zero(&bytes[end..end + ZERO_BLOCK_LEN]) {
            end += ZERO_BLOCK_LEN;
        }
        let rest = &bytes[end..range.end];
        end += rest.iter().position(|&b| b != 0).unwrap_or(rest.len());
        if data_start < start {
            runs.push(Run::Data(data_start..start));
        }
        runs.push(Run::Zero((end - start) as u64));
        data_start = end;
        at = end.next_multiple_of(ZERO_BLOCK_LEN);
    }
    if data_start < range.end {
        runs.push(Run::Data(data_start..range.end));
    }
}

/// Joins runs of samples with zeroes between them that are no longer than a frame: the codec of
/// samples stores them in next to nothing, and a run costs frames their boundaries.
pub(crate) fn join_short_runs(runs: &mut Vec<Run>) {
    let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
    let mut at = 0;
    for run in runs.drain(..) {
        let (start, is_short) = match &run {
            Run::Data(range) => (range.start, true),
            Run::Zero(len) => (at, *len < SAMPLE_ZEROES_LEN_MIN),
            Run::Hole(_) => (at, false),
        };
        at = match &run {
            Run::Data(range) => range.end,
            Run::Zero(len) | Run::Hole(len) => start + *len as usize,
        };
        match joined.last_mut() {
            Some(Run::Data(last)) if is_short && last.end == start => last.end = at,
            _ if is_short => joined.push(Run::Data(start..at)),
            _ => joined.push(run),
        }
    }
    *runs = joined;
}

/// A large content that comes in pieces, from front to back.
pub(crate) trait PieceReader {
    /// Returns the next piece, or `None` at the end. Data replace those in `bytes`.
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<LargePiece>>;

    /// Returns whether nothing is left, as far as known. If so, the next piece would be `None`.
    fn is_at_end(&self) -> bool;

    /// Returns, after the end, what was read. Called once.
    fn finish(&mut self) -> io::Result<Finished>;
}

/// A piece of a large content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LargePiece {
    /// Bytes.
    Data,
    /// A hole.
    Hole(u64),
}

/// A large content after it was read.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Bytes read.
    pub(crate) len: u64,
    pub(crate) digest: ContentDigest,
    pub(crate) holes: Vec<Range<u64>>,
    /// How it changed meanwhile.
    pub(crate) change: Option<ChangeKind>,
}

/// A large file.
pub(crate) struct LargeFile {
    file: Box<dyn ContentFile>,
    pub(crate) metadata: Metadata,
    at: u64,
    /// Where the file ends: at first where it did when it was opened.
    len: u64,
    /// End of the range of data that contains `at`.
    data_end: u64,
    hasher: ContentHasher,
    holes: Vec<Range<u64>>,
}

impl LargeFile {
    /// Opens a file and reads its metadata.
    pub(crate) fn open(content: &dyn OpenContent) -> Result<Self, ProblemKind> {
        let mut file = content.open().map_err(|error| ProblemKind::of(&error))?;
        let metadata = file.metadata().map_err(|error| ProblemKind::of(&error))?;
        if metadata.kind != InodeKind::File {
            return Err(ProblemKind::Changed);
        }
        Ok(Self::of_file(file, metadata))
    }

    /// Reads a file that is already open.
    pub(crate) fn of_file(file: Box<dyn ContentFile>, metadata: Metadata) -> Self {
        Self {
            file,
            metadata,
            at: 0,
            len: metadata.len,
            data_end: 0,
            hasher: ContentHasher::new(),
            holes: Vec::new(),
        }
    }

    /// Returns the sample of the file, see [`sample_ranges`]. Costs three reads.
    pub(crate) fn sample(&mut self) -> io::Result<u64> {
        let mut bytes = Vec::new();
        for range in sample_ranges(self.metadata.len) {
            let from = bytes.len();
            bytes.resize(from + (range.end - range.start) as usize, 0);
            // Of a file that shrank meanwhile, the sample says nothing and is as good as any.
            let read_len = read_up_to(&mut *self.file, range.start, &mut bytes[from..])?;
            bytes.truncate(from + read_len);
        }
        Ok(shale_codec::xxh3_64(&bytes))
    }

    /// Starts again at the front.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
        self.len = self.metadata.len;
        self.data_end = 0;
        self.hasher = ContentHasher::new();
        self.holes.clear();
    }
}

impl PieceReader for LargeFile {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<LargePiece>> {
        if self.at >= self.len {
            return Ok(None);
        }
        if self.at >= self.data_end {
            let data = match self.file.data_after(self.at, self.len)? {
                Some(data) => data,
                None => {
                    // A hole up to the end, unless the file ends earlier by now.
                    let len_now = self.file.metadata()?.len;
                    self.len = self.len.min(len_now.max(self.at));
                    self.len..self.len
                }
            };
            let data = data.start.clamp(self.at, self.len)..data.end.clamp(self.at, self.len);
            self.data_end = data.end;
            if data.start > self.at {
                let hole = self.at..data.start;
                let hole_len = hole.end - hole.start;
                self.hasher.update_zeroes(hole_len);
                self.at = hole.end;
                push_hole(&mut self.holes, hole);
                return Ok(Some(LargePiece::Hole(hole_len)));
            }
            // Neither data nor a hole: no progress would be made.
            if self.data_end == self.at {
                self.len = self.at;
                return Ok(None);
            }
        }
        // Pieces end at multiples of their length, so they do not depend on earlier holes.
        let piece_end = (self.at / PIECE_LEN as u64 + 1) * PIECE_LEN as u64;
        let want = (piece_end.min(self.data_end) - self.at) as usize;
        bytes.resize(want, 0);
        let read_len = read_up_to(&mut *self.file, self.at, bytes)?;
        self.at += read_len as u64;
        if read_len < want {
            self.len = self.at;
            if read_len == 0 {
                return Ok(None);
            }
            bytes.truncate(read_len);
        }
        self.hasher.update(bytes);
        Ok(Some(LargePiece::Data))
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.len
    }

    fn finish(&mut self) -> io::Result<Finished> {
        let after = self.file.metadata()?;
        Ok(Finished {
            len: self.at,
            digest: std::mem::take(&mut self.hasher).finish(),
            holes: std::mem::take(&mut self.holes),
            change: change_of(&self.metadata, &after, self.at),
        })
    }
}

/// A large content that can be read only once. Keeps the bytes of its sample.
pub(crate) struct LargeReader {
    reader: Box<dyn Read + Send>,
    len: u64,
    holes: Vec<Range<u64>>,
    /// The first hole that lies ahead.
    next_hole: usize,
    at: u64,
    hasher: ContentHasher,
    sample: Vec<u8>,
}

impl LargeReader {
    /// Reads a content of `len` bytes; `reader` yields the bytes outside of `holes`.
    pub(crate) fn new(reader: Box<dyn Read + Send>, len: u64, holes: Vec<Range<u64>>) -> Self {
        let hasher = ContentHasher::new();
        Self { reader, len, holes, next_hole: 0, at: 0, hasher, sample: Vec::new() }
    }

    /// Returns, after the end, the sample that a file with these bytes would have.
    pub(crate) fn sample(&self) -> u64 {
        shale_codec::xxh3_64(&self.sample)
    }

    /// Keeps the bytes that belong to the sample, of the next `len` bytes: these, or zeroes.
    fn keep_sample(&mut self, len: u64, bytes: Option<&[u8]>) {
        let end = self.at + len;
        for range in sample_ranges(self.len) {
            let part = range.start.max(self.at)..range.end.min(end);
            if part.start >= part.end {
                continue;
            }
            let kept_len = self.sample.len() + (part.end - part.start) as usize;
            match bytes {
                None => self.sample.resize(kept_len, 0),
                Some(bytes) => {
                    let part = (part.start - self.at) as usize..(part.end - self.at) as usize;
                    self.sample.extend_from_slice(&bytes[part]);
                }
            }
        }
        self.at = end;
    }
}

impl PieceReader for LargeReader {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<LargePiece>> {
        let piece_end = (self.at / PIECE_LEN as u64 + 1) * PIECE_LEN as u64;
        // Holes are reached in order.
        while self.holes.get(self.next_hole).is_some_and(|hole| hole.end <= self.at) {
            self.next_hole += 1;
        }
        let hole = self.holes.get(self.next_hole);
        if let Some(hole) = hole.filter(|hole| hole.start <= self.at) {
            let hole_len = hole.end.min(self.len).saturating_sub(self.at);
            if hole_len == 0 {
                return Ok(None);
            }
            self.keep_sample(hole_len, None);
            self.hasher.update_zeroes(hole_len);
            return Ok(Some(LargePiece::Hole(hole_len)));
        }
        let end = hole.map_or(self.len, |hole| hole.start);
        let want = (end.min(self.len).min(piece_end) - self.at) as usize;
        if want == 0 {
            return Ok(None);
        }
        bytes.resize(want, 0);
        self.reader.read_exact(bytes)?;
        self.keep_sample(want as u64, Some(bytes));
        self.hasher.update(bytes);
        Ok(Some(LargePiece::Data))
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.len
    }

    fn finish(&mut self) -> io::Result<Finished> {
        let digest = std::mem::take(&mut self.hasher).finish();
        Ok(Finished { len: self.len, digest, holes: self.holes.clone(), change: None })
    }
}

/// First, middle and last bytes of a large content. Two contents of one length are different if the
/// hashes of these ranges differ.
fn sample_ranges(len: u64) -> [Range<u64>; 3] {
    const SAMPLE_LEN: u64 = 16 << 10;
    // Large contents are longer than three samples, so the ranges ascend and do not touch.
    debug_assert!(len > SMALL_LEN_MAX);
    let middle = len / 2;
    [0..SAMPLE_LEN, middle..middle + SAMPLE_LEN, len - SAMPLE_LEN..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_runs_take_all_zeroes_around_a_block() {
        let mut bytes = vec![1u8; 5 * ZERO_BLOCK_LEN + 100];
        let zeroes = ZERO_BLOCK_LEN - 10..3 * ZERO_BLOCK_LEN + 20;
        bytes[zeroes.clone()].fill(0);
        let mut runs = Vec::new();
        split_runs(&bytes, 0..bytes.len(), &mut runs);
        assert_eq!(
            runs,
            [
                Run::Data(0..zeroes.start),
                Run::Zero(zeroes.len() as u64),
                Run::Data(zeroes.end..bytes.len())
            ]
        );
        runs.clear();
        split_runs(&vec![0; 2 * ZERO_BLOCK_LEN + 5], 0..2 * ZERO_BLOCK_LEN + 5, &mut runs);
        assert_eq!(runs, [Run::Zero(2 * ZERO_BLOCK_LEN as u64 + 5)]);
        runs.clear();
        // Less than a block is not worth a row.
        split_runs(&[0; 100], 0..100, &mut runs);
        assert_eq!(runs, [Run::Data(0..100)]);
    }

    #[test]
    fn runs_cover_every_byte_once() {
        let mut state = 1u64;
        for round in 0..200 {
            let mut bytes = vec![0u8; 40_000 + round];
            for _ in 0..round % 7 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = 1;
            }
            let range = round..bytes.len() - round / 2;
            let mut runs = Vec::new();
            split_runs(&bytes, range.clone(), &mut runs);
            let mut at = range.start;
            for run in &runs {
                match run {
                    Run::Data(data) => {
                        assert_eq!(data.start, at);
                        at = data.end;
                    }
                    Run::Zero(len) => {
                        assert!(*len as usize >= ZERO_BLOCK_LEN);
                        assert!(is_zero(&bytes[at..at + *len as usize]));
                        at += *len as usize;
                    }
                    Run::Hole(_) => unreachable!(),
                }
            }
            assert_eq!(at, range.end);
        }
    }
}
