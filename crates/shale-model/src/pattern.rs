//! Patterns that select paths: one matcher, three syntaxes.
//!
//! [`Patterns`] are globs that select paths of an image, [`Rules`] are filter rules as in rsync,
//! and [`gitignore`] reads the lines of `.gitignore` files. Each parses its own syntax into the
//! tokens of one matcher, whose time is bounded by the length of the pattern times that of the
//! path, whatever the pattern. Nothing here uses a file system.

mod error; // why a pattern cannot be used
mod matcher; // tokens against a path
mod wildmatch; // the wildcards of rsync and git
pub mod glob; // globs, matched one component at a time
pub mod gitignore; // lines of `.gitignore` files
pub mod rsync; // filter rules

pub use error::PatternError;
pub use glob::{Patterns, Position};
pub use rsync::{NamePattern, Rules};
