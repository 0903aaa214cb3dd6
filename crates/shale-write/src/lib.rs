//! The build pipeline of ShaleFS images: entries of a source in, one image out.
//!
//! Each stage is a folder. The folders are in the order in which an entry passes them, and
//! [`create`] runs them all. The same input and options give the same bytes, whatever the number of
//! threads, the host or the order of directory listings. The image goes to any [`std::io::Write`]
//! without seeking. Symbolic links of the source are never followed. The facade crate names, syncs
//! and renames the output file and reads the image back; this crate does not.

mod plan; // what the caller decides and is told
mod base; // the image that a build continues
mod content; // contents of files, each distinct one once
mod recompress; // streams in compressed files, as what is in them
mod layout; // the order in which contents are stored
mod segment; // ranges of bytes that the stream already holds
mod frame; // frames: cut, compressed
mod reference; // which frames each frame is compressed against
mod tree; // names and attributes
mod output; // sections, pages and tables
mod exec; // threads, memory and temporary files
mod intake; // takes entries through all stages up to the last frame
mod create; // the stages, one after the other
mod assemble; // an image of what others hold

#[cfg(test)]
mod tests; // builds that are read back

pub use assemble::{Assembled, assemble};
pub use base::copies::{CopiedFrame, CopiedPlace, CopiedTree, Copies};
pub use base::image::{Base, BaseError, BaseFrame, BaseState};
pub use create::{Appended, STREAMS_WORD, append, check, create, history};
pub use plan::budget::{MEMORY_BYTES_DEFAULT, THREADS_MAX};
pub use plan::error::WriteError;
pub use plan::options::Options;
pub use plan::order::Order;
pub use plan::report::{Report, StreamCounts};
pub use plan::rules::{FileRule, FileRules, RuleError};
pub use plan::{digest, level};
pub use recompress::container::{Container, SNIFF_LEN};
pub use recompress::take_apart::is_taken_apart;
pub use shale_codec::Settings;
pub use shale_format::Category;
pub use shale_host::{NoProgress, Phase, Progress};
pub use shale_model::{
    Amend, Change, ChangeKind, EntrySource, Problem, ProblemKind, Select, SourceEntry,
};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
