//! Ctrl-C and other signals.
//!
//! The first SIGINT, SIGTERM or SIGHUP asks for an orderly end; a second one ends the program at
//! once, as people who press Ctrl-C twice expect. A signal that was ignored when the program
//! started stays ignored: nohup(1) and shells that start a program in the background rely on that.
//! Rust ignores SIGPIPE; writing to a closed pipe is an error that `report` turns into a quiet end.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shale::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Makes a write beyond the limit on file sizes an error, like a write to a full disk. By default
/// SIGXFSZ would end the program without a message and without removing temporary files.
///
/// # Errors
/// The system refuses to install the handler.
pub fn outlive_size_limit() -> io::Result<()> {
    // The handler only sets a flag that nobody reads.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(|_| ())
}

/// Returns a flag that the first signal sets.
///
/// # Errors
/// The system refuses to install a handler.
pub fn cancel() -> io::Result<Cancel> {
    let cancel = Cancel::new();
    let again = Arc::new(AtomicBool::new(false));
    for signal in handled() {
        // Order matters: the second signal must find the flag of the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, cancel.flag())?;
    }
    Ok(cancel)
}

/// Calls `end` with each SIGINT, SIGTERM and SIGHUP, one at a time, in a separate thread.
///
/// # Errors
/// The system refuses to install a handler or to start the thread.
pub fn on_end(end: impl Fn(c_int) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(handled())?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            end(signal);
        }
    })?;
    Ok(())
}

/// The signals among SIGINT, SIGTERM and SIGHUP that are not ignored.
fn handled() -> impl Iterator<Item = c_int> {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Parses the ignored signals, one bit each, from a status file of /proc: the system call needs
/// unsafe code. Returns none if the file does not list them.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_parsed() {
        assert_eq!(ignored("Name:\tshale\nSigIgn:\t0000000000001001\nSigCgt:\t1\n"), 0x1001);
        assert_eq!(ignored("SigIgn: ?\n"), 0);
        assert_eq!(ignored(""), 0);
    }
}
