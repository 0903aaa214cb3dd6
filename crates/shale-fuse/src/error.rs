//! Why mounting, serving or unmounting failed. Every message says what to do next.

use std::io;
use std::path::PathBuf;

/// An error of [`mount`](crate::mount()), [`Mounted`](crate::Mounted) or
/// [`umount`](crate::umount).
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point does not exist.
    #[error("mount point {} does not exist: create it with mkdir", .0.display())]
    MountPointMissing(PathBuf),
    /// The mount point is not a directory.
    #[error("mount point {} is not a directory", .0.display())]
    MountPointNotDirectory(PathBuf),
    /// A driver died here and left its mount behind.
    #[error("{} is the mount of a driver that is gone: run `shale umount {}` first", .0.display(), .0.display())]
    MountPointStale(PathBuf),
    /// An image is mounted here already.
    #[error(
        "{} is busy: {mounted} is already mounted there; run `shale umount {}` first",
        path.display(), path.display()
    )]
    AlreadyMounted {
        /// The mount point.
        path: PathBuf,
        /// What is mounted there.
        mounted: String,
    },
    /// There is no FUSE device.
    #[error(
        "there is no usable /dev/fuse ({0}): load the kernel module with `modprobe fuse`; \
         in a container, start it with `--device /dev/fuse`"
    )]
    NoDevice(io::Error),
    /// The FUSE device is there but not for this user.
    #[error(
        "no permission to open /dev/fuse: mount as root, or have an administrator run \
         `chmod 666 /dev/fuse`"
    )]
    DeviceDenied,
    /// Mounting as an ordinary user needs the setuid helper.
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
        /// What would help.
        hint: &'static str,
    },
    /// An option that this user or this kernel cannot have.
    #[error("option {option}: {reason}")]
    Option {
        /// The option as the user writes it.
        option: &'static str,
        /// Why not.
        reason: String,
    },
    /// The kernel's own EROFS cannot show this image, or not to this process.
    #[error("the kernel view is not possible: {0}; mount with `--view fuse`")]
    KernelView(String),
    /// The tree cannot be served at all.
    #[error("the root directory cannot be read: {0}")]
    Root(#[source] crate::ViewError),
    /// Some process works in the mount.
    #[error(
        "{} is in use: end the processes that `fuser -vm {}` shows, or use --lazy", .0.display(), .0.display()
    )]
    Busy(PathBuf),
    /// Another file system was mounted over ours.
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
    /// The conversation with the kernel broke down.
    #[error("the FUSE session failed: {0}")]
    Session(#[source] io::Error),
    /// A system call failed that has no reason of its own to.
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
