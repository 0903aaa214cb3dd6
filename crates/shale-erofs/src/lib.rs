//! Encodes what an EROFS image without compression is made of: superblock, inodes, blocks of
//! directories and attributes. Source: `Documentation/filesystems/erofs.rst` and
//! `fs/erofs/erofs_fs.h` of Linux; the format of version 5.4 with the chunk-based files of 5.15.
//!
//! Knows neither where a structure lies nor where its values come from.

mod directory; // blocks of names
mod xattrs; // attributes that follow an inode

pub use directory::{DIRENT_LEN, DirectorySize, Dirent, directory};
pub use xattrs::{Unheld, Xattrs};

/// Bytes of a block: of the file system, of directories and of the page cache.
pub const BLOCK_LEN: u64 = 4096;
/// The logarithm of [`BLOCK_LEN`] to base 2.
pub const BLOCK_BITS: u8 = 12;
/// Inodes lie at multiples of this length, and are numbered in units of it.
pub const SLOT_LEN: u64 = 32;
/// Bytes of an extended inode, which has 32-bit owners, a 64-bit size and nanoseconds; the compact
/// form has none of these.
pub const INODE_LEN: u64 = 64;
/// Offset of the superblock.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Bytes of the superblock.
pub const SUPERBLOCK_LEN: usize = 128;
/// First bytes of the superblock.
pub const MAGIC: [u8; 4] = 0xE0F5_E1E2_u32.to_le_bytes();
/// The block number of a chunk that is a hole.
pub const HOLE: u32 = u32::MAX;

const INCOMPAT_CHUNKED_FILE: u32 = 0x4;
const COMPAT_MTIME: u32 = 0x2;

/// Where the data of an inode lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLayout {
    /// In consecutive blocks.
    Plain = 0,
    /// The last block, which is not full, follows the inode.
    Inline = 2,
    /// A map of chunks follows the inode.
    Chunks = 4,
}

/// The fields of an inode.
#[derive(Debug, Clone)]
pub struct Inode {
    /// Where its data lies.
    pub layout: DataLayout,
    /// Type and permissions.
    pub mode: u16,
    /// Bytes of its data.
    pub len: u64,
    /// First block, device number ([`device`]) or chunk format ([`chunk_format`]).
    pub place: u32,
    /// Number for programs that tell inodes apart by 32 bits.
    pub number: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Number of names.
    pub link_count: u32,
    /// Bytes of [`Xattrs`] after the inode; 0 or at least 12.
    pub xattrs_len: usize,
}

impl Inode {
    /// Encodes the inode. Its attributes follow it.
    pub fn encode(&self) -> [u8; INODE_LEN as usize] {
        let mut out = [0; INODE_LEN as usize];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(1 | (self.layout as u16) << 1).to_le_bytes());
        put(2, &xattrs::unit_count(self.xattrs_len).to_le_bytes());
        put(4, &self.mode.to_le_bytes());
        put(8, &self.len.to_le_bytes());
        put(16, &self.place.to_le_bytes());
        put(20, &self.number.to_le_bytes());
        put(24, &self.uid.to_le_bytes());
        put(28, &self.gid.to_le_bytes());
        put(32, &self.mtime.0.to_le_bytes());
        put(40, &self.mtime.1.to_le_bytes());
        put(44, &self.link_count.to_le_bytes());
        out
    }
}

/// The fields of the superblock.
#[derive(Debug, Clone, Default)]
pub struct Superblock {
    /// The UUID of the file system, with which an overlay checks that the files it copied up come
    /// from this file system; zeroes for none.
    pub uuid: [u8; 16],
    /// Label.
    pub label: [u8; 16],
    /// Number of the inode of the root.
    pub root_slot: u16,
    /// Number of inodes.
    pub inode_count: u64,
    /// Number of blocks.
    pub block_count: u32,
    /// The block at which the numbers of inodes begin.
    pub meta_block: u32,
    /// Some inode has [`DataLayout::Chunks`].
    pub has_chunks: bool,
    /// The times of inodes are those of the last change of their bytes.
    pub has_mtime: bool,
}

impl Superblock {
    /// Encodes the superblock.
    pub fn encode(&self) -> [u8; SUPERBLOCK_LEN] {
        let mut out = [0; SUPERBLOCK_LEN];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &(if self.has_mtime { COMPAT_MTIME } else { 0 }).to_le_bytes());
        put(12, &[BLOCK_BITS]);
        put(14, &self.root_slot.to_le_bytes());
        put(16, &self.inode_count.to_le_bytes());
        put(36, &self.block_count.to_le_bytes());
        put(40, &self.meta_block.to_le_bytes());
        put(48, &self.uuid);
        put(64, &self.label);
        put(80, &(if self.has_chunks { INCOMPAT_CHUNKED_FILE } else { 0 }).to_le_bytes());
        out
    }
}

/// Makes a UUID of version 8 (RFC 9562) from `id`.
pub fn uuid(mut id: [u8; 16]) -> [u8; 16] {
    id[6] = id[6] & 0x0F | 0x80;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

/// Returns the chunk format of an inode with chunks of 2^`bits` bytes, mapped by block numbers of 4
/// bytes. `bits` is at least [`BLOCK_BITS`].
pub fn chunk_format(bits: u8) -> u32 {
    u32::from(bits - BLOCK_BITS)
}

/// Packs a device number as the kernel does, with 12 bits of major and 20 of minor number; `None`
/// if it does not fit.
pub fn device((major, minor): (u32, u32)) -> Option<u32> {
    let fits = major < 1 << 12 && minor < 1 << 20;
    fits.then_some((minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12))
}

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_packed_as_the_kernel_does_or_refused() {
        assert_eq!(device((1, 3)), Some(0x103));
        assert_eq!(device((0xABC, 0x12345)), Some(0x123A_BC45));
        assert_eq!(device((1 << 12, 0)), None);
        assert_eq!(device((0, 1 << 20)), None);
    }

    #[test]
    fn a_uuid_has_its_version() {
        let found = uuid([0xFF; 16]);
        assert_eq!((found[6], found[8], found[15]), (0x8F, 0xBF, 0xFF));
    }
}
