//! Errors of mounting, serving and unmounting.
//!
//! A message says what happened and, if the remedy lies in the system, what to do. Advice that
//! names options of a command is up to the command.

use std::io;
use std::path::PathBuf;

/// An error of [`mount`](crate::mount::mount()), [`Mounted`](crate::mount::Mounted) or
/// [`umount`](crate::unmount::umount).
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point does not exist.
    #[error("mount point {} does not exist: create it with mkdir", .0.display())]
    MountPointMissing(PathBuf),
    /// The mount point is not a directory.
    #[error("mount point {} is not a directory", .0.display())]
    MountPointNotDirectory(PathBuf),
    /// A driver died and left its mount behind.
    #[error("{} is still mounted, but its driver is gone", .0.display())]
    MountPointStale(PathBuf),
    /// An image is mounted here already.
    #[error("{} is busy: {mounted} is already mounted there", path.display())]
    AlreadyMounted {
        /// The mount point.
        path: PathBuf,
        /// The image that is mounted there.
        mounted: String,
    },
    /// There is no FUSE device.
    #[error(
        "no usable /dev/fuse ({0}): load the kernel module with `modprobe fuse`; if this is a \
         container, start it with `--device /dev/fuse`"
    )]
    NoDevice(io::Error),
    /// This user may not open the FUSE device.
    #[error(
        "no permission to open /dev/fuse: mount as root, or have an administrator run \
         `chmod 666 /dev/fuse`"
    )]
    DeviceDenied,
    /// The setuid helper, which an ordinary user needs for mounting, is not installed.
    #[error(
        "fusermount3 is not installed, and only root can mount without it: \
         `apt-get install fuse3`, or mount as root"
    )]
    HelperMissing,
    /// The setuid helper refused.
    #[error("fusermount3: {0}")]
    HelperFailed(String),
    /// The kernel does not let this process mount.
    #[error("no permission to {what}: {hint}")]
    NotPermitted {
        /// What was tried.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// This user or this kernel does not allow an option.
    #[error("option {option}: {reason}")]
    Option {
        /// The option, as in `-o`.
        option: &'static str,
        /// Why not.
        reason: String,
    },
    /// The kernel's EROFS cannot show this image, or this process may not mount it.
    #[error("the kernel view is not possible: {0}")]
    KernelView(String),
    /// The root of the tree cannot be read.
    #[error("the root directory cannot be read: {0}")]
    Root(#[source] crate::view::ViewError),
    /// A process uses the mount.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// Another file system is mounted over ours.
    #[error("another file system is mounted over {}: unmount that first", .0.display())]
    Covered(PathBuf),
    /// Nothing is mounted at this path.
    #[error("{} is not a mount point", .0.display())]
    NotMounted(PathBuf),
    /// Something else is mounted at this path.
    #[error("{} is a mount of type {file_system}, not of a ShaleFS image", path.display())]
    NotShale {
        /// The mount point.
        path: PathBuf,
        /// Type of the file system there.
        file_system: String,
    },
    /// The connection to the kernel broke.
    #[error("the FUSE session failed: {0}")]
    Session(#[source] io::Error),
    /// A system call failed for a reason that has no variant of its own.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl MountError {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}
