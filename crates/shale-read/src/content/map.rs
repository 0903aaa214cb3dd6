//! The content map: from a content to extents, and from extents to frames.
//!
//! A content is a range of content space. Extents map content space to stream space, to holes or
//! to zero runs; frames divide stream space. Each step is a binary search for the first row, then
//! one row after the other, so the cost depends on the range and not on the size of the tables.
//! Rows are checked to ascend, so a traversal always ends.

use std::ops::Range;
use std::sync::Arc;

use shale_format::limits::{FILE_LEN_MAX, SPACE_LEN_MAX};
use shale_format::schema::{STREAM_HOLE, STREAM_REBUILT, STREAM_ZERO, contents, extents, frames};
use shale_table::Cursor;

use crate::content::chunks::ChunkTable;
use crate::error::{ErrorContext, Expected, Fault, ReadError, contradiction, value};
use crate::frames::store::FrameStore;
use crate::storage::pages::{TableHandle, TablePages};
use crate::storage::plan::Plan;

/// A range of a content whose bytes come from one frame, one hole or one zero run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the content (in the file).
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Where the bytes come from.
    pub kind: PieceKind,
}

/// Where the bytes of a piece come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// A range of the plain bytes of a frame.
    Frame {
        /// Index of the frame.
        frame: u64,
        /// Offset of the piece in the frame's plain bytes.
        frame_offset: u64,
    },
    /// A hole: never written; reads as zeroes.
    Hole,
    /// Written data that is all zeroes.
    Zero,
    /// A range of a chunk of a deflate stream, which is rebuilt.
    Rebuilt {
        /// Index of the chunk.
        chunk: u64,
        /// Offset of the piece in the chunk.
        chunk_offset: u64,
    },
}

/// What is decoded or rebuilt as a whole, and cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The frame with this index.
    Frame(u64),
    /// The chunk with this index.
    Chunk(u64),
}

impl PieceKind {
    /// The frame or chunk that the bytes come from and the offset in it; `None` for zeroes.
    pub fn unit(self) -> Option<(Unit, u64)> {
        match self {
            Self::Frame { frame, frame_offset } => Some((Unit::Frame(frame), frame_offset)),
            Self::Rebuilt { chunk, chunk_offset } => Some((Unit::Chunk(chunk), chunk_offset)),
            Self::Hole | Self::Zero => None,
        }
    }
}

/// A range of a content inside one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset in the content.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Offset in stream space, or [`STREAM_REBUILT`] plus one in rebuilt space, or [`STREAM_HOLE`]
    /// or [`STREAM_ZERO`].
    pub(crate) stream: u64,
}

/// Where the bytes of all contents of one image come from.
pub(crate) struct ContentMap {
    contents: TableHandle,
    extents: TableHandle,
    chunks: ChunkTable,
    frames: Arc<FrameStore>,
}

impl ContentMap {
    pub(crate) fn new(
        contents: TableHandle,
        extents: TableHandle,
        chunks: ChunkTable,
        frames: Arc<FrameStore>,
    ) -> Self {
        Self { contents, extents, chunks, frames }
    }

    pub(crate) fn chunks(&self) -> &ChunkTable {
        &self.chunks
    }

    pub(crate) fn frames(&self) -> &Arc<FrameStore> {
        &self.frames
    }

    /// Adds the top pages of contents, extents, frames and references to `plan`.
    pub(crate) fn plan_tops(&self, plan: &mut Plan<'_>) {
        self.contents.plan_top(plan);
        self.extents.plan_top(plan);
        self.chunks.plan_top(plan);
        self.frames.tables().plan_tops(plan);
    }

    /// Adds all pages of the table of contents to `plan`.
    pub(crate) fn plan_lengths(&self, plan: &mut Plan<'_>) {
        self.contents.plan_rows(0..self.contents.row_count(), plan);
    }

    pub(crate) fn content_count(&self) -> u64 {
        self.contents.item_count()
    }

    /// Length of a content in bytes. Touches one or two pages.
    pub(crate) fn content_len(&self, content: u64) -> Result<u64, ReadError> {
        let range = self.content_range(content)?;
        Ok(range.end - range.start)
    }

    /// The range of a content in content space.
    fn content_range(&self, content: u64) -> Result<Range<u64>, ReadError> {
        if content >= self.content_count() {
            let count = self.content_count();
            return Err(Fault::NoIndex { what: "content", index: content, count }.into());
        }
        let range = || -> Result<Range<u64>, ReadError> {
            let table = self.contents.table()?;
            let (page, first_row) = table.page_of(content)?;
            let row = (content - first_row) as usize;
            let start = page.u64(contents::BASE, row)?;
            let end = if row + 1 < page.row_count() {
                page.u64(contents::BASE, row + 1)?
            } else {
                table.u64(contents::BASE, content + 1)?
            };
            match end.checked_sub(start) {
                Some(len) if len <= FILE_LEN_MAX && end <= SPACE_LEN_MAX => Ok(start..end),
                _ => {
                    let end_max = start.saturating_add(FILE_LEN_MAX).min(SPACE_LEN_MAX);
                    Err(value("end of the content", end, Expected::Between(start, end_max)))
                }
            }
        };
        range().at(|| format!("content {content}"))
    }

    /// The pieces of `range` of a content, clipped to the content: cut at extents and frames.
    pub(crate) fn pieces(&self, content: u64, range: Range<u64>) -> Result<Pieces<'_>, ReadError> {
        let segments = self.segments(content, range)?;
        let cursor = self.frames.tables().frames()?.cursor();
        Ok(Pieces { map: self, content, segments, segment: None, cursor, frame: None })
    }

    /// The segments of `range` of a content, clipped to the content: cut at extents.
    pub(crate) fn segments(
        &self,
        content: u64,
        range: Range<u64>,
    ) -> Result<Segments<'_>, ReadError> {
        let content_range = self.content_range(content)?;
        let len = content_range.end - content_range.start;
        Ok(Segments {
            map: self,
            cursor: self.extents.table()?.cursor(),
            content_start: content_range.start,
            at: content_range.start + range.start.min(len),
            end: content_range.start + range.end.min(len),
            row: None,
        })
    }
}

/// The segments of a range of a content, in order. Ends after an error.
pub(crate) struct Segments<'i> {
    map: &'i ContentMap,
    cursor: Cursor<'i, TablePages>,
    /// Start of the content in content space; `at` and `end` are in content space too.
    content_start: u64,
    at: u64,
    end: u64,
    /// Row of the next extent; `None` before the first step.
    row: Option<u64>,
}

impl Segments<'_> {
    fn step(&mut self) -> Result<Segment, ReadError> {
        let row = match self.row {
            Some(row) => row,
            None => self
                .cursor
                .search_u64(self.at)?
                .ok_or_else(|| contradiction("no extent covers the content"))?,
        };
        if row >= self.map.extents.item_count() {
            return Err(contradiction("the content goes on after the last extent"));
        }
        let segment = || -> Result<Segment, ReadError> {
            let start = self.cursor.u64(extents::BASE, row)?;
            let mut stream = self.cursor.u64(extents::STREAM, row)?;
            // Read last: the next row may be on the next page, and the cursor stays there.
            let end = self.cursor.u64(extents::BASE, row + 1)?;
            if start > self.at {
                return Err(value("start of the extent", start, Expected::AtMost(self.at)));
            }
            if end <= self.at {
                return Err(value("end of the extent", end, Expected::AtLeast(self.at + 1)));
            }
            let len = end.min(self.end) - self.at;
            if stream != STREAM_HOLE && stream != STREAM_ZERO {
                let stream_end = stream.checked_add(end - start);
                if stream_end.is_none_or(|end| end > SPACE_LEN_MAX) {
                    let expected =
                        Expected::AtMost(SPACE_LEN_MAX - (end - start).min(SPACE_LEN_MAX));
                    return Err(value("stream offset of the extent", stream, expected));
                }
                stream += self.at - start;
            }
            Ok(Segment { offset: self.at - self.content_start, len, stream })
        }();
        let segment = segment.at(|| format!("extents row {row}"))?;
        self.row = Some(row + 1);
        self.at += segment.len;
        Ok(segment)
    }
}

impl Iterator for Segments<'_> {
    type Item = Result<Segment, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.at = self.end;
        }
        Some(step)
    }
}

/// The pieces of a range of a content: see [`crate::Image::pieces`]. Ends after an error.
pub struct Pieces<'i> {
    map: &'i ContentMap,
    content: u64,
    segments: Segments<'i>,
    /// The rest of the current segment.
    segment: Option<Segment>,
    cursor: Cursor<'i, TablePages>,
    /// The frame used last and its range in stream space. The next piece is usually in it or right
    /// after it.
    frame: Option<(u64, Range<u64>)>,
}

impl Pieces<'_> {
    fn step(&mut self, segment: Segment) -> Result<Piece, ReadError> {
        let Segment { offset, len, stream } = segment;
        let kind = match stream {
            STREAM_HOLE => PieceKind::Hole,
            STREAM_ZERO => PieceKind::Zero,
            STREAM_REBUILT.. => {
                let rebuilt = stream - STREAM_REBUILT;
                let (chunk, record) = self.map.chunks.at(rebuilt)?;
                let chunk_offset = rebuilt - record.base;
                let piece_len = len.min(record.len - chunk_offset);
                self.rest(segment, piece_len);
                let kind = PieceKind::Rebuilt { chunk, chunk_offset };
                return Ok(Piece { offset, len: piece_len, kind });
            }
            _ => {
                let (frame, range) = self.frame_at(stream)?;
                let len = len.min(range.end - stream);
                self.rest(segment, len);
                let frame_offset = stream - range.start;
                return Ok(Piece { offset, len, kind: PieceKind::Frame { frame, frame_offset } });
            }
        };
        Ok(Piece { offset, len, kind })
    }

    /// Keeps what of a segment comes after its first `len` bytes.
    fn rest(&mut self, segment: Segment, len: u64) {
        if len < segment.len {
            self.segment = Some(Segment {
                offset: segment.offset + len,
                len: segment.len - len,
                stream: segment.stream + len,
            });
        }
    }

    /// The frame that holds the byte at `stream`, and its range in stream space.
    fn frame_at(&mut self, stream: u64) -> Result<(u64, Range<u64>), ReadError> {
        let frame = match &self.frame {
            Some((frame, range)) if range.contains(&stream) => return Ok((*frame, range.clone())),
            Some((frame, range)) if range.end == stream => frame + 1,
            _ => self
                .cursor
                .search_u64(stream)?
                .ok_or_else(|| contradiction("an extent leads before the first frame"))?,
        };
        if frame >= self.map.frames.tables().frame_count() {
            return Err(contradiction("an extent leads beyond the last frame"));
        }
        let start = self.cursor.u64(frames::PLAIN_START, frame)?;
        let end = self.cursor.u64(frames::PLAIN_START, frame + 1)?;
        if !(start..end).contains(&stream) {
            let error = value("end of its plain bytes", end, Expected::AtLeast(stream + 1));
            return Err(error.at(format!("frame {frame}")));
        }
        self.frame = Some((frame, start..end));
        Ok((frame, start..end))
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let segment = match self.segment.take() {
            Some(segment) => Ok(segment),
            None => self.segments.next()?,
        };
        let content = self.content;
        let piece = segment.and_then(|segment| self.step(segment));
        if piece.is_err() {
            self.segments.at = self.segments.end;
            self.segment = None;
        }
        Some(piece.at(|| format!("content {content}")))
    }
}
