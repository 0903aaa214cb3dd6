//! The kind of an inode.

/// Type bits of `st_mode`.
pub const MODE_TYPE_MASK: u32 = 0o170000;
/// Permission bits of `st_mode` with setuid, setgid and sticky.
pub const MODE_PERMISSION_MASK: u32 = 0o7777;

/// The seven kinds of inode of a Linux file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InodeKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device.
    BlockDevice,
    /// Character device.
    CharDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl InodeKind {
    /// Returns the type bits of `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010000,
            Self::CharDevice => 0o020000,
            Self::Directory => 0o040000,
            Self::BlockDevice => 0o060000,
            Self::File => 0o100000,
            Self::Symlink => 0o120000,
            Self::Socket => 0o140000,
        }
    }

    /// Returns the kind that the type bits of `mode` name, if they name one.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & MODE_TYPE_MASK {
            0o010000 => Self::Fifo,
            0o020000 => Self::CharDevice,
            0o040000 => Self::Directory,
            0o060000 => Self::BlockDevice,
            0o100000 => Self::File,
            0o120000 => Self::Symlink,
            0o140000 => Self::Socket,
            _ => return None,
        })
    }

    /// True for block and character devices.
    pub fn is_device(self) -> bool {
        matches!(self, Self::BlockDevice | Self::CharDevice)
    }
}
