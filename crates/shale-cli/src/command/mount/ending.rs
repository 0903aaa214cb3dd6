//! A signal to the process that mounts and serves, at whatever moment it comes.
//!
//! No mount may stay without its driver, so what is mounted is unmounted first and the process
//! ends behind it. What takes long while nothing is mounted, such as opening an image on a slow
//! disk, is not waited for: there the process dies of the signal, as if nobody had caught it.

use std::ffi::c_int;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shale::{Cancel, Error};
use shale_fuse::{MountError, Mounted, Unmounter};
use signal_hook::low_level::emulate_default_handler;

use crate::report::to_stderr;
use crate::signal;

/// How long a mount that cannot be unmounted is left alone before the next attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// What a process that mounts does with signals.
pub struct Ending(Arc<Shared>);

struct Shared {
    cancel: Cancel,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    mounts: Vec<Unmounter>,
}

/// What the process is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Images are checked, or one is laid out for the kernel, which ends soon once it is cancelled.
    Prepare,
    /// An image is opened; it may take long.
    Open,
    /// An image is being mounted: whether it is mounted cannot be told.
    Mount,
    /// All are mounted. The process ends by itself when they are gone.
    Serve,
}

impl Ending {
    /// Takes charge of signals, in a thread of its own.
    pub fn new() -> io::Result<Self> {
        let state = Mutex::new(State { stage: Stage::Prepare, mounts: Vec::new() });
        let shared = Arc::new(Shared { cancel: Cancel::new(), state });
        let ending = Self(Arc::clone(&shared));
        signal::on_end(move |signal| shared.end(signal))?;
        Ok(ending)
    }

    /// The switch that the first signal throws.
    pub fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// An image is about to be laid out. Fails once a signal came.
    pub fn prepare(&self) -> Result<(), Error> {
        self.0.enter(Stage::Prepare)
    }

    /// An image is about to be opened. Fails once a signal came.
    pub fn open(&self) -> Result<(), Error> {
        self.0.enter(Stage::Open)
    }

    /// Has `mount` make a mount, and unmounts it at the next signal.
    ///
    /// # Errors
    /// Those of `mount`; a signal came, and nothing was mounted or is any more.
    pub fn mount(
        &self,
        mount: impl FnOnce() -> Result<Mounted, MountError>,
    ) -> anyhow::Result<Mounted> {
        self.0.enter(Stage::Mount)?;
        let mounted = mount()?;
        self.0.state().mounts.push(mounted.unmounter());
        // Behind the line above: a signal either finds the mount or is found here.
        self.check()?;
        Ok(mounted)
    }

    /// All is mounted. Fails once a signal came.
    pub fn serve(&self) -> Result<(), Error> {
        self.0.enter(Stage::Serve)
    }

    /// Fails once a signal came.
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

    /// Does what a signal asks for.
    fn end(&self, signal: c_int) {
        // Held, so that nothing begins to be mounted by a process about to die.
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
            // A busy one is detached at once, so that a signal always ends the process.
            if mount.unmount(false).is_err()
                && let Err(error) = mount.unmount(true)
            {
                to_stderr(&format!("shale: {error}"));
                if is_first {
                    insist(mount);
                }
            }
        }
    }
}

/// Goes on trying: what is mounted over a mount goes some time, and no signal comes then.
fn insist(mount: Unmounter) {
    let insist = move || while !mount.wait_for_end(PAUSE) && mount.unmount(true).is_err() {};
    // Without a thread it is left to the next signal.
    let _ = std::thread::Builder::new().name("unmount".into()).spawn(insist);
}
