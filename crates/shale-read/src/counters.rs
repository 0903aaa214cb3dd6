//! What reading an image cost, in things that can be counted: the same on every machine, so that
//! tests can assert it. One set per image; a few relaxed atomic additions per operation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of one image.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }

        /// The counters at one moment (each read on its own, not all at one instant).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct CounterSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The counts so far.
            pub fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Relaxed),)* }
            }
        }

        impl CounterSnapshot {
            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }

            /// Name and count of each, in a fixed order, for statistics.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Frames decoded, references included.
    frames_decoded,
    /// Plain bytes of the frames decoded.
    plain_bytes_decoded,
    /// Frames asked for and found in the frame cache (or decoded by another reader meanwhile).
    frame_hits,
    /// Frames asked for and not found there.
    frame_misses,
    /// Frames decoded for a reader by another thread, ahead of its getting there.
    frames_shared,
    /// Frames decoded because they seemed to be wanted next.
    frames_prefetched,
    /// Of those, how many a reader has used.
    prefetch_used,
    /// Of those, how many were dropped from the cache before a reader used them.
    prefetch_wasted,
    /// Table pages read from the source, dictionaries included.
    pages_read,
    /// Table pages asked for and found in the page cache.
    page_hits,
    /// Reads of the source.
    source_reads,
    /// Bytes read from the source.
    source_bytes,
    /// Reads of damaged bytes that parity made right.
    reads_repaired,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}
