//! A regular file of the walked tree: opened when its turn comes, read at offsets, holes asked of
//! the kernel.
//!
//! Between the walk and then another file may have been renamed to its path, as editors and package
//! managers do. It is packed as it is now, but what was only asked while walking must still be true
//! of it: which names lead to the same inode, and the extended attributes.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, SeekFrom};
use rustix::io::Errno;

use super::beneath::{Beneath, retry};
use super::list::{STATX_MASK, link_id, metadata};
use super::xattrs::of_open;
use crate::Amend;
use crate::source::{ContentFile, LinkId, Metadata, OpenContent, Xattr};

/// A file that is not open yet: its path.
pub(super) struct FileContent {
    pub(super) beneath: Arc<Beneath>,
    pub(super) path: Box<[u8]>,
    pub(super) seen: Arc<Seen>,
}

/// What the walk saw of a file.
pub(super) struct Seen {
    pub(super) metadata: Metadata,
    /// Where it has further names.
    pub(super) link: Option<LinkId>,
    pub(super) xattrs: Arc<[Xattr]>,
    /// What was done to both.
    pub(super) amend: Option<Arc<dyn Amend>>,
}

impl OpenContent for FileContent {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        let fd = self.beneath.open_file(&self.path)?;
        Ok(Box::new(OpenFile { fd, seen: Arc::clone(&self.seen) }))
    }
}

struct OpenFile {
    fd: OwnedFd,
    seen: Arc<Seen>,
}

impl OpenFile {
    /// Whether what the walk found out is true of this file. The attributes are asked again only
    /// where something else differs: a file that replaces another has its own times.
    fn is_as_seen(&self, id: LinkId, metadata: &Metadata) -> io::Result<bool> {
        let seen = &self.seen;
        if let Some(link) = seen.link {
            return Ok(link == id);
        }
        let key = |m: &Metadata| (m.len, m.mtime, m.permissions, m.uid, m.gid);
        if key(&seen.metadata) == key(metadata) {
            return Ok(true);
        }
        let mut xattrs = of_open(self.fd.as_fd())?;
        if let Some(amend) = &seen.amend {
            xattrs.retain(|xattr| amend.keeps_xattr(&xattr.name));
        }
        Ok(*xattrs == *seen.xattrs)
    }
}

impl ContentFile for OpenFile {
    fn metadata(&mut self) -> io::Result<Metadata> {
        let statx = retry(|| rustix::fs::statx(&self.fd, "", AtFlags::EMPTY_PATH, STATX_MASK))?;
        let mut metadata = metadata(&statx).ok_or(Errno::INVAL)?;
        if let Some(amend) = &self.seen.amend {
            amend.amend(&mut metadata);
        }
        match self.is_as_seen(link_id(&statx), &metadata)? {
            true => Ok(metadata),
            false => Err(Errno::STALE.into()),
        }
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
