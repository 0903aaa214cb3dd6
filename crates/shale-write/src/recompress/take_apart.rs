//! Streams of a file as plain bytes and chunks.
//!
//! A file is looked at once, by the thread that read it. Whatever is wrong with it, it is stored as
//! it is: nothing here fails. What a stream holds may be a container again, three layers deep.

use std::ops::Range;

use shale_codec::xxh3_64;
use shale_deflate::{AFTER_LEN, Analysis, Hint, Limits, analyze, parse};
use shale_format::limits::{CHUNK_DEPTH_MAX, CHUNK_PROBES_MAX};
use shale_format::{Carried, ChunkRecord};
use shale_model::Metadata;

use crate::content::read::{FoundStream, SmallContent, small_content};
use crate::recompress::container::Container;
use crate::recompress::{git, gzip, pdf, tar, zip, zlib};

/// Files up to this length are taken apart. They are held in memory with what is in them.
pub(crate) const FILE_LEN_MAX: u64 = 32 << 20;
/// Most plain bytes of the streams of a file, those in streams included.
const PLAIN_LEN_MAX: usize = 64 << 20;
/// Streams of a file may hold this many times its length. Text is seldom compressed to less than a
/// tenth; a bomb holds a thousand times its length.
const RATIO_MAX: usize = 32;
/// Shorter streams cost more in tables than they gain.
const STREAM_LEN_MIN: usize = 100;
/// A stream is taken apart if at least this part of it, in percent, can be rebuilt.
const REBUILT_PERCENT_MIN: usize = 90;
/// Most plain bytes that are rebuilt from to read a chunk whose own plain bytes are rebuilt: what a
/// read may cost beyond its chunk.
const NESTED_PLAIN_LEN_MAX: u64 = 2 << 20;
/// Archives in archives that are looked into without a stream between them.
const ARCHIVES_MAX: u32 = 3;

/// Returns whether a file that begins with `bytes` may be a container of streams.
pub(crate) fn may_hold_streams(bytes: &[u8]) -> bool {
    Container::of(bytes).is_some()
}

/// Returns whether streams are looked for in a file of this length that begins with `bytes`, at
/// least the first [`SNIFF_LEN`](crate::SNIFF_LEN) of it: it may hold none that are known.
pub fn is_taken_apart(len: u64, bytes: &[u8]) -> Option<Container> {
    Container::of(bytes).filter(|_| len <= FILE_LEN_MAX && len >= STREAM_LEN_MIN as u64)
}

/// Most bytes that taking apart a file of this length takes, beside those of the file.
pub(crate) fn memory_len_max(len: u64) -> u64 {
    len.saturating_mul(RATIO_MAX as u64).min(PLAIN_LEN_MAX as u64)
}

/// Returns the bytes that what was found in a content takes.
pub(crate) fn memory_len(content: &SmallContent) -> u64 {
    let of_stream =
        |stream: &FoundStream| stream.plain.bytes.len() as u64 + memory_len(&stream.plain);
    content.streams.iter().map(of_stream).sum()
}

/// Finds the deflate streams of `content` and notes those that can be rebuilt.
pub(crate) fn take_apart(content: &mut SmallContent, is_cancelled: &dyn Fn() -> bool) {
    let bytes = &content.bytes;
    if !content.holes.is_empty() || bytes.len() as u64 > FILE_LEN_MAX {
        return;
    }
    let mut finder = Finder {
        plain_left: memory_len_max(bytes.len() as u64) as usize,
        streams: Vec::new(),
        metadata: content.metadata,
        layers: 0,
        is_cancelled,
    };
    finder.part(bytes, 0, ARCHIVES_MAX);
    content.streams = finder.streams;
}

/// Finds the streams of one content.
struct Finder<'c> {
    /// Plain bytes that further streams may hold.
    plain_left: usize,
    streams: Vec<FoundStream>,
    metadata: Metadata,
    /// Streams around this content.
    layers: u64,
    is_cancelled: &'c dyn Fn() -> bool,
}

impl Finder<'_> {
    /// Takes the container apart that begins a part of the content, at `base`.
    fn part(&mut self, bytes: &[u8], base: usize, archives: u32) {
        match Container::of(bytes) {
            None => {}
            Some(Container::Gzip) => self.gzip(bytes, base),
            Some(Container::Zip) => self.zip(bytes, base, archives),
            Some(Container::Zlib) => _ = self.zlib(bytes, 0, base, Container::Zlib),
            Some(Container::GitPack) => self.git_pack(bytes, base),
            Some(Container::Pdf) => self.pdf(bytes, base),
            Some(Container::Tar) => {
                for file in tar::files(bytes) {
                    self.archived(bytes, file, base, archives);
                }
            }
        }
    }

    /// A file that is stored as it is in an archive.
    fn archived(&mut self, bytes: &[u8], file: Range<usize>, base: usize, archives: u32) {
        if let Some(archives) = archives.checked_sub(1)
            && !(self.is_cancelled)()
        {
            let base = base + file.start;
            self.part(&bytes[file], base, archives);
        }
    }

    /// Takes members apart, up to the first one of an unknown encoder: nobody knows where it ends.
    fn gzip(&mut self, bytes: &[u8], base: usize) {
        let mut at = 0;
        while let Some((header_len, hint)) = gzip::header(&bytes[at..]) {
            let start = at + header_len;
            let stream = self.stream(bytes, start..bytes.len(), base, hint, Container::Gzip);
            let Some(len) = stream else { break };
            at = (start + len + gzip::TRAILER_LEN).min(bytes.len());
        }
    }

    fn zip(&mut self, bytes: &[u8], base: usize, archives: u32) {
        for entry in zip::entries(bytes) {
            if entry.is_deflated {
                self.stream(bytes, entry.range, base, None, Container::Zip);
            } else {
                self.archived(bytes, entry.range, base, archives);
            }
        }
    }

    /// Takes the objects of a pack apart. The end of one whose encoder is unknown is found by
    /// decoding it.
    fn git_pack(&mut self, bytes: &[u8], base: usize) {
        let Some((mut at, count)) = git::pack(bytes) else { return };
        for _ in 0..count {
            let header_len = bytes.get(at..).and_then(git::object_header_len);
            let Some(start) = header_len.map(|len| at + len) else { break };
            let end = self.zlib(bytes, start, base, Container::GitPack).or_else(|| {
                let stream = bytes.get(start + zlib::HEADER_LEN..)?;
                let len = parse(stream, self.plain_left).ok()?.stream_len;
                Some(start + zlib::HEADER_LEN + len + zlib::TRAILER_LEN)
            });
            let Some(end) = end else { break };
            at = end;
        }
    }

    fn pdf(&mut self, bytes: &[u8], base: usize) {
        let mut at = 0;
        while let Some(start) = pdf::next_stream(bytes, at) {
            at = self.zlib(bytes, start, base, Container::Pdf).unwrap_or(start);
        }
    }

    /// Takes the stream apart that follows the zlib header at `at`. Returns where its sum ends, if
    /// an encoder is known that made it.
    fn zlib(&mut self, bytes: &[u8], at: usize, base: usize, kind: Container) -> Option<usize> {
        let hint = zlib::header(bytes.get(at..)?)?;
        let start = at + zlib::HEADER_LEN;
        let len = self.stream(bytes, start..bytes.len(), base, hint, kind)?;
        Some(start + len + zlib::TRAILER_LEN)
    }

    /// Takes the stream apart that begins a range. Returns its length if an encoder is known that
    /// made it.
    fn stream(
        &mut self,
        bytes: &[u8],
        range: Range<usize>,
        base: usize,
        hint: Option<Hint>,
        kind: Container,
    ) -> Option<usize> {
        if range.len() < STREAM_LEN_MIN || (self.is_cancelled)() {
            return None;
        }
        let limits = Limits {
            plain_max: self.plain_left,
            chunk_probes_max: CHUNK_PROBES_MAX,
            ..Limits::default()
        };
        let analysis = analyze(&bytes[range.clone()], hint, &limits).ok()?;
        let rebuilt: usize = analysis.chunks.iter().map(|chunk| chunk.stream.len()).sum();
        let stream_len = analysis.stream_len;
        let is_worth_it = stream_len >= STREAM_LEN_MIN
            && rebuilt * 100 >= stream_len.saturating_mul(REBUILT_PERCENT_MIN);
        if is_worth_it {
            self.plain_left = self.plain_left.saturating_sub(analysis.plain.len());
            let mut found = found(analysis, &bytes[range.start..], self.metadata, kind);
            for (part, _) in &mut found.chunks {
                *part = part.start + base + range.start..part.end + base + range.start;
            }
            self.look_into(&mut found);
            self.streams.push(found);
        }
        Some(stream_len)
    }

    /// Takes apart what a stream holds, if reading it stays bounded.
    fn look_into(&mut self, found: &mut FoundStream) {
        let plain = &mut found.plain;
        if self.layers + 1 >= CHUNK_DEPTH_MAX || !may_hold_streams(&plain.bytes) {
            return;
        }
        let mut finder = Finder {
            plain_left: self.plain_left,
            streams: Vec::new(),
            metadata: self.metadata,
            layers: self.layers + 1,
            is_cancelled: self.is_cancelled,
        };
        finder.part(&plain.bytes, 0, ARCHIVES_MAX);
        let streams = finder.streams;
        let is_bounded = found
            .chunks
            .iter()
            .all(|(_, chunk)| needed_len(&streams, &needed(chunk)) <= NESTED_PLAIN_LEN_MAX);
        if is_bounded {
            self.plain_left = finder.plain_left;
            plain.streams = streams;
        }
    }
}

/// The range of a content that a chunk is rebuilt from. The longest window is assumed.
fn needed(chunk: &ChunkRecord) -> Range<u64> {
    const WINDOW_LEN_MAX: u64 = 64 << 10;
    let end = chunk.offset + chunk.plain_len + AFTER_LEN as u64;
    chunk.offset.saturating_sub(WINDOW_LEN_MAX)..end
}

/// Plain bytes that a range of a content with these streams is rebuilt from.
fn needed_len(streams: &[FoundStream], range: &Range<u64>) -> u64 {
    let ends_before = |stream: &FoundStream| {
        stream.chunks.last().is_none_or(|(part, _)| part.end as u64 <= range.start)
    };
    let mut len = 0u64;
    for stream in &streams[streams.partition_point(ends_before)..] {
        if stream.chunks.first().is_some_and(|(part, _)| part.start as u64 >= range.end) {
            break;
        }
        for (part, chunk) in &stream.chunks {
            if (part.start as u64) < range.end && part.end as u64 > range.start {
                let below = needed(chunk);
                len += below.end - below.start + needed_len(&stream.plain.streams, &below);
            }
        }
    }
    len
}

fn found(analysis: Analysis, stream: &[u8], metadata: Metadata, kind: Container) -> FoundStream {
    let Analysis { plain, model, chunks, .. } = analysis;
    let chunks = chunks.into_iter().map(|chunk| {
        let in_hand = chunk.cut.in_hand;
        let record = ChunkRecord {
            len: chunk.stream.len() as u64,
            offset: chunk.plain.start as u64,
            plain_len: chunk.plain.len() as u64,
            model: model.number(),
            carried: Carried {
                bits: chunk.cut.bits,
                bit_count: chunk.cut.bit_count,
                match_len: in_hand.map_or(0, |hand| hand.len),
                match_distance: in_hand.map_or(0, |hand| hand.distance),
            },
            sum: xxh3_64(&stream[chunk.stream.clone()]) as u32,
            ..ChunkRecord::default()
        };
        (chunk.stream, record)
    });
    let chunks = chunks.collect();
    let metadata = Metadata { len: plain.len() as u64, ..metadata };
    FoundStream { plain: Box::new(small_content(metadata, plain, Vec::new())), chunks, kind }
}
