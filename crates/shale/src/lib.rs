//! ShaleFS, both sides: what needs reader and writer, or only one of them.
//!
//! [`create()`] makes an image that is verified before it gets its name; [`check()`] finds all that
//! is wrong with one; [`extract()`] brings files out, never outside of their directory;
//! [`export()`] makes archives of other formats; [`info()`]
//! and [`dump()`] tell what an image is made of; [`listing`] finds paths in it. Whoever only reads
//! can use the reader, re-exported as [`read`].
//!
//! This crate knows no kernel mount, no terminal and no environment variables: what happens is
//! told through [`Progress`], and [`Cancel`] ends it.

pub mod error; // why something was not done
pub mod progress; // what a caller is told meanwhile
mod threads; // how many work at once
pub mod pattern; // globs over paths of an image
mod output; // an output that is there whole or not at all
mod input; // what is packed: trees and archives
mod create; // sources into an image
mod verify; // the image against what was read from the source
mod parity; // parity made
mod repair; // a damaged image made whole, into a new file
mod sign; // signatures and keys
mod check; // everything that can be checked
mod extract; // files out of an image
mod export; // an image into an archive
pub mod listing; // paths in an image
mod info; // counts and sizes
pub mod dump; // any structure with its fields

pub use check::{
    Advice, CheckOptions, CheckReport, Checked, DamagedPath, Left, Level as CheckLevel,
    ParityState, Problem as CheckProblem, Remedy, Subset, Touches, check,
};
pub use create::{CreateOptions, CreateReport, Output, create};
pub use dump::dump;
pub use error::Error;
pub use export::{ExportFormat, ExportOptions, ExportReport, export, export_to_archive};
pub use extract::{
    ExtractOptions, ExtractReport, Overwrite, Owner, Problem as ExtractProblem, ProblemKind,
    Sparse, extract,
};
pub use info::{Bounds, FrameGroup, Info, SectionGroup, SnapshotInfo, TableInfo, info};
pub use input::{
    Adjust, Chmod, Choose, Decision, IdRange, Input, InputKind, NamePattern, RuleError, Rules,
    survey,
};
pub use output::sync_directory;
pub use parity::{ParityOptions, ParityReport, add_parity};
pub use pattern::{PatternError, Patterns};
pub use progress::{Cancel, NoProgress, Phase, Progress};
pub use repair::{RepairOptions, RepairReport, repair};
pub use sign::{
    SignOptions, Verified, embed_signature, generate_key, read_public_key, read_secret_key,
    read_signature, sign, signature_text, signatures, verify_signature, write_signature,
};
pub use verify::{VerifyReport, verify};

pub use shale_codec::stream::StreamFormat;
pub use shale_foreign as foreign;
pub use shale_read as read;
pub use shale_write as write;
