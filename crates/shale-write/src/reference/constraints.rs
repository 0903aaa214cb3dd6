//! Bounds on the choice of references: settings of the search, a check of the result, and the cost
//! of reads.

use shale_format::ReadBounds;
use shale_format::limits::PREFIX_LEN_MAX;

use crate::base::frames::OldFrames;
use crate::output::frame_table::FrameTable;
use crate::plan::level::ReferenceLimits;
use crate::reference::choice::FrameShape;
use crate::reference::choice::ReferenceChoice;

/// Bounds and prices of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Most references of one frame (K).
    pub reference_count_max: usize,
    /// Largest depth: the class of frames to which no frame may refer.
    pub depth_max: u8,
    /// Most plain bytes that are decoded before a frame: those of all references, directly or not,
    /// each counted once.
    pub closure_bytes_max: u64,
    /// Frames that are shorter than this may refer to as many bytes more; 0 where only
    /// `closure_bytes_max` counts.
    pub frame_len: u64,
    /// Most plain bytes that are decoded for a short content in two or three frames: these frames,
    /// and all that they refer to.
    pub co_read_bytes_max: u64,
    /// Least share of the frame's own fingerprints that a reference must add.
    pub gain_share_min: f32,
    /// Fingerprints in more frames than this carry no information and are dropped.
    pub sharer_count_max: usize,
    /// Work to improve the choice, for each plain byte: frames of fingerprints that may be looked
    /// at, 3 to 4 ns each.
    pub work_per_byte: u64,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            reference_count_max: 4,
            depth_max: 2,
            closure_bytes_max: 2 << 20,
            frame_len: 0,
            co_read_bytes_max: 3 << 20,
            gain_share_min: 0.01,
            sharer_count_max: 128,
            work_per_byte: 4,
        }
    }
}

/// Checks a choice. This program made it, so a wrong one is a bug and panics.
pub(crate) fn assert_valid(
    choice: &ReferenceChoice,
    shapes: &[FrameShape],
    old: &OldFrames,
    limits: ReferenceLimits,
) {
    assert_eq!(choice.frame_count(), shapes.len(), "references for every frame");
    let known: Vec<u8> = (0..old.count()).map(|frame| old.depth_of(frame)).collect();
    let depths = depths(&known, shapes.len(), |frame| choice.of(frame).iter().map(|&r| r as usize));
    for (frame, &depth) in depths.iter().enumerate().skip(old.count()) {
        let references = choice.of(frame);
        assert!(references.len() <= usize::from(limits.count_max), "too many references");
        assert!(references.is_empty() || depth <= limits.depth_max, "references too deep");
        let prefix_len: u64 = references.iter().map(|&r| u64::from(shapes[r as usize].len)).sum();
        assert!(prefix_len <= PREFIX_LEN_MAX, "prefix too long");
        assert!(references.is_empty() || !shapes[frame].is_alone, "a frame that stands alone");
    }
}

/// Computes the depth of every record from the references that were kept.
pub(crate) fn set_depths(table: &mut FrameTable, old: &OldFrames) {
    let known: Vec<u8> = (0..old.count()).map(|frame| old.depth_of(frame)).collect();
    let first = known.len();
    let depths = depths(&known, first + table.records.len(), |frame| {
        table.references_of(frame - first).iter().map(|&r| r as usize)
    });
    for (record, depth) in table.records.iter_mut().zip(depths.into_iter().skip(first)) {
        record.depth = depth;
    }
}

/// Computes what a random read of the frames in the table can cost: the most plain bytes of a frame
/// and of all frames that it refers to, directly or not, each counted once.
pub(crate) fn bounds(table: &FrameTable, old: &OldFrames) -> ReadBounds {
    let first = old.count();
    let mut bounds = ReadBounds::default();
    let mut needed = Vec::new();
    for (index, record) in table.records.iter().enumerate() {
        needed.clear();
        needed.push((first + index) as u64);
        let mut at = 0;
        let mut read_bytes = 0;
        while let Some(&frame) = needed.get(at) {
            let references = match (frame as usize).checked_sub(first) {
                Some(local) => {
                    read_bytes += table.records[local].plain_len;
                    table.references_of(local)
                }
                None => {
                    read_bytes += old.len_of(frame as usize);
                    old.references_of(frame as usize)
                }
            };
            for &reference in references {
                if !needed.contains(&reference) {
                    needed.push(reference);
                }
            }
            at += 1;
        }
        bounds.read_bytes_max = bounds.read_bytes_max.max(read_bytes);
        bounds.frame_plain_len_max = bounds.frame_plain_len_max.max(record.plain_len);
        bounds.depth_max = bounds.depth_max.max(record.depth);
        bounds.reference_count_max = bounds.reference_count_max.max(record.reference_count as u16);
    }
    bounds
}

/// Computes the longest chain below each frame; that of the first ones is `known`. Panics on a
/// cycle. Uses no stack for long chains.
fn depths<I: Iterator<Item = usize>>(
    known: &[u8],
    count: usize,
    references: impl Fn(usize) -> I,
) -> Vec<u8> {
    const UNKNOWN: u8 = u8::MAX;
    const ON_THE_WAY: u8 = u8::MAX - 1;
    let mut depths = known.to_vec();
    depths.resize(count, UNKNOWN);
    let mut waiting = Vec::new();
    for start in known.len()..count {
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
    use shale_format::FrameRecord;

    use super::*;

    const LIMITS: ReferenceLimits =
        ReferenceLimits { count_max: 2, depth_max: 2, ..ReferenceLimits::UNBOUNDED };

    fn check(chosen: &[Vec<u32>]) -> bool {
        let shapes = vec![FrameShape { len: 10, ..FrameShape::default() }; chosen.len()];
        let mut choice = ReferenceChoice::default();
        chosen.iter().for_each(|references| choice.push(references));
        std::panic::catch_unwind(|| assert_valid(&choice, &shapes, &OldFrames::default(), LIMITS))
            .is_ok()
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
        let records = vec![record(0, 2), record(2, 1), record(3, 0)];
        let references = vec![1, 2, 2];
        let mut table = FrameTable { records, references, ..FrameTable::default() };
        let old = OldFrames::default();
        set_depths(&mut table, &old);
        assert_eq!(table.records.iter().map(|frame| frame.depth).collect::<Vec<_>>(), [2, 1, 0]);
        let bounds = bounds(&table, &old);
        assert_eq!((bounds.read_bytes_max, bounds.depth_max), (300, 2));
        assert_eq!((bounds.reference_count_max, bounds.frame_plain_len_max), (2, 100));
    }
}
