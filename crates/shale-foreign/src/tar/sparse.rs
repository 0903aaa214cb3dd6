//! Maps of files with holes, in the six ways in which archives write them.
//!
//! GNU: in the header and blocks after it (old), in records of an extended header (0.0, 0.1), in
//! front of the data (1.0). star: in the header's other fields, or blocks that count as data. All
//! become one list, which is checked before it is believed: pieces ascend, do not overlap, end
//! within the file and are together as long as the data that is there.

use std::ops::Range;

use super::header::{Block, number};
use super::pax::MAP_NUMBERS_MAX;

/// A file with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SparseMap {
    /// Bytes of the file.
    pub(super) len: u64,
    /// Its holes, ascending, not touching.
    pub(super) holes: Vec<Range<u64>>,
}

/// The pieces of a map as they are gathered.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces(Vec<(u64, u64)>);

impl Pieces {
    /// Pieces of numbers in turn: offset, length, offset, length.
    pub(super) fn of_numbers(numbers: &[u64]) -> Result<Self, &'static str> {
        if !numbers.len().is_multiple_of(2) {
            return Err("its map of holes has an offset without a length");
        }
        Ok(Self(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()))
    }

    /// Adds the pieces of a header or of a block after it: 24 bytes each, up to an empty one.
    /// True if there was any.
    pub(super) fn add_fields(&mut self, fields: &[u8]) -> Result<bool, &'static str> {
        let mut any = false;
        for field in fields.chunks_exact(24) {
            if field[0] == 0 && field[12] == 0 {
                break;
            }
            any = true;
            let part = |bytes| number(bytes).ok().and_then(|value| u64::try_from(value).ok());
            match (part(&field[..12]), part(&field[12..])) {
                (Some(offset), Some(len)) => self.0.push((offset, len)),
                _ => return Err("its map of holes has a field that is no number"),
            }
            if self.0.len() * 2 > MAP_NUMBERS_MAX {
                return Err("its map of holes has more than two million pieces");
            }
        }
        Ok(any)
    }

    /// The map of a file of `len` bytes that has `stored_len` bytes of data.
    pub(super) fn finish(self, len: u64, stored_len: u64) -> Result<SparseMap, &'static str> {
        let (mut at, mut data_len) = (0u64, 0u64);
        let mut holes = Vec::new();
        for (offset, piece_len) in self.0 {
            let end = offset.checked_add(piece_len).filter(|&end| end <= len);
            let end = end.ok_or("its map of holes leads beyond its end")?;
            if offset < at {
                return Err("its map of holes has pieces that overlap");
            }
            if piece_len == 0 {
                continue;
            }
            if offset > at {
                holes.push(at..offset);
            }
            at = end;
            data_len += piece_len;
        }
        if at < len {
            holes.push(at..len);
        }
        if data_len != stored_len {
            return Err("its map of holes and its data are not of one length");
        }
        Ok(SparseMap { len, holes })
    }
}

/// Where an old map continues: fields of each block after the header, and the byte that says
/// whether one more follows.
pub(super) const EXTENSION_FIELDS: Range<usize> = 0..504;
pub(super) const EXTENSION_MORE: usize = 504;

/// What a header itself says of holes.
pub(super) struct InHeader {
    pub(super) pieces: Pieces,
    pub(super) len: u64,
    pub(super) is_extended: bool,
}

/// GNU's fields.
pub(super) fn gnu(block: &Block) -> Result<InHeader, &'static str> {
    let mut pieces = Pieces::default();
    pieces.add_fields(&block[386..482])?;
    Ok(InHeader { pieces, len: real_len(&block[483..495])?, is_extended: block[482] != 0 })
}

/// star's fields.
pub(super) fn star(block: &Block) -> Result<InHeader, &'static str> {
    let mut pieces = Pieces::default();
    let any = pieces.add_fields(&block[356..452])?;
    // Where there are none in the header, they are in the block that follows.
    let is_extended = block[355] != 0 || !any;
    Ok(InHeader { pieces, len: real_len(&block[452..464])?, is_extended })
}

fn real_len(field: &[u8]) -> Result<u64, &'static str> {
    let len = number(field).ok().and_then(|len| u64::try_from(len).ok());
    len.ok_or("its real length is no number")
}

/// The map in front of the data: decimal lines, a count and then numbers.
#[derive(Debug, Default)]
pub(super) struct Lines {
    count: Option<usize>,
    numbers: Vec<u64>,
    partial: Option<u64>,
}

impl Lines {
    /// Takes in a block. True once the map is complete; the rest of the block is filling.
    pub(super) fn add(&mut self, block: &Block) -> Result<bool, &'static str> {
        for &byte in block {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    let next = self.partial.unwrap_or(0).checked_mul(10);
                    let next = next.and_then(|next| next.checked_add(digit));
                    self.partial = Some(next.ok_or("its map of holes has a number too large")?);
                }
                b'\n' => {
                    let number = self.partial.take().ok_or("its map of holes has an empty line")?;
                    match self.count {
                        None => {
                            let numbers = usize::try_from(number).ok();
                            let numbers = numbers.and_then(|count| count.checked_mul(2));
                            let numbers = numbers.filter(|&count| count <= MAP_NUMBERS_MAX);
                            self.count =
                                Some(numbers.ok_or("its map of holes is beyond two million")?);
                        }
                        Some(_) => self.numbers.push(number),
                    }
                    if self.count == Some(self.numbers.len()) {
                        return Ok(true);
                    }
                }
                _ => return Err("its map of holes is not made of digits"),
            }
        }
        Ok(false)
    }

    /// The pieces of a complete map.
    pub(super) fn pieces(self) -> Result<Pieces, &'static str> {
        Pieces::of_numbers(&self.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_checked() {
        let map = |pairs: &[(u64, u64)], len, stored| Pieces(pairs.to_vec()).finish(len, stored);
        let good = map(&[(0, 10), (20, 5), (30, 0)], 30, 15).unwrap();
        assert_eq!(good.holes, [10..20, 25..30]);
        assert_eq!(map(&[(10, 5)], 15, 5).unwrap().holes[0], 0..10);
        assert_eq!(map(&[], 1 << 44, 0).unwrap().holes[0], 0..1 << 44);
        assert!(map(&[(0, 10), (5, 5)], 30, 15).is_err(), "overlap");
        assert!(map(&[(20, 5), (0, 10)], 30, 15).is_err(), "order");
        assert!(map(&[(20, 11)], 30, 11).is_err(), "beyond the end");
        assert!(map(&[(u64::MAX, 2)], 30, 2).is_err(), "overflow");
        assert!(map(&[(0, 10)], 30, 11).is_err(), "other data");
    }
}
