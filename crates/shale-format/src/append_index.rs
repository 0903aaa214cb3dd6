//! The append index: fingerprints of frames and tags of contents, so that an append finds what its
//! contents resemble, and what they are not, without decoding all.
//!
//! The payload of an append index section is one `AppendIndexHeadRaw` and three columns. It holds
//! hints only: whoever uses it decodes the frames that it points to and compares their bytes. A
//! decoded index has exactly the fingerprints that its counts claim, and all its numbers are within
//! the payload. This file does not know how fingerprints are computed, see `shale_write::Base`.

use std::ops::Range;

use crate::error::FormatError;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of the head in bytes.
pub const APPEND_INDEX_HEAD_LEN: usize = 32;
/// Most plain bytes of an append index: read whole by an append.
pub const APPEND_INDEX_LEN_MAX: u64 = 64 << 20;
/// Most tags of an append index.
pub const TAG_COUNT_MAX: usize = 8 << 20;
/// Bytes of a fingerprint.
const PRINT_LEN: usize = 4;
/// Bytes of a count.
const COUNT_LEN: usize = 4;
/// Bytes of a tag.
const TAG_LEN: usize = 2;
/// The versions that this program knows: fingerprints alone, and fingerprints with tags.
const PRINTS: u16 = 1;
const PRINTS_AND_TAGS: u16 = 2;

/// On-disk layout of the head.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct AppendIndexHeadRaw {
    /// 1, or 2 if tags of contents follow the fingerprints.
    pub version: U16,
    /// Zero bits at the front of every fingerprint that is kept.
    pub thin_log2: u8,
    /// Reserved, must be zero.
    pub reserved: u8,
    /// Frames that the index covers.
    pub frame_count: U32,
    /// The first of them.
    pub frame_first: U64,
    /// Fingerprints of all of them.
    pub print_count: U64,
    /// The first content that has a tag; 0 in version 1.
    pub content_first: U64,
}

const _: () = assert!(size_of::<AppendIndexHeadRaw>() == APPEND_INDEX_HEAD_LEN);

/// Fingerprints of consecutive frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppendIndex {
    /// Zero bits at the front of every 64-bit fingerprint that is kept.
    pub thin_log2: u8,
    /// The first frame.
    pub frame_first: u64,
    /// Where the fingerprints of each frame end in `prints`.
    ends: Vec<usize>,
    /// The 32 bits after the zero bits, ascending in each frame.
    prints: Vec<u32>,
    /// The first content that has a tag.
    content_first: u64,
    /// The first bits of the digests of consecutive contents.
    tags: Vec<u16>,
}

impl AppendIndex {
    /// Starts without frames.
    pub fn new(thin_log2: u8, frame_first: u64) -> Self {
        Self { thin_log2: thin_log2.min(32), frame_first, ..Self::default() }
    }

    /// Returns the tag of a content: the first 16 bits of the digest of its bytes.
    pub fn tag(digest: &[u8; 32]) -> u16 {
        u16::from_le_bytes([digest[0], digest[1]])
    }

    /// Sets the tags of consecutive contents.
    pub fn set_tags(&mut self, content_first: u64, tags: Vec<u16>) {
        (self.content_first, self.tags) = (content_first, tags);
    }

    /// The contents that have a tag.
    pub fn tagged(&self) -> Range<u64> {
        self.content_first..self.content_first.saturating_add(self.tags.len() as u64)
    }

    /// Returns the tag of a content, if it has one here.
    pub fn tag_of(&self, content: u64) -> Option<u16> {
        let at = usize::try_from(content.checked_sub(self.content_first)?).ok()?;
        self.tags.get(at).copied()
    }

    /// Returns what is kept of a fingerprint: nothing if it does not begin with enough zero bits.
    pub fn kept(&self, print: u64) -> Option<u32> {
        let is_kept = print.leading_zeros() >= u32::from(self.thin_log2);
        is_kept.then(|| ((print << self.thin_log2) >> 32) as u32)
    }

    /// Adds the next frame, with all its fingerprints.
    pub fn push(&mut self, prints: &[u64]) {
        let begin = self.prints.len();
        let kept: Vec<u32> = prints.iter().filter_map(|&print| self.kept(print)).collect();
        self.prints.extend(kept);
        self.prints[begin..].sort_unstable();
        self.ends.push(self.prints.len());
    }

    /// Number of frames.
    pub fn frame_count(&self) -> usize {
        self.ends.len()
    }

    /// Fingerprints of all frames.
    pub fn print_count(&self) -> usize {
        self.prints.len()
    }

    /// Returns what is kept of the fingerprints of a frame, by its number in this index.
    pub fn of(&self, frame: usize) -> &[u32] {
        let begin = frame.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.prints[begin..self.ends[frame]]
    }

    /// Returns the plain payload of its section. Fingerprints lie byte by byte: the first bytes of
    /// all, which ascend and compress, then the second ones, and so on.
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.tags.is_empty() { PRINTS } else { PRINTS_AND_TAGS };
        let head = AppendIndexHeadRaw {
            version: U16::new(version),
            thin_log2: self.thin_log2,
            reserved: 0,
            frame_count: U32::new(self.ends.len() as u32),
            frame_first: U64::new(self.frame_first),
            print_count: U64::new(self.prints.len() as u64),
            content_first: U64::new(self.content_first),
        };
        let mut out = head.as_bytes().to_vec();
        for frame in 0..self.ends.len() {
            out.extend_from_slice(&(self.of(frame).len() as u32).to_le_bytes());
        }
        for at in 0..PRINT_LEN {
            out.extend(self.prints.iter().map(|print| print.to_be_bytes()[at]));
        }
        out.extend(self.tags.iter().flat_map(|tag| tag.to_le_bytes()));
        out
    }

    /// Reads the plain payload of a section.
    ///
    /// # Errors
    /// The payload is of another version, or its length does not match its counts.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        const STRUCTURE: &str = "append index";
        let short = |expected: u64| FormatError::Short {
            structure: STRUCTURE,
            expected,
            found: bytes.len() as u64,
        };
        let (raw, rest) = AppendIndexHeadRaw::read_from_prefix(bytes)
            .map_err(|_| short(APPEND_INDEX_HEAD_LEN as u64))?;
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        let has_tags = match raw.version.get() {
            PRINTS => false,
            PRINTS_AND_TAGS => true,
            version => return field("version", version.into(), "1 or 2"),
        };
        if raw.thin_log2 > 32 {
            return field("thinning", raw.thin_log2.into(), "0 to 32");
        }
        let frame_count = raw.frame_count.get() as usize;
        let print_count = raw.print_count.get();
        // The lengths are compared with the bytes at hand before anything is allocated.
        let of_frames = (frame_count as u64 * COUNT_LEN as u64)
            .checked_add(print_count.saturating_mul(PRINT_LEN as u64));
        let split = of_frames.and_then(|len| rest.split_at_checked(usize::try_from(len).ok()?));
        let Some((rest, tags)) = split else { return Err(short(of_frames.unwrap_or(u64::MAX))) };
        let (tags, odd) = tags.as_chunks::<TAG_LEN>();
        if !odd.is_empty() || tags.is_empty() == has_tags {
            return field("bytes of tags", (tags.len() * TAG_LEN + odd.len()) as u64, "2 for each");
        }
        let tags: Vec<u16> = tags.iter().map(|tag| u16::from_le_bytes(*tag)).collect();
        let content_first = if has_tags { raw.content_first.get() } else { 0 };
        if content_first.checked_add(tags.len() as u64).is_none() {
            return field("first content", content_first, "contents below 2^64");
        }
        let frame_first = raw.frame_first.get();
        if frame_first.checked_add(frame_count as u64).is_none() {
            return field("first frame", frame_first, "frames below 2^64");
        }
        let (counts, planes) = rest.split_at(frame_count * COUNT_LEN);
        let mut ends = Vec::with_capacity(frame_count);
        let mut end = 0u64;
        for count in counts.as_chunks::<COUNT_LEN>().0 {
            end += u64::from(u32::from_le_bytes(*count));
            if end > print_count {
                return field("fingerprints of frames", end, "those of the head");
            }
            ends.push(end as usize);
        }
        if end != print_count {
            return field("fingerprints of frames", end, "those of the head");
        }
        let len = print_count as usize;
        let of = |print| [0, 1, 2, 3].map(|plane| planes[plane * len + print]);
        let prints = (0..len).map(|print| u32::from_be_bytes(of(print))).collect();
        Ok(Self { thin_log2: raw.thin_log2, frame_first, ends, prints, content_first, tags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> AppendIndex {
        let mut index = AppendIndex::new(4, 7);
        index.push(&[1 << 59, u64::MAX, 3 << 40, (1 << 59) | (1 << 30)]);
        index.push(&[]);
        index.push(&[0, 1 << 60]);
        index
    }

    #[test]
    fn frames_come_back_with_what_is_kept_of_them() {
        let index = index();
        assert_eq!(index.of(0), [3 << 12, 1 << 31, (1 << 31) | 4]);
        assert!(index.of(1).is_empty());
        assert_eq!(index.of(2), [0]);
        assert_eq!(AppendIndex::decode(&index.encode()).unwrap(), index);
        let none = AppendIndex::new(0, 0);
        assert_eq!(AppendIndex::decode(&none.encode()).unwrap(), none);
    }

    #[test]
    fn contents_come_back_with_their_tags() {
        let mut tagged = index();
        tagged.set_tags(9, vec![0x0102, 0xffff, 0]);
        let bytes = tagged.encode();
        let found = AppendIndex::decode(&bytes).unwrap();
        assert_eq!(found, tagged);
        assert_eq!(found.tagged(), 9..12);
        assert_eq!(
            [8, 9, 11, 12].map(|content| found.tag_of(content)),
            [None, Some(0x0102), Some(0), None]
        );
        let mut digest = [7; 32];
        digest[..2].copy_from_slice(&[2, 1]);
        assert_eq!(AppendIndex::tag(&digest), 0x0102);
        // Tags alone.
        let mut alone = AppendIndex::new(0, 5);
        alone.set_tags(0, vec![3]);
        assert_eq!(AppendIndex::decode(&alone.encode()).unwrap(), alone);
        for cut in [1, 2, 3, 6] {
            let left = AppendIndex::decode(&bytes[..bytes.len() - cut]);
            // Two tags are two tags.
            assert_eq!(left.is_ok(), cut == 2, "{cut}");
        }
        let mut wrong = bytes.clone();
        wrong[24..32].fill(0xff);
        assert!(AppendIndex::decode(&wrong).is_err(), "contents beyond 2^64");
        wrong = bytes;
        wrong[0] = 1;
        assert!(AppendIndex::decode(&wrong).is_err(), "version 1 has no tags");
    }

    #[test]
    fn any_other_length_and_wrong_counts_are_refused() {
        let bytes = index().encode();
        for len in 0..bytes.len() {
            assert!(AppendIndex::decode(&bytes[..len]).is_err(), "{len}");
        }
        assert!(AppendIndex::decode(&[&bytes[..], &[0]].concat()).is_err());
        for at in [0, 2, 4, 16, 23, 32, 36] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            assert!(AppendIndex::decode(&damaged).is_err(), "{at}");
        }
        let mut damaged = bytes.clone();
        damaged[8..16].fill(0xff);
        assert!(AppendIndex::decode(&damaged).is_err(), "frames beyond 2^64");
    }
}
