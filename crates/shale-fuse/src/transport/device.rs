//! Opens `/dev/fuse`, and reports why that fails.

use crate::error::MountError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

const PATH: &str = "/dev/fuse";

/// Opens a new handle of the FUSE device. Programs that this process starts do not inherit it.
///
/// # Errors
/// [`MountError::NoDevice`], [`MountError::DeviceDenied`], or the error of the system call.
pub(crate) fn open() -> Result<OwnedFd, MountError> {
    rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
        match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => MountError::NoDevice(errno.into()),
            Errno::ACCESS | Errno::PERM => MountError::DeviceDenied,
            other => MountError::system(format!("open {PATH}"), other),
        }
    })
}
