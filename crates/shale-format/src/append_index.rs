//! The append index: fingerprints of frames, so that an append finds those that its contents
//! resemble without decoding all.
//!
//! The payload of an append index section is one `AppendIndexHeadRaw` and two columns. It holds
//! hints only: whoever uses it decodes the frames that it points to and compares their bytes. A
//! decoded index has exactly the fingerprints that its counts claim, and all its numbers are within
//! the payload. This file does not know how fingerprints are computed, see `shale_write::Base`.

use crate::error::FormatError;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of the head in bytes.
pub const APPEND_INDEX_HEAD_LEN: usize = 32;
/// Most plain bytes of an append index: read whole by an append.
pub const APPEND_INDEX_LEN_MAX: u64 = 64 << 20;
/// Bytes of a fingerprint.
const PRINT_LEN: usize = 4;
/// Bytes of a count.
const COUNT_LEN: usize = 4;
/// The version of fingerprints that this program knows.
const VERSION: u16 = 1;

/// On-disk layout of the head.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct AppendIndexHeadRaw {
    /// How fingerprints are made: 1.
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
    /// Reserved, must be zero.
    pub reserved_2: U64,
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
}

impl AppendIndex {
    /// Starts without frames.
    pub fn new(thin_log2: u8, frame_first: u64) -> Self {
        Self { thin_log2: thin_log2.min(32), frame_first, ends: Vec::new(), prints: Vec::new() }
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
        let head = AppendIndexHeadRaw {
            version: U16::new(VERSION),
            thin_log2: self.thin_log2,
            reserved: 0,
            frame_count: U32::new(self.ends.len() as u32),
            frame_first: U64::new(self.frame_first),
            print_count: U64::new(self.prints.len() as u64),
            reserved_2: U64::new(0),
        };
        let mut out = head.as_bytes().to_vec();
        for frame in 0..self.ends.len() {
            out.extend_from_slice(&(self.of(frame).len() as u32).to_le_bytes());
        }
        for at in 0..PRINT_LEN {
            out.extend(self.prints.iter().map(|print| print.to_be_bytes()[at]));
        }
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
        if raw.version.get() != VERSION {
            return field("version", raw.version.get().into(), "1");
        }
        if raw.thin_log2 > 32 {
            return field("thinning", raw.thin_log2.into(), "0 to 32");
        }
        let frame_count = raw.frame_count.get() as usize;
        let print_count = raw.print_count.get();
        // Both lengths are compared with the bytes at hand before anything is allocated.
        let expected = (frame_count as u64 * COUNT_LEN as u64)
            .checked_add(print_count.saturating_mul(PRINT_LEN as u64));
        if expected != Some(rest.len() as u64) {
            return Err(short(expected.unwrap_or(u64::MAX)));
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
        Ok(Self { thin_log2: raw.thin_log2, frame_first, ends, prints })
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
