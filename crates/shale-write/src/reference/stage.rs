//! Connects the choice of references (see [`crate::reference::search`]) with the pipeline: frames
//! are sketched by the threads while others are cut, and the choice is made when all are there.

use std::collections::VecDeque;
use std::sync::Arc;

use shale_format::limits::REFERENCE_DEPTH_MAX;

use crate::base::frames::OldFrames;
use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::frame::waiting::LoadFrame;
use crate::plan::budget::FINGERPRINT_COUNT_MAX;
use crate::plan::error::WriteError;
use crate::plan::level::ReferenceLimits;
use crate::plan::report::Stage;
use crate::reference::choice::{FrameShape, ReferenceChoice};
use crate::reference::co_read_sets::CoReadSets;
use crate::reference::constraints::{SearchSettings, assert_valid};
use crate::reference::improve::Help;
use crate::reference::postings::{Lists, Postings};
use crate::reference::search;
use crate::reference::sketch::{Sketches, sketch_of};

/// One window in 2^6 bytes is sampled, until there are too many, see [`Sketches`].
pub(crate) const RATE_LOG2: u32 = 6;
/// Most references of a frame where an image is continued.
const APPEND_REFERENCE_COUNT_MAX: u16 = 8;
/// Sketches in progress for each thread. Each may hold its frame in memory.
const SKETCHING_PER_THREAD: usize = 4;

/// Sketches of all frames so far, and how references will be chosen.
pub(crate) struct ReferenceStage<'env> {
    build: Build<'env>,
    limits: ReferenceLimits,
    settings: SearchSettings,
    /// Sketches in progress, the oldest first.
    sketching: VecDeque<Ticket<Result<Vec<u64>, WriteError>>>,
    sketches: Sketches,
    /// Sketches of the frames that an image held before.
    old: Sketches,
}

impl<'env> ReferenceStage<'env> {
    /// Starts without frames. `work_per_byte` bounds the search, see [`SearchSettings`].
    pub(crate) fn new(build: Build<'env>, mut limits: ReferenceLimits, work_per_byte: u64) -> Self {
        if build.base().is_some() && build.options().references.is_none() {
            // What reads cost is bounded in bytes. The frames of the image have used up depth, and
            // short new frames resemble parts of many.
            limits.depth_max = REFERENCE_DEPTH_MAX;
            limits.count_max = limits.count_max.max(APPEND_REFERENCE_COUNT_MAX);
        }
        let settings = SearchSettings {
            reference_count_max: usize::from(limits.count_max),
            depth_max: limits.depth_max,
            closure_bytes_max: limits.closure_bytes_max,
            frame_len: build.base().map_or(0, |_| build.plan().classes.usual().frame_len as u64),
            co_read_bytes_max: limits.co_read_bytes_max,
            work_per_byte,
            ..SearchSettings::default()
        };
        let sketches = Sketches::new(FINGERPRINT_COUNT_MAX);
        let old = Sketches::new(FINGERPRINT_COUNT_MAX);
        Self { build, limits, settings, sketching: VecDeque::new(), sketches, old }
    }

    /// Adds the sketch of the next frame that an image held before.
    pub(crate) fn push_old(&mut self, prints: &[u64]) {
        self.old.push(prints);
    }

    /// Lets a thread sketch the next frame.
    ///
    /// # Errors
    /// An earlier frame could not be loaded.
    pub(crate) fn push(&mut self, frame: LoadFrame) -> Result<(), WriteError> {
        let ticket = self.build.submit(Urgency::Normal, Stage::Refer, move |_| {
            let frame = frame.load()?;
            let mut prints = Vec::new();
            sketch_of(&frame, RATE_LOG2, &mut prints);
            Ok(prints)
        });
        self.sketching.push_back(ticket);
        self.collect(self.build.plan().threads * SKETCHING_PER_THREAD)
    }

    /// Collects the oldest sketches until at most `count_max` are in progress.
    fn collect(&mut self, count_max: usize) -> Result<(), WriteError> {
        while self.sketching.len() > count_max {
            if let Some(ticket) = self.sketching.pop_front() {
                let prints = self.build.wait(&ticket)?;
                self.sketches.push(&prints);
            }
        }
        Ok(())
    }

    /// Returns the sketches of the frames that an image held before, and of all others.
    pub(crate) fn into_sketches(self) -> (Sketches, Sketches) {
        (self.old, self.sketches)
    }

    /// Chooses references for all frames.
    ///
    /// # Errors
    /// [`WriteError::Cancelled`], or a frame could not be loaded.
    pub(crate) fn choose(
        &mut self,
        shapes: &[FrameShape],
        old: &OldFrames,
        co_read_sets: &CoReadSets,
    ) -> Result<ReferenceChoice, WriteError> {
        self.collect(0)?;
        self.build.check_cancel()?;
        let postings = self.postings(shapes.len(), old.count());
        let env = self.build.env;
        let is_cancelled = || env.is_cancelled();
        let decides = |decides| self.build.decide(Stage::Refer, decides);
        let help = Help { threads: env.plan.threads, times: &env.times, decides: &decides };
        let choice = search::choose(
            &postings,
            shapes,
            old,
            co_read_sets,
            &self.settings,
            &is_cancelled,
            &help,
        );
        self.build.check_cancel()?;
        assert_valid(&choice, shapes, old, self.limits);
        Ok(choice)
    }

    /// Finds which frames share which fingerprints: each range of fingerprints by another task.
    fn postings(&mut self, frame_count: usize, old_count: usize) -> Postings {
        let take =
            |sketches: &mut Sketches| Arc::new(std::mem::replace(sketches, Sketches::new(0)));
        let parts = [(0, take(&mut self.old)), (old_count, take(&mut self.sketches))];
        // Both must be thinned alike to be compared.
        let thin_log2 = parts.iter().map(|(_, sketches)| sketches.thin_log2()).max().unwrap_or(0);
        let sharer_count_max = self.settings.sharer_count_max;
        let tickets: Vec<_> = (0..RANGE_COUNT)
            .map(|range| {
                let parts = parts.clone();
                self.build.submit(Urgency::Urgent, Stage::Refer, move |_| {
                    let mut pairs = Vec::new();
                    for (first, sketches) in &parts {
                        for frame in 0..sketches.frame_count() {
                            let kept = in_range(sketches.of(frame), range).iter();
                            let kept = kept.filter(|print| print.trailing_zeros() >= thin_log2);
                            pairs.extend(kept.map(|&print| (print, (first + frame) as u32)));
                        }
                    }
                    pairs.sort_unstable();
                    Lists::of_pairs(&pairs, sharer_count_max)
                })
            })
            .collect();
        let mut totals = vec![0; frame_count];
        for (first, sketches) in &parts {
            for frame in 0..sketches.frame_count() {
                let kept = sketches.of(frame).iter();
                let kept = kept.filter(|print| print.trailing_zeros() >= thin_log2);
                totals[first + frame] = kept.count() as u32;
            }
        }
        let ranges = tickets.iter().map(|ticket| self.build.wait(ticket)).collect();
        let [(_, old), (_, new)] = parts;
        let give_back = |sketches| Arc::into_inner(sketches).expect("all tasks have ended");
        (self.old, self.sketches) = (give_back(old), give_back(new));
        Postings::new(ranges, totals)
    }
}

/// Ranges of fingerprints, all of the same width.
const RANGE_COUNT: usize = 64;

/// Returns those of the ascending fingerprints that are in a range.
fn in_range(prints: &[u64], range: usize) -> &[u64] {
    let shift = u64::BITS - RANGE_COUNT.ilog2();
    let start = prints.partition_point(|print| ((print >> shift) as usize) < range);
    let len = prints[start..].partition_point(|print| ((print >> shift) as usize) == range);
    &prints[start..start + len]
}
