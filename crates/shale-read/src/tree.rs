//! One snapshot: inodes, names, links.
//!
//! Every number that comes from a page is checked before it leads anywhere: inode numbers, kinds,
//! directory indexes, ranges of rows. Directories are numbered level by level, so a parent comes
//! before its children; that order is checked wherever it is met, which is why no walk over names
//! can go in circles, nor twice through one directory.
//!
//! With warm pages, attributes and lookup cost about a microsecond and no I/O.

use std::sync::Arc;

use shale_format::inode::device_parts;
use shale_format::limits::{LINK_TARGET_LEN_MAX, NAME_LEN_MAX};
use shale_format::schema::{directories, entries, inodes, symlinks, xattr_items, xattr_sets};
use shale_format::{InodeKind, InodeRecord, Snapshot, Timestamp};
use shale_table::Page;

use crate::directory::Directory;
use crate::error::{Expected, Fault, Kind, Place, ReadError, value};
use crate::image::Image;
use crate::order::{EntryOrder, Marks};
use crate::pages::{PageStore, TableHandle};

/// The root directory's inode.
pub(crate) const ROOT_INODE: u64 = 1;

/// What `stat` tells, and where the content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub inode: u64,
    /// Kind; the type bits of `st_mode`.
    pub kind: InodeKind,
    /// Permission bits with setuid, setgid, sticky.
    pub permissions: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Entries that lead here; for a directory 2 and its directories.
    pub link_count: u64,
    /// File: bytes of content. Directory: entries. Symlink: bytes of the target. Others: 0.
    pub size: u64,
    /// Last modification of the content.
    pub mtime: Timestamp,
    /// Last access; the epoch if the snapshot does not keep it.
    pub atime: Timestamp,
    /// Last change of the inode; the epoch if the snapshot does not keep it.
    pub ctime: Timestamp,
    /// Creation; the epoch if the snapshot does not keep it.
    pub btime: Timestamp,
    /// 0 if there are no xattrs; equal numbers mean equal xattrs.
    pub xattr_set: u64,
    /// Content (file), directory index, symlink row or device number, by kind.
    pub payload: u64,
}

impl Attributes {
    /// `st_mode`: type and permission bits.
    pub fn mode(&self) -> u32 {
        self.kind.mode_bits() | self.permissions
    }

    /// Major and minor number of a device; zeroes for any other kind.
    pub fn device(&self) -> (u32, u32) {
        match self.kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => device_parts(self.payload),
            _ => (0, 0),
        }
    }

    /// The content of a regular file. Equal numbers mean equal bytes.
    pub fn content(&self) -> Option<u64> {
        (self.kind == InodeKind::File).then_some(self.payload)
    }
}

/// One snapshot of an image. Cheap to clone; usable from many threads.
#[derive(Clone)]
pub struct Tree(Arc<Tables>);

struct Tables {
    image: Arc<Image>,
    snapshot: Snapshot,
    inodes: TableHandle,
    directories: TableHandle,
    entries: TableHandle,
    symlinks: TableHandle,
    xattr_sets: TableHandle,
    xattr_items: TableHandle,
    marks: Marks,
}

impl Tree {
    pub(crate) fn new(image: Arc<Image>, pages: &Arc<PageStore>, snapshot: &Snapshot) -> Self {
        let table = |root, schema| TableHandle::new(pages, root, schema);
        Self(Arc::new(Tables {
            image,
            inodes: table(snapshot.inodes, &inodes::SCHEMA),
            directories: table(snapshot.directories, &directories::SCHEMA),
            entries: table(snapshot.entries, &entries::SCHEMA),
            symlinks: table(snapshot.symlinks, &symlinks::SCHEMA),
            xattr_sets: table(snapshot.xattr_sets, &xattr_sets::SCHEMA),
            xattr_items: table(snapshot.xattr_items, &xattr_items::SCHEMA),
            snapshot: snapshot.clone(),
            marks: Marks::default(),
        }))
    }

    /// The image that holds this snapshot.
    pub fn image(&self) -> &Arc<Image> {
        &self.0.image
    }

    /// The snapshot's record: name, times kept, totals, table roots.
    pub fn snapshot(&self) -> &Snapshot {
        &self.0.snapshot
    }

    /// The root directory: always 1.
    pub fn root_inode(&self) -> u64 {
        ROOT_INODE
    }

    /// Inodes: numbers 1 to this.
    pub fn inode_count(&self) -> u64 {
        self.0.inodes.row_count()
    }

    /// Directory entries of all directories.
    pub fn entry_count(&self) -> u64 {
        self.0.entries.row_count()
    }

    /// Directories, the root included.
    pub fn directory_count(&self) -> u64 {
        self.0.directories.item_count()
    }

    /// Sum of the sizes of all regular files, hard links counted once.
    pub fn file_bytes(&self) -> u64 {
        self.0.snapshot.file_bytes
    }

    pub(crate) fn directories(&self) -> &TableHandle {
        &self.0.directories
    }

    pub(crate) fn entries(&self) -> &TableHandle {
        &self.0.entries
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.0.marks
    }

    pub(crate) fn xattr_sets(&self) -> &TableHandle {
        &self.0.xattr_sets
    }

    pub(crate) fn xattr_items(&self) -> &TableHandle {
        &self.0.xattr_items
    }

    /// The page of an inode and its row there.
    pub(crate) fn inode_row(&self, inode: u64) -> Result<(Arc<Page>, usize), ReadError> {
        let inode_count = self.inode_count();
        match inode.checked_sub(1) {
            Some(row) if row < inode_count => {
                let (page, first_row) = self.0.inodes.table()?.page_of(row)?;
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

    /// Kind and payload, without the rest. Touches one page.
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

    /// What `stat` tells of an inode. Touches the page of its row, and one or two more for the size
    /// of a file, directory or symlink.
    pub fn attributes(&self, inode: u64) -> Result<Attributes, ReadError> {
        self.attributes_in(inode, None)
    }

    /// As `attributes`; if the inode is a directory, its parent has to be `parent`, given by its
    /// directory index.
    pub(crate) fn attributes_in(
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

    /// The attributes that a row tells, and those that it leads to. `content_len` is the length of
    /// the row's content, if it is known to exist.
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
                self.0.image.content_len(record.payload)
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

    /// That a content named by an inode exists.
    pub(crate) fn check_content(&self, content: u64) -> Result<(), ReadError> {
        let count = self.0.image.content_count();
        if content >= count {
            return Err(value("content", content, Expected::AtMost(count.saturating_sub(1))));
        }
        Ok(())
    }

    /// The inode that `name` leads to in a directory, if there is such an entry. `.` and `..` are
    /// not entries.
    ///
    /// A binary search among the directory's names; touches the pages of the directory, of its
    /// inode and of the inode found, and at most log2 of the pages that its entries span. An entry
    /// that leads to a directory is followed only if that directory's parent is this one and this
    /// is its one name: that takes the page of the first entry and, behind hard links in the same
    /// directory, the pages of all entries before. Of large directories it is remembered how far
    /// they were looked through.
    pub fn lookup(&self, directory_inode: u64, name: &[u8]) -> Result<Option<u64>, ReadError> {
        self.lookup_with(directory_inode, name, |directory, row, inode| {
            let (kind, payload) = self.kind_and_payload(inode)?;
            if kind == InodeKind::Directory {
                self.directory_at(payload, inode)?.check_parent(directory.index)?;
                EntryOrder::new(directory, row).check_inode(self, directory, row, inode)?;
            }
            Ok(inode)
        })
    }

    /// As [`Tree::lookup`], with the attributes of what was found: touches fewer pages than one
    /// after the other.
    pub fn lookup_attributes(
        &self,
        directory_inode: u64,
        name: &[u8],
    ) -> Result<Option<Attributes>, ReadError> {
        self.lookup_with(directory_inode, name, |directory, row, inode| {
            let attributes = self.attributes_in(inode, Some(directory.index))?;
            if attributes.kind == InodeKind::Directory {
                EntryOrder::new(directory, row).check_inode(self, directory, row, inode)?;
            }
            Ok(attributes)
        })
    }

    /// What `follow` makes of the directory, and of the row and the inode that `name` leads to in
    /// it.
    fn lookup_with<T>(
        &self,
        directory_inode: u64,
        name: &[u8],
        follow: impl FnOnce(&Directory, u64, u64) -> Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let directory = self.directory(directory_inode)?;
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Ok(None);
        }
        let found = || -> Result<Option<T>, ReadError> {
            let Some((row, inode)) = self.find_entry(&directory, name)? else { return Ok(None) };
            self.check_entry(&directory, inode)
                .and_then(|()| follow(&directory, row, inode))
                .map(Some)
                .at(|| format!("entries row {row}"))
        };
        found().at(|| format!("directory inode {directory_inode}"))
    }

    /// The entry of a directory with this name: its row, and its inode as it is stored.
    fn find_entry(
        &self,
        directory: &Directory,
        name: &[u8],
    ) -> Result<Option<(u64, u64)>, ReadError> {
        let rows = directory.entries();
        if rows.is_empty() {
            return Ok(None);
        }
        let table = self.0.entries.table()?;
        let (page, first_row) = table.page_of(rows.start)?;
        let from = (rows.start - first_row) as usize;
        let in_page = usize::try_from(rows.end - first_row).unwrap_or(usize::MAX);
        if in_page > page.row_count() {
            let found = table.search_bytes(entries::NAME, rows, name)?;
            return found.ok().map(|row| Ok((row, table.u64(entries::INODE, row)?))).transpose();
        }
        // Most directories lie in one page, which is then found once and not twice.
        match page.search_bytes(entries::NAME, from..in_page, name)? {
            Ok(at) => Ok(Some((first_row + at as u64, page.u64(entries::INODE, at)?))),
            Err(_) => Ok(None),
        }
    }

    /// The inode at the end of a path from the root. Symlinks are not followed; slashes may lead,
    /// trail and repeat; `.` stays, `..` goes to the parent (the root's is the root); an empty path
    /// is the root. A name under something that is not a directory is [`Fault::WrongKind`]; so is a
    /// slash behind something that is not one.
    pub fn lookup_path(&self, path: &[u8]) -> Result<Option<u64>, ReadError> {
        let mut inode = ROOT_INODE;
        for name in path.split(|&byte| byte == b'/') {
            inode = match name {
                b"" | b"." => continue,
                b".." => self.parent(inode)?,
                _ => match self.lookup(inode, name)? {
                    Some(inode) => inode,
                    None => return Ok(None),
                },
            };
        }
        let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if matches!(last, b"" | b".") && inode != ROOT_INODE {
            self.directory(inode)?;
        }
        Ok(Some(inode))
    }

    /// Where a symbolic link points, at most 4095 bytes. Touches two pages.
    pub fn link_target(&self, inode: u64) -> Result<Vec<u8>, ReadError> {
        match self.kind_and_payload(inode)? {
            (InodeKind::Symlink, row) => self.target(row).at(|| format!("inode {inode}")),
            _ => Err(Fault::WrongKind { inode, expected: Kind::Symlink }.into()),
        }
    }

    fn target(&self, row: u64) -> Result<Vec<u8>, ReadError> {
        let row_count = self.0.symlinks.row_count();
        if row >= row_count {
            let expected = Expected::AtMost(row_count.saturating_sub(1));
            return Err(value("row of the link target", row, expected));
        }
        let target = self.0.symlinks.table()?.bytes(symlinks::TARGET, row)?;
        // An empty target cannot be made on Linux, a zero byte would end it early.
        if !(1..=LINK_TARGET_LEN_MAX).contains(&target.len()) || target.contains(&0) {
            let expected = Expected::Between(1, LINK_TARGET_LEN_MAX as u64);
            let len = target.len() as u64;
            let error = value("length of the link target (no zero bytes)", len, expected);
            return Err(error.at(format!("symlinks row {row}")));
        }
        Ok(target)
    }

    /// The directory that holds this directory; the root's is the root. Touches three pages.
    pub fn parent(&self, directory_inode: u64) -> Result<u64, ReadError> {
        let directory = self.directory(directory_inode)?;
        let parent = || -> Result<u64, ReadError> {
            let inode = self.0.directories.table()?.u64(directories::INODE, directory.parent)?;
            // By the order of numbers a parent comes first; the root is its own.
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

    /// That an entry of `directory` may lead to `inode`, as far as numbers tell.
    pub(crate) fn check_entry(&self, directory: &Directory, inode: u64) -> Result<(), ReadError> {
        // Nothing leads to the root: that would be a loop.
        if inode <= ROOT_INODE || inode > self.inode_count() || inode == directory.inode {
            let expected = Expected::Between(ROOT_INODE + 1, self.inode_count());
            return Err(value("inode of the entry", inode, expected));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree")
            .field("image", &self.0.image.number())
            .field("name", &self.0.snapshot.name.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}
