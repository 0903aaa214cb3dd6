//! Extended attributes of an inode.
//!
//! Inodes with equal attributes share one set. The attributes of a set are stored together, sorted
//! by name.

use std::ops::Range;

use shale_format::limits::{XATTR_COUNT_MAX, XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX};
use shale_format::schema::{inodes, xattr_items, xattr_sets};
use shale_model::Xattr;

use crate::error::{ErrorContext, Expected, ReadError, contradiction, value};
use crate::snapshot::tables::SnapshotTables;

/// Total length of the values that [`xattrs`] returns. Linux file systems allow far less; a hostile
/// image could claim gigabytes.
const VALUES_LEN_MAX: usize = 256 << 20;

/// The value of one attribute; see [`crate::Tree::xattr`].
pub(crate) fn xattr(
    tables: &SnapshotTables,
    inode: u64,
    name: &[u8],
) -> Result<Option<Vec<u8>>, ReadError> {
    let rows = xattr_rows(tables, inode)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let found = || -> Result<Option<Vec<u8>>, ReadError> {
        let table = tables.xattr_items().table()?;
        match table.search_bytes(xattr_items::NAME, rows, name)? {
            Ok(row) => Ok(Some(xattr_value(tables, row)?)),
            Err(_) => Ok(None),
        }
    };
    found().at(|| format!("inode {inode}"))
}

/// The names of an inode's attributes, sorted.
pub(crate) fn xattr_names(tables: &SnapshotTables, inode: u64) -> Result<Vec<Vec<u8>>, ReadError> {
    let rows = xattr_rows(tables, inode)?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    if rows.is_empty() {
        return Ok(names);
    }
    let list = || -> Result<(), ReadError> {
        let table = tables.xattr_items().table()?;
        let mut outcome = Ok(());
        table.scan_bytes(xattr_items::NAME, rows, |row, name| {
            outcome = check_xattr_name(name, names.last().map(Vec::as_slice))
                .at(|| format!("xattr_items row {row}"));
            if outcome.is_ok() {
                names.push(name.to_vec());
            }
            outcome.is_ok()
        })?;
        outcome
    };
    list().at(|| format!("inode {inode}"))?;
    Ok(names)
}

/// All attributes of an inode, sorted by name.
pub(crate) fn xattrs(tables: &SnapshotTables, inode: u64) -> Result<Vec<Xattr>, ReadError> {
    let rows = xattr_rows(tables, inode)?;
    let names = xattr_names(tables, inode)?;
    let mut len = 0;
    let with_value = |(row, name)| -> Result<Xattr, ReadError> {
        let found = xattr_value(tables, row)?;
        len += found.len();
        if len > VALUES_LEN_MAX {
            let expected = Expected::AtMost(VALUES_LEN_MAX as u64);
            return Err(value("length of all xattr values", len as u64, expected));
        }
        Ok(Xattr { name, value: found })
    };
    rows.zip(names).map(with_value).collect::<Result<Vec<_>, _>>().at(|| format!("inode {inode}"))
}

/// The rows of `xattr_items` with an inode's attributes.
fn xattr_rows(tables: &SnapshotTables, inode: u64) -> Result<Range<u64>, ReadError> {
    let set = tables.inode_column(inode, inodes::XATTR_SET)?;
    let Some(row) = set.checked_sub(1) else { return Ok(0..0) };
    let rows = || -> Result<Range<u64>, ReadError> {
        let sets = tables.xattr_sets();
        if row >= sets.row_count() {
            return Err(value("set of xattrs", set, Expected::AtMost(sets.row_count())));
        }
        let (page, first_row) = sets.table()?.page_of(row)?;
        let at = (row - first_row) as usize;
        let first = page.u64(xattr_sets::ITEM_FIRST, at)?;
        let count = page.u64(xattr_sets::ITEM_COUNT, at)?;
        let items = tables.xattr_items().row_count();
        if count > XATTR_COUNT_MAX {
            return Err(value("count of xattrs", count, Expected::AtMost(XATTR_COUNT_MAX)));
        }
        match first.checked_add(count) {
            Some(end) if end <= items => Ok(first..end),
            _ => {
                let expected = Expected::AtMost(items.saturating_sub(count));
                Err(value("first xattr item", first, expected))
            }
        }
    };
    rows().at(|| format!("inode {inode}"))
}

fn xattr_value(tables: &SnapshotTables, row: u64) -> Result<Vec<u8>, ReadError> {
    let found = tables.xattr_items().table()?.bytes(xattr_items::VALUE, row)?;
    if found.len() > XATTR_VALUE_LEN_MAX {
        let expected = Expected::AtMost(XATTR_VALUE_LEN_MAX as u64);
        let error = value("length of the xattr value", found.len() as u64, expected);
        return Err(error.at(format!("xattr_items row {row}")));
    }
    Ok(found)
}

fn check_xattr_name(name: &[u8], previous: Option<&[u8]>) -> Result<(), ReadError> {
    if name.is_empty() || name.len() > XATTR_NAME_LEN_MAX || name.contains(&0) {
        let expected = Expected::Between(1, XATTR_NAME_LEN_MAX as u64);
        return Err(value("length of the xattr name (no zero bytes)", name.len() as u64, expected));
    }
    if previous.is_some_and(|previous| name <= previous) {
        return Err(contradiction("its name does not come after the one before"));
    }
    Ok(())
}
