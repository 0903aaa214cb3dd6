//! One inode of SquashFS, basic or extended, typed and checked.

use shale_format::InodeKind;
use shale_format::inode::device_number;
use shale_format::limits::{FILE_LEN_MAX, LINK_TARGET_LEN_MAX};

use super::metadata::Image;
use crate::tree::le;

/// An inode.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) number: u32,
    pub(super) kind: InodeKind,
    pub(super) permissions: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: u32,
    pub(super) link_count: u32,
    pub(super) xattr_set: u32,
    pub(super) body: Body,
}

/// What differs by kind.
#[derive(Debug, Clone)]
pub(super) enum Body {
    File(FileBody),
    /// Place of the list, and its bytes plus 3.
    Directory {
        block: u64,
        offset: u64,
        len: u64,
    },
    Symlink(Vec<u8>),
    Device(u64),
    Other,
}

/// Where the content of a file is.
#[derive(Debug, Clone)]
pub(super) struct FileBody {
    pub(super) len: u64,
    pub(super) start: u64,
    /// Stored lengths of whole blocks; 0 for one of zeroes.
    pub(super) blocks: Vec<u32>,
    /// Number of the block of fragments that the tail is in, and where.
    pub(super) tail: Option<(u32, u32)>,
}

/// Blocks of one file: 2^43 bytes in blocks of 4 KiB would be 8 GiB of list.
const BLOCK_COUNT_MAX: u64 = 1 << 28;

impl Image {
    /// Reads the inode that `reference` leads to.
    pub(super) fn inode(&self, reference: u64) -> Result<Inode, String> {
        let mut place = self.inode_place(reference)?;
        let head = self.read(&mut place, 16)?;
        let field = |bytes: &[u8], at: usize, len: usize| le(&bytes[at..at + len]);
        let id = |at: usize| {
            let index = field(&head, at, 2) as usize;
            self.ids.get(index).copied().ok_or("an owner is beyond the table of owners")
        };
        let kind_number = field(&head, 0, 2);
        let mut link_count = 1;
        let mut xattr_set = u32::MAX;
        let (kind, body) = match kind_number {
            1 => {
                let b = self.read(&mut place, 16)?;
                link_count = field(&b, 4, 4) as u32;
                let (block, offset) = (field(&b, 0, 4), field(&b, 10, 2));
                let body = Body::Directory { block, offset, len: field(&b, 8, 2) };
                (InodeKind::Directory, body)
            }
            8 => {
                let b = self.read(&mut place, 24)?;
                link_count = field(&b, 0, 4) as u32;
                xattr_set = field(&b, 20, 4) as u32;
                let (block, offset) = (field(&b, 8, 4), field(&b, 18, 2));
                let body = Body::Directory { block, offset, len: field(&b, 4, 4) };
                (InodeKind::Directory, body)
            }
            2 => {
                let b = self.read(&mut place, 16)?;
                let tail = (field(&b, 4, 4) as u32, field(&b, 8, 4) as u32);
                let body = self.file(&mut place, field(&b, 12, 4), field(&b, 0, 4), tail)?;
                (InodeKind::File, Body::File(body))
            }
            9 => {
                let b = self.read(&mut place, 40)?;
                link_count = field(&b, 24, 4) as u32;
                xattr_set = field(&b, 36, 4) as u32;
                let tail = (field(&b, 28, 4) as u32, field(&b, 32, 4) as u32);
                let body = self.file(&mut place, field(&b, 8, 8), field(&b, 0, 8), tail)?;
                (InodeKind::File, Body::File(body))
            }
            3 | 10 => {
                let b = self.read(&mut place, 8)?;
                link_count = field(&b, 0, 4) as u32;
                let len = field(&b, 4, 4) as usize;
                if len > LINK_TARGET_LEN_MAX {
                    return Err(format!("a link target of {len} bytes"));
                }
                let target = self.read(&mut place, len)?;
                if kind_number == 10 {
                    xattr_set = le(&self.read(&mut place, 4)?) as u32;
                }
                (InodeKind::Symlink, Body::Symlink(target))
            }
            4 | 5 | 11 | 12 => {
                let b = self.read(&mut place, 8)?;
                link_count = field(&b, 0, 4) as u32;
                if kind_number > 7 {
                    xattr_set = le(&self.read(&mut place, 4)?) as u32;
                }
                let is_block = matches!(kind_number, 4 | 11);
                let kind = if is_block { InodeKind::BlockDevice } else { InodeKind::CharDevice };
                let device = field(&b, 4, 4) as u32;
                // As Linux packs it into 32 bits.
                let major = device >> 8 & 0xfff;
                let minor = device & 0xff | device >> 12 & 0xf_ff00;
                (kind, Body::Device(device_number(major, minor)))
            }
            6 | 7 | 13 | 14 => {
                link_count = le(&self.read(&mut place, 4)?) as u32;
                if kind_number > 7 {
                    xattr_set = le(&self.read(&mut place, 4)?) as u32;
                }
                let is_fifo = matches!(kind_number, 6 | 13);
                (if is_fifo { InodeKind::Fifo } else { InodeKind::Socket }, Body::Other)
            }
            other => return Err(format!("inodes of type {other} are not known")),
        };
        Ok(Inode {
            number: field(&head, 12, 4) as u32,
            kind,
            permissions: field(&head, 2, 2) as u32 & 0o7777,
            uid: id(4)?,
            gid: id(6)?,
            mtime: field(&head, 8, 4) as u32,
            link_count,
            xattr_set,
            body,
        })
    }

    fn file(
        &self,
        place: &mut super::metadata::MetadataCursor,
        len: u64,
        start: u64,
        tail: (u32, u32),
    ) -> Result<FileBody, String> {
        let block_len = self.superblock.block_len;
        if len > FILE_LEN_MAX {
            return Err(format!("a file of {len} bytes"));
        }
        let tail = (tail.0 != u32::MAX).then_some(tail);
        let block_count = match tail {
            Some(_) => len / block_len,
            None => len.div_ceil(block_len),
        };
        if block_count > BLOCK_COUNT_MAX {
            return Err(format!("a file of {block_count} blocks"));
        }
        // Read in steps: the count is only believed as far as there are bytes.
        let mut blocks = Vec::new();
        let mut left = block_count as usize;
        while left > 0 {
            let step = left.min(2048);
            let bytes = self.read(place, step * 4)?;
            blocks.extend(bytes.chunks_exact(4).map(|len| le(len) as u32));
            left -= step;
        }
        Ok(FileBody { len, start, blocks, tail })
    }
}
