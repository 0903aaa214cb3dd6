//! The contents of several images in one numbering: those of the first image come first, then those
//! of the second, and so on. Sources name contents by it until the new image has numbers for them.

use std::ops::Range;
use std::sync::Arc;

use shale_codec::Hasher;
use shale_host::Cancel;
use shale_model::{Content, EntrySource, Problem, Review, SourceEntry, SourceError};
use shale_read::{Image, PieceKind};

use crate::error::Error;

/// Where the contents of each image begin in the common numbering.
#[derive(Debug)]
pub(super) struct Offsets(Vec<u64>);

impl Offsets {
    pub(super) fn new(images: &[Arc<Image>]) -> Self {
        let mut end = 0;
        let ends = images.iter().map(|image| {
            end += image.content_count();
            end
        });
        Self(std::iter::once(0).chain(ends).collect())
    }

    /// The contents of an image.
    pub(super) fn of(&self, image: usize) -> Range<u64> {
        self.0[image]..self.0[image + 1]
    }

    /// The contents of all images.
    pub(super) fn all(&self) -> Range<u64> {
        0..self.0[self.0.len() - 1]
    }
}

/// Which contents files have, and a hash of all entries. Takes one byte of memory for each content
/// of the images.
pub(super) struct Needed {
    is_needed: Vec<bool>,
    hasher: Hasher,
}

/// Entries after which a walk looks whether it was cancelled.
const STEP: u64 = 4096;

impl Needed {
    pub(super) fn new(offsets: &Offsets) -> Self {
        Self { is_needed: vec![false; offsets.all().end as usize], hasher: Hasher::new() }
    }

    /// Begins a snapshot.
    pub(super) fn begin(&mut self, name: &[u8], times_kept: u8) {
        self.words(&[name.len() as u64, u64::from(times_kept)]);
        self.hasher.update(name);
    }

    /// Notes the contents of all files of a source.
    pub(super) fn walk(
        &mut self,
        source: &mut dyn EntrySource,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let mut count = 0u64;
        while let Some(entry) = source.next_entry()? {
            count += 1;
            if count.is_multiple_of(STEP) {
                cancel.check()?;
            }
            self.hash(&entry);
            if let Content::Held(content) = entry.content
                && let Some(is_needed) = self.is_needed.get_mut(content as usize)
            {
                *is_needed = true;
            }
        }
        Ok(())
    }

    /// Adds the contents that others are rebuilt from.
    pub(super) fn add_inner(
        &mut self,
        images: &[Arc<Image>],
        offsets: &Offsets,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        for (image, open) in images.iter().enumerate().filter(|(_, open)| open.chunk_count() > 0) {
            let numbers = offsets.of(image);
            let mut waiting: Vec<u64> = numbers.clone().filter(|&n| self.has(n)).collect();
            while let Some(number) = waiting.pop() {
                cancel.check()?;
                for piece in open.pieces(number - numbers.start, 0..u64::MAX)? {
                    let PieceKind::Rebuilt { chunk, .. } = piece?.kind else { continue };
                    let inner = numbers.start + open.chunk_record(chunk)?.content;
                    if numbers.contains(&inner) && !self.has(inner) {
                        self.is_needed[inner as usize] = true;
                        waiting.push(inner);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a file, or another content, needs a content.
    pub(super) fn has(&self, content: u64) -> bool {
        self.is_needed.get(content as usize).copied().unwrap_or(false)
    }

    /// The hash of names and metadata so far. It does not depend on the numbers of contents.
    pub(super) fn into_hasher(self) -> Hasher {
        self.hasher
    }

    fn hash(&mut self, entry: &SourceEntry) {
        let metadata = &entry.metadata;
        let link = entry.link.map_or(0, |link| link.inode);
        self.words(&[
            entry.path.len() as u64,
            metadata.kind as u64,
            u64::from(metadata.permissions),
            u64::from(metadata.uid),
            u64::from(metadata.gid),
            metadata.len,
            metadata.device,
            link,
            entry.target.len() as u64,
            entry.xattrs.len() as u64,
        ]);
        for time in [metadata.mtime, metadata.atime, metadata.ctime, metadata.btime] {
            self.words(&[time.sec as u64, u64::from(time.nsec)]);
        }
        self.hasher.update(&entry.path);
        self.hasher.update(&entry.target);
        for xattr in entry.xattrs.iter() {
            self.words(&[xattr.name.len() as u64, xattr.value.len() as u64]);
            self.hasher.update(&xattr.name);
            self.hasher.update(&xattr.value);
        }
    }

    fn words(&mut self, words: &[u64]) {
        for word in words {
            self.hasher.update(&word.to_le_bytes());
        }
    }
}

/// A source whose contents get the numbers of the new image.
pub(super) struct Renumbered {
    pub(super) source: Box<dyn EntrySource>,
    /// By number in the common numbering.
    pub(super) numbers: Arc<Vec<u64>>,
}

impl EntrySource for Renumbered {
    fn seed(&self) -> [u8; 32] {
        self.source.seed()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let mut entry = self.source.next_entry()?;
        if let Some(entry) = &mut entry
            && let Content::Held(content) = &mut entry.content
        {
            // The image was read before; what it says now must be the same.
            let number = self.numbers.get(*content as usize).copied();
            *content = number.filter(|&number| number > 0).unwrap_or(u64::MAX);
        }
        Ok(entry)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.source.take_problems()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        self.source.take_warnings()
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        self.source.review(review)
    }
}
