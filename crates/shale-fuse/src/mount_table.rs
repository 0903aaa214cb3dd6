//! The kernel's list of mounts, as `/proc/self/mountinfo` shows it.
//!
//! Reading it never touches a mounted file system, so it works when a driver is dead or hangs.

use rustix::fs::{AtFlags, StatxFlags};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// File system type of FUSE mounts of images, as `mount` shows it.
pub(crate) const FILE_SYSTEM: &str = "fuse.shale";

/// The file that a kernel view reads; its name marks such a mount in the list of mounts.
pub(crate) const KERNEL_VIEW_FILE: &str = "shale.erofs";

/// Asks statx for a mount id that is never reused, if the kernel has one.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) path: PathBuf,
    /// Major and minor device number of the file system.
    pub(crate) device: (u32, u32),
    pub(crate) file_system: String,
    pub(crate) source: OsString,
}

impl MountEntry {
    pub(crate) fn is_shale(&self) -> bool {
        self.file_system == FILE_SYSTEM || self.kernel_view_directory().is_some()
    }

    /// The mount point of the FUSE mount below a kernel view; `None` for any other mount.
    pub(crate) fn kernel_view_directory(&self) -> Option<&Path> {
        let source = Path::new(&self.source);
        let is_ours = self.file_system == "erofs"
            && source.file_name().is_some_and(|name| name == KERNEL_VIEW_FILE);
        source.parent().filter(|_| is_ours)
    }
}

/// Identifies a mount. The device number alone does not: the kernel reuses free numbers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountId {
    device: (u32, u32),
    mount_id: u64,
}

impl MountId {
    /// Identifies the mount that contains `path`, without a request to its driver.
    ///
    /// # Errors
    /// The path does not exist or cannot be looked at.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let unique = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW;
        // Kernels before 6.8 have only the reusable kind of mount id.
        let stat = rustix::fs::statx(rustix::fs::CWD, path, flags, unique | StatxFlags::MNT_ID)?;
        Ok(Self { device: (stat.stx_dev_major, stat.stx_dev_minor), mount_id: stat.stx_mnt_id })
    }

    pub(crate) fn device(&self) -> (u32, u32) {
        self.device
    }
}

/// Returns the mounts at `path` itself, the topmost last. The source of a kernel view is its file,
/// also if it is mounted through a loop device. `path` must be absolute and without symlinks.
///
/// # Errors
/// The list of mounts cannot be read.
pub(crate) fn all(path: &Path) -> io::Result<Vec<MountEntry>> {
    let mut found = stack(&std::fs::read("/proc/self/mountinfo")?, path);
    for entry in &mut found {
        if let Some(file) = backing_file(entry) {
            entry.source = file;
        }
    }
    Ok(found)
}

/// Returns the backing file of the loop device that `entry` is mounted from. It distinguishes a
/// kernel view from any other EROFS, and comes from sysfs since the list of mounts does not have
/// it.
fn backing_file(entry: &MountEntry) -> Option<OsString> {
    if entry.file_system != "erofs" || !entry.source.as_bytes().starts_with(b"/dev/loop") {
        return None;
    }
    let (major, minor) = entry.device;
    let mut file =
        std::fs::read(format!("/sys/dev/block/{major}:{minor}/loop/backing_file")).ok()?;
    if file.last() == Some(&b'\n') {
        file.pop();
    }
    Some(OsString::from_vec(file))
}

/// Returns the FUSE mounts and kernel views of images, in the order of mounting.
///
/// # Errors
/// The list of mounts cannot be read.
pub(crate) fn images() -> io::Result<Vec<MountEntry>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table
        .split(|&b| b == b'\n')
        .filter_map(parse)
        .map(|entry| MountEntry {
            source: backing_file(&entry).unwrap_or_else(|| entry.source.clone()),
            ..entry
        })
        .filter(MountEntry::is_shale)
        .collect())
}

/// Returns the topmost mount at `path` itself.
///
/// # Errors
/// The list of mounts cannot be read.
pub(crate) fn find(path: &Path) -> io::Result<Option<MountEntry>> {
    Ok(all(path)?.pop())
}

fn stack(table: &[u8], path: &Path) -> Vec<MountEntry> {
    table.split(|&b| b == b'\n').filter_map(parse).filter(|entry| entry.path == path).collect()
}

/// Resolves the symlinks of `path`. If `path` is the mount point of a dead driver, which cannot be
/// looked at, only its parent is resolved.
///
/// # Errors
/// The path, or its parent, cannot be resolved.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(error);
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        Ok(parent.canonicalize()?.join(name))
    })
}

/// Parses one line: id, parent, device, root, path, options, tags, a dash, type, source.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&b| b == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let path = unescape(fields.nth(1)?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let file_system = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    let source = OsString::from_vec(unescape(fields.next()?));
    Some(MountEntry {
        path: PathBuf::from(OsString::from_vec(path)),
        device: (major.parse().ok()?, minor.parse().ok()?),
        file_system,
        source,
    })
}

/// Undoes the octal escapes of the kernel, such as `\040` for a blank.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let digits =
            tail.get(..3).filter(|d| first == b'\\' && d.iter().all(|b| (b'0'..=b'7').contains(b)));
        match digits {
            Some(d) => {
                let value = d.iter().fold(0u32, |value, b| value * 8 + u32::from(b - b'0'));
                plain.push(value as u8);
                rest = &tail[3..];
            }
            None => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    plain
}

/// Spells a path as the list of mounts does.
pub(crate) fn escaped(path: &Path) -> OsString {
    let mut text = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => text.extend(format!("\\{byte:03o}").into_bytes()),
            _ => text.push(byte),
        }
    }
    OsString::from_vec(text)
}

/// Returns the source of a mount for a message.
pub(crate) fn shown(source: &OsString) -> String {
    String::from_utf8_lossy(source.as_os_str().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 0:44 / /mnt/a rw - tmpfs tmpfs rw
31 30 0:52 / /mnt/a ro,nosuid shared:7 master:1 - fuse.shale /data/an\\040image.shale ro,user_id=0
32 21 0:53 / /mnt/with\\040blank\\134 ro - fuse fuse ro
broken line
";

    #[test]
    fn the_topmost_mount_of_a_path_is_found() {
        let found = stack(TABLE, Path::new("/mnt/a"));
        assert_eq!(found.len(), 2);
        let found = &found[1];
        assert!(found.is_shale());
        assert_eq!(found.device, (0, 52));
        assert_eq!(found.source, "/data/an image.shale");
        assert!(!stack(TABLE, Path::new("/mnt/with blank\\"))[0].is_shale());
        assert!(stack(TABLE, Path::new("/mnt")).is_empty());
    }

    #[test]
    fn escapes_are_those_of_the_kernel() {
        let path = Path::new("/mnt/with blank\\\t\n#");
        assert_eq!(escaped(path), "/mnt/with\\040blank\\134\\011\\012#");
        assert_eq!(unescape(escaped(path).as_bytes()), path.as_os_str().as_bytes());
    }

    #[test]
    fn a_path_that_cannot_be_looked_at_is_resolved_through_its_parent() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let resolved = resolve(&missing).unwrap();
        assert_eq!(resolved, directory.path().canonicalize().unwrap().join("missing"));
        assert!(resolve(Path::new("/no/such/parent/here")).is_err());
    }
}
