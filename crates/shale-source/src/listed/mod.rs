//! What written lists of entries share, whatever their format.

mod content; // contents of the files that a list names
mod field; // numbers, paths and targets in a line
mod given; // metadata of an entry
mod lines; // errors that name a line

pub(crate) use content::{FileOf, Hole};
pub use field::PATH_LEN_MAX;
pub(crate) use field::{check_path, check_target, number, octal, show};
pub use given::Given;
pub(crate) use lines::{LineNumbers, wrong_line};
