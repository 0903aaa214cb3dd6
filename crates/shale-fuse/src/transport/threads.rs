//! Threads and device handles of a session, within what the process may have.

use std::os::fd::OwnedFd;

use super::device;

/// Files that the process must still be able to open when each thread has its handle: for the list
/// of mounts and for files written about a mount.
const HANDLES_LEFT: usize = 8;
/// Threads that the process must still be able to start then: those that wait for requests, for the
/// end of the mount, for the end of the process that watches, and for idle time.
const THREADS_LEFT: usize = 5;

/// Opens one device handle for each thread, if the process can still open some more files then;
/// otherwise none, and the threads share one handle. An ordinary user may not be allowed to open
/// the device, and a process that serves many images may reach its limit of open files.
pub(super) fn reserve(thread_count: usize) -> Vec<OwnedFd> {
    if thread_count < 2 {
        return Vec::new();
    }
    let handles = (0..thread_count + HANDLES_LEFT).map(|_| device::open());
    let mut handles: Vec<_> = handles.collect::<Result<_, _>>().unwrap_or_default();
    handles.truncate(thread_count);
    handles
}

/// Returns how many threads can be started, between one and `wanted`. Starts them to find out: once
/// the mount is served it is too late to use fewer.
pub(super) fn startable(wanted: usize) -> usize {
    let start = |_| std::thread::Builder::new().spawn(std::thread::park).ok();
    let threads: Vec<_> = (0..wanted + THREADS_LEFT).map_while(start).collect();
    let count = threads.len().saturating_sub(THREADS_LEFT).clamp(1, wanted);
    for thread in threads {
        thread.thread().unpark();
        let _ = thread.join();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_handles_stay_within_what_the_process_may_have() {
        assert_eq!([1, 2, 5].map(startable), [1, 2, 5]);
        assert!(reserve(1).is_empty());
        // None at all if this process may not open the device.
        let reserved = reserve(3).len();
        assert!(reserved == 0 || reserved == 3, "{reserved}");
    }
}
