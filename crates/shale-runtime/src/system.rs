//! System calls that Rust cannot call safe.
//!
//! There are two: leaving a namespace, which `rustix` marks unsafe because other flags of the same
//! call share file handles between threads, and marking handles by their number.
#![allow(unsafe_code)]

use rustix::thread::UnshareFlags;

/// Enters a user namespace and a mount namespace, both new. The process must have one thread.
///
/// # Errors
/// The kernel, or a rule of the system, refuses it.
pub fn enter_new_namespaces() -> rustix::io::Result<()> {
    // SAFETY: the flags do not contain FILES, the one with which handles of other threads would
    // change their meaning.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }
}

/// Marks all handles except the standard ones, which a caller may have left open, so that no
/// program that this process executes gets them: a driver that kept a pipe open would let its
/// reader wait.
pub fn keep_inherited_handles() {
    let Ok(list) = std::fs::read_dir("/proc/self/fd") else { return };
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.parse::<i32>().ok()
    };
    let numbers: Vec<i32> = list.filter_map(number).filter(|number| *number > 2).collect();
    for number in numbers {
        let flags = rustix::io::FdFlags::CLOEXEC;
        // SAFETY: the handle is only marked, and a number that is closed by now, as that of the
        // list, is an error that changes nothing.
        let handle = unsafe { rustix::fd::BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(handle, flags);
    }
}
