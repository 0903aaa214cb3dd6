//! Whole-file dedupe: every distinct content once.
//!
//! A content is known by its length and 256-bit digest (see [`crate::digest`]); two contents with
//! the same digest are taken to be the same bytes, as BLAKE3 promises. Contents whose holes lie
//! elsewhere are different contents of the same bytes: they share the stream and differ in extents
//! only. Memory: 52 bytes a content, 80 more for a large one, and 16 a row of extents.

use std::collections::HashMap;
use std::ops::Range;

use hashbrown::HashTable;

use crate::digest::{ContentDigest, content_digest};
use crate::extents::{Extents, Place};
use crate::shelf::Laid;

/// Contents in the order of their ids, and where their bytes are.
#[derive(Debug)]
pub(crate) struct Contents {
    /// By id.
    digests: Vec<ContentDigest>,
    /// Files that have it, by id.
    file_counts: Vec<u32>,
    /// By place in the order of the table.
    bases: Vec<u64>,
    /// Places by id, once they differ.
    places: Vec<u32>,
    by_digest: HashTable<u32>,
    /// Samples of large contents by length, see [`Self::note_sample`].
    samples: HashMap<u64, Vec<u64>>,
    pub(crate) extents: Extents,
}

/// What is known of a content once it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) len: u64,
    pub(crate) digest: ContentDigest,
    /// Ascending, not touching, within the length.
    pub(crate) holes: &'a [Range<u64>],
}

impl Contents {
    /// Only the empty content, id 0.
    pub(crate) fn new() -> Self {
        let mut contents = Self {
            digests: Vec::new(),
            file_counts: Vec::new(),
            bases: Vec::new(),
            places: Vec::new(),
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

    /// Digests by content id.
    pub(crate) fn digests(&self) -> &[ContentDigest] {
        &self.digests
    }

    /// Digests by place in the order of the table, once the rest is not needed any more.
    pub(crate) fn into_digests(self) -> Vec<ContentDigest> {
        if self.places.is_empty() {
            return self.digests;
        }
        let mut digests = vec![ContentDigest::default(); self.digests.len()];
        for (digest, &place) in self.digests.iter().zip(&self.places) {
            digests[place as usize] = *digest;
        }
        digests
    }

    /// Files that have a content.
    pub(crate) fn file_count(&self, id: u32) -> u32 {
        self.file_counts[id as usize]
    }

    /// Bytes of a content.
    pub(crate) fn content_len(&self, id: u64) -> u64 {
        let range = self.range(id as u32);
        range.end - range.start
    }

    /// Starts in content space, in the order of the table.
    pub(crate) fn bases(&self) -> &[u64] {
        &self.bases
    }

    /// The content with these bytes and holes, if there is one. If the bytes are there with other
    /// holes, a content is made of them.
    pub(crate) fn find(&mut self, identity: &Identity) -> Option<u64> {
        let mut same_bytes = None;
        let hash = hash(&identity.digest);
        let same = self.by_digest.find(hash, |&id| {
            if self.digests[id as usize] != identity.digest {
                return false;
            }
            // The oldest, so that it does not depend on the order in which a table is probed.
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

    /// Ends a content whose bytes the caller has pushed to `extents` from `base` on.
    pub(crate) fn push(&mut self, digest: ContentDigest, base: u64) -> u64 {
        let id = self.digests.len() as u32;
        self.digests.push(digest);
        self.file_counts.push(1);
        self.bases.push(base);
        let digests = &self.digests;
        self.by_digest.insert_unique(hash(&digest), id, |&id| hash(&digests[id as usize]));
        u64::from(id)
    }

    /// Lays the contents in another order: `order` are those with bytes of their own, by id; the
    /// others follow behind. `laid` says where their bytes are now. From now on [`Self::place_of`]
    /// leads from ids to places in the order; nothing can be found or pushed any more.
    pub(crate) fn reorder(&mut self, order: &[u32], laid: &Laid) {
        const UNKNOWN: u32 = u32::MAX;
        let count = self.digests.len();
        let mut places = vec![UNKNOWN; count];
        // The empty content stays the first.
        for (place, &id) in [0].iter().chain(order).enumerate() {
            places[id as usize] = place as u32;
        }
        let rest: Vec<u32> =
            (1..count as u32).filter(|&id| places[id as usize] == UNKNOWN).collect();
        let shelved = std::mem::take(&mut self.extents);
        let mut bases = Vec::with_capacity(count);
        for &id in [0].iter().chain(order).chain(&rest) {
            places[id as usize] = bases.len() as u32;
            bases.push(self.extents.end());
            let start = self.bases[id as usize];
            let end = self.bases.get(id as usize + 1).copied().unwrap_or(shelved.end());
            laid.through(&shelved, start..end, &mut self.extents);
        }
        self.bases = bases;
        self.places = places;
        self.by_digest = HashTable::new();
    }

    /// Where a content lies in the order of the table: its id, unless the contents were reordered.
    pub(crate) fn place_of(&self, id: u64) -> u64 {
        self.places.get(id as usize).map_or(id, |&place| u64::from(place))
    }

    /// Remembers a large content by a hash of a few of its bytes, and tells whether one like it
    /// was met before: only then is it worth to read it all before deciding what to do with it.
    pub(crate) fn note_sample(&mut self, len: u64, sample: u64) -> bool {
        let samples = self.samples.entry(len).or_default();
        let met = samples.contains(&sample);
        if !met {
            samples.push(sample);
        }
        met
    }

    /// Whether a large content of this length was met.
    pub(crate) fn has_large_len(&self, len: u64) -> bool {
        self.samples.contains_key(&len)
    }

    /// Where a content lies in content space.
    pub(crate) fn range(&self, id: u32) -> Range<u64> {
        let place = self.place_of(u64::from(id)) as usize;
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

    fn with_other_holes(&mut self, id: u32, identity: &Identity) -> u64 {
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
        let identity = Identity { len: bytes.len() as u64, digest, holes };
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
