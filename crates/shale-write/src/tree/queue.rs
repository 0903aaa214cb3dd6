//! A queue of numbers, in bounded memory.

use std::collections::VecDeque;

use crate::exec::scratch::EncoderScratch;
use crate::plan::error::WriteError;
use crate::tree::record::{get, put};
use crate::tree::store::{BLOCK_LEN, Block, Store, pack};

/// First in, first out.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    blocks: VecDeque<Block>,
    back: Vec<u8>,
    front: Vec<u8>,
    at: usize,
    scratch: EncoderScratch,
}

impl Queue {
    /// Appends two numbers, which are read together.
    pub(crate) fn push(&mut self, numbers: [u64; 2], store: &mut Store) -> Result<(), WriteError> {
        for number in numbers {
            put(&mut self.back, number);
        }
        if self.back.len() >= BLOCK_LEN {
            self.blocks.push_back(store.put(pack(&mut self.scratch, &self.back)?)?);
            self.back.clear();
        }
        Ok(())
    }

    /// Removes and returns the oldest two numbers.
    pub(crate) fn pop(&mut self, store: &mut Store) -> Result<Option<[u64; 2]>, WriteError> {
        if self.at == self.front.len() {
            self.at = 0;
            self.front.clear();
            match self.blocks.pop_front() {
                Some(block) => store.get(&block, &mut self.front)?,
                None => std::mem::swap(&mut self.front, &mut self.back),
            }
        }
        if self.front.is_empty() {
            return Ok(None);
        }
        let pair = get(&self.front, &mut self.at).zip(get(&self.front, &mut self.at));
        match pair {
            Some((a, b)) => Ok(Some([a, b])),
            None => Err(WriteError::TemporaryFileDamaged),
        }
    }
}
