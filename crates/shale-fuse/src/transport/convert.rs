//! Converts the driver's types to those of the crate `fuser`.

use crate::view::{Attributes, MODE_TYPE_MASK, Seek, Time};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::time::{Duration, SystemTime};

/// Block size shown by `stat`. It is not the frame size, since programs allocate a buffer of this
/// size for every file they open; sequential readers get long reads from read-ahead anyway.
const BLOCK_LEN: u32 = 4096;
/// Unit of `st_blocks`.
const SECTOR_LEN: u64 = 512;

pub(super) fn to_errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

pub(super) fn file_type(mode: u32) -> FileType {
    match mode & MODE_TYPE_MASK {
        0o010000 => FileType::NamedPipe,
        0o020000 => FileType::CharDevice,
        0o040000 => FileType::Directory,
        0o060000 => FileType::BlockDevice,
        0o120000 => FileType::Symlink,
        0o140000 => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

/// The kernel's 32-bit form of a device number: 12 bits of major, 20 of minor.
pub(super) fn device_number((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

pub(super) fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let base = match time.sec {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    base.and_then(|t| t.checked_add(Duration::from_nanos(u64::from(time.nsec))))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

pub(super) fn file_attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.inode),
        size: attributes.len,
        blocks: attributes.data_len.div_ceil(SECTOR_LEN),
        atime: system_time(attributes.atime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(attributes.mode),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: u32::try_from(attributes.link_count).unwrap_or(u32::MAX),
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: device_number(attributes.device),
        blksize: BLOCK_LEN,
        flags: 0,
    }
}

/// Attributes of a name that does not exist; the kernel caches that answer as well.
pub(super) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// What a seek with this `whence` (Linux numbering) looks for.
pub(super) fn sought(whence: i32) -> Option<Seek> {
    match whence {
        3 => Some(Seek::Data),
        4 => Some(Seek::Hole),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_epoch_keep_their_nanoseconds() {
        for (sec, nsec) in [(0, 0), (-1, 999_999_999), (-2, 1), (1 << 40, 5), (i64::MIN, 0)] {
            let time = system_time(Time { sec, nsec });
            let (got_sec, got_nsec) = match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => (i128::from(after.as_secs()), after.subsec_nanos()),
                Err(before) => {
                    let total = -(before.duration().as_nanos() as i128);
                    (total.div_euclid(1_000_000_000), total.rem_euclid(1_000_000_000) as u32)
                }
            };
            assert_eq!((got_sec, got_nsec), (i128::from(sec), nsec));
        }
    }

    #[test]
    fn device_numbers_follow_the_kernel() {
        assert_eq!(device_number((1, 3)), 0x103);
        assert_eq!(device_number((259, 70_000)), 0x70 | 259 << 8 | 0x11100 << 12);
    }
}
