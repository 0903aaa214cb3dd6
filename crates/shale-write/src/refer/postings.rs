//! Which frames share which fingerprints, both ways round, in flat arrays.

/// Only fingerprints that at least two frames share, and not too many, are kept; they are numbered
/// densely.
pub struct Postings {
    /// Frames by fingerprint.
    frame_starts: Vec<u32>,
    frames: Vec<u32>,
    /// Fingerprints by frame.
    print_starts: Vec<u32>,
    prints: Vec<u32>,
    /// Fingerprints of each frame before dropping.
    totals: Vec<u32>,
}

impl Postings {
    /// From pairs sorted by fingerprint.
    pub fn new(pairs: &[(u64, u32)], frame_count: usize, sharer_count_max: usize) -> Self {
        let mut totals = vec![0u32; frame_count];
        for &(_, frame) in pairs {
            totals[frame as usize] += 1;
        }
        let mut frame_starts = vec![0u32];
        let mut frames = Vec::new();
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            if group.len() >= 2 && group.len() <= sharer_count_max {
                frames.extend(group.iter().map(|&(_, frame)| frame));
                frame_starts.push(frames.len() as u32);
            }
        }
        let mut print_starts = vec![0u32; frame_count + 1];
        for &frame in &frames {
            print_starts[frame as usize + 1] += 1;
        }
        for i in 1..print_starts.len() {
            print_starts[i] += print_starts[i - 1];
        }
        let mut next = print_starts.clone();
        let mut prints = vec![0u32; frames.len()];
        for print in 0..frame_starts.len() - 1 {
            for &frame in &frames[frame_starts[print] as usize..frame_starts[print + 1] as usize] {
                let at = &mut next[frame as usize];
                prints[*at as usize] = print as u32;
                *at += 1;
            }
        }
        Self { frame_starts, frames, print_starts, prints, totals }
    }

    /// Frames in all.
    pub fn frame_count(&self) -> usize {
        self.totals.len()
    }

    /// Shared fingerprints in all.
    pub fn print_count(&self) -> usize {
        self.frame_starts.len() - 1
    }

    /// The shared fingerprints of a frame.
    pub fn prints_of(&self, frame: usize) -> &[u32] {
        &self.prints[self.print_starts[frame] as usize..self.print_starts[frame + 1] as usize]
    }

    /// The frames that share a fingerprint, ascending.
    pub fn frames_of(&self, print: u32) -> &[u32] {
        let print = print as usize;
        &self.frames[self.frame_starts[print] as usize..self.frame_starts[print + 1] as usize]
    }

    /// All fingerprints the frame had, shared or not.
    pub fn total_of(&self, frame: usize) -> u32 {
        self.totals[frame]
    }
}
