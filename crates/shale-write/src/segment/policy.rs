//! Decides whether a match is worth taking, so that a content is not scattered over the stream.
//!
//! A match saves the compressed size of the bytes it covers. It costs a row or two of the table of
//! extents and, for a reader, the frame that it points into. Bytes in a part of the stream that the
//! content touches anyway cost no further frame. So there are two minimum lengths: a short one for
//! *near* matches, and a longer one for *far* matches, which grows with every further region that
//! the content is spread over.

use std::ops::{Range, RangeInclusive};

/// log2 of the length of a region: about a frame.
const REGION_LOG2: u32 = 18;
/// Most regions that are remembered for a content.
const TOUCHED_MAX: usize = 64;

/// The rules for one content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grain {
    /// log2 of the step between the anchors that are looked up (S).
    pub step_log2: u32,
    /// Shortest match in a region that the content already touches, or that continues the last
    /// match.
    pub near_len_min: u32,
    /// Shortest match in the first regions that the content does not touch yet.
    pub far_len_min: u32,
    /// Regions that a content may touch beyond its own length before `far_len_min` doubles, and
    /// again after as many more.
    pub region_step: u32,
    /// Shortest match in a home of the content, see [`Scatter::settle`].
    pub home_len_min: u32,
}

impl Grain {
    /// Text and other small files.
    pub const TEXT: Self = Self {
        step_log2: 6,
        near_len_min: 1024,
        far_len_min: 8192,
        region_step: 4,
        home_len_min: 128,
    };
    /// Large binaries, media and compressed data.
    pub const BINARY: Self = Self {
        step_log2: 10,
        near_len_min: 4096,
        far_len_min: 32 << 10,
        region_step: 4,
        home_len_min: 1024,
    };
}

/// Where the current content's bytes lie so far.
#[derive(Debug, Default)]
pub struct Scatter {
    /// Regions touched last, at most [`TOUCHED_MAX`].
    touched: Vec<u64>,
    /// Regions touched in all, as far as `touched` can tell them apart.
    count: u64,
    home: u64,
    /// The region in which the last match ended.
    last: Option<u64>,
    /// Frames of the image that is continued which hold earlier versions of the content, as ranges
    /// of the stream.
    homes: Vec<Range<u64>>,
}

impl Scatter {
    /// Begins a content whose new bytes go to `stream_len`.
    pub fn begin_content(&mut self, stream_len: u64) {
        self.touched.clear();
        self.count = 0;
        self.home = stream_len >> REGION_LOG2;
        self.last = None;
        self.homes.clear();
    }

    /// Says which frames of an image that is continued hold earlier versions of the content. The
    /// frame of its new bytes may not be able to refer to them, so short matches count there, too.
    pub(crate) fn settle(&mut self, homes: Vec<Range<u64>>) {
        self.homes = homes;
    }

    /// Returns whether a match that begins `position` bytes into the content is worth taking.
    pub fn accepts(&self, grain: &Grain, position: u64, stream_offset: u64, len: u64) -> bool {
        // A content may touch as many regions as lie before `position`: a long content has to lie
        // somewhere, and reading it in order goes from one region to the next.
        let spanned = position >> REGION_LOG2;
        let is_next = |region: u64| spanned > 0 && Some(region) == self.last.map(|last| last + 1);
        let is_near =
            |region| region == self.home || self.touched.contains(&region) || is_next(region);
        let is_home = |offset: u64| self.homes.iter().any(|home| home.contains(&offset));
        let len_min = if is_home(stream_offset) && is_home(stream_offset + len.max(1) - 1) {
            u64::from(grain.home_len_min)
        } else if regions(stream_offset, len).all(is_near) {
            u64::from(grain.near_len_min)
        } else {
            let excess = self.count.saturating_sub(spanned);
            let doublings = (excess / u64::from(grain.region_step.max(1))).min(10);
            u64::from(grain.far_len_min) << doublings
        };
        len >= len_min
    }

    /// Notes a match that was taken.
    pub fn took(&mut self, stream_offset: u64, len: u64) {
        for region in regions(stream_offset, len) {
            if !self.touched.contains(&region) {
                if self.touched.len() == TOUCHED_MAX {
                    self.touched.remove(0);
                }
                self.touched.push(region);
                self.count += 1;
            }
            self.last = Some(region);
        }
    }
}

/// Returns the regions that a range of the stream lies in.
fn regions(stream_offset: u64, len: u64) -> RangeInclusive<u64> {
    stream_offset >> REGION_LOG2..=(stream_offset + len.max(1) - 1) >> REGION_LOG2
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const REGION_LEN: u64 = 1 << REGION_LOG2;

    /// A content whose matches so far lie in these regions; its home is region 100.
    fn scatter(regions: &[u64]) -> Scatter {
        let mut scatter = Scatter::default();
        scatter.begin_content(100 * REGION_LEN);
        regions.iter().for_each(|region| scatter.took(region * REGION_LEN, KIB));
        scatter
    }

    #[test]
    fn a_small_content_is_not_scattered_for_little() {
        let none = scatter(&[]);
        assert!(none.accepts(&Grain::TEXT, 0, 100 * REGION_LEN, KIB), "where its own bytes go");
        assert!(!none.accepts(&Grain::TEXT, 0, 100 * REGION_LEN, KIB - 1));
        assert!(none.accepts(&Grain::TEXT, 0, 5 * REGION_LEN, 8 * KIB), "elsewhere");
        assert!(!none.accepts(&Grain::TEXT, 0, 5 * REGION_LEN, 8 * KIB - 1));
        assert!(!none.accepts(&Grain::TEXT, 0, 101 * REGION_LEN - 512, KIB), "half elsewhere");
        // Regions that it touches are near; others need ever longer matches.
        let four = scatter(&[1, 3, 5, 7]);
        assert!(four.accepts(&Grain::TEXT, 0, 5 * REGION_LEN, KIB));
        assert!(!four.accepts(&Grain::TEXT, 0, 8 * REGION_LEN, 16 * KIB - 1));
        assert!(four.accepts(&Grain::TEXT, 0, 8 * REGION_LEN, 16 * KIB));
    }

    #[test]
    fn a_long_content_goes_on_from_region_to_region() {
        let regions: Vec<u64> = (0..1000).collect();
        let scatter = scatter(&regions);
        let position = 1000 * REGION_LEN;
        assert!(scatter.accepts(&Grain::BINARY, position, 1000 * REGION_LEN, 4 * KIB), "the next");
        assert!(!scatter.accepts(&Grain::BINARY, position, 2000 * REGION_LEN, 4 * KIB));
        assert!(scatter.accepts(&Grain::BINARY, position, 2000 * REGION_LEN, 32 * KIB));
        // A short content in as many regions is scattered.
        assert!(!scatter.accepts(&Grain::BINARY, REGION_LEN / 2, 2000 * REGION_LEN, KIB << 14));
    }
}
