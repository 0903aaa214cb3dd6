//! Finds the paths of the files that problems touch.
//!
//! Frames give ranges of stream space, extents map these to ranges of content space, contents give
//! ids, and inodes and entries give paths. Rows of a damaged table page join this chain at their
//! place, by the keys that the index has for them. Pages that cannot be read are skipped: what they
//! hide is touched by the problem of the page itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shale_format::limits::CHUNK_DEPTH_MAX;
use shale_format::schema::{
    STREAM_HOLE, STREAM_REBUILT, STREAM_ZERO, chunks, contents, directories, entries, extents,
    frames, inodes, references, xattr_sets,
};
use shale_format::{InodeKind, Root, Snapshot};
use shale_table::{Cursor, Schema, Table, TableRoot};

use super::context::Context;
use super::findings::{Finding, RowScope, Scope, TOUCHED_PATH_COUNT_MAX};
use super::level::CheckLevel;
use super::report::DamagedPath;
use super::rows::record;
use super::store::{PageFault, TablePages};
use crate::error::Error;

/// Damaged paths kept in a report; more are counted.
const DAMAGED_PATH_COUNT_MAX: usize = 1_000;
/// Damaged contents that are traced to their paths; bounds memory when everything is damaged.
const CONTENT_COUNT_MAX: usize = 1 << 20;
/// Touched inodes of a snapshot that are traced to their paths; bounds memory as well.
const INODE_COUNT_MAX: usize = 1 << 20;
/// Problems for which one file is counted.
const BLAME_COUNT_MAX: usize = 8;
/// Directories on the way to a damaged path; deeper paths are shown without their beginning.
const DEPTH_MAX: usize = 4096;

/// Plain bytes after a chunk that it depends on.
const CHUNK_AFTER_LEN: u64 = 1 << 10;

/// Files with damaged bytes.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    pub(super) paths: Vec<DamagedPath>,
    pub(super) count: u64,
}

/// Indexes of the problems that touch something.
type Blame = Vec<usize>;

fn blame(on: &mut Blame, problems: &[usize]) {
    for &problem in problems {
        if on.len() < BLAME_COUNT_MAX && !on.contains(&problem) {
            on.push(problem);
        }
    }
}

/// How a content or an inode is damaged.
#[derive(Debug, Clone, Default)]
struct Hit {
    /// Number of damaged bytes and offset of the first, if bytes are damaged.
    bytes: u64,
    first_offset: Option<u64>,
    problems: Blame,
}

/// A range of stream space or content space.
struct Range {
    start: u64,
    end: u64,
    problems: Blame,
}

/// Rows that cannot be read.
struct Lost<'l> {
    scopes: Vec<(usize, &'l RowScope)>,
}

impl<'l> Lost<'l> {
    /// Selects the lost rows of one table.
    fn of(all: &'l [(usize, RowScope)], table: &TableRoot, schema: &Schema) -> Self {
        let of_table =
            |scope: &RowScope| scope.top == table.top.offset && scope.table == schema.name;
        let mut scopes: Vec<_> = all
            .iter()
            .filter(|(_, scope)| of_table(scope))
            .map(|(problem, scope)| (*problem, scope))
            .collect();
        scopes.sort_by_key(|(_, scope)| scope.first);
        Self { scopes }
    }

    /// Returns the end of the run of lost rows that contains `row`.
    fn end(&self, row: u64) -> Option<u64> {
        let holds = |scope: &RowScope| scope.first <= row && row < scope.end;
        self.scopes.iter().find(|(_, scope)| holds(scope)).map(|(_, scope)| scope.end)
    }

    /// Returns the problems of the rows `first..end`.
    fn problems(&self, first: u64, end: u64) -> Blame {
        let meets = |scope: &RowScope| scope.first < end && first < scope.end;
        self.scopes.iter().filter(|(_, s)| meets(s)).map(|(problem, _)| *problem).collect()
    }

    /// Returns the keys of lost rows, as ranges.
    fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.scopes.iter().map(|(problem, scope)| Range {
            start: scope.keys.0,
            end: scope.keys.1.unwrap_or(u64::MAX),
            problems: vec![*problem],
        })
    }
}

/// Fills in which files each problem touches, and returns the files with damaged bytes.
pub(super) fn trace(
    context: &Context<'_>,
    root: &Root,
    found: &mut [Finding],
    damaged: &BTreeSet<u64>,
) -> Result<Damaged, Error> {
    let lost: Vec<(usize, RowScope)> = found
        .iter()
        .enumerate()
        .filter_map(|(at, found)| match &found.scope {
            Scope::Rows(rows) => Some((at, rows.clone())),
            _ => None,
        })
        .collect();
    let mut damage = Damaged::default();
    let mut guilty: BTreeMap<u64, Blame> =
        damaged.iter().map(|&frame| (frame, Blame::new())).collect();
    for (at, found) in found.iter().enumerate() {
        if let Scope::Frame(frame) | Scope::Through { frame, .. } = found.scope {
            guilty.entry(frame).or_default().push(at);
        }
    }
    if guilty.is_empty() && lost.is_empty() {
        return Ok(damage);
    }
    // What cannot be read on the way is reported already; the rest is traced without it.
    if context.options.level < CheckLevel::Content {
        let _ = spread(context, root, &mut guilty);
    }
    let mut streams = stream_ranges(context, root, &guilty, &lost);
    let mut hits = content_hits(context, root, &streams, &lost).unwrap_or_default();
    // Chunks are rebuilt from contents, and a chain of them is bounded.
    for _ in 0..if root.has_chunks() { CHUNK_DEPTH_MAX } else { 0 } {
        let range_count = streams.len();
        streams.retain(|range| range.start < STREAM_REBUILT);
        streams.extend(chunk_ranges(context, root, &hits, &lost));
        if streams.len() == range_count {
            break;
        }
        hits = content_hits(context, root, &streams, &lost).unwrap_or_default();
    }
    for snapshot in &root.snapshots {
        context.check_cancel()?;
        let _ = snapshot_paths(context, snapshot, &hits, &lost, found, &mut damage);
    }
    Ok(damage)
}

fn open<'t, 's>(
    pages: &'t TablePages<'s>,
    root: &TableRoot,
    schema: &'static Schema,
) -> Result<Cursor<'t, TablePages<'s>>, PageFault> {
    Ok(Table::new(*root, schema, pages)?.cursor())
}

/// Adds the frames that refer to damaged ones. If frames were decoded, decoding found them already.
fn spread(
    context: &Context<'_>,
    root: &Root,
    guilty: &mut BTreeMap<u64, Blame>,
) -> Result<(), PageFault> {
    let frame_pages = TablePages::new(context.store, &root.frames)?;
    let mut rows = open(&frame_pages, &root.frames, &frames::SCHEMA)?;
    let reference_pages = TablePages::new(context.store, &root.references)?;
    let mut list = open(&reference_pages, &root.references, &references::SCHEMA)?;
    // Depth decreases along references, so this ends.
    loop {
        let before = guilty.len();
        for frame in 0..root.frames.row_count.saturating_sub(1) {
            if guilty.contains_key(&frame) || context.check_cancel().is_err() {
                continue;
            }
            let found = record(&mut rows, frame)?;
            let mut problems = Blame::new();
            let mut hit = false;
            for row in 0..u64::from(found.reference_count) {
                let below = list.u64(references::FRAME, found.reference_first + row)?;
                if let Some(of_below) = guilty.get(&below) {
                    hit = true;
                    blame(&mut problems, of_below);
                }
            }
            if hit {
                guilty.insert(frame, problems);
            }
        }
        if guilty.len() == before {
            return Ok(());
        }
    }
}

/// Returns the ranges of stream space that cannot be read, by start.
fn stream_ranges(
    context: &Context<'_>,
    root: &Root,
    guilty: &BTreeMap<u64, Blame>,
    lost: &[(usize, RowScope)],
) -> Vec<Range> {
    let mut ranges: Vec<Range> = Lost::of(lost, &root.frames, &frames::SCHEMA).ranges().collect();
    let pages = TablePages::new(context.store, &root.frames);
    if let Ok(pages) = &pages
        && let Ok(mut rows) = open(pages, &root.frames, &frames::SCHEMA)
    {
        for (&frame, problems) in guilty {
            let start = rows.u64(frames::PLAIN_START, frame);
            let end = rows.u64(frames::PLAIN_START, frame + 1);
            if let (Ok(start), Ok(end)) = (start, end) {
                ranges.push(Range { start, end, problems: problems.clone() });
            }
        }
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// Returns the ranges of rebuilt space that cannot be rebuilt, as extents name them, by start. The
/// plain bytes of a stream up to the first damaged one do not depend on it.
fn chunk_ranges(
    context: &Context<'_>,
    root: &Root,
    hits: &BTreeMap<u64, Hit>,
    lost: &[(usize, RowScope)],
) -> Vec<Range> {
    let lost = Lost::of(lost, &root.chunks, &chunks::SCHEMA);
    let mut ranges: Vec<Range> = lost.ranges().collect();
    let pages = TablePages::new(context.store, &root.chunks);
    if let Ok(pages) = &pages
        && let Ok(mut rows) = open(pages, &root.chunks, &chunks::SCHEMA)
    {
        for row in 0..root.chunks.row_count.saturating_sub(1) {
            let mut numbers = || -> Result<[u64; 5], PageFault> {
                let content = rows.u64(chunks::CONTENT, row)?;
                let offset = rows.u64(chunks::OFFSET, row)?;
                let plain_len = rows.u64(chunks::PLAIN_LEN, row)?;
                let base = rows.u64(chunks::BASE, row)?;
                Ok([content, offset, plain_len, base, rows.u64(chunks::BASE, row + 1)?])
            };
            let Ok([content, offset, plain_len, start, end]) = numbers() else { continue };
            let needed = offset.saturating_add(plain_len).saturating_add(CHUNK_AFTER_LEN);
            if let Some(hit) = hits.get(&content)
                && hit.first_offset.unwrap_or_default() < needed
            {
                ranges.push(Range { start, end, problems: hit.problems.clone() });
            }
        }
    }
    for range in &mut ranges {
        range.start = range.start.saturating_add(STREAM_REBUILT);
        range.end = range.end.saturating_add(STREAM_REBUILT);
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// Returns the contents with bytes in the ranges of stream space, and those whose rows or extents
/// are lost.
fn content_hits(
    context: &Context<'_>,
    root: &Root,
    streams: &[Range],
    lost: &[(usize, RowScope)],
) -> Result<BTreeMap<u64, Hit>, PageFault> {
    let mut hits = BTreeMap::new();
    let lost_contents = Lost::of(lost, &root.contents, &contents::SCHEMA);
    for (problem, scope) in &lost_contents.scopes {
        for content in (scope.first..scope.end).take(CONTENT_COUNT_MAX) {
            let hit: &mut Hit = hits.entry(content).or_default();
            blame(&mut hit.problems, &[*problem]);
        }
    }
    let content_pages = TablePages::new(context.store, &root.contents)?;
    let mut content_rows = open(&content_pages, &root.contents, &contents::SCHEMA)?;
    let content_count = root.contents.row_count;
    let lost_extents = Lost::of(lost, &root.extents, &extents::SCHEMA);
    for range in lost_extents.ranges() {
        // A range that reaches into lost contents ends there; those are touched already.
        let _ = add_contents(&mut content_rows, content_count, &range, &mut hits);
    }
    let extent_pages = TablePages::new(context.store, &root.extents)?;
    let mut extent_rows = open(&extent_pages, &root.extents, &extents::SCHEMA)?;
    // Ranges may overlap. This records how far the ranges up to each index reach.
    let mut reach: Vec<u64> = Vec::with_capacity(streams.len());
    for range in streams {
        reach.push(reach.last().copied().unwrap_or_default().max(range.end));
    }
    let mut row = 0;
    while row < root.extents.row_count.saturating_sub(1) && !streams.is_empty() {
        if context.check_cancel().is_err() || hits.len() >= CONTENT_COUNT_MAX {
            break;
        }
        if let Some(end) = lost_extents.end(row) {
            row = end;
            continue;
        }
        let (Ok(stream), Ok(base)) =
            (extent_rows.u64(extents::STREAM, row), extent_rows.u64(extents::BASE, row))
        else {
            return Ok(hits);
        };
        row += 1;
        if stream == STREAM_HOLE || stream == STREAM_ZERO {
            continue;
        }
        // If the next row is lost, its key is still known.
        let end = match lost_extents.end(row) {
            Some(_) => lost_extents.scopes.iter().find(|(_, s)| s.first == row).map(|s| s.1.keys.0),
            None => extent_rows.u64(extents::BASE, row).ok(),
        };
        let Some(end) = end else { continue };
        let stream_end = stream.saturating_add(end.saturating_sub(base));
        let from = reach.partition_point(|&reach| reach <= stream);
        for range in streams[from..].iter().take_while(|range| range.start < stream_end) {
            if range.end <= stream {
                continue;
            }
            let part = Range {
                start: base.saturating_add(range.start.max(stream) - stream),
                end: base.saturating_add(range.end.min(stream_end) - stream),
                problems: range.problems.clone(),
            };
            let _ = add_contents(&mut content_rows, content_count, &part, &mut hits);
        }
    }
    Ok(hits)
}

/// Adds the contents in a range of content space.
fn add_contents(
    rows: &mut Cursor<'_, TablePages<'_>>,
    row_count: u64,
    range: &Range,
    hits: &mut BTreeMap<u64, Hit>,
) -> Result<(), PageFault> {
    let Some(mut content) = rows.search_u64(range.start)? else { return Ok(()) };
    while content + 1 < row_count && hits.len() < CONTENT_COUNT_MAX {
        let base = rows.u64(contents::BASE, content)?;
        let end = rows.u64(contents::BASE, content + 1)?;
        if base >= range.end {
            break;
        }
        let (start, stop) = (range.start.max(base), range.end.min(end));
        if start < stop {
            let first_offset = start - base;
            let hit = hits.entry(content).or_default();
            hit.bytes = hit.bytes.saturating_add(stop - start);
            let first = hit.first_offset.unwrap_or(first_offset);
            hit.first_offset = Some(first.min(first_offset));
            blame(&mut hit.problems, &range.problems);
        }
        content += 1;
    }
    Ok(())
}

/// Returns the rows of the table of attribute sets that have lost items, with the problems.
fn lost_sets(
    context: &Context<'_>,
    snapshot: &Snapshot,
    lost: &[(usize, RowScope)],
) -> Result<HashMap<u64, Blame>, PageFault> {
    let mut sets = HashMap::new();
    let items = Lost::of(lost, &snapshot.xattr_items, &shale_format::schema::xattr_items::SCHEMA);
    let of_sets = Lost::of(lost, &snapshot.xattr_sets, &xattr_sets::SCHEMA);
    if items.scopes.is_empty() && of_sets.scopes.is_empty() {
        return Ok(sets);
    }
    let pages = TablePages::new(context.store, &snapshot.xattr_sets);
    let mut rows = match &pages {
        Ok(pages) => open(pages, &snapshot.xattr_sets, &xattr_sets::SCHEMA).ok(),
        Err(_) => None,
    };
    for set in 0..snapshot.xattr_sets.row_count.min(INODE_COUNT_MAX as u64) {
        let mut problems = of_sets.problems(set, set + 1);
        if problems.is_empty()
            && let Some(rows) = &mut rows
        {
            let first = rows.u64(xattr_sets::ITEM_FIRST, set)?;
            let count = rows.u64(xattr_sets::ITEM_COUNT, set)?;
            problems = items.problems(first, first.saturating_add(count));
        }
        if !problems.is_empty() {
            sets.insert(set, problems);
        }
    }
    Ok(sets)
}

/// Returns the damaged inodes of a snapshot, and how each is damaged.
fn inode_hits(
    context: &Context<'_>,
    snapshot: &Snapshot,
    contents: &BTreeMap<u64, Hit>,
    lost: &[(usize, RowScope)],
) -> Result<HashMap<u64, Hit>, PageFault> {
    let store = context.store;
    let sets = lost_sets(context, snapshot, lost).unwrap_or_default();
    let symlinks = Lost::of(lost, &snapshot.symlinks, &shale_format::schema::symlinks::SCHEMA);
    let directory_rows = Lost::of(lost, &snapshot.directories, &directories::SCHEMA);
    let inode_rows = Lost::of(lost, &snapshot.inodes, &inodes::SCHEMA);
    let mut hits: HashMap<u64, Hit> = HashMap::new();
    let pages = TablePages::new(store, &snapshot.inodes);
    let mut rows = match &pages {
        Ok(pages) => open(pages, &snapshot.inodes, &inodes::SCHEMA).ok(),
        Err(_) => None,
    };
    for row in 0..snapshot.inodes.row_count {
        if row % 4096 == 0 && context.check_cancel().is_err() || hits.len() >= INODE_COUNT_MAX {
            break;
        }
        let lost = inode_rows.problems(row, row + 1);
        if !lost.is_empty() {
            hits.insert(row + 1, Hit { problems: lost, ..Hit::default() });
            continue;
        }
        let Some(rows) = &mut rows else { continue };
        let mut hit = Hit::default();
        let mode = rows.u64(inodes::MODE, row)?;
        let payload = rows.u64(inodes::PAYLOAD, row)?;
        match u32::try_from(mode).ok().and_then(InodeKind::from_mode) {
            Some(InodeKind::File) => {
                if let Some(of_content) = contents.get(&payload) {
                    hit = of_content.clone();
                }
            }
            Some(InodeKind::Symlink) => hit.problems = symlinks.problems(payload, payload + 1),
            Some(InodeKind::Directory) => {
                hit.problems = directory_rows.problems(payload, payload + 1);
            }
            _ => {}
        }
        if !sets.is_empty()
            && let Some(set) = rows.u64(inodes::XATTR_SET, row)?.checked_sub(1)
            && let Some(problems) = sets.get(&set)
        {
            blame(&mut hit.problems, problems);
        }
        if !hit.problems.is_empty() || hit.bytes > 0 {
            hits.insert(row + 1, hit);
        }
    }
    Ok(hits)
}

fn snapshot_paths(
    context: &Context<'_>,
    snapshot: &Snapshot,
    contents: &BTreeMap<u64, Hit>,
    lost: &[(usize, RowScope)],
    found: &mut [Finding],
    damage: &mut Damaged,
) -> Result<(), PageFault> {
    let store = context.store;
    let inode_hits = inode_hits(context, snapshot, contents, lost)?;
    let lost_entries = Lost::of(lost, &snapshot.entries, &entries::SCHEMA);
    let lost_directories = Lost::of(lost, &snapshot.directories, &directories::SCHEMA);
    if inode_hits.is_empty() && lost_entries.scopes.is_empty() {
        return Ok(());
    }
    let directory_pages = TablePages::new(store, &snapshot.directories)?;
    let mut directory_rows = open(&directory_pages, &snapshot.directories, &directories::SCHEMA)?;
    let entry_pages = TablePages::new(store, &snapshot.entries)?;
    let mut entry_rows = open(&entry_pages, &snapshot.entries, &entries::SCHEMA)?;
    let mut far_rows = open(&entry_pages, &snapshot.entries, &entries::SCHEMA)?;
    // The root has no name.
    if let Some(hit) = inode_hits.get(&1) {
        touch(found, &hit.problems, snapshot, &|| Vec::new());
    }
    // Damaged files often share a directory, and its path is costly to find.
    let mut prefix: Option<(u64, Vec<u8>)> = None;
    let mut directory = 0;
    while directory < snapshot.directories.row_count.saturating_sub(1) {
        if context.check_cancel().is_err() {
            return Ok(());
        }
        let at = directory;
        directory += 1;
        if let Some(end) = lost_directories.end(at) {
            directory = end;
            continue;
        }
        let first = directory_rows.u64(directories::ENTRY_FIRST, at)?;
        let Ok(end) = directory_rows.u64(directories::ENTRY_FIRST, at + 1) else { continue };
        let mut path_of = |directory: u64| match &prefix {
            Some((of, path)) if *of == directory => path.clone(),
            _ => {
                let path = directory_path(&mut directory_rows, &mut far_rows, directory)
                    .unwrap_or_else(|_| b"?/".to_vec());
                prefix = Some((directory, path.clone()));
                path
            }
        };
        let nameless = lost_entries.problems(first, end);
        if !nameless.is_empty() {
            let mut path = path_of(at);
            path.pop();
            touch(found, &nameless, snapshot, &|| path.clone());
        }
        let mut row = first;
        while row < end {
            if let Some(behind) = lost_entries.end(row) {
                row = behind;
                continue;
            }
            let entry = row;
            row += 1;
            let inode = entry_rows.u64(entries::INODE, entry)?;
            let Some(hit) = inode_hits.get(&inode) else { continue };
            let in_bytes = hit.bytes > 0;
            damage.count += u64::from(in_bytes);
            let is_kept = in_bytes && damage.paths.len() < DAMAGED_PATH_COUNT_MAX;
            let wants =
                |at: &usize| found[*at].problem.touches.paths.len() < TOUCHED_PATH_COUNT_MAX;
            let mut path = Vec::new();
            if is_kept || hit.problems.iter().any(wants) {
                path = path_of(at);
                path.extend_from_slice(entry_rows.bytes(entries::NAME, entry)?);
            }
            touch(found, &hit.problems, snapshot, &|| path.clone());
            if is_kept {
                damage.paths.push(DamagedPath {
                    snapshot: snapshot.name.clone(),
                    path,
                    damaged_bytes: hit.bytes,
                    first_offset: hit.first_offset.unwrap_or_default(),
                });
            }
        }
    }
    Ok(())
}

/// Counts a path for each of the problems.
fn touch(
    found: &mut [Finding],
    problems: &[usize],
    snapshot: &Snapshot,
    path: &dyn Fn() -> Vec<u8>,
) {
    for &at in problems {
        let Some(Finding { problem, .. }) = found.get_mut(at) else { continue };
        let touches = &mut problem.touches;
        touches.path_count += 1;
        if touches.paths.len() < TOUCHED_PATH_COUNT_MAX {
            touches.paths.push(path());
        }
        if !touches.snapshots.contains(&snapshot.name) {
            touches.snapshots.push(snapshot.name.clone());
        }
    }
}

/// Path of a directory with a trailing slash; empty for the root. Searches the entries of each
/// parent for the name.
fn directory_path(
    directory_rows: &mut Cursor<'_, TablePages<'_>>,
    entry_rows: &mut Cursor<'_, TablePages<'_>>,
    directory: u64,
) -> Result<Vec<u8>, PageFault> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut at = directory;
    while at != 0 && names.len() < DEPTH_MAX {
        let inode = directory_rows.u64(directories::INODE, at)?;
        let parent = directory_rows.u64(directories::PARENT, at)?;
        let first = directory_rows.u64(directories::ENTRY_FIRST, parent)?;
        let end = directory_rows.u64(directories::ENTRY_FIRST, parent + 1)?;
        let mut name = b"?".to_vec();
        for row in first..end {
            if entry_rows.u64(entries::INODE, row)? == inode {
                name = entry_rows.bytes(entries::NAME, row)?.to_vec();
                break;
            }
        }
        names.push(name);
        at = parent;
    }
    let mut path = Vec::new();
    for name in names.iter().rev() {
        path.extend_from_slice(name);
        path.push(b'/');
    }
    Ok(path)
}
