//! Checks the shared tables. Contents and extents cover their spaces without gap or overlap, frames
//! lie in their sections and keep within the limits and the stored bounds, and depth decreases
//! along references.

use std::collections::HashSet;

use shale_codec::{Codec, Filter};
use shale_format::limits::{PREFIX_LEN_MAX, SPACE_LEN_MAX};
use shale_format::schema::{
    REBUILT_SPACE_LEN_MAX, STREAM_HOLE, STREAM_REBUILT, STREAM_ZERO, chunks, contents, extents,
    frames, references,
};
use shale_format::{ChunkRecord, FormatError, FrameRecord, Root, SectionType};
use shale_table::{Cursor, Table};

use super::context::Context;
use super::report::Checked;
use super::scan::{Rows, scan};
use super::sections::Layout;
use super::store::{PageFault, TablePages};
use crate::error::Error;

/// Frames that one read may need, as in the reader. Only hostile images come near it; without a
/// limit they could make the search endless.
const FRAMES_PER_READ_MAX: usize = 65_536;

const CHUNK_COLUMNS: usize = chunks::SCHEMA.columns.len();

/// What later stages need to know of the shared tables.
pub(super) struct Shared<'a> {
    pub(super) layout: &'a Layout,
    /// Contents, without the sentinel; `None` if the table could not be read completely.
    pub(super) content_count: Option<u64>,
    /// Frames, without the sentinel, that can be decoded; `None` if their table could not be read
    /// completely.
    pub(super) frame_count: Option<u64>,
}

pub(super) fn check<'a>(
    context: &Context<'_>,
    root: &Root,
    layout: &'a Layout,
    checked: &mut Checked,
) -> Result<Shared<'a>, Error> {
    let (content_count, content_total) = check_contents(context, root, layout, checked)?;
    let (frame_count, stream_total) = check_frames(context, root, layout, checked)?;
    let rebuilt_total = check_chunks(context, root, layout, checked, content_count)?;
    let totals = Totals { content: content_total, stream: stream_total, rebuilt: rebuilt_total };
    check_extents(context, root, layout, checked, &totals)?;
    check_references(context, root, layout, checked, frame_count)?;
    Ok(Shared { layout, content_count, frame_count })
}

/// Rows and total of a table of ascending starts; `None` if it could not be read completely.
type CountAndTotal = (Option<u64>, Option<u64>);

/// Where spaces end; `None` where a table could not be read completely.
struct Totals {
    content: Option<u64>,
    stream: Option<u64>,
    rebuilt: Option<u64>,
}

fn check_contents(
    context: &Context<'_>,
    root: &Root,
    layout: &Layout,
    checked: &mut Checked,
) -> Result<CountAndTotal, Error> {
    const PLACE: &str = "table contents";
    let mut previous: Option<u64> = None;
    let visit = |rows: Rows<'_>| {
        for (at, &base) in rows.integers[contents::BASE].iter().enumerate() {
            let row = rows.first_row + at as u64;
            match previous {
                // Content 0 is the empty one: rows 0 and 1 both begin at 0.
                None | Some(0) if row <= 1 => {
                    expect(row, "base", base, base == 0, "0")?;
                }
                Some(before) => {
                    expect(row, "base", base, base > before, "above the row before")?;
                }
                None => {}
            }
            expect(row, "base", base, base <= SPACE_LEN_MAX, "inside content space")?;
            previous = Some(base);
        }
        Ok(())
    };
    let complete = scan(context, PLACE, &root.contents, &contents::SCHEMA, layout, checked, visit)?;
    if root.contents.row_count < 2 {
        let rows = root.contents.row_count;
        context.findings.add(
            PLACE,
            None,
            format!("it has {rows} rows; at least the empty content and the end are needed"),
        );
        return Ok((None, None));
    }
    Ok(if complete { (Some(root.contents.row_count - 1), previous) } else { (None, None) })
}

fn check_extents(
    context: &Context<'_>,
    root: &Root,
    layout: &Layout,
    checked: &mut Checked,
    totals: &Totals,
) -> Result<(), Error> {
    const PLACE: &str = "table extents";
    // Base and stream offset of the previous row.
    let mut previous: Option<(u64, u64)> = None;
    let mut last_row = 0;
    let visit = |rows: Rows<'_>| {
        let bases = &rows.integers[extents::BASE];
        let streams = &rows.integers[extents::STREAM];
        for (at, (&base, &stream)) in bases.iter().zip(streams).enumerate() {
            let row = rows.first_row + at as u64;
            match previous {
                None => expect(row, "base", base, base == 0, "0")?,
                Some((before, start)) => {
                    expect(row, "base", base, base > before, "above the row before")?;
                    let (total, what) = match start {
                        STREAM_HOLE | STREAM_ZERO => (None, ""),
                        STREAM_REBUILT.. => {
                            let total = totals.rebuilt.map(|total| STREAM_REBUILT + total);
                            (total, "inside rebuilt space")
                        }
                        _ => (totals.stream, "inside stream space"),
                    };
                    if let Some(total) = total {
                        let end = start.checked_add(base - before);
                        let inside = end.is_some_and(|end| end <= total);
                        expect(row - 1, "stream", start, inside, what)?;
                    }
                }
            }
            previous = Some((base, stream));
            last_row = row;
        }
        Ok(())
    };
    let complete = scan(context, PLACE, &root.extents, &extents::SCHEMA, layout, checked, visit)?;
    if complete && let Some(total) = totals.content {
        let end = previous.map(|(base, _)| base);
        if end != Some(total) {
            let found = end.map_or("there is none".to_owned(), |end| format!("it is {end}"));
            context.findings.add(
                PLACE,
                None,
                format!("the end of its last extent should be the {total} bytes of all contents, {found}"),
            );
        }
    }
    Ok(())
}

/// Checks the table of chunks and returns where rebuilt space ends.
fn check_chunks(
    context: &Context<'_>,
    root: &Root,
    layout: &Layout,
    checked: &mut Checked,
    content_count: Option<u64>,
) -> Result<Option<u64>, Error> {
    const PLACE: &str = "table chunks";
    if !root.has_chunks() {
        return Ok(Some(0));
    }
    let mut previous: Option<[u64; CHUNK_COLUMNS]> = None;
    let visit = |rows: Rows<'_>| {
        for at in 0..rows.integers[chunks::BASE].len() {
            let row = rows.first_row + at as u64;
            let mut columns = [0; CHUNK_COLUMNS];
            for (column, value) in columns.iter_mut().enumerate() {
                *value = rows.integers[column][at];
            }
            let base = columns[chunks::BASE];
            match previous.take() {
                None => expect(row, "base", base, row > 0 || base == 0, "0")?,
                Some(before) => {
                    let record = ChunkRecord::from_columns(&before, base)
                        .map_err(|error| row_fault(row - 1, &error))?;
                    let content = record.content;
                    let is_there = content_count.is_none_or(|count| content < count);
                    expect(row - 1, "content", content, is_there, "an existing content")?;
                }
            }
            let is_inside = base <= REBUILT_SPACE_LEN_MAX;
            expect(row, "base", base, is_inside, "inside rebuilt space")?;
            previous = Some(columns);
        }
        Ok(())
    };
    let complete = scan(context, PLACE, &root.chunks, &chunks::SCHEMA, layout, checked, visit)?;
    Ok(previous.filter(|_| complete).map(|last| last[chunks::BASE]))
}

fn check_frames(
    context: &Context<'_>,
    root: &Root,
    layout: &Layout,
    checked: &mut Checked,
) -> Result<CountAndTotal, Error> {
    const PLACE: &str = "table frames";
    let bounds = root.bounds;
    let sentinel = root.frames.row_count.saturating_sub(1);
    let mut previous: Option<(u64, [u64; 10])> = None;
    let mut stored_end = 0;
    let visit = |rows: Rows<'_>| {
        for at in 0..rows.integers[frames::PLAIN_START].len() {
            let row = rows.first_row + at as u64;
            let mut columns = [0; 10];
            for (column, value) in columns.iter_mut().enumerate() {
                *value = rows.integers[column][at];
            }
            let start = columns[frames::PLAIN_START];
            if let Some((row, columns)) = previous.take() {
                let record = FrameRecord::from_columns(&columns, start)
                    .map_err(|error| row_fault(row, &error))?;
                check_frame(row, &record, root, layout, &mut stored_end)?;
                let len_max = bounds.frame_plain_len_max;
                let len = record.plain_len;
                expect(row, "plain length", len, len <= len_max, "the bound in the root")?;
            } else {
                expect(row, "plain start", start, start == 0 || row > 0, "0")?;
            }
            expect(row, "plain start", start, start <= SPACE_LEN_MAX, "in stream space")?;
            previous = Some((row, columns));
        }
        Ok(())
    };
    let complete = scan(context, PLACE, &root.frames, &frames::SCHEMA, layout, checked, visit)?;
    if root.frames.row_count == 0 {
        context.findings.add(PLACE, None, "it has no rows; at least the end is needed");
        return Ok((None, None));
    }
    let total = previous.map(|(_, columns)| columns[frames::PLAIN_START]);
    Ok(if complete { (Some(sentinel), total) } else { (None, None) })
}

fn check_frame(
    row: u64,
    record: &FrameRecord,
    root: &Root,
    layout: &Layout,
    stored_end: &mut u64,
) -> Result<(), PageFault> {
    let FrameRecord { stored_offset, stored_len, codec, filter, depth, .. } = *record;
    let inside = layout.may_hold(SectionType::Frames, stored_offset, stored_len);
    expect(row, "stored offset", stored_offset, inside, "inside a section of frames")?;
    // Frames follow each other, so they share no bytes, and the image bounds their number.
    let follows = stored_offset >= *stored_end && stored_len > 0;
    expect(row, "stored offset", stored_offset, follows, "after the frame before")?;
    *stored_end = stored_offset + stored_len;
    let plain_len = record.plain_len;
    expect(row, "plain length", plain_len, plain_len > 0, "above 0")?;
    let known = Codec::from_id(codec).is_some();
    expect(row, "codec", u64::from(codec), known, "a known codec; use a newer shale")?;
    let known = Filter::from_id(filter);
    expect(row, "filter", u64::from(filter), known.is_some(), "a known filter; use a newer shale")?;
    let alone = known.is_some_and(|filter| !filter.is_in_place());
    let count = record.reference_count;
    let fits = !alone || count == 0;
    expect(
        row,
        "reference count",
        u64::from(count),
        fits,
        "0 for a frame of lines or of an array",
    )?;
    let bound = root.bounds.depth_max;
    expect(row, "depth", u64::from(depth), depth <= bound, "the bound in the root")?;
    let bound = u32::from(root.bounds.reference_count_max);
    expect(row, "reference count", u64::from(count), count <= bound, "the bound in the root")?;
    let end = record.reference_first.checked_add(u64::from(count));
    let inside = count == 0 || end.is_some_and(|end| end <= root.references.row_count);
    expect(row, "first reference", record.reference_first, inside, "in the table")
}

/// Checks that references name existing frames; then, for each frame, that depth decreases and that
/// no read costs more than the root says.
fn check_references(
    context: &Context<'_>,
    root: &Root,
    layout: &Layout,
    checked: &mut Checked,
    frame_count: Option<u64>,
) -> Result<(), Error> {
    const PLACE: &str = "table references";
    let visit = |rows: Rows<'_>| {
        for (at, &frame) in rows.integers[references::FRAME].iter().enumerate() {
            let row = rows.first_row + at as u64;
            let known = frame_count.is_none_or(|count| frame < count);
            expect(row, "frame", frame, known, "a frame of the image")?;
        }
        Ok(())
    };
    let complete =
        scan(context, PLACE, &root.references, &references::SCHEMA, layout, checked, visit)?;
    let (Some(frame_count), true) = (frame_count, complete && root.references.row_count > 0) else {
        return Ok(());
    };
    let (Ok(frame_pages), Ok(reference_pages)) = (
        TablePages::new(context.store, &root.frames),
        TablePages::new(context.store, &root.references),
    ) else {
        return Ok(());
    };
    let (Ok(frame_table), Ok(reference_table)) = (
        Table::new(root.frames, &frames::SCHEMA, &frame_pages),
        Table::new(root.references, &references::SCHEMA, &reference_pages),
    ) else {
        return Ok(());
    };
    let mut near = frame_table.cursor();
    let mut far = frame_table.cursor();
    let mut list = reference_table.cursor();
    for frame in 0..frame_count {
        if frame % 4096 == 0 {
            context.check_cancel()?;
        }
        let result = check_cost(frame, root, &mut near, &mut far, &mut list);
        if let Err(fault) = result {
            if context.findings.is_full() {
                break;
            }
            context.findings.add(format!("frame {frame}"), None, fault.0);
        }
    }
    Ok(())
}

type Rowwise<'t, 's> = Cursor<'t, TablePages<'s>>;

fn check_cost(
    frame: u64,
    root: &Root,
    near: &mut Rowwise<'_, '_>,
    far: &mut Rowwise<'_, '_>,
    list: &mut Rowwise<'_, '_>,
) -> Result<(), PageFault> {
    let record = record(near, frame)?;
    if record.reference_count == 0 {
        return Ok(());
    }
    let mut prefix_len = 0u64;
    // All frames below, each counted once.
    let mut seen = HashSet::from([frame]);
    let mut cost = record.plain_len;
    let mut open = vec![(record, true)];
    while let Some((at, is_own)) = open.pop() {
        for row in 0..u64::from(at.reference_count) {
            let reference = list.u64(references::FRAME, at.reference_first + row)?;
            let below = self::record(far, reference)?;
            if below.depth >= at.depth {
                return Err(PageFault(format!(
                    "its references include frame {reference} of depth {}, allowed is below {}",
                    below.depth, at.depth
                )));
            }
            if is_own {
                prefix_len += below.plain_len;
            }
            if seen.insert(reference) {
                if seen.len() > FRAMES_PER_READ_MAX {
                    return Err(PageFault(format!(
                        "reading it decodes more than {FRAMES_PER_READ_MAX} frames"
                    )));
                }
                cost = cost.saturating_add(below.plain_len);
                if cost > root.bounds.read_bytes_max {
                    return Err(PageFault(format!(
                        "reading it decodes {cost} bytes or more, the bound in the root is {}",
                        root.bounds.read_bytes_max
                    )));
                }
                open.push((below, false));
            }
        }
    }
    if prefix_len > PREFIX_LEN_MAX {
        return Err(PageFault(format!("its prefix is {prefix_len} bytes, allowed is 128 MiB")));
    }
    Ok(())
}

/// Reads the record of a frame through a cursor.
pub(super) fn record(cursor: &mut Rowwise<'_, '_>, frame: u64) -> Result<FrameRecord, PageFault> {
    let mut columns = [0; 10];
    for (column, value) in columns.iter_mut().enumerate() {
        *value = cursor.u64(column, frame)?;
    }
    let next = cursor.u64(frames::PLAIN_START, frame + 1)?;
    FrameRecord::from_columns(&columns, next).map_err(|error| PageFault(error.to_string()))
}

/// Fails if a value is not allowed.
pub(super) fn expect(
    row: u64,
    field: &str,
    found: u64,
    is_right: bool,
    allowed: &str,
) -> Result<(), PageFault> {
    if is_right {
        return Ok(());
    }
    Err(PageFault(format!("row {row}: {field} is {found}, allowed is {allowed}")))
}

fn row_fault(row: u64, error: &FormatError) -> PageFault {
    PageFault(format!("row {row}: {error}"))
}
