//! Waits for events of the system: the end of a process, a change of the list of mounts, a file
//! in a directory, work that a process has done.
//!
//! No wait is a guess how long something takes. A minute without any event fails the test.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The longest time without an event.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Waits until `holds`, which depends on the list of mounts.
#[track_caller]
pub fn for_mounts(otherwise: &str, mut holds: impl FnMut() -> bool) {
    // Opened before the first look, so that no change between look and wait is lost.
    let table = File::open("/proc/self/mounts").expect("the kernel lists mounts");
    while !holds() {
        assert!(happens(&table, PollFlags::PRI, &PATIENCE), "{otherwise}");
    }
}

/// Waits until a process that is not a child has ended and its parent has taken notice.
#[track_caller]
pub fn for_end(process: u32) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process has a number");
    // There is no such process: it has ended.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    assert!(happens(&handle, PollFlags::IN, &PATIENCE), "process {process} does not end");
    // Until its parent takes notice, it has its number. Linux 6.9 and newer tell of that, too;
    // with an older one this looks every second.
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    let is_gone = |_| {
        happens(&handle, PollFlags::empty(), &second);
        !Path::new("/proc").join(process.to_string()).exists()
    };
    assert!((0..PATIENCE.tv_sec).any(is_gone), "nobody waits for the end of process {process}");
}

/// Starts `command` and waits until a file in `folder`, named or not, was written to.
#[track_caller]
pub fn for_write(command: &mut Command, folder: &Path) -> Child {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).expect("the kernel tells of files");
    inotify::add_watch(&events, folder, inotify::WatchFlags::MODIFY).expect("the folder is there");
    let child = command.spawn().expect("the program starts");
    assert!(happens(&events, PollFlags::IN, &PATIENCE), "{command:?} writes nothing");
    child
}

/// Bytes that a process has read and written so far, plus its calls for that. The count of a
/// process that has ended stays until its parent takes notice.
pub fn work(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let numbers =
        text.lines().take(4).filter_map(|line| line.split_once(": ")?.1.parse::<u64>().ok());
    numbers.sum::<u64>()
}

/// Runs `command` to its end; returns the work that it has done.
///
/// # Panics
///
/// Panics if the command fails.
#[track_caller]
pub fn whole_work(command: &mut Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).spawn().expect("the program starts");
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).expect("a child is there until waited for");
    assert!(happens(&handle, PollFlags::IN, &PATIENCE), "{command:?} does not end");
    let work = work(child.id());
    let status = child.wait().expect("a child can be waited for");
    assert!(status.success(), "{command:?}: {status}");
    work
}

/// Waits until `child` has done this much work or has ended.
pub fn for_work(child: &mut Child, wanted: u64) {
    while work(child.id()) < wanted && matches!(child.try_wait(), Ok(None)) {
        std::thread::yield_now();
    }
}

/// Waits for an event on a handle; returns false if there is none in time.
fn happens(handle: &impl AsFd, flags: PollFlags, patience: &Timespec) -> bool {
    let mut handles = [PollFd::new(handle, flags)];
    rustix::io::retry_on_intr(|| poll(&mut handles, Some(patience))).is_ok_and(|count| count > 0)
}
