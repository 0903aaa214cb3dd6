//! What can go wrong: damage in a page or root, and wrong use by the program.
//!
//! Column codecs report [`Damage`], which only says what is wrong; the page adds table and column.
//! Nothing here is fatal: callers decide what to do with a damaged page.

use crate::schema::ColumnKind;

/// Any error of this crate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The bytes of a page contradict the page format or each other.
    #[error("table `{table}`: damaged page: {what}")]
    PageDamaged {
        /// Name of the table's schema.
        table: &'static str,
        /// What was found and what should have been.
        what: &'static str,
    },
    /// The bytes of a column contradict the page format or each other.
    #[error("table `{table}`, column `{column}`: damaged page: {what}")]
    ColumnDamaged {
        /// Name of the table's schema.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
        /// What was found and what should have been.
        what: &'static str,
    },
    /// The tree of pages contradicts itself: a root or an index page is impossible.
    #[error("table `{table}`: damaged index: {what}")]
    IndexDamaged {
        /// Name of the table's schema.
        table: &'static str,
        /// What was found and what should have been.
        what: &'static str,
    },
    /// The caller asked for a row beyond the end.
    #[error("table `{table}`: row {row} asked for, but there are {row_count}")]
    RowRange {
        /// Name of the table's schema.
        table: &'static str,
        /// The row asked for (for a range: its end).
        row: u64,
        /// Rows of the page or table.
        row_count: u64,
    },
    /// The caller asked for or pushed a column that does not exist or is of the other kind.
    #[error("table `{table}`: column {column} is not a column of kind {kind:?}")]
    ColumnKind {
        /// Name of the table's schema.
        table: &'static str,
        /// The column's index.
        column: usize,
        /// The kind asked for.
        kind: ColumnKind,
    },
    /// The caller pushed a row with too few or too many values.
    #[error("table `{table}`: a row of {found} values pushed, the schema has {expected} columns")]
    RowShape {
        /// Name of the table's schema.
        table: &'static str,
        /// Columns of the schema.
        expected: usize,
        /// Values of the row.
        found: usize,
    },
    /// Something is beyond a limit of [`crate::limits`].
    #[error("table `{table}`: {what} is {found}, the limit is {max}")]
    Limit {
        /// Name of the table's schema.
        table: &'static str,
        /// What is too large, with its unit.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        max: u64,
    },
}

/// Damage that a column codec found; the page turns it into a [`TableError::ColumnDamaged`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damage(pub(crate) &'static str);
