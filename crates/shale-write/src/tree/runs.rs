//! Sorted runs of records, and many runs read as one.
//!
//! A batch is appended to the run that ends closest before it; if there is none, a new run begins.
//! So input that is sorted, in two interleaved orders, or sorted except for short stretches gives
//! few runs; only unsorted input gives many. Too many runs are merged into one of the next
//! generation. Each record is moved once a generation, and there are never more than a few.

use std::cmp::Ordering;

use crate::exec::scratch::EncoderScratch;
use crate::plan::error::WriteError;
use crate::tree::batch::PackedBatch;
use crate::tree::record::{Record, RecordReader, RecordWriter};
use crate::tree::store::{BLOCK_LEN, Block, Store, pack};

/// Most runs of one generation. More would cost more memory to merge than they save work.
const RUNS_MAX: usize = 128;
/// Runs that are considered when a batch is appended.
const OPEN_RUNS_MAX: usize = 16;
/// Bytes of its last key that a run keeps. A deep tree has runs at each of its depths, whose keys
/// together would be long.
const LAST_KEY_LEN_MAX: usize = 1024;

/// All runs of one kind of record at one depth.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    blocks: Vec<Block>,
    /// The beginning of the last key.
    last_key: Vec<u8>,
    generation: u8,
}

impl Run {
    /// Returns whether all its keys are surely smaller than `key`. Keys that only differ after
    /// what the run keeps are taken for greater ones.
    fn is_before(&self, key: &[u8]) -> bool {
        self.last_key[..] < key[..key.len().min(LAST_KEY_LEN_MAX)]
    }

    fn set_last_key(&mut self, key: &[u8]) {
        self.last_key = key[..key.len().min(LAST_KEY_LEN_MAX)].into();
    }
}

impl Runs {
    /// Keeps a batch. Returns whether it began a new run.
    pub(crate) fn append(
        &mut self,
        batch: PackedBatch,
        store: &mut Store,
        scratch: &mut EncoderScratch,
    ) -> Result<bool, WriteError> {
        let open = self.runs.len().saturating_sub(OPEN_RUNS_MAX);
        let found = (open..self.runs.len())
            .filter(|&index| self.runs[index].is_before(&batch.first_key))
            .max_by(|&a, &b| self.runs[a].last_key.cmp(&self.runs[b].last_key));
        let is_new = found.is_none();
        let index = found.unwrap_or(self.runs.len());
        if is_new {
            self.runs.push(Run { blocks: Vec::new(), last_key: Vec::new(), generation: 0 });
        }
        let run = &mut self.runs[index];
        for block in batch.blocks {
            run.blocks.push(store.put(block)?);
        }
        run.set_last_key(&batch.last_key);
        if is_new {
            self.consolidate(store, scratch)?;
        }
        Ok(is_new)
    }

    /// Number of runs.
    pub(crate) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Returns the blocks of each run.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[Block]> {
        self.runs.iter().map(|run| &run.blocks[..])
    }

    /// Merges all runs into one sequence.
    pub(crate) fn merge(&self, store: &mut Store) -> Result<Merge<'_>, WriteError> {
        Merge::new(self.blocks(), store)
    }

    fn consolidate(
        &mut self,
        store: &mut Store,
        scratch: &mut EncoderScratch,
    ) -> Result<(), WriteError> {
        let mut generation = 0;
        while self.runs.iter().filter(|run| run.generation == generation).count() >= RUNS_MAX {
            let (old, others) = std::mem::take(&mut self.runs)
                .into_iter()
                .partition(|r| r.generation == generation);
            let old: Vec<Run> = old;
            self.runs = others;
            let mut merge = Merge::new(old.iter().map(|run| &run.blocks[..]), store)?;
            let mut writer = BlockWriter::default();
            let mut last_key = Vec::new();
            while let Some((key, record, target)) = merge.head() {
                writer.push(key, record, target, store, scratch)?;
                last_key.clear();
                last_key.extend_from_slice(key);
                merge.advance(store)?;
            }
            generation += 1;
            let blocks = writer.finish(store, scratch)?;
            // At the front, so that it is not among the runs that are considered for new batches.
            let mut run = Run { blocks, last_key: Vec::new(), generation };
            run.set_last_key(&last_key);
            self.runs.insert(0, run);
        }
        Ok(())
    }
}

/// Writes records, in order, into blocks.
#[derive(Debug, Default)]
pub(crate) struct BlockWriter {
    writer: RecordWriter,
    blocks: Vec<Block>,
}

impl BlockWriter {
    /// Adds a record.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        record: &Record,
        target: &[u8],
        store: &mut Store,
        scratch: &mut EncoderScratch,
    ) -> Result<(), WriteError> {
        self.writer.push(key, record, target);
        if self.writer.bytes.len() >= BLOCK_LEN {
            self.blocks.push(store.put(pack(scratch, &self.writer.take())?)?);
        }
        Ok(())
    }

    /// Returns all blocks.
    pub(crate) fn finish(
        mut self,
        store: &mut Store,
        scratch: &mut EncoderScratch,
    ) -> Result<Vec<Block>, WriteError> {
        if !self.writer.bytes.is_empty() {
            self.blocks.push(store.put(pack(scratch, &self.writer.take())?)?);
        }
        Ok(self.blocks)
    }
}

/// Runs read as one sequence, by key. Of records with equal keys, given ones come before implied
/// ones and later ones before earlier ones. Holds one plain block a run.
#[derive(Debug)]
pub(crate) struct Merge<'r> {
    cursors: Vec<Cursor<'r>>,
    /// A heap of the cursors that are not at their end, the smallest first.
    heap: Vec<u32>,
}

#[derive(Debug)]
struct Cursor<'r> {
    blocks: std::slice::Iter<'r, Block>,
    reader: RecordReader,
}

impl Cursor<'_> {
    fn advance(&mut self, store: &mut Store) -> Result<bool, WriteError> {
        loop {
            if self.reader.advance()? {
                return Ok(true);
            }
            match self.blocks.next() {
                Some(block) => store.get(block, self.reader.next_block())?,
                None => return Ok(false),
            }
        }
    }
}

impl<'r> Merge<'r> {
    /// Starts reading.
    pub(crate) fn new(
        runs: impl Iterator<Item = &'r [Block]>,
        store: &mut Store,
    ) -> Result<Self, WriteError> {
        let mut merge = Self { cursors: Vec::new(), heap: Vec::new() };
        for blocks in runs {
            let mut cursor = Cursor { blocks: blocks.iter(), reader: RecordReader::default() };
            if cursor.advance(store)? {
                merge.heap.push(merge.cursors.len() as u32);
                merge.cursors.push(cursor);
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift(at);
        }
        Ok(merge)
    }

    /// Returns the smallest record that is left: key, record and link target.
    pub(crate) fn head(&self) -> Option<(&[u8], &Record, &[u8])> {
        let reader = &self.cursors[*self.heap.first()? as usize].reader;
        Some((&reader.key, &reader.record, reader.target()))
    }

    /// Moves to the next record.
    pub(crate) fn advance(&mut self, store: &mut Store) -> Result<(), WriteError> {
        if let Some(&first) = self.heap.first() {
            if !self.cursors[first as usize].advance(store)? {
                self.heap.swap_remove(0);
            }
            self.sift(0);
        }
        Ok(())
    }

    fn sift(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_less(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        let reader = |at: usize| &self.cursors[self.heap[at] as usize].reader;
        let (a, b) = (reader(a), reader(b));
        let implied = |reader: &RecordReader| reader.record.attributes.implied;
        let order = a.key.cmp(&b.key).then(implied(a).cmp(&implied(b)));
        order.then(b.record.sequence.cmp(&a.record.sequence)) == Ordering::Less
    }
}
