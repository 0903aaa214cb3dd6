//! Extracts an image into a directory, in parallel, and never outside of it.
//!
//! The tree is walked in order and its entries are gathered into batches; directories are created
//! at once. A batch is sorted by the place of the contents in the image, so that the workers decode
//! each frame about once, whatever the order of names. Then hard links are created, and directories
//! that are complete get their attributes. Memory: one batch, the frame cache of the image, and one
//! path for each inode with names still to come.
//!
//! An extraction restores contents with their holes, hard links, symbolic links, devices, fifos,
//! sockets, owners, permissions, extended attributes with access control lists and capabilities,
//! and times to the nanosecond. An ordinary user cannot restore owners, devices and privileged
//! attributes; setuid and setgid bits are then set only if the stored owner is the user.
//!
//! The umask does not apply: permissions are those of the image. So are access control lists: lists
//! that files inherit from a default list of the target are removed, and so is the list of an
//! existing directory that gets the attributes of one in the image.

use std::path::Path;
use std::sync::Mutex;

use shale_host::{Beneath, Phase, Progress};
use shale_read::Tree;

use crate::error::Error;

mod options; // what the caller decides
mod report; // what came of it
mod attributes; // owner, permissions, xattrs, times
mod context; // what every stage is given
mod batch; // entries gathered before they are extracted
mod collide; // files that exist already
mod files; // contents and everything that is not a directory
mod plan; // the walk: what is made, in which order

pub use options::{ExtractOptions, Overwrite, Owner, Sparse};
pub use report::{ExtractReport, Problem, ProblemKind};

use context::Context;
use report::PROBLEM_COUNT_MAX;

/// Extracts the entries of `tree` that `options` select into the directory `target`, which is
/// created if it does not exist. `target` gets the attributes of the root directory only if it was
/// empty and everything is extracted.
///
/// # Errors
/// The first problem, with its file, unless [`ExtractOptions::keep_going`] is set. Files extracted
/// before stay; incomplete files are removed. [`Error::NoMatch`] if no pattern matches anything; if
/// some match, the others are reported as problems.
pub fn extract(
    tree: &Tree,
    target: &Path,
    options: &ExtractOptions,
    progress: &dyn Progress,
) -> Result<ExtractReport, Error> {
    std::fs::create_dir_all(target).map_err(Error::io("make the directory", target))?;
    let beneath = Beneath::open(target).map_err(Error::io("open the directory", target))?;
    let is_empty = std::fs::read_dir(target)
        .map_err(Error::io("list the directory", target))?
        .next()
        .is_none();
    let restore = attributes::Restore::new(tree, options);
    let context = Context {
        tree,
        beneath,
        target,
        options,
        restore,
        progress,
        report: Mutex::default(),
        damaged: Mutex::default(),
    };
    progress.phase(Phase::Plan);
    if !is_empty && options.overwrite == Overwrite::Refuse {
        collide::refuse(&context)?;
    }
    plan::run(&context, is_empty)?;
    let mut report = context.report.into_inner().unwrap_or_else(|e| e.into_inner());
    let unmatched: Vec<&[u8]> = options.patterns.unmatched().collect();
    let made = report.directories + report.files + report.symlinks + report.specials;
    if made + report.kept + report.problem_count == 0 && !unmatched.is_empty() {
        let shown = unmatched.iter().map(|pattern| format!("`{}`", pattern.escape_ascii()));
        return Err(Error::NoMatch { patterns: shown.collect::<Vec<_>>().join(", ") });
    }
    report.problem_count += unmatched.len() as u64;
    let room = PROBLEM_COUNT_MAX.saturating_sub(report.problems.len());
    let unmatched = unmatched.into_iter().take(room);
    let no_match = |pattern: &[u8]| Problem { path: pattern.to_vec(), kind: ProblemKind::NoMatch };
    report.problems.extend(unmatched.map(no_match));
    Ok(report)
}
