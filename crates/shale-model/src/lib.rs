//! One entry of a tree: its kind, metadata, times and extended attributes; the trait of everything
//! that yields entries; and patterns that select entries.
//!
//! The reader, the writer and the formats of others share these types, so an entry is translated
//! once: where it enters. This crate does not know how an image stores an entry.

pub mod kind; // the seven kinds of inode
mod time; // a point in time
mod utc; // times as text
mod metadata; // what `stat` tells, and extended attributes
mod error; // why an entry, or a whole source, cannot be read
mod content; // the bytes of a regular file
mod source; // a stream of entries
mod select; // which entries are taken, and with which metadata
pub mod pattern; // which paths are meant: one matcher, three syntaxes

pub use content::{Content, ContentFile, OpenContent};
pub use error::{Change, ChangeKind, Problem, ProblemKind, SourceError};
pub use kind::InodeKind;
pub use metadata::{LinkId, Metadata, Xattr, device_number, device_parts};
pub use pattern::{PatternError, Patterns};
pub use select::{Amend, Select};
pub use source::{EntrySource, Missing, Repeat, Review, SourceEntry};
pub use time::Timestamp;
pub use utc::{utc_period, utc_text};
