//! Pieces of several sources as one: the beginning of an image in one file, its end in another.
//!
//! A read that crosses a seam is one read of each piece. Everything above sees one source.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::storage::source::ByteSource;

/// Pieces of sources, one after the other.
pub(crate) struct JoinedSource {
    pieces: Vec<Piece>,
    len: u64,
    base_len: u64,
}

/// A range of a source, and where it begins in the whole.
struct Piece {
    source: Arc<dyn ByteSource>,
    /// Offset of the piece in its source.
    skip: u64,
    /// Offset of the piece in the whole.
    start: u64,
    len: u64,
}

impl JoinedSource {
    /// Joins ranges of sources. The first `base_len` bytes are an image of their own, which must
    /// not be taken for the whole.
    ///
    /// # Errors
    /// A range lies outside its source, or all together are longer than an offset can say.
    pub(crate) fn new(
        ranges: Vec<(Arc<dyn ByteSource>, Range<u64>)>,
        base_len: u64,
    ) -> io::Result<Self> {
        let mut pieces = Vec::with_capacity(ranges.len());
        let mut start = 0u64;
        for (source, range) in ranges {
            let len = range.end.checked_sub(range.start).filter(|_| range.end <= source.len());
            let len = len.ok_or(io::ErrorKind::UnexpectedEof)?;
            let end = start.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
            // A read would stop at a piece that holds nothing.
            if len > 0 {
                pieces.push(Piece { source, skip: range.start, start, len });
            }
            start = end;
        }
        Ok(Self { pieces, len: start, base_len })
    }

    /// Calls `each` with the pieces that hold `range`: the piece, the offset in its source and the
    /// part of the range that lies there, counted from the start of the range.
    fn visit<E>(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(&Piece, u64, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = self.pieces.partition_point(|piece| piece.start + piece.len <= range.start);
        for piece in &self.pieces[first..] {
            let (from, to) = (range.start.max(piece.start), range.end.min(piece.start + piece.len));
            if from >= to {
                break;
            }
            let part = (from - range.start) as usize..(to - range.start) as usize;
            each(piece, piece.skip + (from - piece.start), part)?;
        }
        Ok(())
    }

    fn range_of(&self, offset: u64, len: usize) -> Option<Range<u64>> {
        let end = offset.checked_add(len as u64)?;
        (end <= self.len).then_some(offset..end)
    }

    /// Reads every piece of `buf` in its own way. True if all could be read, and one with `again`.
    fn again(
        &self,
        offset: u64,
        buf: &mut [u8],
        again: impl Fn(&dyn ByteSource, u64, &mut [u8]) -> bool,
    ) -> bool {
        let Some(range) = self.range_of(offset, buf.len()) else { return false };
        let mut is_new = false;
        let read = self.visit(range, |piece, at, part| {
            let part = &mut buf[part];
            match again(&*piece.source, at, part) {
                true => is_new = true,
                false => piece.source.read_at(at, part)?,
            }
            io::Result::Ok(())
        });
        is_new && read.is_ok()
    }
}

impl ByteSource for JoinedSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let range = self.range_of(offset, buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.visit(range, |piece, at, part| piece.source.read_at(at, &mut buf[part]))
    }

    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.again(offset, buf, |source, at, part| source.heal(at, part))
    }

    fn is_far(&self) -> bool {
        self.pieces.iter().any(|piece| piece.source.is_far())
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        for piece in self.pieces.iter().filter(|piece| piece.source.is_far()) {
            let end = piece.start + piece.len;
            let inside = ranges.iter().filter(|range| range.start < end && range.end > piece.start);
            let moved = inside.map(|range| {
                let (from, to) = (range.start.max(piece.start), range.end.min(end));
                piece.skip + (from - piece.start)..piece.skip + (to - piece.start)
            });
            let moved: Vec<_> = moved.collect();
            if !moved.is_empty() {
                piece.source.will_need(&moved);
            }
        }
    }

    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.again(offset, buf, |source, at, part| source.read_again(at, part))
    }

    fn base_len(&self) -> u64 {
        self.base_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::source::MemorySource;

    fn source(bytes: &'static [u8]) -> Arc<dyn ByteSource> {
        Arc::new(MemorySource::new(bytes))
    }

    #[test]
    fn every_range_of_joined_pieces_reads_as_the_whole() {
        let ranges = vec![
            (source(b"..0123"), 2..6),
            (source(b"45"), 0..2),
            (source(b"nothing"), 3..3),
            (source(b"head6789"), 4..8),
        ];
        let joined = JoinedSource::new(ranges, 4).unwrap();
        assert_eq!((joined.len(), joined.base_len()), (10, 4));
        for from in 0..=10 {
            for to in from..=10 {
                let mut buf = vec![b'x'; to - from];
                joined.read_at(from as u64, &mut buf).unwrap();
                assert_eq!(buf, &b"0123456789"[from..to]);
            }
        }
        assert!(joined.read_at(9, &mut [0; 2]).is_err());
        assert!(joined.read_at(u64::MAX, &mut [0; 2]).is_err());
        assert!(!joined.heal(2, &mut [0; 4]), "memory cannot repair itself");
    }

    #[test]
    fn ranges_outside_their_source_are_refused() {
        assert!(JoinedSource::new(vec![(source(b"abc"), 1..4)], 0).is_err());
        let backwards = Range { start: 2, end: 1 };
        assert!(JoinedSource::new(vec![(source(b"abc"), backwards)], 0).is_err());
    }
}
