//! Unmounting by path, from a process that is not the driver: `shale umount`.

use crate::error::MountError;
use crate::mount::Way;
use crate::mount_table;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to retry while the mount is in use: a process that just ended, or that was just started
/// and has not yet closed what it inherited, holds it for a moment.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Unmounts the image mounted at `path`, also if its driver is dead. A live driver notices and ends
/// by itself.
///
/// With `lazy` the mount disappears from the tree at once; processes that have files open in it can
/// go on using them.
///
/// # Errors
/// Nothing, or something other than an image, is mounted at `path`; the mount is in use; this user
/// may not unmount it.
pub fn umount(path: &Path, lazy: bool) -> Result<(), MountError> {
    let resolved = mount_table::resolve(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => MountError::NotMounted(path.to_owned()),
        _ => MountError::system(format!("look at {}", path.display()), error),
    })?;
    let entry = mount_table::find(&resolved)
        .map_err(|error| MountError::system("read the list of mounts", error))?;
    match entry {
        None => Err(MountError::NotMounted(path.to_owned())),
        Some(entry) if !entry.is_shale() => {
            Err(MountError::NotShale { path: resolved, file_system: entry.file_system })
        }
        Some(_) => retry_while_busy(|| Way::of_this_process().unmount(&resolved, lazy)),
    }
}

fn retry_while_busy(unmount: impl Fn() -> Result<(), MountError>) -> Result<(), MountError> {
    let start = Instant::now();
    loop {
        match unmount() {
            Err(MountError::Busy(_)) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}
