//! Maps bytes that were moved from one space to another.

use std::ops::Range;

use crate::content::extents::{Extents, StoredAt};

/// Maps the bytes of buffer space to where they are now.
#[derive(Debug, Default)]
pub(crate) struct Relocation {
    /// Start in buffer space, length and new place.
    rows: Vec<(u64, u64, StoredAt)>,
}

impl Relocation {
    /// Notes where the bytes of an item went: `extents` lists them from its start on.
    pub(crate) fn push(&mut self, range: Range<u64>, extents: &Extents) {
        debug_assert_eq!(extents.end(), range.end - range.start);
        let mut at = range.start;
        extents.visit(0, extents.end(), |len, place| {
            self.rows.push((at, len, place));
            at += len;
        });
    }

    /// Ends the mapping, so that ranges can be looked up.
    pub(crate) fn sort(&mut self) {
        self.rows.sort_unstable_by_key(|&(start, ..)| start);
    }

    /// Appends to `extents` what `range` of `before` is, with the new places of its bytes.
    pub(crate) fn through(&self, before: &Extents, range: Range<u64>, extents: &mut Extents) {
        before.visit(range.start, range.end, |len, place| match place {
            StoredAt::Stream(start) => {
                self.visit(start, len, |len, place| extents.push(len, place))
            }
            place => extents.push(len, place),
        });
    }

    fn visit(&self, start: u64, len: u64, mut visit: impl FnMut(u64, StoredAt)) {
        let mut at = start;
        let first = self.rows.partition_point(|&(row, ..)| row <= start).saturating_sub(1);
        for &(row, row_len, place) in &self.rows[first..] {
            if at >= start + len {
                break;
            }
            let end = (row + row_len).min(start + len);
            visit(end - at, place.after(at - row));
            at = end;
        }
        debug_assert_eq!(at, start + len, "all of buffer space was moved");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_lead_through_the_buffer() {
        let mut before = Extents::default();
        before.push(100, StoredAt::Stream(0));
        before.push(50, StoredAt::Hole);
        before.push(30, StoredAt::Stream(100));
        before.push(20, StoredAt::Stream(10));
        let mut relocation = Relocation::default();
        let mut second = Extents::default();
        second.push(30, StoredAt::Stream(0));
        relocation.push(100..130, &second);
        let mut first = Extents::default();
        first.push(15, StoredAt::Stream(5));
        first.push(85, StoredAt::Stream(30));
        relocation.push(0..100, &first);
        relocation.sort();
        let mut extents = Extents::default();
        relocation.through(&before, 0..120, &mut extents);
        relocation.through(&before, 120..200, &mut extents);
        let mut parts = Vec::new();
        extents.visit(0, extents.end(), |len, place| parts.push((len, place)));
        let place = StoredAt::Stream;
        assert_eq!(
            parts,
            [
                (15, place(5)),
                (85, place(30)),
                (50, StoredAt::Hole),
                (30, place(0)),
                (5, place(15)),
                (15, place(30))
            ]
        );
    }
}
