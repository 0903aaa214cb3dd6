//! The virtual EROFS image as a view of one file. Its bytes are the metadata, which is in memory,
//! and the contents of another view, which are read when they are asked for.

use super::layout::{DataFile, Layout};
use super::one_file::{Bytes, OneFile};
use crate::mount_table::KERNEL_VIEW_FILE;
use crate::view::{View, ViewError};
use std::sync::Arc;

/// The virtual image.
pub(super) type VirtualImage = OneFile<Erofs>;

/// The bytes of the virtual image.
pub(super) struct Erofs {
    view: Arc<dyn View>,
    layout: Layout,
}

impl VirtualImage {
    pub(super) fn new(view: Arc<dyn View>, layout: Layout) -> Self {
        Self(Erofs { view, layout })
    }

    /// Describes the image in a few words.
    pub(super) fn summary(&self) -> String {
        let layout = &self.0.layout;
        format!(
            "erofs over one file: {} inodes, {} KiB of metadata, {} contents",
            layout.inode_count,
            layout.metadata.len() >> 10,
            layout.files.len()
        )
    }
}

impl Erofs {
    /// Fills `buf` from the contents at `offset`, which lies after the metadata.
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
            // The last block of a content is padded with zeroes.
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

impl Bytes for Erofs {
    const NAME: &'static str = KERNEL_VIEW_FILE;

    fn len(&self) -> u64 {
        self.layout.len
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        let left = self.layout.len.saturating_sub(offset);
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let metadata = &self.layout.metadata;
        // Bounded by the length of the metadata in memory.
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(metadata.len());
        let stored = &metadata[from..metadata.len().min(from.saturating_add(len))];
        buf[..stored.len()].copy_from_slice(stored);
        self.read_data(offset + stored.len() as u64, &mut buf[stored.len()..len])?;
        Ok(len)
    }

    fn rest(&self) {
        self.view.rest();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.view.counters()
    }
}
