//! Completes the tree when all entries are there: adds the directories that paths imply, and counts
//! the directories in each directory.
//!
//! This starts at the deepest directories. The directories given at one depth, those that the paths
//! of entries imply, and the parents of the directories one level deeper are merged and written as
//! one run. Only directories are written twice, never files.

use shale_model::{Missing, Problem, Repeat, Review};

use crate::exec::scratch::EncoderScratch;
use crate::plan::digest::{TreeDigest, content_digest};
use crate::plan::error::WriteError;
use crate::tree::batch::{Parents, add_entry};
use crate::tree::links::Links;
use crate::tree::record::{NONE, Record, implied_directory, parent_of, path_of};
use crate::tree::runs::{BlockWriter, Merge, Runs};
use crate::tree::sets::XattrSets;
use crate::tree::store::{Block, Store};

/// Most repeats, collisions and missing directories that are kept for messages.
pub(crate) const NOTED_MAX: usize = 4096;
/// Most bytes of the paths of missing directories that are kept: each directory above a deep one
/// may be missing.
const MISSING_BYTES_MAX: usize = 1 << 20;

/// Notes a path that came twice.
pub(crate) fn note(repeats: &mut Vec<Repeat>, key: &[u8], sequences: (u64, u64)) {
    if repeats.len() < NOTED_MAX {
        repeats.push(Repeat { path: path_of(key), sequences });
    }
}

/// A complete tree.
pub(crate) struct SealedTree {
    pub(crate) store: Store,
    pub(crate) scratch: EncoderScratch,
    /// Digests of the directories above the current one.
    pub(crate) parents: Parents,
    /// As for every directory, the payload is the number of directories in it.
    pub(crate) root: Record,
    /// By depth. The first holds the entries of the root.
    pub(crate) depths: Vec<Depth>,
    pub(crate) links: Links,
    pub(crate) xattr_sets: XattrSets,
    /// Digest of all entries except the root, without links.
    pub(crate) digest: TreeDigest,
    /// Paths that came twice, as far as they were noticed.
    pub(crate) repeats: Vec<Repeat>,
    /// Entries that came after a directory with the same path and are not directories. Known after
    /// a walk.
    pub(crate) collisions: Vec<Problem>,
    /// Directories that were added.
    pub(crate) missing: Vec<Missing>,
}

/// Entries of one depth.
#[derive(Debug)]
pub(crate) struct Depth {
    /// All directories, sorted.
    pub(crate) directories: Vec<Block>,
    /// All others.
    pub(crate) others: Runs,
}

impl SealedTree {
    /// Returns what the source should check.
    pub(crate) fn review(&self) -> Review<'_> {
        Review { repeats: &self.repeats, missing: &self.missing }
    }

    /// Bytes of all temporary files.
    pub(crate) fn file_len(&self) -> u64 {
        self.store.file_len() + self.links.file_len() + self.xattr_sets.file_len()
    }

    /// Merges the runs into `depths`.
    pub(super) fn complete(&mut self, runs: Vec<[Runs; 2]>) -> Result<(), WriteError> {
        let empty = content_digest(&[]);
        // Directories of this depth that contain directories, and how many.
        let mut mentioned = Vec::new();
        let mut missing_bytes = 0;
        for [directories, others] in runs.into_iter().rev() {
            let all = directories.blocks().chain([&mentioned[..]]);
            let mut merge = Merge::new(all, &mut self.store)?;
            let mut writer = BlockWriter::default();
            let mut above = ParentCounter::default();
            let mut key = Vec::new();
            while let Some((head, &record, _)) = merge.head() {
                key.clear();
                key.extend_from_slice(head);
                let mut record = record;
                merge.advance(&mut self.store)?;
                // Given ones come first, the last given before earlier ones.
                while let Some((_, again, _)) = merge.head().filter(|head| head.0 == key) {
                    record.payload += again.payload;
                    if !again.attributes.implied {
                        let sequences = (again.sequence, record.sequence);
                        note(&mut self.repeats, &key, sequences);
                        let mut digest = TreeDigest::default();
                        let xattrs = self.xattr_sets.get(again.attributes.xattrs)?;
                        let parent = self.parents.of(&key);
                        add_entry(&mut digest, &parent, &key, again, &[], &empty, &xattrs);
                        self.digest.remove(&digest);
                    }
                    merge.advance(&mut self.store)?;
                }
                if record.attributes.implied {
                    if self.missing.len() < NOTED_MAX && missing_bytes < MISSING_BYTES_MAX {
                        missing_bytes += key.len();
                        let (path, sequence) = (path_of(&key), record.sequence);
                        self.missing.push(Missing { path, sequence });
                    }
                    let parent = self.parents.of(&key);
                    add_entry(&mut self.digest, &parent, &key, &record, &[], &empty, &[]);
                }
                writer.push(&key, &record, &[], &mut self.store, &mut self.scratch)?;
                above.count(&key, record.sequence, &mut self.store, &mut self.scratch)?;
            }
            drop(merge);
            let directories = writer.finish(&mut self.store, &mut self.scratch)?;
            self.depths.push(Depth { directories, others });
            let root_count = above.count;
            mentioned = above.finish(&mut self.store, &mut self.scratch)?;
            self.root.payload = root_count;
        }
        self.depths.reverse();
        Ok(())
    }
}

/// Counts sorted directories by their parent.
#[derive(Default)]
struct ParentCounter {
    writer: BlockWriter,
    parent: Vec<u8>,
    /// Number of an entry below it.
    sequence: u64,
    count: u64,
}

impl ParentCounter {
    fn count(
        &mut self,
        key: &[u8],
        sequence: u64,
        store: &mut Store,
        scratch: &mut EncoderScratch,
    ) -> Result<(), WriteError> {
        let parent = parent_of(key);
        if parent != self.parent {
            self.end(store, scratch)?;
            self.parent.extend_from_slice(parent);
            self.sequence = sequence;
        }
        self.count += 1;
        Ok(())
    }

    fn end(&mut self, store: &mut Store, scratch: &mut EncoderScratch) -> Result<(), WriteError> {
        if self.count > 0 && !self.parent.is_empty() {
            let record =
                Record { payload: self.count, link: NONE, ..implied_directory(self.sequence) };
            self.writer.push(&self.parent, &record, &[], store, scratch)?;
        }
        self.parent.clear();
        self.count = 0;
        Ok(())
    }

    fn finish(
        mut self,
        store: &mut Store,
        scratch: &mut EncoderScratch,
    ) -> Result<Vec<Block>, WriteError> {
        self.end(store, scratch)?;
        self.writer.finish(store, scratch)
    }
}
