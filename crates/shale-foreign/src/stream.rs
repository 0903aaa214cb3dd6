//! An archive that is read once from front to back, as tar and cpio are: its plain bytes, and the
//! contents of its entries as parts of them.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shale_codec::Hasher;
use shale_model::SourceError;

use crate::ahead::Ahead;
use crate::compression::Compression;
use crate::error::ForeignError;

/// Bytes of the beginning that are read at once: the format shows in them, and the seed is made of
/// them.
const HEAD_LEN: usize = 1 << 20;

/// An archive whose beginning was read.
pub struct Input {
    /// What errors call it.
    pub(crate) name: Vec<u8>,
    /// The first plain bytes.
    pub(crate) head: Vec<u8>,
    rest: Ahead,
}

impl Input {
    /// Begins to read an archive, in a thread that reads ahead and decompresses. `name` is what
    /// errors call it.
    ///
    /// # Errors
    /// The beginning cannot be read or decompressed.
    pub fn open(
        name: &Path,
        stream: Box<dyn Read + Send>,
        compression: Option<Compression>,
    ) -> Result<Self, SourceError> {
        let stream = match compression {
            Some(compression) => compression.decoder(stream).map_err(|error| {
                use std::os::unix::ffi::OsStrExt;
                SourceError::Unreadable { path: name.as_os_str().as_bytes().to_vec(), error }
            })?,
            None => stream,
        };
        Self::of_plain(name, stream, compression.is_some())
    }

    /// Begins to read the plain bytes of an archive, in a thread that reads ahead.
    ///
    /// # Errors
    /// The beginning cannot be read.
    pub(crate) fn of_plain(
        name: &Path,
        plain: Box<dyn Read + Send>,
        was_compressed: bool,
    ) -> Result<Self, SourceError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let failed = |error| SourceError::Unreadable { path: name.clone(), error };
        let mut rest = Ahead::new(plain).map_err(failed)?;
        let mut head = Vec::new();
        let read = rest.by_ref().take(HEAD_LEN as u64).read_to_end(&mut head);
        let format = if was_compressed { "compressed archive" } else { "archive" };
        read.map_err(|error| unreadable(format, &error).into_source(&name))?;
        Ok(Self { name, head, rest })
    }

    /// What stands for the archive in the identity of an image. `more` are further bytes that stand
    /// for it.
    pub(crate) fn seed(&self, format: &str, more: &[u8]) -> [u8; 32] {
        let mut hasher = Hasher::new();
        hasher.update(format.as_bytes());
        hasher.update(&(self.head.len() as u64).to_le_bytes());
        hasher.update(&self.head);
        hasher.update(more);
        *hasher.finalize().as_bytes()
    }

    /// All plain bytes, from the beginning.
    pub(crate) fn into_stream(self) -> SharedStream {
        let input = io::Cursor::new(self.head).chain(self.rest);
        SharedStream(Arc::new(Mutex::new(Stream { input, offset: 0 })))
    }
}

/// The plain bytes, which an archive and the entry at hand read in turn.
#[derive(Clone)]
pub(crate) struct SharedStream(Arc<Mutex<Stream>>);

impl SharedStream {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The `len` bytes from `start` on, as the content of the entry at `path`.
    pub(crate) fn content(
        &self,
        format: &'static str,
        path: &[u8],
        start: u64,
        len: u64,
    ) -> Box<dyn Read + Send> {
        let (stream, path) = (self.clone(), path.to_vec());
        Box::new(Content { stream, format, path, at: start, end: start.saturating_add(len) })
    }
}

/// The plain bytes, and how many were taken.
pub(crate) struct Stream {
    input: io::Chain<io::Cursor<Vec<u8>>, Ahead>,
    pub(crate) offset: u64,
}

impl Stream {
    /// Goes on to `offset`, which is not before the bytes taken so far.
    pub(crate) fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let mut left = offset.saturating_sub(self.offset);
        let mut buffer = [0; 16 << 10];
        while left > 0 {
            let len = left.min(buffer.len() as u64) as usize;
            self.read_exact(&mut buffer[..len])?;
            left -= len as u64;
        }
        Ok(())
    }

    /// Some of the bytes that come next, none of them at the end. They are not taken.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    /// Fills `out` as far as there are bytes, and returns how far.
    pub(crate) fn read_up_to(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < out.len() {
            match self.read(&mut out[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(out)?;
        self.offset += len as u64;
        Ok(len)
    }
}

/// The content of one entry.
struct Content {
    stream: SharedStream,
    format: &'static str,
    path: Vec<u8>,
    /// Where it goes on. If the stream is at another place, the entry is over.
    at: u64,
    end: u64,
}

impl Read for Content {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = (out.len() as u64).min(self.end - self.at) as usize;
        if len == 0 {
            return Ok(0);
        }
        let mut stream = self.stream.lock();
        if stream.offset != self.at {
            return Err(io::Error::other("the archive was read on meanwhile"));
        }
        let read = match stream.read(&mut out[..len]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let len = read.map_err(|error| unreadable(self.format, &error).of(&self.path))?;
        self.at += len as u64;
        Ok(len)
    }
}

/// What the system or the decompressor said.
pub(crate) fn unreadable(format: &'static str, error: &io::Error) -> ForeignError {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => {
            "it ends too early: it was cut".to_owned()
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => error.to_string(),
        _ => format!("cannot read on: {error}"),
    };
    ForeignError::new(format, what)
}
