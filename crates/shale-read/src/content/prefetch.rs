//! Guesses what readers will need next, from what they read before.
//!
//! Two habits are recognised: a file that is read sequentially, and contents that are read in the
//! order of their numbers, as programs do that walk over directories (writers number contents in
//! the order of paths).
//!
//! A guess costs its reader the comparison of a few numbers. It is dropped if no processor is free,
//! starts small and grows while the habit lasts, and stops when guesses turn out wrong. So a reader
//! without a habit is not slowed down. Readers block each other only for these comparisons.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::counters::Counters;

/// Sequentially read files that are tracked at once.
const FILES_MAX: usize = 32;
/// Walks over contents that are tracked at once.
const WALKS_MAX: usize = 8;
/// Sequential reads before the first guess.
const FILE_STREAK_MIN: u32 = 1;
/// Contents in sequence before the first guess.
const WALK_STREAK_MIN: u32 = 3;
/// How far out of order reads may come, in reads of the same length: the kernel's own read-ahead
/// reorders them.
const SLACK_READS: u64 = 2;
/// How many contents a walk may leave out.
const WALK_GAP_MAX: u64 = 8;
/// Length of the first guess of a habit in bytes. It doubles while the habit lasts.
const FIRST_LEN: u64 = 512 << 10;
/// Contents examined for the first guess of a walk, and for any guess. Examining one costs as much
/// as reading a small cached file.
const WALK_CONTENTS_FIRST: u64 = 16;
const WALK_CONTENTS_MAX: u64 = 512;
/// Prefetched frames that may be wasted, beyond those used, before most guesses are dropped.
const WASTED_MAX: u64 = 64;

/// What the readers of one image did lately.
pub(crate) struct Prefetch {
    bytes_max: u64,
    memory: Mutex<Memory>,
    /// Frames that readers had needed when the last guess was made.
    needed_count: AtomicU64,
}

#[derive(Default)]
struct Memory {
    files: Vec<FileHabit>,
    walks: Vec<WalkHabit>,
    /// Number of reads, to tell which habit is the oldest.
    clock: u64,
}

/// A file that is being read.
struct FileHabit {
    content: u64,
    /// End of the furthest read.
    next: u64,
    streak: u32,
    /// Where the guesses so far end.
    ahead: u64,
    touched: u64,
}

/// Contents that are being read in the order of their numbers.
struct WalkHabit {
    last: u64,
    streak: u32,
    /// The first content that has not been guessed.
    ahead: u64,
    touched: u64,
}

/// What to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// A range of a content.
    Range { content: u64, from: u64, to: u64 },
    /// At most `count` contents from `first` on, together about `len` bytes.
    Contents { first: u64, count: u64, len: u64 },
}

impl Prefetch {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, memory: Mutex::default(), needed_count: AtomicU64::new(0) }
    }

    /// Notes a read of `offset..end`, and guesses what will be read next.
    pub(crate) fn observe(
        &self,
        content: u64,
        offset: u64,
        end: u64,
        content_len: u64,
    ) -> Option<Guess> {
        let mut memory = self.lock();
        memory.clock += 1;
        let now = memory.clock;
        if offset == 0
            && let Some(guess) = memory.walk(content, now, self.bytes_max)
        {
            return Some(guess);
        }
        if end >= content_len && offset == 0 {
            return None; // The whole content was read at once.
        }
        memory.file(content, offset, end, content_len, now, self.bytes_max)
    }

    /// Returns whether anything is to be decoded ahead, given the bound of the frame cache.
    pub(crate) fn is_enabled(&self, cache_bytes_max: u64) -> bool {
        // Frames decoded ahead must not evict other frames decoded ahead.
        self.bytes_max > 0 && self.bytes_max <= cache_bytes_max / 4
    }

    /// Returns whether a guess pays: readers need frames that they did not need before, and guesses
    /// turn out right more often than not. Now and then one is made nevertheless.
    pub(crate) fn pays(&self, counters: &Counters) -> bool {
        let (misses, used) =
            (counters.frame_misses.load(Relaxed), counters.prefetch_used.load(Relaxed));
        let needed = misses + used;
        if self.needed_count.swap(needed, Relaxed) == needed {
            return false;
        }
        counters.prefetch_wasted.load(Relaxed) < used + WASTED_MAX || needed.is_multiple_of(32)
    }

    /// Notes that all of `contents` are decoded, so that the next guess begins after them.
    pub(crate) fn followed(&self, contents: Range<u64>) {
        for walk in &mut self.lock().walks {
            if contents.contains(&walk.ahead) {
                walk.ahead = contents.end;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn window_len(streak: u32, streak_min: u32, bytes_max: u64) -> u64 {
    (FIRST_LEN << (streak - streak_min).min(8)).min(bytes_max)
}

impl Memory {
    fn walk(&mut self, content: u64, now: u64, bytes_max: u64) -> Option<Guess> {
        let near = |walk: &&mut WalkHabit| {
            content > walk.last && content - walk.last <= WALK_GAP_MAX || content == walk.last
        };
        let Some(walk) = self.walks.iter_mut().find(near) else {
            let new = WalkHabit { last: content, streak: 0, ahead: content + 1, touched: now };
            remember(&mut self.walks, new, WALKS_MAX, |walk| (walk.streak.min(1), walk.touched));
            return None;
        };
        if content == walk.last {
            return None;
        }
        (walk.last, walk.touched) = (content, now);
        walk.streak = walk.streak.saturating_add(1);
        walk.ahead = walk.ahead.max(content + 1);
        // The next guess is due when the last one is nearly read.
        let is_due = walk.streak == WALK_STREAK_MIN || walk.ahead - content <= 4;
        if walk.streak < WALK_STREAK_MIN || !is_due {
            return None;
        }
        // Contents of a walk are usually small, so the window grows with every few of them.
        let len = window_len(walk.streak / 4, WALK_STREAK_MIN / 4, bytes_max);
        let count = WALK_CONTENTS_FIRST << (walk.streak / 8).min(8);
        Some(Guess::Contents { first: walk.ahead, count: count.min(WALK_CONTENTS_MAX), len })
    }

    fn file(
        &mut self,
        content: u64,
        offset: u64,
        end: u64,
        content_len: u64,
        now: u64,
        bytes_max: u64,
    ) -> Option<Guess> {
        let Some(file) = self.files.iter_mut().find(|file| file.content == content) else {
            let new = FileHabit { content, next: end, streak: 0, ahead: end, touched: now };
            remember(&mut self.files, new, FILES_MAX, |file| (file.streak.min(1), file.touched));
            return None;
        };
        file.touched = now;
        let slack = (end - offset).saturating_mul(SLACK_READS);
        let is_near = offset.abs_diff(file.next) <= slack;
        if !is_near || end <= file.next {
            if !is_near {
                // A jump starts a new sequence.
                *file = FileHabit { content, next: end, streak: 0, ahead: end, touched: now };
            }
            return None;
        }
        file.next = end;
        file.ahead = file.ahead.max(end);
        file.streak = file.streak.saturating_add(1);
        if file.streak < FILE_STREAK_MIN {
            return None;
        }
        let window = window_len(file.streak, FILE_STREAK_MIN, bytes_max);
        let to = end.saturating_add(window).min(content_len);
        // In steps of half a window, so that each guess is worth waking a thread.
        if to <= file.ahead || (file.ahead - end > window / 2 && to < content_len) {
            return None;
        }
        let from = file.ahead;
        file.ahead = to;
        Some(Guess::Range { content, from, to })
    }
}

/// Adds an item to a short list. If the list is full, replaces its least valuable item.
fn remember<T>(items: &mut Vec<T>, new: T, count_max: usize, worth: impl Fn(&T) -> (u32, u64)) {
    if items.len() < count_max {
        items.push(new);
    } else if let Some(least) = items.iter_mut().min_by_key(|item| worth(item)) {
        *least = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_sequential_reader_gets_ever_longer_guesses() {
        let prefetch = Prefetch::new(4 * MIB);
        let read = |at: u64| prefetch.observe(7, at * MIB, (at + 1) * MIB, 100 * MIB);
        assert_eq!(read(0), None);
        let range = |from, to| Some(Guess::Range { content: 7, from, to });
        assert_eq!(read(1), range(2 * MIB, 2 * MIB + MIB / 2));
        assert_eq!(read(2), range(3 * MIB, 4 * MIB));
        assert_eq!(read(3), range(4 * MIB, 6 * MIB));
        // A jump: no guess until reads continue there.
        assert_eq!(read(50), None);
        assert_eq!(read(51), range(52 * MIB, 52 * MIB + MIB / 2));
        // Up to the end of the content and not beyond.
        assert_eq!(prefetch.observe(9, 0, MIB, 2 * MIB + 5), None);
        assert_eq!(
            prefetch.observe(9, MIB, 2 * MIB, 2 * MIB + 5),
            Some(Guess::Range { content: 9, from: 2 * MIB, to: 2 * MIB + 5 })
        );
        assert_eq!(prefetch.observe(9, 2 * MIB, 2 * MIB + 5, 2 * MIB + 5), None);
    }

    #[test]
    fn contents_read_in_order_are_a_walk() {
        let prefetch = Prefetch::new(4 * MIB);
        let read = |content| prefetch.observe(content, 0, 100, 100);
        assert_eq!([10, 11, 12].map(read), [None; 3]);
        assert!(matches!(read(14), Some(Guess::Contents { first: 15, count: 16, .. })));
        assert_eq!(read(900), None);
        // The other walk is not forgotten.
        assert!(matches!(read(15), Some(Guess::Contents { first: 16, .. })));
    }

    #[test]
    fn a_reader_without_habits_causes_no_guess() {
        let prefetch = Prefetch::new(4 * MIB);
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut guess_count = 0;
        for _ in 0..10_000 {
            let (content, offset) = (next(50), next(4096) * MIB);
            guess_count +=
                usize::from(prefetch.observe(content, offset, offset + 4096, 4096 * MIB).is_some());
        }
        assert!(guess_count < 100, "{guess_count}");
    }
}
