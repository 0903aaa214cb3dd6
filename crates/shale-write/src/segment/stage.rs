//! Connects segment dedupe (see [`crate::segment::segmenter`]) with the pipeline: new pieces go
//! into the stream, every piece becomes an extent.

use shale_format::Category;

use crate::content::extents::{Extents, Place};
use crate::content::read::SMALL_LEN_MAX;
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

    /// Takes the next bytes of a content of `content_len` bytes.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        content_len: u64,
        category: Category,
        frames: &mut FramePipeline<'_>,
        extents: &mut Extents,
    ) -> Result<(), WriteError> {
        if self.open.is_none() {
            let grain = match category {
                _ if content_len > SMALL_LEN_MAX => Grain::BINARY,
                Category::Incompressible | Category::Audio | Category::Sensor => Grain::BINARY,
                _ => self.text_grain,
            };
            self.segmenter.begin_content(content_len, grain);
            let has_homes = self.segmenter.find_homes(bytes);
            frames.set_short(has_homes)?;
        }
        let category = *self.open.get_or_insert(category);
        let may_split = content_len > SMALL_LEN_MAX;
        self.segmenter.push(bytes, &mut Pieces { frames, extents, category, may_split })
    }

    /// Ends the content, if one was begun: nothing is held back any more.
    pub(crate) fn end(
        &mut self,
        frames: &mut FramePipeline<'_>,
        extents: &mut Extents,
    ) -> Result<(), WriteError> {
        let Some(category) = self.open.take() else { return Ok(()) };
        self.segmenter.end_content(&mut Pieces { frames, extents, category, may_split: false })
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
}

impl Sink for Pieces<'_, '_> {
    type Error = WriteError;

    fn piece(&mut self, piece: Piece<'_>) -> Result<(), WriteError> {
        match piece {
            Piece::New(bytes) => {
                let offset = self.frames.push(bytes, self.category, self.may_split)?;
                self.extents.push(bytes.len() as u64, Place::Stream(offset));
            }
            Piece::Match { stream_offset, len } => {
                self.extents.push(len, Place::Stream(stream_offset));
            }
        }
        Ok(())
    }

    fn read_at(&self, stream_offset: u64, out: &mut [u8]) -> Result<(), WriteError> {
        self.frames.read_at(stream_offset, out)
    }
}
