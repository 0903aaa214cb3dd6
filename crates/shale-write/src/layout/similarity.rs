//! Similarity order: contents that are near-copies of an earlier content (the next version of a
//! file) are stored right after it. All others stay where the source has them.
//!
//! Why: a frame that holds all versions of a file compresses them against each other. Small frames
//! in path order cannot do that, even with references. A reader of one version would decode the
//! frames of older versions anyway, because whole-file and segment dedupe point there. Where there
//! are no near-copies (logs, unrelated trees) nothing moves, so a directory stays together.
//!
//! Each content has a *sketch*: the smallest [`PRINT_COUNT_MAX`] hashes of sampled 32-byte windows.
//! The last content that had a fingerprint is remembered. A content is similar to the one that most
//! of its sketch points to, if that is a large enough share of the sketch.
//!
//! Memory: at most `SIMILARITY_BYTES` of [`crate::plan::budget`] for fingerprints, and 8 bytes a
//! content. When there are too many fingerprints, those whose last bits are not zero are dropped,
//! for all contents alike; among many millions of contents only long ones are found similar. The
//! order depends only on the contents in source order. Time: one rolling hash over every byte, on
//! the threads that read.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::content::gear::{GEAR, key_of64};

/// Most fingerprints of a sketch.
pub const PRINT_COUNT_MAX: usize = 16;
/// Most fingerprints remembered: what the largest table within `SIMILARITY_BYTES` holds.
const KEPT_COUNT_MAX: usize = (8 << 20) / 8 * 7;
/// Bytes of a window.
pub const WINDOW_LEN: usize = 32;
/// One window in 2^5 is a candidate: few enough to keep, and enough to choose the smallest from.
const SAMPLE_SHIFT: u32 = 32 - 5;
/// Least share of a sketch that must point to one earlier content, as one part in this number.
const SHARE_MIN_PART: usize = 4;
/// Least number of fingerprints that must point to it.
const SHARED_COUNT_MIN: usize = 2;
/// Most bytes of a run of similar contents: a reader of one may have to skip all of them.
const RUN_BYTES_MAX: u64 = 64 << 20;

/// Computes the sketch of one content from its bytes in order.
#[derive(Clone)]
pub struct Sketcher {
    gear: u32,
    /// The last bytes seen.
    tail: [u8; WINDOW_LEN],
    seen: u64,
    prints: Vec<u64>,
}

impl Default for Sketcher {
    fn default() -> Self {
        Self { gear: 0, tail: [0; WINDOW_LEN], seen: 0, prints: Vec::new() }
    }
}

impl Sketcher {
    /// Adds the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut gear = self.gear;
        for (at, &byte) in bytes.iter().enumerate() {
            gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)] as u32);
            if gear >> SAMPLE_SHIFT == 0 && self.seen + at as u64 + 1 >= WINDOW_LEN as u64 {
                self.sample(bytes, at + 1);
            }
        }
        self.gear = gear;
        self.seen += bytes.len() as u64;
        let taken = bytes.len().min(WINDOW_LEN);
        self.tail.copy_within(taken.., 0);
        self.tail[WINDOW_LEN - taken..].copy_from_slice(&bytes[bytes.len() - taken..]);
    }

    /// Adds fingerprints that were found in other bytes of the content.
    pub fn add(&mut self, prints: &[u64]) {
        self.prints.extend_from_slice(prints);
        if self.prints.len() >= PRINT_COUNT_MAX * 64 {
            self.shrink();
        }
    }

    /// Adds the window that ends before `end`; it may start in earlier bytes.
    fn sample(&mut self, bytes: &[u8], end: usize) {
        let key = match end.checked_sub(WINDOW_LEN) {
            Some(start) => key_of64(&bytes[start..end]),
            None => {
                let mut window = [0; WINDOW_LEN];
                let old = WINDOW_LEN - end;
                window[..old].copy_from_slice(&self.tail[end..]);
                window[old..].copy_from_slice(&bytes[..end]);
                key_of64(&window)
            }
        };
        self.prints.push(key);
        if self.prints.len() >= PRINT_COUNT_MAX * 64 {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.prints.sort_unstable();
        self.prints.dedup();
        self.prints.truncate(PRINT_COUNT_MAX);
    }

    /// Returns the sketch: at most [`PRINT_COUNT_MAX`] fingerprints, ascending.
    pub fn finish(mut self) -> Vec<u64> {
        self.shrink();
        self.prints
    }
}

/// Returns the sketch of bytes in memory.
pub fn sketch_of(bytes: &[u8]) -> Vec<u64> {
    let mut sketcher = Sketcher::default();
    sketcher.push(bytes);
    sketcher.finish()
}

/// Uses fingerprints as hashes, which they are.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Finds similar contents and the order.
pub struct SimilarityOrder {
    /// The last content that had a fingerprint. A key is half of the fingerprint: at worst, a false
    /// match in millions moves a file.
    last: HashMap<u32, u32, BuildHasherDefault<KeyHasher>>,
    kept_count_max: usize,
    /// Only fingerprints with at least this many trailing zero bits are used.
    thin_log2: u32,
    /// The run of each content.
    runs: Vec<u32>,
    /// Bytes in each run.
    run_bytes: Vec<u64>,
    similar_count: u64,
}

impl Default for SimilarityOrder {
    fn default() -> Self {
        Self::with_count_max(KEPT_COUNT_MAX)
    }
}

impl SimilarityOrder {
    fn with_count_max(kept_count_max: usize) -> Self {
        Self {
            last: HashMap::default(),
            kept_count_max,
            thin_log2: 0,
            runs: Vec::new(),
            run_bytes: Vec::new(),
            similar_count: 0,
        }
    }

    /// Adds the next content of the source.
    pub fn push(&mut self, sketch: &[u64], len: u64) {
        let content = self.runs.len() as u32;
        let keys = sketch.iter().map(|print| (print >> 32) as u32);
        let keys: Vec<u32> = keys.filter(|key| key.trailing_zeros() >= self.thin_log2).collect();
        let similar = self.similar_to(&keys, len);
        self.similar_count += u64::from(similar.is_some());
        let run = match similar {
            Some(other) => self.runs[other as usize],
            None => {
                self.run_bytes.push(0);
                (self.run_bytes.len() - 1) as u32
            }
        };
        self.run_bytes[run as usize] += len;
        self.runs.push(run);
        for key in keys {
            if self.last.len() >= self.kept_count_max && !self.last.contains_key(&key) {
                self.thin_log2 += 1;
                self.last.retain(|key, _| key.trailing_zeros() >= self.thin_log2);
            }
            if key.trailing_zeros() >= self.thin_log2 {
                self.last.insert(key, content);
            }
        }
    }

    /// Returns the earlier content that has most of these fingerprints, if it has enough.
    fn similar_to(&self, keys: &[u32], len: u64) -> Option<u32> {
        let mut votes: Vec<(u32, usize)> = Vec::new();
        for key in keys {
            if let Some(&other) = self.last.get(key) {
                match votes.iter_mut().find(|vote| vote.0 == other) {
                    Some(vote) => vote.1 += 1,
                    None => votes.push((other, 1)),
                }
            }
        }
        let &(other, count) = votes.iter().max_by_key(|&&(other, count)| (count, other))?;
        let is_enough = count >= SHARED_COUNT_MIN.max(keys.len().div_ceil(SHARE_MIN_PART));
        let run_bytes = self.run_bytes[self.runs[other as usize] as usize];
        (is_enough && run_bytes.saturating_add(len) <= RUN_BYTES_MAX).then_some(other)
    }

    /// Number of contents that resemble an earlier one.
    pub fn similar_count(&self) -> u64 {
        self.similar_count
    }

    /// Returns the contents in similarity order: runs in the order of their first content, contents
    /// of a run in source order.
    pub fn finish(self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.runs.len() as u32).collect();
        order.sort_by_key(|&content| self.runs[content as usize]);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random;

    /// Version `version` of a file: a few bytes differ from the version before.
    fn version(file: u64, version: usize, len: usize) -> Vec<u8> {
        let mut bytes = random(file, len);
        (0..version).for_each(|n| bytes[n * 500] ^= 0x55);
        bytes
    }

    #[test]
    fn sketches_do_not_depend_on_how_bytes_arrive() {
        let bytes = random(5, 100_000);
        let whole = sketch_of(&bytes);
        assert_eq!(whole.len(), PRINT_COUNT_MAX);
        for step in [1, 7, 31, 32, 33, 5000] {
            let mut sketcher = Sketcher::default();
            bytes.chunks(step).for_each(|piece| sketcher.push(piece));
            assert_eq!(sketcher.finish(), whole, "steps of {step}");
            // Pieces may be sketched apart, each with the window before it.
            let mut merged = Sketcher::default();
            for at in (0..bytes.len()).step_by(step) {
                let mut sketcher = Sketcher::default();
                sketcher.push(&bytes[at - at.min(WINDOW_LEN)..at]);
                sketcher.push(&bytes[at..bytes.len().min(at + step)]);
                merged.add(&sketcher.finish());
            }
            assert_eq!(merged.finish(), whole, "pieces of {step}");
        }
        assert!(sketch_of(&bytes[..WINDOW_LEN - 1]).is_empty());
    }

    #[test]
    fn versions_follow_each_other_and_strangers_stay() {
        let mut similarity = SimilarityOrder::default();
        for v in 0..4 {
            for file in 0..5 {
                similarity.push(&sketch_of(&version(file + 1, v, 8000)), 8000);
            }
            similarity.push(&sketch_of(&random(100 + v as u64, 8000)), 8000);
        }
        assert_eq!(similarity.similar_count(), 15);
        let expected: Vec<u32> = (0..5)
            .flat_map(|file| (0..4).map(move |v| v * 6 + file))
            .chain([5, 11, 17, 23])
            .collect();
        assert_eq!(similarity.finish(), expected);
    }

    #[test]
    fn long_runs_end() {
        let mut similarity = SimilarityOrder::default();
        for v in 0..6 {
            similarity.push(&sketch_of(&version(1, v, 8000)), RUN_BYTES_MAX / 3);
        }
        assert_eq!(similarity.similar_count(), 4, "two runs of three");
    }

    #[test]
    fn too_many_fingerprints_are_thinned_and_long_contents_are_still_found_similar() {
        let mut similarity = SimilarityOrder::with_count_max(400);
        for v in 0..2 {
            for file in 0..200 {
                similarity.push(&sketch_of(&version(file + 1, v, 3000)), 3000);
            }
            assert!(similarity.last.len() <= 400);
        }
        assert!(similarity.thin_log2 >= 3);
        let mut order = similarity.finish();
        order.sort_unstable();
        assert_eq!(order, (0..400).collect::<Vec<_>>());
    }
}
