//! A budget of memory that threads share while they take files apart.
//!
//! No one waits for it: a file for which nothing is left is taken apart later, when its turn comes,
//! by the thread that decides. So what is done does not depend on the budget, only when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are left.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU64);

/// Bytes of a gate, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    gate: Arc<Gate>,
    bytes: u64,
}

impl Gate {
    /// A gate of this many bytes.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    /// Reserves bytes, if they are left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let take = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Reservation { gate: Arc::clone(self), bytes })
    }
}

impl Reservation {
    /// Gives back all but `bytes`.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let freed = self.bytes.saturating_sub(bytes);
        self.bytes -= freed;
        self.gate.0.fetch_add(freed, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_there_is_and_all_comes_back() {
        let gate = Gate::new(100);
        let mut first = gate.reserve(60).unwrap();
        assert!(gate.reserve(41).is_none());
        first.shrink(10);
        first.shrink(20);
        let second = gate.reserve(90).unwrap();
        assert!(gate.reserve(1).is_none());
        drop(first);
        drop(second);
        assert!(gate.reserve(100).is_some());
    }
}
