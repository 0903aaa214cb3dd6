//! The greedy cover: classes of frames (who may refer to whom), then each frame's references.

use std::collections::BinaryHeap;

use super::postings::Postings;
use super::{Graph, Settings};

/// For each frame how deep it may be: 0 is a root, as the first `alone_count` frames are. A frame
/// may refer to frames of a smaller class only.
pub fn classes(postings: &Postings, alone_count: usize, settings: &Settings) -> Vec<u8> {
    let frame_count = postings.frame_count();
    let depth_max = settings.depth_max.min(8) as u8;
    let mut classes = vec![depth_max; frame_count];
    let alone_count = alone_count.min(frame_count);
    classes[..alone_count].fill(0);
    let mut pool: Vec<u32> = (alone_count as u32..frame_count as u32).collect();
    for class in (0..depth_max).rev() {
        let picked = pick(postings, &pool, alone_count, settings);
        for &frame in &picked {
            classes[frame as usize] = class;
        }
        pool = picked;
    }
    classes
}

/// Picks from `pool` the frames that provide most to the rest of the pool, beside the first
/// `alone_count` frames, which are there anyway. Ascending.
fn pick(postings: &Postings, pool: &[u32], alone_count: usize, settings: &Settings) -> Vec<u32> {
    // How many frames of the pool have each fingerprint.
    let mut sharers = vec![0u32; postings.print_count()];
    for &frame in pool {
        for &print in postings.prints_of(frame as usize) {
            sharers[print as usize] += 1;
        }
    }
    let mut provided = vec![false; postings.print_count()];
    for frame in 0..alone_count {
        postings.prints_of(frame).iter().for_each(|&print| provided[print as usize] = true);
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
pub fn assign(
    postings: &Postings,
    frame_lens: &[u32],
    classes: &[u8],
    settings: &Settings,
) -> Graph {
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
        let mut closure_len = 0u64;
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
            // What it would add to the bytes decoded before this frame.
            let added: Vec<u32> = closures[other as usize]
                .iter()
                .copied()
                .chain([other])
                .filter(|f| !closure.contains(f))
                .collect();
            let added_len: u64 = added.iter().map(|&f| u64::from(frame_lens[f as usize])).sum();
            if closure_len + added_len > settings.closure_bytes_max {
                refused.push(other);
                continue;
            }
            closure.extend(added);
            closure_len += added_len;
            for &print in postings.prints_of(other as usize) {
                covered[print as usize] = frame;
            }
            depths[at] = depths[at].max(depths[other as usize] + 1);
            chosen.push(other);
        }
        // The best one next to the frame's own bytes: nearest distances are cheapest.
        chosen.reverse();
        lists[at] = chosen;
        if class < settings.depth_max.min(8) as u8 {
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
