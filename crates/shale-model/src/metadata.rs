//! What `stat` reports about an inode, and its extended attributes.

use crate::kind::InodeKind;
use crate::time::Timestamp;

/// Metadata of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Kind of inode.
    pub kind: InodeKind,
    /// Permission bits with setuid, setgid and sticky.
    pub permissions: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Last modification of the content.
    pub mtime: Timestamp,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Bytes of content of a regular file; else 0.
    pub len: u64,
    /// Device number of a device ([`device_number`]); else 0.
    pub device: u64,
}

/// One extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Full name with its namespace, such as `user.x`.
    pub name: Vec<u8>,
    /// Value: any bytes.
    pub value: Vec<u8>,
}

/// Identifies the inode of an entry: entries with equal values are names of one inode. In a
/// directory tree these are device and inode number; other sources may choose any numbers. They are
/// never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// Device.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Packs a device number into one integer.
pub fn device_number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

/// Returns the major and minor number of a packed device number.
pub fn device_parts(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
}
