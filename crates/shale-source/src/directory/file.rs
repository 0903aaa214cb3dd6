//! A regular file of the walked tree: opened when its turn comes, read at offsets. The kernel is
//! asked for its holes.
//!
//! After the walk another file may have been renamed to its path, as editors and package managers
//! do. The file is packed as it is now. But what was asked only during the walk must still be true:
//! which names share its inode, and its extended attributes.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, SeekFrom};
use rustix::io::Errno;

use crate::directory::list::{STATX_MASK, link_id, metadata};
use crate::directory::xattrs::of_open;
use shale_host::Beneath;
use shale_host::beneath::retry;
use shale_model::{Amend, ContentFile, LinkId, Metadata, OpenContent, Xattr};

/// A file that is not open yet.
pub(super) struct FileContent {
    pub(super) beneath: Arc<Beneath>,
    pub(super) path: Box<[u8]>,
    pub(super) seen: Arc<Seen>,
}

/// What the walk found out about a file.
pub(super) struct Seen {
    pub(super) metadata: Metadata,
    /// Identity of the inode, if it has further names.
    pub(super) link: Option<LinkId>,
    pub(super) xattrs: Arc<[Xattr]>,
    /// The changes that were made to metadata and attributes.
    pub(super) amend: Option<Arc<dyn Amend>>,
}

impl OpenContent for FileContent {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        let fd = self.beneath.file(&self.path)?;
        Ok(Box::new(OpenFile { fd, seen: Arc::clone(&self.seen) }))
    }
}

struct OpenFile {
    fd: OwnedFd,
    seen: Arc<Seen>,
}

impl OpenFile {
    /// Returns whether the results of the walk are true of this file. The attributes are read again
    /// only if something else differs: a file that replaces another has its own times.
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
            // The file system does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::SPIPE) => offset,
            Err(errno) => return Err(errno.into()),
        };
        let end = match retry(|| rustix::fs::seek(&self.fd, SeekFrom::Hole(start))) {
            // At or before the start only if the file changes right now; this is noticed later.
            Ok(end) if end > start => end.min(len),
            _ => len,
        };
        Ok(Some(start..end))
    }
}
