//! Which frames share which fingerprints, in both directions, in flat arrays.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::reference::inverted_index::InvertedIndex;

/// Only fingerprints that at least two frames share, and not too many, are kept. Those that the
/// same frames share become one, with a weight: bytes that lie together in one frame mostly lie
/// together in others, so this leaves many times fewer. They are numbered in the order of their
/// first occurrence.
pub struct Postings {
    /// Frames by fingerprint.
    frame_starts: Vec<u32>,
    frames: Vec<u32>,
    /// How many fingerprints each one stands for.
    weights: Vec<u32>,
    /// Fingerprints by frame.
    prints: InvertedIndex,
    /// Fingerprints of each frame before any are dropped.
    totals: Vec<u32>,
}

impl Postings {
    /// Builds the postings from pairs sorted by fingerprint.
    pub fn new(pairs: &[(u64, u32)], frame_count: usize, sharer_count_max: usize) -> Self {
        let mut totals = vec![0u32; frame_count];
        for &(_, frame) in pairs {
            totals[frame as usize] += 1;
        }
        let mut frame_starts = vec![0u32];
        let mut frames = Vec::new();
        let mut weights = Vec::new();
        // Only equality counts, so the random keys of the hash do not show in the result.
        let hasher = RandomState::new();
        let mut met: HashTable<u32> = HashTable::new();
        let mut sharers = Vec::new();
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            if group.len() < 2 || group.len() > sharer_count_max {
                continue;
            }
            sharers.clear();
            sharers.extend(group.iter().map(|&(_, frame)| frame));
            let of = |print: u32| {
                let print = print as usize;
                &frames[frame_starts[print] as usize..frame_starts[print + 1] as usize]
            };
            let hash = hasher.hash_one(&sharers[..]);
            match met.find(hash, |&print| of(print) == sharers) {
                Some(&print) => weights[print as usize] += 1,
                None => {
                    met.insert_unique(hash, weights.len() as u32, |&p| hasher.hash_one(of(p)));
                    frames.extend_from_slice(&sharers);
                    frame_starts.push(frames.len() as u32);
                    weights.push(1);
                }
            }
        }
        drop(met);
        let of_prints = frame_starts.windows(2);
        let of_prints = of_prints.map(|range| &frames[range[0] as usize..range[1] as usize]);
        let prints = InvertedIndex::of(of_prints, frame_count);
        Self { frame_starts, frames, weights, prints, totals }
    }

    /// Number of frames.
    pub fn frame_count(&self) -> usize {
        self.totals.len()
    }

    /// Number of shared fingerprints.
    pub fn print_count(&self) -> usize {
        self.weights.len()
    }

    /// Returns the shared fingerprints of a frame.
    pub fn prints_of(&self, frame: usize) -> &[u32] {
        self.prints.get(frame)
    }

    /// Returns the frames that share a fingerprint, ascending.
    pub fn frames_of(&self, print: u32) -> &[u32] {
        let print = print as usize;
        &self.frames[self.frame_starts[print] as usize..self.frame_starts[print + 1] as usize]
    }

    /// Returns how many fingerprints this one stands for.
    pub fn weight_of(&self, print: u32) -> u32 {
        self.weights[print as usize]
    }

    /// Returns how many fingerprints the frame had, shared or not.
    pub fn total_of(&self, frame: usize) -> u32 {
        self.totals[frame]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_same_frames_share_is_one_with_a_weight() {
        // Fingerprints 1, 3 and 9 in frames 0 and 1; 2 in three frames; 4 in one only; 5 in too
        // many.
        let of = [(1, vec![0, 1]), (2, vec![0, 1, 2]), (3, vec![0, 1]), (4, vec![2])];
        let more = [(5, vec![0, 1, 2, 3]), (9, vec![0, 1])];
        let pairs: Vec<(u64, u32)> = of
            .into_iter()
            .chain(more)
            .flat_map(|(print, frames)| frames.into_iter().map(move |frame| (print, frame)))
            .collect();
        let postings = Postings::new(&pairs, 4, 3);
        assert_eq!((postings.frame_count(), postings.print_count()), (4, 2));
        assert_eq!((postings.frames_of(0), postings.weight_of(0)), (&[0, 1][..], 3));
        assert_eq!((postings.frames_of(1), postings.weight_of(1)), (&[0, 1, 2][..], 1));
        assert_eq!(postings.prints_of(0), [0, 1]);
        assert_eq!(postings.prints_of(2), [1]);
        assert!(postings.prints_of(3).is_empty());
        assert_eq!([0, 1, 2, 3].map(|frame| postings.total_of(frame)), [5, 5, 3, 1]);
    }
}
