//! The greedy cover: assigns frames to classes, which decide which frames may refer to which.

use std::collections::BinaryHeap;

use crate::base::frames::OldFrames;
use crate::reference::choice::FrameShape;
use crate::reference::constraints::SearchSettings;
use crate::reference::postings::Postings;

/// Returns the class of each frame, which is how deep it may be; 0 is a root. A frame may refer
/// only to frames of a smaller class. The class of an old frame is its depth.
pub(crate) fn classes(
    postings: &Postings,
    shapes: &[FrameShape],
    old: &OldFrames,
    penalty: f32,
    settings: &SearchSettings,
) -> Vec<u8> {
    let frame_count = postings.frame_count();
    let mut classes = vec![settings.depth_max; frame_count];
    let old_count = old.count();
    let is_given = |frame: u32| (frame as usize) < old_count || shapes[frame as usize].is_alone;
    let (given, mut pool): (Vec<u32>, Vec<u32>) =
        (0..frame_count as u32).partition(|&frame| is_given(frame));
    for &frame in &given {
        let frame = frame as usize;
        classes[frame] = if frame < old_count { old.depth_of(frame) } else { 0 };
    }
    for class in (0..settings.depth_max).rev() {
        let roots: Vec<u32> =
            given.iter().copied().filter(|&frame| classes[frame as usize] <= class).collect();
        let picked = pick(postings, &pool, &roots, penalty);
        for &frame in &picked {
            classes[frame as usize] = class;
        }
        pool = picked;
    }
    classes
}

/// Picks the frames of `pool` that provide most to the rest of the pool, beside `roots`, which are
/// provided anyway. The result ascends.
fn pick(postings: &Postings, pool: &[u32], roots: &[u32], penalty: f32) -> Vec<u32> {
    // Number of frames in the pool that have each fingerprint.
    let mut sharers = vec![0u32; postings.print_count()];
    for &frame in pool {
        for &print in postings.prints_of(frame as usize) {
            sharers[print as usize] += 1;
        }
    }
    let mut provided = vec![false; postings.print_count()];
    for &frame in roots {
        for &print in postings.prints_of(frame as usize) {
            provided[print as usize] = true;
        }
    }
    let score = |frame: u32, provided: &[bool]| -> i64 {
        let (mut gives, mut repeats) = (0i64, 0i64);
        for &print in postings.prints_of(frame as usize) {
            let weight = i64::from(postings.weight_of(print));
            if provided[print as usize] {
                repeats += weight;
            } else {
                gives += weight * (i64::from(sharers[print as usize]) - 1);
            }
        }
        // In thousandths, as an integer, so that no rounding depends on the order.
        gives * 1000 - (repeats as f64 * f64::from(penalty) * 1000.0) as i64
    };
    let mut heap: BinaryHeap<(i64, std::cmp::Reverse<u32>)> = pool
        .iter()
        .map(|&frame| (score(frame, &provided), std::cmp::Reverse(frame)))
        .filter(|&(score, _)| score > 0)
        .collect();
    let mut picked = Vec::new();
    // The score of a frame only falls while others are picked. So the top of the heap is the best
    // one if it still is at the top after its score was computed again.
    while let Some((_, std::cmp::Reverse(frame))) = heap.pop() {
        let now = score(frame, &provided);
        if now <= 0 {
            continue;
        }
        let entry = (now, std::cmp::Reverse(frame));
        if heap.peek().is_some_and(|top| *top > entry) {
            heap.push(entry);
            continue;
        }
        for &print in postings.prints_of(frame as usize) {
            provided[print as usize] = true;
        }
        picked.push(frame);
    }
    picked.sort_unstable();
    picked
}
