//! Streams of a file as plain bytes and chunks.
//!
//! A file is looked at once, by the thread that read it. Whatever is wrong with it, it is stored as
//! it is: nothing here fails.

use std::ops::Range;

use shale_codec::xxh3_64;
use shale_deflate::{Analysis, Hint, Limits, analyze, parse};
use shale_format::limits::CHUNK_PROBES_MAX;
use shale_format::{Carried, ChunkRecord};
use shale_model::Metadata;

use crate::content::read::{FoundStream, SmallContent, small_content};
use crate::recompress::{git, gzip, pdf, zip, zlib};

/// Files up to this length are taken apart. They are held in memory with what is in them.
pub(crate) const FILE_LEN_MAX: u64 = 32 << 20;
/// Most plain bytes of the streams of a file.
const PLAIN_LEN_MAX: usize = 128 << 20;
/// Streams of a file may hold this many times its length. Text is seldom compressed to less than a
/// tenth; a bomb holds a thousand times its length.
const RATIO_MAX: usize = 32;
/// Shorter streams cost more in tables than they gain.
const STREAM_LEN_MIN: usize = 100;
/// A stream is taken apart if at least this part of it, in percent, can be rebuilt.
const REBUILT_PERCENT_MIN: usize = 90;

/// What holds streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Gzip,
    Zip,
    /// One stream with zlib's header, such as a loose object of git.
    Zlib,
    GitPack,
    Pdf,
}

impl Container {
    /// Tells a container by the first bytes of a file.
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            _ if bytes.starts_with(&gzip::MAGIC) => Some(Self::Gzip),
            _ if zip::is_zip(bytes) => Some(Self::Zip),
            _ if bytes.starts_with(&git::PACK_MAGIC) => Some(Self::GitPack),
            _ if bytes.starts_with(&pdf::MAGIC) => Some(Self::Pdf),
            _ => zlib::header(bytes).map(|_| Self::Zlib),
        }
    }
}

/// Returns whether a file that begins with `bytes` may be a container of streams.
pub(crate) fn may_hold_streams(bytes: &[u8]) -> bool {
    Container::of(bytes).is_some()
}

/// Finds the deflate streams of `content` and notes those that can be rebuilt.
pub(crate) fn take_apart(content: &mut SmallContent, is_cancelled: &dyn Fn() -> bool) {
    let bytes = &content.bytes;
    let is_wanted = content.holes.is_empty() && bytes.len() as u64 <= FILE_LEN_MAX;
    let Some(container) = Container::of(bytes).filter(|_| is_wanted) else { return };
    let mut finder = Finder {
        plain_left: bytes.len().saturating_mul(RATIO_MAX).min(PLAIN_LEN_MAX),
        streams: Vec::new(),
        metadata: content.metadata,
    };
    match container {
        Container::Gzip => finder.gzip(bytes, is_cancelled),
        Container::Zip => finder.zip(bytes, is_cancelled),
        Container::Zlib => _ = finder.zlib(bytes, 0),
        Container::GitPack => finder.git_pack(bytes, is_cancelled),
        Container::Pdf => finder.pdf(bytes, is_cancelled),
    }
    content.streams = finder.streams;
}

struct Finder {
    /// Plain bytes that further streams may hold.
    plain_left: usize,
    streams: Vec<FoundStream>,
    metadata: Metadata,
}

impl Finder {
    /// Takes members apart, up to the first one of an unknown encoder: nobody knows where it ends.
    fn gzip(&mut self, bytes: &[u8], is_cancelled: &dyn Fn() -> bool) {
        let mut at = 0;
        while let Some((header_len, hint)) = gzip::header(&bytes[at..]) {
            let start = at + header_len;
            if is_cancelled() {
                return;
            }
            let Some(len) = self.stream(bytes, start..bytes.len(), hint) else { break };
            at = (start + len + gzip::TRAILER_LEN).min(bytes.len());
        }
    }

    fn zip(&mut self, bytes: &[u8], is_cancelled: &dyn Fn() -> bool) {
        for range in zip::streams(bytes) {
            if is_cancelled() {
                return;
            }
            self.stream(bytes, range, None);
        }
    }

    /// Takes the objects of a pack apart. The end of one whose encoder is unknown is found by
    /// decoding it.
    fn git_pack(&mut self, bytes: &[u8], is_cancelled: &dyn Fn() -> bool) {
        let Some((mut at, count)) = git::pack(bytes) else { return };
        for _ in 0..count {
            if is_cancelled() {
                return;
            }
            let header_len = bytes.get(at..).and_then(git::object_header_len);
            let Some(start) = header_len.map(|len| at + len) else { break };
            let end = self.zlib(bytes, start).or_else(|| {
                let stream = bytes.get(start + zlib::HEADER_LEN..)?;
                let len = parse(stream, self.plain_left).ok()?.stream_len;
                Some(start + zlib::HEADER_LEN + len + zlib::TRAILER_LEN)
            });
            let Some(end) = end else { break };
            at = end;
        }
    }

    fn pdf(&mut self, bytes: &[u8], is_cancelled: &dyn Fn() -> bool) {
        let mut at = 0;
        while let Some(start) = pdf::next_stream(bytes, at) {
            if is_cancelled() {
                return;
            }
            at = self.zlib(bytes, start).unwrap_or(start);
        }
    }

    /// Takes the stream apart that follows the zlib header at `at`. Returns where its sum ends, if
    /// an encoder is known that made it.
    fn zlib(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let hint = zlib::header(bytes.get(at..)?)?;
        let start = at + zlib::HEADER_LEN;
        let len = self.stream(bytes, start..bytes.len(), hint)?;
        Some(start + len + zlib::TRAILER_LEN)
    }

    /// Takes the stream apart that begins a range. Returns its length if an encoder is known that
    /// made it.
    fn stream(&mut self, bytes: &[u8], range: Range<usize>, hint: Option<Hint>) -> Option<usize> {
        if range.len() < STREAM_LEN_MIN {
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
            self.streams.push(found(analysis, &bytes[range.start..], range.start, self.metadata));
        }
        Some(stream_len)
    }
}

fn found(analysis: Analysis, stream: &[u8], start: usize, metadata: Metadata) -> FoundStream {
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
            depth: 1,
            sum: xxh3_64(&stream[chunk.stream.clone()]) as u32,
            ..ChunkRecord::default()
        };
        (start + chunk.stream.start..start + chunk.stream.end, record)
    });
    let chunks = chunks.collect();
    let metadata = Metadata { len: plain.len() as u64, ..metadata };
    FoundStream { plain: Box::new(small_content(metadata, plain, Vec::new())), chunks }
}
