//! Encodes what an EROFS image without compression is made of: superblock, inodes, blocks of
//! directories and attributes. Source: `fs/erofs/erofs_fs.h` of Linux; the format of version 5.4
//! with the chunk-based files of 5.15.
//!
//! Knows neither where a structure lies nor where its values come from.

use shale_model::Xattr;

use super::superblock::MAGIC;

/// Bytes of a block, of the file system and of directories.
pub(super) const BLOCK_LEN: u64 = 4096;
pub(super) const BLOCK_LOG2: u32 = 12;
/// Inodes lie at multiples of this, and are numbered in units of it.
pub(super) const SLOT_LEN: u64 = 32;
/// Bytes of an extended inode. The compact form has no times, and owners of 16 bits.
pub(super) const INODE_LEN: u64 = 64;
/// Where the superblock ends; the inode of the root follows it.
pub(super) const SUPERBLOCK_END: u64 = 1024 + SUPERBLOCK_LEN as u64;
/// The number of a block that is a hole.
pub(super) const HOLE: u32 = u32::MAX;

const SUPERBLOCK_LEN: usize = 128;
/// Times of inodes are those of the last change of their bytes.
const HAS_MTIME: u32 = 0x2;
const HAS_CHUNKS: u32 = 0x4;
/// Bytes of an entry of a directory without its name.
const DIRENT_LEN: u64 = 12;
const XATTRS_HEAD_LEN: usize = 12;
const XATTR_UNIT: usize = 4;
/// The count of units in an inode has 16 bits; the first one stands for the head.
const XATTRS_LEN_MAX: usize = XATTRS_HEAD_LEN + XATTR_UNIT * (u16::MAX as usize - 1);

/// Where the bytes of an inode lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In blocks that follow each other.
    Plain = 0,
    /// The last block, which is not full, follows the inode.
    Inline = 2,
    /// A map of chunks follows the inode.
    Chunks = 4,
}

/// The fields of an inode that do not depend on where its bytes lie.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) mode: u16,
    pub(super) owner: (u32, u32),
    pub(super) mtime: (i64, u32),
    pub(super) link_count: u32,
    /// Number for programs that tell inodes apart by 32 bits.
    pub(super) serial: u32,
    /// Encoded attributes, which follow the inode.
    pub(super) xattrs: Vec<u8>,
}

impl Head {
    /// Bytes of the inode with its attributes.
    pub(super) fn len(&self) -> u64 {
        INODE_LEN + self.xattrs.len() as u64
    }

    /// Encodes the inode with its attributes. `place` is a block, a device or a form of chunks.
    pub(super) fn encode(&self, layout: Layout, len: u64, place: u32) -> Vec<u8> {
        let mut out = vec![0; INODE_LEN as usize];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let xattr_count = match self.xattrs.len().checked_sub(XATTRS_HEAD_LEN) {
            None => 0,
            Some(len) => 1 + (len / XATTR_UNIT) as u16,
        };
        put(0, &(1 | (layout as u16) << 1).to_le_bytes());
        put(2, &xattr_count.to_le_bytes());
        put(4, &self.mode.to_le_bytes());
        put(8, &len.to_le_bytes());
        put(16, &place.to_le_bytes());
        put(20, &self.serial.to_le_bytes());
        put(24, &self.owner.0.to_le_bytes());
        put(28, &self.owner.1.to_le_bytes());
        put(32, &self.mtime.0.to_le_bytes());
        put(40, &self.mtime.1.to_le_bytes());
        put(44, &self.link_count.to_le_bytes());
        out.extend_from_slice(&self.xattrs);
        out
    }
}

/// Encodes the superblock. `id` becomes the UUID of the file system.
pub(super) fn superblock(
    id: [u8; 16],
    root_slot: u16,
    inode_count: u64,
    block_count: u32,
    has_chunks: bool,
) -> [u8; SUPERBLOCK_LEN] {
    let mut out = [0; SUPERBLOCK_LEN];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    // A UUID of version 8 (RFC 9562).
    let mut uuid = id;
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    put(0, MAGIC);
    put(8, &HAS_MTIME.to_le_bytes());
    put(12, &[BLOCK_LOG2 as u8]);
    put(14, &root_slot.to_le_bytes());
    put(16, &inode_count.to_le_bytes());
    put(36, &block_count.to_le_bytes());
    // Inodes are numbered from the beginning of the image.
    put(40, &0u32.to_le_bytes());
    put(48, &uuid);
    put(80, &(if has_chunks { HAS_CHUNKS } else { 0 }).to_le_bytes());
    out
}

/// Packs a device number as Linux does, with 12 and 20 bits; `None` if it does not fit.
pub(super) fn device((major, minor): (u32, u32)) -> Option<u32> {
    let fits = major < 1 << 12 && minor < 1 << 20;
    fits.then_some(minor & 0xff | major << 8 | (minor & !0xff) << 12)
}

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirent<'a> {
    pub(super) name: &'a [u8],
    pub(super) slot: u64,
    pub(super) file_type: u8,
}

/// The type of an entry of a directory, by the mode of its inode.
pub(super) fn file_type(mode: u16) -> u8 {
    match mode & 0o170_000 {
        0o100_000 => 1,
        0o040_000 => 2,
        0o020_000 => 3,
        0o060_000 => 4,
        0o010_000 => 5,
        0o140_000 => 6,
        0o120_000 => 7,
        _ => 0,
    }
}

/// Bytes of a directory with names of these lengths. The last block is not padded.
pub(super) fn directory_len(name_lens: impl Iterator<Item = usize>) -> u64 {
    let (mut full_count, mut used) = (0, 0);
    for name_len in name_lens {
        let len = DIRENT_LEN + name_len as u64;
        if used + len > BLOCK_LEN {
            full_count += 1;
            used = 0;
        }
        used += len;
    }
    full_count * BLOCK_LEN + used
}

/// Encodes a directory whose entries, `.` and `..` among them, are in the order of their names. The
/// result has the length that [`directory_len`] gives.
pub(super) fn directory<'n>(entries: impl Iterator<Item = Dirent<'n>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut entries = entries.peekable();
    while entries.peek().is_some() {
        let mut len = 0;
        let fits = |entry: &Dirent<'_>| {
            len += DIRENT_LEN + entry.name.len() as u64;
            len <= BLOCK_LEN
        };
        let mut fits = fits;
        let block: Vec<Dirent<'_>> =
            std::iter::from_fn(|| entries.next_if(|entry| fits(entry))).collect();
        let mut name_at = block.len() * DIRENT_LEN as usize;
        for entry in &block {
            out.extend_from_slice(&entry.slot.to_le_bytes());
            out.extend_from_slice(&(name_at as u16).to_le_bytes());
            out.extend_from_slice(&[entry.file_type, 0]);
            name_at += entry.name.len();
        }
        block.iter().for_each(|entry| out.extend_from_slice(entry.name));
        if entries.peek().is_some() {
            out.resize(out.len().next_multiple_of(BLOCK_LEN as usize), 0);
        }
    }
    out
}

/// Encodes the attributes that follow an inode, and says what of them EROFS cannot hold.
pub(super) fn xattrs(xattrs: &[Xattr], lost: &mut Vec<String>) -> Vec<u8> {
    // A filter of names, which is not used; the number of shared ones, none; reserved.
    let mut out = vec![0; XATTRS_HEAD_LEN];
    for Xattr { name, value } in xattrs {
        let mut lose = |why: &str| {
            lost.push(format!("without its attribute {}: {why}", name.escape_ascii()));
        };
        let Some((prefix, rest)) = prefix(name) else {
            lose("EROFS has user., trusted., security. and access control lists");
            continue;
        };
        let (Ok(rest_len), Ok(value_len)) = (u8::try_from(rest.len()), u16::try_from(value.len()))
        else {
            lose("EROFS holds values of up to 65535 bytes");
            continue;
        };
        let start = out.len();
        out.extend_from_slice(&[rest_len, prefix]);
        out.extend_from_slice(&value_len.to_le_bytes());
        out.extend_from_slice(rest);
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(XATTR_UNIT), 0);
        if out.len() > XATTRS_LEN_MAX {
            out.truncate(start);
            lose("EROFS holds attributes of 256 KiB for a file");
        }
    }
    if out.len() == XATTRS_HEAD_LEN {
        out.clear();
    }
    out
}

/// The number of the prefix of a name, and what follows it.
fn prefix(name: &[u8]) -> Option<(u8, &[u8])> {
    const PREFIXES: [(u8, &[u8]); 3] = [(1, b"user."), (4, b"trusted."), (6, b"security.")];
    match name {
        b"system.posix_acl_access" => Some((2, b"")),
        b"system.posix_acl_default" => Some((3, b"")),
        _ => PREFIXES.iter().find_map(|(number, prefix)| {
            name.strip_prefix(*prefix).filter(|rest| !rest.is_empty()).map(|rest| (*number, rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_length_that_was_computed() {
        for name_len in [1, 100, 255] {
            for count in [1usize, 14, 15, 16, 40, 400] {
                let names: Vec<Vec<u8>> = (0..count)
                    .map(|n| [vec![b'n'; name_len], n.to_string().into_bytes()].concat())
                    .map(|name| name[name.len() - name_len.min(name.len())..].to_vec())
                    .collect();
                let entries = names.iter().map(|name| Dirent { name, slot: 7, file_type: 1 });
                let len = directory(entries).len() as u64;
                assert_eq!(len, directory_len(names.iter().map(Vec::len)), "{name_len} {count}");
            }
        }
    }

    #[test]
    fn attributes_that_do_not_fit_are_named() {
        let xattr = |name: &str, len| Xattr { name: name.as_bytes().to_vec(), value: vec![7; len] };
        let mut lost = Vec::new();
        let set = [
            xattr("user.a", 65_535),
            xattr("user.b", 65_535),
            xattr("user.c", 65_535),
            xattr("user.d", 65_535),
            xattr("user.e", 1),
            xattr("user.f", 65_536),
            xattr("system.nfs4_acl", 1),
        ];
        let bytes = xattrs(&set, &mut lost);
        assert!(bytes.len() <= XATTRS_LEN_MAX && bytes.len().is_multiple_of(4));
        assert_eq!(lost.len(), 3, "{lost:?}");
        assert!(lost[0].contains("user.d") && lost[0].contains("256 KiB"), "{lost:?}");
        assert!(lost[1].contains("user.f") && lost[2].contains("nfs4"), "{lost:?}");
        assert!(xattrs(&set[6..], &mut lost).is_empty());
    }
}
