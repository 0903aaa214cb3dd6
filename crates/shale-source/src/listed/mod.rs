//! What written lists of entries share, whatever their format.

mod content; // contents of the files that a list names
mod field; // numbers and paths in a line
mod line_numbers; // lines of entries that were read long before

pub(crate) use content::{FileOf, Hole};
pub use field::PATH_LEN_MAX;
pub(crate) use field::{check_path, number, show};
pub(crate) use line_numbers::LineNumbers;
