//! The inode of an image that is written, before it is known where its bytes lie.

use shale_erofs::{DataLayout, INODE_LEN, Inode, Unheld, Xattrs};
use shale_model::Xattr;

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
    pub(super) fn encode(&self, layout: DataLayout, len: u64, place: u32) -> Vec<u8> {
        let inode = Inode {
            layout,
            mode: self.mode,
            len,
            place,
            number: self.serial,
            uid: self.owner.0,
            gid: self.owner.1,
            mtime: self.mtime,
            link_count: self.link_count,
            xattrs_len: self.xattrs.len(),
        };
        [&inode.encode()[..], &self.xattrs].concat()
    }
}

/// Encodes the attributes that follow an inode, and says what of them EROFS cannot hold.
pub(super) fn xattrs(xattrs: &[Xattr], lost: &mut Vec<String>) -> Vec<u8> {
    let mut out = Xattrs::default();
    for Xattr { name, value } in xattrs {
        let why = match out.add(name, value) {
            Ok(()) => continue,
            Err(Unheld::Prefix) => "EROFS has user., trusted., security. and access control lists",
            Err(Unheld::Length) => "EROFS holds values of up to 65535 bytes",
            Err(Unheld::Total) => "EROFS holds attributes of 256 KiB for a file",
        };
        lost.push(format!("without its attribute {}: {why}", name.escape_ascii()));
    }
    out.into_bytes()
}
