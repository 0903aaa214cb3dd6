//! Where bytes come from: positioned reads from many threads at once.
//!
//! A source promises that `read_at` fills the whole buffer or fails; it may fail once and succeed
//! later. It does not check what it reads and caches nothing; the image does both. Files are read
//! with `pread`, never mapped: a file that is cut while it is open gives an error and not a signal.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Positioned reads of something with a length.
#[allow(clippy::len_without_is_empty)] // An empty source is no special case to anyone.
pub trait Source: Send + Sync {
    /// Bytes of the source, as it was when it was opened.
    fn len(&self) -> u64;

    /// Fills `buf` from `offset` or fails; `UnexpectedEof` if the source ends before.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Asks for right bytes from `offset` on, where those that were read were found to be wrong, or
    /// could not be read. True if `buf` is filled with what is worth looking at again. Sources that
    /// cannot repair say no.
    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        let _ = (offset, buf);
        false
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buf)
    }

    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        (**self).heal(offset, buf)
    }
}

/// A file or block device, read with `pread`.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens `path` for reading. One open and one seek to learn the length.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(File::open(path)?)
    }

    /// Takes an open file. Its position is moved (to learn the length) and never used.
    pub fn new(mut file: File) -> io::Result<Self> {
        // The end by seeking, as a block device has no length in its attributes.
        let len = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, len })
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

/// Bytes in memory.
#[derive(Debug, Clone)]
pub struct MemorySource(Arc<[u8]>);

impl MemorySource {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }
}

impl Source for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(found);
        Ok(())
    }
}

/// A window of another source; offsets count from its start.
#[derive(Debug, Clone)]
pub struct SliceSource<S> {
    inner: S,
    start: u64,
    len: u64,
}

impl<S: Source> SliceSource<S> {
    /// The bytes from `start` on, at most `len` of them, less where `inner` ends before.
    pub fn new(inner: S, start: u64, len: u64) -> Self {
        let len = len.min(inner.len().saturating_sub(start));
        Self { inner, start, len }
    }
}

impl<S: Source> Source for SliceSource<S> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            // `start + len` is within the inner source's length, so this cannot overflow.
            Some(end) if end <= self.len => self.inner.read_at(self.start + offset, buf),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = offset.checked_add(buf.len() as u64);
        end.is_some_and(|end| end <= self.len) && self.inner.heal(self.start + offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_where_it_says() {
        let whole = MemorySource::new(*b"0123456789");
        let window = SliceSource::new(whole.clone(), 2, 5);
        let mut buf = [0; 3];
        window.read_at(2, &mut buf).expect("inside");
        assert_eq!(&buf, b"456");
        assert!(window.read_at(3, &mut buf).is_err());
        assert!(window.read_at(u64::MAX, &mut buf).is_err());
        assert_eq!(SliceSource::new(whole.clone(), 8, 5).len(), 2);
        assert_eq!(SliceSource::new(whole, 80, 5).len(), 0);
    }
}
