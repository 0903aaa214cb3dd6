//! An encrypted file as a source of its plain bytes.
//!
//! A read fetches and decrypts the chunks that it needs: those of a long read together, up to 1 MiB
//! at once. The chunks of short reads are kept, 4 MiB at most, as their neighbours are often read
//! next. Threads share nothing but these.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use quick_cache::sync::Cache;
use shale_read::ByteSource;

use crate::error::Error;
use crate::header::{ARMOR, Header, MAGIC};
use crate::identity::Identities;
use crate::payload::{CHUNK_LEN, Chunks, Layout, SALT_LEN, SEALED_LEN};
use crate::secret::{FileKey, TAG_LEN};

/// Chunks that are fetched and decrypted at once.
const RUN_MAX: u64 = 16;
/// Chunks that are kept.
const KEPT_MAX: usize = 64;

/// Returns true if a file is encrypted with age, in any version or form. One short read.
///
/// # Errors
/// The file cannot be read.
pub fn is_encrypted(source: &dyn ByteSource) -> io::Result<bool> {
    let len = source.len().min(ARMOR.len() as u64) as usize;
    let mut head = [0; ARMOR.len()];
    source.read_at(0, &mut head[..len])?;
    Ok(head[..len].starts_with(MAGIC) || head == *ARMOR)
}

/// An encrypted file, opened with a key.
pub struct Decrypted {
    file: Arc<dyn ByteSource>,
    layout: Layout,
    chunks: Chunks,
    /// Plain bytes of chunks, by number.
    kept: Cache<u64, Arc<[u8]>>,
}

impl Decrypted {
    /// Opens an encrypted file: reads its header and its last chunk, which proves that it is not
    /// truncated.
    ///
    /// # Errors
    /// It is not encrypted with age, no identity opens it, it is damaged there or truncated.
    pub fn open(file: Arc<dyn ByteSource>, identities: &Identities) -> Result<Self, Error> {
        let header = Header::read(&*file)?;
        let key = identities.open(&header)?;
        Self::new(file, &header, &key)
    }

    /// Opens an encrypted file with its own key, as the one who wrote it has it.
    ///
    /// # Errors
    /// As [`Decrypted::open`].
    pub fn with_key(file: Arc<dyn ByteSource>, key: &FileKey) -> Result<Self, Error> {
        let header = Header::read(&*file)?;
        header.check(key)?;
        Self::new(file, &header, key)
    }

    fn new(file: Arc<dyn ByteSource>, header: &Header, key: &FileKey) -> Result<Self, Error> {
        let layout = Layout::of(file.len(), header.len)?;
        let mut salt = [0; SALT_LEN];
        file.read_at(header.len, &mut salt)?;
        let chunks = Chunks::new(key, &salt);
        let opened = Self { file, layout, chunks, kept: Cache::new(KEPT_MAX) };
        opened.chunk(layout.chunks - 1)?;
        Ok(opened)
    }

    /// Returns the plain bytes of one chunk, and keeps them.
    fn chunk(&self, number: u64) -> Result<Arc<[u8]>, Error> {
        if let Some(kept) = self.kept.get(&number) {
            return Ok(kept);
        }
        let (at, end) = self.layout.sealed(number);
        let mut sealed = vec![0; (end - at) as usize];
        self.file.read_at(at, &mut sealed)?;
        let plain: Arc<[u8]> = self.decrypt(number, &mut sealed)?.into();
        self.kept.insert(number, Arc::clone(&plain));
        Ok(plain)
    }

    /// Decrypts one chunk in place.
    fn decrypt<'b>(&self, number: u64, sealed: &'b mut [u8]) -> Result<&'b [u8], Error> {
        let is_last = number + 1 == self.layout.chunks;
        if self.chunks.open(number, is_last, sealed) {
            return Ok(&sealed[..sealed.len() - TAG_LEN]);
        }
        let (at, end) = self.layout.sealed(number);
        Err(match (is_last, self.chunks.open(number, !is_last, sealed)) {
            (true, true) => Error::Truncated { len: end },
            (true, false) => Error::LastChunk { at, len: end - at },
            (false, true) => Error::Followed { end },
            (false, false) => {
                Error::Chunk { chunk: number + 1, chunks: self.layout.chunks, at, end }
            }
        })
    }

    /// Fills `buf` from the start of `chunk`, with as many whole chunks as fit, at most
    /// [`RUN_MAX`]. Returns how many bytes it filled. The chunks are not kept.
    fn fill(&self, chunk: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let (mut count, mut len) = (0, 0);
        while count < RUN_MAX
            && chunk + count < self.layout.chunks
            && len + self.layout.plain_len(chunk + count) <= buf.len()
        {
            len += self.layout.plain_len(chunk + count);
            count += 1;
        }
        let (at, _) = self.layout.sealed(chunk);
        let (_, end) = self.layout.sealed(chunk + count - 1);
        let mut sealed = vec![0; (end - at) as usize];
        self.file.read_at(at, &mut sealed)?;
        let mut to = buf;
        for (number, sealed) in (chunk..).zip(sealed.chunks_mut(SEALED_LEN)) {
            let plain = self.decrypt(number, sealed)?;
            let (here, rest) = to.split_at_mut(plain.len());
            here.copy_from_slice(plain);
            to = rest;
        }
        Ok(len)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.layout.len => {}
            _ => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (chunk, from) = (at / CHUNK_LEN as u64, (at % CHUNK_LEN as u64) as usize);
            let rest = &mut buf[done..];
            let is_whole = from == 0 && rest.len() >= self.layout.plain_len(chunk);
            done += match is_whole && self.kept.peek(&chunk).is_none() {
                true => self.fill(chunk, rest)?,
                false => {
                    let plain = self.chunk(chunk)?;
                    let len = rest.len().min(plain.len() - from);
                    rest[..len].copy_from_slice(&plain[from..from + len]);
                    len
                }
            };
        }
        Ok(())
    }

    /// The range of the file in which the plain bytes of `range` are.
    fn sealed(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if range.start >= range.end || range.end > self.layout.len {
            return None;
        }
        let (start, _) = self.layout.sealed(range.start / CHUNK_LEN as u64);
        let (_, end) = self.layout.sealed((range.end - 1) / CHUNK_LEN as u64);
        Some(start..end)
    }
}

impl ByteSource for Decrypted {
    fn len(&self) -> u64 {
        self.layout.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read(offset, buf).map_err(io::Error::from)
    }

    fn is_far(&self) -> bool {
        self.file.is_far()
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let sealed: Vec<_> = ranges.iter().filter_map(|range| self.sealed(range)).collect();
        self.file.will_need(&sealed);
    }

    /// Chunks that were decrypted are as they were written, so only the file can have better bytes
    /// for those that were not.
    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        let range = offset..offset.saturating_add(buf.len() as u64);
        let Some(sealed) = self.sealed(&range) else { return false };
        // In steps, as long ranges are rare here.
        let mut at = sealed.start;
        while at < sealed.end {
            let end = sealed.end.min(at + SEALED_LEN as u64);
            let mut bytes = vec![0; (end - at) as usize];
            if !self.file.read_again(at, &mut bytes) {
                return false;
            }
            at = end;
        }
        self.read(offset, buf).is_ok()
    }
}
