//! Waits for events of the system: a change of the list of mounts, of a directory, the end of a
//! process.
//!
//! A minute without any event fails the test.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Waits until `holds`, which depends on the list of mounts.
#[track_caller]
pub fn wait_for_mounts(otherwise: &str, mut holds: impl FnMut() -> bool) {
    let table = File::open("/proc/self/mountinfo").unwrap();
    while !holds() {
        assert!(is_ready(&table, PollFlags::PRI, &PATIENCE), "{otherwise}");
    }
}

/// Waits until `holds`, which depends on files in `directory` that are made, replaced or removed.
#[track_caller]
pub fn wait_for_files(otherwise: &str, directory: &Path, mut holds: impl FnMut() -> bool) {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    use inotify::WatchFlags as Kinds;
    let kinds = Kinds::CREATE | Kinds::MOVED_TO | Kinds::DELETE;
    inotify::add_watch(&events, directory, kinds).unwrap();
    while !holds() {
        assert!(is_ready(&events, PollFlags::IN, &PATIENCE), "{otherwise}");
        rustix::io::read(&events, &mut [0u8; 4096]).unwrap();
    }
}

/// Waits for the end of a process that is not a child.
#[track_caller]
pub fn wait_for_end(process: Pid) {
    // No such process: it has ended.
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return };
    assert!(is_ready(&process, PollFlags::IN, &PATIENCE), "the process does not end");
}

/// Waits for the end of a child, and calls `help` at intervals until then.
#[track_caller]
pub fn ended(mut child: Child, mut help: impl FnMut()) -> (ExitStatus, String) {
    const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    const HELP_COUNT_MAX: usize = 6000;
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    let mut helped = || {
        help();
        is_ready(&process, PollFlags::IN, &INTERVAL)
    };
    if !(0..HELP_COUNT_MAX).any(|_| helped()) {
        child.kill().unwrap();
        panic!("the process does not end");
    }
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// Waits for an event on a handle; returns false if there is none in time.
fn is_ready(handle: &impl AsFd, flags: PollFlags, patience: &Timespec) -> bool {
    let mut handles = [PollFd::new(handle, flags)];
    rustix::io::retry_on_intr(|| poll(&mut handles, Some(patience))).unwrap() > 0
}
