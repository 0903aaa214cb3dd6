//! Ties the choice of references (see [`crate::sketch`] and [`crate::refer`]) into the pipeline.

use crate::levels::ReferenceLimits;
use crate::refer::{self, Shape};
use crate::reference::{Choice, Referrer, Sketches};
use crate::sketch;
use crate::spread::Spreads;

/// One window in 2^6 bytes is sampled, until there are too many, see [`Sketches`].
const RATE_LOG2: u32 = 6;

/// Chooses by a greedy cover of fingerprints, and a search from there.
#[derive(Debug)]
pub(crate) struct Cover {
    limits: ReferenceLimits,
    settings: refer::Settings,
}

impl Cover {
    pub(crate) fn new(limits: ReferenceLimits, work_per_byte: u64) -> Self {
        let settings = refer::Settings {
            reference_count_max: usize::from(limits.count_max),
            depth_max: limits.depth_max,
            closure_bytes_max: limits.closure_bytes_max,
            spread_bytes_max: limits.spread_bytes_max,
            work_per_byte,
            ..refer::Settings::default()
        };
        Self { limits, settings }
    }
}

impl Referrer for Cover {
    fn sketch(&self, plain: &[u8]) -> Vec<u64> {
        let mut prints = Vec::new();
        sketch::sketch_of(plain, RATE_LOG2, &mut prints);
        prints
    }

    fn choose(
        &self,
        sketches: Sketches,
        shapes: &[Shape],
        spreads: &Spreads,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Choice {
        let frames = 0..sketches.frame_count();
        let pairs = frames
            .flat_map(|frame| sketches.of(frame).iter().map(move |&print| (print, frame as u32)))
            .collect();
        drop(sketches);
        refer::choose(pairs, shapes, spreads, &self.settings, is_cancelled)
    }

    fn limits(&self) -> ReferenceLimits {
        self.limits
    }
}
