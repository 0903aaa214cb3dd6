//! Patches: a page as its differences from another page.
//!
//! A tree that follows another one has pages in which a few rows differ. A patch says which rows
//! came and went, and for each column which values changed. It is found by comparing rows
//! ([`patch()`]), and applied to the plain bytes of the other page ([`Patched`]). Several
//! patches may be applied one after the other.
//!
//! # Wire format
//!
//! | field | kind | meaning |
//! |---|---|---|
//! | row count | varint | rows of the new page, at least 1 |
//! | segment count | varint | 0: the same rows, in this order |
//! | kept, dropped, inserted | integer sections of tier 4 | if there are segments: a value each |
//! | columns | column patches | one for each column of the other page |
//!
//! A segment keeps some rows of the other page, drops some, and inserts some. An inserted row first
//! has the values of the row before it, or zeroes and empty strings if it is the first. A column
//! patch is a byte, and what its form (bits 0 to 2) says:
//!
//! | form | then | meaning |
//! |---|---|---|
//! | 0 | – | No value changed. |
//! | 1 | rows, values | These values replace those in some rows. |
//! | 2 | rows, differences | These differences are added in some rows. |
//! | 3 | differences | A difference is added in each row. |
//! | 4 | values | All values. |
//!
//! Bits 3 and 4 say which rows, for forms 1 and 2: 0, a count (varint) and an integer section of
//! tier 4 with the number of rows between one and the next; 1, those of the column before that had
//! such a list; 2, those that were inserted. Differences are zigzag-coded and wrap at 64 bits;
//! columns of byte strings have none. Kinds of columns are known by the tags of their sections.
//!
//! # What is checked
//!
//! All of it: a patch that does not fit its page is an error. A patched page takes at most the
//! memory of [`PAGE_ROWS_MAX`](crate::limits::PAGE_ROWS_MAX) rows of
//! [`COLUMNS_MAX`](crate::limits::COLUMNS_MAX) integers.

mod align; // which rows of two pages belong together
mod apply; // the reading side
mod make; // the writing side

pub use align::Alignment;
pub use apply::Patched;
pub use make::{Earlier, patch};

/// Bits of a column patch that are its form.
const FORM_MASK: u8 = 7;
const SAME: u8 = 0;
const VALUES: u8 = 1;
const DIFFERENCES: u8 = 2;
const ALL_DIFFERENCES: u8 = 3;
const ALL_VALUES: u8 = 4;

/// Where the rows of a column patch are listed, in the bits above the form.
const ROWS_SHIFT: u8 = 3;
const OWN_ROWS: u8 = 0;
const LAST_ROWS: u8 = 1;
const INSERTED_ROWS: u8 = 2;

#[cfg(test)]
mod tests;
