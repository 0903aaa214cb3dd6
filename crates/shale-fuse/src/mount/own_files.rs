//! A table of open files that belongs to one thread.
//!
//! The threads of a process share one table. It is closed when the last of them ends, so one thread
//! that waits in the kernel keeps all files of a killed process open. A thread with a table of its
//! own closes it when it ends itself.
//!
//! The only `unsafe` code of this crate is here: no crate that is used offers the system call.

use rustix::stdio;
use std::fs::File;
use std::io;

/// The first file after standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Gives the calling thread a table of its own. Only standard input, output and error are open in
/// it, and they lead to `/dev/null`: a pipe that the process writes to ends with the other threads.
/// The thread must own no file, and must never use one of another thread. Other threads must not
/// use what it opens.
///
/// # Errors
/// Linux before 5.9 does not offer it: the thread shares the table as before. There is no
/// `/dev/null`.
pub(super) fn take() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_UNSHARE as libc::c_int;
    // SAFETY: it changes the table of the calling thread alone, which owns none of these files.
    #[allow(unsafe_code)]
    let result = unsafe { libc::close_range(FIRST, libc::c_uint::MAX, flags) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    stdio::dup2_stdin(&nowhere)?;
    stdio::dup2_stdout(&nowhere)?;
    stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn files_of_other_threads_stay_open() {
        let mut before = File::open("/proc/self/stat").unwrap();
        let count = || std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| {
                take().unwrap();
                for number in 0..3 {
                    let place = std::fs::read_link(format!("/proc/thread-self/fd/{number}"));
                    assert_eq!(place.unwrap().to_str(), Some("/dev/null"));
                }
                count()
            });
            // Standard input, output and error, and the directory that was read.
            assert!(alone.join().unwrap() <= 4);
        });
        let mut text = String::new();
        before.read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
    }
}
