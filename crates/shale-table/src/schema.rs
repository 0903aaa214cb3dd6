//! What a table looks like: its name, and its columns' names and kinds.
//!
//! Schemas are constants of the program, not of the image: a page does not repeat them, and both
//! sides must agree on them. [`Value`] is how a row is handed to the builder.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Unsigned 64-bit integers.
    U64,
    /// Byte strings, each at most [`crate::limits::VALUE_LEN_MAX`] bytes, of any content.
    Bytes,
}

/// One column of a [`Schema`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// Name, for errors and dumps; not stored in pages.
    pub name: &'static str,
    /// What the column holds.
    pub kind: ColumnKind,
}

impl ColumnSpec {
    /// A column of integers.
    pub const fn u64(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::U64 }
    }

    /// A column of byte strings.
    pub const fn bytes(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Bytes }
    }
}

/// A table's name and columns. At most [`crate::limits::COLUMNS_MAX`] columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Name, for errors and dumps; not stored in pages.
    pub name: &'static str,
    /// The columns, in the order in which rows list their values.
    pub columns: &'static [ColumnSpec],
    /// The columns that a page may count from a base of its own; at most
    /// [`crate::SHIFTS_MAX`].
    pub shifts: &'static [Shift],
}

/// Most shifts of a schema: as many bases as an index page has columns for.
pub const SHIFTS_MAX: usize = 3;

/// The bases of a page, in the order of its schema's shifts.
pub type Bases = [u64; SHIFTS_MAX];

/// A column of integers that a base is added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shift {
    /// The column.
    pub column: usize,
    /// The rows to which the base is added; all of them if it is `None`.
    pub only: Option<Only>,
}

/// The rows whose integer in `column` has these bits under a mask. No base is added to that column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Only {
    /// The column that decides.
    pub column: usize,
    /// The bits that are looked at.
    pub mask: u64,
    /// Their value.
    pub bits: u64,
}

impl Only {
    /// Returns whether a row with this integer in the deciding column gets the base.
    pub(crate) fn holds(&self, integer: u64) -> bool {
        integer & self.mask == self.bits
    }
}

impl Shift {
    /// A shift of all rows of a column.
    pub const fn all(column: usize) -> Self {
        Self { column, only: None }
    }
}

/// One value of a row handed to [`crate::TableBuilder::push`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// For a column of kind [`ColumnKind::U64`].
    U64(u64),
    /// For a column of kind [`ColumnKind::Bytes`].
    Bytes(&'a [u8]),
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::U64(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Value::Bytes(value)
    }
}
