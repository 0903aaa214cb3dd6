//! A limit on the memory of a process and of all that the kernel holds for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Groups that this process has asked for: each gets a name of its own.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Returns whether the tests themselves run in a control group with a limit on memory.
pub fn is_limited() -> bool {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let paths = groups.lines().filter_map(|line| line.rsplit_once(":/"));
    let mut all = paths.flat_map(|(_, path)| Path::new(path).ancestors());
    all.any(|group| {
        let read = |file| fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join(file));
        let is_set = |file| read(file).is_ok_and(|text| text.trim() != "max");
        is_set("memory.max") || is_set("memory.high")
    })
}

/// A control group with a limit, removed when it is dropped.
pub struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// A group whose processes end when they need more than `bytes`; none, and said so, where
    /// groups cannot be made.
    pub fn new(bytes: u64) -> Option<Self> {
        // Version 1 has a tree for each controller, version 2 one for all.
        let kinds =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (tree, file) in kinds {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("shale-test-{}-{number}", std::process::id());
            let group = Path::new(tree).join(name);
            if fs::create_dir(&group).is_ok() {
                let limit = Self(group);
                // There is no such file where the directory is no group.
                if limit.0.join(file).exists() && limit.set(file, bytes) {
                    limit.set("memory.swap.max", 0);
                    return Some(limit);
                }
            }
        }
        println!("skipped: no control group for memory can be made here");
        None
    }

    fn set(&self, file: &str, value: u64) -> bool {
        fs::write(self.0.join(file), value.to_string()).is_ok()
    }

    /// The command, in this group.
    pub fn around(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        inside.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        inside
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
