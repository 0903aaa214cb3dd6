//! The Merkle tree over the leaves of an image, and the identity that follows from it.
//!
//! The payload of a merkle section is one `MerkleHeadRaw` and the hashes of the tree, level by
//! level from the leaves up. This file knows where each hash lies; callers compute hashes. A
//! decoded head always describes a tree that fits its payload, so no hash is looked for outside.

use crate::error::FormatError;
use crate::limits::SECTION_STORED_LEN_MAX;
use crate::section::SECTION_HEADER_LEN;
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
    /// `section_offset`.
    ///
    /// # Errors
    /// There are too few bytes, or a tree of this head would not fit section and image.
    pub fn decode(
        bytes: &[u8],
        section_offset: u64,
        payload_len: u64,
    ) -> Result<Self, FormatError> {
        const STRUCTURE: &str = "merkle head";
        let (raw, _) = MerkleHeadRaw::read_from_prefix(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: MERKLE_HEAD_LEN as u64,
            found: bytes.len() as u64,
        })?;
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        let head = Self {
            covered_len: raw.covered_len.get(),
            root_offset: raw.root_offset.get(),
            root_section_len: raw.root_section_len.get(),
            tree_root: raw.tree_root,
        };
        if u64::from(raw.leaf_len.get()) != LEAF_LEN {
            return field("leaf length", raw.leaf_len.get().into(), "65,536");
        }
        if u64::from(raw.fan_out.get()) != FAN_OUT {
            return field("fan-out", raw.fan_out.get().into(), "256");
        }
        if head.covered_len == 0 || head.covered_len > section_offset {
            return field("covered length", head.covered_len, "1 to the offset of its section");
        }
        match head.root_offset.checked_add(head.root_section_len) {
            Some(end)
                if end <= head.covered_len && head.root_section_len > SECTION_HEADER_LEN as u64 => {
            }
            _ => return field("root offset", head.root_offset, "a section that is covered"),
        }
        if payload_len > SECTION_STORED_LEN_MAX || payload_len != head.shape().payload_len() {
            return field("payload length", payload_len, "that of a tree over the covered length");
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

    /// Finds the node that holds hash `index` of `level`. Returns its offset in the payload, its
    /// length in bytes, and its number in the level, which is the index of its own hash one level
    /// up.
    pub fn node_of(&self, level: usize, index: u64) -> (u64, usize, u64) {
        let node = index / FAN_OUT;
        let first = node * FAN_OUT;
        let count = self.hash_count(level).saturating_sub(first).min(FAN_OUT);
        let before: u64 = self.counts.iter().take(level).sum();
        let offset = MERKLE_HEAD_LEN as u64 + (before + first) * HASH_LEN as u64;
        (offset, count as usize * HASH_LEN, node)
    }

    /// The length of the payload: head and all hashes.
    pub fn payload_len(&self) -> u64 {
        MERKLE_HEAD_LEN as u64 + self.counts.iter().sum::<u64>() * HASH_LEN as u64
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
        assert_eq!(shape.node_of(0, 256), (64 + 256 * 32, 32, 1));
        assert_eq!(shape.node_of(1, 1), (64 + 257 * 32, 64, 0));
        assert_eq!(shape.node_of(2, 0), (64 + 259 * 32, 32, 0));
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
    fn identities_are_read_as_they_are_written() {
        let identity = Identity(std::array::from_fn(|at| at as u8 * 7));
        assert_eq!(identity.to_string().parse(), Ok(identity));
        assert_eq!(identity.to_string().to_uppercase().parse(), Ok(identity));
        for wrong in ["", "00", &"g0".repeat(32), &"é".repeat(32), &"0".repeat(65)] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong}");
        }
    }
}
