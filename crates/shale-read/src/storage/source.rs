//! Byte sources: positioned reads from many threads at once.
//!
//! A source fills the whole buffer or fails; it may fail once and succeed later. It neither checks
//! nor caches what it reads; the image does both. Files are read with `pread` and never mapped: a
//! file that is truncated while it is open causes an error, not a signal.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Positioned reads of something with a length.
///
/// ```
/// use shale_read::ByteSource;
/// use std::io;
///
/// /// A source that counts nothing, caches nothing and is always zero.
/// struct Zeroes(u64);
///
/// impl ByteSource for Zeroes {
///     fn len(&self) -> u64 {
///         self.0
///     }
///
///     fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
///         match offset.checked_add(buf.len() as u64) {
///             Some(end) if end <= self.0 => buf.fill(0),
///             _ => return Err(io::ErrorKind::UnexpectedEof.into()),
///         }
///         Ok(())
///     }
/// }
/// ```
#[allow(clippy::len_without_is_empty)] // No caller treats an empty source differently.
pub trait ByteSource: Send + Sync {
    /// Length of the source in bytes, as it was when it was opened.
    fn len(&self) -> u64;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the source ends before; otherwise whatever the medium reports.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Repairs the bytes from `offset` on, after a read of them failed or returned wrong bytes.
    /// Returns true if `buf` is filled with bytes worth verifying again. The default cannot repair
    /// and returns false.
    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        let _ = (offset, buf);
        false
    }

    /// True if a read costs so much, whatever its length, that it pays to say beforehand what will
    /// be read. The default is false, and [`ByteSource::will_need`] is then never called.
    fn is_far(&self) -> bool {
        false
    }

    /// Says that `ranges` will be read soon, so that the source can fetch them together. Returns at
    /// once; whatever fails is reported by the reads. The default does nothing.
    fn will_need(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Fills `buf` from `offset` again from where the bytes come from, past every copy, after wrong
    /// bytes were read. Returns true if `buf` is worth verifying again. The default keeps no copies
    /// and returns false.
    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        let _ = (offset, buf);
        false
    }

    /// Bytes at the start of the source that are an image of their own: the base of a thin image.
    /// A state that ends there is not the image of this source. The default is 0.
    fn base_len(&self) -> u64 {
        0
    }
}

impl<S: ByteSource + ?Sized> ByteSource for Arc<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buf)
    }

    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        (**self).heal(offset, buf)
    }

    fn is_far(&self) -> bool {
        (**self).is_far()
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        (**self).will_need(ranges);
    }

    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        (**self).read_again(offset, buf)
    }

    fn base_len(&self) -> u64 {
        (**self).base_len()
    }
}

/// A file or block device, read with `pread`.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens the file or block device at `path` for reading.
    ///
    /// # Errors
    /// It cannot be opened, is a directory, or cannot be sought.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Self::new(file)
    }

    /// Takes an open file. Moves its position once, to learn the length, and never uses it.
    ///
    /// # Errors
    /// The file cannot be sought, as a pipe.
    pub fn new(mut file: File) -> io::Result<Self> {
        // Seeking finds the end of a block device too, whose attributes have no length.
        let len = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, len })
    }
}

impl ByteSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

/// A source of bytes in memory.
#[derive(Debug, Clone)]
pub struct MemorySource(Arc<[u8]>);

impl MemorySource {
    /// A source of `bytes`.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }
}

impl ByteSource for MemorySource {
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

impl<S: ByteSource> SliceSource<S> {
    /// The bytes of `inner` from `start` on: `len` of them, or fewer if it ends before.
    pub fn new(inner: S, start: u64, len: u64) -> Self {
        let len = len.min(inner.len().saturating_sub(start));
        Self { inner, start, len }
    }
}

impl<S: ByteSource> ByteSource for SliceSource<S> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            // `start + len` is within the length of `inner`, so this cannot overflow.
            Some(end) if end <= self.len => self.inner.read_at(self.start + offset, buf),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = offset.checked_add(buf.len() as u64);
        end.is_some_and(|end| end <= self.len) && self.inner.heal(self.start + offset, buf)
    }

    fn is_far(&self) -> bool {
        self.inner.is_far()
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let inside = ranges.iter().filter(|range| range.end <= self.len);
        let moved = inside.map(|range| self.start + range.start..self.start + range.end);
        self.inner.will_need(&moved.collect::<Vec<_>>());
    }

    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = offset.checked_add(buf.len() as u64);
        end.is_some_and(|end| end <= self.len) && self.inner.read_again(self.start + offset, buf)
    }

    fn base_len(&self) -> u64 {
        self.inner.base_len().saturating_sub(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_where_it_claims() {
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
