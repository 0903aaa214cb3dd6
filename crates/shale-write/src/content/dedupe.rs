//! Whole-file dedupe: every distinct content once.
//!
//! A content is identified by its length and 256-bit digest (see [`crate::plan::digest`]). Two
//! contents with the same digest are taken to be the same bytes, as BLAKE3 promises. Contents whose
//! holes lie elsewhere are different contents of the same bytes: they share the stream and differ
//! in extents only.
//!
//! Where a build continues an image, ids below [`Contents::first`] are contents of that image. They
//! are asked for and not held here; arrays of this build begin with id `first`. Memory: 52 bytes a
//! content, 80 more for a large one, and 16 a row of extents.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use shale_format::AppendIndex;

use crate::base::image::Base;
use crate::content::chunks::Chunks;
use crate::content::extents::{Extents, StoredAt};
use crate::content::relocation::Relocation;
use crate::content::tags::ContentTags;
use crate::plan::digest::{ContentDigest, content_digest};
use crate::plan::error::WriteError;

/// Contents in the order of their ids, and where their bytes are.
pub(crate) struct Contents {
    /// The image that is continued.
    base: Option<Arc<dyn Base>>,
    /// Tags of its contents.
    tags: ContentTags,
    /// Id of the first content of this build.
    first: u64,
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
    /// Streams that are rebuilt from contents.
    pub(crate) chunks: Chunks,
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
        let mut contents = Self::without_any();
        contents.push(content_digest(&[]), 0);
        contents
    }

    /// Continues the contents of an image.
    pub(crate) fn after(base: Arc<dyn Base>) -> Self {
        let state = base.state();
        let (first, start) = (state.content_count, state.content_space_len);
        let extents = Extents::starting_at(start);
        let chunks = Chunks::starting_at(state.rebuilt_space_len);
        Self { base: Some(base), first, extents, chunks, ..Self::without_any() }
    }

    fn without_any() -> Self {
        Self {
            base: None,
            tags: ContentTags::default(),
            first: 0,
            digests: Vec::new(),
            file_counts: Vec::new(),
            bases: Vec::new(),
            positions: Vec::new(),
            by_digest: HashTable::new(),
            samples: HashMap::new(),
            extents: Extents::default(),
            chunks: Chunks::default(),
        }
    }

    /// Id of the first content of this build.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of contents of this build.
    pub(crate) fn count(&self) -> usize {
        self.digests.len()
    }

    /// Returns the digest of a content as it counts in the digest of the tree; that of the empty
    /// one for an unknown id.
    pub(crate) fn digest(&self, id: u64) -> ContentDigest {
        match id.checked_sub(self.first) {
            None if id > 0 => ContentDigest::held(id),
            local => {
                let local = local.and_then(|local| usize::try_from(local).ok());
                let digest = local.and_then(|local| self.digests.get(local));
                digest.copied().unwrap_or_else(|| content_digest(&[]))
            }
        }
    }

    /// Returns the digests of the contents of this build, by position in the table.
    pub(crate) fn into_digests(self) -> Vec<ContentDigest> {
        match self.positions.is_empty() {
            true => self.digests,
            false => self.by_position(|digest| *digest),
        }
    }

    /// Returns something of each digest, by position in the table.
    fn by_position<T>(&self, of: impl Fn(&ContentDigest) -> T) -> Vec<T> {
        let mut found: Vec<T> = self.digests.iter().map(&of).collect();
        for (digest, &place) in self.digests.iter().zip(&self.positions) {
            found[place as usize] = of(digest);
        }
        found
    }

    /// The tags of the image that is continued.
    pub(crate) fn tags_of_base(&self) -> &ContentTags {
        &self.tags
    }

    /// Returns the tags of the contents of this build, by position in the table.
    pub(crate) fn tags(&self) -> Vec<u16> {
        self.by_position(|digest| AppendIndex::tag(&digest.0))
    }

    /// Returns how many files have a content, by its number in this build.
    pub(crate) fn file_count(&self, local: u32) -> u32 {
        self.file_counts[local as usize]
    }

    /// Returns the length of a content in bytes.
    ///
    /// # Errors
    /// The image that is continued cannot be read.
    pub(crate) fn content_len(&self, id: u64) -> Result<u64, WriteError> {
        match (&self.base, id.checked_sub(self.first)) {
            (Some(base), None) => Ok(base.content_len(id)?),
            (_, local) => {
                let range = self.range(local.unwrap_or_default() as u32);
                Ok(range.end - range.start)
            }
        }
    }

    /// Returns the depth of the chunks of a content of the image that is continued; 0 if it has
    /// none.
    ///
    /// # Errors
    /// The image that is continued cannot be read.
    pub(crate) fn depth_in_base(&self, id: u64) -> Result<u64, WriteError> {
        Ok(self.base.as_ref().map_or(Ok(0), |base| base.content_depth(id))?)
    }

    /// Returns the starts in content space, in the order of the table.
    pub(crate) fn bases(&self) -> &[u64] {
        &self.bases
    }

    /// Finds the content with these bytes and holes. If the bytes exist with other holes, makes a
    /// content of them, unless they exist only in the image that is continued.
    ///
    /// # Errors
    /// The image that is continued cannot be read.
    pub(crate) fn find(&mut self, identity: &ContentKey<'_>) -> Result<Option<u64>, WriteError> {
        match self.find_here(identity) {
            Some(id) => Ok(Some(id)),
            None => self.find_in_base(identity),
        }
    }

    /// Finds the content of the image that is continued with these bytes and holes.
    fn find_in_base(&self, identity: &ContentKey<'_>) -> Result<Option<u64>, WriteError> {
        let Some(base) = &self.base else { return Ok(None) };
        for id in base.contents_of_len(identity.len)? {
            if self.tags.may_be(&**base, id, &identity.digest)
                && base.content_is(id, &identity.digest, identity.holes)?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Returns whether [`Self::find`] would find a content.
    ///
    /// # Errors
    /// The image that is continued cannot be read.
    pub(crate) fn has(&self, identity: &ContentKey<'_>) -> Result<bool, WriteError> {
        let is_equal = |&id: &u32| self.digests[id as usize] == identity.digest;
        if self.by_digest.find(hash(&identity.digest), is_equal).is_some() {
            return Ok(true);
        }
        Ok(self.find_in_base(identity)?.is_some())
    }

    fn find_here(&mut self, identity: &ContentKey<'_>) -> Option<u64> {
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
                Some(self.first + u64::from(id))
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
        self.first + u64::from(id)
    }

    /// Puts the contents of this build into another order. `order` has the numbers of those with
    /// bytes of their own; the others follow after them. `relocation` says where the bytes are now.
    /// Afterwards [`Self::position_of`] maps ids to positions, and nothing can be found or pushed
    /// any more.
    pub(crate) fn reorder(&mut self, order: &[u32], relocation: &Relocation) {
        const UNKNOWN: u32 = u32::MAX;
        let count = self.digests.len();
        let mut positions = vec![UNKNOWN; count];
        // The empty content stays first; an image that is continued has one.
        let empty: &[u32] = if self.base.is_some() { &[] } else { &[0] };
        for (position, &id) in empty.iter().chain(order).enumerate() {
            positions[id as usize] = position as u32;
        }
        let rest: Vec<u32> =
            (0..count as u32).filter(|&id| positions[id as usize] == UNKNOWN).collect();
        let start = self.extents.start();
        let before = std::mem::replace(&mut self.extents, Extents::starting_at(start));
        let mut bases = Vec::with_capacity(count);
        for &id in empty.iter().chain(order).chain(&rest) {
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
        let place = id.checked_sub(self.first).and_then(|local| self.positions.get(local as usize));
        place.map_or(id, |&place| self.first + u64::from(place))
    }

    /// Remembers a large content by a hash of some of its bytes. Returns whether one like it was
    /// met before: only then is it worth reading the whole content first.
    ///
    /// # Errors
    /// The image that is continued cannot be read.
    pub(crate) fn note_sample(&mut self, len: u64, sample: u64) -> Result<bool, WriteError> {
        let samples = self.samples.entry(len).or_default();
        let met = samples.contains(&sample);
        if !met {
            samples.push(sample);
        }
        Ok(met || self.base_has_len(len)?)
    }

    /// Returns whether a large content of this length was met before.
    ///
    /// # Errors
    /// The image that is continued cannot be read.
    pub(crate) fn has_large_len(&self, len: u64) -> Result<bool, WriteError> {
        Ok(self.samples.contains_key(&len) || self.base_has_len(len)?)
    }

    fn base_has_len(&self, len: u64) -> Result<bool, WriteError> {
        match &self.base {
            Some(base) => Ok(!base.contents_of_len(len)?.is_empty()),
            None => Ok(false),
        }
    }

    /// Returns the range in content space of a content of this build, by its number here.
    pub(crate) fn range(&self, local: u32) -> Range<u64> {
        let local = local as usize;
        let place = self.positions.get(local).map_or(local, |&place| place as usize);
        let start = self.bases[place];
        let end = self.bases.get(place + 1).copied().unwrap_or(self.extents.end());
        start..end
    }

    fn has_holes(&self, id: u32, holes: &[Range<u64>]) -> bool {
        let range = self.range(id);
        let mut expected = holes.iter();
        let (mut at, mut same) = (0, true);
        self.extents.visit(range.start, range.end, |len, place| {
            if place == StoredAt::Hole {
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
                parts.push((len, if place == StoredAt::Hole { StoredAt::Zero } else { place }));
            });
            for (len, place) in parts {
                self.extents.push(len, place);
            }
            self.extents.push(hole.end - hole.start, StoredAt::Hole);
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
        if let Some(id) = contents.find(&identity).unwrap() {
            return id;
        }
        let base = contents.extents.end();
        let mut at = 0;
        for hole in holes {
            contents.extents.push(hole.start - at, StoredAt::Stream(base + at));
            contents.extents.push(hole.end - hole.start, StoredAt::Hole);
            at = hole.end;
        }
        contents.extents.push(bytes.len() as u64 - at, StoredAt::Stream(base + at));
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
        let place = StoredAt::Stream;
        assert_eq!(
            parts,
            [
                (20, place(0)),
                (10, StoredAt::Hole),
                (10, place(30)),
                (20, StoredAt::Hole),
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
        assert_eq!(parts, [(64, StoredAt::Zero)]);
    }
}
