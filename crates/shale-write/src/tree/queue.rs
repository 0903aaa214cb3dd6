//! Numbers that are written in one order and read in the same order later, in bounded memory.

use std::collections::VecDeque;

use super::record::{get, put};
use super::store::{BLOCK_LEN, Block, Store, pack};
use crate::WriteError;
use crate::compress::Bench;

/// First in, first out.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    blocks: VecDeque<Block>,
    back: Vec<u8>,
    front: Vec<u8>,
    at: usize,
    bench: Bench,
}

impl Queue {
    /// Adds numbers that will be read together.
    pub(crate) fn push(&mut self, numbers: [u64; 2], store: &mut Store) -> Result<(), WriteError> {
        for number in numbers {
            put(&mut self.back, number);
        }
        if self.back.len() >= BLOCK_LEN {
            self.blocks.push_back(store.put(pack(&mut self.bench, &self.back)?)?);
            self.back.clear();
        }
        Ok(())
    }

    /// Takes the oldest.
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
            None => Err(WriteError::Spool(std::io::ErrorKind::InvalidData.into())),
        }
    }
}
