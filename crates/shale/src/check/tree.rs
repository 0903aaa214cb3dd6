//! The tables of one snapshot: every inode is reached as often as it says, directories form one
//! tree, names are sorted and possible, ids lead somewhere.
//!
//! Inodes and directories are numbered in the order in which a walk level by level meets them, so
//! one pass over the entries proves the tree: each entry leads either to the next new inode or,
//! for hard links, to one met before. Only inodes with several names need memory.

use std::collections::HashMap;

use shale_format::limits::{
    LINK_TARGET_LEN_MAX, NAME_LEN_MAX, XATTR_COUNT_MAX, XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::schema::{
    contents, directories, entries, inodes, symlinks, xattr_items, xattr_sets,
};
use shale_format::{InodeKind, InodeRecord, Root, Snapshot, Timestamp};
use shale_table::{Cursor, PageSource, Table};

use super::rows::{Shared, expect};
use super::scan::{Rows, scan};
use super::store::{PageFault, TablePages};
use super::{Checked, Context, beside};
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
        check_links(context, snapshot, &place("entries"))?;
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
        shared.content_count.and(content_table.as_ref()).map(|table| table.cursor());
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
                        let base = rows.u64(contents::BASE, record.payload)?;
                        let end = rows.u64(contents::BASE, record.payload + 1)?;
                        file_bytes = file_bytes.wrapping_add(end.wrapping_sub(base));
                    }
                }
                // Inodes are numbered level by level, so directories ascend among them.
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

/// Names as such; order within directories is checked with the links.
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

/// One walk level by level: order of names, order of inodes, parents, link counts.
fn check_links(context: &Context<'_>, snapshot: &Snapshot, place: &str) -> Result<(), Error> {
    match walk_links(context, snapshot, place) {
        Ok(result) => result,
        Err(fault) => {
            context.findings.add(place, None, fault.0);
            Ok(())
        }
    }
}

fn walk_links(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: &str,
) -> Result<Result<(), Error>, PageFault> {
    let store = context.store;
    let inode_pages = TablePages::new(store, &snapshot.inodes)?;
    let directory_pages = TablePages::new(store, &snapshot.directories)?;
    let entry_pages = TablePages::new(store, &snapshot.entries)?;
    let inode_table = Table::new(snapshot.inodes, &inodes::SCHEMA, &inode_pages)?;
    let directory_table = Table::new(snapshot.directories, &directories::SCHEMA, &directory_pages)?;
    let entry_table = Table::new(snapshot.entries, &entries::SCHEMA, &entry_pages)?;
    let mut inode_rows = inode_table.cursor();
    let mut parent_rows = inode_table.cursor();
    let mut directory_rows = directory_table.cursor();
    let mut child_rows = directory_table.cursor();
    let mut entry_rows = entry_table.cursor();
    let mut name_before = Vec::new();
    // Inodes with several names: names that are still to come.
    let mut links: HashMap<u64, u64> = HashMap::new();
    let mut next_inode = 2;
    let directory_count = snapshot.directories.row_count - 1;
    for directory in 0..directory_count {
        if let Err(cancelled) = context.check_cancel() {
            return Ok(Err(cancelled));
        }
        if context.findings.is_full() {
            return Ok(Ok(()));
        }
        let add = |what: String| context.findings.add(place, None, what);
        let first = directory_rows.u64(directories::ENTRY_FIRST, directory)?;
        let inode = directory_rows.u64(directories::INODE, directory)?;
        let end = directory_rows.u64(directories::ENTRY_FIRST, directory + 1)?;
        name_before.clear();
        let mut subdirectories = 0;
        for row in first..end {
            let name = entry_rows.bytes(entries::NAME, row)?;
            if row > first && name <= name_before.as_slice() {
                add(format!("row {row}: name `{}` is not in order", name.escape_ascii()));
            }
            name_before.clear();
            name_before.extend_from_slice(name);
            let target = entry_rows.u64(entries::INODE, row)?;
            if target > next_inode {
                add(format!("row {row}: inode is {target}, the next new one is {next_inode}"));
                return Ok(Ok(()));
            }
            let is_new = target == next_inode;
            let kind = kind_of(&mut inode_rows, target)?;
            if is_new {
                next_inode += 1;
                let link_count = inode_rows.u64(inodes::LINK_COUNT, target - 1)?;
                if kind != Some(InodeKind::Directory) && link_count > 1 {
                    links.insert(target, link_count - 1);
                }
            }
            if kind == Some(InodeKind::Directory) {
                subdirectories += 1;
                let index = inode_rows.u64(inodes::PAYLOAD, target - 1)?;
                let parent = child_rows.u64(directories::PARENT, index)?;
                let back = child_rows.u64(directories::INODE, index)?;
                if !is_new {
                    add(format!("row {row}: directory inode {target} has more than one name"));
                } else if parent != directory || back != target {
                    add(format!(
                        "row {row}: directory {index} belongs to inode {back} in directory \
                         {parent}, but inode {target} is here in {directory}"
                    ));
                }
            } else if !is_new {
                match links.get_mut(&target) {
                    Some(left) if *left > 0 => *left -= 1,
                    _ => add(format!("row {row}: inode {target} has more names than links")),
                }
                if links.get(&target) == Some(&0) {
                    // Kept, so that one name more is seen; it costs no more than it did.
                    continue;
                }
            }
        }
        let link_count = parent_rows.u64(inodes::LINK_COUNT, inode - 1)?;
        if link_count != subdirectories + 2 {
            add(format!(
                "directory inode {inode}: link count is {link_count}, expected {}",
                subdirectories + 2
            ));
        }
    }
    if next_inode != snapshot.inodes.row_count + 1 {
        context.findings.add(
            place,
            None,
            format!(
                "{} inodes are reached, there are {}",
                next_inode - 1,
                snapshot.inodes.row_count
            ),
        );
    }
    let mut missing: Vec<_> = links.into_iter().filter(|(_, left)| *left > 0).collect();
    missing.sort_unstable();
    for (inode, left) in missing {
        if context.findings.is_full() {
            break;
        }
        context.findings.add(place, None, format!("inode {inode}: {left} names are missing"));
    }
    Ok(Ok(()))
}

fn kind_of<S: PageSource>(
    inode_rows: &mut Cursor<'_, S>,
    inode: u64,
) -> Result<Option<InodeKind>, S::Error> {
    let mode = inode_rows.u64(inodes::MODE, inode - 1)?;
    Ok(u32::try_from(mode).ok().and_then(InodeKind::from_mode))
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

/// Items of a set are sorted by name, each name once. The items are read once, however many sets
/// share them.
fn check_xattr_order(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: &str,
) -> Result<(), PageFault> {
    let set_pages = TablePages::new(context.store, &snapshot.xattr_sets)?;
    let item_pages = TablePages::new(context.store, &snapshot.xattr_items)?;
    let set_table = Table::new(snapshot.xattr_sets, &xattr_sets::SCHEMA, &set_pages)?;
    let item_table = Table::new(snapshot.xattr_items, &xattr_items::SCHEMA, &item_pages)?;
    // Rows whose name is not above the one before: a set may begin there, but not go across.
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
