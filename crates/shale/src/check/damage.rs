//! From damaged frames to the paths of files whose bytes they held.
//!
//! Frames give ranges of stream space, extents turn these into ranges of content space, contents
//! into ids, inodes and entries into paths. Tables that are themselves damaged end the search
//! where they are; their problems are reported already.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shale_format::schema::{
    STREAM_HOLE, STREAM_ZERO, contents, directories, entries, extents, frames, inodes,
};
use shale_format::{InodeKind, Root, Snapshot};
use shale_table::{Cursor, Schema, Table, TableRoot};

use super::store::{PageFault, TablePages};
use super::{Context, DAMAGED_PATH_COUNT_MAX, DamagedPath};
use crate::error::Error;

/// Damaged contents that are followed to their paths; bounds memory when all is damaged.
const CONTENT_COUNT_MAX: usize = 1 << 20;
/// Directories on the way to a damaged path; deeper ones are shown from there on.
const DEPTH_MAX: usize = 4096;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    pub(super) paths: Vec<DamagedPath>,
    pub(super) count: u64,
}

/// How much of a content is damaged.
#[derive(Debug, Clone, Copy)]
struct Hit {
    bytes: u64,
    first_offset: u64,
}

/// The paths that `damaged` frames hit, in all snapshots.
pub(super) fn paths(
    context: &Context<'_>,
    root: &Root,
    damaged: &BTreeSet<u64>,
) -> Result<Damaged, Error> {
    let mut found = Damaged::default();
    let Ok(hits) = damaged_contents(context, root, damaged) else { return Ok(found) };
    for snapshot in &root.snapshots {
        context.check_cancel()?;
        // A damaged table ends this snapshot's search; the table's problem is reported.
        let _ = snapshot_paths(context, snapshot, &hits, &mut found);
    }
    Ok(found)
}

fn open<'t, 's>(
    pages: &'t TablePages<'s>,
    root: &TableRoot,
    schema: &'static Schema,
) -> Result<Cursor<'t, TablePages<'s>>, PageFault> {
    Ok(Table::new(*root, schema, pages)?.cursor())
}

fn damaged_contents(
    context: &Context<'_>,
    root: &Root,
    damaged: &BTreeSet<u64>,
) -> Result<BTreeMap<u64, Hit>, PageFault> {
    let store = &context.store;
    let frame_pages = TablePages::new(store, &root.frames)?;
    let mut frame_rows = open(&frame_pages, &root.frames, &frames::SCHEMA)?;
    // Ranges of stream space, ascending, those that touch joined.
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &frame in damaged {
        let start = frame_rows.u64(frames::PLAIN_START, frame)?;
        let end = frame_rows.u64(frames::PLAIN_START, frame + 1)?;
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    let extent_pages = TablePages::new(store, &root.extents)?;
    let mut extent_rows = open(&extent_pages, &root.extents, &extents::SCHEMA)?;
    let content_pages = TablePages::new(store, &root.contents)?;
    let mut content_rows = open(&content_pages, &root.contents, &contents::SCHEMA)?;
    let mut hits = BTreeMap::new();
    for row in 0..root.extents.row_count.saturating_sub(1) {
        if context.check_cancel().is_err() {
            break;
        }
        let stream = extent_rows.u64(extents::STREAM, row)?;
        if stream == STREAM_HOLE || stream == STREAM_ZERO {
            continue;
        }
        let base = extent_rows.u64(extents::BASE, row)?;
        let end = extent_rows.u64(extents::BASE, row + 1)?;
        let stream_end = stream.saturating_add(end.saturating_sub(base));
        let from = ranges.partition_point(|range| range.1 <= stream);
        for &(start, stop) in ranges[from..].iter().take_while(|range| range.0 < stream_end) {
            let from = base + (start.max(stream) - stream);
            let to = base + (stop.min(stream_end) - stream);
            add_contents(&mut content_rows, root.contents.row_count, from, to, &mut hits)?;
            if hits.len() >= CONTENT_COUNT_MAX {
                return Ok(hits);
            }
        }
    }
    Ok(hits)
}

/// Adds the contents in the range `from..to` of content space.
fn add_contents(
    rows: &mut Cursor<'_, TablePages<'_>>,
    row_count: u64,
    from: u64,
    to: u64,
    hits: &mut BTreeMap<u64, Hit>,
) -> Result<(), PageFault> {
    let Some(mut content) = rows.search_u64(from)? else { return Ok(()) };
    while content + 1 < row_count && hits.len() < CONTENT_COUNT_MAX {
        let base = rows.u64(contents::BASE, content)?;
        let end = rows.u64(contents::BASE, content + 1)?;
        if base >= to {
            break;
        }
        let (start, stop) = (from.max(base), to.min(end));
        if start < stop {
            let first_offset = start - base;
            let hit = hits.entry(content).or_insert(Hit { bytes: 0, first_offset });
            hit.bytes += stop - start;
            hit.first_offset = hit.first_offset.min(first_offset);
        }
        content += 1;
    }
    Ok(())
}

fn snapshot_paths(
    context: &Context<'_>,
    snapshot: &Snapshot,
    hits: &BTreeMap<u64, Hit>,
    found: &mut Damaged,
) -> Result<(), PageFault> {
    let store = &context.store;
    let inode_pages = TablePages::new(store, &snapshot.inodes)?;
    let mut inode_rows = open(&inode_pages, &snapshot.inodes, &inodes::SCHEMA)?;
    let mut inode_hits = HashMap::new();
    for row in 0..snapshot.inodes.row_count {
        if row % 4096 == 0 && context.check_cancel().is_err() {
            return Ok(());
        }
        let mode = inode_rows.u64(inodes::MODE, row)?;
        let kind = u32::try_from(mode).ok().and_then(InodeKind::from_mode);
        if kind == Some(InodeKind::File)
            && let Some(hit) = hits.get(&inode_rows.u64(inodes::PAYLOAD, row)?)
        {
            inode_hits.insert(row + 1, *hit);
        }
    }
    let directory_pages = TablePages::new(store, &snapshot.directories)?;
    let mut directory_rows = open(&directory_pages, &snapshot.directories, &directories::SCHEMA)?;
    let entry_pages = TablePages::new(store, &snapshot.entries)?;
    let mut entry_rows = open(&entry_pages, &snapshot.entries, &entries::SCHEMA)?;
    let mut far_rows = open(&entry_pages, &snapshot.entries, &entries::SCHEMA)?;
    // Hits mostly come many to a directory, and its path is not cheap.
    let mut prefix: Option<(u64, Vec<u8>)> = None;
    for directory in 0..snapshot.directories.row_count.saturating_sub(1) {
        if context.check_cancel().is_err() {
            return Ok(());
        }
        let first = directory_rows.u64(directories::ENTRY_FIRST, directory)?;
        let end = directory_rows.u64(directories::ENTRY_FIRST, directory + 1)?;
        for row in first..end {
            let inode = entry_rows.u64(entries::INODE, row)?;
            let Some(hit) = inode_hits.get(&inode) else { continue };
            found.count += 1;
            if found.paths.len() >= DAMAGED_PATH_COUNT_MAX {
                continue;
            }
            if prefix.as_ref().is_none_or(|(of, _)| *of != directory) {
                let path = directory_path(&mut directory_rows, &mut far_rows, directory)?;
                prefix = Some((directory, path));
            }
            let mut path = prefix.as_ref().map(|(_, path)| path.clone()).unwrap_or_default();
            path.extend_from_slice(entry_rows.bytes(entries::NAME, row)?);
            found.paths.push(DamagedPath {
                snapshot: snapshot.name.clone(),
                path,
                damaged_bytes: hit.bytes,
                first_offset: hit.first_offset,
            });
        }
    }
    Ok(())
}

/// Path of a directory with a slash at its end; empty for the root. Searches the entries of each
/// directory above for the one that leads down.
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
