//! Everything that can be checked about an image, and all problems, not the first.
//!
//! [`check`] trusts nothing it has not verified, so it does not go through the reader that serves
//! mounts: it walks the sections from the superblock on, reads every page of every table, holds
//! the tables against each other, decodes every frame once (in parallel, references first), and
//! then looks up which paths the damage hits. A structure that cannot be read is reported and
//! passed by; what depends on it is reported as not checked.
//!
//! It checks that the image is whole and agrees with itself, not that its files hold what they
//! should: that is the verification at the end of a build.
//!
//! Memory: the frame cache of [`CheckOptions::cache_bytes_max`], 5 bytes a frame, 24 bytes for each
//! inode with several names, 16 bytes a table page, and the list of problems.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use shale_format::{Identity, Root, Superblock};
use shale_read::{Image, OffsetChoice, Options, Source};

use crate::error::Error;
use crate::progress::{Cancel, Phase, Progress};

mod store; // verified bytes and pages out of a source
mod sections; // superblock, section headers and sums, trailers, root
mod identity; // the Merkle tree over all of it
mod scan; // every page and row of one table
mod rows; // the shared tables: contents, extents, frames, references
mod tree; // the tables of a snapshot
mod frames; // every frame decoded
mod damage; // from damaged frames to paths

/// Problems kept in a report; further ones are counted.
pub const PROBLEM_COUNT_MAX: usize = 1_000;
/// Damaged paths kept in a report; further ones are counted.
pub const DAMAGED_PATH_COUNT_MAX: usize = 1_000;

/// How to check.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Where the image begins in the source.
    pub offset: OffsetChoice,
    /// Threads that decode frames; 0: as many as the machine offers.
    pub threads: usize,
    /// Bytes of plain frames kept because other frames refer to them.
    pub cache_bytes_max: u64,
    /// Decode all frames. Without, only sums of stored bytes are checked.
    pub decode: bool,
    /// The image has to have this identity.
    pub expect: Option<Identity>,
    /// Ends the check with [`Error::Cancelled`].
    pub cancel: Cancel,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            offset: OffsetChoice::Auto,
            threads: 0,
            cache_bytes_max: 256 << 20,
            decode: true,
            expect: None,
            cancel: Cancel::new(),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The structure: "section 4 (frames)", "table entries", "frame 17".
    pub place: String,
    /// Where it lies, from the start of the image, if it lies in one place.
    pub offset: Option<u64>,
    /// What is wrong, with what was expected and found.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at offset {offset}: {}", self.place, self.what),
            None => write!(f, "{}: {}", self.place, self.what),
        }
    }
}

/// A file with bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPath {
    /// Name of the snapshot.
    pub snapshot: Vec<u8>,
    /// Path from the root of the snapshot, without a leading slash.
    pub path: Vec<u8>,
    /// Bytes of the file that lie in damaged frames.
    pub damaged_bytes: u64,
    /// Offset in the file of the first of them.
    pub first_offset: u64,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Checked {
    /// Whole sections met.
    pub sections: u64,
    /// Table pages read and decoded.
    pub pages: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Directory entries of all snapshots.
    pub entries: u64,
    /// Inodes of all snapshots.
    pub inodes: u64,
    /// Frames of which at least the stored sum was checked.
    pub frames: u64,
    /// Stored bytes of those.
    pub stored_bytes: u64,
    /// Plain bytes of frames decoded and compared with their sum.
    pub plain_bytes: u64,
    /// Frames decoded, those decoded again included.
    pub frames_decoded: u64,
}

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Where the image begins in the source.
    pub offset: u64,
    /// Bytes of the image, as its last trailer has it; without one, to the end of the source.
    pub image_len: u64,
    /// Bytes of the source behind the image.
    pub bytes_behind: u64,
    /// What the image says it is; none before format 0.2. With [`CheckOptions::expect`] and no
    /// problem, it is that.
    pub identity: Option<Identity>,
    /// What was looked at.
    pub checked: Checked,
    /// Problems in the order of finding, at most [`PROBLEM_COUNT_MAX`].
    pub problems: Vec<Problem>,
    /// All problems, also those not kept.
    pub problem_count: u64,
    /// Frames that do not decode, or refer to such.
    pub damaged_frame_count: u64,
    /// Files hit by damaged frames, at most [`DAMAGED_PATH_COUNT_MAX`].
    pub damaged_paths: Vec<DamagedPath>,
    /// All paths hit, also those not kept.
    pub damaged_path_count: u64,
}

impl CheckReport {
    /// True if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }
}

/// Where problems are gathered, from any thread.
#[derive(Debug, Default)]
struct Findings {
    problems: Mutex<Vec<Problem>>,
    count: AtomicU64,
}

impl Findings {
    fn add(&self, place: impl Into<String>, offset: Option<u64>, what: impl Into<String>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut problems = self.problems.lock().unwrap_or_else(|e| e.into_inner());
        if problems.len() < PROBLEM_COUNT_MAX {
            problems.push(Problem { place: place.into(), offset, what: what.into() });
        }
    }

    /// A stage may stop once nothing it finds would be kept.
    fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= PROBLEM_COUNT_MAX as u64
    }
}

/// What every stage is given.
struct Context<'a> {
    store: store::Store,
    findings: &'a Findings,
    progress: &'a dyn Progress,
    options: &'a CheckOptions,
}

impl Context<'_> {
    fn check_cancel(&self) -> Result<(), Error> {
        self.options.cancel.check()
    }
}

/// Checks the image at `options.offset` of `source`. Problems of the image are in the report; an
/// error means that the check itself could not be done: the source holds no image at all, the
/// image is from a newer version, or the check was cancelled.
pub fn check(
    source: Arc<dyn Source>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<CheckReport, Error> {
    let findings = Findings::default();
    let start = locate(&source, options.offset)?;
    let mut context =
        Context { store: store::Store::new(source, start), findings: &findings, progress, options };
    progress.phase(Phase::Sections);
    let superblock: Superblock = sections::superblock(&context.store)?;
    let layout = sections::walk(&context, &superblock)?;
    let image_len = layout.image_len.unwrap_or_else(|| context.store.len());
    let bytes_behind = context.store.len().saturating_sub(image_len);
    if layout.image_len.is_some() {
        context.store.limit(image_len);
    }

    let mut damaged = BTreeSet::new();
    let mut paths = damage::Damaged::default();
    let mut checked = Checked { sections: layout.sections.len() as u64, ..Checked::default() };
    if let Some(root) = &layout.root {
        check_root(&context, root, &layout, &mut checked, &mut damaged, &mut paths)?;
    }
    let identity = match &layout.trailer {
        Some(trailer) => identity::check(&context, &layout, trailer)?,
        None => None,
    };
    checked.pages = context.store.pages_read();
    let problem_count = findings.count.load(Ordering::Relaxed);
    Ok(CheckReport {
        offset: start,
        image_len,
        bytes_behind,
        identity,
        checked,
        problems: findings.problems.into_inner().unwrap_or_else(|e| e.into_inner()),
        problem_count,
        damaged_frame_count: damaged.len() as u64,
        damaged_paths: paths.paths,
        damaged_path_count: paths.count,
    })
}

/// The start of the image. Only where other data precedes it is the reader asked to look, which
/// needs a superblock or a trailer that is whole.
fn locate(source: &Arc<dyn Source>, choice: OffsetChoice) -> Result<u64, Error> {
    match choice {
        OffsetChoice::At(start) => Ok(start),
        OffsetChoice::Auto => match sections::superblock(&store::Store::new(source.clone(), 0)) {
            Err(Error::NotImage) => {
                let image = Image::open(Arc::clone(source), Options::default())?;
                Ok(image.offset())
            }
            _ => Ok(0),
        },
    }
}

fn check_root(
    context: &Context<'_>,
    root: &Root,
    layout: &sections::Layout,
    checked: &mut Checked,
    damaged: &mut BTreeSet<u64>,
    paths: &mut damage::Damaged,
) -> Result<(), Error> {
    context.progress.phase(Phase::Rows);
    let rows = rows::check(context, root, layout, checked)?;
    for snapshot in &root.snapshots {
        tree::check(context, snapshot, &rows, root, checked)?;
        checked.snapshots += 1;
    }
    context.progress.phase(Phase::Frames);
    *damaged = frames::check(context, root, &rows, checked)?;
    if !damaged.is_empty() {
        context.progress.phase(Phase::Damage);
        *paths = damage::paths(context, root, damaged)?;
    }
    Ok(())
}
