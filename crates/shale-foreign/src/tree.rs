//! What importers of whole images share: bytes at offsets, blocks decompressed once, and the walk
//! over their directories in an order that keeps what lies together.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ForeignError;

/// An archive that is read at offsets, from where it begins.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    start: u64,
    len: u64,
}

impl ImageFile {
    /// Returns the bytes of `file` from `start` on.
    ///
    /// # Errors
    /// The length of the file cannot be read.
    pub fn new(file: File, start: u64) -> io::Result<Self> {
        let len = file.metadata()?.len().saturating_sub(start);
        Ok(Self { file, start, len })
    }

    /// Bytes there are.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Exactly `len` bytes at `offset`; more than are there are refused before anything is
    /// allocated.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, String> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len);
        if end.is_none() {
            return Err(format!(
                "{len} bytes at byte {offset} lie beyond its end at {}: it was cut or is corrupt",
                self.len
            ));
        }
        let mut bytes = vec![0; len as usize];
        self.read_at(offset, &mut bytes)
            .map_err(|error| format!("cannot read at byte {offset}: {error}"))?;
        Ok(bytes)
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// Of the system, or [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, self.start.saturating_add(offset))
    }
}

/// A part of an archive, read from its beginning to its end.
pub(crate) struct FileRange {
    file: Arc<ImageFile>,
    at: u64,
    end: u64,
}

impl FileRange {
    pub(crate) fn new(file: &Arc<ImageFile>, range: Range<u64>) -> Self {
        Self { file: Arc::clone(file), at: range.start, end: range.end }
    }
}

impl Read for FileRange {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = (self.end - self.at).min(out.len() as u64);
        self.file.read_at(self.at, &mut out[..len as usize])?;
        self.at += len;
        Ok(len as usize)
    }
}

/// The bytes of an archive for a library that seeks.
pub(crate) struct Seekable {
    file: Arc<ImageFile>,
    at: u64,
}

impl Seekable {
    pub(crate) fn new(file: &Arc<ImageFile>) -> Self {
        Self { file: Arc::clone(file), at: 0 }
    }
}

impl Read for Seekable {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let end = self.file.len();
        let len = FileRange::new(&self.file, self.at.min(end)..end).read(out)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl io::Seek for Seekable {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let to = match to {
            io::SeekFrom::Start(at) => Some(at),
            io::SeekFrom::Current(by) => self.at.checked_add_signed(by),
            io::SeekFrom::End(by) => self.file.len().checked_add_signed(by),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// What stands for an archive of this format in the identity of an image made of it. `samples`
/// are bytes that stand for the file.
pub(crate) fn seed_of(format: &str, samples: &[u8]) -> [u8; 32] {
    *shale_codec::hash(&[format.as_bytes(), samples].concat()).as_bytes()
}

/// Decompressed blocks by number, the last used few.
pub(crate) struct Blocks {
    held: Mutex<Held>,
    bytes_max: usize,
}

#[derive(Default)]
struct Held {
    blocks: HashMap<u64, Arc<Vec<u8>>>,
    /// The longest unused first.
    order: VecDeque<u64>,
    bytes: usize,
}

impl Blocks {
    /// Holds about this many bytes, and at least one block.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { held: Mutex::default(), bytes_max }
    }

    /// The block with this key, made by `make` if it is not held.
    pub(crate) fn get(
        &self,
        key: u64,
        make: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Result<Arc<Vec<u8>>, String> {
        let lock = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut held = lock();
            if let Some(block) = held.blocks.get(&key).map(Arc::clone) {
                if held.order.back() != Some(&key) {
                    held.order.retain(|&other| other != key);
                    held.order.push_back(key);
                }
                return Ok(block);
            }
        }
        let block = Arc::new(make()?);
        let mut held = lock();
        if held.blocks.insert(key, Arc::clone(&block)).is_none() {
            held.order.push_back(key);
            held.bytes += block.len();
        }
        while held.bytes > self.bytes_max && held.order.len() > 1 {
            let Some(oldest) = held.order.pop_front() else { break };
            if let Some(block) = held.blocks.remove(&oldest) {
                held.bytes -= block.len();
            }
        }
        Ok(block)
    }
}

/// Pieces of a file that are made one after the other and read as a stream.
pub(crate) struct Pieces<F> {
    pub(crate) next: F,
    pub(crate) current: Vec<u8>,
    pub(crate) at: usize,
}

impl<F: FnMut() -> Result<Option<Vec<u8>>, ForeignError>> Pieces<F> {
    pub(crate) fn new(next: F) -> Self {
        Self { next, current: Vec::new(), at: 0 }
    }
}

impl<F: FnMut() -> Result<Option<Vec<u8>>, ForeignError>> Read for Pieces<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            match (self.next)()? {
                Some(piece) => (self.current, self.at) = (piece, 0),
                None => return Ok(0),
            }
        }
        let len = out.len().min(self.current.len() - self.at);
        out[..len].copy_from_slice(&self.current[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// A little-endian number of up to 8 bytes.
pub(crate) fn le(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
