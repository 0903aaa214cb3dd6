//! Sketches: samples of the short windows that a frame consists of.
//!
//! A window has [`WINDOW_LEN`] bytes. The sample keeps the windows whose rolling hash begins with
//! `rate_log2` zero bits, so equal bytes are sampled alike wherever they lie. The share of a
//! frame's fingerprints that another frame has too tells what the other is worth as a reference.
//! This is the *containment* of the frame in the other, not the resemblance of both. Costs one pass
//! at about 1 GB/s, and 8 bytes for each 2^`rate_log2` bytes of input.

use crate::content::gear::{GEAR, key_of64};

/// Bytes hashed into one fingerprint.
pub const WINDOW_LEN: usize = 32;

/// Appends the fingerprints of `plain` to `out`, sorted and without duplicates: windows of periodic
/// data count once.
pub fn sketch_of(plain: &[u8], rate_log2: u32, out: &mut Vec<u64>) {
    let rate_log2 = rate_log2.clamp(1, 24);
    let shift = 32 - rate_log2;
    let begin = out.len();
    // Bit j of the gear hash depends on the last j + 1 bytes, so the low 32 bits on the last 32.
    let mut gear = 0u32;
    for (i, &byte) in plain.iter().enumerate() {
        gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)] as u32);
        if gear >> shift == 0 && i + 1 >= WINDOW_LEN {
            out.push(key_of64(&plain[i + 1 - WINDOW_LEN..=i]));
        }
    }
    out[begin..].sort_unstable();
    let mut kept = begin;
    for at in begin..out.len() {
        if kept == begin || out[kept - 1] != out[at] {
            out[kept] = out[at];
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// The fingerprints of all frames, frame by frame.
///
/// When there are too many, those whose last bits are not zero are dropped, for all frames alike,
/// one bit after the other. So what is kept depends on the frames alone.
#[derive(Debug)]
pub(crate) struct Sketches {
    prints: Vec<u64>,
    /// Where the fingerprints of each frame end.
    ends: Vec<usize>,
    count_max: usize,
    thin_log2: u32,
}

impl Sketches {
    /// Starts without frames. At most `count_max` fingerprints are kept.
    pub(crate) fn new(count_max: usize) -> Self {
        Self { prints: Vec::new(), ends: Vec::new(), count_max, thin_log2: 0 }
    }

    /// Adds the fingerprints of the next frame.
    pub(crate) fn push(&mut self, prints: &[u64]) {
        let thin_log2 = self.thin_log2;
        self.prints.extend(prints.iter().filter(|print| print.trailing_zeros() >= thin_log2));
        self.ends.push(self.prints.len());
        while self.prints.len() > self.count_max && self.thin_log2 < u64::BITS {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.thin_log2 += 1;
        let (mut from, mut kept) = (0, 0);
        for end in &mut self.ends {
            for at in from..*end {
                if self.prints[at].trailing_zeros() >= self.thin_log2 {
                    self.prints[kept] = self.prints[at];
                    kept += 1;
                }
            }
            from = *end;
            *end = kept;
        }
        self.prints.truncate(kept);
    }

    /// Zero bits at the end of every fingerprint that is kept.
    pub(crate) fn thin_log2(&self) -> u32 {
        self.thin_log2
    }

    /// Number of frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the fingerprints of a frame.
    pub(crate) fn of(&self, frame: usize) -> &[u64] {
        let start = frame.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.prints[start..self.ends[frame]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_fingerprints_are_thinned_in_all_frames_alike() {
        let prints = |frame: u64| (0..100).map(|n| n * 7 + frame).collect::<Vec<_>>();
        let mut sketches = Sketches::new(300);
        (0..10).for_each(|frame| sketches.push(&prints(frame)));
        assert_eq!(sketches.frame_count(), 10);
        assert_eq!(sketches.thin_log2, 2);
        for frame in 0..10 {
            let expected: Vec<_> =
                prints(frame).into_iter().filter(|print| print % 4 == 0).collect();
            assert_eq!(sketches.of(frame as usize), expected);
        }
    }
}
