//! Directories below `/run/shale` for the inner mounts of kernel views.

use crate::error::MountError;
use crate::mount_table;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where inner mounts are.
const RUN: &str = "/run/shale";

/// A directory for one inner mount. Dropping it removes the directory, unless something is still
/// mounted there.
pub(super) struct RunDir {
    path: PathBuf,
    /// Locked until the process ends. The lock shows that the directory is in use to processes for
    /// which our process id means nothing, such as those of another namespace.
    _held: Option<File>,
}

impl RunDir {
    /// Makes a directory, and removes those that killed processes left behind.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(super) fn new() -> Result<Self, MountError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let failed =
            |path: &Path, error| MountError::system(format!("make {}", path.display()), error);
        let run = Path::new(RUN);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(run)
            .map_err(|error| failed(run, error))?;
        // One process at a time, so that no process sweeps a directory that is not locked yet.
        let turn = lock(run, FlockOperation::LockExclusive);
        if turn.is_some() {
            sweep(run);
        }
        loop {
            let number = NUMBERS.fetch_add(1, Relaxed);
            let path = run.join(format!("{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let held = lock(&path, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Self { path, _held: held });
                }
                // Left by a process that had our number, and still a mount point.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Fails if something is still mounted here, and then the directory has to stay.
        let _ = std::fs::remove_dir(&self.path);
    }
}

fn lock(directory: &Path, operation: FlockOperation) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, operation).ok()?;
    Some(file)
}

/// Removes the directories of processes that were killed. Only empty directories are removed, and
/// no mount points: the mount of a dead driver is left to [`umount`](crate::unmount::umount).
fn sweep(run: &Path) {
    for entry in std::fs::read_dir(run).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let owner = name.to_str().and_then(|name| name.split_once('-'));
        let owner = owner.and_then(|(owner, _)| Pid::from_raw(owner.parse().ok()?));
        let is_gone = owner.is_some_and(|owner| test_kill_process(owner) == Err(Errno::SRCH));
        // The list of mounts is read first, since locking opens the directory, and that would ask
        // the driver of a mount there.
        if is_gone
            && matches!(mount_table::find(&path), Ok(None))
            && lock(&path, FlockOperation::NonBlockingLockExclusive).is_some()
        {
            let _ = std::fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn directories_of_processes_that_are_gone_are_swept_and_no_others() {
        let run = tempfile::tempdir().unwrap();
        let directory = |name: String| {
            let path = run.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = child.id();
        let left = directory(format!("{gone}-0"));
        let locked = directory(format!("{gone}-1"));
        let full = directory(format!("{gone}-2"));
        let ours = directory(format!("{}-0", std::process::id()));
        let other = directory("other".into());
        let held = lock(&locked, FlockOperation::NonBlockingLockExclusive);
        assert!(held.is_some());
        std::fs::write(full.join("file"), "text").unwrap();
        sweep(run.path());
        assert!(!left.exists());
        for kept in [&locked, &full, &ours, &other] {
            assert!(kept.exists(), "{} is gone", kept.display());
        }
        drop(held);
        sweep(run.path());
        assert!(!locked.exists());
    }
}
