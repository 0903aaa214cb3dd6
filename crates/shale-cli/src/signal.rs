//! Ctrl-C and its kin.
//!
//! The first SIGINT or SIGTERM asks for an orderly end; a second one ends the program at once, as
//! people expect who press the keys twice. SIGPIPE stays ignored, as Rust has it: writing to a pipe
//! whose reader is gone is an error that `report` turns into a quiet end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shale::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

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
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            end();
        }
    })?;
    Ok(())
}
