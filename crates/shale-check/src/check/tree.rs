//! Checks the tables of one snapshot. First each table separately: ids exist, names are valid,
//! inodes hold only what their kind allows. Then the tables against each other.

use shale_format::limits::{
    LINK_TARGET_LEN_MAX, NAME_LEN_MAX, XATTR_COUNT_MAX, XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::schema::{
    contents, directories, entries, inodes, symlinks, xattr_items, xattr_sets,
};
use shale_format::{InodeKind, InodeRecord, Root, Snapshot, Timestamp};
use shale_table::Table;

use super::context::{Context, beside};
use super::links;
use super::report::Checked;
use super::rows::{Shared, expect};
use super::scan::{Rows, scan};
use super::store::{PageFault, TablePages};
use crate::error::Error;

pub(super) fn check(
    context: &Context<'_>,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
    root: &Root,
    checked: &mut Checked,
) -> Result<(), Error> {
    let name = match snapshot.name.is_empty() {
        true => String::new(),
        false => format!(" of snapshot `{}`", snapshot.name.escape_ascii()),
    };
    let place = |table: &str| format!("table {table}{name}");
    let attributes = |context: &Context<'_>, checked: &mut Checked| {
        check_xattrs(context, snapshot, shared, checked, &place)?;
        check_symlinks(context, snapshot, shared, checked, &place("symlinks"))?;
        check_inodes(context, snapshot, shared, root, checked, &place("inodes"))
    };
    let names = |context: &Context<'_>, checked: &mut Checked| {
        let directories =
            check_directories(context, snapshot, shared, checked, &place("directories"))?;
        let entries = check_names(context, snapshot, shared, checked, &place("entries"))?;
        Ok(directories && entries)
    };
    let (attributes_whole, names_whole) = beside(context, checked, attributes, names)?;
    checked.inodes += snapshot.inodes.row_count;
    checked.entries += snapshot.entries.row_count;
    if attributes_whole && names_whole {
        links::check(context, snapshot, checked, &place("entries"))?;
    } else {
        context.findings.add(
            place("entries"),
            None,
            "whether all inodes are reached was not checked, as their tables are damaged",
        );
    }
    Ok(())
}

fn check_inodes(
    context: &Context<'_>,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
    root: &Root,
    checked: &mut Checked,
    place: &str,
) -> Result<bool, Error> {
    let directory_count = snapshot.directories.row_count.saturating_sub(1);
    // Sizes are sums over the table of contents; without it they are not checked.
    let content_pages = TablePages::new(context.store, &root.contents).ok();
    let content_table = content_pages
        .as_ref()
        .and_then(|pages| Table::new(root.contents, &contents::SCHEMA, pages).ok());
    let mut content_rows =
        shared.content_count.and(content_table.as_ref()).map(|table| table.column(contents::BASE));
    let mut file_bytes = 0u64;
    let mut next_directory = 0;
    let visit = |rows: Rows<'_>| {
        for at in 0..rows.integers[inodes::MODE].len() {
            let inode = rows.first_row + at as u64 + 1;
            let mut columns = [0; 14];
            for (column, value) in columns.iter_mut().enumerate() {
                *value = rows.integers[column][at];
            }
            let record = InodeRecord::from_columns(&columns)
                .map_err(|error| PageFault(format!("inode {inode}: {error}")))?;
            check_inode(inode, &record, snapshot, shared)?;
            match record.kind {
                InodeKind::File => {
                    if let Some(rows) = &mut content_rows
                        && shared.content_count.is_some_and(|count| record.payload < count)
                    {
                        let base = rows.u64(record.payload)?;
                        let end = rows.u64(record.payload + 1)?;
                        file_bytes = file_bytes.wrapping_add(end.wrapping_sub(base));
                    }
                }
                // Inodes are numbered breadth first, so directories ascend among them.
                InodeKind::Directory => {
                    let is_next = record.payload == next_directory;
                    field(inode, "directory index", record.payload, is_next, "the next one")?;
                    next_directory += 1;
                }
                _ => {}
            }
        }
        Ok(())
    };
    let complete =
        scan(context, place, &snapshot.inodes, &inodes::SCHEMA, shared.layout, checked, visit)?;
    if complete && next_directory != directory_count {
        context.findings.add(
            place,
            None,
            format!("{next_directory} inodes are directories, their table has {directory_count}"),
        );
    }
    if complete && content_rows.is_some() && file_bytes != snapshot.file_bytes {
        context.findings.add(
            "root",
            None,
            format!("file bytes are {}, the files have {file_bytes}", snapshot.file_bytes),
        );
    }
    Ok(complete)
}

fn check_inode(
    inode: u64,
    record: &InodeRecord,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
) -> Result<(), PageFault> {
    let payload = record.payload;
    let field = |name, found, is_right, allowed| field(inode, name, found, is_right, allowed);
    field("link count", record.link_count, record.link_count > 0, "1 or more")?;
    let sets = snapshot.xattr_sets.row_count;
    field("xattr set", record.xattr_set, record.xattr_set <= sets, "a row of its table")?;
    match record.kind {
        InodeKind::File => {
            let known = shared.content_count.is_none_or(|count| payload < count);
            field("content", payload, known, "a row of the table of contents")?;
        }
        InodeKind::Directory => {}
        InodeKind::Symlink => {
            let known = payload < snapshot.symlinks.row_count;
            field("symlink", payload, known, "a row of the table of symlinks")?;
        }
        InodeKind::BlockDevice | InodeKind::CharDevice => {}
        InodeKind::Fifo | InodeKind::Socket => field("payload", payload, payload == 0, "0")?,
    }
    for (bit, name, time) in [
        (TIME_MTIME, "mtime", record.mtime),
        (TIME_ATIME, "atime", record.atime),
        (TIME_CTIME, "ctime", record.ctime),
        (TIME_BTIME, "btime", record.btime),
    ] {
        let is_right = snapshot.times_kept & bit != 0 || time == Timestamp::default();
        field(name, time.sec as u64, is_right, "0, as the snapshot does not keep it")?;
    }
    Ok(())
}

fn check_directories(
    context: &Context<'_>,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
    checked: &mut Checked,
    place: &str,
) -> Result<bool, Error> {
    let entry_count = snapshot.entries.row_count;
    let inode_count = snapshot.inodes.row_count;
    let sentinel = snapshot.directories.row_count.saturating_sub(1);
    let mut previous = (0, 0);
    let visit = |rows: Rows<'_>| {
        for at in 0..rows.integers[directories::ENTRY_FIRST].len() {
            let row = rows.first_row + at as u64;
            let first = rows.integers[directories::ENTRY_FIRST][at];
            let is_right = first >= previous.0 && (row > 0 || first == 0) && first <= entry_count;
            expect(row, "first entry", first, is_right, "ascending from 0")?;
            if row == sentinel {
                let is_right = first == entry_count;
                expect(row, "first entry", first, is_right, "the number of entries")?;
                continue;
            }
            let inode = rows.integers[directories::INODE][at];
            let ascends = if row == 0 { inode == 1 } else { inode > previous.1 };
            let is_right = ascends && inode <= inode_count;
            expect(row, "inode", inode, is_right, "ascending from 1")?;
            let parent = rows.integers[directories::PARENT][at];
            let is_right = parent < row || (row == 0 && parent == 0);
            expect(row, "parent", parent, is_right, "a directory before it")?;
            previous = (first, inode);
        }
        Ok(())
    };
    let table = &snapshot.directories;
    let complete =
        scan(context, place, table, &directories::SCHEMA, shared.layout, checked, visit)?;
    if table.row_count < 2 {
        let rows = table.row_count;
        let what =
            format!("it has {rows} rows; at least the root directory and the end are needed");
        context.findings.add(place, None, what);
        return Ok(false);
    }
    Ok(complete)
}

/// Checks that names are valid; the links stage checks their order within directories.
fn check_names(
    context: &Context<'_>,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
    checked: &mut Checked,
    place: &str,
) -> Result<bool, Error> {
    let inode_count = snapshot.inodes.row_count;
    let visit = |rows: Rows<'_>| {
        let mut result = Ok(());
        rows.page.scan_bytes(entries::NAME, 0..rows.page.row_count(), |row, name| {
            if let Some(what) = wrong_name(name) {
                let row = rows.first_row + row as u64;
                result =
                    Err(PageFault(format!("row {row}: name `{}` {what}", name.escape_ascii())));
            }
            result.is_ok()
        })?;
        result?;
        for (at, &inode) in rows.integers[entries::INODE].iter().enumerate() {
            let row = rows.first_row + at as u64;
            let known = inode >= 2 && inode <= inode_count;
            expect(row, "inode", inode, known, "an inode but the root")?;
        }
        Ok(())
    };
    scan(context, place, &snapshot.entries, &entries::SCHEMA, shared.layout, checked, visit)
}

fn wrong_name(name: &[u8]) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > NAME_LEN_MAX {
        Some("is longer than 255 bytes")
    } else if name.contains(&b'/') || name.contains(&0) {
        Some("holds a slash or a zero byte")
    } else if name == b"." || name == b".." {
        Some("is reserved")
    } else {
        None
    }
}

fn check_symlinks(
    context: &Context<'_>,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
    checked: &mut Checked,
    place: &str,
) -> Result<(), Error> {
    let visit = |rows: Rows<'_>| {
        let mut result = Ok(());
        rows.page.scan_bytes(symlinks::TARGET, 0..rows.page.row_count(), |row, target| {
            let len = target.len();
            if len == 0 || len > LINK_TARGET_LEN_MAX || target.contains(&0) {
                let row = rows.first_row + row as u64;
                result = Err(PageFault(format!(
                    "row {row}: target is {len} bytes, allowed is 1 to 4095 without zero bytes"
                )));
            }
            result.is_ok()
        })?;
        result
    };
    scan(context, place, &snapshot.symlinks, &symlinks::SCHEMA, shared.layout, checked, visit)?;
    Ok(())
}

fn check_xattrs(
    context: &Context<'_>,
    snapshot: &Snapshot,
    shared: &Shared<'_>,
    checked: &mut Checked,
    place: &impl Fn(&str) -> String,
) -> Result<(), Error> {
    let item_count = snapshot.xattr_items.row_count;
    let set_place = place("xattr_sets");
    let visit = |rows: Rows<'_>| {
        for at in 0..rows.integers[xattr_sets::ITEM_FIRST].len() {
            let row = rows.first_row + at as u64;
            let first = rows.integers[xattr_sets::ITEM_FIRST][at];
            let count = rows.integers[xattr_sets::ITEM_COUNT][at];
            let is_right = (1..=XATTR_COUNT_MAX).contains(&count)
                && first.checked_add(count).is_some_and(|end| end <= item_count);
            expect(row, "item count", count, is_right, "within the table of items")?;
        }
        Ok(())
    };
    let table = &snapshot.xattr_sets;
    let sets_whole =
        scan(context, &set_place, table, &xattr_sets::SCHEMA, shared.layout, checked, visit)?;
    let item_place = place("xattr_items");
    let visit = |rows: Rows<'_>| {
        let mut result = Ok(());
        let row_count = rows.page.row_count();
        let fault = |row: usize, what: &str| {
            Err(PageFault(format!("row {}: {what}", rows.first_row + row as u64)))
        };
        rows.page.scan_bytes(xattr_items::NAME, 0..row_count, |row, name| {
            if name.is_empty() || name.len() > XATTR_NAME_LEN_MAX || name.contains(&0) {
                result = fault(row, "its name is not 1 to 255 bytes without zero bytes");
            }
            result.is_ok()
        })?;
        rows.page.scan_bytes(xattr_items::VALUE, 0..row_count, |row, value| {
            if value.len() > XATTR_VALUE_LEN_MAX {
                result = fault(row, "its value is longer than 65536 bytes");
            }
            result.is_ok()
        })?;
        result
    };
    let table = &snapshot.xattr_items;
    let items_whole =
        scan(context, &item_place, table, &xattr_items::SCHEMA, shared.layout, checked, visit)?;
    if sets_whole
        && items_whole
        && let Err(fault) = check_xattr_order(context, snapshot, &set_place)
    {
        context.findings.add(set_place, None, fault.0);
    }
    Ok(())
}

/// Checks that the items of a set are sorted by name and that no name repeats. The items are read
/// once, however many sets share them.
fn check_xattr_order(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: &str,
) -> Result<(), PageFault> {
    let set_pages = TablePages::new(context.store, &snapshot.xattr_sets)?;
    let item_pages = TablePages::new(context.store, &snapshot.xattr_items)?;
    let set_table = Table::new(snapshot.xattr_sets, &xattr_sets::SCHEMA, &set_pages)?;
    let item_table = Table::new(snapshot.xattr_items, &xattr_items::SCHEMA, &item_pages)?;
    // Rows whose name is not greater than the previous one: a set may begin there, but not contain
    // that boundary.
    let mut breaks = Vec::new();
    let mut before = Vec::new();
    item_table.scan_bytes(xattr_items::NAME, 0..item_table.row_count(), |row, name| {
        if row > 0 && name <= before.as_slice() {
            breaks.push(row);
        }
        before.clear();
        before.extend_from_slice(name);
        true
    })?;
    let mut sets = set_table.cursor();
    for set in 0..set_table.row_count() {
        if context.findings.is_full() {
            break;
        }
        let first = sets.u64(xattr_sets::ITEM_FIRST, set)?;
        let end = first.saturating_add(sets.u64(xattr_sets::ITEM_COUNT, set)?);
        let next = breaks.partition_point(|&row| row <= first);
        if let Some(row) = breaks.get(next).filter(|&&row| row < end) {
            let what = format!("row {set}: its item in row {row} is not in order");
            context.findings.add(place, None, what);
        }
    }
    Ok(())
}

fn field(
    inode: u64,
    name: &str,
    found: u64,
    is_right: bool,
    allowed: &str,
) -> Result<(), PageFault> {
    match is_right {
        true => Ok(()),
        false => Err(PageFault(format!("inode {inode}: {name} is {found}, allowed is {allowed}"))),
    }
}
