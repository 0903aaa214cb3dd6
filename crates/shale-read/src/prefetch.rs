//! Frames that will be wanted next, decoded before they are asked for.
//!
//! Two habits are recognised: a file read on from where the last read ended, and contents read one
//! after the other, as programs do that walk over directories: writers number contents in the
//! order of paths. References of a frame are decoded before it, as always.
//!
//! A guess costs its reader a look at a few numbers. It is dropped where a processor would be
//! missed, it is small until the habit lasts, and it ends where guesses turn out wrong; so a
//! reader without a habit is not slowed down. Nothing here blocks a reader for longer than another
//! reader's look takes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::cache::FrameKey;
use crate::content::PieceKind;
use crate::counters::add;
use crate::image::Image;

/// Files read in sequence that are remembered at once.
const FILES_MAX: usize = 32;
/// Walks over contents that are remembered at once.
const WALKS_MAX: usize = 8;
/// Reads in sequence before the first guess.
const FILE_STREAK_MIN: u32 = 1;
/// Contents in a row before the first guess.
const WALK_STREAK_MIN: u32 = 3;
/// How far reads may come out of order, as the kernel's own read-ahead does, in reads of the same
/// length.
const SLACK_READS: u64 = 2;
/// How many contents a walk may leave out: directories in between, files nobody wants.
const WALK_GAP_MAX: u64 = 8;
/// The first guess of a habit, in bytes; doubled while the habit lasts.
const FIRST_LEN: u64 = 512 << 10;
/// Contents looked at for the first guess of a walk, and for any: looking costs as much as reading
/// a small file that is in the cache.
const WALK_CONTENTS_FIRST: u64 = 16;
const WALK_CONTENTS_MAX: u64 = 512;
/// Guesses that may go wrong on balance before most are left out.
const WASTED_MAX: u64 = 64;

/// What readers of one image did lately.
pub(crate) struct Prefetch {
    bytes_max: u64,
    memory: Mutex<Memory>,
    /// Frames that readers had needed anew when the last guess was made.
    needed_count: AtomicU64,
}

#[derive(Default)]
struct Memory {
    files: Vec<FileHabit>,
    walks: Vec<WalkHabit>,
    /// Counts reads, to tell which habit is the oldest.
    clock: u64,
}

/// A file being read.
struct FileHabit {
    content: u64,
    /// End of the read that reached furthest.
    next: u64,
    streak: u32,
    /// Up to where frames were guessed.
    ahead: u64,
    touched: u64,
}

/// Contents being read one after the other.
struct WalkHabit {
    last: u64,
    streak: u32,
    /// Contents before this one were guessed.
    ahead: u64,
    touched: u64,
}

/// What to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    /// A range of a content.
    Range { content: u64, from: u64, to: u64 },
    /// Contents from one on, up to so many bytes.
    Contents { first: u64, count: u64, len: u64 },
}

impl Prefetch {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, memory: Mutex::default(), needed_count: AtomicU64::new(0) }
    }

    /// Takes note of a read, and says what may come next.
    fn observe(&self, content: u64, offset: u64, end: u64, content_len: u64) -> Option<Guess> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.clock += 1;
        let now = memory.clock;
        if offset == 0
            && let Some(guess) = memory.walk(content, now, self.bytes_max)
        {
            return Some(guess);
        }
        if end >= content_len && offset == 0 {
            return None; // Read whole; there is nothing to go on with.
        }
        memory.file(content, offset, end, content_len, now, self.bytes_max)
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
        // The next guess is due when the last one is nearly used up.
        let is_due = walk.streak == WALK_STREAK_MIN || walk.ahead - content <= 4;
        if walk.streak < WALK_STREAK_MIN || !is_due {
            return None;
        }
        // Contents in a row are small as a rule: the window grows with every few of them.
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
                // Elsewhere: a new beginning.
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
        // In steps of half a window, so that each guess is worth a thread's waking.
        if to <= file.ahead || (file.ahead - end > window / 2 && to < content_len) {
            return None;
        }
        let from = file.ahead;
        file.ahead = to;
        Some(Guess::Range { content, from, to })
    }
}

/// Puts an item into a short list, in place of the least of them if it is full.
fn remember<T>(items: &mut Vec<T>, new: T, count_max: usize, worth: impl Fn(&T) -> (u32, u64)) {
    if items.len() < count_max {
        items.push(new);
    } else if let Some(least) = items.iter_mut().min_by_key(|item| worth(item)) {
        *least = new;
    }
}

impl Image {
    /// Takes note of a read of `content` and may have others decode what is likely to come next.
    pub(crate) fn prefetch_after(&self, content: u64, offset: u64, end: u64, content_len: u64) {
        let Some(workers) = &self.workers else { return };
        // What is decoded ahead must not drive out what is decoded ahead.
        if self.prefetch.bytes_max == 0 || self.prefetch.bytes_max > self.cache().bytes_max() / 4 {
            return;
        }
        let Some(guess) = self.prefetch.observe(content, offset, end, content_len) else { return };
        if !self.guesses_pay() {
            return;
        }
        let image = self.me.clone();
        workers.guess(move || {
            if let Some(image) = image.upgrade() {
                image.follow(guess);
            }
        });
    }

    /// Whether a guess is worth making: readers need frames that they did not need before, and
    /// guesses turn out right more often than not. Now and then one is made nevertheless.
    fn guesses_pay(&self) -> bool {
        let counts = self.counters();
        let (misses, used) =
            (counts.frame_misses.load(Relaxed), counts.prefetch_used.load(Relaxed));
        let needed = misses + used;
        if self.prefetch.needed_count.swap(needed, Relaxed) == needed {
            return false;
        }
        counts.prefetch_wasted.load(Relaxed) < used + WASTED_MAX || needed.is_multiple_of(32)
    }

    /// Decodes what was guessed, as far as it is missing. An error ends it: readers will meet it.
    fn follow(&self, guess: Guess) {
        match guess {
            Guess::Range { content, from, to } => {
                let _ = self.decode_range(content, from, to, u64::MAX);
            }
            Guess::Contents { first, count, len } => {
                let mut left = len;
                let end = self.content_count().min(first.saturating_add(count));
                let mut content = first;
                while content < end && left > 0 {
                    match self.decode_range(content, 0, left, left) {
                        Some(decoded) => left = left.saturating_sub(decoded),
                        None => break,
                    }
                    content += 1;
                }
                let mut memory =
                    self.prefetch.memory.lock().unwrap_or_else(PoisonError::into_inner);
                for walk in &mut memory.walks {
                    if (first..content).contains(&walk.ahead) {
                        walk.ahead = content;
                    }
                }
            }
        }
    }

    /// Decodes the missing frames of a range; returns their bytes, or nothing after an error.
    fn decode_range(&self, content: u64, from: u64, to: u64, bytes_max: u64) -> Option<u64> {
        let mut decoded_len = 0;
        for piece in self.pieces(content, from..to).ok()? {
            let PieceKind::Frame { frame, .. } = piece.ok()?.kind else { continue };
            if self.cache().contains(FrameKey { image: self.number(), frame }) {
                continue;
            }
            if decoded_len >= bytes_max {
                break;
            }
            if self.decode_ahead(frame, true).ok()? {
                add(&self.counters().frames_prefetched, 1);
                decoded_len += self.frame_record(frame).ok()?.plain_len;
            }
        }
        Some(decoded_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_file_read_on_is_read_ahead_and_further_each_time() {
        let prefetch = Prefetch::new(4 * MIB);
        let read = |at: u64| prefetch.observe(7, at * MIB, (at + 1) * MIB, 100 * MIB);
        assert_eq!(read(0), None);
        let range = |from, to| Some(Guess::Range { content: 7, from, to });
        assert_eq!(read(1), range(2 * MIB, 2 * MIB + MIB / 2));
        assert_eq!(read(2), range(3 * MIB, 4 * MIB));
        assert_eq!(read(3), range(4 * MIB, 6 * MIB));
        // Elsewhere: nothing, until that goes on.
        assert_eq!(read(50), None);
        assert_eq!(read(51), range(52 * MIB, 52 * MIB + MIB / 2));
        // Up to the end and not beyond.
        assert_eq!(prefetch.observe(9, 0, MIB, 2 * MIB + 5), None);
        assert_eq!(
            prefetch.observe(9, MIB, 2 * MIB, 2 * MIB + 5),
            Some(Guess::Range { content: 9, from: 2 * MIB, to: 2 * MIB + 5 })
        );
        assert_eq!(prefetch.observe(9, 2 * MIB, 2 * MIB + 5, 2 * MIB + 5), None);
    }

    #[test]
    fn contents_read_in_a_row_are_a_walk() {
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
