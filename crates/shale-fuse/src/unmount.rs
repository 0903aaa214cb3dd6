//! Unmounting by path, from a process that is not the driver: `shale umount`.

use crate::error::MountError;
use crate::mount::{Way, table};
use std::path::Path;

/// Unmounts the image mounted at `path`. Its driver notices and ends by itself. Works on the mount
/// of a driver that is dead, too.
///
/// With `lazy` the mount disappears at once and is served on to those who have files open in it.
///
/// Errors: nothing, or something other than an image, is mounted at `path`; it is in use; this
/// user may not.
pub fn umount(path: &Path, lazy: bool) -> Result<(), MountError> {
    let resolved = table::resolve(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => MountError::NotMounted(path.to_owned()),
        _ => MountError::system(format!("look at {}", path.display()), error),
    })?;
    let entry = table::find(&resolved)
        .map_err(|error| MountError::system("read the list of mounts", error))?;
    match entry {
        None => Err(MountError::NotMounted(path.to_owned())),
        Some(entry) if !entry.is_shale() => {
            Err(MountError::NotShale { path: resolved, file_system: entry.file_system })
        }
        Some(_) => Way::of_this_process().unmount(&resolved, lazy),
    }
}
