//! Blocks of records that wait: in memory up to a budget, then in a temporary file.
//!
//! The file has no name, so it is gone when the build ends, however it ends. It is made when it is
//! first needed. Blocks are compressed by those who make them, quickly, as they are read once or
//! twice.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use shale_codec::{Codec, Decoder, Settings};

use crate::WriteError;
use crate::compress::Bench;
use crate::temporary::get_or_make;

/// Plain bytes at which a block ends.
pub(crate) const BLOCK_LEN: usize = 32 << 10;

/// Fast, and good enough for what repeats so much.
const SETTINGS: Settings = Settings { codec: Codec::Lz4, level: 0, ..Settings::STORED };

/// Where blocks are kept.
#[derive(Debug)]
pub(crate) struct Store {
    memory_bytes_left: u64,
    temp_dir: Option<PathBuf>,
    file: Option<File>,
    file_len: u64,
    decoder: Decoder,
    stored: Vec<u8>,
}

/// A block and where it is.
#[derive(Debug)]
pub(crate) struct Block {
    place: Place,
    plain_len: u32,
}

#[derive(Debug)]
enum Place {
    Memory(Box<[u8]>),
    File { offset: u64, len: u32 },
}

/// A block on its way to the store.
#[derive(Debug)]
pub(crate) struct PackedBlock {
    stored: Vec<u8>,
    plain_len: usize,
}

/// Compresses a block.
pub(crate) fn pack(bench: &mut Bench, plain: &[u8]) -> Result<PackedBlock, WriteError> {
    Ok(PackedBlock { stored: bench.encode(SETTINGS, &[], plain)?, plain_len: plain.len() })
}

impl Store {
    /// An empty store that holds so many bytes in memory.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self {
            memory_bytes_left: memory_bytes_max,
            temp_dir,
            file: None,
            file_len: 0,
            decoder: Decoder::new(),
            stored: Vec::new(),
        }
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Keeps a block.
    pub(crate) fn put(&mut self, block: PackedBlock) -> Result<Block, WriteError> {
        let PackedBlock { stored, plain_len } = block;
        let len = stored.len() as u64;
        let place = if len <= self.memory_bytes_left {
            self.memory_bytes_left -= len;
            Place::Memory(stored.into_boxed_slice())
        } else {
            // Once one did not fit, the rest goes to the file in order.
            self.memory_bytes_left = 0;
            let offset = self.file_len;
            get_or_make(&mut self.file, self.temp_dir.as_deref())
                .and_then(|file| file.write_all_at(&stored, offset))
                .map_err(WriteError::Spool)?;
            self.file_len += len;
            Place::File { offset, len: stored.len() as u32 }
        };
        Ok(Block { place, plain_len: plain_len as u32 })
    }

    /// Puts the plain bytes of a block into `out`, which is empty.
    pub(crate) fn get(&mut self, block: &Block, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let stored = match (&block.place, &self.file) {
            (Place::Memory(stored), _) => stored,
            (Place::File { offset, len }, Some(file)) => {
                self.stored.resize(*len as usize, 0);
                file.read_exact_at(&mut self.stored, *offset).map_err(WriteError::Spool)?;
                &self.stored[..]
            }
            (Place::File { .. }, None) => {
                return Err(WriteError::Spool(std::io::ErrorKind::NotFound.into()));
            }
        };
        self.decoder
            .decode(SETTINGS.codec, &[], stored, block.plain_len as usize, out)
            .map_err(|error| WriteError::Spool(std::io::Error::other(error.to_string())))
    }
}
