//! Signals to the process that mounts and serves.
//!
//! A mount must not stay without its driver, so the process unmounts before it ends. While nothing
//! is mounted and the process does something slow, such as opening an image on a slow disk, it does
//! not wait: the signal kills it as if it were not handled.

use std::ffi::c_int;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shale::{Cancel, HostError as Error};
use shale_fuse::{MountError, Mounted, Unmounter};
use signal_hook::low_level::emulate_default_handler;

use super::log::DriverLog;
use crate::signal;

/// The pause between attempts to unmount a mount that cannot be unmounted now.
const PAUSE: Duration = Duration::from_millis(500);

/// Handles the signals of a process that mounts.
pub struct Shutdown(Arc<Shared>);

struct Shared {
    cancel: Cancel,
    log: DriverLog,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    mounts: Vec<Unmounter>,
}

/// What the process is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Checking images or laying out a kernel view, which ends soon when it is cancelled.
    Prepare,
    /// Opening an image, which may take long.
    Open,
    /// Mounting an image. It is not known whether the kernel has the mount yet.
    Mount,
    /// All images are mounted. The process ends by itself when all mounts are gone.
    Serve,
}

impl Shutdown {
    /// Starts the thread that handles signals.
    ///
    /// # Errors
    /// The thread or the handlers cannot be set up.
    pub fn new(log: DriverLog) -> io::Result<Self> {
        let state = Mutex::new(State { stage: Stage::Prepare, mounts: Vec::new() });
        let shared = Arc::new(Shared { cancel: Cancel::new(), log, state });
        let shutdown = Self(Arc::clone(&shared));
        signal::on_end(move |signal| shared.end(signal))?;
        Ok(shutdown)
    }

    /// Returns the switch that the first signal sets.
    pub fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// Announces that an image is about to be laid out.
    ///
    /// # Errors
    /// A signal came.
    pub fn prepare(&self) -> Result<(), Error> {
        self.0.enter(Stage::Prepare)
    }

    /// Announces that an image is about to be opened.
    ///
    /// # Errors
    /// A signal came.
    pub fn open(&self) -> Result<(), Error> {
        self.0.enter(Stage::Open)
    }

    /// Calls `mount`, and unmounts its result at the next signal.
    ///
    /// # Errors
    /// Those of `mount`; a signal came, and nothing is mounted.
    pub fn mount(
        &self,
        mount: impl FnOnce() -> Result<Mounted, MountError>,
    ) -> anyhow::Result<Mounted> {
        self.0.enter(Stage::Mount)?;
        let mounted = mount()?;
        self.0.state().mounts.push(mounted.unmounter());
        // After the line above: either the signal finds the mount, or this finds the signal.
        self.check()?;
        Ok(mounted)
    }

    /// Announces that all images are mounted.
    ///
    /// # Errors
    /// A signal came.
    pub fn serve(&self) -> Result<(), Error> {
        self.0.enter(Stage::Serve)
    }

    /// Checks for a signal.
    ///
    /// # Errors
    /// A signal came.
    pub fn check(&self) -> Result<(), Error> {
        if self.0.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, stage: Stage) -> Result<(), Error> {
        let mut state = self.state();
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        state.stage = stage;
        Ok(())
    }

    /// Handles a signal.
    fn end(&self, signal: c_int) {
        // Locked, so that a process that is about to die does not begin to mount.
        let state = self.state();
        let is_first = !self.cancel.is_cancelled();
        self.cancel.cancel();
        let has_mounts = !state.mounts.iter().all(Unmounter::has_ended);
        let can_die = match state.stage {
            Stage::Prepare => !is_first && !has_mounts,
            Stage::Open => !has_mounts,
            Stage::Mount | Stage::Serve => false,
        };
        if can_die {
            let _ = emulate_default_handler(signal);
        }
        let mounts = state.mounts.clone();
        drop(state);
        for mount in mounts {
            // A mount that is in use is detached at once, so that a signal always ends the process.
            if mount.unmount(false).is_err()
                && let Err(error) = mount.unmount(true)
            {
                self.log.line(&error.to_string());
                if is_first {
                    keep_trying(mount);
                }
            }
        }
    }
}

/// Keeps trying to unmount: no signal comes when the file system that covers the mount is gone.
fn keep_trying(mount: Unmounter) {
    let keep_trying = move || while !mount.wait_for_end(PAUSE) && mount.unmount(true).is_err() {};
    // If the thread cannot be started, the next signal tries again.
    let _ = std::thread::Builder::new().name("unmount".into()).spawn(keep_trying);
}
