//! Cuts the stream into frames.
//!
//! Contents keep the order in which they arrive. A run of bytes that fits into a frame is not
//! split: if the current frame has no room for it and is at least half full, the frame ends. Large
//! files are cut where frames are full. Enough incompressible data starts a frame of its own, so
//! that it neither spoils the category of a frame nor is decoded with other data. The samples of a
//! content start a frame, too, unless little comes before them. A frame holds samples of one kind,
//! ends with a whole group of them, and has other bytes only before and after them.

use std::sync::Arc;

use shale_codec::SampleLayout;
use shale_format::Category;

use crate::content::samples::{SampleRun, Samples};
use crate::frame::body::{Body, Ranges};
use crate::layout::buffered::Buffered;
use crate::plan::classes::ClassIndex;

/// A frame that is full.
#[derive(Debug)]
pub(crate) struct PlainFrame {
    pub(crate) body: Body,
    /// Number of bytes.
    pub(crate) len: usize,
    pub(crate) traits: FrameTraits,
}

/// What is known of a frame beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameTraits {
    pub(crate) category: Category,
    /// The way in which the frame is compressed.
    pub(crate) class: ClassIndex,
    /// The frame holds hot files only and must decode quickly.
    pub(crate) is_hot: bool,
    /// Where the frame holds samples of sound or pictures.
    pub(crate) samples: Option<SampleLayout>,
}

/// Samples in the frame that is being filled.
#[derive(Debug, Clone, Copy)]
struct FrameSamples {
    samples: Samples,
    /// Bytes before the first whole group.
    head_len: usize,
    /// End of the samples in the frame.
    end: usize,
    /// What the next sample would have as [`SampleRun::at`].
    next_at: u64,
}

/// The frame that is being filled.
#[derive(Debug, Clone)]
pub(crate) struct Framer {
    /// Length of frames, and what it may be at most now.
    frame_len_usual: usize,
    frame_len: usize,
    /// See [`FrameTraits`].
    class: ClassIndex,
    is_hot: bool,
    body: Body,
    /// Number of bytes.
    len: usize,
    /// Offset of the first byte in stream space.
    start: u64,
    /// Bytes by category. The largest share decides the category of the frame.
    shares: [usize; CATEGORY_COUNT],
    samples: Option<FrameSamples>,
}

const CATEGORY_COUNT: usize = Category::ALL.len();
/// Least bytes of incompressible or other data that are worth a frame boundary.
const KIND_LEN_MIN: usize = 32 << 10;
/// Longer frames do not make samples smaller.
const SAMPLES_FRAME_LEN_MAX: usize = 512 << 10;

impl Framer {
    /// Starts at `start` in stream space.
    pub(crate) fn new(frame_len: usize, start: u64) -> Self {
        Self {
            frame_len_usual: frame_len,
            frame_len,
            class: 0,
            is_hot: false,
            body: Body::Bytes(Vec::new()),
            len: 0,
            start,
            shares: [0; CATEGORY_COUNT],
            samples: None,
        }
    }

    /// From now on, frames are made of ranges of `buffered`. No byte was pushed before.
    pub(crate) fn begin_buffered(&mut self, buffered: Arc<Buffered>) {
        debug_assert_eq!(self.len, 0);
        self.body = Body::Ranges(Ranges::of(buffered));
    }

    /// Begins frames of another length and class, hot or not. Returns the frame that ends here.
    #[must_use]
    pub(crate) fn begin_part(
        &mut self,
        frame_len: usize,
        class: ClassIndex,
        is_hot: bool,
    ) -> Option<PlainFrame> {
        let ended = self.end_frame();
        (self.frame_len_usual, self.frame_len) = (frame_len, frame_len);
        (self.class, self.is_hot) = (class, is_hot);
        ended
    }

    /// Makes frames at most `len_max` long from now on. Returns the frame that ends here: if the
    /// length changes, what follows is of another kind.
    #[must_use]
    pub(crate) fn set_len_max(&mut self, len_max: usize) -> Option<PlainFrame> {
        let frame_len = self.frame_len_usual.min(len_max);
        if frame_len == self.frame_len {
            return None;
        }
        self.frame_len = frame_len;
        // A long frame that has little so far goes on.
        if self.len < frame_len / 2 { None } else { self.end_frame() }
    }

    /// Returns the offset in stream space of the next byte.
    pub(crate) fn stream_len(&self) -> u64 {
        self.start + self.len as u64
    }

    /// Returns the offset in stream space of the current frame, and its bytes.
    pub(crate) fn current(&self) -> (u64, &Body) {
        (self.start, &self.body)
    }

    /// Ends the current frame if the rules ask for it before a run of `len` bytes. Call this before
    /// the first byte of the run is pushed. `may_split` is for runs of large files.
    #[must_use]
    pub(crate) fn before_run(
        &mut self,
        len: usize,
        category: Category,
        may_split: bool,
        run: Option<SampleRun>,
    ) -> Option<PlainFrame> {
        let filled = self.len;
        if self.samples_end_before(len, run) {
            return self.end_frame();
        }
        if run.is_some() {
            return None;
        }
        let fits = filled + len <= self.frame_len;
        let short = len <= self.frame_len && !may_split;
        let kind_changes = filled >= KIND_LEN_MIN
            && len >= KIND_LEN_MIN
            && (self.category() == Category::Incompressible)
                != (category == Category::Incompressible);
        let ends = kind_changes || (short && !fits && filled * 2 >= self.frame_len);
        if ends { self.end_frame() } else { None }
    }

    /// Returns whether the frame ends before a run because of the samples in either.
    fn samples_end_before(&self, len: usize, run: Option<SampleRun>) -> bool {
        match (self.samples, run) {
            (None, None) => false,
            (None, Some(_)) => self.len >= KIND_LEN_MIN.min(self.frame_len / 2),
            (Some(here), Some(run)) => {
                (here.samples, here.next_at, here.end) != (run.samples, run.at, self.len)
            }
            (Some(here), None) => self.len - here.end + len >= KIND_LEN_MIN,
        }
    }

    /// Takes bytes up to the end of the frame. Returns how many, and the frame if it is full.
    /// `place` is where they lie in buffer space; it counts where frames are ranges of that.
    #[must_use]
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        place: u64,
        category: Category,
        run: Option<SampleRun>,
    ) -> (usize, Option<PlainFrame>) {
        let len_max = match (run, self.samples) {
            (Some(run), here) => {
                let group_len = run.samples.shape.group_len();
                let into_group = (run.at % group_len as u64) as usize;
                let to_group = (group_len - into_group) % group_len;
                let here = here.unwrap_or(FrameSamples {
                    samples: run.samples,
                    head_len: self.len + to_group,
                    end: 0,
                    next_at: 0,
                });
                self.samples = Some(here);
                let room = self.frame_len.min(SAMPLES_FRAME_LEN_MAX).saturating_sub(here.head_len);
                // At least one group, so that there is an end.
                here.head_len + (room / group_len).max(1) * group_len
            }
            (None, Some(_)) => self.frame_len.max(self.len + 1),
            (None, None) => self.frame_len,
        };
        let taken = bytes.len().min(len_max - self.len);
        match &mut self.body {
            Body::Bytes(held) => {
                if held.is_empty() {
                    held.reserve_exact(self.frame_len);
                }
                held.extend_from_slice(&bytes[..taken]);
            }
            Body::Ranges(ranges) => ranges.push(place, taken),
        }
        self.len += taken;
        self.shares[category as usize] += taken;
        if let (Some(here), Some(run)) = (&mut self.samples, run) {
            (here.end, here.next_at) = (self.len, run.at + taken as u64);
        }
        let full = self.len >= len_max;
        (taken, if full { self.end_frame() } else { None })
    }

    /// Ends the current frame, if it holds anything.
    #[must_use]
    pub(crate) fn end_frame(&mut self) -> Option<PlainFrame> {
        if self.len == 0 {
            return None;
        }
        let samples = self.samples.take().map(|here| SampleLayout {
            shape: here.samples.shape,
            head_len: here.head_len,
            samples_len: here.end.saturating_sub(here.head_len),
            row_len: here.samples.row_len as usize,
        });
        let (category, class, is_hot) = (self.category(), self.class, self.is_hot);
        let traits = FrameTraits { category, class, is_hot, samples };
        self.start += self.len as u64;
        self.shares = [0; CATEGORY_COUNT];
        let next = self.body.emptied();
        let body = std::mem::replace(&mut self.body, next);
        Some(PlainFrame { body, len: std::mem::take(&mut self.len), traits })
    }

    fn category(&self) -> Category {
        let mut best = 0;
        for (id, &share) in self.shares.iter().enumerate() {
            if share > self.shares[best] {
                best = id;
            }
        }
        Category::from_id(best as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(framer: &mut Framer, len: usize, may_split: bool) -> Vec<usize> {
        let bytes = vec![1; len];
        let mut lens = Vec::new();
        lens.extend(framer.before_run(len, Category::Text, may_split, None).map(|f| f.len));
        let mut at = 0;
        while at < len {
            let (taken, frame) = framer.push(&bytes[at..], 0, Category::Text, None);
            at += taken;
            lens.extend(frame.map(|frame| frame.len));
        }
        lens
    }

    #[test]
    fn short_runs_are_not_split_unless_the_frame_is_nearly_empty() {
        let mut framer = Framer::new(1000, 0);
        assert!(push(&mut framer, 600, false).is_empty());
        assert_eq!(push(&mut framer, 500, false), [600]);
        assert!(framer.end_frame().is_some());
        assert!(push(&mut framer, 400, false).is_empty());
        assert_eq!(push(&mut framer, 900, false), [1000], "less than half full: filled up");
        assert_eq!(push(&mut framer, 2000, false), [1000, 1000]);
        assert_eq!(framer.stream_len(), 600 + 500 + 1300 + 2000);
        assert_eq!(push(&mut framer, 800, true), [1000], "a large file's piece fills up");
    }

    #[test]
    fn short_frames_end_long_ones() {
        let mut framer = Framer::new(1000, 0);
        assert!(framer.set_len_max(usize::MAX).is_none());
        assert!(push(&mut framer, 600, false).is_empty());
        assert_eq!(framer.set_len_max(200).map(|frame| frame.len), Some(600));
        assert!(push(&mut framer, 90, false).is_empty());
        assert!(framer.set_len_max(1000).is_none(), "there is little in it");
        assert_eq!(push(&mut framer, 1000, true), [1000]);
        assert!(framer.set_len_max(200).is_none());
        assert_eq!(push(&mut framer, 150, false), [200], "less than half full: filled up");
    }

    #[test]
    fn incompressible_data_begins_a_frame() {
        let mut framer = Framer::new(1 << 20, 0);
        let bytes = vec![1; KIND_LEN_MIN];
        assert!(framer.push(&bytes, 0, Category::Text, None).1.is_none());
        assert!(framer.before_run(10, Category::Incompressible, false, None).is_none());
        let frame = framer.before_run(KIND_LEN_MIN, Category::Incompressible, true, None);
        assert_eq!(frame.map(|frame| frame.traits.category), Some(Category::Text));
    }
}
