//! The ways to mount and unmount: by the system call, or through the setuid helper.

use super::{direct, helper};
use crate::error::MountError;
use crate::options::Options;
use crate::transport::device;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How a mount was mounted, and so how to unmount it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the system call.
    Direct,
    /// Through the setuid helper.
    Helper,
    /// In a mount namespace that the process that serves is not part of. The kernel unmounts when
    /// the last process in that namespace ends, and nobody else can.
    Elsewhere,
}

impl Way {
    /// Returns the way that this process has to use.
    pub(crate) fn of_this_process() -> Self {
        if rustix::process::geteuid().is_root() { Self::Direct } else { Self::Helper }
    }

    /// Unmounts whatever is mounted at `mount_point`.
    ///
    /// # Errors
    /// [`MountError::Busy`] if the mount is in use and `lazy` is false; [`MountError::NotMounted`];
    /// this user may not unmount it.
    pub(crate) fn unmount(self, mount_point: &Path, lazy: bool) -> Result<(), MountError> {
        match self {
            Self::Helper => return helper::unmount(mount_point, lazy),
            Self::Elsewhere => return Ok(()),
            Self::Direct => {}
        }
        let mut flags = UnmountFlags::NOFOLLOW;
        if lazy {
            flags |= UnmountFlags::DETACH;
        }
        match rustix::mount::unmount(mount_point, flags) {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(MountError::Busy(mount_point.to_owned())),
            Err(Errno::INVAL) => Err(MountError::NotMounted(mount_point.to_owned())),
            Err(Errno::PERM) => helper::unmount(mount_point, lazy),
            Err(other) => {
                Err(MountError::system(format!("unmount {}", mount_point.display()), other))
            }
        }
    }
}

/// Mounts at `mount_point`. Returns the device handle to serve the mount through, and the way that
/// was used.
///
/// # Errors
/// The device cannot be opened, or the kernel or the helper refuses the mount.
pub(super) fn attach(mount_point: &Path, options: &Options) -> Result<(OwnedFd, Way), MountError> {
    if Way::of_this_process() == Way::Direct {
        match direct::mount(mount_point, options) {
            Ok(device) => return Ok((device, Way::Direct)),
            // Root without the right to mount, as in many containers. The helper can only do more
            // if it was given that right.
            Err(error @ MountError::NotPermitted { .. }) => {
                return match helper::mount(mount_point, options) {
                    Ok(device) => Ok((device, Way::Helper)),
                    Err(_) => Err(error),
                };
            }
            Err(error) => return Err(error),
        }
    }
    Ok((attach_by(Way::Helper, mount_point, options)?, Way::Helper))
}

/// Mounts at `mount_point` in one way only, and returns the device handle.
///
/// # Errors
/// As [`attach`]; there is no mounting elsewhere.
pub(super) fn attach_by(
    way: Way,
    mount_point: &Path,
    options: &Options,
) -> Result<OwnedFd, MountError> {
    match way {
        Way::Direct => direct::mount(mount_point, options),
        Way::Helper => {
            // Opened only to report what is wrong with it, which the helper does poorly.
            device::open()?;
            helper::mount(mount_point, options)
        }
        Way::Elsewhere => Err(MountError::system("mount in another namespace", Errno::INVAL)),
    }
}
