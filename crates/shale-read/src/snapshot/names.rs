//! From an inode back to a path that leads to it.
//!
//! An image has no table from inodes to names, because level order makes one needless. An inode
//! gets its number from its first name. So the row of that name is at least the number of inodes
//! numbered before it, and greater by at most the number of additional hard links.

use shale_format::InodeKind;
use shale_format::limits::PATH_LEN_MAX;
use shale_format::schema::{directories, entries};

use crate::error::{ErrorContext, Expected, ReadError, contradiction, value};
use crate::snapshot::entry_order::check_name;
use crate::snapshot::listing::list;
use crate::snapshot::tables::{ROOT_INODE, SnapshotTables};

/// Entries compared at once.
const ROWS: u64 = 512;
/// Entries scanned if a search did not find one: some hundredths of a second. Only an image made
/// to take long needs more.
const SCAN_MAX: u64 = 1 << 22;

/// A path from the root to an inode; see [`crate::Tree::path_of`].
pub(crate) fn path_of(tables: &SnapshotTables, inode: u64) -> Result<Vec<u8>, ReadError> {
    climb(inode, "inode", |inode| name_of(tables, inode))
}

/// The path of a directory; see [`crate::Tree::directory_path`].
pub(crate) fn directory_path(tables: &SnapshotTables, inode: u64) -> Result<Vec<u8>, ReadError> {
    // Ends at the root: `parent` returns ever smaller numbers.
    climb(inode, "directory inode", |inode| {
        let parent = tables.parent(inode)?;
        Ok((name_in(tables, parent, inode)?, parent))
    })
}

/// A name that leads to an inode, and its directory; see [`crate::Tree::name_of`].
pub(crate) fn name_of(tables: &SnapshotTables, inode: u64) -> Result<(Vec<u8>, u64), ReadError> {
    let (kind, payload) = tables.kind_and_payload(inode)?;
    let found = || -> Result<(Vec<u8>, u64), ReadError> {
        let Some(row) = entry_to(tables, inode)? else {
            return Err(contradiction("no entry was found to lead to it"));
        };
        let name = tables.entries().table()?.bytes(entries::NAME, row)?;
        check_name(&name)?;
        let table = tables.directories().table()?;
        // Of directories that begin at the same entry, all but the last are empty.
        let index = table.search_u64(row)?.unwrap_or(0);
        let directory = tables.directory_at(index, table.u64(directories::INODE, index)?)?;
        if !directory.entries().contains(&row) {
            return Err(contradiction("its entry is in no directory"));
        }
        if kind == InodeKind::Directory {
            // Indexes decrease on the way up, so it ends.
            tables.directory_at(payload, inode)?.check_parent(index)?;
        }
        Ok((name, directory.inode))
    };
    found().at(|| format!("a name of inode {inode}"))
}

/// Joins the names from the root to `inode`. `up` returns the name of an inode and the directory
/// that holds it, and must reach the root. Errors call the inode a `what`.
fn climb(
    inode: u64,
    what: &str,
    mut up: impl FnMut(u64) -> Result<(Vec<u8>, u64), ReadError>,
) -> Result<Vec<u8>, ReadError> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut len = 0;
    let mut at = inode;
    while at != ROOT_INODE {
        let (name, directory_inode) = up(at)?;
        len += name.len() + 1;
        if len > PATH_LEN_MAX {
            let expected = Expected::AtMost(PATH_LEN_MAX as u64);
            let error = value("length of the path", len as u64, expected);
            return Err(error.at(format!("{what} {inode}")));
        }
        names.push(name);
        at = directory_inode;
    }
    names.reverse();
    Ok(names.join(&b'/'))
}

/// The first name in a directory that leads to `inode`.
fn name_in(
    tables: &SnapshotTables,
    directory_inode: u64,
    inode: u64,
) -> Result<Vec<u8>, ReadError> {
    let mut found = None;
    list(tables, directory_inode, 0, |entry| {
        if entry.inode == inode {
            found = Some(entry.name.to_vec());
        }
        found.is_none()
    })?;
    found.ok_or_else(|| {
        let error = contradiction("its parent has no entry for it");
        error.at(format!("directory inode {inode}"))
    })
}

/// The row of an entry that leads to `inode`.
pub(crate) fn entry_to(tables: &SnapshotTables, inode: u64) -> Result<Option<u64>, ReadError> {
    let table = tables.entries().table()?;
    let entry_count = tables.entry_count();
    let extra_count = entry_count.saturating_sub(tables.inode_count().saturating_sub(1));
    let first = inode.saturating_sub(ROOT_INODE + 1).min(entry_count);
    let all = first..first.saturating_add(extra_count).saturating_add(1).min(entry_count);
    let mut rows = all.clone();
    let mut found = Vec::new();
    // First names ascend. A greater number means that the entry is before it; smaller numbers mean
    // that it is after them, unless all of them are additional hard links.
    while rows.end - rows.start > ROWS {
        let middle = rows.start + (rows.end - rows.start) / 2;
        let some = middle..(middle + ROWS).min(rows.end);
        table.u64_range(entries::INODE, some.clone(), &mut found)?;
        if let Some(at) = found.iter().position(|&found| found == inode) {
            return Ok(Some(middle + at as u64));
        }
        match found.iter().position(|&found| found > inode) {
            Some(at) => rows.end = middle + at as u64,
            None => rows.start = some.end,
        }
    }
    for mut rows in [rows, all] {
        rows.end = rows.end.min(rows.start.saturating_add(SCAN_MAX));
        for start in rows.clone().step_by(ROWS as usize) {
            let some = start..(start + ROWS).min(rows.end);
            table.u64_range(entries::INODE, some, &mut found)?;
            if let Some(at) = found.iter().position(|&found| found == inode) {
                return Ok(Some(start + at as u64));
            }
        }
    }
    Ok(None)
}
