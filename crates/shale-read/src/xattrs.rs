//! Extended attributes of an inode. Inodes with equal attributes share one set; the attributes of a
//! set lie together, by name.

use std::ops::Range;

use shale_format::limits::{XATTR_COUNT_MAX, XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX};
use shale_format::schema::{inodes, xattr_items, xattr_sets};

use crate::error::{Expected, Place, ReadError, contradiction, value};
use crate::tree::Tree;

/// All values of one inode together, when they are asked for at once. Linux file systems end far
/// below; a hostile image could give gigabytes.
const VALUES_LEN_MAX: usize = 256 << 20;

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Full name, such as `user.x`; 1 to 255 bytes without zero.
    pub name: Vec<u8>,
    /// Value, at most 64 KiB.
    pub value: Vec<u8>,
}

impl Tree {
    /// The value of an inode's attribute `name`, if it has it. A binary search; touches the pages
    /// of the inode, its set and its items.
    pub fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let rows = self.xattr_rows(inode)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let found = || -> Result<Option<Vec<u8>>, ReadError> {
            let table = self.xattr_items().table()?;
            match table.search_bytes(xattr_items::NAME, rows, name)? {
                Ok(row) => Ok(Some(self.xattr_value(row)?)),
                Err(_) => Ok(None),
            }
        };
        found().at(|| format!("inode {inode}"))
    }

    /// The names of an inode's attributes, in order.
    pub fn xattr_names(&self, inode: u64) -> Result<Vec<Vec<u8>>, ReadError> {
        let rows = self.xattr_rows(inode)?;
        let mut names: Vec<Vec<u8>> = Vec::new();
        if rows.is_empty() {
            return Ok(names);
        }
        let list = || -> Result<(), ReadError> {
            let table = self.xattr_items().table()?;
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

    /// All attributes of an inode, by name.
    pub fn xattrs(&self, inode: u64) -> Result<Vec<Xattr>, ReadError> {
        let rows = self.xattr_rows(inode)?;
        let names = self.xattr_names(inode)?;
        let mut len = 0;
        let with_value = |(row, name)| -> Result<Xattr, ReadError> {
            let found = self.xattr_value(row)?;
            len += found.len();
            if len > VALUES_LEN_MAX {
                let expected = Expected::AtMost(VALUES_LEN_MAX as u64);
                return Err(value("length of all xattr values", len as u64, expected));
            }
            Ok(Xattr { name, value: found })
        };
        rows.zip(names)
            .map(with_value)
            .collect::<Result<Vec<_>, _>>()
            .at(|| format!("inode {inode}"))
    }

    /// Rows of `xattr_items` that hold an inode's attributes.
    fn xattr_rows(&self, inode: u64) -> Result<Range<u64>, ReadError> {
        let set = self.inode_column(inode, inodes::XATTR_SET)?;
        let Some(row) = set.checked_sub(1) else { return Ok(0..0) };
        let rows = || -> Result<Range<u64>, ReadError> {
            let sets = self.xattr_sets();
            if row >= sets.row_count() {
                return Err(value("set of xattrs", set, Expected::AtMost(sets.row_count())));
            }
            let (page, first_row) = sets.table()?.page_of(row)?;
            let at = (row - first_row) as usize;
            let first = page.u64(xattr_sets::ITEM_FIRST, at)?;
            let count = page.u64(xattr_sets::ITEM_COUNT, at)?;
            let items = self.xattr_items().row_count();
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

    fn xattr_value(&self, row: u64) -> Result<Vec<u8>, ReadError> {
        let found = self.xattr_items().table()?.bytes(xattr_items::VALUE, row)?;
        if found.len() > XATTR_VALUE_LEN_MAX {
            let expected = Expected::AtMost(XATTR_VALUE_LEN_MAX as u64);
            let error = value("length of the xattr value", found.len() as u64, expected);
            return Err(error.at(format!("xattr_items row {row}")));
        }
        Ok(found)
    }
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
