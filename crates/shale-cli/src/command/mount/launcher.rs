//! The process that the user called, while it waits for the background process to mount.
//!
//! The background process has a process group of its own, so the terminal does not send it signals.
//! The launcher therefore passes each signal on and ends after the background process has ended. A
//! second signal ends the launcher at once. Once the launcher has decided to report success,
//! signals change nothing.

use std::ffi::c_int;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use shale::{Cancel, HostError as Error};
use signal_hook::low_level::exit;

use crate::exit::Exit;
use crate::signal;

/// Handles the signals of a process that waits for a driver.
pub struct Launcher(Arc<Shared>);

struct Shared {
    cancel: Cancel,
    stage: Mutex<Stage>,
}

/// What the process is doing.
#[derive(Clone, Copy)]
enum Stage {
    /// No driver has been started.
    Check,
    /// Waiting for this driver.
    Wait(Pid),
    /// The driver works, or it has ended and its number may belong to another process.
    Over,
}

impl Launcher {
    /// Starts the thread that handles signals.
    ///
    /// # Errors
    /// The thread or the handlers cannot be set up.
    pub fn new() -> anyhow::Result<Self> {
        let stage = Mutex::new(Stage::Check);
        let shared = Arc::new(Shared { cancel: Cancel::new(), stage });
        let launcher = Self(Arc::clone(&shared));
        signal::on_end(move |signal| shared.end(signal)).context("cannot wait for signals")?;
        Ok(launcher)
    }

    /// Returns the switch that the first signal sets.
    pub fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// Starts the driver. From now on it gets every signal.
    ///
    /// # Errors
    /// The driver cannot be started, or a signal came before.
    pub fn start(&self, driver: &mut Command) -> anyhow::Result<Child> {
        // Locked until the process id is known, so that a signal cannot come in between.
        let mut stage = self.0.stage();
        if self.cancel().is_cancelled() {
            return Err(Error::Cancelled.into());
        }
        let child = driver.spawn().context("cannot start the background process")?;
        *stage = Stage::Wait(Pid::from_child(&child));
        Ok(child)
    }

    /// Stops passing signals on to a driver that works. Returns false if a signal came before,
    /// which ends the driver.
    pub fn let_go(&self) -> bool {
        let mut stage = self.0.stage();
        if self.cancel().is_cancelled() {
            return false;
        }
        *stage = Stage::Over;
        true
    }

    /// Waits until the driver has ended.
    ///
    /// # Errors
    /// The system call failed.
    pub fn wait(&self, driver: &mut Child) -> anyhow::Result<ExitStatus> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let wait = || waitid(WaitId::Pid(Pid::from_child(driver)), ended);
        rustix::io::retry_on_intr(wait).context("waiting for the background process")?;
        // The next call frees the process id, and signals must not go to a process that reuses it.
        *self.0.stage() = Stage::Over;
        driver.wait().context("waiting for the background process")
    }
}

impl Shared {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a signal.
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
