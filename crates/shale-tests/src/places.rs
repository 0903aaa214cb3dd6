//! Places where test trees are made: the disk, and memory where there is some.
//!
//! The two know different things: one keeps ACLs and large files, the other attributes of 64 KiB.
//! A promise about trees is tested in both.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;

/// New empty folders, each on another kind of file system, with a name for messages. They are
/// removed when dropped.
pub fn all() -> Vec<(&'static str, TempDir)> {
    let disk = disk();
    let device = |folder: &TempDir| folder.path().metadata().expect("it was just made").dev();
    // Temporary files may go to memory already.
    let memory = memory().filter(|memory| device(memory) != device(&disk));
    let memory = memory.map(|memory| ("memory", memory));
    [("disk", disk)].into_iter().chain(memory).collect()
}

/// A new empty folder where temporary files go.
pub fn disk() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A new empty folder in memory, if the machine has such a place with a GiB to spare.
pub fn memory() -> Option<TempDir> {
    let place = shared_memory();
    if place.is_none() {
        println!("skipped: no place in memory for test trees");
    }
    place
}

/// A new empty folder in which to sync costs little, where there is one.
pub fn quick() -> TempDir {
    shared_memory().unwrap_or_else(disk)
}

fn shared_memory() -> Option<TempDir> {
    let shared = Path::new("/dev/shm");
    let space = rustix::fs::statvfs(shared).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    tempfile::tempdir_in(shared).ok().filter(|_| free >= 1 << 30)
}
