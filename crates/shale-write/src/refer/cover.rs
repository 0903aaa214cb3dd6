//! The greedy cover: classes of frames (who may refer to whom), then each frame's references.

use std::collections::BinaryHeap;

use super::postings::Postings;
use super::{Graph, Settings, Shape};

/// For each frame how deep it may be: 0 is a root. A frame may refer to frames of a smaller class
/// only.
pub fn classes(postings: &Postings, shapes: &[Shape], settings: &Settings) -> Vec<u8> {
    let frame_count = postings.frame_count();
    let depth_max = settings.depth_max.min(8) as u8;
    let mut classes = vec![depth_max; frame_count];
    let (alone, mut pool): (Vec<u32>, Vec<u32>) =
        (0..frame_count as u32).partition(|&frame| shapes[frame as usize].is_alone);
    alone.iter().for_each(|&frame| classes[frame as usize] = 0);
    for class in (0..depth_max).rev() {
        let picked = pick(postings, &pool, &alone, settings);
        for &frame in &picked {
            classes[frame as usize] = class;
        }
        pool = picked;
    }
    classes
}

/// Picks from `pool` the frames that provide most to the rest of the pool, beside `roots`, which
/// are there anyway. Ascending.
fn pick(postings: &Postings, pool: &[u32], roots: &[u32], settings: &Settings) -> Vec<u32> {
    // How many frames of the pool have each fingerprint.
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
            if provided[print as usize] {
                repeats += 1;
            } else {
                gives += i64::from(sharers[print as usize]) - 1;
            }
        }
        // In thousandths, as an integer: no rounding that depends on order.
        gives * 1000 - (repeats as f64 * f64::from(settings.penalty) * 1000.0) as i64
    };
    let mut heap: BinaryHeap<(i64, std::cmp::Reverse<u32>)> = pool
        .iter()
        .map(|&frame| (score(frame, &provided), std::cmp::Reverse(frame)))
        .filter(|&(score, _)| score > 0)
        .collect();
    let mut picked = Vec::new();
    // A frame's score only falls while others are picked, so the top of the heap is the best once
    // it has been computed anew and stays the top.
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

/// Gives every frame its references.
pub fn assign(postings: &Postings, shapes: &[Shape], classes: &[u8], settings: &Settings) -> Graph {
    let frame_count = postings.frame_count();
    let mut order: Vec<u32> = (0..frame_count as u32).collect();
    order.sort_by_key(|&frame| (classes[frame as usize], frame));
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); frame_count];
    let mut closures: Vec<Vec<u32>> = vec![Vec::new(); frame_count];
    let mut depths = vec![0u8; frame_count];
    let mut counts = vec![0u32; frame_count];
    let mut covered = vec![u32::MAX; postings.print_count()];
    for &frame in &order {
        let at = frame as usize;
        let class = classes[at];
        if class == 0 {
            continue;
        }
        // A reference must add a share of the frame's fingerprints, and a few whatever its size.
        let gain_min = ((postings.total_of(at) as f32 * settings.gain_share_min) as u32).max(2);
        let mut chosen: Vec<u32> = Vec::new();
        let mut closure: Vec<u32> = Vec::new();
        let mut refused: Vec<u32> = Vec::new();
        let count_max = settings.reference_count_max.min(16);
        while chosen.len() < count_max {
            let mut seen = Vec::new();
            for &print in postings.prints_of(at) {
                if covered[print as usize] == frame {
                    continue;
                }
                for &other in postings.frames_of(print) {
                    if classes[other as usize] < class {
                        if counts[other as usize] == 0 {
                            seen.push(other);
                        }
                        counts[other as usize] += 1;
                    }
                }
            }
            let mut best: Option<(u32, u32)> = None;
            for &other in &seen {
                let count = std::mem::take(&mut counts[other as usize]);
                if count < gain_min || refused.contains(&other) {
                    continue;
                }
                if best.is_none_or(|(c, o)| count > c || (count == c && other < o)) {
                    best = Some((count, other));
                }
            }
            let Some((_, other)) = best else { break };
            // What would be decoded before this frame with it.
            let kept = closure.len();
            for &frame in closures[other as usize].iter().chain([&other]) {
                if !closure.contains(&frame) {
                    closure.push(frame);
                }
            }
            let is_too_dear = plain_len(shapes, &[&closure]) > settings.closure_bytes_max
                || neighbours(shapes, at).any(|next| {
                    let pair = [frame, next as u32];
                    plain_len(shapes, &[&closure, &closures[next], &pair]) > settings.pair_bytes_max
                });
            if is_too_dear {
                closure.truncate(kept);
                refused.push(other);
                continue;
            }
            for &print in postings.prints_of(other as usize) {
                covered[print as usize] = frame;
            }
            depths[at] = depths[at].max(depths[other as usize] + 1);
            chosen.push(other);
        }
        // The best one next to the frame's own bytes: nearest distances are cheapest.
        chosen.reverse();
        lists[at] = chosen;
        let is_leaf = class == settings.depth_max.min(8) as u8;
        if !is_leaf || neighbours(shapes, at).next().is_some() {
            closures[at] = closure;
        }
    }
    let mut graph = Graph { depths, ..Graph::default() };
    for list in lists {
        graph.references.extend(list);
        graph.reference_ends.push(graph.references.len() as u32);
    }
    graph
}

/// The frames behind and before this one that share a content with it.
fn neighbours(shapes: &[Shape], frame: usize) -> impl Iterator<Item = usize> {
    let before = shapes[frame].continues.then(|| frame - 1);
    let after = shapes.get(frame + 1).is_some_and(|next| next.continues).then_some(frame + 1);
    before.into_iter().chain(after)
}

/// Plain bytes of all frames in the lists, each counted once.
fn plain_len(shapes: &[Shape], lists: &[&[u32]]) -> u64 {
    let mut frames = lists.concat();
    frames.sort_unstable();
    frames.dedup();
    frames.iter().map(|&frame| u64::from(shapes[frame as usize].len)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::*;

    /// Frames of which each shares fingerprints with some others, by chance.
    fn sketches(seed: u64, frame_count: u32) -> Vec<(u64, u32)> {
        let bytes = crate::tests::random(seed, frame_count as usize * 12);
        let frames = bytes.chunks(12).zip(0..frame_count);
        let pairs = frames.flat_map(|(prints, frame)| {
            prints
                .iter()
                .flat_map(move |&print| (0..4).map(move |n| (u64::from(print) / 4 * 4 + n, frame)))
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// A frame and all it needs.
    fn needs(graph: &Graph, frame: u32) -> Vec<u32> {
        let mut needs = vec![frame];
        let mut at = 0;
        while let Some(&frame) = needs.get(at) {
            needs.extend(graph.of(frame as usize));
            at += 1;
        }
        needs
    }

    #[test]
    fn what_frames_and_pairs_cost_stays_within_the_bounds() {
        let shape = |frame: u32| Shape {
            len: 50 + frame * 37 % 51,
            is_alone: frame < 5,
            continues: !frame.is_multiple_of(3) && frame > 5,
        };
        let shapes: Vec<_> = (0..120).map(shape).collect();
        for (seed, pair_bytes_max) in
            (1..20).flat_map(|seed| [(seed, 600), (seed, 450), (seed, 300)])
        {
            let settings =
                Settings { closure_bytes_max: 400, pair_bytes_max, ..Settings::default() };
            let graph = choose(sketches(seed, 120), &shapes, &settings);
            let mut dearest = (0, 0);
            for frame in 0..120 {
                let references = graph.of(frame as usize);
                assert!(references.is_empty() || !shapes[frame as usize].is_alone);
                let own = needs(&graph, frame);
                let closure = plain_len(&shapes, &[&own[1..]]);
                assert!(closure <= 400, "{closure}");
                dearest.0 = dearest.0.max(closure);
                if shapes[frame as usize].continues {
                    let pair = plain_len(&shapes, &[&own, &needs(&graph, frame - 1)]);
                    assert!(pair <= pair_bytes_max, "{pair}");
                    dearest.1 = dearest.1.max(pair);
                }
            }
            // The bounds are used up, not kept by having no references.
            assert!(dearest.0 > 250 && dearest.1 > pair_bytes_max - 50, "{seed}: {dearest:?}");
        }
    }
}
