//! Ctrl-C and its kin.
//!
//! The first SIGINT or SIGTERM asks for an orderly end; a second one ends the program at once, as
//! people expect who press the keys twice. A signal that whoever started the program had ignored
//! stays ignored: so nohup(1) does it, and so do shells with what they start in the background.
//! SIGPIPE stays ignored, as Rust has it: writing to a pipe whose reader is gone is an error that
//! `report` turns into a quiet end.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shale::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Has a write that meets the limit on the size of files be an error as on a full disk, of which
/// people are told and after which is tidied up, and not the end of the program.
pub fn outlive_size_limit() -> io::Result<()> {
    // Caught, and nothing done.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(|_| ())
}

/// A switch that the first signal throws.
pub fn cancel() -> io::Result<Cancel> {
    let cancel = Cancel::new();
    let again = Arc::new(AtomicBool::new(false));
    for signal in heeded() {
        // Order matters: the second signal must find the flag of the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, cancel.flag())?;
    }
    Ok(cancel)
}

/// Calls `end` with every SIGINT, SIGTERM or SIGHUP, in a thread of its own, one after the other.
pub fn on_end(end: impl Fn(c_int) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(heeded())?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            end(signal);
        }
    })?;
    Ok(())
}

/// SIGINT, SIGTERM and SIGHUP without those that are ignored.
fn heeded() -> impl Iterator<Item = c_int> {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// The signals that a process ignores, a bit each, by its status in /proc: asking the system
/// itself takes unsafe code. None where the status does not say.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("Name:\tshale\nSigIgn:\t0000000000001001\nSigCgt:\t1\n"), 0x1001);
        assert_eq!(ignored("SigIgn: ?\n"), 0);
        assert_eq!(ignored(""), 0);
    }
}
