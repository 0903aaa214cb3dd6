//! Finds sets of frames that are read together, because a short content lies in them.
//!
//! A frame boundary may fall within a content, and dedupe finds pieces of a content in the frames
//! of others. To read the content, all of these frames and all that they refer to are decoded. So
//! the choice of references bounds what such a set costs. Fewer than one file in a hundred may cost
//! more. Contents that cost much whatever frames refer to are counted first, then sets that hold
//! few contents, because each of them would cost some frames their references.
//!
//! Time: for each content a walk over its extents with a binary search for each, and a sort of the
//! sets. Memory: at most 40 bytes for each content in several frames, less where many share a set.

use crate::content::dedupe::Contents;
use crate::content::extents::StoredAt;
use crate::reference::inverted_index::InvertedIndex;

/// Most frames in a set. A content in more frames costs much, whatever they refer to.
const FRAME_COUNT_MAX: usize = 3;
/// Longest content that counts, in frames. A longer one costs its own length anyway.
const CONTENT_FRAME_COUNT_MAX: u64 = 3;
/// One file in this number may cost more than the bound: fewer than one in a hundred, because
/// readers of some random files do not see all of them.
const RARE_SHARE: u64 = 150;
/// Least number of sets that wait before equal ones are merged.
const UNMERGED_COUNT_MIN: usize = 1 << 16;
/// Fills up sets of fewer frames.
const NONE: u32 = u32::MAX;

/// Frames, ascending, filled up with [`NONE`].
pub(crate) type Set = [u32; FRAME_COUNT_MAX];

/// Sets of at least two frames that hold contents.
#[derive(Debug, Default)]
pub(crate) struct CoReadSets {
    sets: Vec<Set>,
    /// Indexes of sets, by frame.
    by_frame: InvertedIndex,
}

impl CoReadSets {
    /// Finds the sets of contents that are short compared with `frame_len`. `frame_at` returns the
    /// frame that holds the byte at an offset in stream space.
    pub(crate) fn of_contents(
        contents: &Contents,
        frame_at: &dyn Fn(u64) -> u32,
        frame_count: usize,
        frame_len: u64,
    ) -> Self {
        let mut found = SetCounts::default();
        let mut frames = Vec::new();
        for id in 0..contents.count() as u32 {
            let range = contents.range(id);
            frames.clear();
            if range.end - range.start <= CONTENT_FRAME_COUNT_MAX * frame_len {
                contents.extents.visit(range.start, range.end, |len, place| {
                    if let StoredAt::Stream(offset) = place {
                        frames.extend(frame_at(offset)..=frame_at(offset + len - 1));
                    }
                });
                frames.sort_unstable();
                frames.dedup();
                found.add(&frames, contents.file_count(id));
            } else {
                found.add_dear(contents.file_count(id));
            }
        }
        Self::new(found.into_sets(), frame_count)
    }

    /// Takes sets without duplicates.
    pub(crate) fn new(sets: Vec<Set>, frame_count: usize) -> Self {
        let by_frame = InvertedIndex::of(sets.iter().map(frames_of), frame_count);
        Self { sets, by_frame }
    }

    /// Returns the sets that contain a frame.
    pub(crate) fn of_frame(&self, frame: u32) -> impl Iterator<Item = &[u32]> {
        let sets = self.by_frame.get(frame as usize);
        sets.iter().map(|&set| frames_of(&self.sets[set as usize]))
    }
}

/// Returns two or three frames as a set.
pub(crate) fn set_of(frames: &[u32]) -> Set {
    let mut set = [NONE; FRAME_COUNT_MAX];
    set[..frames.len()].copy_from_slice(frames);
    set
}

fn frames_of(set: &Set) -> &[u32] {
    let count = set.iter().take_while(|&&frame| frame != NONE).count();
    &set[..count]
}

/// Sets and how many files they hold, while contents are counted.
#[derive(Debug, Default)]
struct SetCounts {
    /// Each set with the number of files in it.
    sets: Vec<(Set, u64)>,
    /// How many of the sets are merged.
    merged_count: usize,
    file_count: u64,
    /// Files that cost much, whatever frames refer to.
    dear_count: u64,
}

impl SetCounts {
    /// Counts a content of `file_count` files in these frames, which ascend.
    fn add(&mut self, frames: &[u32], file_count: u32) {
        match frames.len() {
            0 | 1 => self.file_count += u64::from(file_count),
            2..=FRAME_COUNT_MAX => {
                self.file_count += u64::from(file_count);
                self.sets.push((set_of(frames), u64::from(file_count)));
                if self.sets.len() >= UNMERGED_COUNT_MIN + 2 * self.merged_count {
                    self.merge();
                }
            }
            _ => self.add_dear(file_count),
        }
    }

    /// Counts a content that costs much.
    fn add_dear(&mut self, file_count: u32) {
        self.file_count += u64::from(file_count);
        self.dear_count += u64::from(file_count);
    }

    /// Merges equal sets.
    fn merge(&mut self) {
        self.sets.sort_unstable();
        self.sets.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        self.merged_count = self.sets.len();
    }

    /// Returns the sets that count: all but those with the fewest files.
    fn into_sets(mut self) -> Vec<Set> {
        self.merge();
        self.sets.sort_unstable_by_key(|&(set, file_count)| (file_count, set));
        let mut rest = (self.file_count / RARE_SHARE).saturating_sub(self.dear_count);
        let is_rare = |&(_, file_count): &(Set, u64)| {
            let is_rare = file_count <= rest;
            rest = rest.saturating_sub(file_count);
            is_rare
        };
        self.sets.into_iter().skip_while(is_rare).map(|(set, _)| set).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::digest::content_digest;

    /// Contents that consist of these parts of the stream (start and end), with one file each.
    fn contents(parts: &[&[(u64, u64)]]) -> Contents {
        let mut contents = Contents::new();
        for (number, parts) in parts.iter().enumerate() {
            let base = contents.extents.end();
            for (start, end) in *parts {
                contents.extents.push(end - start, StoredAt::Stream(*start));
            }
            contents.extents.push(50, StoredAt::Hole);
            contents.push(content_digest(&[number as u8]), base);
        }
        contents
    }

    fn of_frame(co_read_sets: &CoReadSets, frame: u32) -> Vec<Vec<u32>> {
        let mut sets: Vec<_> = co_read_sets.of_frame(frame).map(<[u32]>::to_vec).collect();
        sets.sort();
        sets
    }

    #[test]
    fn a_content_lies_in_all_frames_that_its_bytes_touch() {
        // Frames of 100 bytes, and one of 60.
        let starts = [0u64, 100, 160, 260, 360];
        let frame_at = |offset| starts.partition_point(|&start| start <= offset) as u32 - 1;
        let contents = contents(&[
            &[(0, 100)],
            &[(90, 101)],
            &[(300, 310), (10, 20)],
            &[(99, 161)],
            &[(0, 10), (300, 310)],
            &[(359, 360), (20, 30), (160, 161)],
            // Too long, and in too many frames.
            &[(0, 300)],
            &[(0, 1), (100, 101), (160, 161), (260, 261)],
        ]);
        let co_read_sets = CoReadSets::of_contents(&contents, &frame_at, starts.len(), 100);
        assert_eq!(
            of_frame(&co_read_sets, 0),
            [vec![0, 1], vec![0, 1, 2], vec![0, 2, 3], vec![0, 3]]
        );
        assert_eq!(of_frame(&co_read_sets, 1), [[0, 1].as_slice(), &[0, 1, 2]]);
        assert_eq!(of_frame(&co_read_sets, 2), [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(of_frame(&co_read_sets, 3), [[0, 2, 3].as_slice(), &[0, 3]]);
        assert!(of_frame(&co_read_sets, 4).is_empty());
        assert!(of_frame(&CoReadSets::default(), 0).is_empty());
    }

    #[test]
    fn a_file_in_150_may_cost_more() {
        let found = |dear_count| {
            let mut found = SetCounts::default();
            found.add(&[7], 150 * 10 - 23 - dear_count);
            found.add(&[1, 3], 3);
            found.add(&[1, 2], 4);
            found.add(&[5, 8, 9], 4);
            found.add(&[0, 1], 5);
            found.add(&[1, 3], 4);
            found.add(&[0, 5], 3);
            found.add(&[0, 1, 2, 3], dear_count);
            found.into_sets()
        };
        let sets = [set_of(&[0, 5]), set_of(&[1, 2]), set_of(&[5, 8, 9]), set_of(&[0, 1])];
        // Ten files may cost more: three and four in sets of their own, but not four more.
        assert_eq!(found(0), [&sets[2..], &[set_of(&[1, 3])]].concat());
        assert_eq!(found(3), [&sets[2..], &[set_of(&[1, 3])]].concat());
        assert_eq!(found(4), [&sets[1..], &[set_of(&[1, 3])]].concat());
        assert_eq!(found(8), [&sets[..], &[set_of(&[1, 3])]].concat());
    }

    #[test]
    fn equal_sets_are_merged_while_they_come() {
        let mut found = SetCounts::default();
        for number in 0..5 * UNMERGED_COUNT_MIN as u32 {
            found.add(&[number % 1000, 1000 + number % 10], 2);
        }
        assert!(found.sets.len() <= UNMERGED_COUNT_MIN + 2000, "{}", found.sets.len());
        found.merge();
        assert_eq!(found.sets.len(), 1000);
        assert_eq!(found.sets.iter().map(|set| set.1).sum::<u64>(), found.file_count);
    }
}
