//! Metadata that the entries of a list have in common.

use shale_format::{InodeKind, Timestamp};
use shale_model::Metadata;

/// Permissions, owners and the time of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given {
    /// Permission bits with setuid, setgid and sticky.
    pub permissions: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last modification.
    pub mtime: Timestamp,
}

impl Given {
    /// Returns the metadata of an empty inode. A list has one time, which counts for all.
    pub(crate) fn metadata(self, kind: InodeKind) -> Metadata {
        let Self { permissions, uid, gid, mtime } = self;
        let (atime, ctime, btime) = (mtime, mtime, mtime);
        Metadata { kind, permissions, uid, gid, mtime, atime, ctime, btime, len: 0, device: 0 }
    }
}
