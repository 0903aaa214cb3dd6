//! From a content to extents, and from extents to frames.
//!
//! A content is a range of content space. Extents map content space to stream space, to holes or
//! to zero runs; frames cut stream space. Both steps are a binary search for the first row and
//! then row by row, so a range costs what it covers, whatever the size of the tables. Every row is
//! checked to ascend, so a traversal always ends.

use std::ops::Range;

use shale_format::limits::{FILE_LEN_MAX, SPACE_LEN_MAX};
use shale_format::schema::{STREAM_HOLE, STREAM_ZERO, contents, extents, frames};
use shale_table::Cursor;

use crate::error::{Expected, Fault, Place, ReadError, contradiction, value};
use crate::image::Image;
use crate::pages::TablePages;

/// A part of a content that comes from one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the content (in the file).
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Where they come from.
    pub kind: PieceKind,
}

/// Where the bytes of a piece come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// Plain bytes of a frame from an offset on.
    Frame {
        /// Index of the frame.
        frame: u64,
        /// First byte in the frame's plain bytes.
        frame_offset: u64,
    },
    /// Nothing was written there: reads as zeroes, is reported as a hole.
    Hole,
    /// Data that is all zero.
    Zero,
}

/// A part of a content inside one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset in the content.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Offset in stream space, or one of the two marks.
    pub(crate) stream: u64,
}

impl Image {
    /// Contents of the image, all snapshots together. Content 0 is the empty one.
    pub fn content_count(&self) -> u64 {
        self.contents.item_count()
    }

    /// Bytes of a content. Touches one or two pages.
    pub fn content_len(&self, content: u64) -> Result<u64, ReadError> {
        let base = self.content_base(content)?;
        Ok(base.end - base.start)
    }

    /// Where a content lies in content space.
    fn content_base(&self, content: u64) -> Result<Range<u64>, ReadError> {
        if content >= self.content_count() {
            let count = self.content_count();
            return Err(Fault::NoIndex { what: "content", index: content, count }.into());
        }
        let base = || -> Result<Range<u64>, ReadError> {
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
        base().at(|| format!("content {content}"))
    }

    /// The layout of `range` of a content, cut at extents and frames. Parts of `range` beyond the
    /// content are left out.
    pub fn pieces(&self, content: u64, range: Range<u64>) -> Result<Pieces<'_>, ReadError> {
        let segments = self.segments(content, range)?;
        let cursor = self.frames.table()?.cursor();
        Ok(Pieces { image: self, content, segments, segment: None, cursor, frame: None })
    }

    /// The extents of `range` of a content.
    pub(crate) fn segments(
        &self,
        content: u64,
        range: Range<u64>,
    ) -> Result<Segments<'_>, ReadError> {
        let base = self.content_base(content)?;
        let len = base.end - base.start;
        Ok(Segments {
            image: self,
            cursor: self.extents.table()?.cursor(),
            base: base.start,
            at: base.start + range.start.min(len),
            end: base.start + range.end.min(len),
            row: None,
        })
    }
}

/// Extents of a range of a content, in order. Ends after an error.
pub(crate) struct Segments<'i> {
    image: &'i Image,
    cursor: Cursor<'i, TablePages>,
    /// Start of the content in content space; `at` and `end` are in content space too.
    base: u64,
    at: u64,
    end: u64,
    /// Row of the next extent, unknown before the first.
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
        if row >= self.image.extents.item_count() {
            return Err(contradiction("the content goes on behind the last extent"));
        }
        let segment = || -> Result<Segment, ReadError> {
            let start = self.cursor.u64(extents::BASE, row)?;
            let mut stream = self.cursor.u64(extents::STREAM, row)?;
            // Last, as the next row may lie on the next page, where the cursor then stays.
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
            Ok(Segment { offset: self.at - self.base, len, stream })
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

/// The layout of a range of a content: see [`Image::pieces`]. Ends after an error.
pub struct Pieces<'i> {
    image: &'i Image,
    content: u64,
    segments: Segments<'i>,
    /// What is left of the current segment.
    segment: Option<Segment>,
    cursor: Cursor<'i, TablePages>,
    /// The frame met last, and its range in stream space: the next piece is in it or right behind
    /// it more often than not.
    frame: Option<(u64, Range<u64>)>,
}

impl Pieces<'_> {
    fn step(&mut self, segment: Segment) -> Result<Piece, ReadError> {
        let Segment { offset, len, stream } = segment;
        let kind = match stream {
            STREAM_HOLE => PieceKind::Hole,
            STREAM_ZERO => PieceKind::Zero,
            _ => {
                let (frame, range) = self.frame_at(stream)?;
                let len = len.min(range.end - stream);
                if len < segment.len {
                    self.segment = Some(Segment {
                        offset: offset + len,
                        len: segment.len - len,
                        stream: stream + len,
                    });
                }
                let frame_offset = stream - range.start;
                return Ok(Piece { offset, len, kind: PieceKind::Frame { frame, frame_offset } });
            }
        };
        Ok(Piece { offset, len, kind })
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
        if frame >= self.image.frame_count() {
            return Err(contradiction("an extent leads behind the last frame"));
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
