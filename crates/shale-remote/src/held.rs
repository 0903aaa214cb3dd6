//! Bytes that arrived and were not yet read, and ranges that are on their way.
//!
//! A byte is on its way once: whoever needs it meanwhile waits. The memory is bounded; the bytes
//! that arrived first leave first. Offsets of spans are multiples of [`BLOCK_LEN`].

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Spans begin and end at multiples of this, except at the end of the object.
pub(crate) const BLOCK_LEN: u64 = 4096;

/// What is known of a byte.
pub(crate) enum Presence {
    /// It is here: a span, and where the span begins.
    Here(u64, Arc<Vec<u8>>),
    /// It is on its way.
    Coming,
    /// Nobody has asked for it.
    Missing,
}

#[derive(Debug)]
enum Span {
    Coming(u64),
    Here(Arc<Vec<u8>>),
}

impl Span {
    fn len(&self) -> u64 {
        match self {
            Span::Coming(len) => *len,
            Span::Here(bytes) => bytes.len() as u64,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// By where they begin. They do not overlap.
    spans: BTreeMap<u64, Span>,
    /// Where spans that arrived begin, in that order.
    order: VecDeque<u64>,
    bytes: u64,
}

/// The bytes of one object that are in memory.
#[derive(Debug)]
pub(crate) struct Held {
    state: Mutex<State>,
    arrived: Condvar,
    bytes_max: u64,
}

impl Held {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { state: Mutex::default(), arrived: Condvar::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the byte at `at`.
    pub(crate) fn find(&self, at: u64) -> Presence {
        let state = self.lock();
        match state.spans.range(..=at).next_back() {
            Some((start, span)) if at - start < span.len() => match span {
                Span::Coming(_) => Presence::Coming,
                Span::Here(bytes) => Presence::Here(*start, Arc::clone(bytes)),
            },
            _ => Presence::Missing,
        }
    }

    /// The gap around the byte at `at`, if that is missing: from the end of the span before it to
    /// the begin of the span after it.
    pub(crate) fn gap_at(&self, at: u64) -> Option<Range<u64>> {
        let state = self.lock();
        let before = state.spans.range(..=at).next_back();
        let start = before.map_or(0, |(start, span)| start + span.len());
        let after = state.spans.range(at..).next();
        (start <= at).then(|| start..after.map_or(u64::MAX, |(start, _)| *start))
    }

    /// Waits until the byte at `at` is no longer on its way.
    pub(crate) fn wait(&self, at: u64) {
        let is_coming = |state: &mut State| {
            let span = state.spans.range(..=at).next_back();
            matches!(span, Some((start, Span::Coming(len))) if at - start < *len)
        };
        drop(self.arrived.wait_while(self.lock(), is_coming));
    }

    /// Claims the parts of `range` that are neither here nor on their way. The caller has to bring
    /// or give up each of them.
    pub(crate) fn claim(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut state = self.lock();
        let mut gaps = Vec::new();
        let mut at = range.start;
        let before = state.spans.range(..=at).next_back();
        if let Some((start, span)) = before {
            at = at.max(start + span.len());
        }
        while at < range.end {
            let next = state.spans.range(at..range.end).next();
            let (start, end) =
                next.map_or((range.end, range.end), |(start, span)| (*start, start + span.len()));
            if at < start {
                gaps.push(at..start);
            }
            at = end;
        }
        for gap in &gaps {
            state.spans.insert(gap.start, Span::Coming(gap.end - gap.start));
        }
        gaps
    }

    /// Cuts a claimed range in two at `at`, each to be brought or given up alone.
    pub(crate) fn cut(&self, range: &Range<u64>, at: u64) {
        let mut state = self.lock();
        state.spans.insert(range.start, Span::Coming(at - range.start));
        state.spans.insert(at, Span::Coming(range.end - at));
    }

    /// The bytes of a claimed range are here.
    pub(crate) fn bring(&self, start: u64, bytes: Vec<u8>) -> Arc<Vec<u8>> {
        let bytes = Arc::new(bytes);
        let mut state = self.lock();
        state.bytes += bytes.len() as u64;
        if let Some(Span::Here(former)) = state.spans.insert(start, Span::Here(Arc::clone(&bytes)))
        {
            state.bytes -= former.len() as u64;
        } else {
            state.order.push_back(start);
        }
        while state.bytes > self.bytes_max
            && let Some(oldest) = state.order.pop_front()
        {
            if let Some(Span::Here(bytes)) = state.spans.remove(&oldest) {
                state.bytes -= bytes.len() as u64;
            }
        }
        drop(state);
        self.arrived.notify_all();
        bytes
    }

    /// The bytes of a claimed range do not come.
    pub(crate) fn give_up(&self, start: u64) {
        self.lock().spans.remove(&start);
        self.arrived.notify_all();
    }

    /// Drops what arrived of `range`.
    pub(crate) fn forget(&self, range: Range<u64>) {
        let mut state = self.lock();
        let first = state.spans.range(..=range.start).next_back().map_or(0, |(start, _)| *start);
        let starts: Vec<u64> = state
            .spans
            .range(first..range.end)
            .filter(|(start, span)| {
                matches!(span, Span::Here(_)) && *start + span.len() > range.start
            })
            .map(|(start, _)| *start)
            .collect();
        for start in starts {
            if let Some(span) = state.spans.remove(&start) {
                state.bytes -= span.len();
            }
            state.order.retain(|other| *other != start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_claimed_once() {
        let held = Held::new(1 << 20);
        let gaps = |range: Range<u64>| -> Vec<(u64, u64)> {
            held.claim(range).iter().map(|gap| (gap.start, gap.end)).collect()
        };
        assert_eq!(gaps(0..100), [(0, 100)]);
        assert_eq!(gaps(50..150), [(100, 150)]);
        assert!(gaps(20..120).is_empty());
        held.give_up(0);
        assert_eq!(gaps(0..200), [(0, 100), (150, 200)]);
        held.bring(100, vec![7; 50]);
        assert!(matches!(held.find(149), Presence::Here(100, _)));
        assert!(matches!(held.find(150), Presence::Coming));
        assert!(matches!(held.find(200), Presence::Missing));
    }

    #[test]
    fn what_arrived_first_leaves_first() {
        let held = Held::new(100);
        for start in [0, 60, 120] {
            held.claim(start..start + 60);
            held.bring(start, vec![0; 60]);
        }
        assert!(matches!(held.find(0), Presence::Missing));
        assert!(matches!(held.find(120), Presence::Here(..)));
        held.forget(120..121);
        assert!(matches!(held.find(120), Presence::Missing));
    }
}
