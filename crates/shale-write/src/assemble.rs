//! An image of what other images hold: frames are taken over as they are stored, and only tables
//! are made anew.

use std::io::Write;

use shale_format::{FrameRecord, Root, SectionType, Snapshot};
use shale_host::{Phase, Progress};
use shale_model::{Content, EntrySource, Metadata, Problem, ProblemKind};

use crate::base::copies::{CopiedPlace, CopiedTree, Copies};
use crate::base::frames::OldFrames;
use crate::base::image::BaseError;
use crate::content::dedupe::Contents;
use crate::content::extents::StoredAt;
use crate::exec::build::{Build, Env};
use crate::output::emitter::Emitter;
use crate::output::frame_table::FrameTable;
use crate::output::pages::Pages;
use crate::output::tables::Tables;
use crate::plan::digest::{ContentDigest, TreeDigest};
use crate::plan::error::WriteError;
use crate::plan::options::Options;
use crate::plan::report::{Report, Stage};
use crate::reference::constraints::{bounds, set_depths};
use crate::tree::builder::{Added, TreeBuilder};
use crate::tree::seal::SealedTree;

/// An image that was assembled.
#[derive(Debug)]
#[non_exhaustive]
pub struct Assembled {
    /// What the build did. Entries and digest of the tree are those of the newest snapshot.
    pub report: Report,
    /// The digest of the tree of each snapshot, oldest first. A content whose digest is not known
    /// counts by its number.
    pub tree_digests: Vec<TreeDigest>,
}

/// Frames and bytes after which progress is told.
const STEP_FRAMES: u64 = 256;
/// Entries after which the build looks whether it was cancelled.
const STEP_ENTRIES: u64 = 4096;

/// Writes an image of `copies` to `out`, front to back. Of `options`, only the level (for tables),
/// threads, memory and the place of temporary files count.
///
/// Takes 100 bytes of memory a frame and 50 a content, beside the memory of `options`.
///
/// # Errors
/// Any [`WriteError`]. `out` then holds the beginning of an image, which no reader accepts.
pub fn assemble(
    copies: &mut dyn Copies,
    out: &mut (dyn Write + Send),
    options: &Options,
    (image_id, history): ([u8; 16], &str),
    progress: &dyn Progress,
) -> Result<Assembled, WriteError> {
    let env = Env::new(options, None, None, progress)?;
    let mut assembled = Build::run(&env, |build| {
        let emitter = Emitter::new(build.clone(), out, image_id)?;
        run(build, copies, emitter, (image_id, history))
    })?;
    // The other threads have ended, and what they did is counted.
    assembled.report.times = env.times.report();
    Ok(assembled)
}

fn run<'env>(
    build: Build<'env>,
    copies: &mut dyn Copies,
    mut emitter: Emitter<'env>,
    (image_id, history): ([u8; 16], &str),
) -> Result<Assembled, WriteError> {
    build.phase(Phase::Read, Stage::Write);
    let mut report = Report { image_id, ..Report::default() };
    let frames = frames(&build, copies, &mut emitter, &mut report)?;
    let contents = contents(&build, copies, &frames)?;
    report.contents = contents.count() as u64;
    report.extents = contents.extents.row_count() as u64;

    build.phase(Phase::Tables, Stage::Tables);
    let mut pages = Pages::new(build.clone(), &mut emitter).for_several_trees();
    let tables = Tables { build: build.clone(), contents: &contents, frames: &frames };
    let mut root = Root::default();
    let mut tree_digests = Vec::new();
    while let Some(CopiedTree { mut source, name, times_kept }) =
        copies.next_tree().map_err(WriteError::Copy)?
    {
        let mut sealed = tree(&build, &mut *source, &contents)?;
        report.file_bytes = 0;
        let written = tables.snapshot(&mut sealed, &mut pages, &root, &mut report)?;
        // Some paths that came twice show only now.
        whole(sealed.collisions)?;
        report.warnings.append(&mut source.take_warnings());
        root.snapshots.push(Snapshot { name, times_kept, ..written });
        tree_digests.push(report.tree_digest);
    }
    tables.shared(&mut pages, &mut root, &mut report)?;
    let settings = build.plan().page_settings;
    emitter.whole_section(SectionType::History, history.as_bytes(), settings)?;
    let finished = emitter.finish(&root.encode()?, settings, true)?;
    (report.image_bytes, report.identity) = (finished.image_len, finished.identity);
    report.content_digests = contents.into_digests();
    Ok(Assembled { report, tree_digests })
}

/// Writes all frames.
fn frames(
    build: &Build<'_>,
    copies: &mut dyn Copies,
    emitter: &mut Emitter<'_>,
    report: &mut Report,
) -> Result<FrameTable, WriteError> {
    let mut table = FrameTable::default();
    let count = copies.frame_count();
    build.progress().found(count, 0);
    let mut told = 0;
    for number in 0..count {
        let frame = copies.frame(number).map_err(WriteError::Copy)?;
        let stored_offset = emitter.add(SectionType::Frames, &frame.stored)?;
        let record = FrameRecord {
            plain_start: table.stream_end(),
            stored_offset,
            stored_len: frame.stored.len() as u64,
            reference_first: table.references.len() as u64,
            reference_count: frame.references.len() as u32,
            ..frame.record
        };
        report.frames_with_references += u64::from(!frame.references.is_empty());
        report.plain_bytes += record.plain_len;
        report.stored_bytes += record.stored_len;
        table.references.extend_from_slice(&frame.references);
        table.records.push(record);
        if number % STEP_FRAMES == STEP_FRAMES - 1 || number + 1 == count {
            build.check_cancel()?;
            let bytes = std::mem::replace(&mut told, report.plain_bytes);
            build.progress().done(number % STEP_FRAMES + 1, report.plain_bytes - bytes);
        }
    }
    emitter.end_section()?;
    if table.references.iter().any(|&frame| frame >= count) {
        return Err(wrong("a frame refers to one that is not copied"));
    }
    set_depths(&mut table, &OldFrames::default());
    report.bounds = bounds(&table, &OldFrames::default());
    report.frames = count;
    report.references = table.references.len() as u64;
    Ok(table)
}

/// Makes the rows of all contents.
fn contents(
    build: &Build<'_>,
    copies: &mut dyn Copies,
    frames: &FrameTable,
) -> Result<Contents, WriteError> {
    let mut contents = Contents::new();
    for number in 0..copies.chunk_count() {
        let chunk = copies.chunk(number).map_err(WriteError::Copy)?;
        if chunk.content > copies.content_count() {
            return Err(wrong("a chunk refers to a content that is not copied"));
        }
        contents.chunks.push(chunk);
    }
    for number in 1..=copies.content_count() {
        if number % STEP_ENTRIES == 0 {
            build.check_cancel()?;
        }
        let base = contents.extents.end();
        let mut is_inside = true;
        let (extents, chunks) = (&mut contents.extents, contents.chunks.records());
        let digest = copies.content(number, &mut |len, place| {
            let fits = |offset: u64, max: u64| offset.saturating_add(len) <= max;
            let place = match place {
                CopiedPlace::Zero => Some(StoredAt::Zero),
                CopiedPlace::Hole => Some(StoredAt::Hole),
                CopiedPlace::Frame { frame, offset } => {
                    let record = usize::try_from(frame).ok().and_then(|at| frames.records.get(at));
                    let record = record.filter(|record| fits(offset, record.plain_len));
                    record.map(|record| StoredAt::Stream(record.plain_start + offset))
                }
                CopiedPlace::Rebuilt { chunk, offset } => {
                    let record = usize::try_from(chunk).ok().and_then(|at| chunks.get(at));
                    let record = record.filter(|record| fits(offset, record.len));
                    record.map(|record| StoredAt::Rebuilt(record.base + offset))
                }
            };
            is_inside &= place.is_some();
            extents.push(len, place.unwrap_or(StoredAt::Hole));
        });
        let digest = digest.map_err(WriteError::Copy)?;
        if !is_inside {
            return Err(wrong("a content refers to bytes that are not copied"));
        }
        contents.push(digest.unwrap_or_else(|| ContentDigest::held(number)), base);
    }
    Ok(contents)
}

/// Takes in all entries of one tree.
fn tree<'env>(
    build: &Build<'env>,
    source: &mut dyn EntrySource,
    contents: &Contents,
) -> Result<SealedTree, WriteError> {
    let mut tree = TreeBuilder::new(build.clone());
    let mut count = 0u64;
    let mut problems = Vec::new();
    while let Some(entry) = source.next_entry()? {
        count += 1;
        if count.is_multiple_of(STEP_ENTRIES) {
            build.check_cancel()?;
        }
        match tree.add(&entry)? {
            Added::Whole => {}
            Added::NeedsContent(inode) => match entry.content {
                Content::Held(id) if id < contents.count() as u64 => {
                    let metadata = Metadata { len: contents.content_len(id)?, ..entry.metadata };
                    tree.set_content(inode, &metadata, id, &contents.digest(id))?;
                }
                _ => {
                    let kind = ProblemKind::Unreadable("no image holds its content".to_owned());
                    problems.push(Problem { path: entry.path, kind });
                }
            },
            Added::Refused(kind) => problems.push(Problem { path: entry.path, kind }),
        }
    }
    problems.append(&mut source.take_problems());
    whole(problems)?;
    let sealed = tree.seal()?;
    source.review(&sealed.review())?;
    Ok(sealed)
}

/// Fails if entries were left out: whoever copies an image wants all of it.
fn whole(mut problems: Vec<Problem>) -> Result<(), WriteError> {
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WriteError::Unreadable(problems)),
    }
}

fn wrong(what: &'static str) -> WriteError {
    WriteError::Copy(BaseError::from(what))
}
