//! From an inode back to a path that leads to it.
//!
//! An image has no table from inodes to names: level order makes one needless. An inode has the
//! number that its first name gave it, so that name lies as many entries from the start as inodes
//! were numbered before it, and behind that by at most as many as there are further hard links.

use shale_format::InodeKind;
use shale_format::schema::{directories, entries};

use crate::directory::PATH_LEN_MAX;
use crate::error::{Expected, Place, ReadError, contradiction, value};
use crate::order::check_name;
use crate::tree::{ROOT_INODE, Tree};

/// Entries that are looked at together.
const ROWS: u64 = 512;
/// Entries that are looked through where a search did not find one: some hundredths of a second.
/// More is to be expected only of an image that was made to take long.
const SCAN_MAX: u64 = 1 << 22;

impl Tree {
    /// A path from the root to an inode, without a leading slash; empty for the root. Of a file
    /// with several names it is one of them, mostly the first in level order.
    ///
    /// Costs what [`Tree::name_of`] costs, for each name.
    ///
    /// # Errors
    /// As [`Tree::name_of`]; the path is longer than a mebibyte.
    pub fn path_of(&self, inode: u64) -> Result<Vec<u8>, ReadError> {
        self.climb(inode, "inode", |inode| self.name_of(inode))
    }

    /// The names from the root to `inode`, which errors call a `what`. `up` gives the name of an
    /// inode and the directory that it is in, and comes to the root some time.
    pub(crate) fn climb(
        &self,
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

    /// A name that leads to an inode, and the inode of the directory that it is in. Whoever goes
    /// on with that comes to the root, whatever the image says. The root itself has no name.
    ///
    /// Touches some five pages in a tree without hard links. Where there are such, a search of
    /// about the logarithm of their number comes to it; in the worst case four million entries
    /// are scanned.
    ///
    /// # Errors
    /// There is no such inode; no entry was found to lead to it; the way up contradicts itself.
    pub fn name_of(&self, inode: u64) -> Result<(Vec<u8>, u64), ReadError> {
        let (kind, payload) = self.kind_and_payload(inode)?;
        let found = || -> Result<(Vec<u8>, u64), ReadError> {
            let Some(row) = self.entry_to(inode)? else {
                return Err(contradiction("no entry was found to lead to it"));
            };
            let name = self.entries().table()?.bytes(entries::NAME, row)?;
            check_name(&name)?;
            let table = self.directories().table()?;
            // Of directories that begin at the same entry all but the last are empty.
            let index = table.search_u64(row)?.unwrap_or(0);
            let directory = self.directory_at(index, table.u64(directories::INODE, index)?)?;
            if !directory.entries().contains(&row) {
                return Err(contradiction("its entry is in no directory"));
            }
            if kind == InodeKind::Directory {
                // Indexes get smaller on the way up, so the way ends.
                self.directory_at(payload, inode)?.check_parent(index)?;
            }
            Ok((name, directory.inode))
        };
        found().at(|| format!("a name of inode {inode}"))
    }

    /// The row of an entry that leads to `inode`.
    fn entry_to(&self, inode: u64) -> Result<Option<u64>, ReadError> {
        let table = self.entries().table()?;
        let entry_count = self.entry_count();
        let further_count = entry_count.saturating_sub(self.inode_count().saturating_sub(1));
        let first = inode.saturating_sub(ROOT_INODE + 1).min(entry_count);
        let all = first..first.saturating_add(further_count).saturating_add(1).min(entry_count);
        let mut rows = all.clone();
        let mut found = Vec::new();
        // First names ascend. A greater number shows that one searched for has passed; smaller ones
        // show that it has not, unless they are all further links.
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
}
