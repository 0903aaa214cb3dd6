//! The build pipeline of ShaleFS images: entries of a source in, one image out.
//!
//! The stages lie in this folder in the order in which an entry passes them. [`create`] runs
//! them all. The pipeline promises the same bytes for the same input and options, whatever the
//! number of threads, the host or the order of directory listings; it writes to any
//! [`std::io::Write`] without seeking; it never follows a symbolic link of the source. It does
//! not name, sync or rename the output file and does not read the image back: the facade crate
//! does.

// What the caller says and is told.
pub mod options; // what the caller decides
pub mod levels; // what a level stands for
pub mod progress; // what the caller is told meanwhile
pub mod error; // why no image was made
pub mod report; // counters, problems and digests of a finished build
pub mod digest; // what was read, in a form a reader can compute again
mod budget; // memory and threads, decided once

// Entries in.
pub mod source; // the trait every importer implements
pub mod select; // what is taken of a source
pub mod scan; // a directory tree as a source
pub mod manifest; // a tree that is written down as a source
mod tree; // names and attributes, in any order, in bounded memory
mod intake; // takes entries in, in order

// Contents: read, deduped, ordered.
mod read; // bytes, holes, zero runs and digest in one go
mod dedupe; // every distinct content once
mod extents; // where the bytes of contents are
mod categorize; // what kind of data it is
pub mod kin; // which contents are near-copies of others
mod laying; // the order in which contents are laid
mod shelf; // contents that wait to be laid in another order
mod segmenting; // segment dedupe as a part of the pipeline
pub mod segment; // finds ranges the stream already holds
mod order; // cuts the stream into frames

// Frames: referred, compressed, written.
mod flow; // frames on their way
mod temporary; // files without a name
mod spool; // plain frames that wait for their references
mod inverse; // lists of numbers, turned round
mod spread; // which frames contents lie in together
mod reference; // what the choice of references must keep to
mod referring; // the choice of references as a part of the pipeline
pub mod sketch; // what a frame is made of, as a sample
pub mod refer; // which frames each frame is compressed against
mod pool; // threads
mod codecs; // which codec a frame gets
mod compress; // one frame's plain bytes become stored bytes
mod emit; // the image as a sequence of bytes

// Tables.
mod number; // level order, and which entries stay
mod pages; // pages of tables on their way
mod tables; // metadata tables and root

#[cfg(test)]
mod tests; // the stages that the levels do not use yet, end to end

pub use budget::{MEMORY_BYTES_DEFAULT, THREADS_MAX};
pub use error::WriteError;
pub use laying::Order;
pub use manifest::ManifestSource;
pub use options::Options;
pub use progress::{NoProgress, Phase, Progress};
pub use report::{Problem, ProblemKind, Report};
pub use scan::{DirectorySource, ScanOptions};
pub use select::{Amend, Select};
pub use shale_codec::Settings;
pub use shale_format::Category;
pub use source::{Source, SourceEntry};

use std::io::Write;
use std::sync::atomic::AtomicBool;

use shale_codec::Hasher;
use shale_format::SectionType;

use budget::{Plan, SEGMENT_INDEX_BYTES};
use emit::Emitter;
use flow::{Env, Flow};
use intake::Intake;
use pages::Pages;
use pool::Pool;
use reference::Referrer;
use referring::Cover;
use tables::Tables;

/// Builds an image of everything `source` yields and writes it to `out`, front to back.
///
/// Uses the threads and the memory of `options`, see [`MEMORY_BYTES_DEFAULT`], and about 200 bytes
/// and the name an entry; a temporary file where the level keeps frames waiting and they do not
/// fit into memory. Every file is read once, unless it changes meanwhile or is a large one that
/// resembles an earlier one.
///
/// # Errors
/// Whatever [`WriteError`] names. `out` then holds the beginning of an image without a trailer,
/// which no reader takes for an image; the caller removes it.
pub fn create(
    source: &mut dyn Source,
    out: &mut (dyn Write + Send),
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, WriteError> {
    let plan = Plan::new(options)?;
    let work_per_byte = plan.level.reference_work_per_byte;
    let cover = plan.references.map(|limits| Cover::new(limits, work_per_byte));
    let stages = Stages {
        segment: (plan.segment_window_len > 0).then_some(segment::Settings {
            window_len: plan.segment_window_len,
            index_bytes_max: SEGMENT_INDEX_BYTES,
            lens_min: plan.level.segment_lens_min,
            // Zero runs are found when a content is read.
            zero_len_min: 0,
        }),
        referrer: cover.as_ref().map(|cover| cover as &dyn Referrer),
    };
    create_with(source, out, options, progress, stages)
}

/// What [`create`] would say of these options before it reads anything.
///
/// # Errors
/// [`WriteError::Option`]: one is out of its range, or the memory does not do.
pub fn check(options: &Options) -> Result<(), WriteError> {
    Plan::new(options).map(drop)
}

/// The stages that not every level has.
#[derive(Default)]
pub(crate) struct Stages<'a> {
    pub(crate) segment: Option<segment::Settings>,
    pub(crate) referrer: Option<&'a dyn Referrer>,
}

fn create_with(
    source: &mut dyn Source,
    out: &mut (dyn Write + Send),
    options: &Options,
    progress: &dyn Progress,
    stages: Stages<'_>,
) -> Result<Report, WriteError> {
    let plan = Plan::new(options)?;
    let referrer = stages.referrer;
    let env = Env { options, plan, progress, referrer, leave: AtomicBool::new(false) };
    let description = env.plan.describe(options);
    let image_id = image_id(&description, options, &source.seed());
    let emitter = Emitter::new(out, &env.leave, image_id)?;
    let mut report = pool::with_pool(env.plan.threads, &env.leave, |pool| {
        progress.phase(Phase::Read);
        let flow = Flow::new(&env, emitter, stages.segment.is_some());
        let segmenting = stages.segment.map(segmenting::Segmenting::new);
        let mut intake = Intake::new(&env, flow, segmenting);
        intake.run(pool, source)?;
        progress.phase(Phase::Tables);
        finish(pool, &env, intake, source, &description)
    })?;
    report.image_id = image_id;
    Ok(report)
}

/// Writes everything that follows the last frame.
fn finish<'env>(
    pool: &mut Pool<'env>,
    env: &'env Env<'env>,
    mut intake: Intake<'env>,
    source: &dyn Source,
    description: &str,
) -> Result<Report, WriteError> {
    intake.count();
    let Intake { tree, contents, flow, mut report, .. } = intake;
    let bounds = flow.bounds();
    let Flow { mut emitter, frames, references, .. } = flow;
    env.options.check_cancel()?;
    let mut sealed = tree.seal(pool)?;
    source.review(&sealed.review())?;
    let mut pages = Pages::new(env, pool, &mut emitter);
    let tables = Tables { env, contents: &contents, frames: &frames, references: &references };
    let mut root = tables.write(&mut sealed, &mut pages, &mut report)?;
    // Some paths that came twice only show now.
    source.review(&sealed.review())?;
    report.problems.append(&mut sealed.collisions);
    report.problems.sort_by(|a, b| a.path.cmp(&b.path));
    if !env.options.skip_unreadable && !report.problems.is_empty() {
        return Err(WriteError::Unreadable(report.problems));
    }
    root.bounds = bounds;
    for snapshot in &mut root.snapshots {
        snapshot.name.clone_from(&env.options.snapshot_name);
        snapshot.times_kept = env.options.times_kept;
    }
    let history = history(description);
    let settings = env.plan.page_settings;
    emitter.whole_section(pool, SectionType::History, history.as_bytes(), settings)?;
    (report.image_bytes, report.identity) = emitter.finish(pool, &root.encode()?, settings)?;
    report.content_digests = contents.into_digests();
    Ok(report)
}

/// The record of this build: what was asked of which program. No clock, no names of places.
fn history(description: &str) -> String {
    let (major, minor) = (shale_format::VERSION_MAJOR, shale_format::VERSION_MINOR);
    let version = env!("CARGO_PKG_VERSION");
    format!("create writer={version} format={major}.{minor} {description}\n")
}

/// An identity that is the same for the same input and options, and known before anything is
/// written.
fn image_id(description: &str, options: &Options, seed: &[u8; 32]) -> [u8; 16] {
    let mut hasher = Hasher::new();
    hasher.update(history(description).as_bytes());
    hasher.update(&options.snapshot_name);
    hasher.update(seed);
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}
