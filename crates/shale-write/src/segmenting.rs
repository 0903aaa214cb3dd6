//! Ties segment dedupe (see [`crate::segment`]) into the pipeline: new pieces go into the stream,
//! every piece becomes a part of the table of extents.

use std::io;

use shale_format::Category;

use crate::WriteError;
use crate::extents::{Extents, Place};
use crate::flow::Flow;
use crate::pool::Pool;
use crate::read::SMALL_LEN_MAX;
use crate::segment::policy::Grain;
use crate::segment::{Piece, PlainStore, Segmenter, Settings, Sink};

/// A segmenter and what it holds back.
pub(crate) struct Segmenting {
    segmenter: Segmenter,
    text_grain: Grain,
    /// A content was begun and not ended.
    open: bool,
    category: Category,
}

impl Segmenting {
    pub(crate) fn new(settings: Settings) -> Self {
        let (near_len_min, far_len_min) = settings.lens_min;
        Self {
            segmenter: Segmenter::new(settings),
            text_grain: Grain { near_len_min, far_len_min, ..Grain::TEXT },
            open: false,
            category: Category::Generic,
        }
    }

    /// The next bytes of a content of `content_len` bytes.
    pub(crate) fn push<'env>(
        &mut self,
        bytes: &[u8],
        content_len: u64,
        category: Category,
        flow: &mut Flow<'env>,
        pool: &mut Pool<'env>,
        extents: &mut Extents,
    ) -> Result<(), WriteError> {
        if !self.open {
            let grain = match category {
                _ if content_len > SMALL_LEN_MAX => Grain::BINARY,
                Category::Incompressible | Category::Audio | Category::Sensor => Grain::BINARY,
                _ => self.text_grain,
            };
            self.segmenter.begin_content(content_len, grain);
            self.open = true;
            self.category = category;
        }
        let may_split = content_len > SMALL_LEN_MAX;
        let mut sink = Pieces { flow, pool, extents, category, may_split, error: None };
        let result = self.segmenter.push(bytes, &mut sink);
        sink.result(result)
    }

    /// Ends the content, if one is begun: nothing is held back any more.
    pub(crate) fn end<'env>(
        &mut self,
        flow: &mut Flow<'env>,
        pool: &mut Pool<'env>,
        extents: &mut Extents,
    ) -> Result<(), WriteError> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let category = self.category;
        let mut sink = Pieces { flow, pool, extents, category, may_split: false, error: None };
        let result = self.segmenter.end_content(&mut sink);
        sink.result(result)
    }

    /// Matches, and bytes of them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let counters = self.segmenter.counters();
        (counters.match_count, counters.match_bytes)
    }
}

/// Where pieces go.
struct Pieces<'s, 'env> {
    flow: &'s mut Flow<'env>,
    pool: &'s mut Pool<'env>,
    extents: &'s mut Extents,
    category: Category,
    may_split: bool,
    /// What an error of the pipeline was, while it passes through the segmenter.
    error: Option<WriteError>,
}

impl Pieces<'_, '_> {
    fn result(self, result: io::Result<()>) -> Result<(), WriteError> {
        match (result, self.error) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(WriteError::Spool(error)),
        }
    }
}

impl Sink for Pieces<'_, '_> {
    fn piece(&mut self, piece: Piece<'_>) -> io::Result<()> {
        match piece {
            Piece::New(bytes) => {
                match self.flow.push(self.pool, bytes, self.category, self.may_split) {
                    Ok(offset) => self.extents.push(bytes.len() as u64, Place::Stream(offset)),
                    Err(error) => {
                        self.error = Some(error);
                        return Err(io::Error::other("the pipeline failed"));
                    }
                }
            }
            Piece::Match { stream_offset, len } => {
                self.extents.push(len, Place::Stream(stream_offset));
            }
            Piece::Zero { len } => self.extents.push(len, Place::Zero),
        }
        Ok(())
    }

    fn store(&self) -> &dyn PlainStore {
        self
    }
}

impl PlainStore for Pieces<'_, '_> {
    fn read_at(&self, stream_offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.flow.read_at(stream_offset, buf)
    }
}
