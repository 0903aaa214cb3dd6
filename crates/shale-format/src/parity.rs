//! A parity section: how the leaves before it are grouped, and where bodies and hashes lie.
//!
//! The payload is three zones with the bodies of parity between them. Each zone repeats the head
//! and has a third of the coded table of hashes, of which any third gives all. So the beginning or
//! the end of the file or any burst may be lost, and the parity is still found and read. The head
//! also repeats the trailer, so that a lost end can be written again. This file knows offsets and
//! counts, and checks them; it computes no hashes and no parity.
//!
//! A section of an image that grew may protect the end of what is before it only: its first leaf is
//! the one in which an earlier parity section begins, and that section protects the rest. So the
//! sections form a chain, and each but the first is protected by the one after it.

use crate::Checksum;
use crate::error::FormatError;
use crate::limits::{
    PARITY_GROUP_LEAVES_MAX, PARITY_TABLE_CHUNKS_MAX, SECTION_STORED_LEN_MAX, SPACE_LEN_MAX,
};
use crate::merkle::{HASH_LEN, LEAF_LEN};
use crate::section::SECTION_HEADER_LEN;
use crate::trailer::{TRAILER_SECTION_LEN, Trailer};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every parity head.
pub const PARITY_MAGIC: [u8; 8] = *b"\x8bPARTY\r\n";
/// Size of a head in bytes.
pub const PARITY_HEAD_LEN: usize = 136;
/// Copies of the head, and parts of the coded table.
pub const ZONE_COUNT: u64 = 3;
/// Bytes of a chunk before its share of the coded table: sum and number.
pub const CHUNK_HEAD_LEN: u64 = 16;
/// Smallest length of a chunk.
pub const CHUNK_LEN_MIN: u64 = 1024;
/// Sets of groups: all leaves, and those that hold metadata once more.
pub const SET_COUNT: usize = 2;

/// On-disk layout of a head.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct ParityHeadRaw {
    /// `PARITY_MAGIC`.
    pub magic: [u8; 8],
    /// Offset of this head from the start of the image.
    pub offset: U64,
    /// Offset of the section header; everything before is protected.
    pub section_offset: U64,
    /// The image ID.
    pub image_id: [u8; 16],
    /// `LEAF_LEN`.
    pub leaf_len: U32,
    /// Bytes of a chunk of the coded table, its head included.
    pub chunk_len: U32,
    /// Bodies begin at multiples of this.
    pub body_align: U32,
    /// Bytes of the first protected leaf before the header of the earlier parity section; 0 if all
    /// leaves are protected.
    pub previous_at: U32,
    /// The groups over all leaves that are protected.
    pub all: ParitySetRaw,
    /// The groups over the leaves that hold metadata.
    pub metadata: ParitySetRaw,
    /// As in the trailer that follows the section.
    pub root_offset: U64,
    /// As in that trailer.
    pub root_section_len: U64,
    /// As in that trailer.
    pub previous_trailer_offset: U64,
    /// As in that trailer.
    pub section_count: U64,
    /// As in that trailer.
    pub merkle_offset: U64,
    /// XXH3-64 of the bytes before.
    pub checksum: U64,
}

const _: () = assert!(size_of::<ParityHeadRaw>() == PARITY_HEAD_LEN);

/// On-disk layout of a set of groups.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct ParitySetRaw {
    /// First leaf; the set reaches to the last one.
    pub first_leaf: U64,
    /// Groups; leaf `first_leaf + n` belongs to group `n mod group_count`. 0: the set is empty.
    pub group_count: U32,
    /// Bodies of parity for each group.
    pub parity_count: U32,
}

const _: () = assert!(size_of::<ParitySetRaw>() == 16);

/// A set of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParitySet {
    /// First leaf; the set reaches to the last one.
    pub first_leaf: u64,
    /// Groups; leaf `first_leaf + n` belongs to group `n mod group_count`. 0: the set is empty.
    pub group_count: u32,
    /// Bodies of parity for each group.
    pub parity_count: u32,
}

impl ParitySet {
    /// Bodies of all groups.
    pub fn body_count(&self) -> u64 {
        u64::from(self.group_count) * u64::from(self.parity_count)
    }
}

/// A validated head. It is the same in all three zones except for its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityHead {
    /// Offset of the section header; everything before is protected.
    pub section_offset: u64,
    /// The image ID.
    pub image_id: [u8; 16],
    /// Bytes of a chunk of the coded table.
    pub chunk_len: u64,
    /// Bodies begin at multiples of this.
    pub body_align: u64,
    /// Bytes of the first protected leaf before the header of the earlier parity section.
    pub previous_at: u64,
    /// All leaves that are protected, and those of them that hold metadata.
    pub sets: [ParitySet; SET_COUNT],
    /// As in the trailer that follows the section.
    pub root_offset: u64,
    /// As in that trailer.
    pub root_section_len: u64,
    /// As in that trailer.
    pub previous_trailer_offset: u64,
    /// As in that trailer.
    pub section_count: u64,
    /// As in that trailer.
    pub merkle_offset: u64,
}

/// Where the parts of a parity section lie, from the start of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityLayout {
    /// The first protected leaf; an earlier section protects those before it.
    pub first_leaf: u64,
    /// Leaves before the section, where protected ones end; the last may be short.
    pub leaf_count: u64,
    /// Bodies of all sets.
    pub body_count: u64,
    /// Bodies before the middle zone.
    pub bodies_first: u64,
    /// Chunks of the table in each zone.
    pub chunk_count: u64,
    /// The zones.
    pub zones: [u64; ZONE_COUNT as usize],
    /// The first body, and the first one after the middle zone.
    pub bodies: [u64; 2],
    /// End of the payload: the trailer's section header.
    pub end: u64,
}

impl ParityLayout {
    /// Returns the number of protected leaves.
    pub fn protected_count(&self) -> u64 {
        self.leaf_count - self.first_leaf
    }

    /// Returns the offset of body `index`, counted through all sets.
    pub fn body_offset(&self, index: u64) -> u64 {
        match index.checked_sub(self.bodies_first) {
            None => self.bodies[0] + index * LEAF_LEN,
            Some(after) => self.bodies[1] + after * LEAF_LEN,
        }
    }
}

impl ParityHead {
    /// Computes groups of about equal size for the leaves from `first_leaf` on of `leaf_count`
    /// leaves, of which the last `metadata_leaves` hold metadata. Parity is `parts_per_million` of
    /// all leaves, and twice that of the metadata in addition.
    ///
    /// There are two bodies more than this share, and at least 18 (or as many as leaves in the
    /// whole image), so that losing the first or last MiB of a small image is a burst like any
    /// other. A group has at most `group_leaves_max` leaves, and never more than
    /// [`PARITY_GROUP_LEAVES_MAX`].
    pub fn sets_for(
        (first_leaf, leaf_count): (u64, u64),
        metadata_leaves: u64,
        parts_per_million: u32,
        group_leaves_max: u64,
    ) -> [ParitySet; SET_COUNT] {
        let group_leaves_max = group_leaves_max.clamp(1, PARITY_GROUP_LEAVES_MAX);
        let set = |first_leaf: u64, share: u64, extra: u64, least: u64| {
            let leaves = leaf_count - first_leaf;
            if leaves == 0 {
                return ParitySet::default();
            }
            let group_count = leaves.div_ceil(group_leaves_max);
            // The largest group counts, and the sum may be a little more than asked for.
            let wanted = (leaves.saturating_mul(share)).div_ceil(1_000_000).saturating_add(extra);
            let wanted = wanted.max(least).min(leaves.max(least.min(leaf_count)));
            let parity_count = wanted.div_ceil(group_count).min(PARITY_GROUP_LEAVES_MAX);
            ParitySet {
                first_leaf,
                group_count: group_count as u32,
                parity_count: parity_count as u32,
            }
        };
        let share = u64::from(parts_per_million);
        let all = set(first_leaf, share, 2, PARITY_COUNT_MIN);
        let leaves = leaf_count - first_leaf;
        // Where the first set alone can restore everything, the second would add nothing.
        let metadata = match metadata_leaves {
            0 => ParitySet::default(),
            _ if all.body_count() >= leaves => ParitySet::default(),
            count => set(leaf_count - count.min(leaves), share.saturating_mul(2), 1, 1),
        };
        [all, metadata]
    }

    /// Returns the smallest chunk length whose table has few enough chunks. `leaf_count` is the
    /// number of protected leaves.
    pub fn chunk_len_for(leaf_count: u64, sets: &[ParitySet; SET_COUNT]) -> u64 {
        let bodies: u64 = sets.iter().map(ParitySet::body_count).sum();
        let table_len = (leaf_count + bodies) * HASH_LEN as u64;
        let mut chunk_len = CHUNK_LEN_MIN;
        while table_len.div_ceil(chunk_len - CHUNK_HEAD_LEN) > PARITY_TABLE_CHUNKS_MAX {
            chunk_len *= 2;
        }
        chunk_len
    }

    /// Computes where everything lies.
    ///
    /// # Errors
    /// A value is beyond its limit, or values contradict each other.
    pub fn layout(&self) -> Result<ParityLayout, FormatError> {
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        if self.section_offset == 0 || self.section_offset > SPACE_LEN_MAX / 4 {
            return field("section offset", self.section_offset, "1 to 2^62");
        }
        let leaf_count = self.section_offset.div_ceil(LEAF_LEN);
        let first_leaf = self.sets[0].first_leaf;
        for set in &self.sets {
            let leaves = leaf_count.saturating_sub(set.first_leaf);
            if set.group_count == 0 {
                if *set != ParitySet::default() {
                    return field("groups", 0, "at least 1 in a set that is not all zero");
                }
                continue;
            }
            let groups = u64::from(set.group_count);
            if leaves < groups || leaves.div_ceil(groups) > PARITY_GROUP_LEAVES_MAX {
                return field("groups", groups, "groups of 1 to 15,360 leaves");
            }
            if !(1..=PARITY_GROUP_LEAVES_MAX).contains(&u64::from(set.parity_count)) {
                return field("parity of a group", set.parity_count.into(), "1 to 15,360");
            }
        }
        if self.sets[0].group_count == 0 {
            return field("first set", 0, "all protected leaves");
        }
        if self.sets[1].group_count > 0 && self.sets[1].first_leaf < first_leaf {
            return field("second set", self.sets[1].first_leaf, "protected leaves");
        }
        let previous = self.previous_offset();
        if self.previous_at >= LEAF_LEN || (first_leaf == 0 && self.previous_at > 0) {
            return field("place of the earlier section", self.previous_at, "in the first leaf");
        }
        let room = (SECTION_HEADER_LEN + TRAILER_SECTION_LEN) as u64;
        if previous.is_some_and(|at| at + room > self.section_offset) {
            return field("place of the earlier section", self.previous_at, "before this one");
        }
        if !self.body_align.is_power_of_two() || self.body_align > LEAF_LEN {
            return field("alignment of bodies", self.body_align, "a power of two to 65,536");
        }
        let body_count = self.sets.iter().map(ParitySet::body_count).sum::<u64>();
        let share = match self.chunk_len.checked_sub(CHUNK_HEAD_LEN) {
            Some(share) if self.chunk_len.is_power_of_two() && self.chunk_len >= CHUNK_LEN_MIN => {
                share
            }
            _ => return field("chunk length", self.chunk_len, "a power of two from 1,024"),
        };
        let protected_count = leaf_count - first_leaf;
        let chunk_count = ((protected_count + body_count) * HASH_LEN as u64).div_ceil(share);
        if chunk_count > PARITY_TABLE_CHUNKS_MAX {
            return field("chunks of the table", chunk_count, "at most 8,192");
        }
        if body_count * LEAF_LEN > SECTION_STORED_LEN_MAX {
            return field("bodies of parity", body_count, "at most 2^24");
        }
        // No sum can overflow: offsets are below 2^62, zones and bodies below 2^45.
        let zone_len = PARITY_HEAD_LEN as u64 + chunk_count * self.chunk_len;
        let bodies_first = body_count.div_ceil(2);
        let aligned = |at: u64| at.next_multiple_of(self.body_align);
        let first = self.section_offset + SECTION_HEADER_LEN as u64;
        let bodies_a = aligned(first + zone_len);
        let middle = bodies_a + bodies_first * LEAF_LEN;
        let bodies_b = aligned(middle + zone_len);
        let last = bodies_b + (body_count - bodies_first) * LEAF_LEN;
        let end = last + zone_len;
        if end - first > SECTION_STORED_LEN_MAX {
            return field("payload length", end - first, "at most 2^40");
        }
        Ok(ParityLayout {
            first_leaf,
            leaf_count,
            body_count,
            bodies_first,
            chunk_count,
            zones: [first, middle, last],
            bodies: [bodies_a, bodies_b],
            end,
        })
    }

    /// Length in bytes of the longest burst that is always repaired: one leaf per body of parity,
    /// less one leaf for a burst that begins inside a leaf.
    pub fn burst_len(&self) -> u64 {
        self.sets[0].body_count().saturating_sub(1) * LEAF_LEN
    }

    /// Returns the offset of the header of the parity section that protects the leaves before those
    /// of this one, if this one does not protect all.
    pub fn previous_offset(&self) -> Option<u64> {
        let first_leaf = self.sets[0].first_leaf;
        (first_leaf > 0)
            .then(|| first_leaf.saturating_mul(LEAF_LEN).saturating_add(self.previous_at))
    }

    /// Returns the trailer that follows the section.
    pub fn trailer(&self, layout: &ParityLayout) -> Trailer {
        Trailer {
            root_offset: self.root_offset,
            root_section_len: self.root_section_len,
            image_len: layout.end + TRAILER_SECTION_LEN as u64,
            previous_trailer_offset: self.previous_trailer_offset,
            section_count: self.section_count,
            image_id: self.image_id,
            merkle_offset: self.merkle_offset,
        }
    }

    /// Returns the bytes of the copy at `offset`.
    pub fn encode(&self, offset: u64, checksum: Checksum) -> [u8; PARITY_HEAD_LEN] {
        let set = |set: &ParitySet| ParitySetRaw {
            first_leaf: U64::new(set.first_leaf),
            group_count: U32::new(set.group_count),
            parity_count: U32::new(set.parity_count),
        };
        let mut raw = ParityHeadRaw {
            magic: PARITY_MAGIC,
            offset: U64::new(offset),
            section_offset: U64::new(self.section_offset),
            image_id: self.image_id,
            leaf_len: U32::new(LEAF_LEN as u32),
            chunk_len: U32::new(self.chunk_len as u32),
            body_align: U32::new(self.body_align as u32),
            previous_at: U32::new(self.previous_at as u32),
            all: set(&self.sets[0]),
            metadata: set(&self.sets[1]),
            root_offset: U64::new(self.root_offset),
            root_section_len: U64::new(self.root_section_len),
            previous_trailer_offset: U64::new(self.previous_trailer_offset),
            section_count: U64::new(self.section_count),
            merkle_offset: U64::new(self.merkle_offset),
            checksum: U64::new(0),
        };
        raw.checksum = U64::new(checksum(&raw.as_bytes()[..PARITY_HEAD_LEN - 8]));
        let mut out = [0; PARITY_HEAD_LEN];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Reads and checks a head. Also returns the offset in the image at which it claims to be: the
    /// caller knows where it found the head, and so where the image begins.
    ///
    /// # Errors
    /// The bytes are not a head, a value is beyond its limit, or the offset is not that of one of
    /// the three zones.
    pub fn decode(
        bytes: &[u8],
        checksum: Checksum,
    ) -> Result<(Self, ParityLayout, u64), FormatError> {
        let (raw, _) = ParityHeadRaw::read_from_prefix(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: PARITY_HEAD_LEN as u64,
            found: bytes.len() as u64,
        })?;
        if raw.magic != PARITY_MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        let found = checksum(&bytes[..PARITY_HEAD_LEN - 8]);
        if raw.checksum.get() != found {
            return Err(FormatError::Checksum {
                structure: STRUCTURE,
                expected: raw.checksum.get(),
                found,
            });
        }
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        if u64::from(raw.leaf_len.get()) != LEAF_LEN {
            return field("leaf length", raw.leaf_len.get().into(), "65,536");
        }
        let set = |raw: &ParitySetRaw| ParitySet {
            first_leaf: raw.first_leaf.get(),
            group_count: raw.group_count.get(),
            parity_count: raw.parity_count.get(),
        };
        let head = Self {
            section_offset: raw.section_offset.get(),
            image_id: raw.image_id,
            chunk_len: raw.chunk_len.get().into(),
            body_align: raw.body_align.get().into(),
            previous_at: raw.previous_at.get().into(),
            sets: [set(&raw.all), set(&raw.metadata)],
            root_offset: raw.root_offset.get(),
            root_section_len: raw.root_section_len.get(),
            previous_trailer_offset: raw.previous_trailer_offset.get(),
            section_count: raw.section_count.get(),
            merkle_offset: raw.merkle_offset.get(),
        };
        let layout = head.layout()?;
        let offset = raw.offset.get();
        if !layout.zones.contains(&offset) {
            return field("offset", offset, "that of one of the three zones");
        }
        Ok((head, layout, offset))
    }
}

const STRUCTURE: &str = "parity head";
/// Bodies that any image gets, or as many as it has leaves.
pub const PARITY_COUNT_MIN: u64 = 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(leaf_count: u64, metadata: u64, share: u32) -> ParityHead {
        let sets = ParityHead::sets_for((0, leaf_count), metadata, share, PARITY_GROUP_LEAVES_MAX);
        ParityHead {
            section_offset: leaf_count * LEAF_LEN - 5,
            image_id: [3; 16],
            chunk_len: ParityHead::chunk_len_for(leaf_count, &sets),
            body_align: 1,
            previous_at: 0,
            sets,
            root_offset: 100,
            root_section_len: 200,
            previous_trailer_offset: 300,
            section_count: 7,
            merkle_offset: 400,
        }
    }

    /// Not a good sum, but enough to see that one is compared.
    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().fold(1, |sum: u64, &byte| sum.wrapping_mul(31) ^ u64::from(byte))
    }

    #[test]
    fn every_size_has_a_layout_without_overlap() {
        for leaves in [1, 2, 17, 18, 19, 100, 1000, 15_360, 15_361, 1 << 20, 1 << 24] {
            for share in [1, 10_000, 50_000, 500_000, 1_000_000] {
                for metadata in [0, 1, leaves / 10, leaves] {
                    let head = head(leaves, metadata, share);
                    let Ok(layout) = head.layout() else {
                        assert!(leaves >= 1 << 24 && share >= 500_000, "{leaves} {share}");
                        continue;
                    };
                    assert_eq!(layout.leaf_count, leaves);
                    let wanted = (leaves * u64::from(share)).div_ceil(1_000_000);
                    let bodies = head.sets[0].body_count();
                    assert!(bodies >= wanted && bodies >= leaves.min(18), "{leaves} {share}");
                    assert!(layout.zones[0] < layout.bodies[0]);
                    assert!(layout.bodies[0] < layout.zones[1] || layout.bodies_first == 0);
                    assert!(layout.zones[1] < layout.bodies[1]);
                    let last = layout.body_offset(layout.body_count - 1);
                    assert!(last + LEAF_LEN == layout.zones[2] || layout.body_count == 1);
                    for at in layout.zones {
                        let bytes = head.encode(at, sum);
                        assert_eq!(ParityHead::decode(&bytes, sum), Ok((head, layout, at)));
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_heads_are_refused() {
        let head = head(100, 10, 50_000);
        let at = head.layout().unwrap().zones[1];
        let refused = |change: &dyn Fn(&mut ParityHeadRaw)| {
            let mut raw = ParityHeadRaw::read_from_bytes(&head.encode(at, sum)).unwrap();
            change(&mut raw);
            raw.checksum = U64::new(sum(&raw.as_bytes()[..PARITY_HEAD_LEN - 8]));
            ParityHead::decode(raw.as_bytes(), sum).is_err()
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|raw| raw.magic[0] = 0));
        assert!(refused(&|raw| raw.offset = U64::new(at + 1)));
        assert!(refused(&|raw| raw.section_offset = U64::new(0)));
        assert!(refused(&|raw| raw.section_offset = U64::new(u64::MAX)));
        assert!(refused(&|raw| raw.leaf_len = U32::new(1)));
        assert!(refused(&|raw| raw.chunk_len = U32::new(15)));
        assert!(refused(&|raw| raw.chunk_len = U32::new(0)));
        assert!(refused(&|raw| raw.body_align = U32::new(3)));
        assert!(refused(&|raw| raw.previous_at = U32::new(1)), "nothing is before leaf 0");
        assert!(refused(&|raw| raw.all.group_count = U32::new(0)));
        assert!(refused(&|raw| raw.all.group_count = U32::new(101)));
        assert!(refused(&|raw| raw.all.parity_count = U32::new(u32::MAX)));
        assert!(refused(&|raw| raw.all.first_leaf = U64::new(99)), "after the second set");
        assert!(refused(&|raw| raw.metadata.first_leaf = U64::new(100)));
        assert!(refused(&|raw| raw.metadata.first_leaf = U64::new(u64::MAX)));
        let bytes = head.encode(at, sum);
        for byte in 0..PARITY_HEAD_LEN {
            let mut wrong = bytes;
            wrong[byte] ^= 0x40;
            assert!(ParityHead::decode(&wrong, sum).is_err(), "byte {byte}");
        }
        assert!(ParityHead::decode(&bytes[..PARITY_HEAD_LEN - 1], sum).is_err());
    }

    #[test]
    fn a_section_of_a_range_leads_to_the_one_before() {
        for (first_leaf, leaf_count) in [(1, 3), (1, 100), (5000, 5040), (1 << 20, 1 << 21)] {
            let sets = ParityHead::sets_for((first_leaf, leaf_count), 2, 50_000, 15_360);
            let protected = leaf_count - first_leaf;
            assert!(sets[0].body_count() >= leaf_count.min(18), "as many as any image gets");
            let head = ParityHead {
                chunk_len: ParityHead::chunk_len_for(protected, &sets),
                section_offset: leaf_count * LEAF_LEN - 5,
                previous_at: 65_000,
                sets,
                ..head(leaf_count, 0, 50_000)
            };
            let layout = head.layout().unwrap();
            assert_eq!((layout.first_leaf, layout.protected_count()), (first_leaf, protected));
            assert_eq!(head.previous_offset(), Some(first_leaf * LEAF_LEN + 65_000));
            let at = layout.zones[2];
            assert_eq!(ParityHead::decode(&head.encode(at, sum), sum), Ok((head, layout, at)));
            let wrong = |previous_at, second| {
                let mut sets = sets;
                sets[1] = ParitySet { first_leaf: second, group_count: 1, parity_count: 1 };
                ParityHead { previous_at, sets, ..head }.layout().is_err()
            };
            assert!(
                !wrong(0, leaf_count - 1)
                    && wrong(LEAF_LEN, first_leaf)
                    && wrong(0, first_leaf - 1)
            );
        }
        // The earlier section lies before this one.
        let sets = ParityHead::sets_for((99, 100), 0, 50_000, 15_360);
        let at = |previous_at| ParityHead { previous_at, sets, ..head(100, 0, 50_000) }.layout();
        let end = LEAF_LEN - 5 - (SECTION_HEADER_LEN + TRAILER_SECTION_LEN) as u64;
        assert!(at(end).is_ok() && at(end + 1).is_err());
    }
}
