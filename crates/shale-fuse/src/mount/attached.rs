//! A mount that the kernel has and that nobody serves yet.
//!
//! One process can mount and another one serve: it gets the parts of [`Attached`] over a socket.
//! Dropping it closes the device, which leaves a mount that does not work.

use super::way::Way;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A mount without a driver.
#[derive(Debug)]
pub struct Attached {
    /// The device handle to serve the mount through.
    pub device: OwnedFd,
    /// The way to unmount, for the process that serves.
    pub way: Way,
    /// The mount point, absolute and without symlinks.
    pub mount_point: PathBuf,
}
