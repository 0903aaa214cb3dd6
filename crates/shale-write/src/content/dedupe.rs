//! Whole-file dedupe: every distinct content once.
//!
//! A content is identified by its length and 256-bit digest (see [`crate::plan::digest`]). Two
//! contents with the same digest are taken to be the same bytes, as BLAKE3 promises. Contents whose
//! holes lie elsewhere are different contents of the same bytes: they share the stream and differ
//! in extents only. Memory: 52 bytes a content, 80 more for a large one, and 16 a row of extents.

use std::collections::HashMap;
use std::ops::Range;

use hashbrown::HashTable;

use crate::content::extents::{Extents, Place};
use crate::content::relocation::Relocation;
use crate::plan::digest::{ContentDigest, content_digest};

/// Contents in the order of their ids, and where their bytes are.
#[derive(Debug)]
pub(crate) struct Contents {
    /// By id.
    digests: Vec<ContentDigest>,
    /// Number of files with each content, by id.
    file_counts: Vec<u32>,
    /// Starts in content space, by position in the table.
    bases: Vec<u64>,
    /// Positions by id, once they differ from the ids.
    positions: Vec<u32>,
    by_digest: HashTable<u32>,
    /// Samples of large contents by length, see [`Self::note_sample`].
    samples: HashMap<u64, Vec<u64>>,
    pub(crate) extents: Extents,
}

/// What identifies a content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentKey<'a> {
    pub(crate) len: u64,
    pub(crate) digest: ContentDigest,
    /// Ascending ranges that do not touch, within the length.
    pub(crate) holes: &'a [Range<u64>],
}

impl Contents {
    /// Holds only the empty content, id 0.
    pub(crate) fn new() -> Self {
        let mut contents = Self {
            digests: Vec::new(),
            file_counts: Vec::new(),
            bases: Vec::new(),
            positions: Vec::new(),
            by_digest: HashTable::new(),
            samples: HashMap::new(),
            extents: Extents::default(),
        };
        contents.push(content_digest(&[]), 0);
        contents
    }

    /// Number of contents.
    pub(crate) fn count(&self) -> usize {
        self.digests.len()
    }

    /// Returns the digests by content id.
    pub(crate) fn digests(&self) -> &[ContentDigest] {
        &self.digests
    }

    /// Returns the digests by position in the table.
    pub(crate) fn into_digests(self) -> Vec<ContentDigest> {
        if self.positions.is_empty() {
            return self.digests;
        }
        let mut digests = vec![ContentDigest::default(); self.digests.len()];
        for (digest, &place) in self.digests.iter().zip(&self.positions) {
            digests[place as usize] = *digest;
        }
        digests
    }

    /// Returns how many files have a content.
    pub(crate) fn file_count(&self, id: u32) -> u32 {
        self.file_counts[id as usize]
    }

    /// Returns the length of a content in bytes.
    pub(crate) fn content_len(&self, id: u64) -> u64 {
        let range = self.range(id as u32);
        range.end - range.start
    }

    /// Returns the starts in content space, in the order of the table.
    pub(crate) fn bases(&self) -> &[u64] {
        &self.bases
    }

    /// Finds the content with these bytes and holes. If the bytes exist with other holes, makes a
    /// content of them.
    pub(crate) fn find(&mut self, identity: &ContentKey) -> Option<u64> {
        let mut same_bytes = None;
        let hash = hash(&identity.digest);
        let same = self.by_digest.find(hash, |&id| {
            if self.digests[id as usize] != identity.digest {
                return false;
            }
            // The oldest one, so that the result does not depend on the order of probing.
            same_bytes = Some(same_bytes.map_or(id, |other: u32| other.min(id)));
            self.has_holes(id, identity.holes)
        });
        match (same.copied(), same_bytes) {
            (Some(id), _) => {
                let count = &mut self.file_counts[id as usize];
                *count = count.saturating_add(1);
                Some(u64::from(id))
            }
            (None, Some(id)) => Some(self.with_other_holes(id, identity)),
            (None, None) => None,
        }
    }

    /// Ends a content whose bytes the caller has pushed to `extents` from `base` on. Returns its
    /// id.
    pub(crate) fn push(&mut self, digest: ContentDigest, base: u64) -> u64 {
        let id = self.digests.len() as u32;
        self.digests.push(digest);
        self.file_counts.push(1);
        self.bases.push(base);
        let digests = &self.digests;
        self.by_digest.insert_unique(hash(&digest), id, |&id| hash(&digests[id as usize]));
        u64::from(id)
    }

    /// Puts the contents into another order. `order` has the ids of those with bytes of their own;
    /// the others follow after them. `relocation` says where the bytes are now. Afterwards
    /// [`Self::position_of`] maps ids to positions, and nothing can be found or pushed any more.
    pub(crate) fn reorder(&mut self, order: &[u32], relocation: &Relocation) {
        const UNKNOWN: u32 = u32::MAX;
        let count = self.digests.len();
        let mut positions = vec![UNKNOWN; count];
        // The empty content stays first.
        for (position, &id) in [0].iter().chain(order).enumerate() {
            positions[id as usize] = position as u32;
        }
        let rest: Vec<u32> =
            (1..count as u32).filter(|&id| positions[id as usize] == UNKNOWN).collect();
        let before = std::mem::take(&mut self.extents);
        let mut bases = Vec::with_capacity(count);
        for &id in [0].iter().chain(order).chain(&rest) {
            positions[id as usize] = bases.len() as u32;
            bases.push(self.extents.end());
            let start = self.bases[id as usize];
            let end = self.bases.get(id as usize + 1).copied().unwrap_or(before.end());
            relocation.through(&before, start..end, &mut self.extents);
        }
        self.bases = bases;
        self.positions = positions;
        self.by_digest = HashTable::new();
    }

    /// Returns the position of a content in the table: its id, unless the contents were reordered.
    pub(crate) fn position_of(&self, id: u64) -> u64 {
        self.positions.get(id as usize).map_or(id, |&place| u64::from(place))
    }

    /// Remembers a large content by a hash of some of its bytes. Returns whether one like it was
    /// met before: only then is it worth reading the whole content first.
    pub(crate) fn note_sample(&mut self, len: u64, sample: u64) -> bool {
        let samples = self.samples.entry(len).or_default();
        let met = samples.contains(&sample);
        if !met {
            samples.push(sample);
        }
        met
    }

    /// Returns whether a large content of this length was met before.
    pub(crate) fn has_large_len(&self, len: u64) -> bool {
        self.samples.contains_key(&len)
    }

    /// Returns the range of a content in content space.
    pub(crate) fn range(&self, id: u32) -> Range<u64> {
        let place = self.position_of(u64::from(id)) as usize;
        let start = self.bases[place];
        let end = self.bases.get(place + 1).copied().unwrap_or(self.extents.end());
        start..end
    }

    fn has_holes(&self, id: u32, holes: &[Range<u64>]) -> bool {
        let range = self.range(id);
        let mut expected = holes.iter();
        let (mut at, mut same) = (0, true);
        self.extents.visit(range.start, range.end, |len, place| {
            if place == Place::Hole {
                same &= expected.next() == Some(&(at..at + len));
            }
            at += len;
        });
        same && expected.next().is_none()
    }

    fn with_other_holes(&mut self, id: u32, identity: &ContentKey) -> u64 {
        let Range { start, .. } = self.range(id);
        let base = self.extents.end();
        let mut at = 0;
        let end = identity.len..identity.len;
        for hole in identity.holes.iter().chain(std::iter::once(&end)) {
            let mut parts = Vec::new();
            self.extents.visit(start + at, start + hole.start, |len, place| {
                parts.push((len, if place == Place::Hole { Place::Zero } else { place }));
            });
            for (len, place) in parts {
                self.extents.push(len, place);
            }
            self.extents.push(hole.end - hole.start, Place::Hole);
            at = hole.end;
        }
        self.push(identity.digest, base)
    }
}

fn hash(digest: &ContentDigest) -> u64 {
    let (first, _) = digest.0.as_chunks::<8>();
    u64::from_le_bytes(first[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(contents: &mut Contents, bytes: &[u8], holes: &[Range<u64>]) -> u64 {
        let digest = content_digest(bytes);
        let identity = ContentKey { len: bytes.len() as u64, digest, holes };
        if let Some(id) = contents.find(&identity) {
            return id;
        }
        let base = contents.extents.end();
        let mut at = 0;
        for hole in holes {
            contents.extents.push(hole.start - at, Place::Stream(base + at));
            contents.extents.push(hole.end - hole.start, Place::Hole);
            at = hole.end;
        }
        contents.extents.push(bytes.len() as u64 - at, Place::Stream(base + at));
        contents.push(digest, base)
    }

    #[test]
    fn equal_bytes_are_one_content_and_other_holes_another() {
        let mut contents = Contents::new();
        let mut bytes = vec![7u8; 100];
        bytes[20..60].fill(0);
        assert_eq!(add(&mut contents, b"", &[]), 0);
        assert_eq!(add(&mut contents, &bytes, &[]), 1);
        assert_eq!(add(&mut contents, &bytes, &[]), 1);
        assert_eq!(add(&mut contents, &bytes, std::slice::from_ref(&(30..40))), 2);
        assert_eq!(add(&mut contents, &bytes, std::slice::from_ref(&(30..40))), 2);
        assert_eq!(add(&mut contents, &bytes, &[20..30, 40..60]), 3);
        assert_eq!(add(&mut contents, &bytes, &[]), 1);
        let mut parts = Vec::new();
        contents.extents.visit(200, 300, |len, place| parts.push((len, place)));
        let place = Place::Stream;
        assert_eq!(
            parts,
            [
                (20, place(0)),
                (10, Place::Hole),
                (10, place(30)),
                (20, Place::Hole),
                (40, place(60))
            ]
        );
        assert_eq!(contents.bases(), [0, 0, 100, 200]);
    }

    #[test]
    fn a_hole_of_the_first_is_zeroes_for_the_second() {
        let mut contents = Contents::new();
        let bytes = vec![0u8; 64];
        assert_eq!(add(&mut contents, &bytes, std::slice::from_ref(&(0..64))), 1);
        assert_eq!(add(&mut contents, &bytes, &[]), 2);
        let mut parts = Vec::new();
        contents.extents.visit(64, 128, |len, place| parts.push((len, place)));
        assert_eq!(parts, [(64, Place::Zero)]);
    }
}
