//! Ctrl-C and its kin.
//!
//! The first SIGINT or SIGTERM asks for an orderly end; a second one ends the program at once, as
//! people expect who press the keys twice.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shale::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Rust ignores SIGPIPE, so that writing to a closed pipe is an error; that error is handled (see
/// `report`), so it stays that way. Named here so that nobody has to wonder.
pub fn ignore_broken_pipe_default() {}

/// A switch that the first signal throws.
pub fn cancel() -> io::Result<Cancel> {
    let cancel = Cancel::new();
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Order matters: the second signal must find the flag of the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, cancel.flag())?;
    }
    Ok(cancel)
}

/// Calls `end` in a thread of its own at every SIGINT, SIGTERM or SIGHUP.
pub fn on_end(end: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let seen = AtomicBool::new(false);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            seen.store(true, Ordering::Relaxed);
            end();
        }
    })?;
    Ok(())
}
