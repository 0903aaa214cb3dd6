//! Which rows of two pages belong together.
//!
//! Each row has a *key* that does not change when rows come or go elsewhere. Rows at the start and
//! at the end with equal keys belong together, then rows whose key both pages have just once, as
//! far as they are in the same order. Between two of these, rows belong together in their order as
//! far as they go: those are rows that changed.

use std::collections::HashMap;

use crate::{INDEX_SCHEMA, SHIFTED_INDEX_SCHEMA, Schema, index, write::ColumnBuffer};

/// The rows of a new page that belong to rows of an earlier one.
#[derive(Debug, Default)]
pub struct Alignment {
    /// For each row of the new page, the row of the earlier one, if there is one. They ascend.
    pub(super) rows: Vec<Option<usize>>,
    /// Rows of the earlier page.
    pub(super) earlier_rows: usize,
    /// Rows with equal keys.
    equal: usize,
}

impl Alignment {
    /// Compares the keys of two pages.
    pub(super) fn new(earlier: &[u64], new: &[u64]) -> Self {
        let mut rows = vec![None; new.len()];
        let mut equal = 0;
        let start = earlier.iter().zip(new).take_while(|(a, b)| a == b).count();
        let rest = earlier[start..].iter().rev().zip(new[start..].iter().rev());
        let end = rest.take_while(|(a, b)| a == b).count();
        for (row, of) in rows.iter_mut().enumerate().take(start) {
            *of = Some(row);
        }
        for back in 1..=end {
            rows[new.len() - back] = Some(earlier.len() - back);
        }
        equal += start + end;
        let middle = (start..earlier.len() - end, start..new.len() - end);
        let anchors = anchors(&earlier[middle.0.clone()], &new[middle.1.clone()]);
        let (mut a, mut b) = (start, start);
        let ends = std::iter::once((middle.0.len(), middle.1.len()));
        for (at, of) in anchors.into_iter().chain(ends) {
            let (at, of) = (start + at, start + of);
            for (a, b) in (a..at).zip(b..of) {
                rows[b] = Some(a);
                equal += usize::from(earlier[a] == new[b]);
            }
            if of < middle.1.end {
                rows[of] = Some(at);
                equal += 1;
            }
            (a, b) = (at + 1, of + 1);
        }
        Self { rows, earlier_rows: earlier.len(), equal }
    }

    /// Rows of both pages with equal keys.
    pub fn equal(&self) -> usize {
        self.equal
    }

    /// Returns whether rows came or went.
    pub fn moves(&self) -> bool {
        self.rows.len() != self.earlier_rows
            || self.rows.iter().enumerate().any(|(row, of)| *of != Some(row))
    }
}

/// Pairs of rows whose key is unique in both, as many as ascend in both.
fn anchors(earlier: &[u64], new: &[u64]) -> Vec<(usize, usize)> {
    // Where a key is, unless there are several.
    let places = |keys: &[u64]| {
        let mut places = HashMap::with_capacity(keys.len());
        for (row, &key) in keys.iter().enumerate() {
            places.entry(key).and_modify(|place| *place = None).or_insert(Some(row));
        }
        places
    };
    let (in_earlier, in_new) = (places(earlier), places(new));
    let pairs = new.iter().enumerate().filter_map(|(row, key)| {
        let of = in_earlier.get(key).copied().flatten()?;
        in_new.get(key).copied().flatten().map(|_| (of, row))
    });
    longest_ascending(pairs.collect())
}

/// The longest part of `pairs`, which ascend in their second number, that ascends in both.
fn longest_ascending(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    // For each length, the pair that ends the best part of this length; and what is before a pair.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (at, pair) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].0 < pair.0);
        before[at] = len.checked_sub(1).map(|last| ends[last]);
        if len == ends.len() {
            ends.push(at);
        } else {
            ends[len] = at;
        }
    }
    let mut next = ends.last().copied();
    let mut found = Vec::with_capacity(ends.len());
    while let Some(at) = next {
        found.push(pairs[at]);
        next = before[at];
    }
    found.reverse();
    found
}

/// Returns the keys of the rows of a page: what no row elsewhere changes. Of columns that are
/// counted from a base, where all are, the differences from row to row; of index pages, the sums.
pub(super) fn keys(
    schema: &'static Schema,
    columns: &[ColumnBuffer],
    row_count: usize,
) -> Vec<u64> {
    let is_index = [&INDEX_SCHEMA, &SHIFTED_INDEX_SCHEMA].iter().any(|s| std::ptr::eq(*s, schema));
    let shifted = |column| schema.shifts.iter().find(|shift| shift.column == column);
    let all_shifted = (0..columns.len()).all(|column| shifted(column).is_some());
    let mut keys = vec![0u64; row_count];
    for (at, column) in columns.iter().enumerate() {
        if is_index && at != index::CHECKSUM {
            continue;
        }
        match column {
            ColumnBuffer::U64(values) if all_shifted => {
                let mut last = 0;
                for (key, &value) in keys.iter_mut().zip(values) {
                    mix(key, value.wrapping_sub(last));
                    last = value;
                }
            }
            ColumnBuffer::U64(values) => {
                let only = shifted(at).map(|shift| shift.only);
                for (row, (key, &value)) in keys.iter_mut().zip(values).enumerate() {
                    let is_shifted =
                        only.is_some() && crate::shift::is_shifted(schema, columns, at, row);
                    mix(key, if is_shifted { 0 } else { value });
                }
            }
            ColumnBuffer::Bytes(strings) => {
                for (key, string) in keys.iter_mut().zip(strings.iter()) {
                    for part in string.chunks(8) {
                        let mut bytes = [0; 8];
                        bytes[..part.len()].copy_from_slice(part);
                        mix(key, u64::from_le_bytes(bytes));
                    }
                    mix(key, string.len() as u64);
                }
            }
        }
    }
    keys
}

fn mix(key: &mut u64, value: u64) {
    *key = (key.rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    *key ^= *key >> 32;
}
