//! Questions to the driver of a mount, by path, from any process.
//!
//! A driver answers through extended attributes of its root directory.

use crate::mount_table;
use crate::statistics::{FLUSH_XATTR, STATISTICS_XATTR};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// A mounted image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountedImage {
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The path of the image, as its driver was given it.
    pub image: OsString,
    /// The kernel's EROFS shows it, not FUSE.
    pub is_kernel_view: bool,
}

/// Lists the mounted images that this process can see, in the order of mounting. Asks no driver, so
/// the list includes mounts whose driver is dead or hangs.
///
/// # Errors
/// The list of mounts cannot be read.
pub fn mounts() -> io::Result<Vec<MountedImage>> {
    let entries = mount_table::images()?;
    let inner = |directory: &Path| entries.iter().find(|entry| entry.path == directory);
    let is_inner = |path: &Path| {
        entries.iter().any(|entry| entry.kernel_view_directory().is_some_and(|below| below == path))
    };
    let shown = entries.iter().filter(|entry| !is_inner(&entry.path));
    Ok(shown
        .map(|entry| {
            let below = entry.kernel_view_directory();
            // The FUSE mount below a kernel view names the image.
            let image = below.and_then(inner).map_or(&entry.source, |inner| &inner.source);
            MountedImage {
                mount_point: entry.path.clone(),
                image: image.clone(),
                is_kernel_view: below.is_some(),
            }
        })
        .collect())
}

/// Reads the statistics of the image mounted at `mount_point`, as JSON. Any process that may look
/// at the mount can ask.
///
/// # Errors
/// The path does not exist, or is not the root of a mounted image (ENODATA or EOPNOTSUPP).
pub fn read_statistics(mount_point: &Path) -> io::Result<String> {
    // A kernel view has no such attribute; the FUSE mount below it has.
    let below = mount_table::resolve(mount_point)
        .and_then(|path| mount_table::find(&path))
        .ok()
        .flatten()
        .and_then(|entry| entry.kernel_view_directory().map(Path::to_owned));
    let mount_point = below.as_deref().unwrap_or(mount_point);
    // Larger than any snapshot: 15 histograms of 40 numbers are below 16 KiB.
    let mut value = vec![0u8; 64 << 10];
    let len = rustix::fs::getxattr(mount_point, STATISTICS_XATTR, value.as_mut_slice())?;
    value.truncate(len);
    String::from_utf8(value).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Asks the driver of the mount at `path` to finish what it writes about reads
/// ([`Options::on_flush`](crate::options::Options::on_flush)), so that it is complete when the
/// mount is gone.
///
/// Waits for the driver, which may hang: call this in a process that can be killed. Does nothing
/// if `path` is not such a mount or if there is nothing to finish.
pub fn flush(path: &Path) {
    let entry = mount_table::resolve(path).and_then(|path| mount_table::find(&path)).ok().flatten();
    if entry.is_some_and(|entry| entry.file_system == mount_table::FILE_SYSTEM) {
        let _ = rustix::fs::getxattr(path, FLUSH_XATTR, &mut [0u8; 1][..]);
    }
}
