//! Bytes that are appended, and later read at any place: in memory up to a budget, then in a
//! temporary file.
//!
//! The bytes are cut into blocks of 1 MiB. A block that is full and does not fit into the budget is
//! written by any free thread, so the thread that appends neither waits for the disk nor copies
//! bytes into the kernel. Memory beside the budget: the block that is being filled and
//! [`WRITES_MAX`] blocks on their way.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::exec::spill::Spill;
use crate::plan::budget::BUFFER_BLOCK_BYTES;
use crate::plan::error::WriteError;
use crate::plan::report::Stage;

/// Length of a block.
const BLOCK_LEN: usize = BUFFER_BLOCK_BYTES as usize;
/// Most blocks on their way to the file.
const WRITES_MAX: usize = 4;

/// Bytes that no more are appended to.
#[derive(Debug)]
pub(crate) struct Buffered {
    /// The first blocks.
    memory: Vec<Vec<u8>>,
    /// The blocks after those.
    spill: Spill,
    /// The bytes after those, less than a block.
    rest: Vec<u8>,
}

impl Buffered {
    /// Fills `out` with the bytes from `at` on, all of which were appended.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub(crate) fn read_at(&self, mut at: u64, mut out: &mut [u8]) -> Result<(), WriteError> {
        while !out.is_empty() {
            let (block, from) =
                ((at / BLOCK_LEN as u64) as usize, (at % BLOCK_LEN as u64) as usize);
            let rest_start = self.rest_start();
            let taken = if let Some(block) = self.memory.get(block) {
                let taken = out.len().min(BLOCK_LEN - from);
                out[..taken].copy_from_slice(&block[from..from + taken]);
                taken
            } else if at < rest_start {
                let taken = out.len().min((rest_start - at) as usize);
                let offset = at - self.memory_len();
                let read = self.spill.read_at(&mut out[..taken], offset);
                read.map_err(WriteError::TemporaryFile)?;
                taken
            } else {
                let from = (at - rest_start) as usize;
                out.copy_from_slice(&self.rest[from..from + out.len()]);
                out.len()
            };
            at += taken as u64;
            out = &mut out[taken..];
        }
        Ok(())
    }

    fn memory_len(&self) -> u64 {
        self.memory.len() as u64 * BLOCK_LEN as u64
    }

    /// Where the bytes begin that are in no whole block.
    fn rest_start(&self) -> u64 {
        self.memory_len() + self.spill.file_len()
    }
}

/// Appends.
pub(crate) struct BufferWriter<'env> {
    build: Build<'env>,
    /// `rest` is the block that is being filled.
    so_far: Buffered,
    /// The block that is being filled is part of the budget.
    is_kept: bool,
    /// Most bytes that the file ever had.
    file_len_max: u64,
    /// Blocks on their way to the file, the oldest first; each returns its memory.
    writing: VecDeque<Ticket<io::Result<Vec<u8>>>>,
    spare: Vec<Vec<u8>>,
}

impl<'env> BufferWriter<'env> {
    /// Starts without bytes. At most `memory_bytes_max` of them will be kept in memory.
    pub(crate) fn new(
        build: Build<'env>,
        memory_bytes_max: u64,
        temp_dir: Option<PathBuf>,
    ) -> Self {
        let spill = Spill::new(memory_bytes_max, temp_dir);
        let so_far = Buffered { memory: Vec::new(), spill, rest: Vec::new() };
        let (writing, spare) = (VecDeque::new(), Vec::new());
        Self { build, so_far, is_kept: false, file_len_max: 0, writing, spare }
    }

    /// Number of bytes so far.
    pub(crate) fn end(&self) -> u64 {
        self.so_far.rest_start() + self.so_far.rest.len() as u64
    }

    /// Most bytes that were in the file at a time, or on their way there.
    pub(crate) fn file_len_max(&self) -> u64 {
        self.file_len_max
    }

    /// Appends bytes. Returns where they begin.
    ///
    /// # Errors
    /// The temporary file cannot be written: these bytes, or some before.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<u64, WriteError> {
        let start = self.end();
        while !bytes.is_empty() {
            if self.so_far.rest.is_empty() {
                self.is_kept = self.so_far.spill.take_memory(BLOCK_LEN as u64);
                if self.so_far.rest.capacity() == 0 {
                    self.so_far.rest = self.block();
                }
            }
            let rest = &mut self.so_far.rest;
            let taken = bytes.len().min(BLOCK_LEN - rest.len());
            rest.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if rest.len() == BLOCK_LEN {
                self.end_block().map_err(WriteError::TemporaryFile)?;
            }
        }
        Ok(start)
    }

    /// Forgets the bytes from `start` on.
    ///
    /// # Errors
    /// The temporary file cannot be used.
    pub(crate) fn truncate(&mut self, start: u64) -> Result<(), WriteError> {
        self.finish_writes(0).map_err(WriteError::TemporaryFile)?;
        let Buffered { memory, spill, rest } = &mut self.so_far;
        let memory_len = memory.len() as u64 * BLOCK_LEN as u64;
        let rest_start = memory_len + spill.file_len();
        let begin = start / BLOCK_LEN as u64 * BLOCK_LEN as u64;
        if start < rest_start {
            if std::mem::take(&mut self.is_kept) {
                spill.give_back_memory(BLOCK_LEN as u64);
            }
            if start < memory_len {
                let mut freed = memory.split_off((begin / BLOCK_LEN as u64) as usize);
                *rest = freed.swap_remove(0);
                self.is_kept = true;
                spill.give_back_memory(freed.len() as u64 * BLOCK_LEN as u64);
                spill.set_file_len(0).map_err(WriteError::TemporaryFile)?;
            } else {
                rest.resize((start - begin) as usize, 0);
                let read = spill.read_at(rest, begin - memory_len);
                read.and_then(|()| spill.set_file_len(begin - memory_len))
                    .map_err(WriteError::TemporaryFile)?;
            }
        }
        let rest_len = start - self.so_far.rest_start();
        self.so_far.rest.truncate(rest_len as usize);
        if self.so_far.rest.is_empty() && std::mem::take(&mut self.is_kept) {
            self.so_far.spill.give_back_memory(BLOCK_LEN as u64);
        }
        Ok(())
    }

    /// Waits until everything is written. No more bytes may follow.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(crate) fn finish(mut self) -> Result<Buffered, WriteError> {
        self.finish_writes(0).map_err(WriteError::TemporaryFile)?;
        Ok(self.so_far)
    }

    /// Keeps the block that is full, or lets a thread write it.
    fn end_block(&mut self) -> io::Result<()> {
        let spare = self.block();
        let full = std::mem::replace(&mut self.so_far.rest, spare);
        if std::mem::take(&mut self.is_kept) {
            self.so_far.memory.push(full);
            return Ok(());
        }
        let write = self.so_far.spill.extend(BLOCK_LEN as u64)?;
        self.file_len_max = self.file_len_max.max(self.so_far.spill.file_len());
        self.writing.push_back(self.build.submit(Urgency::Urgent, Stage::Read, move |_| {
            write.all(&full)?;
            Ok(full)
        }));
        self.finish_writes(WRITES_MAX)
    }

    /// Waits for the oldest writes until at most `count_max` are on their way.
    fn finish_writes(&mut self, count_max: usize) -> io::Result<()> {
        while let Some(oldest) = self.writing.front() {
            if self.writing.len() <= count_max && !oldest.is_ready() {
                break;
            }
            let mut block = self.build.wait(oldest)?;
            self.writing.pop_front();
            block.clear();
            self.spare.push(block);
        }
        Ok(())
    }

    /// Memory for a block.
    fn block(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_LEN))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::exec::build::Env;
    use crate::plan::options::Options;
    use crate::tests::random;
    use shale_host::NoProgress;

    /// Runs `test` with a pool of some threads.
    fn with_build(threads: usize, test: impl FnOnce(Build<'_>)) {
        let options = Options { threads, ..Options::default() };
        let env = Env::new(&options, None, None, &NoProgress).unwrap();
        Build::run(&env, test);
    }

    /// These bytes, of which at most `memory_bytes_max` are in memory.
    pub(crate) fn buffered(bytes: &[u8], memory_bytes_max: u64) -> Buffered {
        let mut found = None;
        with_build(2, |build| {
            let mut writer = BufferWriter::new(build, memory_bytes_max, None);
            writer.push(bytes).unwrap();
            found = Some(writer.finish().unwrap());
        });
        found.unwrap()
    }

    #[test]
    fn bytes_come_back_from_memory_and_file_also_after_some_were_forgotten() {
        let block = BLOCK_LEN as u64;
        for (threads, memory_bytes_max) in
            [(1, 0), (3, 0), (1, 2 * block), (3, 3 * block), (2, 99 * block)]
        {
            with_build(threads, |build| {
                let mut writer = BufferWriter::new(build, memory_bytes_max, None);
                let mut expected = Vec::new();
                let lens = [10, 3 << 20, 0, 700_000, 1 << 20, 5, 2 << 20];
                for (seed, len) in (1..).zip(lens) {
                    // From nothing to several blocks are forgotten, at any place in a block.
                    for forgotten in [0, 1, block - 1, block, 2_500_000] {
                        let start = writer.end();
                        writer.push(&random(99, forgotten as usize)).unwrap();
                        writer.truncate(start).unwrap();
                        assert_eq!(writer.end(), expected.len() as u64);
                    }
                    let bytes = random(seed, len);
                    bytes.chunks(300_000).for_each(|piece| _ = writer.push(piece).unwrap());
                    expected.extend_from_slice(&bytes);
                }
                let file_len_max = writer.file_len_max();
                let buffered = writer.finish().unwrap();
                let kept = (memory_bytes_max / block).min(6) * block;
                let file_len = buffered.spill.file_len();
                assert_eq!(file_len, 6 * block - kept, "whole blocks beyond the budget");
                assert!((file_len..=file_len + 3 * block).contains(&file_len_max));
                let mut out = vec![0; expected.len()];
                buffered.read_at(0, &mut out).unwrap();
                assert!(out == expected);
                for at in [0, 1, block - 1, block, 3 * block + 5, expected.len() as u64 - 9] {
                    let len = (expected.len() - at as usize).min(1_500_000);
                    let mut out = vec![0; len];
                    buffered.read_at(at, &mut out).unwrap();
                    assert!(out == expected[at as usize..][..len], "from {at}");
                }
            });
        }
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        with_build(2, |build| {
            let missing = Some(PathBuf::from("/nonexistent/directory"));
            let mut writer = BufferWriter::new(build, 0, missing);
            let error = writer.push(&vec![1; BLOCK_LEN]).unwrap_err();
            assert!(error.to_string().contains("/nonexistent/directory"), "{error}");
        });
    }
}
