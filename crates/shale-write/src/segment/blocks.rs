//! Blocks of the stream that were read back last: what repeats at all repeats mostly what a few
//! places hold, and the store is a file where it is large.

use std::io;

use super::PlainStore;

/// Bytes of a block. A first comparison takes one or two.
const BLOCK_LEN: u64 = 8 << 10;
/// Blocks held, each in the one slot that its number says: 4 MiB.
const BLOCK_COUNT: usize = 512;

/// The blocks held. Takes memory once it is asked for something.
#[derive(Default)]
pub(super) struct Blocks {
    /// Number of the block in each slot, from 1 on; 0: none.
    held: Vec<u64>,
    bytes: Vec<u8>,
    /// Reads of the store.
    pub(super) read_count: u64,
}

impl Blocks {
    /// Fills `out` with the stream's bytes from `from` on, where `stream_len` bytes were emitted.
    pub(super) fn read_at(
        &mut self,
        mut from: u64,
        mut out: &mut [u8],
        stream_len: u64,
        store: &dyn PlainStore,
    ) -> io::Result<()> {
        while !out.is_empty() {
            let number = from / BLOCK_LEN;
            let at = (from % BLOCK_LEN) as usize;
            // What is asked for in one go is longer than what is compared first, and the last block
            // is not whole yet.
            if out.len() > BLOCK_LEN as usize || (number + 1) * BLOCK_LEN > stream_len {
                self.read_count += 1;
                return store.read_at(from, out);
            }
            let block = self.block(number, store)?;
            let len = out.len().min(block.len() - at);
            let (part, rest) = out.split_at_mut(len);
            part.copy_from_slice(&block[at..at + len]);
            from += len as u64;
            out = rest;
        }
        Ok(())
    }

    fn block(&mut self, number: u64, store: &dyn PlainStore) -> io::Result<&[u8]> {
        if self.held.is_empty() {
            self.held = vec![0; BLOCK_COUNT];
            self.bytes = vec![0; BLOCK_COUNT * BLOCK_LEN as usize];
        }
        let slot = (number % BLOCK_COUNT as u64) as usize;
        let block = &mut self.bytes[slot * BLOCK_LEN as usize..][..BLOCK_LEN as usize];
        if self.held[slot] != number + 1 {
            self.held[slot] = 0;
            self.read_count += 1;
            store.read_at(number * BLOCK_LEN, block)?;
            self.held[slot] = number + 1;
        }
        Ok(block)
    }
}
