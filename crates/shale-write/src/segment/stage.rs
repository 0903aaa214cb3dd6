//! Connects segment dedupe (see [`crate::segment::segmenter`]) with the pipeline: new pieces go
//! into the stream, every piece becomes an extent.

use std::collections::VecDeque;
use std::ops::Range;

use shale_format::Category;

use crate::content::extents::{Extents, StoredAt};
use crate::content::read::SMALL_LEN_MAX;
use crate::content::samples::SampleRun;
use crate::frame::pipeline::FramePipeline;
use crate::plan::budget::SEGMENT_INDEX_BYTES;
use crate::plan::error::WriteError;
use crate::segment::homes::Homes;
use crate::segment::policy::Grain;
use crate::segment::segmenter::{Anchor, Counters, Piece, Segmenter, Settings, Sink};

/// A segmenter, and what it holds back.
pub(crate) struct SegmentStage {
    segmenter: Segmenter,
    text_grain: Grain,
    /// Category of the content that was begun and not ended.
    open: Option<Category>,
    /// Where the content begins in buffer space, if it is there.
    place: u64,
    samples: PendingSamples,
}

/// Which bytes that the segmenter holds back are samples.
#[derive(Debug, Default)]
struct PendingSamples {
    /// Bytes of the content that were pushed, and that came out.
    pushed: u64,
    emitted: u64,
    /// Ranges of the content.
    runs: VecDeque<(Range<u64>, SampleRun)>,
}

impl PendingSamples {
    fn push(&mut self, len: u64, run: Option<SampleRun>) {
        let range = self.pushed..self.pushed + len;
        self.pushed = range.end;
        let Some(run) = run else { return };
        match self.runs.back_mut() {
            Some((last, first))
                if last.end == range.start && first.after(last.end - last.start) == run =>
            {
                last.end = range.end;
            }
            _ => self.runs.push_back((range, run)),
        }
    }

    /// Takes up to `len` bytes that are all samples of one run, or none. Returns how many.
    fn take(&mut self, len: u64) -> (u64, Option<SampleRun>) {
        while self.runs.front().is_some_and(|(range, _)| range.end <= self.emitted) {
            self.runs.pop_front();
        }
        let at = self.emitted;
        let (len, run) = match self.runs.front() {
            None => (len, None),
            Some((range, _)) if at < range.start => (len.min(range.start - at), None),
            Some((range, run)) => (len.min(range.end - at), Some(run.after(at - range.start))),
        };
        self.emitted += len;
        (len, run)
    }
}

impl SegmentStage {
    /// Looks for ranges of at least `window_len` bytes. `lens_min` are the shortest ranges taken
    /// from small files, near and far.
    /// The stream holds `stream_len` bytes already.
    pub(crate) fn new(window_len: u32, lens_min: (u32, u32), stream_len: u64) -> Self {
        let (near_len_min, far_len_min) = lens_min;
        let settings = Settings { window_len, index_bytes_max: SEGMENT_INDEX_BYTES };
        Self {
            segmenter: Segmenter::new(settings, stream_len),
            text_grain: Grain { near_len_min, far_len_min, ..Grain::TEXT },
            open: None,
            place: 0,
            samples: PendingSamples::default(),
        }
    }

    /// Remembers anchors of bytes that the stream held before.
    pub(crate) fn learn(&mut self, anchors: &[Anchor]) {
        self.segmenter.learn(anchors);
    }

    /// Lets contents share short ranges with the frames that resemble them most.
    pub(crate) fn set_homes(&mut self, homes: Homes) {
        self.segmenter.set_homes(homes);
    }

    /// log2 of the step that the anchors of a content must have.
    pub(crate) fn step_log2(&self, content_len: u64, category: Category) -> u32 {
        self.segmenter.step_log2().max(self.grain(content_len, category).step_log2)
    }

    fn grain(&self, content_len: u64, category: Category) -> Grain {
        match category {
            _ if content_len > SMALL_LEN_MAX => Grain::BINARY,
            Category::Incompressible | Category::Audio | Category::Sensor => Grain::BINARY,
            _ => self.text_grain,
        }
    }

    /// Takes the next bytes of a content of `content_len` bytes, which lie at `place` in buffer
    /// space. `known` are their anchors, if they were found beforehand.
    pub(crate) fn push(
        &mut self,
        (bytes, place, known): (&[u8], u64, Option<&[Anchor]>),
        content_len: u64,
        (category, run): (Category, Option<SampleRun>),
        frames: &mut FramePipeline<'_>,
        extents: &mut Extents,
    ) -> Result<(), WriteError> {
        if self.open.is_none() {
            self.samples = PendingSamples::default();
            self.place = place;
            self.segmenter.begin_content(content_len, self.grain(content_len, category));
            let has_homes = self.segmenter.find_homes(bytes, known);
            frames.set_short(has_homes)?;
        }
        let category = *self.open.get_or_insert(category);
        let may_split = content_len > SMALL_LEN_MAX;
        self.samples.push(bytes.len() as u64, run);
        let (place, samples) = (self.place, &mut self.samples);
        let mut pieces = Pieces { frames, extents, category, may_split, place, samples };
        self.segmenter.push(bytes, known, &mut pieces)
    }

    /// Ends the content, if one was begun: nothing is held back any more.
    pub(crate) fn end(
        &mut self,
        frames: &mut FramePipeline<'_>,
        extents: &mut Extents,
    ) -> Result<(), WriteError> {
        let Some(category) = self.open.take() else { return Ok(()) };
        let (place, samples) = (self.place, &mut self.samples);
        let mut pieces = Pieces { frames, extents, category, may_split: false, place, samples };
        self.segmenter.end_content(&mut pieces)
    }

    /// What was found so far.
    pub(crate) fn counters(&self) -> Counters {
        self.segmenter.counters()
    }
}

/// Where pieces go.
struct Pieces<'s, 'env> {
    frames: &'s mut FramePipeline<'env>,
    extents: &'s mut Extents,
    category: Category,
    may_split: bool,
    /// Where the content begins in buffer space.
    place: u64,
    samples: &'s mut PendingSamples,
}

impl Sink for Pieces<'_, '_> {
    type Error = WriteError;

    fn piece(&mut self, piece: Piece<'_>) -> Result<(), WriteError> {
        match piece {
            Piece::New(mut bytes) => {
                while !bytes.is_empty() {
                    let place = self.place + self.samples.emitted;
                    let (len, run) = self.samples.take(bytes.len() as u64);
                    let (now, rest) = bytes.split_at(len as usize);
                    let offset =
                        self.frames.push(now, place, self.category, self.may_split, run)?;
                    self.extents.push(len, StoredAt::Stream(offset));
                    bytes = rest;
                }
            }
            Piece::Match { stream_offset, len } => {
                self.samples.emitted += len;
                self.extents.push(len, StoredAt::Stream(stream_offset));
            }
        }
        Ok(())
    }

    fn read_at(&self, stream_offset: u64, out: &mut [u8]) -> Result<(), WriteError> {
        self.frames.read_at(stream_offset, out)
    }
}
