//! Encodes the parts of the EROFS on-disk format that the kernel view uses: superblock, inodes,
//! directory blocks and attributes. Source: `Documentation/filesystems/erofs.rst` and
//! `fs/erofs/erofs_fs.h` of Linux; the format of version 5.4 with the chunk-based files of 5.15.
//!
//! Knows neither where a structure lies nor where its values come from.

/// Length of a block: of the file system, of directories and of the page cache.
pub(super) const BLOCK_LEN: u64 = 4096;
pub(super) const BLOCK_BITS: u8 = 12;
/// Inodes lie at multiples of this length, and are numbered in units of it.
pub(super) const SLOT_LEN: u64 = 32;
/// Length of an extended inode, which has 32-bit owners, a 64-bit size and nanoseconds; the compact
/// form has none of these.
pub(super) const INODE_LEN: u64 = 64;
/// The block at which inode numbers begin.
pub(super) const META_BLOCK: u32 = 1;
/// Offset of the superblock.
pub(super) const SUPERBLOCK_OFFSET: usize = 1024;
/// The block number of a chunk that is a hole.
pub(super) const NULL_BLOCK: u32 = u32::MAX;

const MAGIC: u32 = 0xE0F5_E1E2;
const INCOMPAT_CHUNKED_FILE: u32 = 0x4;
/// Length of a directory entry without its name.
pub(super) const DIRENT_LEN: usize = 12;
const XATTR_HEADER_LEN: usize = 12;
const XATTR_ENTRY_LEN: usize = 4;

/// Where the data of an inode lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataLayout {
    /// Consecutive blocks.
    Plain = 0,
    /// The last, partial block follows the inode.
    Inline = 2,
    /// A map of chunks follows the inode.
    Chunks = 4,
}

/// The fields of an inode.
pub(super) struct Inode {
    pub(super) layout: DataLayout,
    pub(super) mode: u16,
    pub(super) len: u64,
    /// First block, device number or chunk format.
    pub(super) place: u32,
    pub(super) number: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: (i64, u32),
    pub(super) link_count: u32,
    /// Bytes of attributes after the inode, header included; 0 or at least 12.
    pub(super) xattrs_len: usize,
}

impl Inode {
    pub(super) fn encode(&self) -> [u8; INODE_LEN as usize] {
        let mut out = [0; INODE_LEN as usize];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let format = 1 | (self.layout as u16) << 1;
        // 0 means none, 1 the header alone, and each further unit 4 bytes.
        let xattr_count = match self.xattrs_len.checked_sub(XATTR_HEADER_LEN) {
            None => 0,
            Some(len) => 1 + (len / 4) as u16,
        };
        put(0, &format.to_le_bytes());
        put(2, &xattr_count.to_le_bytes());
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

/// Encodes the superblock. `id` becomes the UUID of the file system, with which an overlay checks
/// that the files it copied up come from this file system.
pub(super) fn superblock(
    id: [u8; 16],
    root_slot: u16,
    inode_count: u64,
    block_count: u32,
    has_chunks: bool,
) -> [u8; 128] {
    let mut out = [0; 128];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC.to_le_bytes());
    put(12, &[BLOCK_BITS]);
    put(14, &root_slot.to_le_bytes());
    put(16, &inode_count.to_le_bytes());
    put(36, &block_count.to_le_bytes());
    put(40, &META_BLOCK.to_le_bytes());
    put(48, &uuid(id));
    put(64, b"shale");
    let incompat = if has_chunks { INCOMPAT_CHUNKED_FILE } else { 0 };
    put(80, &incompat.to_le_bytes());
    out
}

/// Version of the placement of inodes. Change it when the placement changes: the place of an inode
/// is its number, and UUID and number together identify the inode for ever.
const NUMBERING: u8 = 1;

/// Makes a UUID of version 8 (RFC 9562) from `id`; zeroes remain zeroes.
fn uuid(mut id: [u8; 16]) -> [u8; 16] {
    if id != [0; 16] {
        id[15] ^= NUMBERING;
        id[6] = id[6] & 0x0F | 0x80;
        id[8] = id[8] & 0x3F | 0x80;
    }
    id
}

/// Returns the chunk format of an inode with chunks of 2^`bits` bytes, mapped by block numbers of 4
/// bytes.
pub(super) fn chunk_format(bits: u8) -> u32 {
    u32::from(bits - BLOCK_BITS)
}

/// Packs a device number as the kernel does, with 12 bits of major and 20 of minor number; `None`
/// if it does not fit.
pub(super) fn device((major, minor): (u32, u32)) -> Option<u32> {
    let fits = major < 1 << 12 && minor < 1 << 20;
    fits.then_some((minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12))
}

/// A name in a directory.
pub(super) struct Dirent<'a> {
    pub(super) name: &'a [u8],
    pub(super) slot: u64,
    /// Type bits of the mode.
    pub(super) mode: u32,
}

/// Computes the length of a directory. Each block takes as many entries as fit.
#[derive(Default)]
pub(super) struct DirectorySize {
    full_block_count: u64,
    used: u64,
}

impl DirectorySize {
    pub(super) fn add(&mut self, name_len: usize) {
        let len = (DIRENT_LEN + name_len) as u64;
        if self.used + len > BLOCK_LEN {
            self.full_block_count += 1;
            self.used = 0;
        }
        self.used += len;
    }

    /// Returns the bytes of the directory; the last block is not padded.
    pub(super) fn len(&self) -> u64 {
        self.full_block_count * BLOCK_LEN + self.used
    }
}

/// Encodes the blocks of a directory. `entries` are in the order of their names and include `.` and
/// `..`. The result has the length that [`DirectorySize`] computes.
pub(super) fn directory<'n>(entries: impl Iterator<Item = Dirent<'n>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut entries = entries.peekable();
    let mut block = Vec::new();
    while entries.peek().is_some() {
        let mut len = 0;
        block.clear();
        block.extend(std::iter::from_fn(|| {
            entries.next_if(|entry| {
                len += DIRENT_LEN + entry.name.len();
                len as u64 <= BLOCK_LEN
            })
        }));
        let mut name_offset = block.len() * DIRENT_LEN;
        for entry in &block {
            out.extend_from_slice(&entry.slot.to_le_bytes());
            out.extend_from_slice(&(name_offset as u16).to_le_bytes());
            out.extend_from_slice(&[file_type(entry.mode), 0]);
            name_offset += entry.name.len();
        }
        block.iter().for_each(|entry| out.extend_from_slice(entry.name));
        if entries.peek().is_some() {
            out.resize(out.len().next_multiple_of(BLOCK_LEN as usize), 0);
        }
    }
    out
}

fn file_type(mode: u32) -> u8 {
    match mode & 0o170000 {
        0o100000 => 1,
        0o040000 => 2,
        0o020000 => 3,
        0o060000 => 4,
        0o010000 => 5,
        0o140000 => 6,
        0o120000 => 7,
        _ => 0,
    }
}

/// Encodes the attributes that follow an inode.
///
/// # Errors
/// The reason, in words, why EROFS cannot hold these attributes.
pub(super) fn xattrs<'a>(
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<Vec<u8>, String> {
    // Filter of names (not used), count of shared ones (none), reserved.
    let mut out = vec![0; XATTR_HEADER_LEN];
    for (name, value) in pairs {
        let shown = || name.escape_ascii();
        let Some((index, suffix)) = prefix(name) else {
            return Err(format!("EROFS has no place for the attribute {}", shown()));
        };
        let (Ok(suffix_len), Ok(value_len)) =
            (u8::try_from(suffix.len()), u16::try_from(value.len()))
        else {
            return Err(format!("the attribute {} is too long for EROFS", shown()));
        };
        out.extend_from_slice(&[suffix_len, index]);
        out.extend_from_slice(&value_len.to_le_bytes());
        out.extend_from_slice(suffix);
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(XATTR_ENTRY_LEN), 0);
    }
    if out.len() == XATTR_HEADER_LEN {
        return Ok(Vec::new());
    }
    // The count in the inode has 16 bits, for units of 4 bytes.
    if out.len() > XATTR_HEADER_LEN + 4 * (usize::from(u16::MAX) - 1) {
        return Err("the attributes of a file are too long for EROFS".into());
    }
    Ok(out)
}

fn prefix(name: &[u8]) -> Option<(u8, &[u8])> {
    const PREFIXES: [(u8, &[u8]); 3] = [(1, b"user."), (4, b"trusted."), (6, b"security.")];
    match name {
        b"system.posix_acl_access" => Some((2, b"")),
        b"system.posix_acl_default" => Some((3, b"")),
        _ => PREFIXES.iter().find_map(|(index, prefix)| {
            name.strip_prefix(*prefix).filter(|rest| !rest.is_empty()).map(|rest| (*index, rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_computed_length_and_no_entry_crosses_a_block() {
        for name_len in [1, 100, 255] {
            for count in [0usize, 1, 14, 15, 16, 40, 400] {
                let names: Vec<Vec<u8>> =
                    (0..count).map(|n| format!("{n:0name_len$}").into_bytes()).collect();
                let entries = names.iter().map(|name| Dirent { name, slot: 7, mode: 0o100644 });
                let mut size = DirectorySize::default();
                names.iter().for_each(|name| size.add(name.len()));
                let bytes = directory(entries);
                assert_eq!(bytes.len() as u64, size.len(), "{count} of {name_len}");
                let mut found = 0;
                for block in bytes.chunks(BLOCK_LEN as usize) {
                    let first = usize::from(u16::from_le_bytes([block[8], block[9]]));
                    found += first / DIRENT_LEN;
                }
                assert_eq!(found, count);
            }
        }
    }

    #[test]
    fn a_uuid_has_its_version_and_zeroes_remain_zeroes() {
        assert_eq!(uuid([0; 16]), [0; 16]);
        let found = uuid([0xFF; 16]);
        assert_eq!((found[6], found[8], found[15]), (0x8F, 0xBF, 0xFF ^ NUMBERING));
    }

    #[test]
    fn device_numbers_are_packed_as_the_kernel_does_or_refused() {
        assert_eq!(device((1, 3)), Some(0x103));
        assert_eq!(device((0xABC, 0x12345)), Some(0x123A_BC45));
        assert_eq!(device((1 << 12, 0)), None);
        assert_eq!(device((0, 1 << 20)), None);
    }

    #[test]
    fn attributes_that_erofs_cannot_hold_are_named() {
        let of = |name: &'static [u8], value: &'static [u8]| xattrs([(name, value)].into_iter());
        assert!(of(b"system.nfs4_acl", b"").unwrap_err().contains("nfs4_acl"));
        static LONG: [u8; 65536] = [1; 65536];
        assert!(of(b"user.x", &LONG).unwrap_err().contains("too long"));
        assert_eq!(xattrs([].into_iter()), Ok(Vec::new()));
        let bytes = of(b"user.ab", b"xyz").unwrap();
        assert_eq!(bytes[12..], [2, 1, 3, 0, b'a', b'b', b'x', b'y', b'z', 0, 0, 0]);
    }
}
