//! Each frame's references, given who may refer to whom; and what they are worth.

use super::postings::Postings;
use super::{Settings, Shape};
use crate::reference::Choice;
use crate::spread::Spreads;

/// Looks at frames of fingerprints that take as long as adding up what a set of frames costs.
const LOOKS_PER_SPREAD: u64 = 64;

/// References of all frames, kept such that any frame may choose again.
///
/// Whenever no frame waits to choose again, all bounds hold: a frame that chooses keeps to them
/// with the references of all others as they are, and if its closure changes, all that refer to it
/// have to choose after it.
pub(super) struct Assignment<'a> {
    pub(super) postings: &'a Postings,
    pub(super) shapes: &'a [Shape],
    spreads: &'a Spreads,
    settings: &'a Settings,
    /// For each frame how deep it may be: it may refer to frames of a smaller class only.
    pub(super) classes: Vec<u8>,
    chosen: Vec<Chosen>,
    /// Frames that refer to each one.
    users: Vec<Vec<u32>>,
    /// What has been looked at so far: frames of fingerprints, and what takes as long.
    pub(super) work: u64,
    /// While a frame chooses: what each other one has of what it misses. Else all zero.
    counts: Vec<u32>,
    /// By fingerprint: the number of the last choice that missed it, 0 once it was found.
    missing: Vec<u64>,
    choice_count: u64,
}

/// What a frame has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// References, the one that shares most first.
    pub(super) references: Vec<u32>,
    /// All frames that are decoded before it.
    pub(super) closure: Vec<u32>,
    /// Fingerprints of the frame that its references have.
    pub(super) worth: u32,
}

impl<'a> Assignment<'a> {
    /// All frames choose, those of smaller classes first.
    pub(super) fn new(
        postings: &'a Postings,
        (shapes, spreads): (&'a [Shape], &'a Spreads),
        classes: Vec<u8>,
        settings: &'a Settings,
    ) -> Self {
        let frame_count = postings.frame_count();
        let mut order: Vec<u32> = (0..frame_count as u32).collect();
        order.sort_by_key(|&frame| (classes[frame as usize], frame));
        let mut assignment = Self {
            postings,
            shapes,
            spreads,
            settings,
            classes,
            chosen: vec![Chosen::default(); frame_count],
            users: vec![Vec::new(); frame_count],
            work: 0,
            counts: vec![0; frame_count],
            missing: vec![0; postings.print_count()],
            choice_count: 0,
        };
        for frame in order {
            let chosen = assignment.choose(frame);
            assignment.replace(frame, chosen);
        }
        assignment
    }

    /// Fingerprints that references have, of all frames.
    pub(super) fn worth(&self) -> u64 {
        self.chosen.iter().map(|chosen| u64::from(chosen.worth)).sum()
    }

    /// Frames in all.
    pub(super) fn frame_count(&self) -> usize {
        self.shapes.len()
    }

    /// The class of frames that nobody may refer to.
    pub(super) fn class_max(&self) -> u8 {
        self.settings.depth_max
    }

    /// Whether a frame refers to another.
    pub(super) fn refers(&self, frame: u32, to: u32) -> bool {
        self.of(frame).references.contains(&to)
    }

    /// What a frame has chosen.
    pub(super) fn of(&self, frame: u32) -> &Chosen {
        &self.chosen[frame as usize]
    }

    /// The frames that refer to this one.
    pub(super) fn users_of(&self, frame: u32) -> &[u32] {
        &self.users[frame as usize]
    }

    /// Gives a frame another choice; returns the one it had.
    pub(super) fn replace(&mut self, frame: u32, chosen: Chosen) -> Chosen {
        let before = std::mem::replace(&mut self.chosen[frame as usize], chosen);
        let after = &self.chosen[frame as usize].references;
        if before.references != *after {
            for &reference in &before.references {
                self.users[reference as usize].retain(|&user| user != frame);
            }
            for &reference in after {
                self.users[reference as usize].push(frame);
            }
        }
        before
    }

    /// What a frame would choose now: greedily the frames that share most of its fingerprints not
    /// covered yet. Ties go to the smaller number.
    pub(super) fn choose(&mut self, frame: u32) -> Chosen {
        let (postings, settings, at) = (self.postings, self.settings, frame as usize);
        let class = self.classes[at];
        let mut chosen = Chosen::default();
        if class == 0 {
            return chosen;
        }
        // A reference must add a share of the frame's fingerprints, and a few whatever its size.
        let gain_min = ((postings.total_of(at) as f32 * settings.gain_share_min) as u32).max(2);
        self.choice_count += 1;
        let mut seen = Vec::new();
        for &print in postings.prints_of(at) {
            self.missing[print as usize] = self.choice_count;
            let (sharers, weight) = (postings.frames_of(print), postings.weight_of(print));
            self.work += sharers.len() as u64;
            for &other in sharers {
                if self.classes[other as usize] < class {
                    let count = &mut self.counts[other as usize];
                    if *count == 0 {
                        seen.push(other);
                    }
                    *count += weight;
                }
            }
        }
        while chosen.references.len() < settings.reference_count_max {
            // Counts only fall: what is too little stays so.
            let mut best: Option<(u32, u32)> = None;
            seen.retain(|&other| {
                let count = &mut self.counts[other as usize];
                if *count < gain_min {
                    *count = 0;
                    return false;
                }
                if best.is_none_or(|(c, o)| *count > c || (*count == c && other < o)) {
                    best = Some((*count, other));
                }
                true
            });
            let Some((count, other)) = best else { break };
            let kept = chosen.closure.len();
            for &needed in self.chosen[other as usize].closure.iter().chain([&other]) {
                if !chosen.closure.contains(&needed) {
                    chosen.closure.push(needed);
                }
            }
            if self.is_too_dear(frame, &chosen.closure) {
                chosen.closure.truncate(kept);
                self.counts[other as usize] = 0;
                continue;
            }
            self.work += postings.prints_of(other as usize).len() as u64;
            for &print in postings.prints_of(other as usize) {
                // What it has is not missing any more.
                if self.missing[print as usize] == self.choice_count {
                    self.missing[print as usize] = 0;
                    let (sharers, weight) = (postings.frames_of(print), postings.weight_of(print));
                    self.work += sharers.len() as u64;
                    for &other in sharers {
                        let count = &mut self.counts[other as usize];
                        *count = count.saturating_sub(weight);
                    }
                }
            }
            chosen.references.push(other);
            chosen.worth += count;
        }
        for other in seen {
            self.counts[other as usize] = 0;
        }
        chosen
    }

    /// Whether a frame with this closure would cost a reader too much, alone or with those that a
    /// content lies in as well.
    fn is_too_dear(&mut self, frame: u32, closure: &[u32]) -> bool {
        if plain_len(self.shapes, &[closure]) > self.settings.closure_bytes_max {
            return true;
        }
        for spread in self.spreads.of_frame(frame) {
            self.work += LOOKS_PER_SPREAD;
            let mut needed = closure.to_vec();
            for &part in spread {
                needed.push(part);
                if part != frame {
                    needed.extend(&self.chosen[part as usize].closure);
                }
            }
            if plain_len(self.shapes, &[&needed]) > self.settings.spread_bytes_max {
                return true;
            }
        }
        false
    }

    /// The references as they stand.
    pub(super) fn into_choice(self) -> Choice {
        let mut choice = Choice::default();
        for mut chosen in self.chosen {
            // The best one next to the frame's own bytes: nearest distances are cheapest.
            chosen.references.reverse();
            choice.push(&chosen.references);
        }
        choice
    }
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
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::super::cover::classes;
    use super::super::improve::{Budget, improve};
    use super::super::{PENALTIES, choose};
    use super::*;
    use crate::spread::set_of;

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
    fn needs(choice: &Choice, frame: u32) -> Vec<u32> {
        let mut needs = vec![frame];
        let mut at = 0;
        while let Some(&frame) = needs.get(at) {
            needs.extend(choice.of(frame as usize));
            at += 1;
        }
        needs
    }

    /// Contents that lie in two or three frames each, by chance.
    fn spreads(seed: u64, frame_count: u32) -> Spreads {
        let bytes = crate::tests::random(seed, frame_count as usize / 4 * 3);
        let sets = bytes.chunks_exact(3).map(|frames| {
            let frames = frames.iter().map(|&frame| u32::from(frame) % frame_count);
            let frames: BTreeSet<_> = frames.collect();
            set_of(&frames.into_iter().collect::<Vec<_>>())
        });
        Spreads::new(sets.collect(), frame_count as usize)
    }

    #[test]
    fn what_frames_and_contents_in_several_cost_stays_within_the_bounds() {
        let shape = |frame: u32| Shape { len: 50 + frame * 37 % 51, is_alone: frame < 5 };
        let shapes: Vec<_> = (0..120).map(shape).collect();
        for (seed, spread_bytes_max) in
            (1..20).flat_map(|seed| [(seed, 600), (seed, 450), (seed, 300)])
        {
            let settings =
                Settings { closure_bytes_max: 400, spread_bytes_max, ..Settings::default() };
            let spreads = spreads(seed, 120);
            let choice = choose(sketches(seed, 120), &shapes, &spreads, &settings, &|| false);
            let mut dearest = (0, 0);
            for frame in 0..120 {
                let references = choice.of(frame as usize);
                assert!(references.is_empty() || !shapes[frame as usize].is_alone);
                let own = needs(&choice, frame);
                let closure = plain_len(&shapes, &[&own[1..]]);
                assert!(closure <= 400, "{closure}");
                dearest.0 = dearest.0.max(closure);
                for spread in spreads.of_frame(frame) {
                    let needed = spread.iter().flat_map(|&part| needs(&choice, part));
                    let cost = plain_len(&shapes, &[&needed.collect::<Vec<_>>()]);
                    assert!(cost <= spread_bytes_max, "{cost}");
                    dearest.1 = dearest.1.max(cost);
                }
            }
            // The bounds are used up, not kept by having no references.
            assert!(dearest.0 > 250 && dearest.1 > spread_bytes_max - 50, "{seed}: {dearest:?}");
        }
    }

    /// What is kept of every frame is what its references say.
    fn assert_consistent(assignment: &Assignment<'_>) {
        let postings = assignment.postings;
        for frame in 0..assignment.frame_count() as u32 {
            let chosen = assignment.of(frame);
            let class = assignment.classes[frame as usize];
            let mut closure: Vec<u32> = chosen.references.clone();
            let mut covered = Vec::new();
            for &reference in &chosen.references {
                assert!(assignment.classes[reference as usize] < class);
                assert!(assignment.users_of(reference).contains(&frame));
                closure.extend(&assignment.of(reference).closure);
                covered.extend(postings.prints_of(reference as usize));
            }
            let users = assignment.users_of(frame);
            assert!(users.iter().all(|&user| assignment.refers(user, frame)));
            closure.sort_unstable();
            closure.dedup();
            let mut kept = chosen.closure.clone();
            kept.sort_unstable();
            assert_eq!(kept, closure);
            let own = postings.prints_of(frame as usize).iter();
            let worth: u32 =
                own.filter(|p| covered.contains(p)).map(|&p| postings.weight_of(p)).sum();
            assert_eq!(chosen.worth, worth);
        }
    }

    #[test]
    fn a_search_only_gains_within_its_budget_and_keeps_the_books() {
        let settings =
            Settings { closure_bytes_max: 400, spread_bytes_max: 500, ..Settings::default() };
        let shape = |n: u32| Shape { len: 100, is_alone: n == 7 };
        let shapes: Vec<_> = (0..60).map(shape).collect();
        for seed in 1..10 {
            let postings = Postings::new(&sketches(seed, 60), 60, settings.sharer_count_max);
            let mut worths = Vec::new();
            for work_max in [0, 2_000_000, 1 << 40] {
                let classes = classes(&postings, &shapes, PENALTIES[0], &settings);
                let known = (&shapes[..], &spreads(seed, 60));
                let mut found = Assignment::new(&postings, known, classes, &settings);
                assert_consistent(&found);
                let before = found.work;
                let mut budget = Budget::new(work_max);
                improve(&mut found, &mut budget, &|| false);
                assert_consistent(&found);
                // One move may go beyond it; a move here looks at some thousand at most.
                assert!(found.work - before < work_max + 50_000 || work_max > 1 << 30);
                assert_eq!(budget.is_spent(), work_max <= 2_000_000);
                assert_eq!(found.classes[7], 0);
                worths.push(found.worth());
            }
            assert!(worths[0] < worths[1] && worths[1] < worths[2], "{worths:?}");
        }
    }

    #[test]
    fn a_search_ends_once_it_looks_at_much_for_little() {
        let settings = Settings::default();
        let shapes = [Shape { len: 100, ..Shape::default() }; 60];
        let postings = Postings::new(&sketches(1, 60), 60, settings.sharer_count_max);
        let looks_of = |looks: u64| {
            let classes = classes(&postings, &shapes, PENALTIES[0], &settings);
            let known = (&shapes[..], &Spreads::default());
            let mut found = Assignment::new(&postings, known, classes, &settings);
            let before = found.work;
            // Again and again, as for one cover after the other, until nothing is gained.
            let mut budget = Budget::new(looks);
            for _ in 0..100 {
                improve(&mut found, &mut budget, &|| false);
            }
            found.work - before
        };
        let patient = looks_of(1 << 40);
        let last = looks_of(8 << 20);
        assert!(last < patient && last < 7 << 20, "{last} of {patient}");
    }

    #[test]
    fn a_cancelled_search_ends_at_its_next_move() {
        let settings = Settings::default();
        let shapes = [Shape { len: 100, ..Shape::default() }; 60];
        let postings = Postings::new(&sketches(1, 60), 60, settings.sharer_count_max);
        let classes = classes(&postings, &shapes, PENALTIES[0], &settings);
        let known = (&shapes[..], &Spreads::default());
        let mut found = Assignment::new(&postings, known, classes, &settings);
        let before = found.work;
        let asked = Cell::new(0);
        improve(&mut found, &mut Budget::new(1 << 40), &|| asked.replace(asked.get() + 1) >= 10);
        assert_consistent(&found);
        // Ten moves at some thousand each, then every frame is asked about once and leaves.
        assert!(found.work > before && found.work - before < 500_000);
    }
}
