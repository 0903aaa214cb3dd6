//! Connects the choice of references (see [`crate::reference::search`]) with the pipeline: frames
//! are sketched by the threads while others are cut, and the choice is made when all are there.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::plan::budget::FINGERPRINT_COUNT_MAX;
use crate::plan::error::WriteError;
use crate::plan::level::ReferenceLimits;
use crate::plan::report::Stage;
use crate::reference::choice::{FrameShape, ReferenceChoice};
use crate::reference::co_read_sets::CoReadSets;
use crate::reference::constraints::{SearchSettings, assert_valid};
use crate::reference::search;
use crate::reference::sketch::{Sketches, sketch_of};

/// One window in 2^6 bytes is sampled, until there are too many, see [`Sketches`].
const RATE_LOG2: u32 = 6;
/// Sketches in progress for each thread. Each holds its frame in memory.
const SKETCHING_PER_THREAD: usize = 4;

/// Sketches of all frames so far, and how references will be chosen.
pub(crate) struct ReferenceStage<'env> {
    build: Build<'env>,
    limits: ReferenceLimits,
    settings: SearchSettings,
    /// Sketches in progress, the oldest first.
    sketching: VecDeque<Ticket<Vec<u64>>>,
    sketches: Sketches,
}

impl<'env> ReferenceStage<'env> {
    /// Starts without frames. `work_per_byte` bounds the search, see [`SearchSettings`].
    pub(crate) fn new(build: Build<'env>, limits: ReferenceLimits, work_per_byte: u64) -> Self {
        let settings = SearchSettings {
            reference_count_max: usize::from(limits.count_max),
            depth_max: limits.depth_max,
            closure_bytes_max: limits.closure_bytes_max,
            co_read_bytes_max: limits.co_read_bytes_max,
            work_per_byte,
            ..SearchSettings::default()
        };
        let sketches = Sketches::new(FINGERPRINT_COUNT_MAX);
        Self { build, limits, settings, sketching: VecDeque::new(), sketches }
    }

    /// Lets a thread sketch the next frame.
    pub(crate) fn push(&mut self, frame: Arc<Vec<u8>>) {
        let ticket = self.build.submit(Urgency::Normal, Stage::Refer, move |_| {
            let mut prints = Vec::new();
            sketch_of(&frame, RATE_LOG2, &mut prints);
            prints
        });
        self.sketching.push_back(ticket);
        self.collect(self.build.plan().threads * SKETCHING_PER_THREAD);
    }

    /// Collects the oldest sketches until at most `count_max` are in progress.
    fn collect(&mut self, count_max: usize) {
        while self.sketching.len() > count_max {
            if let Some(ticket) = self.sketching.pop_front() {
                let prints = self.build.wait(&ticket);
                self.sketches.push(&prints);
            }
        }
    }

    /// Chooses references for all frames.
    ///
    /// # Errors
    /// [`WriteError::Cancelled`].
    pub(crate) fn choose(
        mut self,
        shapes: &[FrameShape],
        co_read_sets: &CoReadSets,
    ) -> Result<ReferenceChoice, WriteError> {
        self.collect(0);
        self.build.check_cancel()?;
        let sketches = self.sketches;
        let pairs = (0..sketches.frame_count())
            .flat_map(|frame| sketches.of(frame).iter().map(move |&print| (print, frame as u32)))
            .collect();
        drop(sketches);
        let env = self.build.env;
        let is_cancelled = || env.is_cancelled();
        let choice = search::choose(pairs, shapes, co_read_sets, &self.settings, &is_cancelled);
        self.build.check_cancel()?;
        assert_valid(&choice, shapes, self.limits);
        Ok(choice)
    }
}
