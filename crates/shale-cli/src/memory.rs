//! The memory that this process can use: that of the machine, or less if it runs in a control group
//! with a limit, as containers and services do, or under `ulimit -v`. A process that ignores the
//! first is killed, and one that ignores the second is refused memory, which is said here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The trees of control groups, of version 2 and of version 1, and the files with memory limits.
const TREES: [(&str, &[&str]); 2] = [
    ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
    ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"]),
];

/// Returns the usable memory in bytes, or `None` if it is unknown.
pub fn memory() -> Option<u64> {
    // Stacks and the allocator reserve addresses that never become memory.
    let address_space = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let address_space = address_space.map(|bytes| bytes / 2);
    group().into_iter().chain(machine()).chain(address_space).min()
}

/// Returns whether a control group allows this process less memory than the machine has. A limit
/// also counts what the process puts into the page cache.
pub fn is_limited() -> bool {
    group().zip(machine()).is_some_and(|(group, machine)| group < machine)
}

/// The limit of the control groups of this process, if they have one.
fn group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    TREES.iter().filter_map(|(tree, files)| limit(Path::new(tree), files, &groups)).min()
}

/// What a failed allocation says before the process ends. Rust has printed its size.
const OUT_OF_MEMORY: &[u8] = b"shale: out of memory: `ulimit -v` or the machine gives no more. \
    --memory SIZE, --threads 1 or a lower level makes a build need less; --cache SIZE a reader. \
    Nothing incomplete was left behind.\n";
/// The exit code then.
const OUT_OF_MEMORY_CODE: i32 = 1;

/// Makes the end of memory an error with a message and an exit code. By default the process would
/// end by SIGABRT.
///
/// # Errors
/// The system refuses to install the handler.
#[allow(unsafe_code, reason = "an action for a signal may only do what is safe in a handler")]
pub fn say_if_it_ends() -> io::Result<()> {
    let action = || {
        if IS_OUT.load(Ordering::Relaxed) {
            let _ = rustix::io::write(rustix::stdio::stderr(), OUT_OF_MEMORY);
            signal_hook::low_level::exit(OUT_OF_MEMORY_CODE);
        }
    };
    // SAFETY: the action reads an atomic, writes to a descriptor and ends the process. All of it is
    // safe in a signal handler, and nothing is allocated.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGABRT, action) }.map(drop)
}

/// Set once the system gave no memory.
static IS_OUT: AtomicBool = AtomicBool::new(false);

/// The system's allocator. It remembers whether it failed, because Rust ends a process whose
/// allocation failed in the same way as one with a fault of its own.
struct Remembering;

#[global_allocator]
static ALLOCATOR: Remembering = Remembering;

impl Remembering {
    fn note(block: *mut u8) -> *mut u8 {
        if block.is_null() {
            IS_OUT.store(true, Ordering::Relaxed);
        }
        block
    }
}

// SAFETY: every call goes to the system's allocator as it came, and its result comes back.
#[allow(unsafe_code, reason = "the trait is unsafe")]
unsafe impl GlobalAlloc for Remembering {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of this function.
        Self::note(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        Self::note(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: as above.
        Self::note(unsafe { System.realloc(block, layout, len) })
    }
}

fn machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the smallest limit of the groups in `groups`, which has the form of `/proc/self/cgroup`,
/// and of all groups above them. In a container, `groups` may name paths that do not exist there;
/// the root of the tree always exists.
fn limit(tree: &Path, files: &[&str], groups: &str) -> Option<u64> {
    let paths = groups.lines().filter_map(|line| {
        let (kinds, path) = line.split_once(':')?.1.split_once(':')?;
        let has_memory = kinds.is_empty() || kinds.split(',').any(|kind| kind == "memory");
        has_memory.then(|| PathBuf::from(path.trim_start_matches('/')))
    });
    let all =
        paths.flat_map(|path| path.ancestors().map(|above| tree.join(above)).collect::<Vec<_>>());
    // A group without a limit has `max`, or a number larger than any memory.
    let found = all.flat_map(|group| files.iter().map(move |file| group.join(file)));
    found.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_a_group_and_its_ancestors_counts() {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let of = |groups: &str| limit(tree.path(), &["memory.max", "memory.high"], groups);
        assert_eq!(of("0::/a/b\n"), None);
        write("a/memory.max", "500\n");
        write("a/b/memory.max", "max\n");
        assert_eq!(of("0::/a/b\n"), Some(500));
        write("a/b/memory.high", "300\n");
        assert_eq!(of("0::/a/b\n"), Some(300));
        assert_eq!(of("0::/a\n"), Some(500));
        // Paths that do not exist here, and groups of other controllers.
        write("memory.max", "900\n");
        assert_eq!(of("0::/elsewhere/c\n"), Some(900));
        assert_eq!(of("4:cpu,memory:/a\n3:pids:/a/b\n"), Some(500));
        assert_eq!(of("3:pids:/a/b\n"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
