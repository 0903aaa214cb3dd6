//! Local search. The greedy cover knows what a root gives to other frames, but not whether these
//! have room for it among their references. So frames are tried in other classes, alone and in
//! pairs. They stay there if the references of all frames, chosen again, are worth more.

use std::collections::BTreeSet;

use crate::reference::assign::{Assignment, Chosen};

/// A kind of move is repeated while a round gains at least one part in this number.
const GAIN_PART: u64 = 500;
/// Most looks that one more fingerprint may cost: about 0.8 ms. A fingerprint stands for 64 bytes;
/// at that price a stronger codec saves as many.
const LOOKS_PER_PRINT: u64 = 256 << 10;
/// Part of all looks that may pass without any gain.
const PATIENCE_SHARE: u64 = 4;

/// How many more frames of fingerprints may be looked at. Ends early where the search gains little:
/// text that is written line by line shares so much with so many frames that a move costs thousands
/// of times what it does elsewhere.
#[derive(Debug)]
pub(crate) struct Budget {
    looks: u64,
    /// Looks until something must be gained, and the most that are kept.
    patience: u64,
    patience_max: u64,
}

impl Budget {
    pub(crate) fn new(looks: u64) -> Self {
        let patience = looks / PATIENCE_SHARE;
        Self { looks, patience, patience_max: patience }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.looks == 0 || self.patience == 0
    }

    fn spend(&mut self, looks: u64) {
        self.looks = self.looks.saturating_sub(looks);
        self.patience = self.patience.saturating_sub(looks);
    }

    fn gain(&mut self, prints: u64) {
        let more = prints.saturating_mul(LOOKS_PER_PRINT);
        self.patience = self.patience.saturating_add(more).min(self.patience_max);
    }
}

/// Tries every frame in every class, and pairs of frames in each other's class. Repeats this until
/// little is gained, the budget is spent, or the search is cancelled. The cost of a move depends on
/// the frames that share something with those that move, not on all. The result depends on the
/// input alone.
pub(crate) fn improve(
    assignment: &mut Assignment<'_>,
    budget: &mut Budget,
    is_cancelled: &dyn Fn() -> bool,
) {
    let paid_work = assignment.work;
    let mut search = Search { assignment, budget, paid_work, is_cancelled };
    let mut gain = search.rounds_of(Search::single);
    while gain > 0 && !search.is_over() {
        gain = search.rounds_of(Search::swap);
        if gain > 0 {
            gain = search.rounds_of(Search::single);
        }
    }
}

struct Search<'s, 'a> {
    assignment: &'s mut Assignment<'a>,
    budget: &'s mut Budget,
    /// The part of the assignment's work that was already taken from the budget.
    paid_work: u64,
    is_cancelled: &'s dyn Fn() -> bool,
}

impl Search<'_, '_> {
    fn is_over(&self) -> bool {
        self.budget.is_spent() || (self.is_cancelled)()
    }

    /// Repeats a kind of move for all frames. Returns the gain.
    fn rounds_of(&mut self, kind: fn(&mut Self, u32) -> u64) -> u64 {
        let frames = 0..self.assignment.frame_count() as u32;
        let gain_min = (self.assignment.worth() / GAIN_PART).max(1);
        let mut gained = 0;
        loop {
            let of_round: u64 = frames.clone().map(|frame| kind(self, frame)).sum();
            gained += of_round;
            if of_round < gain_min || self.is_over() {
                return gained;
            }
        }
    }

    /// Tries a frame in all classes.
    fn single(&mut self, frame: u32) -> u64 {
        let classes = 0..=self.assignment.class_max();
        classes.map(|class| self.moved([(frame, class)])).sum()
    }

    /// Exchanges a frame with each later one that shares something with it.
    fn swap(&mut self, frame: u32) -> u64 {
        let mut gained = 0;
        for other in self.sharers(frame).range(frame + 1..) {
            let class_of = |frame: u32| self.assignment.classes[frame as usize];
            gained += self.moved([(frame, class_of(*other)), (*other, class_of(frame))]);
        }
        gained
    }

    /// Moves frames to other classes if that gains something. Returns the gain.
    fn moved<const N: usize>(&mut self, moves: [(u32, u8); N]) -> u64 {
        let is_nothing = |&(frame, class): &(u32, u8)| {
            self.assignment.is_fixed(frame) || self.assignment.classes[frame as usize] == class
        };
        if self.is_over() || moves.iter().any(is_nothing) {
            return 0;
        }
        let gain = self.try_moves(moves);
        self.budget.spend(self.assignment.work - self.paid_work);
        self.paid_work = self.assignment.work;
        self.budget.gain(gain);
        gain
    }

    fn try_moves<const N: usize>(&mut self, mut moves: [(u32, u8); N]) -> u64 {
        self.exchange(&mut moves);
        // Frames that may choose differently now, smaller classes first, because closures come from
        // there.
        let mut waiting = BTreeSet::new();
        for (frame, before) in moves {
            let after = self.assignment.classes[frame as usize];
            waiting.insert((after, frame));
            for other in self.sharers(frame) {
                // Frames that may refer to it now, and frames that do but may no longer.
                let of_other = self.assignment.classes[other as usize];
                let may = after < of_other && of_other <= before;
                let must = of_other <= after && self.assignment.refers(other, frame);
                if (may || must) && !self.assignment.is_fixed(other) {
                    waiting.insert((of_other, other));
                }
            }
        }
        let mut undo: Vec<(u32, Chosen)> = Vec::new();
        let mut gain = 0i64;
        while let Some((_, frame)) = waiting.pop_first() {
            let chosen = self.assignment.choose(frame);
            gain += i64::from(chosen.worth);
            let old = self.assignment.replace(frame, chosen);
            gain -= i64::from(old.worth);
            if !same_frames(&old.closure, &self.assignment.of(frame).closure) {
                let users = self.assignment.users_of(frame).iter();
                waiting.extend(users.map(|&user| (self.assignment.classes[user as usize], user)));
            }
            undo.push((frame, old));
        }
        if gain > 0 {
            return gain as u64;
        }
        for (frame, chosen) in undo.into_iter().rev() {
            self.assignment.replace(frame, chosen);
        }
        self.exchange(&mut moves);
        0
    }

    /// Swaps the classes of frames with those in the list.
    fn exchange(&mut self, moves: &mut [(u32, u8)]) {
        for (frame, class) in moves {
            std::mem::swap(class, &mut self.assignment.classes[*frame as usize]);
        }
    }

    /// Returns the other frames that share something with this one, ascending.
    fn sharers(&mut self, frame: u32) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for &print in self.assignment.postings.prints_of(frame as usize) {
            let sharers = self.assignment.postings.frames_of(print);
            self.assignment.work += sharers.len() as u64;
            found.extend(sharers);
        }
        found.remove(&frame);
        found
    }
}

fn same_frames(a: &[u32], b: &[u32]) -> bool {
    a.len() == b.len() && a.iter().all(|frame| b.contains(frame))
}
