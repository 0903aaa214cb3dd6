//! The mapping from content space to stream space while it grows: the rows of the table of extents.
//!
//! Neighbours that continue each other share a row. So an image without dedupe, holes and zero runs
//! has one row, whatever its size. A row takes 16 bytes of memory.

use shale_format::schema::{STREAM_HOLE, STREAM_REBUILT, STREAM_ZERO};

/// Where bytes of a content are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredAt {
    /// In the stream, from this offset on.
    Stream(u64),
    /// In chunks that are rebuilt, from this offset in rebuilt space on.
    Rebuilt(u64),
    /// Zeroes that were data in the source.
    Zero,
    /// A hole of the source.
    Hole,
}

impl StoredAt {
    fn column(self) -> u64 {
        match self {
            Self::Stream(offset) => offset,
            Self::Rebuilt(offset) => STREAM_REBUILT + offset,
            Self::Zero => STREAM_ZERO,
            Self::Hole => STREAM_HOLE,
        }
    }

    /// Returns the place `len` bytes further on.
    pub(crate) fn after(self, len: u64) -> Self {
        match self {
            Self::Stream(offset) => Self::Stream(offset + len),
            Self::Rebuilt(offset) => Self::Rebuilt(offset + len),
            other => other,
        }
    }
}

/// Rows of the table, sorted, without gaps from `start` to `end`. A build that continues an image
/// starts where the rows of that end.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    rows: Vec<(u64, StoredAt)>,
    start: u64,
    end: u64,
}

impl Extents {
    /// Starts without rows at this offset in content space.
    pub(crate) fn starting_at(start: u64) -> Self {
        Self { rows: Vec::new(), start, end: start }
    }

    /// Where the rows start in content space.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Length of content space so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Number of rows.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns rows of base and stream offset, without the sentinel.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, u64)> {
        self.rows.iter().map(|&(base, place)| (base, place.column()))
    }

    /// Maps the next `len` bytes of content space to `place`.
    pub(crate) fn push(&mut self, len: u64, place: StoredAt) {
        if len == 0 {
            return;
        }
        let continues =
            self.rows.last().is_some_and(|&(base, last)| last.after(self.end - base) == place);
        if !continues {
            self.rows.push((self.end, place));
        }
        self.end += len;
    }

    /// Forgets everything from `end` on.
    pub(crate) fn truncate(&mut self, end: u64) {
        let kept = self.rows.partition_point(|&(base, _)| base < end);
        self.rows.truncate(kept);
        self.end = end;
    }

    /// Calls `visit(len, place)` for the parts of a range, in order.
    pub(crate) fn visit(&self, start: u64, end: u64, mut visit: impl FnMut(u64, StoredAt)) {
        let mut at = start;
        let first = self.rows.partition_point(|&(base, _)| base <= start).saturating_sub(1);
        for (index, &(base, place)) in self.rows.iter().enumerate().skip(first) {
            if at >= end {
                break;
            }
            let row_end = self.rows.get(index + 1).map_or(self.end, |next| next.0).min(end);
            visit(row_end - at, place.after(at - base));
            at = row_end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_continue_each_other_are_one_row() {
        let mut extents = Extents::default();
        extents.push(10, StoredAt::Stream(0));
        extents.push(5, StoredAt::Stream(10));
        extents.push(0, StoredAt::Hole);
        extents.push(7, StoredAt::Zero);
        extents.push(1, StoredAt::Zero);
        extents.push(2, StoredAt::Stream(0));
        extents.push(2, StoredAt::Stream(3));
        assert_eq!(
            extents.rows().collect::<Vec<_>>(),
            [(0, 0), (15, STREAM_ZERO), (23, 0), (25, 3)]
        );
        let mut parts = Vec::new();
        extents.visit(12, 26, |len, place| parts.push((len, place)));
        assert_eq!(
            parts,
            [
                (3, StoredAt::Stream(12)),
                (8, StoredAt::Zero),
                (2, StoredAt::Stream(0)),
                (1, StoredAt::Stream(3))
            ]
        );
        extents.truncate(16);
        assert_eq!(extents.rows().collect::<Vec<_>>(), [(0, 0), (15, STREAM_ZERO)]);
        extents.push(1, StoredAt::Zero);
        assert_eq!((extents.row_count(), extents.end()), (2, 17));
    }
}
