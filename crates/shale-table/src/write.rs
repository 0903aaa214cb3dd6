//! The writing side of [`crate::page`]: buffered columns become the bytes of a page.

use std::ops::Range;

use crate::{
    ColumnKind, Schema, TableError,
    byte_strings::{self, StringBuffer},
    integers::{self, TIER_COLUMN},
    limits::PAGE_PLAIN_LEN_MAX,
    page::PAGE_VERSION,
    varint,
};

/// Values of one column that wait for their page.
#[derive(Clone, Debug)]
pub(crate) enum ColumnBuffer {
    U64(Vec<u64>),
    Bytes(StringBuffer),
}

impl ColumnBuffer {
    pub(crate) fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::U64 => Self::U64(Vec::new()),
            ColumnKind::Bytes => Self::Bytes(StringBuffer::default()),
        }
    }

    /// A copy of some rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        match self {
            Self::U64(values) => Self::U64(values[rows].to_vec()),
            Self::Bytes(strings) => Self::Bytes(rows.map(|row| strings.get(row)).collect()),
        }
    }

    /// Bytes of byte strings.
    pub(crate) fn string_bytes(&self) -> usize {
        match self {
            Self::U64(_) => 0,
            Self::Bytes(strings) => strings.iter().map(<[u8]>::len).sum(),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::U64(values) => values.clear(),
            Self::Bytes(strings) => strings.clear(),
        }
    }
}

/// The bytes of a page of `row_count` rows (at least 1; each column has as many values). Depends on
/// the values only.
pub(crate) fn encode_page(
    schema: &'static Schema,
    columns: &[ColumnBuffer],
    row_count: usize,
) -> Result<Vec<u8>, TableError> {
    encode_page_by(schema, columns, row_count, &mut |values, plain| {
        integers::encode(values, TIER_COLUMN, plain);
    })
}

/// The same, with columns of integers as `encode_integers` appends them.
pub(crate) fn encode_page_by(
    schema: &'static Schema,
    columns: &[ColumnBuffer],
    row_count: usize,
    encode_integers: &mut dyn FnMut(&[u64], &mut Vec<u8>),
) -> Result<Vec<u8>, TableError> {
    let mut plain = vec![PAGE_VERSION, columns.len() as u8];
    varint::write(row_count as u64, &mut plain);
    for column in columns {
        match column {
            ColumnBuffer::U64(values) => {
                debug_assert_eq!(values.len(), row_count);
                encode_integers(values, &mut plain);
            }
            ColumnBuffer::Bytes(strings) => {
                debug_assert_eq!(strings.len(), row_count);
                byte_strings::encode(strings, &mut plain);
            }
        }
    }
    // The builder cuts pages so that this cannot be; a page no reader accepts must never be
    // written.
    if plain.len() > PAGE_PLAIN_LEN_MAX {
        return Err(TableError::Limit {
            table: schema.name,
            what: "plain page bytes",
            found: plain.len() as u64,
            max: PAGE_PLAIN_LEN_MAX as u64,
        });
    }
    Ok(plain)
}
