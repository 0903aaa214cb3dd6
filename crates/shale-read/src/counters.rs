//! What reading an image costs, in counts that are the same on every machine.
//!
//! Tests assert them. There is one set per image; an operation costs a few relaxed atomic
//! additions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of one image.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }

        /// The values of the counters. They are read one after the other, not at one instant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct CounterSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The values so far.
            pub fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Relaxed),)* }
            }
        }

        impl CounterSnapshot {
            /// The difference to the values of `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }

            /// Names and values of all counters in a fixed order, for statistics.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Frames decoded, references included. A frame counts once it is decoded in part.
    frames_decoded,
    /// Times that decoding a frame went on where it had stopped.
    frames_continued,
    /// Plain bytes decoded.
    plain_bytes_decoded,
    /// Frames found in the frame cache, or decoded by another reader meanwhile.
    frame_hits,
    /// Frames not found in the frame cache.
    frame_misses,
    /// Frames decoded by workers for a read in progress.
    frames_shared,
    /// Frames prefetched: decoded because a reader seemed to need them next.
    frames_prefetched,
    /// Prefetched frames that a reader used.
    prefetch_used,
    /// Prefetched frames that were evicted before a reader used them.
    prefetch_wasted,
    /// Chunks of deflate streams that were rebuilt.
    chunks_rebuilt,
    /// Table pages read from the source, dictionaries included.
    pages_read,
    /// Table pages found in the page cache.
    page_hits,
    /// Reads of the source.
    source_reads,
    /// Bytes read from the source.
    source_bytes,
    /// Reads of damaged bytes that parity repaired.
    reads_repaired,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}
