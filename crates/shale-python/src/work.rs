//! Long work in a thread of its own, while this one listens to Python: the interrupt key ends it
//! at once, and a function of the caller hears how far it is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use shale::{Cancel, Phase, Progress};

/// How often signals are looked at and progress is told.
const TICK: Duration = Duration::from_millis(50);

/// What the work has done so far, in numbers that other threads read.
#[derive(Default)]
pub(crate) struct Counts {
    phase: Mutex<Option<Phase>>,
    phases: AtomicUsize,
    found_items: AtomicU64,
    found_bytes: AtomicU64,
    done_items: AtomicU64,
    done_bytes: AtomicU64,
}

impl Progress for Counts {
    fn phase(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Some(phase);
        self.phases.fetch_add(1, Relaxed);
        let numbers = [&self.found_items, &self.found_bytes, &self.done_items, &self.done_bytes];
        numbers.into_iter().for_each(|number| number.store(0, Relaxed));
    }

    fn found(&self, items: u64, bytes: u64) {
        self.found_items.fetch_add(items, Relaxed);
        self.found_bytes.fetch_add(bytes, Relaxed);
    }

    fn done(&self, items: u64, bytes: u64) {
        self.done_items.fetch_add(items, Relaxed);
        self.done_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Counts {
    /// Calls `listener(phase, done_items, found_items, done_bytes, found_bytes)`.
    fn tell(&self, py: Python<'_>, listener: &Py<PyAny>) -> PyResult<()> {
        let Some(phase) = *self.phase.lock().unwrap_or_else(PoisonError::into_inner) else {
            return Ok(());
        };
        let number = |of: &AtomicU64| of.load(Relaxed);
        let told = (
            phase.name(),
            number(&self.done_items),
            number(&self.found_items),
            number(&self.done_bytes),
            number(&self.found_bytes),
        );
        listener.call1(py, told).map(drop)
    }
}

/// Does `work` and returns its result. An exception of the listener, or a signal that raises one,
/// sets `cancel`, and is raised once the work has ended.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    listener: Option<&Py<PyAny>>,
    work: impl FnOnce(&Counts) -> T + Send,
) -> PyResult<T> {
    let counts = Counts::default();
    let (sender, receiver) = channel::<()>();
    let receiver = Mutex::new(receiver);
    let mut raised = None;
    let ended = thread::scope(|scope| {
        let counts = &counts;
        let worker = scope.spawn(move || {
            // Dropped at the end, whatever the end is.
            let _sender = sender;
            work(counts)
        });
        loop {
            let wait = || {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(TICK)
            };
            if py.detach(wait) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if raised.is_none() {
                let told = py.check_signals().and_then(|()| match listener {
                    Some(listener) => counts.tell(py, listener),
                    None => Ok(()),
                });
                if let Err(error) = told {
                    cancel.cancel();
                    raised = Some(error);
                }
            }
        }
        py.detach(|| worker.join())
    });
    if let Some(error) = raised {
        return Err(error);
    }
    if let Some(listener) = listener {
        counts.tell(py, listener)?;
    }
    ended.map_err(|_| PyRuntimeError::new_err("a thread of this module panicked; please report it"))
}
