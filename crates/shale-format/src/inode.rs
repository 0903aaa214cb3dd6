//! One row of the inode table, typed and checked: kind, permissions, owner, times, payload.
//!
//! What `payload` means depends on the kind; the table of `docs/format.md` has it.

use crate::error::FormatError;
use crate::schema::inodes;
use shale_table::Value;

/// Type bits of `st_mode`.
pub const MODE_TYPE_MASK: u32 = 0o170000;
/// Permission bits of `st_mode` with setuid, setgid and sticky.
pub const MODE_PERMISSION_MASK: u32 = 0o7777;

/// The seven kinds of inode of a Linux file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InodeKind {
    /// Regular file; payload: content id.
    File,
    /// Directory; payload: directory index.
    Directory,
    /// Symbolic link; payload: row of the table of symlinks.
    Symlink,
    /// Block device; payload: device number.
    BlockDevice,
    /// Character device; payload: device number.
    CharDevice,
    /// Named pipe; payload: 0.
    Fifo,
    /// Socket; payload: 0.
    Socket,
}

impl InodeKind {
    /// The type bits in `st_mode`.
    pub fn mode_bits(self) -> u32 {
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

    /// The kind of these `st_mode` bits.
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
}

/// A point in time: seconds since 1970-01-01 UTC, possibly negative, and nanoseconds 0..10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub sec: i64,
    /// Nanoseconds past `sec`.
    pub nsec: u32,
}

/// Seconds are stored with the sign bit flipped, so that unsigned order is time order.
const SEC_BIAS: u64 = 1 << 63;

impl Timestamp {
    fn columns(self) -> [Value<'static>; 2] {
        [Value::U64(self.sec as u64 ^ SEC_BIAS), Value::U64(u64::from(self.nsec))]
    }

    fn from_columns(sec: u64, nsec: u64) -> Result<Self, FormatError> {
        if nsec >= 1_000_000_000 {
            return Err(FormatError::Field {
                structure: "inode table row",
                field: "nanoseconds",
                found: nsec,
                allowed: "below 10^9",
            });
        }
        Ok(Self { sec: (sec ^ SEC_BIAS) as i64, nsec: nsec as u32 })
    }
}

/// An inode without names and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeRecord {
    /// Kind; the type bits of `st_mode`.
    pub kind: InodeKind,
    /// Permission bits with setuid, setgid, sticky.
    pub permissions: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Entries that lead here; for a directory 2 + its directories.
    pub link_count: u64,
    /// Last modification of the content.
    pub mtime: Timestamp,
    /// Last access; the epoch where not kept.
    pub atime: Timestamp,
    /// Last change of the inode; the epoch where not kept.
    pub ctime: Timestamp,
    /// Creation; the epoch where not kept.
    pub btime: Timestamp,
    /// 0 for none, else row of `xattr_sets` + 1.
    pub xattr_set: u64,
    /// Content id, directory index, symlink row or device number, by kind.
    pub payload: u64,
}

impl InodeRecord {
    /// The row for a table builder.
    pub fn row(&self) -> [Value<'static>; 14] {
        let [mtime_sec, mtime_nsec] = self.mtime.columns();
        let [atime_sec, atime_nsec] = self.atime.columns();
        let [ctime_sec, ctime_nsec] = self.ctime.columns();
        let [btime_sec, btime_nsec] = self.btime.columns();
        [
            Value::U64(u64::from(self.kind.mode_bits() | self.permissions)),
            Value::U64(u64::from(self.uid)),
            Value::U64(u64::from(self.gid)),
            Value::U64(self.link_count),
            mtime_sec,
            mtime_nsec,
            atime_sec,
            atime_nsec,
            ctime_sec,
            ctime_nsec,
            btime_sec,
            btime_nsec,
            Value::U64(self.xattr_set),
            Value::U64(self.payload),
        ]
    }

    /// A record from the columns of its row.
    pub fn from_columns(columns: &[u64; 14]) -> Result<Self, FormatError> {
        let field = |field, found, allowed| FormatError::Field {
            structure: "inode table row",
            field,
            found,
            allowed,
        };
        let mode = columns[inodes::MODE];
        let bits = u32::try_from(mode).ok().filter(|m| m & !0o177777 == 0);
        let kind = bits.and_then(InodeKind::from_mode);
        let (Some(bits), Some(kind)) = (bits, kind) else {
            return Err(field("mode", mode, "a Linux st_mode"));
        };
        let id = |name, value| u32::try_from(value).map_err(|_| field(name, value, "32 bits"));
        let time = |at: usize| Timestamp::from_columns(columns[at], columns[at + 1]);
        Ok(Self {
            kind,
            permissions: bits & MODE_PERMISSION_MASK,
            uid: id("owner", columns[inodes::UID])?,
            gid: id("group", columns[inodes::GID])?,
            link_count: columns[inodes::LINK_COUNT],
            mtime: time(inodes::MTIME_SEC)?,
            atime: time(inodes::ATIME_SEC)?,
            ctime: time(inodes::CTIME_SEC)?,
            btime: time(inodes::BTIME_SEC)?,
            xattr_set: columns[inodes::XATTR_SET],
            payload: columns[inodes::PAYLOAD],
        })
    }
}

/// The stored form of a device number.
pub fn device_number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

/// Major and minor of a stored device number.
pub fn device_parts(payload: u64) -> (u32, u32) {
    ((payload >> 32) as u32, payload as u32)
}
