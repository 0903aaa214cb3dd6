//! Shared parts of the tests: a tree in memory, and mounts that never outlive their test.
//!
//! Every test that needs the kernel begins with [`skip`], which prints why a test is skipped if
//! there is no FUSE device.

/// A tree in memory that a test can shape and break.
pub mod memory;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shale_fuse::statistics::Operation;
use shale_fuse::{MountError, Mounted, Options, View, mount};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Returns whether to skip a test that mounts, and prints why.
pub fn skip() -> bool {
    let reason = match std::fs::File::options().read(true).write(true).open("/dev/fuse") {
        Err(error) => format!("/dev/fuse cannot be opened: {error}"),
        Ok(_) if !is_root() && !has_program("fusermount3") => "fusermount3 is missing".into(),
        Ok(_) => return false,
    };
    println!("SKIPPED: {reason}");
    true
}

/// Like [`skip`], for tests that need root.
pub fn skip_unless_root() -> bool {
    if skip() {
        return true;
    }
    if !is_root() {
        println!("SKIPPED: needs root");
    }
    !is_root()
}

/// Like [`skip`], for tests that need these programs.
pub fn skip_without(programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|program| !has_program(program)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: not installed: {missing:?}");
    }
    !missing.is_empty()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// A directory for a mount. Whatever is mounted there is unmounted when the test ends.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("shale-fuse-test-").tempdir().unwrap();
        // Other users must be able to reach the mount.
        chmod(directory.path(), 0o755);
        std::fs::create_dir(directory.path().join("mnt")).unwrap();
        Self { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // An error means that nothing is mounted.
        while shale_fuse::umount(&self.path(), true).is_ok() {}
    }
}

/// A mounted tree in memory. `lines` collects the log of the driver.
pub struct Served {
    pub mounted: Mounted,
    pub place: Place,
    pub lines: Arc<Mutex<Vec<String>>>,
}

impl Served {
    pub fn new(view: impl View) -> Self {
        Self::with(view, Options::default())
    }

    pub fn with(view: impl View, options: Options) -> Self {
        Self::try_with(view, options).unwrap()
    }

    pub fn try_with(view: impl View, options: Options) -> Result<Self, MountError> {
        let place = Place::new();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let log = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
        let options = Options { log, ..options };
        let mounted = mount(Arc::new(view), &place.path(), &options)?;
        Ok(Self { mounted, place, lines })
    }

    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Returns the number of requests since the mount, without `statfs`. Needs a driver with one
    /// thread: it counts a request before it takes the next, so after an answer to `statfs` all
    /// earlier requests are counted.
    pub fn requests(&self) -> u64 {
        rustix::fs::statfs(self.path()).unwrap();
        let statistics = self.mounted.statistics();
        statistics.request_count() - statistics.operation(Operation::StatFs).count
    }
}

pub fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Waits until another process has unmounted `path`. The kernel signals each change of the list of
/// mounts; a minute without a change fails the test.
pub fn wait_until_unmounted(path: &Path) {
    const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
    let table = std::fs::File::open("/proc/self/mountinfo").unwrap();
    while is_mounted(path) {
        let mut changed = [PollFd::new(&table, PollFlags::PRI)];
        let count = poll(&mut changed, Some(&PATIENCE)).unwrap();
        assert!(count > 0, "{} is still mounted", path.display());
    }
}

/// Returns whether the kernel's list of mounts has this path.
pub fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let path = path.to_str().unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

/// Runs a program to its end; panics if it fails.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
