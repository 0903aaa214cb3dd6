//! What an image begins with, and which images cannot be read.

use crate::tree::{ImageFile, le};

/// Where the superblock begins, and its first bytes.
pub(crate) const MAGIC_OFFSET: usize = shale_erofs::SUPERBLOCK_OFFSET as usize;
pub(crate) const MAGIC: &[u8] = &shale_erofs::MAGIC;
const LEN: u64 = shale_erofs::SUPERBLOCK_LEN as u64;

/// Compressed data end at the end of their blocks.
pub(super) const ZERO_PADDING: u32 = 0x1;
/// There are settings of compressors, or clusters of several blocks.
const COMPRESSION_SETTINGS: u32 = 0x2;
const CHUNKS: u32 = 0x4;
/// A table of other devices, or a second compressor; which of them depends on `extra_devices`.
const DEVICES: u32 = 0x8;
/// The last piece of a file lies beside its inode.
const INLINE_TAIL: u32 = 0x10;
/// Tails of files are packed together, or pieces are shared.
const FRAGMENTS: u32 = 0x20;
const LONG_PREFIXES: u32 = 0x40;
const KNOWN: u32 = ZERO_PADDING
    | COMPRESSION_SETTINGS
    | CHUNKS
    | DEVICES
    | INLINE_TAIL
    | FRAGMENTS
    | LONG_PREFIXES;
/// Attributes whose names begin with a prefix of a table.
const PREFIX_COUNT_MAX: u64 = 128;

/// The superblock.
#[derive(Debug)]
pub(super) struct Superblock {
    pub(super) block_log2: u32,
    pub(super) root: u64,
    pub(super) inode_count: u64,
    pub(super) build_time: (i64, u32),
    metadata_block: u64,
    xattr_block: u64,
    pub(super) incompatible: u32,
    pub(super) directory_block_log2: u32,
    pub(super) packed: u64,
    /// Where the table of prefixes begins, and how many it has.
    pub(super) prefixes: (u64, u64),
}

impl Superblock {
    /// Reads and checks it.
    ///
    /// # Errors
    /// Says what is wrong or not supported.
    pub(super) fn read(file: &ImageFile) -> Result<Self, String> {
        let bytes = file.read(MAGIC_OFFSET as u64, LEN)?;
        let field = |at: usize, len: usize| le(&bytes[at..at + len]);
        let block_log2 = field(12, 1) as u32;
        let directory_block_log2 = block_log2 + field(90, 1) as u32;
        if !(9..=16).contains(&block_log2) || directory_block_log2 > 16 {
            return Err(format!("its blocks have 2^{block_log2} bytes"));
        }
        let incompatible = field(80, 4) as u32;
        if incompatible & !KNOWN != 0 {
            return Err(format!(
                "it uses features of a later version ({:#x}), which are not supported; mount it or \
                 unpack it with fsck.erofs --extract, and pack the files",
                incompatible & !KNOWN
            ));
        }
        if field(86, 2) != 0 {
            return Err("a part of its data is in other files (blob devices), which is not \
                        supported; mount it with all of them, and pack the files"
                .to_owned());
        }
        let prefix_count = field(91, 1);
        if prefix_count > PREFIX_COUNT_MAX {
            return Err(format!("a table of {prefix_count} prefixes"));
        }
        Ok(Self {
            block_log2,
            root: field(14, 2),
            inode_count: field(16, 8),
            build_time: (field(24, 8).cast_signed(), field(32, 4) as u32),
            metadata_block: field(40, 4),
            xattr_block: field(44, 4),
            incompatible,
            directory_block_log2,
            packed: field(96, 8),
            prefixes: (field(92, 4) * 4, prefix_count),
        })
    }

    pub(super) fn block_len(&self) -> u64 {
        1 << self.block_log2
    }

    /// Where an inode is.
    pub(super) fn inode_at(&self, number: u64) -> Result<u64, String> {
        let slots = number.checked_mul(shale_erofs::SLOT_LEN);
        let at = slots.and_then(|at| at.checked_add(self.metadata_block << self.block_log2));
        at.ok_or_else(|| format!("the number {number} of an inode"))
    }

    /// Where a shared attribute is.
    pub(super) fn shared_xattr_at(&self, number: u64) -> u64 {
        (self.xattr_block << self.block_log2) + number * 4
    }

    /// Returns true if names of attributes may begin with a prefix of the table.
    pub(super) fn has_long_prefixes(&self) -> bool {
        self.incompatible & LONG_PREFIXES != 0
    }

    /// Returns true if tails of files may lie in the packed inode.
    pub(super) fn has_fragments(&self) -> bool {
        self.incompatible & FRAGMENTS != 0 && self.packed != 0
    }
}
