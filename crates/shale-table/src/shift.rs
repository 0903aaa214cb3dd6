//! Columns that are counted from a base of their page, so that two tables can share a page whose
//! rows are the same but stand elsewhere.
//!
//! Many columns are numbers of rows: of an inode, an entry, a directory. If a row is added in front
//! of them, all of them grow by one. A page may therefore store the rest above a *base*, and the
//! index page that refers to it holds the base. [`Schema::shifts`] says for which columns. A page
//! without bases, or with bases of zero, stores the numbers themselves.

use crate::{Bases, Page, Schema, Shift, TableError, write::ColumnBuffer};

/// Returns whether row `row` of these columns gets the base of a shift.
fn holds(shift: &Shift, columns: &[ColumnBuffer], row: usize) -> bool {
    shift.only.is_none_or(|only| match &columns[only.column] {
        ColumnBuffer::U64(values) => only.holds(values[row]),
        ColumnBuffer::Bytes(_) => false,
    })
}

/// Returns whether the value of `column` in row `row` is counted from a base.
pub(crate) fn is_shifted(
    schema: &'static Schema,
    columns: &[ColumnBuffer],
    column: usize,
    row: usize,
) -> bool {
    schema.shifts.iter().any(|shift| shift.column == column && holds(shift, columns, row))
}

/// Returns the least number of each shifted column, or 0 where no row is shifted.
pub(crate) fn bases(schema: &'static Schema, columns: &[ColumnBuffer]) -> Bases {
    let mut bases = Bases::default();
    for (shift, base) in schema.shifts.iter().zip(&mut bases) {
        let ColumnBuffer::U64(values) = &columns[shift.column] else { continue };
        let shifted = values.iter().enumerate().filter(|&(row, _)| holds(shift, columns, row));
        *base = shifted.map(|(_, &value)| value).min().unwrap_or(0);
    }
    bases
}

/// Takes [`bases`] out of the columns, and returns them.
pub(crate) fn shift(schema: &'static Schema, columns: &mut [ColumnBuffer]) -> Bases {
    let bases = bases(schema, columns);
    for (shift, base) in schema.shifts.iter().zip(bases) {
        let ColumnBuffer::U64(values) = &columns[shift.column] else { continue };
        let less = |(row, &value)| value - if holds(shift, columns, row) { base } else { 0 };
        columns[shift.column] = ColumnBuffer::U64(values.iter().enumerate().map(less).collect());
    }
    bases
}

/// Calls `put` with the lengths and values of columns, counted from `bases`.
pub(crate) fn describe(
    schema: &'static Schema,
    columns: &[ColumnBuffer],
    bases: Bases,
    put: &mut dyn FnMut(&[u8]),
) {
    let shifts = || schema.shifts.iter().zip(bases);
    for (at, column) in columns.iter().enumerate() {
        match column {
            ColumnBuffer::U64(values) => {
                put(&(values.len() as u64).to_le_bytes());
                for (row, &value) in values.iter().enumerate() {
                    let of_row = shifts()
                        .filter(|(shift, _)| shift.column == at && holds(shift, columns, row));
                    let base = of_row.fold(0u64, |sum, (_, base)| sum.wrapping_add(base));
                    put(&value.wrapping_sub(base).to_le_bytes());
                }
            }
            ColumnBuffer::Bytes(strings) => {
                put(&(strings.len() as u64).to_le_bytes());
                for string in strings.iter() {
                    put(&(string.len() as u64).to_le_bytes());
                    put(string);
                }
            }
        }
    }
}

/// Returns whether a page has exactly these columns.
///
/// # Errors
/// The page is damaged.
pub(crate) fn is_equal(columns: &[ColumnBuffer], page: &Page) -> Result<bool, TableError> {
    let rows = 0..page.row_count();
    let mut integers = Vec::new();
    for (column, buffer) in columns.iter().enumerate() {
        let is_same = match buffer {
            ColumnBuffer::U64(values) => {
                page.u64_range(column, rows.clone(), &mut integers)?;
                *values == integers
            }
            ColumnBuffer::Bytes(strings) => {
                let mut is_same = strings.len() == rows.len();
                if is_same {
                    page.scan_bytes(column, rows.clone(), |row, string| {
                        is_same = strings.get(row) == string;
                        is_same
                    })?;
                }
                is_same
            }
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}
