//! A build: the stages, one after the other.

use std::io::Write;
use std::sync::Arc;

use shale_codec::Hasher;
use shale_format::SectionType;
use shale_model::EntrySource;

use crate::base::image::Base;
use crate::content::tags::with_tags;
use crate::exec::build::{Build, Env};
use crate::intake::contents::Finish;
use crate::intake::entries::Intake;
use crate::output::emitter::Emitter;
use crate::output::pages::Pages;
use crate::output::tables::Tables;
use crate::plan::budget::Plan;
use crate::plan::error::WriteError;
use crate::plan::options::Options;
use crate::plan::report::{Report, Stage, StreamCounts};
use shale_host::{Phase, Progress};

/// Builds an image of everything `source` yields and writes it to `out`, front to back.
///
/// Uses the threads and the memory of `options`, see [`crate::MEMORY_BYTES_DEFAULT`], and about 200
/// bytes and the name an entry. Contents that wait and do not fit into memory go to a temporary
/// file, each once.
/// Every file is read once, unless it changes meanwhile or is a large one that resembles an earlier
/// one.
///
/// # Errors
/// Any [`WriteError`]. `out` then holds the beginning of an image without a trailer, which no
/// reader takes for an image; the caller removes it.
pub fn create(
    source: &mut dyn EntrySource,
    out: &mut (dyn Write + Send),
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, WriteError> {
    let env = Env::new(options, source.content_bytes_max(), None, progress)?;
    env.tell_temporary(source.content_bytes_max());
    let mut report = Build::run(&env, |build| {
        let description = build.plan().describe(options);
        let image_id = image_id(&description, options, &source.seed());
        let emitter = Emitter::new(build.clone(), out, image_id)?;
        let ends = Ends { history: Some(history("create", &description)), image_id };
        run(build, source, emitter, ends, true).map(|appended| appended.report)
    })?;
    // The other threads have ended, and what they did is counted.
    report.times = env.times.report();
    Ok(report)
}

/// An image that was continued, and lacks nothing but its last section.
#[derive(Debug)]
#[non_exhaustive]
pub struct Appended {
    /// What the build did.
    pub report: Report,
    /// The trailer section. Readers see the new snapshot once it is written after everything else,
    /// and the image as it was until then.
    pub trailer: Vec<u8>,
}

/// Continues an image by a snapshot of everything `source` yields, and writes what follows the
/// image to `out`, front to back, except for the last section.
///
/// Contents that the image holds are not stored again, and those that the source marks as
/// [`shale_model::Content::Held`] are not read. `message` goes into the history of the image. `out`
/// is flushed after the first section, so that a writer which syncs then leaves something that can
/// be recognized as an interrupted append, and at the end.
///
/// # Errors
/// Any [`WriteError`]. What was written to `out` is no part of the image; the caller removes it.
pub fn append(
    source: &mut dyn EntrySource,
    base: Arc<dyn Base>,
    out: &mut (dyn Write + Send),
    options: &Options,
    message: &str,
    progress: &dyn Progress,
) -> Result<Appended, WriteError> {
    let env = Env::new(options, source.content_bytes_max(), Some(Arc::clone(&base)), progress)?;
    env.tell_temporary(source.content_bytes_max());
    let mut appended = Build::run(&env, |build| {
        let mut description = build.plan().describe(options);
        if !message.is_empty() {
            description += &format!(" message={}", escaped(message));
        }
        let mut emitter = Emitter::after(build.clone(), out, &*base)?;
        let history = history("append", &description);
        let settings = build.plan().page_settings;
        emitter.whole_section(SectionType::History, history.as_bytes(), settings)?;
        emitter.flush()?;
        let ends = Ends { history: None, image_id: base.state().image_id };
        run(build, source, emitter, ends, false)
    })?;
    // The other threads have ended, and what they did is counted.
    appended.report.times = env.times.report();
    Ok(appended)
}

/// Checks options as [`create`] does before it reads anything. Whether the memory suffices depends
/// on the source, so [`create`] says that when it knows the source.
///
/// # Errors
/// [`WriteError::Option`] if one is out of its range.
pub fn check(options: &Options) -> Result<(), WriteError> {
    match Plan::new(options, Some(0)) {
        // What the least source needs would be wrong advice for every other.
        Err(WriteError::Memory { .. }) => Ok(()),
        checked => checked.map(drop),
    }
}

/// What an image has beside the tree.
struct Ends {
    /// The record of the build, if it was not written yet.
    history: Option<String>,
    image_id: [u8; 16],
}

fn run<'env>(
    build: Build<'env>,
    source: &mut dyn EntrySource,
    emitter: Emitter<'env>,
    ends: Ends,
    writes_trailer: bool,
) -> Result<Appended, WriteError> {
    let (plan, options) = (build.plan(), build.options());
    build.phase(Phase::Read, Stage::Read);
    let flight_bytes_max = plan.flight_bytes_max;
    let mut report = Report { image_id: ends.image_id, flight_bytes_max, ..Report::default() };
    let mut intake = Intake::new(build.clone(), emitter);
    intake.run(source, &mut report)?;
    let Intake { tree, contents, .. } = intake;
    let Finish { contents, frames, index, mut emitter } = contents.finish(&mut report)?;

    build.phase(Phase::Tables, Stage::Tables);
    build.check_cancel()?;
    let mut sealed = tree.seal()?;
    source.review(&sealed.review())?;
    let mut pages = Pages::new(build.clone(), &mut emitter);
    let tables = Tables { build: build.clone(), contents: &contents, frames: &frames };
    let mut root = tables.write(&mut sealed, &mut pages, &mut report)?;
    // Some paths that came twice show only now.
    source.review(&sealed.review())?;
    report.problems.append(&mut sealed.collisions);
    report.problems.sort_by(|a, b| a.path.cmp(&b.path));
    if report.problems.iter().any(|problem| options.is_fatal(problem)) {
        return Err(WriteError::Unreadable(report.problems));
    }
    if let Some(snapshot) = root.snapshots.last_mut() {
        snapshot.name.clone_from(&options.snapshot_name);
        snapshot.times_kept = options.times_kept;
    }

    // What was asked for goes last: it is what the image was made with.
    let history = streams_line(&report) + ends.history.as_deref().unwrap_or_default();
    if !history.is_empty() {
        emitter.whole_section(SectionType::History, history.as_bytes(), plan.page_settings)?;
    }
    if let Some(index) = with_tags(&build, contents.tags_of_base(), contents.tags(), index)? {
        emitter.whole_section(SectionType::AppendIndex, &index.encode(), plan.page_settings)?;
    }
    if let Some(base) = build.base() {
        root.earlier = base.state().earlier_roots(root.snapshots.len());
    }
    let root = root.encode()?;
    let finished = emitter.finish(&root, plan.page_settings, writes_trailer)?;
    (report.image_bytes, report.identity) = (finished.image_len, finished.identity);
    report.content_digests = contents.into_digests();
    Ok(Appended { report, trailer: finished.trailer })
}

/// First word of the lines of the history that count rebuilt streams. `NAME=STREAMS,BYTES,PLAIN`
/// follows for each kind of container.
pub const STREAMS_WORD: &str = "streams";

/// Counts the streams that are rebuilt, as a line of the history; empty if there are none.
fn streams_line(report: &Report) -> String {
    if report.streams.is_empty() {
        return String::new();
    }
    let words = report.streams.iter().map(|(container, counts)| {
        let StreamCounts { streams, bytes, plain_bytes } = counts;
        format!(" {}={streams},{bytes},{plain_bytes}", container.name())
    });
    format!("{STREAMS_WORD}{}\n", words.collect::<String>())
}

/// Text in one line of the history.
fn escaped(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            '\\' => line.push_str("\\\\"),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// Returns the line that a build adds to the history of an image: the program and what it was asked
/// for. It has no clock and no names of places.
pub fn history(command: &str, description: &str) -> String {
    let (major, minor) = (shale_format::VERSION_MAJOR, shale_format::VERSION_MINOR);
    let version = env!("CARGO_PKG_VERSION");
    format!("{command} writer={version} format={major}.{minor} {description}\n")
}

/// An id that is the same for the same input and options, and known before anything is written.
fn image_id(description: &str, options: &Options, seed: &[u8; 32]) -> [u8; 16] {
    let mut hasher = Hasher::new();
    hasher.update(history("create", description).as_bytes());
    hasher.update(&options.snapshot_name);
    hasher.update(seed);
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}
