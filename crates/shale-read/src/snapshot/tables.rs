//! The tables of one snapshot, row by row: inodes, directories, entries, link targets.
//!
//! Every number from a page is checked before it is followed: inode numbers, kinds, directory
//! indexes, ranges of rows. Directories are numbered level by level, so a parent comes before its
//! children. This order is checked wherever it matters, so no walk over names can loop or pass
//! through a directory twice.
//!
//! With cached pages, attributes cost about a microsecond and no I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shale_format::limits::LINK_TARGET_LEN_MAX;
use shale_format::schema::{directories, entries, inodes, symlinks, xattr_items, xattr_sets};
use shale_format::{InodeKind, InodeRecord, Snapshot};
use shale_table::Page;

use crate::content::store::ContentStore;
use crate::error::{ErrorContext, Expected, Fault, Kind, ReadError, contradiction, value};
use crate::snapshot::attributes::Attributes;
use crate::snapshot::directory::Directory;
use crate::snapshot::marks::Marks;
use crate::storage::pages::{PageStore, TableHandle};
use crate::storage::plan::Plan;

/// Inode of the root directory.
pub(crate) const ROOT_INODE: u64 = 1;

/// The tables for lookups are fetched whole if they have at most this many bytes together. A page
/// of each for every directory on a path is often as much.
const LOOKUP_LEN_MAX: u64 = 128 << 10;
/// And at most this many pages each, so that no index page has to be fetched to know them.
const LOOKUP_PAGES_MAX: u64 = 64;

/// The tables of one snapshot, and the contents that they name.
pub(crate) struct SnapshotTables {
    contents: Arc<ContentStore>,
    record: Snapshot,
    inodes: TableHandle,
    directories: TableHandle,
    entries: TableHandle,
    symlinks: TableHandle,
    xattr_sets: TableHandle,
    xattr_items: TableHandle,
    marks: Marks,
    /// Set at the first lookup.
    is_planned: AtomicBool,
}

impl SnapshotTables {
    pub(crate) fn new(
        contents: Arc<ContentStore>,
        pages: &Arc<PageStore>,
        record: &Snapshot,
    ) -> Self {
        let table = |root, schema| TableHandle::new(pages, root, schema);
        Self {
            contents,
            inodes: table(record.inodes, &inodes::SCHEMA),
            directories: table(record.directories, &directories::SCHEMA),
            entries: table(record.entries, &entries::SCHEMA),
            symlinks: table(record.symlinks, &symlinks::SCHEMA),
            xattr_sets: table(record.xattr_sets, &xattr_sets::SCHEMA),
            xattr_items: table(record.xattr_items, &xattr_items::SCHEMA),
            record: record.clone(),
            marks: Marks::default(),
            is_planned: AtomicBool::new(false),
        }
    }

    /// Says that the tables will be read: fetches their top pages at once, from a source that is
    /// far away.
    pub(crate) fn plan_use(&self, pages: &PageStore) {
        let Some(mut plan) = Plan::new(pages.stored()) else { return };
        for table in [&self.inodes, &self.directories, &self.entries, &self.symlinks] {
            table.plan_top(&mut plan);
        }
        self.contents.plan_tops(&mut plan);
        plan.tell();
    }

    /// Says that names will be looked up. A path takes a page of three tables for each of its
    /// names, one after the other. If the source is far away and all of these tables are small,
    /// they are fetched at once instead, at the first call.
    pub(crate) fn plan_lookups(&self) {
        if self.is_planned.load(Relaxed) || self.is_planned.swap(true, Relaxed) {
            return;
        }
        let Some(plan) = Plan::new(self.contents.frames().tables().stored()) else { return };
        let mut plan = plan.at_most(LOOKUP_LEN_MAX);
        let tables = [&self.directories, &self.entries, &self.inodes];
        if tables.iter().all(|table| table.plan_whole(LOOKUP_PAGES_MAX, &mut plan)) {
            plan.tell();
        }
    }

    /// Says that most of the tree will be listed; see [`crate::Tree::will_list`].
    pub(crate) fn plan_listing(&self, pages: &PageStore) {
        let Some(mut plan) = Plan::new(pages.stored()) else { return };
        for table in [&self.directories, &self.entries, &self.inodes, &self.symlinks] {
            table.plan_rows(0..table.row_count(), &mut plan);
        }
        self.contents.plan_lengths(&mut plan);
        plan.tell();
    }

    pub(crate) fn contents(&self) -> &ContentStore {
        &self.contents
    }

    /// The snapshot's record in the root.
    pub(crate) fn record(&self) -> &Snapshot {
        &self.record
    }

    pub(crate) fn inode_count(&self) -> u64 {
        self.inodes.row_count()
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.entries.row_count()
    }

    pub(crate) fn directory_count(&self) -> u64 {
        self.directories.item_count()
    }

    pub(crate) fn inodes(&self) -> &TableHandle {
        &self.inodes
    }

    pub(crate) fn symlinks(&self) -> &TableHandle {
        &self.symlinks
    }

    pub(crate) fn directories(&self) -> &TableHandle {
        &self.directories
    }

    pub(crate) fn entries(&self) -> &TableHandle {
        &self.entries
    }

    pub(crate) fn xattr_sets(&self) -> &TableHandle {
        &self.xattr_sets
    }

    pub(crate) fn xattr_items(&self) -> &TableHandle {
        &self.xattr_items
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The page that holds an inode, and the inode's row in it.
    pub(crate) fn inode_row(&self, inode: u64) -> Result<(Arc<Page>, usize), ReadError> {
        let inode_count = self.inode_count();
        match inode.checked_sub(1) {
            Some(row) if row < inode_count => {
                let (page, first_row) = self.inodes.table()?.page_of(row)?;
                Ok((page, (row - first_row) as usize))
            }
            _ => Err(Fault::NoInode { inode, inode_count }.into()),
        }
    }

    /// One column of an inode. Touches one page.
    pub(crate) fn inode_column(&self, inode: u64, column: usize) -> Result<u64, ReadError> {
        let (page, row) = self.inode_row(inode)?;
        Ok(page.u64(column, row)?)
    }

    /// Kind and payload of an inode. Touches one page.
    pub(crate) fn kind_and_payload(&self, inode: u64) -> Result<(InodeKind, u64), ReadError> {
        let (page, row) = self.inode_row(inode)?;
        let mode = page.u64(inodes::MODE, row)?;
        let kind = u32::try_from(mode).ok().and_then(InodeKind::from_mode);
        let payload = page.u64(inodes::PAYLOAD, row)?;
        match kind {
            Some(kind) => Ok((kind, payload)),
            None => {
                let error = value("mode", mode, Expected::Between(0o010000, 0o177777));
                Err(error.at(format!("inode {inode}")))
            }
        }
    }

    /// The attributes of an inode. Touches the page of its row, and one or two more for the size of
    /// a file, directory or symlink. If the inode is a directory and `parent` is given, the
    /// directory index of its parent must be `parent`.
    pub(crate) fn attributes(
        &self,
        inode: u64,
        parent: Option<u64>,
    ) -> Result<Attributes, ReadError> {
        let (page, row) = self.inode_row(inode)?;
        let attributes = || -> Result<Attributes, ReadError> {
            let mut columns = [0; 14];
            for (column, value) in columns.iter_mut().enumerate() {
                *value = page.u64(column, row)?;
            }
            let record = InodeRecord::from_columns(&columns)?;
            self.attributes_of(inode, &record, parent, None)
        };
        attributes().at(|| format!("inode {inode}"))
    }

    /// The attributes of a row that is already read. `content_len` is the length of the row's
    /// content, if the caller knows it.
    pub(crate) fn attributes_of(
        &self,
        inode: u64,
        record: &InodeRecord,
        parent: Option<u64>,
        content_len: Option<u64>,
    ) -> Result<Attributes, ReadError> {
        let size = match (record.kind, content_len) {
            (InodeKind::File, Some(len)) => len,
            _ => self.size(inode, record, parent)?,
        };
        Ok(Attributes {
            inode,
            kind: record.kind,
            permissions: record.permissions,
            uid: record.uid,
            gid: record.gid,
            link_count: record.link_count,
            size,
            mtime: record.mtime,
            atime: record.atime,
            ctime: record.ctime,
            btime: record.btime,
            xattr_set: record.xattr_set,
            payload: record.payload,
        })
    }

    fn size(
        &self,
        inode: u64,
        record: &InodeRecord,
        parent: Option<u64>,
    ) -> Result<u64, ReadError> {
        match record.kind {
            InodeKind::File => {
                self.check_content(record.payload)?;
                self.contents.content_len(record.payload)
            }
            InodeKind::Directory => {
                let directory = self.directory_at(record.payload, inode)?;
                if let Some(parent) = parent {
                    directory.check_parent(parent)?;
                }
                Ok(directory.entry_count())
            }
            InodeKind::Symlink => Ok(self.target(record.payload)?.len() as u64),
            _ => Ok(0),
        }
    }

    /// Checks that a content named by an inode exists.
    pub(crate) fn check_content(&self, content: u64) -> Result<(), ReadError> {
        let count = self.contents.content_count();
        if content >= count {
            return Err(value("content", content, Expected::AtMost(count.saturating_sub(1))));
        }
        Ok(())
    }

    /// The content of a regular file.
    pub(crate) fn file_content(&self, inode: u64) -> Result<u64, ReadError> {
        let (kind, payload) = self.kind_and_payload(inode)?;
        if kind != InodeKind::File {
            return Err(Fault::WrongKind { inode, expected: Kind::File }.into());
        }
        self.check_content(payload).at(|| format!("inode {inode}"))?;
        Ok(payload)
    }

    /// The directory of a directory inode.
    pub(crate) fn directory(&self, inode: u64) -> Result<Directory, ReadError> {
        match self.kind_and_payload(inode)? {
            (InodeKind::Directory, index) => {
                self.directory_at(index, inode).at(|| format!("directory inode {inode}"))
            }
            _ => Err(Fault::WrongKind { inode, expected: Kind::Directory }.into()),
        }
    }

    /// Row `index` of the table of directories, which has to belong to `inode`. Touches one page,
    /// or two at a page's end.
    pub(crate) fn directory_at(&self, index: u64, inode: u64) -> Result<Directory, ReadError> {
        let count = self.directory_count();
        if index >= count {
            let expected = Expected::AtMost(count.saturating_sub(1));
            return Err(value("directory index", index, expected));
        }
        let directory = || -> Result<Directory, ReadError> {
            let table = self.directories.table()?;
            let (page, first_row) = table.page_of(index)?;
            let row = (index - first_row) as usize;
            let entry_first = page.u64(directories::ENTRY_FIRST, row)?;
            let entry_end = if row + 1 < page.row_count() {
                page.u64(directories::ENTRY_FIRST, row + 1)?
            } else {
                table.u64(directories::ENTRY_FIRST, index + 1)?
            };
            let back = page.u64(directories::INODE, row)?;
            if back != inode {
                return Err(value("inode", back, Expected::Exactly(inode)));
            }
            if (index == 0) != (inode == ROOT_INODE) {
                return Err(contradiction("only the root has directory index 0"));
            }
            let parent = page.u64(directories::PARENT, row)?;
            let parent_max = index.saturating_sub(1);
            if parent > parent_max {
                return Err(value("index of the parent", parent, Expected::AtMost(parent_max)));
            }
            if entry_first > entry_end || entry_end > self.entry_count() {
                let expected = Expected::Between(entry_first, self.entry_count());
                return Err(value("end of its entries", entry_end, expected));
            }
            Ok(Directory { inode, index, parent, entry_first, entry_end })
        };
        directory().at(|| format!("directories row {index}"))
    }

    /// The target of a symbolic link. Touches two pages.
    pub(crate) fn link_target(&self, inode: u64) -> Result<Vec<u8>, ReadError> {
        match self.kind_and_payload(inode)? {
            (InodeKind::Symlink, row) => self.target(row).at(|| format!("inode {inode}")),
            _ => Err(Fault::WrongKind { inode, expected: Kind::Symlink }.into()),
        }
    }

    fn target(&self, row: u64) -> Result<Vec<u8>, ReadError> {
        let row_count = self.symlinks.row_count();
        if row >= row_count {
            let expected = Expected::AtMost(row_count.saturating_sub(1));
            return Err(value("row of the link target", row, expected));
        }
        let target = self.symlinks.table()?.bytes(symlinks::TARGET, row)?;
        // Linux cannot create an empty target, and a zero byte would end it early.
        if !(1..=LINK_TARGET_LEN_MAX).contains(&target.len()) || target.contains(&0) {
            let expected = Expected::Between(1, LINK_TARGET_LEN_MAX as u64);
            let len = target.len() as u64;
            let error = value("length of the link target (no zero bytes)", len, expected);
            return Err(error.at(format!("symlinks row {row}")));
        }
        Ok(target)
    }

    /// The parent of a directory; the root is its own parent. Touches three pages.
    pub(crate) fn parent(&self, directory_inode: u64) -> Result<u64, ReadError> {
        let directory = self.directory(directory_inode)?;
        let parent = || -> Result<u64, ReadError> {
            let inode = self.directories.table()?.u64(directories::INODE, directory.parent)?;
            // In level order a parent comes before its children; the root is its own parent.
            let is_root = directory.index == 0;
            let inode_max = if is_root { ROOT_INODE } else { directory_inode - 1 };
            if !(ROOT_INODE..=inode_max).contains(&inode) {
                let expected = Expected::Between(ROOT_INODE, inode_max);
                return Err(value("inode of the parent directory", inode, expected));
            }
            self.directory(inode)?;
            Ok(inode)
        };
        parent().at(|| format!("directory inode {directory_inode}"))
    }

    /// Checks that an entry of `directory` may lead to `inode` (numeric bounds only).
    pub(crate) fn check_entry(&self, directory: &Directory, inode: u64) -> Result<(), ReadError> {
        // No entry leads to the root: that would be a loop.
        if inode <= ROOT_INODE || inode > self.inode_count() || inode == directory.inode {
            let expected = Expected::Between(ROOT_INODE + 1, self.inode_count());
            return Err(value("inode of the entry", inode, expected));
        }
        Ok(())
    }
}
