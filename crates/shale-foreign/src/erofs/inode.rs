//! One inode, typed and checked, and its extended attributes.

use shale_format::limits::{FILE_LEN_MAX, XATTR_COUNT_MAX};
use shale_format::{InodeKind, Timestamp};
use shale_model::Xattr;

use super::superblock::Superblock;
use crate::tree::{ImageFile, le};

/// Namespaces of attributes, by number.
const NAMESPACES: [&[u8]; 7] = [
    b"",
    b"user.",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"trusted.",
    b"lustre.",
    b"security.",
];
/// The name begins with a prefix of the table.
const LONG_PREFIX: u8 = 0x80;

/// The form in which the bytes of an inode are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In blocks one after the other; with the tail beside the inode if true.
    Flat(bool),
    /// In chunks that lie anywhere.
    Chunks,
    /// Compressed; with packed indexes if true.
    Compressed(bool),
}

/// An inode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inode {
    pub(super) number: u64,
    pub(super) kind: InodeKind,
    pub(super) permissions: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Timestamp,
    pub(super) link_count: u32,
    pub(super) len: u64,
    pub(super) layout: Layout,
    /// The first block, the form of chunks, or the number of a device.
    pub(super) union: u64,
    /// Where its attributes begin, and how many bytes they have.
    xattrs: (u64, u64),
}

impl Inode {
    /// Reads the inode `number`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn read(file: &ImageFile, sb: &Superblock, number: u64) -> Result<Self, String> {
        let at = sb.inode_at(number)?;
        let head = file.read(at, 32)?;
        let field = |at: usize, len: usize| le(&head[at..at + len]);
        let format = field(0, 2);
        let is_long = format & 1 != 0;
        let layout = match format >> 1 & 7 {
            0 => Layout::Flat(false),
            1 => Layout::Compressed(false),
            2 => Layout::Flat(true),
            3 => Layout::Compressed(true),
            4 => Layout::Chunks,
            other => return Err(format!("an inode of layout {other}, which is not known")),
        };
        let mode = field(4, 2) as u32;
        let kind = InodeKind::from_mode(mode)
            .ok_or_else(|| format!("an inode of mode {mode:o} is of no known kind"))?;
        let xattr_count = field(2, 2);
        let xattrs_len = if xattr_count > 0 { 12 + (xattr_count - 1) * 4 } else { 0 };
        let mut inode = Self {
            number,
            kind,
            permissions: mode & 0o7777,
            uid: field(24, 2) as u32,
            gid: field(26, 2) as u32,
            mtime: Timestamp { sec: sb.build_time.0, nsec: sb.build_time.1 },
            link_count: field(6, 2) as u32,
            len: field(8, 4),
            layout,
            union: field(16, 4),
            xattrs: (at + 32, xattrs_len),
        };
        if is_long {
            let tail = file.read(at + 32, 32)?;
            inode.uid = field(24, 4) as u32;
            inode.gid = field(28, 4) as u32;
            inode.len = field(8, 8);
            inode.mtime.sec = le(&tail[..8]).cast_signed();
            inode.mtime.nsec = le(&tail[8..12]) as u32;
            inode.link_count = le(&tail[12..16]) as u32;
            inode.xattrs.0 = at + 64;
        }
        if inode.mtime.nsec >= 1_000_000_000 {
            return Err("a time of more than a second's nanoseconds: corrupt".to_owned());
        }
        if inode.len > FILE_LEN_MAX {
            return Err(format!("an inode of {} bytes", inode.len));
        }
        Ok(inode)
    }

    /// Where what follows the inode begins: its tail, or its indexes.
    pub(super) fn end(&self) -> u64 {
        self.xattrs.0 + self.xattrs.1
    }

    /// Reads its attributes.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn xattrs(
        &self,
        file: &ImageFile,
        sb: &Superblock,
        prefixes: &[Vec<u8>],
    ) -> Result<Vec<Xattr>, String> {
        let (start, len) = self.xattrs;
        if len == 0 {
            return Ok(Vec::new());
        }
        let body = file.read(start, len)?;
        let shared_count = u64::from(body[4]);
        let mut at = 12 + shared_count * 4;
        if at > len {
            return Err("its attributes are cut: corrupt".to_owned());
        }
        let mut found = Vec::new();
        for shared in body[12..at as usize].chunks_exact(4) {
            let at = sb.shared_xattr_at(le(shared));
            found.push(xattr(file, at, u64::MAX, prefixes)?.0);
        }
        while at + 4 <= len {
            let head = &body[at as usize..];
            // What is left is padding.
            if head[..4] == [0; 4] {
                break;
            }
            let (xattr, xattr_len) = xattr(file, start + at, start + len, prefixes)?;
            found.push(xattr);
            at += xattr_len;
            if found.len() as u64 > XATTR_COUNT_MAX {
                return Err("too many attributes".to_owned());
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The attribute at a byte, and the bytes it takes.
fn xattr(
    file: &ImageFile,
    at: u64,
    end: u64,
    prefixes: &[Vec<u8>],
) -> Result<(Xattr, u64), String> {
    let head = file.read(at, 4)?;
    let (name_len, index, value_len) = (le(&head[..1]), head[1], le(&head[2..4]));
    let len = 4 + name_len + value_len;
    if at + len > end {
        return Err("an attribute is cut: corrupt".to_owned());
    }
    let bytes = file.read(at + 4, name_len + value_len)?;
    let (name, value) = bytes.split_at(name_len as usize);
    let prefix = match index & LONG_PREFIX {
        0 => NAMESPACES.get(usize::from(index)).filter(|_| index > 0).copied(),
        _ => prefixes.get(usize::from(index & !LONG_PREFIX)).map(|prefix| &prefix[..]),
    };
    let prefix = prefix.ok_or_else(|| format!("an attribute of namespace {index}"))?;
    let name = [prefix, name].concat();
    Ok((Xattr { name, value: value.to_vec() }, len.next_multiple_of(4)))
}

/// The table of prefixes: each is a namespace and what follows it.
///
/// # Errors
/// Says what is wrong.
pub(super) fn prefixes(file: &ImageFile, sb: &Superblock) -> Result<Vec<Vec<u8>>, String> {
    let (mut at, count) = sb.prefixes;
    let mut found = Vec::new();
    if !sb.has_long_prefixes() || sb.packed != 0 {
        // Beside fragments the table is in their inode; attributes that need it are then refused.
        return Ok(found);
    }
    for _ in 0..count {
        let len = le(&file.read(at, 2)?);
        let bytes = file.read(at + 2, len)?;
        let (&namespace, rest) = bytes.split_first().ok_or("an empty prefix of attributes")?;
        let namespace = NAMESPACES.get(usize::from(namespace)).ok_or("an unknown namespace")?;
        found.push([namespace, rest].concat());
        at += (2 + len).next_multiple_of(4);
    }
    Ok(found)
}
