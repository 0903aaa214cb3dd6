//! Which of the things before it a new one builds on, in a row where each holds what is new only.
//!
//! Pages that patch each other and roots that name earlier ones are such rows. If each built on the
//! one before, the last would need all of them; if all built on the first, what is new would be
//! stored again each time.

/// One generation in this many builds on an older one than the one before it.
const STEP: u64 = 4;

/// Returns the generation that one of `generation`, at least 1, builds on. Its lowest digit that is
/// not zero becomes one less. So generation n needs as many others as its digits are together, and
/// what is new is stored again about as often as n has digits.
pub(crate) fn patched_by(generation: u64) -> u64 {
    let mut step = 1;
    while generation > 0 && generation.is_multiple_of(step * STEP) {
        step *= STEP;
    }
    generation.saturating_sub(step)
}
