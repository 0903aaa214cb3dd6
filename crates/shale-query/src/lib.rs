//! Questions about images: which entries match, what two trees differ in, which files contain a
//! text, which structures the bytes hold.
//!
//! [`find`] selects entries as find(1) does, [`diff()`] compares two snapshots or directories, and
//! [`grep()`] searches contents in the order in which they are stored, so that each frame is
//! decoded once. [`dump()`] shows any structure of an image with its fields. This crate only reads.
//! It does not know the writer, the kernel or the terminal.

mod error; // why a question has no answer
pub mod find; // tests on one entry, and their grammar
mod side; // a snapshot or a directory, walked in one order
mod diff; // what two trees differ in
mod grep; // which files contain a text
pub mod dump; // any structure with its fields

pub use diff::{Aspect, Change, ChangeKind, DiffOptions, DiffReport, diff};
pub use dump::dump;
pub use error::Error;
pub use grep::{GrepOptions, GrepReport, LineMatch, MatchReport, grep};
pub use side::Side;
