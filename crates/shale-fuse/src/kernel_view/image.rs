//! The virtual EROFS image as a view: a directory with one file, whose bytes are the metadata in
//! memory and the contents of another view, asked for as they are read.

use super::layout::{DataFile, Layout};
use crate::view::{
    Attributes, Entry, MODE_DIRECTORY, MODE_FILE, ROOT, Seek, Totals, View, ViewError, XattrUse,
};
use std::sync::Arc;

/// The name of the file. Also how such a mount is recognised in the list of mounts.
pub(crate) const FILE_NAME: &str = "shale.erofs";
const FILE: u64 = 2;

/// The image.
pub(crate) struct VirtualImage {
    view: Arc<dyn View>,
    layout: Layout,
}

impl VirtualImage {
    pub(super) fn new(view: Arc<dyn View>, layout: Layout) -> Self {
        Self { view, layout }
    }

    /// What it is made of, for people.
    pub(crate) fn summary(&self) -> String {
        let layout = &self.layout;
        format!(
            "erofs over one file: {} inodes, {} KiB of metadata, {} contents",
            layout.inode_count,
            layout.metadata.len() >> 10,
            layout.files.len()
        )
    }

    /// Fills `buf` from the contents at `offset`, which lies behind the metadata.
    fn read_data(&self, mut offset: u64, mut buf: &mut [u8]) -> Result<(), ViewError> {
        let files = &self.layout.files;
        let mut next = files.partition_point(|file| file.start <= offset).saturating_sub(1);
        while !buf.is_empty() {
            let Some(&DataFile { start, len, inode }) = files.get(next) else {
                buf.fill(0);
                return Ok(());
            };
            let at = offset.saturating_sub(start);
            let end = files.get(next + 1).map_or(self.layout.len, |after| after.start);
            let step = buf.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            let (now, rest) = buf.split_at_mut(step);
            // Behind a content's end its last block is filled up with zeroes.
            let wanted =
                now.len().min(usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX));
            let (data, padding) = now.split_at_mut(wanted);
            if !data.is_empty() && self.view.read(inode, at, data)? != data.len() {
                return Err(ViewError::Damaged("a file is shorter than its size".into()));
            }
            padding.fill(0);
            offset += step as u64;
            buf = rest;
            next += 1;
        }
        Ok(())
    }
}

impl View for VirtualImage {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        let (mode, len) = match inode {
            ROOT => (MODE_DIRECTORY | 0o500, 0),
            FILE => (MODE_FILE | 0o400, self.layout.len),
            _ => return Err(ViewError::NotFound),
        };
        Ok(Attributes {
            inode,
            mode,
            link_count: 1 + u64::from(inode == ROOT),
            uid: 0,
            gid: 0,
            device: (0, 0),
            len,
            data_len: len,
            atime: Default::default(),
            mtime: Default::default(),
            ctime: Default::default(),
        })
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        match directory {
            ROOT if name == FILE_NAME.as_bytes() => self.attributes(FILE).map(Some),
            ROOT => Ok(None),
            _ => Err(ViewError::NotDirectory),
        }
    }

    fn parent(&self, _directory: u64) -> Result<u64, ViewError> {
        Ok(ROOT)
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        if directory != ROOT {
            return Err(ViewError::NotDirectory);
        }
        if first == 0 {
            each(Entry { name: FILE_NAME.as_bytes(), attributes: self.attributes(FILE)? });
        }
        Ok(())
    }

    fn link_target(&self, _inode: u64) -> Result<Vec<u8>, ViewError> {
        Err(ViewError::WrongKind)
    }

    fn xattr_names(&self, _inode: u64, _each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        Ok(())
    }

    fn xattr(&self, _inode: u64, _name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(None)
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        if inode != FILE {
            return Err(ViewError::WrongKind);
        }
        let left = self.layout.len.saturating_sub(offset);
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let metadata = &self.layout.metadata;
        // Bounded by the metadata's length, which is in memory.
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(metadata.len());
        let stored = &metadata[from..metadata.len().min(from.saturating_add(len))];
        buf[..stored.len()].copy_from_slice(stored);
        self.read_data(offset + stored.len() as u64, &mut buf[stored.len()..len])?;
        Ok(len)
    }

    fn seek(&self, _inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        let len = self.layout.len;
        Ok((offset < len).then_some(if what == Seek::Data { offset } else { len }))
    }

    fn totals(&self) -> Totals {
        Totals { len: self.layout.len, inode_count: 2 }
    }

    fn xattr_use(&self) -> XattrUse {
        XattrUse { any: false, acl: false, trusted: false }
    }

    fn rest(&self) {
        self.view.rest();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.view.counters()
    }
}
