//! What reading an object costs, in counts that are the same on every machine.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Live counters of one object.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) round_trips: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) cached_bytes: AtomicU64,
}

/// The values of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CounterSnapshot {
    /// Batches of requests: those of a batch are sent together, without waiting for each other.
    pub round_trips: u64,
    /// Requests for bytes of the object, those tried again included.
    pub requests: u64,
    /// Requests that were tried again.
    pub retries: u64,
    /// Bytes of the object that arrived.
    pub received_bytes: u64,
    /// Bytes of the object that came from the cache on disk.
    pub cached_bytes: u64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            round_trips: self.round_trips.load(Relaxed),
            requests: self.requests.load(Relaxed),
            retries: self.retries.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            cached_bytes: self.cached_bytes.load(Relaxed),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}
