//! A regular file of the walked tree: opened when its turn comes, read at offsets, holes asked of
//! the kernel.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, SeekFrom};
use rustix::io::Errno;

use super::beneath::{Beneath, retry};
use super::list::{STATX_MASK, metadata};
use crate::Amend;
use crate::source::{ContentFile, Metadata, OpenContent};

/// A file that is not open yet: its path.
pub(super) struct FileContent {
    pub(super) beneath: Arc<Beneath>,
    pub(super) path: Box<[u8]>,
    pub(super) amend: Option<Arc<dyn Amend>>,
}

impl OpenContent for FileContent {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        let fd = self.beneath.open_file(&self.path)?;
        Ok(Box::new(OpenFile { fd, amend: self.amend.clone() }))
    }
}

struct OpenFile {
    fd: OwnedFd,
    amend: Option<Arc<dyn Amend>>,
}

impl ContentFile for OpenFile {
    fn metadata(&mut self) -> io::Result<Metadata> {
        let statx = retry(|| rustix::fs::statx(&self.fd, "", AtFlags::EMPTY_PATH, STATX_MASK))?;
        let mut metadata = metadata(&statx).ok_or(Errno::INVAL)?;
        if let Some(amend) = &self.amend {
            amend.amend(&mut metadata);
        }
        Ok(metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        Ok(retry(|| rustix::io::pread(&self.fd, &mut *out, offset))?)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= len {
            return Ok(None);
        }
        let start = match retry(|| rustix::fs::seek(&self.fd, SeekFrom::Data(offset))) {
            Ok(start) if start < len => start,
            Ok(_) | Err(Errno::NXIO) => return Ok(None),
            // A file system that does not know holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::SPIPE) => offset,
            Err(errno) => return Err(errno.into()),
        };
        let end = match retry(|| rustix::fs::seek(&self.fd, SeekFrom::Hole(start))) {
            // At or before the start only if the file changes just now; that is seen later.
            Ok(end) if end > start => end.min(len),
            _ => len,
        };
        Ok(Some(start..end))
    }
}
