//! Kin order: contents that are near-copies of an earlier content (the next version of a file) are
//! laid right
//! behind it; all others stay where the source has them.
//!
//! Why: a frame that holds all versions of a file compresses without references what small frames
//! in
//! pure path order cannot, and a reader of one version would meet the older versions' frames
//! anyway, because whole-file
//! and segment dedupe point there. Where there are no near-copies (logs, unrelated trees) nothing
//! moves, so
//! that a directory stays together.
//!
//! Each content shows a *kin sketch*: the smallest [`PRINT_COUNT_MAX`] hashes of sampled 32-byte
//! windows. The
//! last content to show a fingerprint is remembered; the content that most of a sketch points to is
//! its
//! kin, if that is a share of at least [`Settings::share_min`].
//!
//! Memory: 12 bytes for each distinct fingerprint at most three quarters full (16), and 16 bytes a
//! content. Deterministic: depends on
//! the sketches in source order alone.

use crate::segment::index::{GEAR, key_of64};

/// Most fingerprints of a sketch.
pub const PRINT_COUNT_MAX: usize = 32;
const WINDOW_LEN: usize = 32;
const NONE: u32 = u32::MAX;

/// When one content is another's kin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Least share of the sketch's fingerprints that must point to one earlier content.
    pub share_min: f32,
    /// Most bytes of contents laid in one run of kin: a reader of one may have to pass over all.
    pub run_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { share_min: 0.25, run_bytes_max: 64 << 20 }
    }
}

/// Collects the sketch of one content as its bytes pass by.
#[derive(Clone)]
pub struct Sketcher {
    gear: u32,
    tail: [u8; WINDOW_LEN],
    tail_len: usize,
    seen: u64,
    prints: Vec<u64>,
}

impl Default for Sketcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Sketcher {
    /// An empty one.
    pub fn new() -> Self {
        Self { gear: 0, tail: [0; WINDOW_LEN], tail_len: 0, seen: 0, prints: Vec::new() }
    }

    /// Feeds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // One window in 32 of small contents is few enough to keep and plenty to choose from; the
        // threshold then
        // falls to what the smallest hashes need.
        let mut window = [0u8; WINDOW_LEN];
        let mut gear = self.gear;
        for (i, &byte) in bytes.iter().enumerate() {
            gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)] as u32);
            if gear >> 27 == 0 && self.seen + i as u64 + 1 >= WINDOW_LEN as u64 {
                let end = i + 1;
                let key = if end >= WINDOW_LEN {
                    key_of64(&bytes[end - WINDOW_LEN..end])
                } else {
                    let old = WINDOW_LEN - end;
                    window[..old].copy_from_slice(&self.tail[WINDOW_LEN - old..]);
                    window[old..].copy_from_slice(&bytes[..end]);
                    key_of64(&window)
                };
                self.prints.push(key);
                if self.prints.len() >= PRINT_COUNT_MAX * 32 {
                    shrink(&mut self.prints, PRINT_COUNT_MAX);
                }
            }
        }
        self.gear = gear;
        self.seen += bytes.len() as u64;
        let take = bytes.len().min(WINDOW_LEN);
        self.tail.copy_within(take.., 0);
        self.tail[WINDOW_LEN - take..].copy_from_slice(&bytes[bytes.len() - take..]);
        self.tail_len = (self.tail_len + take).min(WINDOW_LEN);
    }

    /// The sketch: at most `count_max` fingerprints, ascending. Ready for the next content.
    pub fn finish(&mut self, count_max: usize) -> Vec<u64> {
        shrink(&mut self.prints, count_max.min(PRINT_COUNT_MAX));
        let prints = std::mem::take(&mut self.prints);
        *self = Self::new();
        prints
    }
}

fn shrink(prints: &mut Vec<u64>, count_max: usize) {
    prints.sort_unstable();
    prints.dedup();
    prints.truncate(count_max);
}

/// Finds kin and makes the order.
pub struct KinOrder {
    settings: Settings,
    last: std::collections::BTreeMap<u64, u32>,
    /// For each content: the run it is in.
    runs: Vec<u32>,
    /// For each run: bytes so far.
    run_bytes: Vec<u64>,
}

impl KinOrder {
    /// Nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, last: Default::default(), runs: Vec::new(), run_bytes: Vec::new() }
    }

    /// Takes the next content of the source. Returns its kin, if it has one.
    pub fn push(&mut self, sketch: &[u64], len: u64) -> Option<u32> {
        let content = self.runs.len() as u32;
        let mut votes: Vec<(u32, u32)> = Vec::new();
        for print in sketch {
            if let Some(&other) = self.last.get(print) {
                match votes.iter_mut().find(|vote| vote.0 == other) {
                    Some(vote) => vote.1 += 1,
                    None => votes.push((other, 1)),
                }
            }
        }
        let best = votes.iter().copied().max_by_key(|&(other, count)| (count, other));
        let count_min = ((sketch.len() as f32 * self.settings.share_min).ceil() as u32).max(2);
        let kin = best.filter(|&(_, count)| count >= count_min).map(|(other, _)| other).filter(
            |&other| {
                let bytes = self.run_bytes[self.runs[other as usize] as usize];
                bytes.saturating_add(len) <= self.settings.run_bytes_max
            },
        );
        let run = match kin {
            Some(other) => self.runs[other as usize],
            None => {
                self.run_bytes.push(0);
                (self.run_bytes.len() - 1) as u32
            }
        };
        self.run_bytes[run as usize] += len;
        self.runs.push(run);
        for &print in sketch {
            self.last.insert(print, content);
        }
        kin
    }

    /// The contents in kin order: runs in the order of their first content, contents of a run in
    /// source order.
    pub fn finish(self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.runs.len() as u32).collect();
        order.sort_by_key(|&content| self.runs[content as usize]);
        let _ = NONE;
        order
    }
}
