//! From a range of a content or file to bytes, and where its data and holes are.
//!
//! Frames come through the frame cache; holes and zero runs cost no decode. A range is clipped to
//! the file, so a read behind the end gives no bytes, as `pread` does.

use std::ops::Range;

use shale_format::schema::STREAM_HOLE;

use crate::ahead::READ_LEN_MIN;
use crate::cache::FrameBytes;
use crate::content::{Piece, PieceKind, Pieces};
use crate::error::{Expected, Fault, Kind, Place, ReadError, value};
use crate::image::Image;
use crate::tree::Tree;
use shale_format::InodeKind;

/// What holes and zero runs are shown as, piece by piece.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

impl Image {
    /// Fills `buf` with a content's bytes from `offset`; returns how many there were, fewer than
    /// asked only at the end. Nothing is to be trusted in `buf` after an error.
    pub fn read_content(
        &self,
        content: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, ReadError> {
        let range = offset..offset.saturating_add(buf.len() as u64);
        let mut filled = 0;
        let take = |bytes: &[u8]| {
            buf[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
            true
        };
        if self.workers.is_some() && range.end - range.start >= READ_LEN_MIN as u64 {
            // All pieces first, so that others can begin with the later ones. A piece is at least a
            // byte of the buffer, and usually a frame.
            let pieces = self.pieces(content, range)?.collect::<Result<Vec<_>, _>>()?;
            self.share_pieces(&pieces);
            self.visit_pieces(pieces.into_iter().map(Ok), take)?;
        } else {
            self.visit_pieces(self.pieces(content, range)?, take)?;
        }
        if self.workers.is_some() && filled > 0 {
            let content_len = self.content_len(content)?;
            self.prefetch_after(content, offset, offset + filled as u64, content_len);
        }
        Ok(filled)
    }

    /// Calls `visit` with the bytes of `range` of a content, slice after slice, until it returns
    /// false. Copies nothing: slices are parts of decoded frames, or zeroes.
    pub fn visit_content(
        &self,
        content: u64,
        range: Range<u64>,
        visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        self.visit_pieces(self.pieces(content, range)?, visit)
    }

    /// Bytes of a content that are not in holes, see [`Tree::data_len`].
    pub fn content_data_len(&self, content: u64) -> Result<u64, ReadError> {
        let mut len = 0;
        for segment in self.segments(content, 0..u64::MAX)? {
            let segment = segment?;
            if segment.stream != STREAM_HOLE {
                len += segment.len; // Together at most the content's length.
            }
        }
        Ok(len)
    }

    fn visit_pieces(
        &self,
        pieces: impl Iterator<Item = Result<Piece, ReadError>>,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        // The frame met last is held: pieces of one frame often follow each other, and the cache
        // may be too small to keep it.
        let mut held: Option<(u64, FrameBytes)> = None;
        for piece in pieces {
            let Piece { len, kind, .. } = piece?;
            let PieceKind::Frame { frame, frame_offset } = kind else {
                if !visit_zeroes(len, &mut visit) {
                    return Ok(());
                }
                continue;
            };
            let bytes = match &held {
                Some((held_frame, bytes)) if *held_frame == frame => bytes,
                _ => &held.insert((frame, self.frame(frame)?)).1,
            };
            let from = frame_offset as usize; // Inside the frame, whose length is below 2^32.
            let Some(slice) = bytes.get(from..from.saturating_add(len as usize)) else {
                let expected = Expected::AtMost(bytes.len() as u64);
                return Err(value("end of a piece in its frame", frame_offset + len, expected));
            };
            if !visit(slice) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn visit_zeroes(mut len: u64, visit: &mut impl FnMut(&[u8]) -> bool) -> bool {
    while len > 0 {
        let step = len.min(ZEROES.len() as u64);
        if !visit(&ZEROES[..step as usize]) {
            return false;
        }
        len -= step;
    }
    true
}

impl Tree {
    /// The content of a regular file.
    fn file_content(&self, inode: u64) -> Result<u64, ReadError> {
        let (kind, payload) = self.kind_and_payload(inode)?;
        if kind != InodeKind::File {
            return Err(Fault::WrongKind { inode, expected: Kind::File }.into());
        }
        self.check_content(payload).at(|| format!("inode {inode}"))?;
        Ok(payload)
    }

    /// Reads a regular file from `offset` into `buf`; returns how many bytes there were, fewer than
    /// asked only at the end of the file.
    ///
    /// Touches a page of inodes, contents, extents and frames each, and decodes the frames of the
    /// range that are not cached, with their references.
    pub fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ReadError> {
        let content = self.file_content(inode)?;
        self.image().read_content(content, offset, buf).at(|| format!("file inode {inode}"))
    }

    /// Calls `visit` with the bytes of `range` of a regular file, slice after slice, until it
    /// returns false. Copies nothing.
    pub fn visit_data(
        &self,
        inode: u64,
        range: Range<u64>,
        visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        let content = self.file_content(inode)?;
        self.image().visit_content(content, range, visit).at(|| format!("file inode {inode}"))
    }

    /// The layout of `range` of a regular file: frames, holes and zero runs. Decodes nothing.
    pub fn pieces(&self, inode: u64, range: Range<u64>) -> Result<Pieces<'_>, ReadError> {
        let content = self.file_content(inode)?;
        self.image().pieces(content, range).at(|| format!("file inode {inode}"))
    }

    /// The first offset from `offset` on that is data (zero runs are data). `None` if only a hole
    /// follows, or at or behind the end: what `lseek` calls ENXIO. Walks over the extents passed.
    pub fn seek_data(&self, inode: u64, offset: u64) -> Result<Option<u64>, ReadError> {
        self.seek(inode, offset, false)
    }

    /// The first offset from `offset` on that is in a hole; the end of the file counts as one.
    /// `None` at or behind the end: what `lseek` calls ENXIO. Walks over the extents passed.
    pub fn seek_hole(&self, inode: u64, offset: u64) -> Result<Option<u64>, ReadError> {
        let content = self.file_content(inode)?;
        let size = self.image().content_len(content)?;
        if offset >= size {
            return Ok(None);
        }
        Ok(Some(self.seek(inode, offset, true)?.unwrap_or(size)))
    }

    fn seek(&self, inode: u64, offset: u64, hole: bool) -> Result<Option<u64>, ReadError> {
        let content = self.file_content(inode)?;
        let place = || format!("file inode {inode}");
        for segment in self.image().segments(content, offset..u64::MAX).at(place)? {
            let segment = segment.at(place)?;
            if (segment.stream == STREAM_HOLE) == hole {
                return Ok(Some(segment.offset));
            }
        }
        Ok(None)
    }

    /// Bytes of a regular file that are not in holes, for `st_blocks`: 512-byte units, rounded up.
    /// Touches one page of extents when the file lies in one extent, as most do; walks over all
    /// extents of a file that has many.
    pub fn data_len(&self, inode: u64) -> Result<u64, ReadError> {
        let content = self.file_content(inode)?;
        self.image().content_data_len(content).at(|| format!("file inode {inode}"))
    }
}
