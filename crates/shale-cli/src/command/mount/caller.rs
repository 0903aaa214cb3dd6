//! Signals to the process that was called, while it waits for the one that mounts and serves.
//!
//! That one has a process group of its own and does not get what the terminal sends, and nobody
//! would know of its mount: so each signal is passed on, and the caller ends when it has ended. A
//! second signal ends the caller at once. Once success is decided signals change nothing: what is
//! told is what is so.

use std::ffi::c_int;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use shale::{Cancel, Error};
use signal_hook::low_level::exit;

use crate::exit::Exit;
use crate::signal;

/// What a process that waits for a driver does with signals.
pub struct Caller(Arc<Shared>);

struct Shared {
    cancel: Cancel,
    stage: Mutex<Stage>,
}

/// What the process is at.
#[derive(Clone, Copy)]
enum Stage {
    /// No driver was started.
    Check,
    /// This one is waited for.
    Wait(Pid),
    /// The driver works, or has ended and its number may be another's.
    Over,
}

impl Caller {
    /// Takes charge of signals, in a thread of its own.
    pub fn new() -> anyhow::Result<Self> {
        let stage = Mutex::new(Stage::Check);
        let shared = Arc::new(Shared { cancel: Cancel::new(), stage });
        let caller = Self(Arc::clone(&shared));
        signal::on_end(move |signal| shared.end(signal)).context("cannot wait for signals")?;
        Ok(caller)
    }

    /// The switch that the first signal throws.
    pub fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// Starts the driver, which gets every signal from now on.
    ///
    /// # Errors
    /// It cannot be started; a signal came before.
    pub fn start(&self, driver: &mut Command) -> anyhow::Result<Child> {
        // Held, so that no signal comes between the start and the number.
        let mut stage = self.0.stage();
        if self.cancel().is_cancelled() {
            return Err(Error::Cancelled.into());
        }
        let child = driver.spawn().context("cannot start the background process")?;
        *stage = Stage::Wait(Pid::from_child(&child));
        Ok(child)
    }

    /// Lets go of a driver that works. False if a signal came before, which ends it.
    pub fn let_go(&self) -> bool {
        let mut stage = self.0.stage();
        if self.cancel().is_cancelled() {
            return false;
        }
        *stage = Stage::Over;
        true
    }

    /// Waits until the driver has ended.
    pub fn wait(&self, driver: &mut Child) -> anyhow::Result<ExitStatus> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let wait = || waitid(WaitId::Pid(Pid::from_child(driver)), ended);
        rustix::io::retry_on_intr(wait).context("waiting for the background process")?;
        // Its number is free with the next call, and no signal may go to whoever has it then.
        *self.0.stage() = Stage::Over;
        driver.wait().context("waiting for the background process")
    }
}

impl Shared {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a signal asks for.
    fn end(&self, signal: c_int) {
        let stage = self.stage();
        if let Stage::Wait(driver) = *stage
            && let Some(signal) = Signal::from_named_raw(signal)
        {
            let _ = kill_process(driver, signal);
        }
        let is_first = !self.cancel.is_cancelled();
        self.cancel.cancel();
        if !is_first && !matches!(*stage, Stage::Over) {
            exit(Exit::Interrupted.code().into());
        }
    }
}
