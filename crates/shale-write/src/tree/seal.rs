//! The tree when all of it is there: directories that were only mentioned are made up, and each
//! directory knows how many are in it.
//!
//! From the deepest directories up: those given at one depth, those that entries of the next depth
//! mention, and the parents of the directories found one deeper are read as one and written again
//! as one run. Only directories are written twice, files never.

use super::batch::{Parents, add_entry};
use super::record::{NONE, Record, parent_of, path_of};
use super::runs::{BlockWriter, Merge, Runs};
use super::store::{Block, Store};
use super::{Links, XattrSets, implied_directory};
use crate::compress::Bench;
use crate::digest::{TreeDigest, content_digest};
use crate::source::{Missing, Repeat, Review};
use crate::{Problem, WriteError};

/// Repeats, collisions and missing directories that are kept: enough to tell people.
pub(crate) const NOTED_MAX: usize = 4096;

/// Notes a path that came twice.
pub(crate) fn note(repeats: &mut Vec<Repeat>, key: &[u8], sequences: (u64, u64)) {
    if repeats.len() < NOTED_MAX {
        repeats.push(Repeat { path: path_of(key), sequences });
    }
}

/// Everything that was taken in.
pub(crate) struct Sealed {
    pub(crate) store: Store,
    pub(crate) bench: Bench,
    /// Its payload is the number of directories in it, as with every directory.
    pub(crate) root: Record,
    /// By depth; the first is what is in the root.
    pub(crate) depths: Vec<Depth>,
    pub(crate) links: Links,
    pub(crate) xattr_sets: XattrSets,
    /// Of all entries but the root, without links.
    pub(crate) digest: TreeDigest,
    /// Paths that came twice, as far as they were noticed.
    pub(crate) repeats: Vec<Repeat>,
    /// Entries that are no directories and came after a directory with the same path; known after
    /// a walk.
    pub(crate) collisions: Vec<Problem>,
    /// Directories that were made up.
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

impl Sealed {
    /// What is to be said to the source.
    pub(crate) fn review(&self) -> Review<'_> {
        Review { repeats: &self.repeats, missing: &self.missing }
    }

    /// Bytes of all temporary files.
    pub(crate) fn file_len(&self) -> u64 {
        self.store.file_len() + self.links.file_len() + self.xattr_sets.file_len()
    }

    /// Fills `depths`.
    pub(super) fn complete(&mut self, runs: Vec<[Runs; 2]>) -> Result<(), WriteError> {
        let empty = content_digest(&[]);
        // Directories of the depth at hand that have directories in them, and how many.
        let mut mentioned = Vec::new();
        for [directories, others] in runs.into_iter().rev() {
            let all = directories.blocks().chain([&mentioned[..]]);
            let mut merge = Merge::new(all, &mut self.store)?;
            let mut writer = BlockWriter::default();
            let mut above = ParentCounter::default();
            let mut key = Vec::new();
            let mut parents = Parents::default();
            while let Some((head, &record, _)) = merge.head() {
                key.clear();
                key.extend_from_slice(head);
                let mut record = record;
                merge.advance(&mut self.store)?;
                // Real ones come first, the last given before earlier ones.
                while let Some((_, again, _)) = merge.head().filter(|head| head.0 == key) {
                    record.payload += again.payload;
                    if !again.attributes.implied {
                        let sequences = (again.sequence, record.sequence);
                        note(&mut self.repeats, &key, sequences);
                        let mut digest = TreeDigest::default();
                        let xattrs = self.xattr_sets.get(again.attributes.xattrs)?;
                        let parent = parents.of(&key);
                        add_entry(&mut digest, &parent, &key, again, &[], &empty, &xattrs);
                        self.digest.remove(&digest);
                    }
                    merge.advance(&mut self.store)?;
                }
                if record.attributes.implied {
                    if self.missing.len() < NOTED_MAX {
                        let (path, sequence) = (path_of(&key), record.sequence);
                        self.missing.push(Missing { path, sequence });
                    }
                    let parent = parents.of(&key);
                    add_entry(&mut self.digest, &parent, &key, &record, &[], &empty, &[]);
                }
                writer.push(&key, &record, &[], &mut self.store, &mut self.bench)?;
                above.count(&key, record.sequence, &mut self.store, &mut self.bench)?;
            }
            drop(merge);
            let directories = writer.finish(&mut self.store, &mut self.bench)?;
            self.depths.push(Depth { directories, others });
            let root_count = above.count;
            mentioned = above.finish(&mut self.store, &mut self.bench)?;
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
    /// An entry below it.
    sequence: u64,
    count: u64,
}

impl ParentCounter {
    fn count(
        &mut self,
        key: &[u8],
        sequence: u64,
        store: &mut Store,
        bench: &mut Bench,
    ) -> Result<(), WriteError> {
        let parent = parent_of(key);
        if parent != self.parent {
            self.end(store, bench)?;
            self.parent.extend_from_slice(parent);
            self.sequence = sequence;
        }
        self.count += 1;
        Ok(())
    }

    fn end(&mut self, store: &mut Store, bench: &mut Bench) -> Result<(), WriteError> {
        if self.count > 0 && !self.parent.is_empty() {
            let record =
                Record { payload: self.count, link: NONE, ..implied_directory(self.sequence) };
            self.writer.push(&self.parent, &record, &[], store, bench)?;
        }
        self.parent.clear();
        self.count = 0;
        Ok(())
    }

    fn finish(mut self, store: &mut Store, bench: &mut Bench) -> Result<Vec<Block>, WriteError> {
        self.end(store, bench)?;
        self.writer.finish(store, bench)
    }
}
