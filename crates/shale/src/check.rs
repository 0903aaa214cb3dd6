//! Everything that can be checked about an image, and all problems, not the first.
//!
//! [`check`] trusts nothing it has not verified, so it does not go through the reader that serves
//! mounts: it walks the sections from the superblock on, reads every page of every table, holds
//! the tables against each other, compares every byte with its hash and decodes every frame once
//! (in parallel, references first), as deep as its [`Level`] says. A structure that cannot be read
//! is reported and passed by; what depends on it is reported as not checked. Then it looks up
//! which paths each problem touches, and whether parity brings back what is damaged.
//!
//! It checks that the image is whole and agrees with itself, not that its files hold what they
//! should: that is the verification at the end of a build. It changes and remembers nothing.
//!
//! Memory: the frame cache of [`CheckOptions::cache_bytes_max`], 5 bytes a frame, 24 bytes for each
//! inode with several names, 16 bytes a table page, 32 bytes for each 64 KiB, and the list of
//! problems.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use shale_format::{FormatError, Identity, Root, Superblock};
use shale_read::trust::parity::find;
use shale_read::trust::salvage::remains;
use shale_read::{Image, OffsetChoice, Options, Source};

use crate::error::Error;
use crate::progress::{Cancel, Phase, Progress};
use crate::threads::{self, thread_count};

mod level; // how deep, and which part
mod findings; // problems, and what they touch
mod store; // verified bytes and pages out of a source
mod sections; // superblock, section headers, trailers, root
mod identity; // the Merkle tree over all of it
mod scan; // every page and row of one table
mod rows; // the shared tables: contents, extents, frames, references
mod tree; // the tables of a snapshot, each by itself
mod links; // names, inodes and directories of a snapshot against each other
mod bytes; // every byte against sums and hashes
mod frames; // every frame decoded
mod damage; // from problems to paths
mod remedy; // what parity brings back

pub use findings::{Problem, Remedy, Touches};
pub use level::{Level, Subset};

use bytes::Bytes;
use findings::{Findings, Found, Scope};
use store::Store;

/// Problems kept in a report; further ones are counted.
pub const PROBLEM_COUNT_MAX: usize = 1_000;
/// Damaged paths kept in a report; further ones are counted.
pub const DAMAGED_PATH_COUNT_MAX: usize = 1_000;

/// How to check.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Where the image begins in the source.
    pub offset: OffsetChoice,
    /// Threads that read tables, at most two, and decode frames; 0: as many as the machine offers.
    pub threads: usize,
    /// Bytes of plain frames kept because other frames refer to them.
    pub cache_bytes_max: u64,
    /// How deep.
    pub level: Level,
    /// Which part of the bytes and frames. Structure and tables are always checked whole.
    pub subset: Subset,
    /// No byte or frame is begun after this time; what was left out is counted. Structure and
    /// tables are always checked whole.
    pub time_max: Option<Duration>,
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
            level: Level::default(),
            subset: Subset::ALL,
            time_max: None,
            expect: None,
            cancel: Cancel::new(),
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
    /// Bytes of the file that cannot be read.
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
    /// Leaves of 64 KiB compared with their hash.
    pub leaves: u64,
    /// Frames of which at least the stored sum was checked.
    pub frames: u64,
    /// Stored bytes of those.
    pub stored_bytes: u64,
    /// Plain bytes of frames decoded and compared with their sum.
    pub plain_bytes: u64,
    /// Frames decoded, those decoded again included.
    pub frames_decoded: u64,
}

/// What there was no time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Left {
    /// Sections whose sum was not compared.
    pub sections: u64,
    /// Leaves that were not compared with their hash.
    pub leaves: u64,
    /// Frames that were not looked at.
    pub frames: u64,
}

/// What is known of the parity of a damaged image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParityState {
    /// Nobody looked: nothing is damaged, or the time was over.
    #[default]
    NotSought,
    /// There is none that can be read.
    None,
    /// There is.
    Found {
        /// Leaves that are damaged.
        damaged_leaves: u64,
        /// Bodies of parity that are damaged.
        damaged_bodies: u64,
        /// Damaged leaves that it cannot restore.
        lost_leaves: u64,
    },
}

/// What to do next, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Get the image that was expected.
    GetExpectedImage,
    /// `shale repair`: parity restores all that is damaged.
    Repair,
    /// Another copy of the image is better than all that follows.
    GetAnotherCopy,
    /// `shale repair --salvage`: what leads to the rest is lost, or parity restores a part.
    Salvage,
    /// `shale extract --continue`: every file that is whole can be brought out, others with holes.
    ExtractContinue,
}

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Where the image begins in the source.
    pub offset: u64,
    /// Something leads to the tables: salvage or an extraction may bring something out.
    pub has_root: bool,
    /// Bytes of the image, as its last trailer has it; without one, to the end of the source.
    pub image_len: u64,
    /// Bytes of the source behind the image.
    pub bytes_behind: u64,
    /// What the image says it is; none before format 0.2. With [`CheckOptions::expect`] and no
    /// problem, it is that.
    pub identity: Option<Identity>,
    /// How deep it was checked.
    pub level: Level,
    /// What was looked at.
    pub checked: Checked,
    /// What there was no time for.
    pub left: Left,
    /// Problems in the order of finding, at most [`PROBLEM_COUNT_MAX`].
    pub problems: Vec<Problem>,
    /// All problems, also those not kept.
    pub problem_count: u64,
    /// Frames that do not decode, or refer to such.
    pub damaged_frame_count: u64,
    /// Whether parity helps.
    pub parity: ParityState,
    /// Files with bytes that cannot be read, at most [`DAMAGED_PATH_COUNT_MAX`].
    pub damaged_paths: Vec<DamagedPath>,
    /// All paths hit, also those not kept.
    pub damaged_path_count: u64,
}

impl CheckReport {
    /// True if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    /// True if there was time for everything that was asked for.
    pub fn is_complete(&self) -> bool {
        self.left == Left::default()
    }

    /// What to do next, best first; nothing if nothing is wrong.
    pub fn advice(&self) -> Vec<Advice> {
        let any = |remedy| self.problems.iter().any(|problem| problem.remedy == remedy);
        let is_as_before = |problem: &Problem| problem.remedy == Remedy::AsWritten;
        // Not all problems are kept, but damage is counted.
        let repairs = match self.parity {
            ParityState::Found { damaged_leaves, damaged_bodies, lost_leaves: 0 } => {
                let is_damaged = damaged_leaves + damaged_bodies > 0;
                (is_damaged || any(Remedy::Parity)) && !any(Remedy::NoParity)
            }
            _ => false,
        };
        if self.is_clean() {
            Vec::new()
        } else if any(Remedy::OtherImage) {
            vec![Advice::GetExpectedImage]
        } else if repairs && !self.problems.iter().any(is_as_before) {
            vec![Advice::Repair]
        } else if repairs {
            // What was wrong before stays so.
            vec![Advice::Repair, Advice::GetAnotherCopy, Advice::ExtractContinue]
        } else if !self.has_root {
            vec![Advice::GetAnotherCopy]
        } else {
            let mut advice = vec![Advice::GetAnotherCopy];
            let leads_astray = self.problems.iter().any(|problem| problem.touches.everything);
            if any(Remedy::Parity) || leads_astray {
                advice.push(Advice::Salvage);
            }
            advice.push(Advice::ExtractContinue);
            advice
        }
    }
}

/// What every stage is given.
#[derive(Clone, Copy)]
struct Context<'a> {
    store: &'a Store,
    findings: &'a Findings,
    progress: &'a dyn Progress,
    options: &'a CheckOptions,
    /// When the time is over.
    deadline: Option<Instant>,
}

impl Context<'_> {
    fn check_cancel(&self) -> Result<(), Error> {
        self.options.cancel.check()
    }

    /// Whether nothing that can be left out should be begun any more.
    fn is_over(&self) -> bool {
        self.options.cancel.is_cancelled()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
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
    let deadline = options.time_max.and_then(|time| Instant::now().checked_add(time));
    progress.phase(Phase::Sections);
    let (start, superblock) = begin(&source, options.offset, &findings)?;
    let whole = Store::new(Arc::clone(&source), start);
    let context = Context { store: &whole, findings: &findings, progress, options, deadline };
    let layout = sections::walk(&context, &superblock)?;
    let image_len = layout.image_len.unwrap_or(whole.len());
    let bytes_behind = whole.len().saturating_sub(image_len);
    let store = whole.limited(image_len);
    let context = Context { store: &store, ..context };
    if bytes_behind > 0 && options.level >= Level::Frames {
        look_behind(&context, &source, start, image_len);
    }

    let mut left = Left::default();
    let mut checked = Checked { sections: layout.sections.len() as u64, ..Checked::default() };
    let tree = layout.trailer.and_then(|trailer| identity::check(&context, &layout, &trailer));
    let shared = match &layout.root {
        Some(root) if options.level >= Level::Tables => {
            Some(check_tables(&context, root, &layout, &mut checked)?)
        }
        _ => None,
    };
    let mut damaged = BTreeSet::new();
    if options.level >= Level::Frames {
        progress.phase(Phase::Frames);
        let bytes = Bytes::new(&context, &layout, tree.as_ref());
        progress.found(0, bytes.total());
        if let (Some(root), Some(shared)) = (&layout.root, &shared) {
            damaged = frames::check(&context, root, shared, &bytes, &mut checked, &mut left)?;
        }
        bytes.finish(&mut checked, &mut left);
        context.check_cancel()?;
    }
    let problem_count = findings.count();
    let mut found = findings.take();
    let mut paths = damage::Damaged::default();
    let mut parity = ParityState::default();
    if !found.is_empty() {
        progress.phase(Phase::Damage);
        if let Some(root) = &layout.root {
            paths = damage::trace(&context, root, &mut found, &damaged)?;
        }
        touch_everything(layout.root.as_ref(), &mut found);
        parity = remedy::seek(&context, &source, start, &layout, &mut found)?;
        context.check_cancel()?;
    }
    // Where no trailer leads to one, salvage looks for it everywhere.
    let has_root =
        layout.root.is_some() || remains(&source, start).is_some_and(|left| !left.roots.is_empty());
    checked.pages = context.store.pages_read();
    Ok(CheckReport {
        offset: start,
        has_root,
        image_len,
        bytes_behind,
        identity: tree.map(|tree| tree.identity),
        level: options.level,
        checked,
        left,
        problems: found.into_iter().map(|found| found.problem).collect(),
        problem_count,
        damaged_frame_count: damaged.len() as u64,
        parity,
        damaged_paths: paths.paths,
        damaged_path_count: paths.count,
    })
}

/// Other data may follow an image; but if it is the image's own parity, what leads to it is lost.
fn look_behind(context: &Context<'_>, source: &Arc<dyn Source>, start: u64, image_len: u64) {
    let hint = start.checked_add(image_len);
    if let Some(parity) = find(source, Some(start), hint)
        && parity.image_len() > image_len
    {
        let what = "it follows the image, but its section header or the trailer behind it is \
                    damaged, so that only a repair finds it";
        context.findings.add_about("parity", Some((image_len, None)), what, Scope::Nothing);
    }
}

/// The start of the image and its superblock. Where that is damaged it is replaced by what the
/// rest of the image says, and the damage is a problem like any other.
fn begin(
    source: &Arc<dyn Source>,
    choice: OffsetChoice,
    findings: &Findings,
) -> Result<(u64, Superblock), Error> {
    let read = |start| sections::superblock(&Store::new(Arc::clone(source), start));
    let mut start = match choice {
        OffsetChoice::At(start) => start,
        OffsetChoice::Auto => 0,
    };
    let what = match read(start) {
        Ok(superblock) => return Ok((start, superblock)),
        Err(error @ (FormatError::Version { .. } | FormatError::Features { .. })) => {
            return Err(Error::Check(error.to_string()));
        }
        Err(error) => error,
    };
    // A reader finds an image behind other data, and by its parity if it has some.
    let opened = Image::open(Arc::clone(source), Options { offset: choice, ..Options::default() });
    let superblock = match opened {
        Ok(image) => {
            start = image.offset();
            if let Ok(superblock) = read(start) {
                return Ok((start, superblock));
            }
            Some(*image.superblock())
        }
        Err(error) => match remains(source, start) {
            Some(remains) => Some(remains.superblock()),
            None if matches!(what, FormatError::Short { .. } | FormatError::Magic { .. }) => {
                return Err(match choice {
                    OffsetChoice::Auto => Error::from(error),
                    OffsetChoice::At(_) => Error::NotImage,
                });
            }
            None => None,
        },
    };
    let Some(superblock) = superblock else { return Err(Error::Check(what.to_string())) };
    let range = Some((0, Some(shale_format::superblock::SUPERBLOCK_LEN as u64)));
    findings.add_about("superblock", range, what.to_string(), Scope::Everything);
    Ok((start, superblock))
}

/// All tables and what must hold between them.
fn check_tables<'l>(
    context: &Context<'_>,
    root: &Root,
    layout: &'l sections::Layout,
    checked: &mut Checked,
) -> Result<rows::Shared<'l>, Error> {
    context.progress.phase(Phase::Rows);
    let rows = rows::check(context, root, layout, checked)?;
    for snapshot in &root.snapshots {
        tree::check(context, snapshot, &rows, root, checked)?;
        checked.snapshots += 1;
    }
    Ok(rows)
}

/// Two stages, side by side where more than one thread may work. Problems are told in the same
/// order however many do: those of the second stage behind those of the first.
fn beside<A, B: Send>(
    context: &Context<'_>,
    checked: &mut Checked,
    first: impl FnOnce(&Context<'_>, &mut Checked) -> Result<A, Error>,
    second: impl FnOnce(&Context<'_>, &mut Checked) -> Result<B, Error> + Send,
) -> Result<(A, B), Error> {
    if thread_count(context.options.threads) < 2 {
        return Ok((first(context, checked)?, second(context, checked)?));
    }
    let findings = Findings::default();
    let aside = Context { findings: &findings, ..*context };
    let mut checked_aside = Checked::default();
    let (first, second) =
        threads::both(|| first(context, checked), || second(&aside, &mut checked_aside));
    context.findings.append(findings);
    // Stages of tables count nothing else.
    checked.rows += checked_aside.rows;
    Ok((first?, second?))
}

/// What leads to everything touches everything, as far as it can be counted.
fn touch_everything(root: Option<&Root>, found: &mut [Found]) {
    for found in found.iter_mut().filter(|found| found.scope == Scope::Everything) {
        let touches = &mut found.problem.touches;
        touches.everything = true;
        if let Some(root) = root {
            touches.path_count = root.snapshots.iter().map(|s| s.entries.row_count).sum();
            touches.snapshots = root.snapshots.iter().map(|s| s.name.clone()).collect();
        }
    }
}
