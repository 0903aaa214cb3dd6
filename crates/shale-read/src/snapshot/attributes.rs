//! What `stat` reports of an inode.

use shale_model::{InodeKind, Metadata, Timestamp, device_parts};

/// What `stat` reports of an inode, and where its content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the inode.
    pub inode: u64,
    /// Kind of the inode: the type bits of `st_mode`.
    pub kind: InodeKind,
    /// Permission bits with setuid, setgid, sticky.
    pub permissions: u32,
    /// Numeric owner (user id).
    pub uid: u32,
    /// Numeric group id.
    pub gid: u32,
    /// Entries that lead to this inode; for a directory, 2 plus its subdirectories.
    pub link_count: u64,
    /// File: bytes of content. Directory: entries. Symlink: bytes of the target. Others: 0.
    pub size: u64,
    /// Last modification of the content.
    pub mtime: Timestamp,
    /// Last access; the epoch if the snapshot does not store it.
    pub atime: Timestamp,
    /// Last change of the inode; the epoch if the snapshot does not store it.
    pub ctime: Timestamp,
    /// Creation; the epoch if the snapshot does not store it.
    pub btime: Timestamp,
    /// Set of extended attributes; 0 if there are none. Inodes with equal numbers have equal
    /// attributes.
    pub xattr_set: u64,
    /// By kind: content of a file, index of a directory, row of a symlink target, device number.
    pub payload: u64,
}

impl Attributes {
    /// Type and permission bits, as in `st_mode`.
    pub fn mode(&self) -> u32 {
        self.kind.mode_bits() | self.permissions
    }

    /// Major and minor number of a device; zeroes for other kinds.
    pub fn device(&self) -> (u32, u32) {
        match self.kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => device_parts(self.payload),
            _ => (0, 0),
        }
    }

    /// The entry model's view: only what does not depend on the image.
    pub fn metadata(&self) -> Metadata {
        Metadata {
            kind: self.kind,
            permissions: self.permissions,
            uid: self.uid,
            gid: self.gid,
            mtime: self.mtime,
            atime: self.atime,
            ctime: self.ctime,
            btime: self.btime,
            len: if self.kind == InodeKind::File { self.size } else { 0 },
            device: if self.kind.is_device() { self.payload } else { 0 },
        }
    }

    /// The content of a regular file; `None` for other kinds. Equal numbers mean equal bytes.
    pub fn content(&self) -> Option<u64> {
        (self.kind == InodeKind::File).then_some(self.payload)
    }
}
