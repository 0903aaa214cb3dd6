//! What the stage that chooses references offers to the pipeline, and what must hold of its
//! choice.

use shale_format::limits::PREFIX_LEN_MAX;
use shale_format::{FrameRecord, ReadBounds};

use crate::levels::ReferenceLimits;
use crate::refer::Shape;
use crate::spread::Spreads;

/// What is known of all frames when references are chosen: fingerprints, frame by frame.
///
/// When there are too many, those whose last bits are not zero are dropped, of all frames alike,
/// one bit after the other; what is kept so depends on the frames alone.
#[derive(Debug)]
pub(crate) struct Sketches {
    prints: Vec<u64>,
    /// Where each frame's fingerprints end.
    ends: Vec<usize>,
    count_max: usize,
    thin_log2: u32,
}

impl Sketches {
    /// No frames, and how many fingerprints to keep at most.
    pub(crate) fn new(count_max: usize) -> Self {
        Self { prints: Vec::new(), ends: Vec::new(), count_max, thin_log2: 0 }
    }

    /// Adds the next frame.
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

    /// Number of frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.ends.len()
    }

    /// Fingerprints of a frame.
    pub(crate) fn of(&self, frame: usize) -> &[u64] {
        let start = frame.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.prints[start..self.ends[frame]]
    }
}

/// References of all frames.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    references: Vec<u32>,
    /// Where each frame's references end.
    ends: Vec<usize>,
}

impl Choice {
    /// Adds the references of the next frame, in prefix order.
    pub(crate) fn push(&mut self, references: &[u32]) {
        self.references.extend_from_slice(references);
        self.ends.push(self.references.len());
    }

    /// References of a frame; none where nothing was chosen.
    pub(crate) fn of(&self, frame: usize) -> &[u32] {
        let Some(&end) = self.ends.get(frame) else {
            return &[];
        };
        let start = frame.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.references[start..end]
    }
}

/// Chooses references.
pub(crate) trait Referrer: Sync {
    /// Fingerprints of one frame, without repeats; runs on any thread.
    fn sketch(&self, plain: &[u8]) -> Vec<u64>;

    /// The references of every frame, from all sketches and shapes, and what is read together.
    /// Depends on them alone, unless it is cancelled: then it ends soon with what it has.
    fn choose(
        &self,
        sketches: Sketches,
        shapes: &[Shape],
        spreads: &Spreads,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Choice;

    /// What the choice keeps to.
    fn limits(&self) -> ReferenceLimits;
}

/// Most fingerprints kept of a whole image. A constant, as memory must not change the choice; see
/// [`crate::budget`].
pub(crate) const PRINT_COUNT_MAX: usize = 4 << 20;

/// Checks a choice: it comes from this program, so a wrong one is a bug and ends it.
pub(crate) fn assert_valid(choice: &Choice, shapes: &[Shape], limits: ReferenceLimits) {
    assert_eq!(choice.ends.len(), shapes.len(), "references for every frame");
    let depths = depths(shapes.len(), |frame| choice.of(frame).iter().map(|&r| r as usize));
    for (frame, &depth) in depths.iter().enumerate() {
        let references = choice.of(frame);
        assert!(references.len() <= usize::from(limits.count_max), "too many references");
        assert!(depth <= limits.depth_max, "references too deep");
        let prefix_len: u64 = references.iter().map(|&r| u64::from(shapes[r as usize].len)).sum();
        assert!(prefix_len <= PREFIX_LEN_MAX, "prefix too long");
        assert!(references.is_empty() || !shapes[frame].is_alone, "a frame that stands alone");
    }
}

/// Computes the depths of all records from the references that were kept.
pub(crate) fn set_depths(frames: &mut [FrameRecord], references: &[u64]) {
    let depths = depths(frames.len(), |frame| {
        of_record(&frames[frame], references).iter().map(|&r| r as usize)
    });
    for (record, depth) in frames.iter_mut().zip(depths) {
        record.depth = depth;
    }
}

/// What a random read can cost: over all frames, the plain bytes of a frame and of all frames it
/// refers to, directly or not, each counted once.
pub(crate) fn bounds(frames: &[FrameRecord], references: &[u64]) -> ReadBounds {
    let mut bounds = ReadBounds::default();
    let mut needed = Vec::new();
    for (index, record) in frames.iter().enumerate() {
        needed.clear();
        needed.push(index as u64);
        let mut at = 0;
        while let Some(&frame) = needed.get(at) {
            for &reference in of_record(&frames[frame as usize], references) {
                if !needed.contains(&reference) {
                    needed.push(reference);
                }
            }
            at += 1;
        }
        let read_bytes = needed.iter().map(|&frame| frames[frame as usize].plain_len).sum();
        bounds.read_bytes_max = bounds.read_bytes_max.max(read_bytes);
        bounds.frame_plain_len_max = bounds.frame_plain_len_max.max(record.plain_len);
        bounds.depth_max = bounds.depth_max.max(record.depth);
        bounds.reference_count_max = bounds.reference_count_max.max(record.reference_count as u16);
    }
    bounds
}

fn of_record<'r>(record: &FrameRecord, references: &'r [u64]) -> &'r [u64] {
    let first = record.reference_first as usize;
    &references[first..first + record.reference_count as usize]
}

/// Longest chain below each frame. Panics on a cycle; needs no stack for long chains.
fn depths<I: Iterator<Item = usize>>(count: usize, references: impl Fn(usize) -> I) -> Vec<u8> {
    const UNKNOWN: u8 = u8::MAX;
    const ON_THE_WAY: u8 = u8::MAX - 1;
    let mut depths = vec![UNKNOWN; count];
    let mut waiting = Vec::new();
    for start in 0..count {
        waiting.push(start);
        while let Some(&frame) = waiting.last() {
            match references(frame).find(|&reference| depths[reference] >= ON_THE_WAY) {
                Some(reference) => {
                    assert!(depths[reference] != ON_THE_WAY && reference != frame, "a cycle");
                    depths[frame] = ON_THE_WAY;
                    waiting.push(reference);
                }
                None => {
                    let deepest = references(frame).map(|reference| depths[reference] + 1).max();
                    depths[frame] = deepest.unwrap_or(0);
                    assert!(depths[frame] < ON_THE_WAY, "references too deep");
                    waiting.pop();
                }
            }
        }
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReferenceLimits =
        ReferenceLimits { count_max: 2, depth_max: 2, ..ReferenceLimits::UNBOUNDED };

    fn check(chosen: &[Vec<u32>]) -> bool {
        let shapes = vec![Shape { len: 10, ..Shape::default() }; chosen.len()];
        let mut choice = Choice::default();
        chosen.iter().for_each(|references| choice.push(references));
        std::panic::catch_unwind(|| assert_valid(&choice, &shapes, LIMITS)).is_ok()
    }

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

    #[test]
    fn choices_beyond_the_limits_are_bugs() {
        assert!(check(&[vec![2], vec![0, 2], vec![]]));
        assert!(!check(&[vec![1], vec![2], vec![3], vec![]]), "too deep");
        assert!(!check(&[vec![1], vec![0]]), "a cycle");
        assert!(!check(&[vec![0]]), "itself");
        assert!(!check(&[vec![1, 2, 3], vec![], vec![], vec![]]), "too many");
    }

    #[test]
    fn bounds_count_every_frame_once() {
        let record = |first, count| FrameRecord {
            plain_len: 100,
            reference_first: first,
            reference_count: count,
            ..FrameRecord::default()
        };
        let mut frames = [record(0, 2), record(2, 1), record(3, 0)];
        let references = [1, 2, 2];
        set_depths(&mut frames, &references);
        assert_eq!(frames.map(|frame| frame.depth), [2, 1, 0]);
        let bounds = bounds(&frames, &references);
        assert_eq!((bounds.read_bytes_max, bounds.depth_max), (300, 2));
        assert_eq!((bounds.reference_count_max, bounds.frame_plain_len_max), (2, 100));
    }
}
