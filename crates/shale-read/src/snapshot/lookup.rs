//! From a name or a path to an inode.

use shale_format::InodeKind;
use shale_format::limits::NAME_LEN_MAX;
use shale_format::schema::entries;

use crate::error::{ErrorContext, ReadError};
use crate::snapshot::attributes::Attributes;
use crate::snapshot::directory::Directory;
use crate::snapshot::entry_order::EntryOrder;
use crate::snapshot::tables::{ROOT_INODE, SnapshotTables};

/// The inode that `name` leads to in a directory; see [`crate::Tree::lookup`].
pub(crate) fn lookup(
    tables: &SnapshotTables,
    directory_inode: u64,
    name: &[u8],
) -> Result<Option<u64>, ReadError> {
    lookup_with(tables, directory_inode, name, |directory, row, inode| {
        let (kind, payload) = tables.kind_and_payload(inode)?;
        if kind == InodeKind::Directory {
            tables.directory_at(payload, inode)?.check_parent(directory.index)?;
            EntryOrder::new(directory, row).check_inode(tables, directory, row, inode)?;
        }
        Ok(inode)
    })
}

/// As [`lookup`], with the attributes of the inode.
pub(crate) fn lookup_attributes(
    tables: &SnapshotTables,
    directory_inode: u64,
    name: &[u8],
) -> Result<Option<Attributes>, ReadError> {
    lookup_with(tables, directory_inode, name, |directory, row, inode| {
        let attributes = tables.attributes(inode, Some(directory.index))?;
        if attributes.kind == InodeKind::Directory {
            EntryOrder::new(directory, row).check_inode(tables, directory, row, inode)?;
        }
        Ok(attributes)
    })
}

/// The inode at the end of a path from the root; see [`crate::Tree::lookup_path`].
pub(crate) fn lookup_path(tables: &SnapshotTables, path: &[u8]) -> Result<Option<u64>, ReadError> {
    let mut inode = ROOT_INODE;
    for name in path.split(|&byte| byte == b'/') {
        inode = match name {
            b"" | b"." => continue,
            b".." => tables.parent(inode)?,
            _ => match lookup(tables, inode, name)? {
                Some(inode) => inode,
                None => return Ok(None),
            },
        };
    }
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if matches!(last, b"" | b".") && inode != ROOT_INODE {
        tables.directory(inode)?;
    }
    Ok(Some(inode))
}

/// Looks `name` up, checks the entry, and calls `follow` with the directory, the entry's row and
/// its inode.
fn lookup_with<T>(
    tables: &SnapshotTables,
    directory_inode: u64,
    name: &[u8],
    follow: impl FnOnce(&Directory, u64, u64) -> Result<T, ReadError>,
) -> Result<Option<T>, ReadError> {
    tables.plan_lookups();
    let directory = tables.directory(directory_inode)?;
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        return Ok(None);
    }
    let found = || -> Result<Option<T>, ReadError> {
        let Some((row, inode)) = find_entry(tables, &directory, name)? else { return Ok(None) };
        tables
            .check_entry(&directory, inode)
            .and_then(|()| follow(&directory, row, inode))
            .map(Some)
            .at(|| format!("entries row {row}"))
    };
    found().at(|| format!("directory inode {directory_inode}"))
}

/// The entry of a directory with this name: its row, and its inode as stored.
fn find_entry(
    tables: &SnapshotTables,
    directory: &Directory,
    name: &[u8],
) -> Result<Option<(u64, u64)>, ReadError> {
    let rows = directory.entries();
    if rows.is_empty() {
        return Ok(None);
    }
    let table = tables.entries().table()?;
    let (page, first_row) = table.page_of(rows.start)?;
    let from = (rows.start - first_row) as usize;
    let in_page = usize::try_from(rows.end - first_row).unwrap_or(usize::MAX);
    if in_page > page.row_count() {
        let found = table.search_bytes(entries::NAME, rows, name)?;
        return found.ok().map(|row| Ok((row, table.u64(entries::INODE, row)?))).transpose();
    }
    // Most directories lie in one page; this finds that page once instead of twice.
    match page.search_bytes(entries::NAME, from..in_page, name)? {
        Ok(at) => Ok(Some((first_row + at as u64, page.u64(entries::INODE, at)?))),
        Err(_) => Ok(None),
    }
}
