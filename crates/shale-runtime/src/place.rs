//! The directory where this user's bundles are mounted, and the locks in it.
//!
//! It belongs to the user alone. A bundle has a lock, which is held while somebody starts it and
//! while its driver ends, a socket of its driver, and a mount point. Locks belong to open files, so
//! none is left by a process that was killed; a mount point that was left is used again.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::failure::{During, Failure};

/// Mount points of one bundle that are tried: more than one is there only if a bundle is used after
/// its driver thought that it ended, or if a driver was killed.
const MOUNT_POINT_COUNT_MAX: usize = 64;

/// The directory of this user.
#[derive(Debug, Clone)]
pub struct UserDirectory {
    path: PathBuf,
}

impl UserDirectory {
    /// Finds the directory, and makes it if it is not there: below `$XDG_RUNTIME_DIR` if that is
    /// the user's own, else below `$TMPDIR` or `/tmp`.
    ///
    /// # Errors
    /// It cannot be made, or somebody else owns what has its name.
    pub fn open() -> Result<Self, Failure> {
        let uid = rustix::process::geteuid().as_raw();
        let absolute = |name| {
            std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
        };
        if let Some(run) = absolute("XDG_RUNTIME_DIR")
            && is_own(&run, uid)
            && let Ok(place) = Self::make(run.join("shale-bundles"), uid)
        {
            return Ok(place);
        }
        let tmp = absolute("TMPDIR").unwrap_or_else(|| "/tmp".into());
        Self::make(tmp.join(format!(".shale-bundles-{uid}")), uid)
    }

    /// The directory that another process found.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    fn make(path: PathBuf, uid: u32) -> Result<Self, Failure> {
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).during(format_args!("make {}", path.display()));
            }
            _ => {}
        }
        if is_own(&path, uid) {
            return Ok(Self { path });
        }
        Err(Failure::new(format!(
            "{} is not a directory of this user alone: remove it, or set TMPDIR to another \
             directory",
            path.display()
        )))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket of the driver of the bundle `key`.
    pub fn socket(&self, key: &str) -> PathBuf {
        self.path.join(format!("{key}.socket"))
    }

    /// Locks the bundle `key`, after whoever has the lock.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub fn lock(&self, key: &str) -> Result<Lock, Failure> {
        let locked = self.take(key, FlockOperation::LockExclusive)?;
        locked.ok_or_else(|| Failure::new("cannot lock the bundle"))
    }

    /// Locks the bundle `key` unless somebody has the lock.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn try_lock(&self, key: &str) -> Result<Option<Lock>, Failure> {
        self.take(key, FlockOperation::NonBlockingLockExclusive)
    }

    fn take(&self, key: &str, operation: FlockOperation) -> Result<Option<Lock>, Failure> {
        let path = self.path.join(format!("{key}.lock"));
        loop {
            let mut options = File::options();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).during(format_args!("make {}", path.display()))?;
            match rustix::fs::flock(&file, operation) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).during(format_args!("lock {}", path.display())),
            }
            // Whoever had the lock may have removed the file, and another one locks a new file.
            if is_at(&path, &file) {
                return Ok(Some(Lock { path, _file: file }));
            }
        }
    }

    /// Makes a mount point for the bundle `key`, whose file is `name`; needs the lock.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn mount_point(&self, name: &Path, key: &str) -> Result<MountPoint, Failure> {
        let stem = name.file_name().unwrap_or_default().to_string_lossy();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
        let stem: String = stem.chars().filter(is_plain).take(32).collect();
        let short = key.get(..8).unwrap_or(key);
        let device = std::fs::metadata(&self.path).map(|found| found.dev());
        let device = device.during(format_args!("look at {}", self.path.display()))?;
        for number in 0..MOUNT_POINT_COUNT_MAX {
            let suffix = if number == 0 { String::new() } else { format!(".{number}") };
            let path = self.path.join(format!("{stem}-{short}{suffix}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(error).during(format_args!("make {}", path.display()));
                }
                _ => {}
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut opened = rustix::fs::open(&path, flags, Mode::empty());
            if opened.as_ref().is_err_and(|error| *error == Errno::NOTCONN) {
                // The mount of a driver that was killed together with what watched it.
                let _ = shale_fuse::umount(&path, true);
                opened = rustix::fs::open(&path, flags, Mode::empty());
            }
            let Ok(handle) = opened else { continue };
            // Else it is a mount, or the directory of a driver that still runs or just removed it.
            let is_free = rustix::fs::fstat(&handle).is_ok_and(|found| found.st_dev == device)
                && rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive).is_ok()
                && is_at(&path, &handle);
            if is_free {
                return Ok(MountPoint { path, handle });
            }
        }
        Err(Failure::new(format!(
            "{} mount points of this bundle are in use in {}",
            MOUNT_POINT_COUNT_MAX,
            self.path.display()
        )))
    }
}

fn is_own(path: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0)
}

/// Returns whether `path` leads to the open file `handle`.
fn is_at(path: &Path, handle: impl AsFd) -> bool {
    let (there, ours) = (rustix::fs::lstat(path), rustix::fs::fstat(handle));
    let (Ok(there), Ok(ours)) = (there, ours) else { return false };
    (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
}

/// A locked bundle; dropping it unlocks.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Removes the file and unlocks.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A directory to mount on.
#[derive(Debug)]
pub struct MountPoint {
    /// The directory.
    pub path: PathBuf,
    /// Holds the lock that says that the directory is in use, in each process that has it.
    handle: OwnedFd,
}

impl MountPoint {
    /// Takes a mount point that another process made and locked.
    pub fn from_parts(path: PathBuf, handle: OwnedFd) -> Self {
        Self { path, handle }
    }

    /// Returns another handle that holds the lock, for another process.
    ///
    /// # Errors
    /// There are no file handles left.
    pub fn duplicate(&self) -> Result<OwnedFd, Failure> {
        self.handle.try_clone().during("keep the mount point")
    }

    /// Removes the directory, which nothing is mounted on.
    pub fn remove(self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_once_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = UserDirectory::at(folder.path().to_owned());
        let lock = place.lock("key").unwrap();
        assert!(place.try_lock("key").unwrap().is_none());
        assert!(place.try_lock("other").unwrap().is_some());
        lock.remove();
        assert!(!folder.path().join("key.lock").exists());
        drop(place.try_lock("key").unwrap().expect("it is free again"));
        assert!(place.try_lock("key").unwrap().is_some());
    }

    #[test]
    fn mount_points_in_use_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = UserDirectory::at(folder.path().to_owned());
        let key = "0123456789abcdef";
        let name = Path::new("/opt/My App (2).bundle");
        let first = place.mount_point(name, key).unwrap();
        assert_eq!(first.path, folder.path().join("MyApp2.bundle-01234567"));
        let second = place.mount_point(name, key).unwrap();
        assert_eq!(second.path, folder.path().join("MyApp2.bundle-01234567.1"));
        first.remove();
        assert_eq!(
            place.mount_point(name, key).unwrap().path.extension().unwrap(),
            "bundle-01234567"
        );
    }

    #[test]
    fn a_directory_of_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open");
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert!(UserDirectory::make(path, uid).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(UserDirectory::make(link, uid).is_err());
        assert!(UserDirectory::make(folder.path().join("new"), uid + 1).is_err());
        assert!(UserDirectory::make(folder.path().join("new"), uid).is_ok());
    }
}
