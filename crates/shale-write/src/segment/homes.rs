//! The homes of a content: frames of the image that is continued which hold earlier versions of it.
//!
//! In a build of its own, versions of a file lie next to each other, and a frame compresses them
//! together. An append cannot put a version there. A new frame holds parts of many files, whose
//! earlier versions lie in more frames than it may refer to. So a content takes what did not change
//! from its homes as extents, also where the ranges are short, and the new frame holds the rest.
//!
//! A reader of the content decodes its homes and what these refer to. That is bounded as for any
//! content in several frames, with room for the frame of its new bytes.

use std::ops::Range;
use std::sync::Arc;

use crate::base::frames::OldFrames;
use crate::plan::budget::Plan;

/// Most homes of a content. With the frame of its new bytes, it lies in as many frames as the
/// choice of references bounds together.
const HOME_COUNT_MAX: usize = 2;
/// Least share of the anchors of a content that a home must have, as one part in this number, and
/// the least number of them.
const SHARE_MIN_PART: usize = 8;
const ANCHOR_COUNT_MIN: usize = 2;
/// A frame that is no home is looked into if one part in this number of the anchors of a range that
/// would be taken occur in it.
const FAR_SHARE_PART: usize = 4;

/// The frames of the image that is continued.
#[derive(Debug)]
pub(crate) struct Homes {
    old: Arc<OldFrames>,
    /// Bytes for an anchor that was learned of these frames, as a power of two.
    step_log2: u32,
    /// Most plain bytes of all homes of a content and of the frames that they refer to.
    read_bytes_max: u64,
}

/// What the anchors of a content tell of it.
#[derive(Debug, Default)]
pub(crate) struct ContentHomes {
    /// The homes, as ranges of the stream, the one with most anchors first.
    pub(crate) homes: Vec<Range<u64>>,
    /// The frames that may have a match which is taken, ascending. To look into another one would
    /// only cost the time to decode it.
    worth_a_look: Vec<usize>,
}

impl Homes {
    pub(crate) fn of(old: Arc<OldFrames>, plan: &Plan) -> Self {
        let bound = plan.references.map_or(u64::MAX, |limits| limits.co_read_bytes_max);
        let read_bytes_max = bound.saturating_sub(plan.classes.usual().frame_len as u64);
        Self { step_log2: old.anchor_step_log2(), old, read_bytes_max }
    }

    /// Returns the homes of a content: those that most of its anchors occur in. `positions` are the
    /// places in the stream that may have each anchor, of which there is one in 2^`step_log2`
    /// bytes. A match in another frame is taken only from `far_len_min` bytes on.
    pub(crate) fn of_content<P: Iterator<Item = u64>>(
        &self,
        positions: impl Iterator<Item = P>,
        step_log2: u32,
        far_len_min: u32,
    ) -> ContentHomes {
        let mut votes: Vec<(usize, usize)> = Vec::new();
        let mut anchor_count = 0;
        let mut frames = Vec::new();
        for positions in positions {
            anchor_count += 1;
            frames.clear();
            // An anchor ends at its position.
            frames.extend(
                positions.filter_map(|at| self.old.frame_with(at.saturating_sub(1)).map(|f| f.0)),
            );
            frames.sort_unstable();
            frames.dedup();
            for &frame in &frames {
                match votes.iter_mut().find(|vote| vote.1 == frame) {
                    Some(vote) => vote.0 += 1,
                    None => votes.push((1, frame)),
                }
            }
        }
        let far = (far_len_min >> step_log2.max(self.step_log2)) as usize / FAR_SHARE_PART;
        let far = far.max(ANCHOR_COUNT_MIN);
        let mut worth_a_look: Vec<usize> =
            votes.iter().filter(|vote| vote.0 >= far).map(|vote| vote.1).collect();
        let count_min = ANCHOR_COUNT_MIN.max(usize::div_ceil(anchor_count, SHARE_MIN_PART));
        votes.retain(|vote| vote.0 >= count_min);
        // The newest of equals is likely to be the nearest version.
        votes.sort_unstable_by(|a, b| b.cmp(a));
        let mut homes: Vec<usize> = Vec::new();
        let mut needed: Vec<u32> = Vec::new();
        for (_, frame) in votes {
            if homes.len() == HOME_COUNT_MAX {
                break;
            }
            let mut all = [&needed[..], &self.old.closure_of(frame), &[frame as u32]].concat();
            all.sort_unstable();
            all.dedup();
            let bytes: u64 = all.iter().map(|&frame| self.old.len_of(frame as usize)).sum();
            if bytes <= self.read_bytes_max {
                homes.push(frame);
                needed = all;
            }
        }
        worth_a_look.extend(&homes);
        worth_a_look.sort_unstable();
        let homes = homes.into_iter().map(|frame| self.old.range_of(frame)).collect();
        ContentHomes { homes, worth_a_look }
    }

    /// Returns whether a match that ends at `position` in the stream may be long enough to be
    /// taken, as far as the anchors of the content tell.
    pub(crate) fn is_worth_a_look(&self, found: &ContentHomes, position: u64) -> bool {
        match self.old.frame_with(position.saturating_sub(1)) {
            Some((frame, _)) => found.worth_a_look.binary_search(&frame).is_ok(),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::image::BaseFrame;

    /// Frames of 100 bytes with these references.
    fn homes(references: &[&[u64]], read_bytes_max: u64) -> Homes {
        let frames = references.iter().map(|references| BaseFrame {
            plain_len: 100,
            depth: 0,
            references: references.to_vec(),
        });
        let old = Arc::new(OldFrames::new(frames.collect()));
        Homes { old, step_log2: 6, read_bytes_max }
    }

    fn found(homes: &Homes, positions: &[&[u64]]) -> Vec<u64> {
        let positions = positions.iter().map(|positions| positions.iter().copied());
        let found = homes.of_content(positions, 6, 8192);
        found.homes.into_iter().map(|range| range.start / 100).collect()
    }

    #[test]
    fn most_anchors_decide_and_reads_stay_within_the_bound() {
        let all = homes(&[&[], &[], &[0, 1], &[], &[2]], 400);
        // Anchors end at the end of frame 0, in frames 0 and 3, in 3, and nowhere.
        assert_eq!(found(&all, &[&[100], &[50, 350], &[310], &[320], &[]]), [3, 0]);
        assert_eq!(found(&all, &[&[100], &[350], &[], &[]]), [0; 0], "one anchor is too few");
        let many: Vec<&[u64]> = vec![&[150]; 20];
        assert_eq!(found(&all, &[&many[..], &[&[210], &[220]]].concat()), [1], "one in 11");
        assert_eq!(found(&all, &[&[501], &[600]]), [0; 0], "beyond the frames");
        // Frame 4 needs 2, 1 and 0: with frame 3 they are 500 bytes, with frame 1 400.
        let [four, three, one]: [&[u64]; 3] = [&[410], &[310], &[110]];
        assert_eq!(found(&all, &[four, four, four, three, three]), [4]);
        assert_eq!(found(&all, &[four, four, four, three, three, one, one]), [4, 1]);
        assert_eq!(found(&homes(&[&[], &[0]], 199), &[&[110], &[120]]), [0; 0]);
    }
}
