//! Checks of a mount point before anything is mounted there.

use crate::error::MountError;
use crate::mount_table;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Returns the mount point as an absolute path without symlinks, if an image can be mounted there.
///
/// # Errors
/// It does not exist, is not a directory, is out of reach for this user, or is the mount point of
/// an image already.
pub(crate) fn check(mount_point: &Path) -> Result<PathBuf, MountError> {
    let resolved = mount_point.canonicalize().and_then(|path| Ok((path.metadata()?, path)));
    let (metadata, path) = resolved.map_err(|error| {
        let path = mount_point.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => MountError::MountPointMissing(path),
            Some(Errno::NOTDIR) => MountError::MountPointNotDirectory(path),
            Some(Errno::NOTCONN) => MountError::MountPointStale(path),
            Some(Errno::ACCESS) => MountError::NotPermitted {
                what: format!("reach mount point {}", path.display()),
                hint: "choose a directory of your own",
            },
            _ => MountError::system(format!("look at mount point {}", path.display()), error),
        }
    })?;
    if !metadata.is_dir() {
        return Err(MountError::MountPointNotDirectory(path));
    }
    match mount_table::find(&path) {
        Ok(Some(entry)) if entry.is_shale() => {
            // The kernel answers from its caches even if the driver is dead. It never caches the
            // answer to statfs.
            match rustix::fs::statfs(&path) {
                Err(Errno::NOTCONN) => Err(MountError::MountPointStale(path)),
                _ => {
                    let mounted = mount_table::shown(&entry.source);
                    Err(MountError::AlreadyMounted { path, mounted })
                }
            }
        }
        // Other file systems may be covered, as mount(8) allows.
        _ => Ok(path),
    }
}
