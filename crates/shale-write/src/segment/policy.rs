//! When a match is worth taking: the rules that keep a content from shattering.
//!
//! A match saves the bytes it covers (and only their compressed size), and costs a row or two of
//! the extents table and, for a reader, the frame it points into. Bytes that lie in a part of the
//! stream which the content touches anyway cost no further frame. So two lengths rule: a short one
//! for *near*
//! matches and a longer one for *far* matches, which grows with every further region a content is
//! spread over.

/// log2 of the bytes of stream that count as one place: about a frame.
const REGION_LOG2: u32 = 18;
/// Regions a content remembers to have touched.
const TOUCHED_MAX: usize = 64;

/// The rules for one content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grain {
    /// log2 of the step between anchors that are looked at (S).
    pub step_log2: u32,
    /// Shortest match into a region the content already touches, or that continues the last match.
    pub near_len_min: u32,
    /// Shortest match into the first regions the content does not touch yet.
    pub far_len_min: u32,
    /// Regions a content may touch before `far_len_min` doubles, and again after as many more.
    pub region_step: u32,
}

impl Grain {
    /// Text and other small files.
    pub const TEXT: Self =
        Self { step_log2: 6, near_len_min: 512, far_len_min: 4096, region_step: 4 };
    /// Large binaries, media and what is compressed already.
    pub const BINARY: Self =
        Self { step_log2: 10, near_len_min: 4096, far_len_min: 16 << 10, region_step: 16 };
}

/// Where the current content's bytes lie so far.
pub struct Scatter {
    touched: Vec<u64>,
    home: u64,
    last_end: u64,
}

impl Default for Scatter {
    fn default() -> Self {
        Self::new()
    }
}

impl Scatter {
    /// Nothing touched.
    pub fn new() -> Self {
        Self { touched: Vec::with_capacity(TOUCHED_MAX), home: 0, last_end: u64::MAX }
    }

    /// A content begins whose new bytes go to `stream_len`.
    pub fn begin_content(&mut self, _content_len: u64, stream_len: u64) {
        self.touched.clear();
        self.home = stream_len >> REGION_LOG2;
        self.last_end = u64::MAX;
    }

    /// Whether a match is worth it.
    pub fn accepts(&self, grain: &Grain, stream_offset: u64, len: u64) -> bool {
        let first = stream_offset >> REGION_LOG2;
        let last = (stream_offset + len.max(1) - 1) >> REGION_LOG2;
        let near = (first..=last).all(|r| r == self.home || self.touched.contains(&r));
        let len_min = if near {
            u64::from(grain.near_len_min)
        } else {
            let doublings = (self.touched.len() as u32 / grain.region_step.max(1)).min(10);
            u64::from(grain.far_len_min) << doublings
        };
        len >= len_min
    }

    /// A match was taken.
    pub fn took(&mut self, stream_offset: u64, len: u64) {
        let first = stream_offset >> REGION_LOG2;
        let last = (stream_offset + len.max(1) - 1) >> REGION_LOG2;
        for region in first..=last {
            if self.touched.len() >= TOUCHED_MAX {
                break;
            }
            if !self.touched.contains(&region) {
                self.touched.push(region);
            }
        }
        self.last_end = stream_offset + len;
    }
}
