//! The front door of ShaleFS: creates images, and offers what other crates do with them.
//!
//! [`create()`] packs directory trees, archives and images into an image, which is read back and
//! compared with the source before it gets its name; [`survey()`] tells what it would take.
//! [`info()`] describes an image. Checking, repair, parity and signatures come from
//! `shale-check`; extraction, export and listings from `shale-extract`. Both are re-exported here,
//! as are the reader ([`read`]), the build pipeline ([`write`](mod@write)) and formats of others
//! ([`foreign`]).
//!
//! This crate does not know kernel mounts, the terminal or the environment: it reports through
//! [`Progress`], and [`Cancel`] ends a run.
//!
//! ```
//! use shale::{CreateOptions, Input, NoProgress, Output};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let (tree, image) = (place.path().join("tree"), place.path().join("tree.shale"));
//! # std::fs::create_dir(&tree)?;
//! std::fs::write(tree.join("hello"), "Hello")?;
//! let sources = [Input::new(&tree)];
//! let report =
//!     shale::create(&sources, Output::Path(image), &CreateOptions::default(), &NoProgress)?;
//! assert_eq!(report.build.entries.files, 1);
//! assert!(report.verified.is_some(), "the image was compared with the tree");
//! # Ok(())
//! # }
//! ```

mod error; // why something was not done
mod envelope; // other forms and places of an output
mod options; // what the caller of a build decides
mod survey; // what a build would take
mod create; // sources into an image
mod contents; // digests and holes of contents
mod append; // one more snapshot in an image
mod thin; // an append in a file of its own, and both as one
mod split; // an image in parts
mod tags; // images of containers, a snapshot a tag
mod assemble; // what images hold, as a new image
mod compact; // an image with some of its snapshots only
mod merge; // several images as one
mod rewrite; // other names and metadata
mod oci; // snapshots as images of containers
mod bundle; // an executable and an image in one file
mod retention; // which snapshots are kept
mod verify; // the image against what was read from the source
mod info; // counts and sizes
mod states; // what each snapshot added

pub use append::{AppendOptions, AppendReport, Below, append};
pub use assemble::AssembleReport;
pub use bundle::{BundleOptions, Runtime, bundle, warm_len};
pub use compact::compact;
pub use create::{CreateReport, create};
pub use envelope::{Delivery, Enclosing, Envelope};
pub use error::{Error, error_kind};
pub use info::{
    Bounds, FrameGroup, Info, ParityInfo, SectionGroup, SnapshotInfo, StreamGroup, TableInfo, info,
    label,
};
pub use merge::{MergePart, merge};
pub use oci::{OciOptions, OciOutput, OciReport, export_oci};
pub use options::CreateOptions;
pub use retention::{Fate, Retention};
pub use rewrite::rewrite;
pub use split::{SplitReport, split};
pub use states::{SnapshotFacts, snapshot_facts};
pub use survey::{Surveyed, survey};
pub use tags::{TagReport, append_tags, create_tags};
pub use thin::{ThinBase, ThinReport, WholeOptions, WholeReport, create_thin, over, patch, whole};
pub use verify::{VerifyReport, verify};

pub use shale_check::{
    Advice, CheckLevel, CheckOptions, CheckReport, Checked, DamagedPath, Error as CheckError, Left,
    ParityFacts, ParityOptions, ParityProblem, ParityReport, ParityState, Problem as CheckProblem,
    Remedy, RemovedParity, RepairOptions, RepairReport, SignOptions, SignProblem, Subset, Touches,
    Verified, add_parity, check, embed_signature, generate_key, parity_facts, read_public_key,
    read_secret_key, read_signature, remove_parity, repair, sign, signature_text, signatures,
    verify_signature, verify_signature_in, write_signature,
};
pub use shale_codec::stream::StreamFormat;
pub use shale_extract::{
    Error as ExtractError, ExportFormat, ExportOptions, ExportReport, ExtractOptions,
    ExtractReport, Overwrite, Owner, Problem as ExtractProblem, ProblemKind, Sparse, export,
    export_to_archive, extract, listing, patterns_in_tree,
};
pub use shale_foreign as foreign;
pub use shale_format::hex;
pub use shale_host::owners;
pub use shale_host::{
    Cancel, Error as HostError, ErrorKind, NoProgress, Output, OutputFile, PatientOutput, Phase,
    Progress, grower, sync_directory, thread_count,
};
pub use shale_model::SourceError;
pub use shale_model::pattern::{NamePattern, PatternError, Patterns, Position, Rules};
pub use shale_query as query;
pub use shale_query::dump;
pub use shale_read as read;
pub use shale_source as source;
pub use shale_source::{
    Adjust, Chmod, Choose, Container, Cutting, Decision, FileContexts, IdRange, Input, InputKind,
    Listed, OtherImages, PART_BYTES_MIN, Password, Pseudo, Share, SourceOptions, cut,
};
pub use shale_write as write;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
