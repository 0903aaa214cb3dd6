//! The choice of references: which frames each frame is compressed against.
//!
//! Input: every frame's sketch (see [`crate::sketch`]) and length. Output: for each frame at most K
//! frames of strictly smaller class. Chosen over all sketches before anything is compressed,
//! because a choice made while streaming wastes the depth: early frames hit the bound and later
//! ones find nothing to refer to.
//!
//! 1. **Roots.** A lazy greedy cover picks frames whose fingerprints are shared most and not
//!    provided yet by a picked one; a frame that would mostly repeat what is provided pays for it.
//!    The same again among the picked, `depth_max` times: the last picked are the roots. The
//!    round a frame is picked in is its *class*, 0 for roots.
//! 2. **References.** Each frame takes, greedily, the frames of smaller class that share most of
//!    its fingerprints not covered yet, while they are worth their bytes and the plain bytes that
//!    must be decoded for the frame (its *closure*) stay within `closure_bytes_max`, and those of
//!    two or three frames in which a short content lies within `spread_bytes_max`: who reads it
//!    decodes them all.
//! 3. **Search.** Frames are tried in other classes, alone and in pairs, as long as the references
//!    chosen anew are worth more (see [`improve`]), within a budget of work for each plain byte,
//!    and as long as it is not spent for nothing.
//!    All of it again from other covers while some of the budget is left; the best one is taken.
//!
//! Deterministic: ties go to the smaller frame index; no hashing of addresses, no threads.
//! Memory: 24 bytes a fingerprint at the peak (29 if all were shared by two frames each, and no two
//! by the same), plus 250 bytes a frame.
//! Time: a sort of the fingerprints, a few passes over their postings (each at most
//! `sharer_count_max` long), and the budget of the search.

mod assign;
mod cover;
mod improve;
mod postings;

use assign::Assignment;
use improve::{Budget, improve};
use postings::Postings;

use crate::reference::Choice;
use crate::spread::Spreads;

/// What a shared fingerprint that a root repeats costs, against one that it provides to another
/// frame: one cover for each. Which is best depends on the tree; the first is best most often.
const PENALTIES: [f32; 3] = [1.0, 0.3, 3.0];

/// Bounds and prices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Most references of one frame (K).
    pub reference_count_max: usize,
    /// Largest depth, which is the class of frames that nobody may refer to.
    pub depth_max: u8,
    /// Most plain bytes decoded before a frame can be: all references of references, each counted
    /// once.
    pub closure_bytes_max: u64,
    /// Most plain bytes decoded for a short content that lies in two or three frames: these frames,
    /// and all they refer to.
    pub spread_bytes_max: u64,
    /// Least share of the frame's own fingerprints a reference must add.
    pub gain_share_min: f32,
    /// Fingerprints in more frames than this say nothing and are dropped.
    pub sharer_count_max: usize,
    /// Frames of fingerprints that may be looked at to improve the choice, for each plain byte; 3
    /// to 4 ns each.
    pub work_per_byte: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reference_count_max: 4,
            depth_max: 2,
            closure_bytes_max: 2 << 20,
            spread_bytes_max: 3 << 20,
            gain_share_min: 0.01,
            sharer_count_max: 128,
            work_per_byte: 4,
        }
    }
}

/// What is known of a frame beside what it is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Plain bytes.
    pub len: u32,
    /// It is a root, whatever it shares.
    pub is_alone: bool,
}

/// Chooses references. `pairs` are (fingerprint, frame) of all frames, in any order, without
/// repeats; `shapes` what else is known of each frame, and `spreads` which are read together. The
/// search ends where it stands once it is cancelled.
pub(crate) fn choose(
    mut pairs: Vec<(u64, u32)>,
    shapes: &[Shape],
    spreads: &Spreads,
    settings: &Settings,
    is_cancelled: &dyn Fn() -> bool,
) -> Choice {
    pairs.sort_unstable();
    let postings = Postings::new(&pairs, shapes.len(), settings.sharer_count_max);
    drop(pairs);
    let plain_bytes: u64 = shapes.iter().map(|shape| u64::from(shape.len)).sum();
    let mut budget = Budget::new(plain_bytes.saturating_mul(settings.work_per_byte));
    let mut best: Option<Assignment<'_>> = None;
    for penalty in PENALTIES {
        let classes = cover::classes(&postings, shapes, penalty, settings);
        let mut found = Assignment::new(&postings, (shapes, spreads), classes, settings);
        improve(&mut found, &mut budget, is_cancelled);
        if best.as_ref().is_none_or(|best| found.worth() > best.worth()) {
            best = Some(found);
        }
        if budget.is_spent() || is_cancelled() {
            break;
        }
    }
    best.map(Assignment::into_choice).unwrap_or_default()
}
