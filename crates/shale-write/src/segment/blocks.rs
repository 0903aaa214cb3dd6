//! A cache of blocks of the stream that were read back. Most repeats point to a few places, and the
//! stream is in a file where it is large.

use crate::plan::budget::SEGMENT_BLOCK_BYTES;

/// Bytes of a block. A first comparison takes one or two.
const BLOCK_LEN: u64 = 8 << 10;
/// Number of blocks; each has one possible slot, given by its number.
const BLOCK_COUNT: usize = (SEGMENT_BLOCK_BYTES / BLOCK_LEN) as usize;

/// The cached blocks. Allocates memory on first use.
#[derive(Default)]
pub(super) struct Blocks {
    /// Number of the block in each slot, plus one; 0 for an empty slot.
    held: Vec<u64>,
    bytes: Vec<u8>,
}

impl Blocks {
    /// Fills `out` with the bytes of the stream from `from` on. `stream_len` bytes were emitted so
    /// far; `read` reads the stream.
    pub(super) fn read_at<E>(
        &mut self,
        mut from: u64,
        mut out: &mut [u8],
        stream_len: u64,
        read: impl Fn(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !out.is_empty() {
            let number = from / BLOCK_LEN;
            let at = (from % BLOCK_LEN) as usize;
            // Long reads are extensions of a match, which bypass the cache. The last block is not
            // complete yet.
            if out.len() > BLOCK_LEN as usize || (number + 1) * BLOCK_LEN > stream_len {
                return read(from, out);
            }
            let block = self.block(number, &read)?;
            let len = out.len().min(block.len() - at);
            let (part, rest) = out.split_at_mut(len);
            part.copy_from_slice(&block[at..at + len]);
            from += len as u64;
            out = rest;
        }
        Ok(())
    }

    fn block<E>(
        &mut self,
        number: u64,
        read: &impl Fn(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        if self.held.is_empty() {
            self.held = vec![0; BLOCK_COUNT];
            self.bytes = vec![0; BLOCK_COUNT * BLOCK_LEN as usize];
        }
        let slot = (number % BLOCK_COUNT as u64) as usize;
        let block = &mut self.bytes[slot * BLOCK_LEN as usize..][..BLOCK_LEN as usize];
        if self.held[slot] != number + 1 {
            self.held[slot] = 0;
            read(number * BLOCK_LEN, block)?;
            self.held[slot] = number + 1;
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A stream that counts its reads.
    struct Stream(Vec<u8>, Cell<u64>);

    impl Stream {
        fn read_at(&self, stream_offset: u64, buf: &mut [u8]) -> Result<(), ()> {
            self.1.set(self.1.get() + 1);
            let at = stream_offset as usize;
            let bytes = self.0.get(at..at + buf.len()).ok_or(())?;
            buf.copy_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn what_is_read_again_is_read_once_and_all_is_what_the_stream_holds() {
        let len = (BLOCK_COUNT as u64 + 3) * BLOCK_LEN + 77;
        let stream = Stream(crate::tests::random(1, len as usize), Cell::new(0));
        let mut blocks = Blocks::default();
        let mut check = |from: u64, len: u64, stream_len: u64| {
            let mut out = vec![0; len as usize];
            blocks.read_at(from, &mut out, stream_len, |at, out| stream.read_at(at, out)).unwrap();
            assert_eq!(out, stream.0[from as usize..(from + len) as usize]);
            stream.1.take()
        };
        assert_eq!(check(5000, 100, len), 1);
        assert_eq!(check(5100, 200, len), 0);
        assert_eq!(check(BLOCK_LEN - 10, 20, len), 1, "the second of two blocks");
        assert_eq!(check(0, 3 * BLOCK_LEN, len), 1, "long, and in one go");
        // The next block with the same slot.
        assert_eq!(check(BLOCK_COUNT as u64 * BLOCK_LEN, 1, len), 1);
        assert_eq!(check(0, 1, len), 1);
        // An incomplete block is not kept, because it grows.
        assert_eq!(check(2 * BLOCK_LEN, 10, 2 * BLOCK_LEN + 10), 1);
        assert_eq!(check(2 * BLOCK_LEN, 30, 2 * BLOCK_LEN + 30), 1);
        assert_eq!(check(len - 77, 77, len), 1);
    }

    #[test]
    fn a_read_that_failed_is_tried_again() {
        let stream = Stream(vec![1; BLOCK_LEN as usize], Cell::new(0));
        let longer = Stream(vec![2; 2 * BLOCK_LEN as usize], Cell::new(0));
        let mut blocks = Blocks::default();
        let mut out = [0; 4];
        let read =
            blocks.read_at(BLOCK_LEN, &mut out, 2 * BLOCK_LEN, |at, out| stream.read_at(at, out));
        assert!(read.is_err());
        let read =
            blocks.read_at(BLOCK_LEN, &mut out, 2 * BLOCK_LEN, |at, out| longer.read_at(at, out));
        read.unwrap();
        assert_eq!(out, [2; 4]);
    }
}
