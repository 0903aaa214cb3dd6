//! One row of the inode table, typed and checked: kind, permissions, owner, times, payload.
//!
//! What `payload` means depends on the kind; the table of `docs/format.md` has it.

use shale_model::kind::MODE_PERMISSION_MASK;
pub use shale_model::{InodeKind, Timestamp, device_number, device_parts};
use shale_table::Value;

use crate::error::FormatError;
use crate::schema::inodes;

/// Seconds are stored with the sign bit flipped, so that the unsigned order is the order of time.
const SEC_BIAS: u64 = 1 << 63;

fn time_columns(time: Timestamp) -> [Value<'static>; 2] {
    [Value::U64(time.sec as u64 ^ SEC_BIAS), Value::U64(u64::from(time.nsec))]
}

fn time_from_columns(sec: u64, nsec: u64) -> Result<Timestamp, FormatError> {
    if nsec >= 1_000_000_000 {
        return Err(FormatError::Field {
            structure: "inode table row",
            field: "nanoseconds",
            found: nsec,
            allowed: "below 10^9",
        });
    }
    Ok(Timestamp { sec: (sec ^ SEC_BIAS) as i64, nsec: nsec as u32 })
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
    /// Content ID, directory index, symlink row or device number, by kind.
    pub payload: u64,
}

impl InodeRecord {
    /// Returns the row for a table builder.
    pub fn row(&self) -> [Value<'static>; 14] {
        let [mtime_sec, mtime_nsec] = time_columns(self.mtime);
        let [atime_sec, atime_nsec] = time_columns(self.atime);
        let [ctime_sec, ctime_nsec] = time_columns(self.ctime);
        let [btime_sec, btime_nsec] = time_columns(self.btime);
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

    /// Makes a record of the columns of its row.
    ///
    /// # Errors
    /// The mode is not one of Linux, an owner is beyond 32 bits, or nanoseconds are 10^9 or more.
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
        let time = |at: usize| time_from_columns(columns[at], columns[at + 1]);
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
