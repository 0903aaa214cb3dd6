//! Which frames share which fingerprints, in both directions, in flat arrays.

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

/// Lists of frames, each different one once, in the order of their first occurrence.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Where each begins, and the end of the last one.
    starts: Vec<u32>,
    frames: Vec<u32>,
    /// How often each occurred.
    weights: Vec<u32>,
    met: HashTable<u32>,
}

impl Lists {
    fn new() -> Self {
        Self { starts: vec![0], frames: Vec::new(), weights: Vec::new(), met: HashTable::new() }
    }

    /// Finds the frames that share each fingerprint. `pairs` are sorted by fingerprint, and then by
    /// frame. Fingerprints that are in one frame only, or in more than `sharer_count_max`, do not
    /// count.
    pub(crate) fn of_pairs(pairs: &[(u64, u32)], sharer_count_max: usize) -> Self {
        let mut lists = Self::new();
        let mut sharers = Vec::new();
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            if group.len() < 2 || group.len() > sharer_count_max {
                continue;
            }
            sharers.clear();
            sharers.extend(group.iter().map(|&(_, frame)| frame));
            lists.add(&sharers, 1);
        }
        lists
    }

    /// Adds a list that occurred `weight` times.
    fn add(&mut self, sharers: &[u32], weight: u32) {
        let Self { starts, frames, weights, met } = self;
        let of = |list: u32| {
            let list = list as usize;
            &frames[starts[list] as usize..starts[list + 1] as usize]
        };
        match met.find(hash(sharers), |&list| of(list) == sharers) {
            Some(&list) => weights[list as usize] += weight,
            None => {
                met.insert_unique(hash(sharers), weights.len() as u32, |&list| hash(of(list)));
                frames.extend_from_slice(sharers);
                starts.push(frames.len() as u32);
                weights.push(weight);
            }
        }
    }

    /// Returns each list with its weight.
    fn iter(&self) -> impl Iterator<Item = (&[u32], u32)> + Clone {
        let ranges = self.starts.windows(2);
        let lists = ranges.map(|range| &self.frames[range[0] as usize..range[1] as usize]);
        lists.zip(self.weights.iter().copied())
    }
}

/// Returns a hash of a list of frames. Only equality counts, so it does not show in the result.
fn hash(frames: &[u32]) -> u64 {
    frames.iter().fold(frames.len() as u64, |hash, &frame| {
        (hash.rotate_left(23) ^ u64::from(frame)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

impl Postings {
    /// Builds the postings from the lists of frames that share the fingerprints of one range after
    /// the other. `totals` are the numbers of fingerprints of each frame.
    pub(crate) fn new(ranges: Vec<Lists>, totals: Vec<u32>) -> Self {
        let mut all = Lists::new();
        for lists in ranges {
            lists.iter().for_each(|(sharers, weight)| all.add(sharers, weight));
        }
        let prints = InvertedIndex::of(all.iter().map(|(sharers, _)| sharers), totals.len());
        let Lists { starts: frame_starts, frames, weights, .. } = all;
        Self { frame_starts, frames, weights, prints, totals }
    }

    /// Builds the postings from all pairs of fingerprint and frame, sorted.
    #[cfg(test)]
    pub(crate) fn of_pairs(
        pairs: &[(u64, u32)],
        frame_count: usize,
        sharer_count_max: usize,
    ) -> Self {
        let mut totals = vec![0; frame_count];
        pairs.iter().for_each(|&(_, frame)| totals[frame as usize] += 1);
        Self::new(vec![Lists::of_pairs(pairs, sharer_count_max)], totals)
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
        let postings = Postings::of_pairs(&pairs, 4, 3);
        assert_eq!((postings.frame_count(), postings.print_count()), (4, 2));
        assert_eq!((postings.frames_of(0), postings.weight_of(0)), (&[0, 1][..], 3));
        assert_eq!((postings.frames_of(1), postings.weight_of(1)), (&[0, 1, 2][..], 1));
        assert_eq!(postings.prints_of(0), [0, 1]);
        assert_eq!(postings.prints_of(2), [1]);
        assert!(postings.prints_of(3).is_empty());
        assert_eq!([0, 1, 2, 3].map(|frame| postings.total_of(frame)), [5, 5, 3, 1]);

        // The same in ranges, of which some have nothing.
        let ends = [0, 2, 2, 7, pairs.len()];
        let ranges = ends.windows(2).map(|ends| Lists::of_pairs(&pairs[ends[0]..ends[1]], 3));
        let totals = vec![5, 5, 3, 1];
        let again = Postings::new(ranges.collect(), totals);
        assert_eq!((again.frame_starts, again.frames), (postings.frame_starts, postings.frames));
        assert_eq!(again.weights, postings.weights);
    }
}
