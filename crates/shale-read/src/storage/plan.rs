//! Reads said beforehand, for a source that is far away.
//!
//! A plan collects ranges of the image and hands them to the source at once, so that many small
//! reads cost one round trip. It is a guess about what readers will do, and changes no answer: what
//! it gets wrong is read when it is needed. Nothing is planned for a source that is near.

use std::ops::Range;

use crate::storage::stored::Stored;

/// Bytes of one plan at most.
const PLAN_LEN_MAX: u64 = 16 << 20;
/// Ranges of one plan at most.
const RANGES_MAX: usize = 65_536;

/// Ranges of the image that will be read.
pub(crate) struct Plan<'s> {
    stored: &'s Stored,
    ranges: Vec<Range<u64>>,
    len: u64,
    len_max: u64,
}

impl<'s> Plan<'s> {
    /// A plan for the bytes of `stored`; `None` if these are near.
    pub(crate) fn new(stored: &'s Stored) -> Option<Self> {
        let ranges = Vec::new();
        stored.is_far().then_some(Self { stored, ranges, len: 0, len_max: PLAN_LEN_MAX })
    }

    /// Bounds the plan more closely.
    pub(crate) fn at_most(self, len_max: u64) -> Self {
        Self { len_max: len_max.min(PLAN_LEN_MAX), ..self }
    }

    /// Adds a range. Returns false if the plan is full, and the range is left out.
    pub(crate) fn add(&mut self, offset: u64, len: u64) -> bool {
        let fits = len <= self.len_max - self.len && self.ranges.len() < RANGES_MAX;
        if fits && len > 0 {
            self.ranges.push(offset..offset.saturating_add(len));
            self.len += len;
        }
        fits
    }

    /// Tells the source. Returns at once.
    pub(crate) fn tell(self) {
        if !self.ranges.is_empty() {
            self.stored.will_need(&self.ranges);
        }
    }
}
