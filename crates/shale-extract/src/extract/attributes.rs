//! Owner, permissions, extended attributes and times of extracted entries.
//!
//! The order matters: a change of owner clears setuid bits and capabilities, writing clears
//! capabilities, and an ordinary user can set attributes only while the file is writable. So the
//! order is content, owner, xattrs, permissions, times.

use std::io;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use shale_format::InodeKind;
use shale_format::root::{TIME_ATIME, TIME_MTIME};
use shale_read::{Attributes, Timestamp, Tree, Xattr};

use super::options::{ExtractOptions, Owner};
use super::report::{ExtractReport, ProblemKind};

const UTIME_OMIT: i64 = 0x3fff_fffe;
const SET_ID_BITS: u32 = 0o6000;
/// The system reads a number of all ones as "leave unchanged"; it is nobody's.
const NO_ID: u32 = u32::MAX;

/// What the current user can restore, and wants to.
#[derive(Debug)]
pub(super) struct Restore {
    is_root: bool,
    sets_owner: bool,
    uid: u32,
    groups: Vec<u32>,
    xattrs: bool,
    times_kept: u8,
}

/// How an inode is reached: by an open descriptor, or by its name in an open directory.
#[derive(Clone, Copy)]
pub(super) enum Handle<'a> {
    Open(BorrowedFd<'a>),
    Named(BorrowedFd<'a>, &'a [u8]),
}

impl Restore {
    pub(super) fn new(tree: &Tree, options: &ExtractOptions) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let mut groups = vec![rustix::process::getegid().as_raw()];
        groups.extend(rustix::process::getgroups().unwrap_or_default().iter().map(|g| g.as_raw()));
        Self {
            is_root: uid == 0,
            sets_owner: match options.owner {
                Owner::Auto => uid == 0,
                Owner::Stored => true,
                Owner::Own => false,
            },
            uid,
            groups,
            xattrs: options.xattrs,
            times_kept: tree.snapshot().times_kept,
        }
    }

    /// True if the user can create device nodes.
    pub(super) fn makes_devices(&self) -> bool {
        self.is_root
    }

    /// True if [`Restore::apply`] needs the extended attributes of an inode.
    pub(super) fn wants_xattrs(&self, attributes: &Attributes) -> bool {
        self.xattrs && attributes.xattr_set != 0
    }

    /// Sets the attributes of the inode. Problems go to `problem`; what the user cannot set is
    /// counted in `report`. With `inherits_acl`, the inode may have an access control list already,
    /// which is removed.
    pub(super) fn apply(
        &self,
        handle: Handle<'_>,
        inherits_acl: bool,
        attributes: &Attributes,
        xattrs: &[Xattr],
        report: &mut ExtractReport,
        problem: &mut dyn FnMut(ProblemKind),
    ) {
        let is_link = attributes.kind == InodeKind::Symlink;
        let mut owner_is_stored = self.uid == attributes.uid;
        let mut group_is_stored = self.groups.contains(&attributes.gid);
        if self.sets_owner {
            match handle.set_owner(attributes.uid, attributes.gid) {
                // A number that the system cannot assign is not assigned, whatever the call
                // returns.
                Ok(()) => {
                    owner_is_stored = attributes.uid != NO_ID;
                    group_is_stored = attributes.gid != NO_ID;
                }
                Err(error) => problem(ProblemKind::Attribute("owner", error)),
            }
        }
        if inherits_acl && !is_link {
            handle.remove_xattr(b"system.posix_acl_access");
            if attributes.kind == InodeKind::Directory {
                handle.remove_xattr(b"system.posix_acl_default");
            }
        }
        for xattr in xattrs {
            if !self.is_root && is_privileged(&xattr.name) {
                report.xattrs_left_out += 1;
                continue;
            }
            if let Err(error) = handle.set_xattr(&xattr.name, &xattr.value) {
                let name = xattr.name.escape_ascii();
                let error = io::Error::new(error.kind(), format!("{name}: {error}"));
                problem(ProblemKind::Attribute("extended attribute", error));
            }
        }
        if !is_link {
            let mut permissions = attributes.permissions;
            let kept = (if owner_is_stored { 0o4000 } else { 0 })
                | (if group_is_stored { 0o2000 } else { 0 });
            let lost = permissions & SET_ID_BITS & !kept;
            // On a directory the bit only passes its group on; it gives nobody rights.
            if lost != 0 && attributes.kind != InodeKind::Directory {
                permissions &= !lost;
                report.set_id_left_out += 1;
            }
            if let Err(error) = handle.set_permissions(permissions) {
                problem(ProblemKind::Attribute("permissions", error));
            }
        }
        if let Some(times) = self.times(attributes)
            && let Err(error) = handle.set_times(&times)
        {
            problem(ProblemKind::Attribute("times", error));
        }
    }

    fn times(&self, attributes: &Attributes) -> Option<Timestamps> {
        let time = |bit: u8, time: Timestamp| match self.times_kept & bit {
            0 => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            _ => Timespec { tv_sec: time.sec, tv_nsec: i64::from(time.nsec) },
        };
        (self.times_kept & (TIME_ATIME | TIME_MTIME) != 0).then(|| Timestamps {
            last_access: time(TIME_ATIME, attributes.atime),
            last_modification: time(TIME_MTIME, attributes.mtime),
        })
    }
}

/// True if entries created in a directory inherit an access control list. Also true if that cannot
/// be determined, because an inherited list grants rights. Costs one system call.
pub(super) fn hands_acl_down(directory: BorrowedFd<'_>) -> bool {
    // This descriptor was opened as a path only and has no attributes; its name has.
    let path = Handle::Open(directory).link_path();
    let found = rustix::fs::getxattr(path, "system.posix_acl_default", &mut [0u8; 0][..]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// True for namespaces in which only root may set attributes. `system` holds access control lists,
/// which an owner may set.
fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") || name.starts_with(b"security.")
}

impl Handle<'_> {
    fn set_owner(self, uid: u32, gid: u32) -> io::Result<()> {
        let uid = (uid != NO_ID).then(|| Uid::from_raw(uid));
        let gid = (gid != NO_ID).then(|| Gid::from_raw(gid));
        match self {
            Self::Open(fd) => rustix::fs::fchown(fd, uid, gid)?,
            Self::Named(directory, name) => {
                rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }

    fn set_permissions(self, permissions: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(permissions);
        match self {
            Self::Open(fd) => rustix::fs::fchmod(fd, mode)?,
            // Links have no permissions, and another process may have put one in this place. So the
            // inode is opened first and then changed through its descriptor.
            Self::Named(directory, name) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let held = rustix::fs::openat(directory, name, flags, Mode::empty())?;
                let found = rustix::fs::fstat(&held)?;
                if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
                    return Err(Errno::LOOP.into());
                }
                rustix::fs::chmod(Handle::Open(held.as_fd()).link_path(), mode)?;
            }
        }
        Ok(())
    }

    fn set_times(self, times: &Timestamps) -> io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::futimens(fd, times)?,
            Self::Named(directory, name) => {
                rustix::fs::utimensat(directory, name, times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }

    fn set_xattr(self, name: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty())?,
            Self::Named(..) => {
                rustix::fs::lsetxattr(self.link_path(), name, value, XattrFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Errors are ignored: the attribute may not exist.
    fn remove_xattr(self, name: &[u8]) {
        let _ = match self {
            Self::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Named(..) => rustix::fs::lremovexattr(self.link_path(), name),
        };
    }

    /// The name below the open directory's descriptor: the directory cannot be exchanged, and calls
    /// that do not follow links do not follow one in the last component.
    fn link_path(self) -> Vec<u8> {
        match self {
            Self::Open(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes(),
            Self::Named(directory, name) => {
                let mut path =
                    format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
                path.extend_from_slice(name);
                path
            }
        }
    }
}
