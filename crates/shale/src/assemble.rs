//! Makes an image of what images hold, without packing it again: frames are copied as they are
//! stored, and tables are made anew.
//!
//! First all trees are walked to find the contents that are needed ([`numbers`]); then the frames
//! that these contents lie in, and all frames that those refer to, are copied ([`copier`]). Equal
//! contents of several images are stored once. The result depends only on what is kept: it has the
//! same bytes whatever else the images held.

mod numbers; // contents of several images in one numbering
mod copier; // frames and contents, as the writer asks for them
mod compare; // the new image against its sources

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shale_format::limits::{SNAPSHOT_COUNT_MAX, SNAPSHOT_NAME_LEN_MAX};
use shale_host::{Existing, OutputFile, Phase, Progress, existing};
use shale_model::EntrySource;
use shale_read::{Image, Tree};
use shale_write::{CopiedTree, Report, WriteError};

use crate::create::{Built, Out, finish};
use crate::error::Error;
use crate::options::CreateOptions;
use crate::verify::{VerifyReport, open_again, verify_trees};
use compare::compare;
use copier::{Copier, Plan};
use numbers::{Needed, Offsets, Renumbered};
use shale_check::ParityReport;
use shale_source::{Claims, Joined, Part, added, copied, without_empty};

/// What [`crate::compact`] or [`crate::merge`] did.
#[derive(Debug)]
#[non_exhaustive]
pub struct AssembleReport {
    /// Report of the build. Entries are those of the newest snapshot.
    pub build: Report,
    /// Snapshots of the new image.
    pub snapshots: usize,
    /// Bytes of the sources.
    pub source_bytes: u64,
    /// Frames of the sources that were not needed.
    pub dropped_frames: u64,
    /// Contents of several sources that were stored once, counted once each time.
    pub equal_contents: u64,
    /// Contents that were read because others of their length are in other sources.
    pub compared_contents: u64,
    /// What was read back and compared; `None` if verification was off.
    pub verified: Option<VerifyReport>,
    /// Report of the parity, if some was requested.
    pub parity: Option<ParityReport>,
}

/// One snapshot of the new image.
pub(crate) struct Snapshot {
    pub(crate) name: Vec<u8>,
    /// The trees that it consists of.
    pub(crate) parts: Vec<SnapshotPart>,
    /// Whether the options choose its entries and change their metadata.
    pub(crate) is_changed: bool,
}

/// A tree of a source in a new snapshot.
pub(crate) struct SnapshotPart {
    /// Index of the image.
    pub(crate) image: usize,
    pub(crate) tree: Tree,
    /// Path of its root in the snapshot, without slashes at its ends.
    pub(crate) prefix: Vec<u8>,
}

/// Writes `snapshots`, made of trees of `images`, to a new file. `history` is the record of the
/// new image.
///
/// # Errors
/// On any error nothing is left under the output's name or beside it.
pub(crate) fn assemble(
    images: &[Arc<Image>],
    snapshots: &[Snapshot],
    history: &str,
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<AssembleReport, Error> {
    shale_write::check(&options.build)?;
    check_output(path, options)?;
    check_snapshots(snapshots)?;
    progress.phase(Phase::Scan);
    let offsets = Offsets::new(images);
    let claims = snapshots.iter().map(|snapshot| claims(snapshot, &offsets, options));
    let claims: Vec<Option<Claims>> = claims.collect::<Result<_, _>>()?;
    let mut needed = Needed::new(&offsets);
    for (snapshot, claims) in snapshots.iter().zip(&claims) {
        let mut source = source(snapshot, claims.as_ref(), &offsets, options)?;
        needed.begin(&snapshot.name, times_kept(snapshot, options));
        needed.walk(&mut *source, &options.cancel)?;
    }
    needed.add_inner(images, &offsets, &options.cancel)?;
    let mut next = snapshots.iter().zip(claims);
    let tree = |numbers: &Arc<Vec<u64>>| -> Result<Option<CopiedTree>, Error> {
        let Some((snapshot, claims)) = next.next() else { return Ok(None) };
        let source = source(snapshot, claims.as_ref(), &offsets, options)?;
        let source = Box::new(Renumbered { source, numbers: Arc::clone(numbers) });
        let times_kept = times_kept(snapshot, options);
        Ok(Some(CopiedTree { source, name: snapshot.name.clone(), times_kept }))
    };
    let plan = Plan::new(images, (&offsets, needed), history, options, progress)?;
    let image_id = plan.image_id();
    let mut copier = Copier::new(plan, tree);

    let output = OutputFile::create(path)?;
    let build =
        shale_write::Options { cancel: Some(options.cancel.flag()), ..options.build.clone() };
    // Trees that are kept as they are keep all of their times.
    let is_changed = snapshots.iter().any(|snapshot| snapshot.is_changed);
    let times_kept = if is_changed { build.times_kept } else { u8::MAX };
    let build = shale_write::Options { times_kept, ..build };
    let mut out = Out::new(&output, path, options)?;
    let assembled =
        shale_write::assemble(&mut copier, &mut out, &build, (image_id, history), progress)?;
    let plan = copier.into_plan();
    let digests = assembled.tree_digests;
    let compare = |again, report: &Report| {
        let image = open_again(again, report, &options.build)?;
        let content_bytes = compare(&plan, &image, options, progress)?;
        let how = (&options.cancel, progress);
        let entries = verify_trees(&image, report, &digests, &options.build, how)?;
        let counters = image.counters().snapshot();
        Ok(VerifyReport {
            contents: plan.content_count(),
            content_bytes,
            entries,
            frames_decoded: counters.frames_decoded,
            read_bytes: counters.source_bytes,
        })
    };
    let built = Built { build: assembled.report, scan_time: Duration::ZERO };
    let report = finish((output, out), path, built, compare, options, progress)?;
    Ok(AssembleReport {
        snapshots: snapshots.len(),
        source_bytes: images.iter().map(|image| image.len()).sum(),
        dropped_frames: plan.dropped_frames(),
        equal_contents: plan.equal_contents(),
        compared_contents: plan.compared_contents(),
        build: report.build,
        verified: report.verified,
        parity: report.parity,
    })
}

/// Refuses an output that exists or cannot be read back.
fn check_output(path: &Path, options: &CreateOptions) -> Result<(), Error> {
    if options.delivery.is_some() {
        return Ok(());
    }
    match existing(path)? {
        Existing::Stream => Err(Error::NotFile { path: path.to_owned() }),
        Existing::File if !options.overwrite => {
            Err(shale_host::Error::Exists { path: path.to_owned() }.into())
        }
        Existing::File | Existing::Nothing => Ok(()),
    }
}

fn check_snapshots(snapshots: &[Snapshot]) -> Result<(), Error> {
    let (found, max) = (snapshots.len() as u64, u64::from(SNAPSHOT_COUNT_MAX));
    if found > max {
        return Err(Error::Snapshots { found, max });
    }
    match snapshots.iter().find(|snapshot| snapshot.name.len() > SNAPSHOT_NAME_LEN_MAX) {
        None => Ok(()),
        Some(snapshot) => {
            let allowed = format!("at most {SNAPSHOT_NAME_LEN_MAX} bytes");
            let found = format!("{} bytes long", snapshot.name.len());
            Err(WriteError::Option { option: "the snapshot's name", found, allowed }.into())
        }
    }
}

/// The times that a snapshot keeps: those that any of its trees keeps, or those of the options.
fn times_kept(snapshot: &Snapshot, options: &CreateOptions) -> u8 {
    if snapshot.is_changed {
        return options.build.times_kept;
    }
    snapshot.parts.iter().fold(0, |kept, part| kept | part.tree.snapshot().times_kept)
}

/// Lists which paths later trees of a snapshot replace, where that is allowed.
fn claims(
    snapshot: &Snapshot,
    offsets: &Offsets,
    options: &CreateOptions,
) -> Result<Option<Claims>, Error> {
    let added = snapshot.is_changed && options.source.pseudo.is_some();
    if !options.source.replace || snapshot.parts.len() + usize::from(added) < 2 {
        return Ok(None);
    }
    let joined = joined(snapshot, None, offsets, options)?;
    Ok(Some(joined.list(|| Ok::<_, Error>(options.cancel.check()?))?))
}

/// The trees of a snapshot as one source. Contents have the numbers of [`Offsets`].
fn source(
    snapshot: &Snapshot,
    claims: Option<&Claims>,
    offsets: &Offsets,
    options: &CreateOptions,
) -> Result<Box<dyn EntrySource>, Error> {
    let joined = joined(snapshot, claims, offsets, options)?;
    Ok(match snapshot.is_changed {
        true => without_empty(joined, &options.source),
        false => Box::new(joined),
    })
}

fn joined(
    snapshot: &Snapshot,
    claims: Option<&Claims>,
    offsets: &Offsets,
    options: &CreateOptions,
) -> Result<Joined, Error> {
    let mut parts = Vec::with_capacity(snapshot.parts.len());
    for part in &snapshot.parts {
        let changes = snapshot.is_changed.then_some(&options.source);
        let first = offsets.of(part.image).start;
        let source = copied(part.tree.clone(), &part.prefix, first, changes)?;
        parts.push(Part { source, prefix: part.prefix.clone(), is_tree: false });
    }
    if snapshot.is_changed {
        parts.extend(added(&options.source)?);
    }
    let joined = Joined::new(parts, options.source.replace);
    Ok(match claims {
        Some(claims) => joined.without_replaced(claims.clone()),
        None => joined,
    })
}
