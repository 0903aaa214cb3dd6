//! The Merkle tree over the leaves of an image, and the identity that follows from it.
//!
//! The payload of a merkle section is one `MerkleHeadRaw` and the hashes of the tree, level by
//! level from the leaves up. An append stores only hashes that are new: between head and hashes its
//! section has a list of [`HashRun`]s, which says where all hashes lie. This file knows where each
//! hash lies; callers compute hashes. A decoded head always describes a tree that fits its payload,
//! and decoded runs lie before the end of their section, so no hash is looked for elsewhere.

use crate::error::FormatError;
use crate::limits::{HASH_RUN_COUNT_MAX, SECTION_STORED_LEN_MAX};
use crate::section::{SECTION_HEADER_LEN, SectionHeader, SectionType};
use std::ops::Range;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a leaf; the last one of an image may be shorter.
pub const LEAF_LEN: u64 = 64 << 10;
/// Hashes below one node.
pub const FAN_OUT: u64 = 256;
/// Bytes of a hash.
pub const HASH_LEN: usize = 32;
/// Size of the head of a merkle payload in bytes.
pub const MERKLE_HEAD_LEN: usize = 64;

/// On-disk layout of the head.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct MerkleHeadRaw {
    /// Bytes of the image, from its superblock on, that the tree covers.
    pub covered_len: U64,
    /// Offset of the section header of the root that belongs to it.
    pub root_offset: U64,
    /// Bytes of that section, header included.
    pub root_section_len: U64,
    /// `LEAF_LEN`.
    pub leaf_len: U32,
    /// `FAN_OUT`.
    pub fan_out: U32,
    /// Hash of the top of the tree.
    pub tree_root: [u8; HASH_LEN],
}

const _: () = assert!(size_of::<MerkleHeadRaw>() == MERKLE_HEAD_LEN);

const STRUCTURE: &str = "merkle head";

fn field(field: &'static str, found: u64, allowed: &'static str) -> FormatError {
    FormatError::Field { structure: STRUCTURE, field, found, allowed }
}

/// A validated head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MerkleHead {
    /// Bytes of the image that the tree covers.
    pub covered_len: u64,
    /// Offset of the section header of the root that belongs to it.
    pub root_offset: u64,
    /// Bytes of that section, header included.
    pub root_section_len: u64,
    /// Hash of the top of the tree.
    pub tree_root: [u8; HASH_LEN],
}

impl MerkleHead {
    /// Returns the 64 bytes on disk. The identity of the image is a hash of them.
    pub fn encode(&self) -> [u8; MERKLE_HEAD_LEN] {
        let raw = MerkleHeadRaw {
            covered_len: U64::new(self.covered_len),
            root_offset: U64::new(self.root_offset),
            root_section_len: U64::new(self.root_section_len),
            leaf_len: U32::new(LEAF_LEN as u32),
            fan_out: U32::new(FAN_OUT as u32),
            tree_root: self.tree_root,
        };
        let mut out = [0; MERKLE_HEAD_LEN];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Reads the head at the start of a payload of `payload_len` bytes whose section header is at
    /// `section_offset`. The payload has all hashes.
    ///
    /// # Errors
    /// There are too few bytes, or a tree of this head would not fit section and image.
    pub fn decode(
        bytes: &[u8],
        section_offset: u64,
        payload_len: u64,
    ) -> Result<Self, FormatError> {
        let head = Self::decode_head(bytes, section_offset)?;
        if payload_len > SECTION_STORED_LEN_MAX || payload_len != head.shape().payload_len() {
            let allowed = "that of a tree over the covered length";
            return Err(field("payload length", payload_len, allowed));
        }
        Ok(head)
    }

    /// Reads the head at the start of a payload whose section header is at `section_offset`.
    ///
    /// # Errors
    /// There are too few bytes, or a tree of this head would not fit the image.
    pub fn decode_head(bytes: &[u8], section_offset: u64) -> Result<Self, FormatError> {
        let (raw, _) = MerkleHeadRaw::read_from_prefix(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: MERKLE_HEAD_LEN as u64,
            found: bytes.len() as u64,
        })?;
        let head = Self {
            covered_len: raw.covered_len.get(),
            root_offset: raw.root_offset.get(),
            root_section_len: raw.root_section_len.get(),
            tree_root: raw.tree_root,
        };
        if u64::from(raw.leaf_len.get()) != LEAF_LEN {
            return Err(field("leaf length", raw.leaf_len.get().into(), "65,536"));
        }
        if u64::from(raw.fan_out.get()) != FAN_OUT {
            return Err(field("fan-out", raw.fan_out.get().into(), "256"));
        }
        if head.covered_len == 0 || head.covered_len > section_offset {
            let allowed = "1 to the offset of its section";
            return Err(field("covered length", head.covered_len, allowed));
        }
        match head.root_offset.checked_add(head.root_section_len) {
            Some(end)
                if end <= head.covered_len && head.root_section_len > SECTION_HEADER_LEN as u64 => {
            }
            _ => return Err(field("root offset", head.root_offset, "a section that is covered")),
        }
        Ok(head)
    }

    /// Returns the levels of the tree.
    pub fn shape(&self) -> MerkleShape {
        MerkleShape::new(self.covered_len)
    }
}

/// How many hashes each level of a tree has, and where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerkleShape {
    /// Hashes of each level, leaves first; the last level has one.
    counts: Vec<u64>,
}

impl MerkleShape {
    /// Computes the shape of the tree over `covered_len` bytes, at least one.
    pub fn new(covered_len: u64) -> Self {
        let mut counts = vec![covered_len.div_ceil(LEAF_LEN).max(1)];
        while let Some(&last) = counts.last()
            && last > 1
        {
            counts.push(last.div_ceil(FAN_OUT));
        }
        Self { counts }
    }

    /// The number of leaves.
    pub fn leaf_count(&self) -> u64 {
        self.counts[0]
    }

    /// The number of levels, that of the leaves included; at most 8.
    pub fn level_count(&self) -> usize {
        self.counts.len()
    }

    /// The number of hashes of a level; the leaves are level 0. 0 for a level that does not exist.
    pub fn hash_count(&self, level: usize) -> u64 {
        self.counts.get(level).copied().unwrap_or(0)
    }

    /// Finds the node that holds hash `index` of `level`. Returns which hashes of the tree it has,
    /// and its number in the level, which is the index of its own hash one level up.
    pub fn node_of(&self, level: usize, index: u64) -> (Range<u64>, u64) {
        let node = index / FAN_OUT;
        let count = self.hash_count(level).saturating_sub(node * FAN_OUT).min(FAN_OUT);
        let first = self.level_start(level) + node * FAN_OUT;
        (first..first + count, node)
    }

    /// The number of hashes in all levels below `level`: where its own begin.
    pub fn level_start(&self, level: usize) -> u64 {
        self.counts.iter().take(level).sum()
    }

    /// The number of hashes of all levels.
    pub fn hash_total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The length of a payload with all hashes.
    pub fn payload_len(&self) -> u64 {
        MERKLE_HEAD_LEN as u64 + self.hash_total() * HASH_LEN as u64
    }
}

/// Reads the start of the payload of a Merkle section: the head, and where all hashes lie.
///
/// # Errors
/// There are too few bytes, or what they say does not fit section and image.
pub fn decode_section(
    bytes: &[u8],
    section: &SectionHeader,
) -> Result<(MerkleHead, HashRuns), FormatError> {
    if section.section_type == SectionType::Merkle as u16 {
        let head = MerkleHead::decode(bytes, section.offset, section.stored_len)?;
        return Ok((head, HashRuns::whole(&head.shape(), section.offset)));
    }
    let head = MerkleHead::decode_head(bytes, section.offset)?;
    let list = bytes.get(MERKLE_HEAD_LEN..).unwrap_or_default();
    Ok((head, HashRuns::decode(list, section.end(), &head.shape())?))
}

/// Most bytes of a list of runs.
pub const HASH_RUNS_LEN_MAX: u64 =
    (size_of::<HashRunsRaw>() + HASH_RUN_COUNT_MAX as usize * size_of::<HashRunRaw>()) as u64;

/// On-disk layout of the head of the list of runs, which follows the head of a continued tree.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct HashRunsRaw {
    /// Runs that follow.
    pub run_count: U32,
    /// Reserved, must be zero.
    pub reserved: U32,
}

const _: () = assert!(size_of::<HashRunsRaw>() == 8);

/// On-disk layout of one run.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct HashRunRaw {
    /// Offset of its first hash from the start of the image.
    pub offset: U64,
    /// Hashes of the run.
    pub count: U64,
}

const _: () = assert!(size_of::<HashRunRaw>() == 16);

/// Hashes of a tree that lie one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashRun {
    /// Number of the first, among the hashes of all levels.
    pub first: u64,
    /// How many they are, at least one.
    pub count: u64,
    /// Offset of the first in the image.
    pub offset: u64,
}

impl HashRun {
    fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// Where all hashes of a tree lie. There is a place for each of them, inside the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashRuns {
    /// Ascending and without gaps.
    runs: Vec<HashRun>,
}

impl HashRuns {
    /// The hashes of a tree whose section at `section_offset` has all of them.
    pub fn whole(shape: &MerkleShape, section_offset: u64) -> Self {
        let offset = section_offset + (SECTION_HEADER_LEN + MERKLE_HEAD_LEN) as u64;
        Self { runs: vec![HashRun { first: 0, count: shape.hash_total(), offset }] }
    }

    /// No hash yet.
    pub fn empty() -> Self {
        Self { runs: Vec::new() }
    }

    /// Adds places of the next hashes. Joins runs that lie next to each other.
    pub fn push(&mut self, count: u64, offset: u64) {
        if count == 0 {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if last.offset + last.count * HASH_LEN as u64 == offset => {
                last.count += count;
            }
            last => {
                let first = last.map_or(0, |last| last.end());
                self.runs.push(HashRun { first, count, offset });
            }
        }
    }

    /// Returns the places of the hashes `wanted`, in order, as ranges of the image.
    pub fn places(&self, wanted: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.within(wanted).map(|run| run.offset..run.offset + run.count * HASH_LEN as u64)
    }

    /// Returns the runs, and parts of runs, that have the hashes `wanted`.
    pub fn within(&self, wanted: Range<u64>) -> impl Iterator<Item = HashRun> + '_ {
        let from = self.runs.partition_point(|run| run.end() <= wanted.start);
        let runs = self.runs[from..].iter();
        runs.take_while(move |run| run.first < wanted.end).map(move |run| {
            let first = run.first.max(wanted.start);
            let count = run.end().min(wanted.end).saturating_sub(first);
            let offset = run.offset + (first - run.first) * HASH_LEN as u64;
            HashRun { first, count, offset }
        })
    }

    /// The length of the list on disk.
    pub fn encoded_len(&self) -> usize {
        size_of::<HashRunsRaw>() + self.runs.len() * size_of::<HashRunRaw>()
    }

    /// Returns the bytes on disk, which follow the head of the tree.
    pub fn encode(&self) -> Vec<u8> {
        let count = U32::new(self.runs.len() as u32);
        let head = HashRunsRaw { run_count: count, reserved: U32::new(0) };
        let mut out = head.as_bytes().to_vec();
        for run in &self.runs {
            let raw = HashRunRaw { offset: U64::new(run.offset), count: U64::new(run.count) };
            out.extend_from_slice(raw.as_bytes());
        }
        out
    }

    /// Returns how long the list is on disk that begins with `bytes`, at least 8 of them.
    ///
    /// # Errors
    /// There are too few bytes, or more runs than allowed.
    pub fn len_of(bytes: &[u8]) -> Result<usize, FormatError> {
        let (raw, _) = HashRunsRaw::read_from_prefix(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: size_of::<HashRunsRaw>() as u64,
            found: bytes.len() as u64,
        })?;
        let count = raw.run_count.get();
        if count == 0 || count > HASH_RUN_COUNT_MAX {
            return Err(field("runs", count.into(), "1 to 1,024"));
        }
        if raw.reserved.get() != 0 {
            return Err(field("reserved", raw.reserved.get().into(), "0"));
        }
        Ok(size_of::<HashRunsRaw>() + count as usize * size_of::<HashRunRaw>())
    }

    /// Reads the list that follows the head of a tree of this shape, in a section that ends at
    /// `section_end`.
    ///
    /// # Errors
    /// There are too few bytes, or the runs do not have exactly the hashes of the tree, or do not
    /// lie before `section_end`.
    pub fn decode(
        bytes: &[u8],
        section_end: u64,
        shape: &MerkleShape,
    ) -> Result<Self, FormatError> {
        let len = Self::len_of(bytes)?;
        let short = FormatError::Short {
            structure: STRUCTURE,
            expected: len as u64,
            found: bytes.len() as u64,
        };
        let list = bytes.get(size_of::<HashRunsRaw>()..len).ok_or(short)?;
        let (mut runs, mut first) = (Vec::new(), 0_u64);
        for raw in list.chunks_exact(size_of::<HashRunRaw>()) {
            let Ok(raw) = HashRunRaw::read_from_bytes(raw) else { continue };
            let (count, offset) = (raw.count.get(), raw.offset.get());
            if count == 0 || count > shape.hash_total() - first {
                return Err(field("hashes of a run", count, "1 to those that are left"));
            }
            // The count is at most that of a tree, so it does not overflow.
            match offset.checked_add(count * HASH_LEN as u64) {
                Some(end) if end <= section_end => {}
                _ => return Err(field("offset of a run", offset, "before the end of its section")),
            }
            runs.push(HashRun { first, count, offset });
            first += count;
        }
        if first != shape.hash_total() {
            return Err(field("hashes of all runs", first, "those of the tree"));
        }
        Ok(Self { runs })
    }
}

/// Identity of an image: a BLAKE3 hash of its Merkle head. Two images with the same identity give
/// the same answers to every question. (The image ID in the superblock is something else.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity(pub [u8; HASH_LEN]);

/// Context of the key derivation that makes the identity from a head.
pub const IDENTITY_CONTEXT: &str = "ShaleFS image identity 1";

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({self})")
    }
}

impl std::str::FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an identity: 64 hexadecimal digits are expected");
        let digits = text.as_bytes();
        if digits.len() != 2 * HASH_LEN {
            return Err(wrong());
        }
        let mut bytes = [0; HASH_LEN];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: u8| char::from(at).to_digit(16).ok_or_else(wrong);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_cover_every_leaf_once() {
        for (covered, counts) in [
            (1, vec![1]),
            (LEAF_LEN, vec![1]),
            (LEAF_LEN + 1, vec![2, 1]),
            (256 * LEAF_LEN, vec![256, 1]),
            (257 * LEAF_LEN, vec![257, 2, 1]),
            (65_537 * LEAF_LEN, vec![65_537, 257, 2, 1]),
        ] {
            assert_eq!(MerkleShape::new(covered).counts, counts);
        }
        assert!(MerkleShape::new(u64::MAX).level_count() <= 8);
        let shape = MerkleShape::new(257 * LEAF_LEN);
        assert_eq!(shape.node_of(0, 256), (256..257, 1));
        assert_eq!(shape.node_of(1, 1), (257..259, 0));
        assert_eq!(shape.node_of(2, 0), (259..260, 0));
        assert_eq!(shape.payload_len(), 64 + 260 * 32);
    }

    #[test]
    fn a_head_that_does_not_fit_is_refused() {
        let head = MerkleHead {
            covered_len: 70_000,
            root_offset: 60_000,
            root_section_len: 500,
            tree_root: [7; 32],
        };
        let (bytes, len) = (head.encode(), head.shape().payload_len());
        assert_eq!(MerkleHead::decode(&bytes, 70_000, len), Ok(head));
        assert!(MerkleHead::decode(&bytes, 69_999, len).is_err());
        assert!(MerkleHead::decode(&bytes, 70_000, len + 32).is_err());
        assert!(MerkleHead::decode(&bytes[..63], 70_000, len).is_err());
        for (place, value) in [(24, 1), (28, 1), (7, 0xff), (10, 0xff), (23, 0xff), (22, 1)] {
            let mut wrong = bytes;
            wrong[place] ^= value;
            assert!(MerkleHead::decode(&wrong, 70_000, len).is_err(), "byte {place}");
        }
    }

    #[test]
    fn runs_have_every_hash_once_and_lie_in_the_image() {
        let shape = MerkleShape::new(300 * LEAF_LEN);
        let mut runs = HashRuns::empty();
        runs.push(280, 1000);
        runs.push(20, 20_000);
        runs.push(1, 1000 + 32 * 280);
        runs.push(1, 20_640);
        runs.push(1, 20_672);
        let section_end = 20_704;
        let bytes = runs.encode();
        assert_eq!(bytes.len(), runs.encoded_len());
        assert_eq!(runs.runs.len(), 4, "the last two are one");
        assert_eq!(HashRuns::decode(&bytes, section_end, &shape), Ok(runs.clone()));
        let places: Vec<_> = runs.places(256..300).collect();
        assert_eq!(places, [1000 + 256 * 32..1000 + 280 * 32, 20_000..20_640]);
        assert_eq!(runs.places(302..303).next(), Some(20_672..20_704));

        assert!(HashRuns::decode(&bytes, section_end - 1, &shape).is_err());
        assert!(HashRuns::decode(&bytes[..bytes.len() - 1], section_end, &shape).is_err());
        for leaves in [299, 301] {
            let other = MerkleShape::new(leaves * LEAF_LEN);
            assert!(HashRuns::decode(&bytes, section_end, &other).is_err(), "{leaves} leaves");
        }
        for (place, value) in [(0, 0xff), (1, 4), (0, 4), (4, 1), (15, 0x80), (23, 1), (16, 1)] {
            let mut wrong = bytes.clone();
            wrong[place] ^= value;
            assert!(HashRuns::decode(&wrong, section_end, &shape).is_err(), "byte {place}");
        }
    }

    #[test]
    fn identities_are_read_as_they_are_written() {
        let identity = Identity(std::array::from_fn(|at| at as u8 * 7));
        assert_eq!(identity.to_string().parse(), Ok(identity));
        assert_eq!(identity.to_string().to_uppercase().parse(), Ok(identity));
        for wrong in ["", "00", &"g0".repeat(32), &"é".repeat(32), &"0".repeat(65)] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong}");
        }
    }
}
