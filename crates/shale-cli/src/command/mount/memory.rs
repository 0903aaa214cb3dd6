//! The memory that this process can use: that of the machine, or less if it runs in a control group
//! with a limit, as containers and services do. A driver that ignores such a limit is killed.

use std::fs;
use std::path::{Path, PathBuf};

/// The trees of control groups, of version 2 and of version 1, and the files with memory limits.
const TREES: [(&str, &[&str]); 2] = [
    ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
    ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"]),
];

/// Returns the usable memory in bytes, or `None` if it is unknown.
pub fn memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = TREES.iter().filter_map(|(tree, files)| limit(Path::new(tree), files, &groups));
    limits.chain(machine()).min()
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
