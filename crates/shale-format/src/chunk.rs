//! One row of the table of chunks, typed and checked against the limits.

use crate::error::FormatError;
use crate::limits::{CHUNK_DEPTH_MAX, CHUNK_LEN_MAX};
use crate::schema::chunks;

/// Columns of the table of chunks.
const COLUMNS: usize = chunks::SCHEMA.columns.len();

/// A part of a deflate stream that is rebuilt from bytes of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkRecord {
    /// Offset in rebuilt space.
    pub base: u64,
    /// Rebuilt bytes: the next row's `base` less this one's.
    pub len: u64,
    /// The content that holds what the stream does.
    pub content: u64,
    /// Where the plain bytes of the chunk begin in the content.
    pub offset: u64,
    /// How many they are.
    pub plain_len: u64,
    /// Number of the model that rebuilds the stream.
    pub model: u64,
    /// What the encoder carried over from the chunk before.
    pub carried: Carried,
    /// Chunks that the plain bytes are rebuilt from have a smaller depth; 1 if there are none.
    pub depth: u64,
    /// Lower half of the XXH3-64 of the rebuilt bytes. The bytes that they are rebuilt from have
    /// sums of their own, so this only has to notice a fault of the rebuilding.
    pub sum: u32,
}

/// What an encoder carries over from one chunk to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Bits of the chunk before in the first byte.
    pub bits: u8,
    /// How many, at most 7.
    pub bit_count: u8,
    /// Length of the match that was found at the first byte, 2 for none; 0 if none was searched.
    pub match_len: u16,
    /// Its distance.
    pub match_distance: u16,
}

impl Carried {
    /// Returns the column's value.
    pub fn column(self) -> u64 {
        u64::from(self.bits)
            | u64::from(self.bit_count) << 8
            | u64::from(self.match_len) << 16
            | u64::from(self.match_distance) << 32
    }

    /// Reads the column's value. `None` if an unused bit is set, or a distance without a length.
    fn from_column(value: u64) -> Option<Self> {
        let carried = Self {
            bits: value as u8,
            bit_count: (value >> 8) as u8,
            match_len: (value >> 16) as u16,
            match_distance: (value >> 32) as u16,
        };
        let has_match = carried.match_len > 0 || carried.match_distance == 0;
        (carried.column() == value && carried.bit_count < 8 && has_match).then_some(carried)
    }
}

impl ChunkRecord {
    /// Returns the row. The next row gives `len`.
    pub fn columns(&self) -> [u64; COLUMNS] {
        [
            self.base,
            self.content,
            self.offset,
            self.plain_len,
            self.model,
            self.carried.column(),
            self.depth,
            u64::from(self.sum),
        ]
    }

    /// Makes a record of the columns of its row and the `base` of the next row.
    ///
    /// # Errors
    /// A value is beyond its limit.
    pub fn from_columns(columns: &[u64; COLUMNS], next_base: u64) -> Result<Self, FormatError> {
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: "chunk table row", field, found, allowed })
        };
        let base = columns[chunks::BASE];
        let len = match next_base.checked_sub(base) {
            Some(len) if (1..=CHUNK_LEN_MAX).contains(&len) => len,
            _ => return field("next base", next_base, "base + 1 byte to 1 MiB"),
        };
        let plain_len = columns[chunks::PLAIN_LEN];
        if !(1..=CHUNK_LEN_MAX).contains(&plain_len) {
            return field("plain length", plain_len, "1 byte to 1 MiB");
        }
        let offset = columns[chunks::OFFSET];
        if offset.checked_add(plain_len).is_none() {
            return field("offset", offset, "inside the content");
        }
        let depth = columns[chunks::DEPTH];
        if !(1..=CHUNK_DEPTH_MAX).contains(&depth) {
            return field("depth", depth, "1 to 3");
        }
        let Some(carried) = Carried::from_column(columns[chunks::CARRIED]) else {
            return field("what is carried over", columns[chunks::CARRIED], "possible");
        };
        let (content, model) = (columns[chunks::CONTENT], columns[chunks::MODEL]);
        let Ok(sum) = u32::try_from(columns[chunks::SUM]) else {
            return field("sum", columns[chunks::SUM], "32 bits");
        };
        Ok(Self { base, len, content, offset, plain_len, model, carried, depth, sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_and_lies_are_refused() {
        let carried = Carried { bits: 5, bit_count: 3, match_len: 258, match_distance: 32_768 };
        let record = ChunkRecord {
            base: 100,
            len: 50,
            content: 7,
            offset: 1 << 40,
            plain_len: 300,
            model: 0xf_8601,
            carried,
            depth: 2,
            sum: 99,
        };
        let columns = record.columns();
        assert_eq!(ChunkRecord::from_columns(&columns, 150), Ok(record));
        for (column, value) in [
            (chunks::BASE, 150),
            (chunks::BASE, 151),
            (chunks::PLAIN_LEN, 0),
            (chunks::PLAIN_LEN, CHUNK_LEN_MAX + 1),
            (chunks::OFFSET, u64::MAX),
            (chunks::DEPTH, 0),
            (chunks::DEPTH, 4),
            (chunks::CARRIED, 8 << 8),
            (chunks::CARRIED, 1 << 63),
            (chunks::CARRIED, 1 << 32),
            (chunks::SUM, 1 << 32),
        ] {
            let mut lie = columns;
            lie[column] = value;
            assert!(ChunkRecord::from_columns(&lie, 150).is_err(), "{column}: {value}");
        }
        assert!(ChunkRecord::from_columns(&columns, 101 + CHUNK_LEN_MAX).is_err());
    }
}
