//! Unmounting by path, from a process that is not the driver: `shale umount`.

use crate::error::MountError;
use crate::mount::{Way, table};
use crate::statistics::FLUSH_XATTR;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a mount that is in use is tried again: a process that just ended, or was just started
/// and has not yet closed what it inherited, holds it for a moment.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Has the driver of the mount at `path` finish what it writes about reads
/// ([`Options::on_flush`](crate::Options::on_flush)), so that it is there when the mount is gone.
///
/// Waits for the driver, which may be stuck: call it in a process that can be killed. Nothing
/// happens where there is no such mount or nothing to finish.
pub fn flush(path: &Path) {
    let entry = table::resolve(path).and_then(|path| table::find(&path)).ok().flatten();
    if entry.is_some_and(|entry| entry.file_system == table::FILE_SYSTEM) {
        let _ = rustix::fs::getxattr(path, FLUSH_XATTR, &mut [0u8; 1][..]);
    }
}

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
        Some(_) => patiently(|| Way::of_this_process().unmount(&resolved, lazy)),
    }
}

/// Tries again for a moment while the mount is in use.
fn patiently(unmount: impl Fn() -> Result<(), MountError>) -> Result<(), MountError> {
    let start = Instant::now();
    loop {
        match unmount() {
            Err(MountError::Busy(_)) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}
