//! Checks an image completely, and reports all problems, not the first.
//!
//! [`check`] trusts nothing that it has not verified, so it does not use the reader that serves
//! mounts. It walks the sections from the superblock on, reads every page of every table, compares
//! the tables with each other, compares every byte with its hash, and decodes every frame once (in
//! parallel, references first), as deep as its [`CheckLevel`] says. A structure that cannot be read
//! is reported and skipped; what depends on it is reported as not checked. Then it looks up which
//! paths each problem touches, and whether parity restores the damage.
//!
//! It checks that the image is complete and consistent, not that its files hold what they should:
//! the verification at the end of a build does that. It changes and remembers nothing.
//!
//! Memory: the frame cache of [`CheckOptions::cache_bytes_max`], 5 bytes for each frame, 24 bytes
//! for each inode with several names, 16 bytes for each table page, 32 bytes for each 64 KiB of the
//! image, and the list of problems.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use shale_format::{FormatError, Root, Superblock};
use shale_host::{Phase, Progress};
use shale_read::trust::parity::find;
use shale_read::trust::salvage::remains;
use shale_read::{ByteSource, Image, OffsetChoice, Options, is_padding};

use crate::error::Error;

mod level; // how deep, and which part
mod options; // what the caller decides
mod findings; // problems, and what they touch
mod report; // what a check found, and what to do next
mod store; // verified bytes and pages of a source
mod context; // what every stage is given
mod payload; // one section against its sum
mod sections; // superblock, section headers, trailers, root
mod identity; // the Merkle tree over the whole image
mod scan; // every page and row of one table
mod rows; // the shared tables: contents, extents, frames, references
mod links; // names, inodes and directories of a snapshot against each other
mod tree; // the tables of a snapshot, each by itself
mod bytes; // every byte against sums and hashes
mod frames; // every frame decoded
mod chunks; // every chunk rebuilt
mod damage; // from problems to paths
mod remedy; // what parity restores

pub use findings::{Problem, Remedy, Touches};
pub use level::{CheckLevel, Subset};
pub use options::CheckOptions;
pub use report::{Advice, CheckReport, Checked, DamagedPath, Left, ParityState};

use bytes::Bytes;
use context::Context;
use findings::{Finding, Findings, Scope};
use store::Store;

/// Checks the image at `options.offset` of `source`. Problems of the image are in the report.
///
/// # Errors
/// The check itself could not be done: the source holds no image, the image is from a newer
/// version, or the check was cancelled.
pub fn check(
    source: Arc<dyn ByteSource>,
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
    let image_end = start + image_len;
    let is_padded = is_padding(source.len(), image_end, |at, buf| source.read_at(at, buf));
    let bytes_behind = match is_padded {
        Ok(true) => 0,
        _ => whole.len().saturating_sub(image_len),
    };
    let store = whole.limited(image_len);
    let context = Context { store: &store, ..context };
    if bytes_behind > 0 && options.level >= CheckLevel::Frames {
        look_behind(&context, &source, start, image_len);
    }

    let mut left = Left::default();
    let mut checked = Checked { sections: layout.sections.len() as u64, ..Checked::default() };
    let tree = layout.trailer.and_then(|trailer| identity::check(&context, &layout, &trailer));
    let shared = match &layout.root {
        Some(root) if options.level >= CheckLevel::Tables => {
            Some(check_tables(&context, root, &layout, &mut checked)?)
        }
        _ => None,
    };
    let mut damaged = BTreeSet::new();
    if options.level >= CheckLevel::Frames {
        progress.phase(Phase::Frames);
        let bytes = Bytes::new(&context, &layout, tree.as_ref());
        progress.found(0, bytes.total());
        if let (Some(root), Some(shared)) = (&layout.root, &shared) {
            damaged = frames::check(&context, root, shared, &bytes, &mut checked, &mut left)?;
        }
        bytes.finish(&mut checked, &mut left);
        context.check_cancel()?;
        // Damaged frames say more than the chunks that need them. Parts are parts of frames.
        if let Some(root) = layout.root.as_ref().filter(|root| root.has_chunks())
            && options.level >= CheckLevel::Content
            && findings.count() == 0
        {
            chunks::check(&context, root, &source, start, &mut checked)?;
        }
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
    // If no trailer leads to a root, salvage searches the whole image for one.
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

/// Looks for parity after the image. Other data may follow an image; but if it is the parity of
/// this image, the structures that lead to it are lost.
fn look_behind(context: &Context<'_>, source: &Arc<dyn ByteSource>, start: u64, image_len: u64) {
    let hint = start.checked_add(image_len);
    if let Some(parity) = find(source, Some(start), hint)
        && parity.image_len() > image_len
    {
        let what = "it follows the image, but its section header or the trailer after it is \
                    damaged, so that only a repair finds it";
        context.findings.add_about("parity", Some((image_len, None)), what, Scope::Nothing);
    }
}

/// Finds the start of the image and its superblock. A damaged superblock is reconstructed from the
/// rest of the image and reported like any other problem.
fn begin(
    source: &Arc<dyn ByteSource>,
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
            return Err(error.into());
        }
        Err(error) => error,
    };
    // The reader finds an image after other data, and by its parity if it has some.
    let opened = Image::open(Arc::clone(source), Options::default().offset(choice));
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
    let Some(superblock) = superblock else { return Err(what.into()) };
    let range = Some((0, Some(shale_format::superblock::SUPERBLOCK_LEN as u64)));
    findings.add_about("superblock", range, what.to_string(), Scope::Everything);
    Ok((start, superblock))
}

/// Checks all tables, first the shared ones, then those of each snapshot.
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

/// Counts everything as touched by damage to the structures that lead to everything.
fn touch_everything(root: Option<&Root>, found: &mut [Finding]) {
    for found in found.iter_mut().filter(|found| found.scope == Scope::Everything) {
        let touches = &mut found.problem.touches;
        touches.everything = true;
        if let Some(root) = root {
            touches.path_count = root.snapshots.iter().map(|s| s.entries.row_count).sum();
            touches.snapshots = root.snapshots.iter().map(|s| s.name.clone()).collect();
        }
    }
}
