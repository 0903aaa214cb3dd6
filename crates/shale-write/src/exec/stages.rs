//! Counts the processor time of each stage of a build, for the deciding thread and for the others.
//!
//! The clock of a thread is asked only when the thread changes to another stage, because asking
//! takes a system call. A thread that waits uses no processor time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shale_host::threads::cpu_time;

use crate::plan::report::{Stage, StageTime};

/// Processor time of all stages, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct StageTimes {
    deciding: [AtomicU64; Stage::ALL.len()],
    helping: [AtomicU64; Stage::ALL.len()],
}

impl StageTimes {
    /// The stages that took any time, in their order.
    pub(crate) fn report(&self) -> Vec<StageTime> {
        let time = |counts: &[AtomicU64], stage: Stage| {
            Duration::from_nanos(counts[stage as usize].load(Ordering::Relaxed))
        };
        let all = Stage::ALL.into_iter().map(|stage| StageTime {
            stage,
            deciding: time(&self.deciding, stage),
            helping: time(&self.helping, stage),
        });
        all.filter(|time| !(time.deciding + time.helping).is_zero()).collect()
    }
}

/// What a thread works at, so that its time is counted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) stage: Stage,
    /// Part of the deciding thread's own work, which no other thread can do.
    pub(crate) is_deciding: bool,
}

/// The clock of one thread. Counts the last of its time when it is dropped.
pub(crate) struct StageClock<'env> {
    times: &'env StageTimes,
    work: Cell<Work>,
    since: Cell<Duration>,
}

impl<'env> StageClock<'env> {
    /// Starts to count the calling thread's time.
    pub(crate) fn new(times: &'env StageTimes, work: Work) -> Self {
        Self { times, work: Cell::new(work), since: Cell::new(cpu_time()) }
    }

    /// Counts from now on for `work`. Returns what was counted before.
    pub(crate) fn change(&self, work: Work) -> Work {
        let before = self.work.get();
        if before != work {
            self.count();
            self.work.set(work);
        }
        before
    }

    fn count(&self) {
        let Work { stage, is_deciding } = self.work.get();
        let counts = if is_deciding { &self.times.deciding } else { &self.times.helping };
        let now = cpu_time();
        let used = now.saturating_sub(self.since.replace(now));
        // 2^64 nanoseconds are 584 years.
        counts[stage as usize].fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for StageClock<'_> {
    fn drop(&mut self) {
        self.count();
    }
}
