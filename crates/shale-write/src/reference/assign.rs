//! The references of each frame, given which frames may refer to which, and their worth.

use crate::base::frames::OldFrames;
use crate::reference::choice::FrameShape;
use crate::reference::choice::ReferenceChoice;
use crate::reference::co_read_sets::CoReadSets;
use crate::reference::constraints::SearchSettings;
use crate::reference::postings::Postings;

/// Work of adding up the cost of a set of frames, counted in looks.
const LOOKS_PER_SPREAD: u64 = 64;

/// References of all frames. Any frame may choose again.
///
/// While no frame waits to choose again, all bounds hold. A frame that chooses keeps to the bounds
/// with the current references of all others. If its closure changes, all frames that refer to it
/// have to choose after it.
#[derive(Clone)]
pub(crate) struct Assignment<'a> {
    pub(crate) postings: &'a Postings,
    pub(crate) shapes: &'a [FrameShape],
    co_read_sets: &'a CoReadSets,
    settings: &'a SearchSettings,
    /// Class of each frame. A frame may refer only to frames of a smaller class.
    pub(crate) classes: Vec<u8>,
    /// The first frames have their references already. Theirs are not listed here, only what they
    /// need.
    old_count: usize,
    chosen: Vec<Chosen>,
    /// Frames that refer to each frame.
    users: Vec<Vec<u32>>,
    /// Work so far, in looks: frames of fingerprints that were looked at, and work that takes as
    /// long.
    pub(crate) work: u64,
    /// While a frame chooses, how many fingerprints that it misses each other frame has, and
    /// [`MET`]. Otherwise zero.
    counts: Vec<u32>,
    /// By fingerprint, the number of the last choice that missed it; 0 once it was found.
    missing: Vec<u64>,
    choice_count: u64,
    marks: Marks,
}

/// Set in the counts of frames that were met.
const MET: u32 = 1 << 31;

/// Marks frames, so that each is counted once. Forgetting all marks costs nothing.
#[derive(Clone)]
struct Marks {
    /// By frame, the last round in which it was marked.
    rounds: Vec<u64>,
    round: u64,
}

impl Marks {
    fn new(frame_count: usize) -> Self {
        Self { rounds: vec![0; frame_count], round: 0 }
    }

    /// Forgets all marks.
    fn clear(&mut self) {
        self.round += 1;
    }

    /// Marks a frame. Returns whether it had no mark.
    fn mark(&mut self, frame: u32) -> bool {
        std::mem::replace(&mut self.rounds[frame as usize], self.round) != self.round
    }
}

/// The choice of one frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// References, the one that shares most first.
    pub(crate) references: Vec<u32>,
    /// All frames that are decoded before the frame.
    pub(crate) closure: Vec<u32>,
    /// Fingerprints of the frame that its references have.
    pub(crate) worth: u32,
}

impl<'a> Assignment<'a> {
    /// Lets all frames choose, those of smaller classes first.
    pub(crate) fn new(
        postings: &'a Postings,
        (shapes, co_read_sets): (&'a [FrameShape], &'a CoReadSets),
        old: &OldFrames,
        classes: Vec<u8>,
        settings: &'a SearchSettings,
    ) -> Self {
        let frame_count = postings.frame_count();
        let old_count = old.count();
        let mut order: Vec<u32> = (old_count as u32..frame_count as u32).collect();
        order.sort_by_key(|&frame| (classes[frame as usize], frame));
        let mut assignment = Self {
            postings,
            shapes,
            co_read_sets,
            settings,
            classes,
            old_count,
            chosen: vec![Chosen::default(); frame_count],
            users: vec![Vec::new(); frame_count],
            work: 0,
            counts: vec![0; frame_count],
            missing: vec![0; postings.print_count()],
            choice_count: 0,
            marks: Marks::new(frame_count),
        };
        for frame in 0..old_count {
            assignment.chosen[frame].closure = old.closure_of(frame);
        }
        for frame in order {
            let chosen = assignment.choose(frame);
            assignment.replace(frame, chosen);
        }
        assignment
    }

    /// Fingerprints that references cover, over all frames.
    pub(crate) fn worth(&self) -> u64 {
        self.chosen.iter().map(|chosen| u64::from(chosen.worth)).sum()
    }

    /// Number of frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.shapes.len()
    }

    /// Memory of a copy, about.
    pub(crate) fn memory_len(&self) -> usize {
        8 * self.missing.len() + 250 * self.shapes.len()
    }

    /// Returns whether a frame has one class only, and the references that it has.
    pub(crate) fn is_fixed(&self, frame: u32) -> bool {
        (frame as usize) < self.old_count || self.shapes[frame as usize].is_alone
    }

    /// The class of frames to which no frame may refer.
    pub(crate) fn class_max(&self) -> u8 {
        self.settings.depth_max
    }

    /// Returns whether a frame refers to another.
    pub(crate) fn refers(&self, frame: u32, to: u32) -> bool {
        self.of(frame).references.contains(&to)
    }

    /// The choice of a frame.
    pub(crate) fn of(&self, frame: u32) -> &Chosen {
        &self.chosen[frame as usize]
    }

    /// The frames that refer to this one.
    pub(crate) fn users_of(&self, frame: u32) -> &[u32] {
        &self.users[frame as usize]
    }

    /// Replaces the choice of a frame. Returns the old one.
    pub(crate) fn replace(&mut self, frame: u32, chosen: Chosen) -> Chosen {
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

    /// Returns what a frame would choose now: greedily the frames that share most of its
    /// fingerprints that are not covered yet. Ties go to the smaller index.
    pub(crate) fn choose(&mut self, frame: u32) -> Chosen {
        let (postings, settings, at) = (self.postings, self.settings, frame as usize);
        let class = self.classes[at];
        let mut chosen = Chosen::default();
        if class == 0 {
            return chosen;
        }
        // A reference must add a share of the frame's fingerprints, and at least two.
        let gain_min = ((postings.total_of(at) as f32 * settings.gain_share_min) as u32).max(2);
        self.choice_count += 1;
        let mut seen = Vec::new();
        for &print in postings.prints_of(at) {
            self.missing[print as usize] = self.choice_count;
            let (sharers, weight) = (postings.frames_of(print), postings.weight_of(print));
            self.work += sharers.len() as u64;
            for &other in sharers {
                // Half of the frames may not be referred to, in no order that a processor foresees.
                // So all are counted, those with nothing.
                let may = u32::from(self.classes[other as usize] < class);
                let count = &mut self.counts[other as usize];
                if *count == 0 {
                    seen.push(other);
                    *count = MET;
                }
                *count += weight * may;
            }
        }
        while chosen.references.len() < settings.reference_count_max {
            // Counts only fall: a frame that shares too little is out for good.
            let mut best: Option<(u32, u32)> = None;
            seen.retain(|&other| {
                let count = self.counts[other as usize] & !MET;
                if count < gain_min {
                    self.counts[other as usize] = 0;
                    return false;
                }
                if best.is_none_or(|(c, o)| count > c || (count == c && other < o)) {
                    best = Some((count, other));
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
                // Fingerprints that the reference has are not missing any more.
                if self.missing[print as usize] == self.choice_count {
                    self.missing[print as usize] = 0;
                    let (sharers, weight) = (postings.frames_of(print), postings.weight_of(print));
                    self.work += sharers.len() as u64;
                    for &other in sharers {
                        let count = &mut self.counts[other as usize];
                        *count = (*count & MET) | (*count & !MET).saturating_sub(weight);
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

    /// Returns the other frames that share something with this one, ascending.
    pub(crate) fn sharers(&mut self, frame: u32) -> Vec<u32> {
        let mut found = Vec::new();
        self.marks.clear();
        self.marks.mark(frame);
        for &print in self.postings.prints_of(frame as usize) {
            let sharers = self.postings.frames_of(print);
            self.work += sharers.len() as u64;
            found.extend(sharers.iter().filter(|&&sharer| self.marks.mark(sharer)));
        }
        found.sort_unstable();
        found
    }

    /// Returns whether a frame with this closure would cost a reader too much, alone or together
    /// with the other frames that hold a content.
    fn is_too_dear(&mut self, frame: u32, closure: &[u32]) -> bool {
        let len_of = |frame: u32| u64::from(self.shapes[frame as usize].len);
        let room = self.settings.frame_len.saturating_sub(len_of(frame));
        let closure_len: u64 = closure.iter().map(|&needed| len_of(needed)).sum();
        if closure_len > self.settings.closure_bytes_max + room {
            return true;
        }
        for set in self.co_read_sets.of_frame(frame) {
            self.work += LOOKS_PER_SPREAD;
            self.marks.clear();
            let mut needed_len = 0;
            let mut need = |needed: u32| {
                if self.marks.mark(needed) {
                    needed_len += len_of(needed);
                }
            };
            closure.iter().for_each(|&needed| need(needed));
            for &part in set {
                need(part);
                if part != frame {
                    self.chosen[part as usize].closure.iter().for_each(|&needed| need(needed));
                }
            }
            if needed_len > self.settings.co_read_bytes_max {
                return true;
            }
        }
        false
    }

    /// Returns the references of all frames.
    pub(crate) fn into_choice(self) -> ReferenceChoice {
        let mut choice = ReferenceChoice::default();
        for mut chosen in self.chosen {
            // The best one comes next to the frame's own bytes, because short distances are
            // cheapest.
            chosen.references.reverse();
            choice.push(&chosen.references);
        }
        choice
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;
    use crate::exec::stages::StageTimes;
    use crate::reference::co_read_sets::set_of;
    use crate::reference::cover::classes;
    use crate::reference::improve::{Budget, Help, improve};
    use crate::reference::search::{PENALTIES, choose};

    /// Plain bytes of all frames in the lists, each counted once.
    fn plain_len(shapes: &[FrameShape], lists: &[&[u32]]) -> u64 {
        let mut frames = lists.concat();
        frames.sort_unstable();
        frames.dedup();
        frames.iter().map(|&frame| u64::from(shapes[frame as usize].len)).sum()
    }

    /// Frames that share fingerprints with some others, at random.
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

    /// One thread.
    fn alone(times: &StageTimes) -> Help<'_> {
        Help { threads: 1, times, decides: &|_| {} }
    }

    #[test]
    fn threads_change_neither_the_choice_nor_what_is_left_of_the_budget() {
        let settings = SearchSettings { closure_bytes_max: 400, ..SearchSettings::default() };
        let shapes: Vec<_> =
            (0..150).map(|n| FrameShape { len: 50 + n * 37 % 51, is_alone: n == 7 }).collect();
        let (none, times) = (OldFrames::default(), StageTimes::default());
        // From a budget that is ample to one that ends at once.
        for (seed, work_max) in [(1, 100_000_000), (2, 10_000_000), (3, 700_000)] {
            let postings = Postings::of_pairs(&sketches(seed, 150), 150, settings.sharer_count_max);
            let sets = co_read_sets(seed, 150);
            let found = [1, 2, 5].map(|threads| {
                let classes = classes(&postings, &shapes, &none, PENALTIES[0], &settings);
                let known = (&shapes[..], &sets);
                let mut found = Assignment::new(&postings, known, &none, classes, &settings);
                let before = found.worth();
                let mut budget = Budget::new(work_max);
                let help = Help { threads, ..alone(&times) };
                improve(&mut found, &mut budget, &|| false, &help);
                assert_consistent(&found);
                assert!(found.worth() > before || work_max < 100_000_000, "it gains");
                let chosen: Vec<_> = (0..150).map(|frame| found.of(frame).clone()).collect();
                (chosen, found.classes.clone(), format!("{budget:?}"))
            });
            assert!(found[1] == found[0] && found[2] == found[0], "{seed}");
        }
    }

    /// A frame and all frames that it needs.
    fn needs(choice: &ReferenceChoice, frame: u32) -> Vec<u32> {
        let mut needs = vec![frame];
        let mut at = 0;
        while let Some(&frame) = needs.get(at) {
            needs.extend(choice.of(frame as usize));
            at += 1;
        }
        needs
    }

    /// Contents that lie in two or three frames each, at random.
    fn co_read_sets(seed: u64, frame_count: u32) -> CoReadSets {
        let bytes = crate::tests::random(seed, frame_count as usize / 4 * 3);
        let sets = bytes.chunks_exact(3).map(|frames| {
            let frames = frames.iter().map(|&frame| u32::from(frame) % frame_count);
            let frames: BTreeSet<_> = frames.collect();
            set_of(&frames.into_iter().collect::<Vec<_>>())
        });
        CoReadSets::new(sets.collect(), frame_count as usize)
    }

    #[test]
    fn what_frames_and_contents_in_several_cost_stays_within_the_bounds() {
        let shape = |frame: u32| FrameShape { len: 50 + frame * 37 % 51, is_alone: frame < 5 };
        let shapes: Vec<_> = (0..120).map(shape).collect();
        for (seed, co_read_bytes_max) in
            (1..20).flat_map(|seed| [(seed, 600), (seed, 450), (seed, 300)])
        {
            let settings = SearchSettings {
                closure_bytes_max: 400,
                co_read_bytes_max,
                ..SearchSettings::default()
            };
            let co_read_sets = co_read_sets(seed, 120);
            let postings = Postings::of_pairs(&sketches(seed, 120), 120, settings.sharer_count_max);
            let choice = choose(
                &postings,
                &shapes,
                &OldFrames::default(),
                &co_read_sets,
                &settings,
                &|| false,
                &alone(&StageTimes::default()),
            );
            let mut dearest = (0, 0);
            for frame in 0..120 {
                let references = choice.of(frame as usize);
                assert!(references.is_empty() || !shapes[frame as usize].is_alone);
                let own = needs(&choice, frame);
                let closure = plain_len(&shapes, &[&own[1..]]);
                assert!(closure <= 400, "{closure}");
                dearest.0 = dearest.0.max(closure);
                for set in co_read_sets.of_frame(frame) {
                    let needed = set.iter().flat_map(|&part| needs(&choice, part));
                    let cost = plain_len(&shapes, &[&needed.collect::<Vec<_>>()]);
                    assert!(cost <= co_read_bytes_max, "{cost}");
                    dearest.1 = dearest.1.max(cost);
                }
            }
            // The bounds are used, and not kept by having no references.
            assert!(dearest.0 > 250 && dearest.1 > co_read_bytes_max - 50, "{seed}: {dearest:?}");
        }
    }

    /// Checks that the state kept for every frame matches its references.
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
        let settings = SearchSettings {
            closure_bytes_max: 400,
            co_read_bytes_max: 500,
            ..SearchSettings::default()
        };
        let shape = |n: u32| FrameShape { len: 100, is_alone: n == 7 };
        let shapes: Vec<_> = (0..60).map(shape).collect();
        for seed in 1..10 {
            let postings = Postings::of_pairs(&sketches(seed, 60), 60, settings.sharer_count_max);
            let mut worths = Vec::new();
            for work_max in [0, 2_000_000, 1 << 40] {
                let none = OldFrames::default();
                let classes = classes(&postings, &shapes, &none, PENALTIES[0], &settings);
                let known = (&shapes[..], &co_read_sets(seed, 60));
                let mut found = Assignment::new(&postings, known, &none, classes, &settings);
                assert_consistent(&found);
                let before = found.work;
                let mut budget = Budget::new(work_max);
                improve(&mut found, &mut budget, &|| false, &alone(&StageTimes::default()));
                assert_consistent(&found);
                // The last move may exceed the budget; a move here looks at some thousand frames at
                // most.
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
        let settings = SearchSettings::default();
        let shapes = [FrameShape { len: 100, ..FrameShape::default() }; 60];
        let postings = Postings::of_pairs(&sketches(1, 60), 60, settings.sharer_count_max);
        let looks_of = |looks: u64| {
            let none = OldFrames::default();
            let classes = classes(&postings, &shapes, &none, PENALTIES[0], &settings);
            let known = (&shapes[..], &CoReadSets::default());
            let mut found = Assignment::new(&postings, known, &none, classes, &settings);
            let before = found.work;
            // Repeatedly, as for one cover after the other, until nothing is gained.
            let mut budget = Budget::new(looks);
            for _ in 0..100 {
                improve(&mut found, &mut budget, &|| false, &alone(&StageTimes::default()));
            }
            found.work - before
        };
        let patient = looks_of(1 << 40);
        let last = looks_of(8 << 20);
        assert!(last < patient && last < 7 << 20, "{last} of {patient}");
    }

    #[test]
    fn a_cancelled_search_ends_at_its_next_move() {
        let settings = SearchSettings::default();
        let shapes = [FrameShape { len: 100, ..FrameShape::default() }; 60];
        let postings = Postings::of_pairs(&sketches(1, 60), 60, settings.sharer_count_max);
        let none = OldFrames::default();
        let classes = classes(&postings, &shapes, &none, PENALTIES[0], &settings);
        let known = (&shapes[..], &CoReadSets::default());
        let mut found = Assignment::new(&postings, known, &none, classes, &settings);
        let before = found.work;
        let asked = Cell::new(0);
        let is_cancelled = || asked.replace(asked.get() + 1) >= 10;
        let times = StageTimes::default();
        improve(&mut found, &mut Budget::new(1 << 40), &is_cancelled, &alone(&times));
        assert_consistent(&found);
        // Ten moves at some thousand looks each; then every frame asks once and ends.
        assert!(found.work > before && found.work - before < 500_000);
    }
}
