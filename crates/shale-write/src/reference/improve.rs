//! Local search. The greedy cover knows what a root gives to other frames, but not whether these
//! have room for it among their references. So frames are tried in other classes, alone and in
//! pairs. They stay there if the references of all frames, chosen again, are worth more.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, unbounded};
use shale_host::threads::start_one;

use crate::exec::stages::{StageClock, StageTimes, Work};
use crate::plan::report::Stage;
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

/// Threads that try moves.
pub(crate) struct Help<'h> {
    /// All threads, the one that decides included.
    pub(crate) threads: usize,
    /// Counts the time of the others.
    pub(crate) times: &'h StageTimes,
    /// Told whether the calling thread decides from now on, or tries moves as any thread could.
    pub(crate) decides: &'h dyn Fn(bool),
}

/// Most memory for the copies of the assignment that the threads need. Less than the fingerprints
/// took.
const COPIES_LEN_MAX: usize = 64 << 20;
/// Fewer frames are not worth a thread.
const FRAME_COUNT_MIN: usize = 64;
/// Moves that are tried at a time: by each thread, at first, at least and at most.
const TRIES_MIN: usize = 2;
const TRIES_MAX: usize = 32;

/// Tries every frame in every class, and pairs of frames in each other's class. Repeats this until
/// little is gained, the budget is spent, or the search is cancelled. The cost of a move depends on
/// the frames that share something with those that move, not on all. The result depends on the
/// input alone.
///
/// Most moves gain nothing. So several threads try the next ones, each with a copy of the
/// assignment, as if all before them failed. The first one in order that gains is made, everywhere,
/// and those after it are tried again.
pub(crate) fn improve(
    assignment: &mut Assignment<'_>,
    budget: &mut Budget,
    is_cancelled: &dyn Fn() -> bool,
    help: &Help<'_>,
) {
    thread::scope(|scope| {
        let copies_max = COPIES_LEN_MAX / assignment.memory_len().max(1);
        let count = match assignment.frame_count() < FRAME_COUNT_MIN {
            true => 0,
            false => help.threads.saturating_sub(1).min(copies_max),
        };
        let helper = |_| Helper::start(scope, assignment.clone(), help.times).ok();
        let helpers: Vec<_> = (0..count).map_while(helper).collect();
        let window = (helpers.len() + 1) * TRIES_MIN;
        let decides = help.decides;
        let mut search =
            Search { assignment, budget, unpaid_work: 0, is_cancelled, helpers, decides, window };
        let mut gain = search.rounds_of(Kind::Single);
        while gain > 0 && !search.is_over() {
            gain = search.rounds_of(Kind::Swap);
            if gain > 0 {
                gain = search.rounds_of(Kind::Single);
            }
        }
    });
}

/// A kind of move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A frame gets another class.
    Single,
    /// Two frames get each other's class.
    Swap,
}

/// Frames and their new classes.
type Moves = Vec<(u32, u8)>;

/// A move whose turn has not come.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    frame: u32,
    partner: Partner,
    /// Work of finding it.
    work: u64,
}

#[derive(Debug, Clone, Copy)]
enum Partner {
    Class(u8),
    Frame(u32),
}

/// What a move that gains changes.
#[derive(Debug)]
struct Change {
    gain: u64,
    classes: Moves,
    chosen: Vec<(u32, Chosen)>,
}

/// What came of moves that were tried in order, up to the first one that gains.
#[derive(Debug, Default)]
struct Tried {
    /// The work of each.
    works: Vec<u64>,
    /// What the last one changes, if it gains.
    change: Option<Arc<Change>>,
}

/// What a helper is to do.
enum Order {
    Try(Vec<Moves>),
    Make(Arc<Change>),
}

/// A thread that tries moves.
struct Helper {
    orders: Sender<Order>,
    tried: Receiver<Tried>,
}

impl Helper {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        mut copy: Assignment<'scope>,
        times: &'scope StageTimes,
    ) -> io::Result<Self> {
        let (orders, to_do) = unbounded();
        let (done, tried) = unbounded();
        start_one(scope, move || {
            let work = Work { stage: Stage::Refer, is_deciding: false };
            let _clock = StageClock::new(times, work);
            for order in to_do {
                match order {
                    Order::Make(change) => make(&mut copy, &change),
                    // The search waits for the result.
                    Order::Try(moves) => _ = done.send(try_all(&mut copy, moves)),
                }
            }
        })?;
        Ok(Self { orders, tried })
    }
}

/// The moves of a round, in order.
struct Round {
    kind: Kind,
    /// The next frame, and what it is moved with.
    frame: u32,
    partners: VecDeque<Partner>,
}

struct Search<'s, 'a> {
    assignment: &'s mut Assignment<'a>,
    budget: &'s mut Budget,
    /// Work that was not taken from the budget.
    unpaid_work: u64,
    is_cancelled: &'s dyn Fn() -> bool,
    helpers: Vec<Helper>,
    decides: &'s dyn Fn(bool),
    /// Moves that are tried at a time.
    window: usize,
}

impl Search<'_, '_> {
    fn is_over(&self) -> bool {
        self.budget.is_spent() || (self.is_cancelled)()
    }

    /// Repeats a kind of move for all frames. Returns the gain.
    fn rounds_of(&mut self, kind: Kind) -> u64 {
        let gain_min = (self.assignment.worth() / GAIN_PART).max(1);
        let mut gained = 0;
        loop {
            let of_round = self.round(kind);
            gained += of_round;
            if of_round < gain_min || self.is_over() {
                return gained;
            }
        }
    }

    /// Tries a kind of move for all frames. Returns the gain.
    fn round(&mut self, kind: Kind) -> u64 {
        let mut round = Round { kind, frame: 0, partners: VecDeque::new() };
        let mut waiting = VecDeque::new();
        let mut gained = 0;
        while !self.is_over() {
            while waiting.len() < self.window
                && let Some(candidate) = self.next(&mut round)
            {
                waiting.push_back(candidate);
            }
            if waiting.is_empty() {
                break;
            }
            gained += self.try_some(&mut waiting);
        }
        gained
    }

    /// Returns the next move of a round: a frame in all classes, or exchanged with each later frame
    /// that shares something with it.
    fn next(&mut self, round: &mut Round) -> Option<Candidate> {
        loop {
            if let Some(partner) = round.partners.pop_front() {
                let work = std::mem::take(&mut self.unpaid_work);
                return Some(Candidate { frame: round.frame - 1, partner, work });
            }
            if round.frame as usize == self.assignment.frame_count() {
                return None;
            }
            let frame = round.frame;
            round.frame += 1;
            match round.kind {
                Kind::Single => {
                    let classes = 0..=self.assignment.class_max();
                    round.partners.extend(classes.map(Partner::Class));
                }
                Kind::Swap => {
                    let before = self.assignment.work;
                    let sharers = self.assignment.sharers(frame);
                    let later = sharers.into_iter().filter(|&other| other > frame);
                    round.partners.extend(later.map(Partner::Frame));
                    self.unpaid_work += self.assignment.work - before;
                    self.assignment.work = before;
                }
            }
        }
    }

    /// Returns the frames that a candidate moves, unless it moves nothing.
    fn moves_of(&self, candidate: &Candidate) -> Option<Moves> {
        let class_of = |frame: u32| self.assignment.classes[frame as usize];
        let frame = candidate.frame;
        let moves = match candidate.partner {
            Partner::Class(class) => vec![(frame, class)],
            Partner::Frame(other) => vec![(frame, class_of(other)), (other, class_of(frame))],
        };
        let is_nothing = |&(frame, class): &(u32, u8)| {
            self.assignment.is_fixed(frame) || class_of(frame) == class
        };
        (!moves.iter().any(is_nothing)).then_some(moves)
    }

    /// Tries the moves that wait, up to the first one that gains, and forgets them. Returns the
    /// gain.
    fn try_some(&mut self, waiting: &mut VecDeque<Candidate>) -> u64 {
        let all = waiting.iter().enumerate();
        let all: Vec<(usize, Moves)> =
            all.filter_map(|(at, candidate)| Some((at, self.moves_of(candidate)?))).collect();
        let share = all.len().div_ceil(self.helpers.len() + 1).max(1);
        let mut shares = all.chunks(share);
        let own = shares.next().unwrap_or_default();
        let moves_of = |share: &[(usize, Moves)]| -> Vec<Moves> {
            share.iter().map(|(_, moves)| moves.clone()).collect()
        };
        let mut asked = 0;
        for (share, helper) in shares.clone().zip(&self.helpers) {
            // A helper ends with this search, so it takes the order.
            let _ = helper.orders.send(Order::Try(moves_of(share)));
            asked += 1;
        }
        if asked > 0 {
            (self.decides)(false);
        }
        let own_tried = try_all(self.assignment, moves_of(own));
        let mut tried = vec![(own, own_tried)];
        if asked > 0 {
            (self.decides)(true);
        }
        for (share, helper) in shares.zip(&self.helpers) {
            tried.push((share, helper.tried.recv().expect("a helper ended early")));
        }
        let mut paid = 0;
        let mut made = None;
        'all: for (share, Tried { works, change }) in tried {
            let last = works.len();
            for ((at, _), (number, work)) in share.iter().zip((1..).zip(works)) {
                let finding: u64 = waiting.range(paid..=*at).map(|candidate| candidate.work).sum();
                paid = at + 1;
                if self.is_over() {
                    break 'all;
                }
                self.assignment.work += finding + work;
                self.budget.spend(finding + work);
                if let Some(change) = change.as_ref().filter(|_| number == last) {
                    self.budget.gain(change.gain);
                    made = Some(Arc::clone(change));
                    break 'all;
                }
            }
        }
        let Some(change) = made else {
            // Moves of nothing may follow the last one that was paid.
            self.unpaid_work += waiting.range(paid..).map(|candidate| candidate.work).sum::<u64>();
            waiting.clear();
            self.window = (self.window * 2).min((self.helpers.len() + 1) * TRIES_MAX);
            return 0;
        };
        waiting.drain(..paid);
        make(self.assignment, &change);
        for helper in &self.helpers {
            let _ = helper.orders.send(Order::Make(Arc::clone(&change)));
        }
        self.window = (self.window / 2).max((self.helpers.len() + 1) * TRIES_MIN);
        change.gain
    }
}

/// Tries moves in order, up to the first one that gains. The assignment and its work stay as they
/// are.
fn try_all(assignment: &mut Assignment<'_>, all: Vec<Moves>) -> Tried {
    let mut tried = Tried::default();
    for moves in all {
        let before = assignment.work;
        let change = try_moves(assignment, moves);
        tried.works.push(assignment.work - before);
        assignment.work = before;
        if let Some(change) = change {
            tried.change = Some(Arc::new(change));
            break;
        }
    }
    tried
}

/// Makes a change.
fn make(assignment: &mut Assignment<'_>, change: &Change) {
    for &(frame, class) in &change.classes {
        assignment.classes[frame as usize] = class;
    }
    for (frame, chosen) in &change.chosen {
        assignment.replace(*frame, chosen.clone());
    }
}

/// Moves frames to other classes, and back. Returns what that changes, if it gains something.
fn try_moves(assignment: &mut Assignment<'_>, moves: Moves) -> Option<Change> {
    let mut moves_back = moves.clone();
    exchange(assignment, &mut moves_back);
    // Frames that may choose differently now, smaller classes first, because closures come from
    // there.
    let mut waiting = BTreeSet::new();
    for &(frame, before) in &moves_back {
        let after = assignment.classes[frame as usize];
        waiting.insert((after, frame));
        for other in assignment.sharers(frame) {
            // Frames that may refer to it now, and frames that do but may no longer.
            let of_other = assignment.classes[other as usize];
            let may = after < of_other && of_other <= before;
            let must = of_other <= after && assignment.refers(other, frame);
            if (may || must) && !assignment.is_fixed(other) {
                waiting.insert((of_other, other));
            }
        }
    }
    let mut undo: Vec<(u32, Chosen)> = Vec::new();
    let mut gain = 0i64;
    while let Some((_, frame)) = waiting.pop_first() {
        let chosen = assignment.choose(frame);
        gain += i64::from(chosen.worth);
        let old = assignment.replace(frame, chosen);
        gain -= i64::from(old.worth);
        if !same_frames(&old.closure, &assignment.of(frame).closure) {
            let users = assignment.users_of(frame).iter();
            waiting.extend(users.map(|&user| (assignment.classes[user as usize], user)));
        }
        undo.push((frame, old));
    }
    let change = (gain > 0).then(|| {
        let frames: BTreeSet<u32> = undo.iter().map(|(frame, _)| *frame).collect();
        let chosen = frames.into_iter().map(|frame| (frame, assignment.of(frame).clone()));
        Change { gain: gain as u64, classes: moves, chosen: chosen.collect() }
    });
    for (frame, chosen) in undo.into_iter().rev() {
        assignment.replace(frame, chosen);
    }
    exchange(assignment, &mut moves_back);
    change
}

/// Swaps the classes of frames with those in the list.
fn exchange(assignment: &mut Assignment<'_>, moves: &mut [(u32, u8)]) {
    for (frame, class) in moves {
        std::mem::swap(class, &mut assignment.classes[*frame as usize]);
    }
}

fn same_frames(a: &[u32], b: &[u32]) -> bool {
    a.len() == b.len() && a.iter().all(|frame| b.contains(frame))
}
