//! The choice of references: which frames each frame is compressed against.
//!
//! Input: the length and the sketch (see [`crate::reference::sketch`]) of every frame. Output: for
//! each frame at most K frames of strictly smaller class. References are chosen over all sketches
//! before anything is compressed. A choice made while streaming would waste the depth: early frames
//! hit the bound and later ones find nothing to refer to.
//!
//! 1. **Roots.** A lazy greedy cover picks the frames whose fingerprints are shared most and that
//!    no picked frame provides yet. A frame that mostly repeats what is provided pays for it. The
//!    same is done among the picked frames, `depth_max` times; the last ones picked are the roots.
//!    The round in which a frame is picked is its *class*, 0 for roots.
//! 2. **References.** Each frame greedily takes the frames of smaller class that share most of its
//!    fingerprints that are not covered yet. They must be worth their bytes. The plain bytes that
//!    are decoded for the frame (its *closure*) stay within `closure_bytes_max`; those of two or
//!    three frames that hold a short content stay within `co_read_bytes_max`.
//! 3. **Search.** Frames are tried in other classes, alone and in pairs, as long as the references
//!    that are chosen again are worth more (see [`improve`]), within a budget of work for each
//!    plain byte. All steps are repeated from other covers while some of the budget is left; the
//!    best choice is taken.
//!
//! The result is deterministic: ties go to the smaller frame index, hashes of addresses are not
//! involved, and threads only try what the one that decides would try next. Memory: at the peak 24
//! bytes a fingerprint (29 if each is shared by two frames, and no two by the same), and 250 bytes
//! a frame. Time: a sort of the fingerprints, a few passes over their postings (each at most
//! `sharer_count_max` long), and the budget of the search.

use crate::base::frames::OldFrames;
use crate::reference::assign::Assignment;
use crate::reference::improve::{Budget, Help, improve};
use crate::reference::postings::Postings;
use crate::reference::{choice::FrameShape, constraints::SearchSettings, cover};

use crate::reference::choice::ReferenceChoice;
use crate::reference::co_read_sets::CoReadSets;

/// Prices of a shared fingerprint that a root repeats, relative to one that it provides to another
/// frame. Each gives a cover. Which is best depends on the tree; most often it is the first.
pub(crate) const PENALTIES: [f32; 3] = [1.0, 0.3, 3.0];

/// Chooses references. `postings` says which frames share what, `shapes` what else is known of
/// each frame, and `co_read_sets` which frames are read together. The first frames are `old`: they
/// keep their references, and others may refer to them. A search that is cancelled returns the best
/// choice so far.
pub(crate) fn choose(
    postings: &Postings,
    shapes: &[FrameShape],
    old: &OldFrames,
    co_read_sets: &CoReadSets,
    settings: &SearchSettings,
    is_cancelled: &dyn Fn() -> bool,
    help: &Help<'_>,
) -> ReferenceChoice {
    let of_new = shapes.iter().skip(old.count());
    let plain_bytes: u64 = of_new.map(|shape| u64::from(shape.len)).sum();
    let mut budget = Budget::new(plain_bytes.saturating_mul(settings.work_per_byte));
    let mut best: Option<Assignment<'_>> = None;
    for penalty in PENALTIES {
        let classes = cover::classes(postings, shapes, old, penalty, settings);
        let mut found = Assignment::new(postings, (shapes, co_read_sets), old, classes, settings);
        improve(&mut found, &mut budget, is_cancelled, help);
        if best.as_ref().is_none_or(|best| found.worth() > best.worth()) {
            best = Some(found);
        }
        if budget.is_spent() || is_cancelled() {
            break;
        }
    }
    best.map(Assignment::into_choice).unwrap_or_default()
}
