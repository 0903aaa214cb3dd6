//! A stream, encrypted.

use std::io::{self, Write};

use zeroize::Zeroizing;

use crate::error::Error;
use crate::header;
use crate::payload::{CHUNK_LEN, Chunks, SALT_LEN, SEALED_LEN};
use crate::recipient::Recipients;
use crate::secret::{FileKey, random};

/// Encrypts what is written to it. Holds one chunk in memory. Without [`Encrypting::finish`], the
/// file lacks its last chunk, and every reader says that it is truncated.
pub struct Encrypting<W> {
    out: W,
    key: FileKey,
    chunks: Chunks,
    number: u64,
    /// The bytes of the next chunk. It is sealed when more bytes come, or at the end.
    chunk: Zeroizing<Vec<u8>>,
}

impl<W: Write> Encrypting<W> {
    /// Writes the header of a file for `recipients` to `out`.
    ///
    /// # Errors
    /// No recipient is given, `out` cannot be written, or the system has no random numbers.
    pub fn new(mut out: W, recipients: &Recipients) -> Result<Self, Error> {
        if recipients.is_empty() {
            return Err(Error::Key("there is no recipient".to_owned()));
        }
        let key = FileKey::generate()?;
        let header = header::write(&recipients.wrap(&key)?, &key);
        let mut salt = [0; SALT_LEN];
        random(&mut salt)?;
        out.write_all(&header)?;
        out.write_all(&salt)?;
        let chunks = Chunks::new(&key, &salt);
        let chunk = Zeroizing::new(Vec::with_capacity(SEALED_LEN));
        Ok(Self { out, key, chunks, number: 0, chunk })
    }

    /// The key of the file, to read it again.
    pub fn key(&self) -> FileKey {
        self.key.clone()
    }

    /// Writes the last chunk, and returns the output. What `out` holds back is not flushed.
    ///
    /// # Errors
    /// `out` reports one.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(true)?;
        Ok(self.out)
    }

    fn seal(&mut self, is_last: bool) -> io::Result<()> {
        let tag = self.chunks.seal(self.number, is_last, &mut self.chunk);
        self.chunk.extend_from_slice(&tag);
        self.out.write_all(&self.chunk)?;
        self.number += 1;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for Encrypting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.chunk.len() == CHUNK_LEN {
            self.seal(false)?;
        }
        let len = bytes.len().min(CHUNK_LEN - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    /// Flushes the chunks that are sealed.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
