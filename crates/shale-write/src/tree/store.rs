//! Blocks of records: in memory up to a budget, then in a temporary file.
//!
//! Callers compress blocks with a fast codec before they store them, as blocks are read only once
//! or twice.

use std::path::PathBuf;

use shale_codec::{Codec, Decoder, Settings};

use crate::exec::scratch::EncoderScratch;
use crate::exec::spill::{Spill, Spilled};
use crate::plan::error::WriteError;

/// Plain bytes at which a block ends.
pub(crate) const BLOCK_LEN: usize = 32 << 10;

/// Fast, and good enough for data that repeats so much.
const SETTINGS: Settings = Settings { codec: Codec::Lz4, level: 0, ..Settings::STORED };

/// Where blocks are kept.
#[derive(Debug)]
pub(crate) struct Store {
    spill: Spill,
    decoder: Decoder,
    stored: Vec<u8>,
}

/// A block, and where it is.
#[derive(Debug)]
pub(crate) struct Block {
    stored: Spilled<Box<[u8]>>,
    plain_len: u32,
}

/// A compressed block that is not stored yet.
#[derive(Debug)]
pub(crate) struct PackedBlock {
    stored: Vec<u8>,
    plain_len: usize,
}

/// Compresses a block.
pub(crate) fn pack(scratch: &mut EncoderScratch, plain: &[u8]) -> Result<PackedBlock, WriteError> {
    Ok(PackedBlock { stored: scratch.encode(SETTINGS, &[], plain)?, plain_len: plain.len() })
}

impl Store {
    /// An empty store that holds at most `memory_bytes_max` bytes in memory.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self {
            spill: Spill::new(memory_bytes_max, temp_dir),
            decoder: Decoder::new(),
            stored: Vec::new(),
        }
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.spill.file_len()
    }

    /// Keeps a block.
    pub(crate) fn put(&mut self, block: PackedBlock) -> Result<Block, WriteError> {
        let PackedBlock { stored, plain_len } = block;
        let len = stored.len() as u64;
        let stored = self.spill.keep(stored.into_boxed_slice(), len);
        let stored = stored.map_err(WriteError::TemporaryFile)?;
        Ok(Block { stored, plain_len: plain_len as u32 })
    }

    /// Puts the plain bytes of a block into `out`, which is empty.
    pub(crate) fn get(&mut self, block: &Block, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let stored = match &block.stored {
            Spilled::Memory(stored) => stored,
            in_file => {
                self.stored.resize(in_file.len(), 0);
                let read = self.spill.read(in_file, 0, &mut self.stored);
                read.map_err(WriteError::TemporaryFile)?;
                &self.stored[..]
            }
        };
        self.decoder
            .decode(SETTINGS.codec, &[], stored, block.plain_len as usize, out)
            .map_err(|_| WriteError::TemporaryFileDamaged)
    }
}
