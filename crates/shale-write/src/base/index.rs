//! The append index: which frames of the image that is continued new contents resemble, so that
//! only those are decoded; and the index of the frames that this build adds.
//!
//! An index says of each frame which windows of 32 bytes it has, thinned to a few (see
//! [`shale_format::AppendIndex`]). It is a hint: a frame that it names is decoded, and every byte
//! that is shared is compared. If it lies or cannot be read, an append finds less or decodes more.

use std::collections::HashMap;
use std::sync::Arc;

use shale_format::AppendIndex;

use crate::base::image::Base;
use crate::reference::sketch::{Sketches, sketch_of};
use crate::reference::stage::RATE_LOG2;

/// The index takes one byte for this many of the frames that it covers, as they are stored.
const STORED_PER_INDEX_BYTE: u64 = 50;
/// Bytes of a fingerprint in the index.
const PRINT_BYTES: u64 = 4;
/// Most fingerprints that all indexes of an image have together: an append holds them in memory.
const PRINT_COUNT_MAX: u64 = 16 << 20;
/// A fingerprint that more frames have tells nothing of any.
const SHARER_COUNT_MAX: usize = 128;
/// Least fingerprints that a frame must share with new contents to be decoded, or all if it has
/// fewer. With 2, a day of logs had 313 frames decoded instead of 7, for not one byte less;
/// releases of a program are 0.1 % smaller.
const SHARED_COUNT_MIN: usize = 4;

/// The indexes of the image that is continued.
#[derive(Debug, Default)]
pub(crate) struct OldIndex {
    parts: Vec<Arc<AppendIndex>>,
    frame_count: usize,
}

impl OldIndex {
    /// Reads all indexes of the image. One that cannot be read is passed over.
    pub(crate) fn of(base: &dyn Base) -> Self {
        let frame_count = base.state().frame_count();
        let mut parts = base.append_indexes().unwrap_or_default();
        let end_of =
            |part: &Arc<AppendIndex>| part.frame_first.saturating_add(part.frame_count() as u64);
        parts.retain(|part| part.frame_count() > 0 && end_of(part) <= frame_count);
        let mut print_count = 0;
        parts.retain(|part| {
            print_count += part.print_count() as u64;
            print_count <= PRINT_COUNT_MAX
        });
        Self { parts, frame_count: frame_count as usize }
    }

    /// Number of frames at the start of the image that are covered.
    pub(crate) fn covered_count(&self) -> usize {
        let mut covered = vec![false; self.frame_count];
        for part in &self.parts {
            let first = part.frame_first as usize;
            covered[first..first + part.frame_count()].fill(true);
        }
        covered.iter().take_while(|&&is_covered| is_covered).count()
    }

    /// Fingerprints of all frames.
    fn print_count(&self) -> u64 {
        self.parts.iter().map(|part| part.print_count() as u64).sum()
    }

    /// A query for frames that resemble contents; `None` if there is no index.
    pub(crate) fn query(&self) -> Option<Query> {
        let thin_log2 = self.parts.iter().map(|part| part.thin_log2).min()?;
        Some(Query { thin_log2: thin_log2.into(), prints: Vec::new(), scratch: Vec::new() })
    }

    /// Returns for each frame whether it has to be decoded: those that share enough with the
    /// contents of the query, and those that no index covers.
    pub(crate) fn wanted(&self, query: &Query) -> Vec<bool> {
        let mut wanted = vec![true; self.frame_count];
        // Fingerprints of the contents, as each part would keep them, with the number of frames.
        let mut kept: HashMap<u8, HashMap<u32, usize>> = HashMap::new();
        for part in &self.parts {
            let kept = kept.entry(part.thin_log2).or_insert_with(|| {
                let prints = query.prints.iter().filter_map(|&print| part.kept(print));
                prints.map(|print| (print, 0)).collect()
            });
            for print in (0..part.frame_count()).flat_map(|frame| part.of(frame)) {
                if let Some(count) = kept.get_mut(print) {
                    *count += 1;
                }
            }
        }
        for part in &self.parts {
            let Some(kept) = kept.get(&part.thin_log2) else { continue };
            let tells = |print: &&u32| kept.get(print).is_some_and(|&n| n <= SHARER_COUNT_MAX);
            for frame in 0..part.frame_count() {
                let prints = part.of(frame);
                let shared_min = SHARED_COUNT_MIN.min(prints.len());
                let shared = prints.iter().filter(tells);
                let is_wanted = shared_min > 0 && shared.take(shared_min).count() == shared_min;
                wanted[part.frame_first as usize + frame] = is_wanted;
            }
        }
        wanted
    }

    /// Makes the index of all frames that no index covers: the last ones of the image, whose
    /// sketches are in `old`, and those of this build. `stored_bytes` are those of the frames of
    /// this build. `None` if there would be nothing in it.
    pub(crate) fn continued(
        &self,
        old: &Sketches,
        new: &Sketches,
        image_len: u64,
        stored_bytes: u64,
    ) -> Option<AppendIndex> {
        let first = self.covered_count();
        let before = if first == 0 { image_len } else { 0 };
        let count_max = (before + stored_bytes) / STORED_PER_INDEX_BYTE / PRINT_BYTES;
        let count_max = count_max.min(PRINT_COUNT_MAX.saturating_sub(self.print_count()));
        let of_old = (first..old.frame_count()).map(|frame| old.of(frame));
        let frames: Vec<&[u64]> =
            of_old.chain((0..new.frame_count()).map(|frame| new.of(frame))).collect();
        // By the number of zero bits at the front.
        let mut counts = [0u64; u64::BITS as usize + 1];
        for print in frames.iter().copied().flatten() {
            counts[print.leading_zeros() as usize] += 1;
        }
        let mut thin_log2 = 0;
        let mut count: u64 = counts.iter().sum();
        while count > count_max && thin_log2 < THIN_LOG2_MAX {
            count -= counts[usize::from(thin_log2)];
            thin_log2 += 1;
        }
        if count == 0 || count > count_max {
            return None;
        }
        let mut index = AppendIndex::new(thin_log2, first as u64);
        frames.into_iter().for_each(|prints| index.push(prints));
        Some(index)
    }
}

/// Most zero bits: 32 bits of the fingerprint are kept after them.
const THIN_LOG2_MAX: u8 = 32;

/// Fingerprints of new contents.
#[derive(Debug)]
pub(crate) struct Query {
    thin_log2: u32,
    prints: Vec<u64>,
    scratch: Vec<u64>,
}

impl Query {
    /// Adds bytes of a content. Costs one pass over them.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.scratch.clear();
        sketch_of(bytes, RATE_LOG2, &mut self.scratch);
        let thin_log2 = self.thin_log2;
        self.prints.extend(self.scratch.iter().filter(|p| p.leading_zeros() >= thin_log2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random;

    fn sketches(frames: &[Vec<u8>]) -> Sketches {
        let mut sketches = Sketches::new(1 << 20);
        for frame in frames {
            let mut prints = Vec::new();
            sketch_of(frame, RATE_LOG2, &mut prints);
            sketches.push(&prints);
        }
        sketches
    }

    #[test]
    fn an_index_is_small_and_names_the_frames_that_a_content_resembles() {
        let frames: Vec<_> = (0..20).map(|n| random(n + 1, 100_000)).collect();
        let nothing = Sketches::new(10);
        let none = OldIndex { parts: Vec::new(), frame_count: 0 };
        assert!(none.query().is_none());
        let index = none.continued(&nothing, &sketches(&frames), 0, 2_000_000).unwrap();
        let len = index.encode().len();
        assert!((10_000..42_000).contains(&len), "{len}");
        // Frames 20 and 21 are in no index.
        let old = OldIndex { parts: vec![Arc::new(index)], frame_count: 22 };
        assert_eq!(old.covered_count(), 20);
        let mut query = old.query().unwrap();
        query.push(&[&frames[3][20_000..60_000], &random(99, 50_000)[..], &frames[11]].concat());
        let wanted = old.wanted(&query);
        let found: Vec<_> = (0..22).filter(|&frame| wanted[frame]).collect();
        assert_eq!(found, [3, 11, 20, 21]);
    }

    #[test]
    fn an_index_continues_after_the_frames_that_are_covered() {
        let frames: Vec<_> = (0..6).map(|n| random(n + 1, 50_000)).collect();
        let nothing = Sketches::new(10);
        let none = OldIndex::default();
        let first = none.continued(&nothing, &sketches(&frames[..2]), 0, 100_000).unwrap();
        let old = OldIndex { parts: vec![Arc::new(first)], frame_count: 4 };
        let next = old.continued(&sketches(&frames[..4]), &sketches(&frames[4..]), 1, 400_000);
        let next = next.unwrap();
        assert_eq!((next.frame_first, next.frame_count()), (2, 4));
        let all = OldIndex { parts: [old.parts, vec![Arc::new(next)]].concat(), frame_count: 6 };
        assert_eq!(all.covered_count(), 6);
        let mut query = all.query().unwrap();
        query.push(&frames[1]);
        query.push(&frames[4]);
        assert_eq!(all.wanted(&query), [false, true, false, false, true, false]);
        assert!(all.continued(&nothing, &nothing, 1000, 1000).is_none(), "no frames");
    }
}
