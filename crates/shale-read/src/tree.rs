//! One snapshot's file tree, as users of this crate see it.
//!
//! This file says what a tree can be asked, what it costs and what is verified. The answers come
//! from the layer below, `snapshot/`, and from the content store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use shale_format::Snapshot;
use shale_format::schema::STREAM_HOLE;

use crate::content::map::Pieces;
use crate::content::store::ContentStore;
use crate::error::{ErrorContext, Fault, ReadError};
use crate::image::Image;
use crate::options::SnapshotChoice;
use crate::snapshot::attributes::Attributes;
use crate::snapshot::listing::{self, Entries, EntryRef};
use crate::snapshot::shared::ChangedDirectories;
use crate::snapshot::tables::{ROOT_INODE, SnapshotTables};
use crate::snapshot::walk::Walk;
use crate::snapshot::xattrs;
use crate::snapshot::{lookup, names, shared};
use shale_model::Xattr;

/// One snapshot of an image: a tree of names and inodes.
///
/// Cheap to clone; usable from many threads. Keeps its image open.
///
/// Inodes are numbered from 1, the root directory. Names are bytes, as on Linux. Everything read
/// is verified against the checksums of the image first.
///
/// ```
/// use shale_read::{Image, SnapshotChoice};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/0.3-tiny.shale");
/// let tree = Image::open_path(path)?.tree(&SnapshotChoice::Newest)?;
/// let directory = tree.lookup_path(b"d")?.expect("the directory exists");
/// for entry in tree.entries(directory, 0) {
///     let entry = entry?;
///     println!("{} {}", entry.attributes.size, entry.name.escape_ascii());
/// }
/// # Ok::<(), shale_read::ReadError>(())
/// ```
#[derive(Clone)]
pub struct Tree {
    image: Arc<Image>,
    tables: Arc<SnapshotTables>,
}

impl Image {
    /// Returns the tree of one snapshot. Reads nothing; a source that is far away is told that the
    /// top pages of the tables will be read.
    ///
    /// # Errors
    /// The image has no such snapshot.
    pub fn tree(self: &Arc<Self>, choice: &SnapshotChoice) -> Result<Tree, ReadError> {
        let record = &self.snapshots()[choice.index(self.snapshots())?];
        let tables = SnapshotTables::new(Arc::clone(self.contents()), self.page_store(), record);
        tables.plan_use(self.page_store());
        Ok(Tree { image: Arc::clone(self), tables: Arc::new(tables) })
    }
}

/// The snapshot and its totals.
impl Tree {
    /// The image that holds this snapshot.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// The snapshot's record: name, stored times, totals, table roots.
    pub fn snapshot(&self) -> &Snapshot {
        self.tables.record()
    }

    /// The inode of the root directory: always 1.
    pub fn root_inode(&self) -> u64 {
        ROOT_INODE
    }

    /// Number of inodes. Inodes are numbered from 1 to this.
    pub fn inode_count(&self) -> u64 {
        self.tables.inode_count()
    }

    /// Number of entries of all directories.
    pub fn entry_count(&self) -> u64 {
        self.tables.entry_count()
    }

    /// Number of directories, the root included.
    pub fn directory_count(&self) -> u64 {
        self.tables.directory_count()
    }

    /// Sum of the sizes of all regular files, hard links counted once.
    pub fn file_bytes(&self) -> u64 {
        self.tables.record().file_bytes
    }
}

/// Names.
impl Tree {
    /// The inode that `name` leads to in a directory, or `None` if there is no such entry. `.` and
    /// `..` are not entries.
    ///
    /// A binary search among the directory's names. Touches the pages of the directory, of its
    /// inode and of the inode found, and at most log2 of the pages that its entries span. An entry
    /// that leads to a directory is accepted only if that directory's parent is this one and this
    /// is its one name. That check takes the page of the first entry; after hard links in the same
    /// directory, it takes the pages of all entries before this one. For large directories, how far
    /// they were scanned is recorded.
    ///
    /// # Errors
    /// The inode is not a directory, or the entry or what it leads to is damaged.
    pub fn lookup(&self, directory_inode: u64, name: &[u8]) -> Result<Option<u64>, ReadError> {
        lookup::lookup(&self.tables, directory_inode, name)
    }

    /// As [`Tree::lookup`], with the attributes of the inode. Touches fewer pages than both calls.
    ///
    /// # Errors
    /// As [`Tree::lookup`] and [`Tree::attributes`].
    pub fn lookup_attributes(
        &self,
        directory_inode: u64,
        name: &[u8],
    ) -> Result<Option<Attributes>, ReadError> {
        lookup::lookup_attributes(&self.tables, directory_inode, name)
    }

    /// The inode at the end of a path from the root, or `None` if a name is missing.
    ///
    /// Symbolic links are not followed. Slashes may lead, trail and repeat; `.` stays; `..` goes to
    /// the parent (the root's is the root); an empty path is the root. Costs one lookup per name.
    ///
    /// # Errors
    /// [`Fault::WrongKind`] if a name, or a slash at the end, follows something that is not a
    /// directory; otherwise as [`Tree::lookup`].
    pub fn lookup_path(&self, path: &[u8]) -> Result<Option<u64>, ReadError> {
        lookup::lookup_path(&self.tables, path)
    }

    /// The parent of a directory; the root is its own parent. Touches three pages.
    ///
    /// # Errors
    /// The inode is not a directory, or its row or its parent's is damaged.
    pub fn parent(&self, directory_inode: u64) -> Result<u64, ReadError> {
        self.tables.parent(directory_inode)
    }

    /// A name that leads to an inode, and the inode of the directory that holds it. Repeated with
    /// that directory, this reaches the root, whatever the image claims. The root has no name.
    ///
    /// Touches about five pages in a tree without hard links. With hard links, it takes a search of
    /// about the logarithm of their number; in the worst case four million entries are scanned.
    ///
    /// # Errors
    /// There is no such inode, no entry that leads to it was found, or the way up contradicts
    /// itself.
    pub fn name_of(&self, inode: u64) -> Result<(Vec<u8>, u64), ReadError> {
        names::name_of(&self.tables, inode)
    }

    /// A path from the root to an inode, without a leading slash; empty for the root. If a file has
    /// several names, this is one of them, usually the first in level order.
    ///
    /// Costs one [`Tree::name_of`] per name.
    ///
    /// # Errors
    /// As [`Tree::name_of`], or the path is longer than 1 MiB.
    pub fn path_of(&self, inode: u64) -> Result<Vec<u8>, ReadError> {
        names::path_of(&self.tables, inode)
    }

    /// The path of a directory from the root, without a leading slash; empty for the root. Scans
    /// the entries of each parent for the one that leads down.
    ///
    /// # Errors
    /// The inode is not a directory, a parent has no entry for it, or the path is longer than
    /// 1 MiB.
    pub fn directory_path(&self, directory_inode: u64) -> Result<Vec<u8>, ReadError> {
        names::directory_path(&self.tables, directory_inode)
    }

    /// Calls `visit` with the entries after `cookie` (0: all) in the order of their names' bytes,
    /// until it returns false. `.` and `..` are not among them. A cookie beyond the end gives no
    /// entries.
    ///
    /// Reads the pages of the entries in order. Touches no page of inodes but the directory's own,
    /// except for hard links and the entries after them. So it cannot check that a directory found
    /// here has this one as its parent: before entering a directory, use [`Tree::lookup`] or
    /// [`Tree::list_attributes`].
    ///
    /// # Errors
    /// The inode is not a directory, or an entry is damaged. Entries before it have been visited.
    pub fn list(
        &self,
        directory_inode: u64,
        cookie: u64,
        visit: impl FnMut(EntryRef<'_>) -> bool,
    ) -> Result<(), ReadError> {
        listing::list(&self.tables, directory_inode, cookie, visit)
    }

    /// As [`Tree::list`], with the attributes of each entry. New inodes are stored in the order of
    /// the listing and read several at a time; others cost one [`Tree::attributes`] each.
    ///
    /// # Errors
    /// As [`Tree::list`] and [`Tree::attributes`].
    pub fn list_attributes(
        &self,
        directory_inode: u64,
        cookie: u64,
        visit: impl FnMut(EntryRef<'_>, &Attributes) -> bool,
    ) -> Result<(), ReadError> {
        listing::list_attributes(&self.tables, directory_inode, cookie, visit)
    }

    /// Iterates over the entries of a directory after `cookie` (0: all), with their attributes, in
    /// the order of their names' bytes.
    ///
    /// Allocates each name; [`Tree::list_attributes`] does not. An inode that is not a directory is
    /// an error of the first item.
    pub fn entries(&self, directory_inode: u64, cookie: u64) -> Entries {
        Entries::new(Arc::clone(&self.tables), directory_inode, cookie)
    }

    /// Says that most of the tree will be listed or walked over. If the source is far away, it
    /// fetches the tables of names and attributes at once, up to 16 MiB of them; otherwise this
    /// does nothing. Reads index pages.
    pub fn will_list(&self) {
        self.tables.plan_listing(self.image.page_store());
    }

    /// Which directories of this snapshot and of `other` can differ, so that a comparison need not
    /// enter the rest. `None` if that is not known: the snapshots are of different images, or
    /// differ in hard links, link targets or sets of attributes, or in more than a million rows.
    ///
    /// Reads the index pages of the tables of both, and the data pages that they do not share.
    /// Takes 8 bytes of memory for each row that differs, and 40 for each directory.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn changed_directories(
        &self,
        other: &Self,
    ) -> Result<Option<ChangedDirectories>, ReadError> {
        match self.image.number() == other.image.number() {
            true => shared::changed_directories(&self.tables, &other.tables),
            false => Ok(None),
        }
    }

    /// Walks over everything below `inode`, depth first in name order. `inode` comes first and may
    /// be of any kind. A directory comes before its entries.
    ///
    /// ```
    /// # use shale_read::{Image, SnapshotChoice};
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/0.3-tiny.shale");
    /// # let tree = Image::open_path(path)?.tree(&SnapshotChoice::Newest)?;
    /// for entry in tree.walk(tree.root_inode())? {
    ///     println!("{}", entry?.path.escape_ascii());
    /// }
    /// # Ok::<(), shale_read::ReadError>(())
    /// ```
    ///
    /// # Errors
    /// `inode` does not exist or its row is damaged.
    pub fn walk(&self, inode: u64) -> Result<Walk, ReadError> {
        if inode == ROOT_INODE {
            self.will_list();
        }
        Walk::new(Arc::clone(&self.tables), inode)
    }
}

/// Inodes.
impl Tree {
    /// What `stat` reports of an inode. Touches the page of its row, and one or two more for the
    /// size of a file, directory or symbolic link.
    ///
    /// # Errors
    /// There is no such inode, or a row that it needs is damaged.
    pub fn attributes(&self, inode: u64) -> Result<Attributes, ReadError> {
        self.tables.attributes(inode, None)
    }

    /// The target of a symbolic link: 1 to 4095 bytes. Touches two pages.
    ///
    /// # Errors
    /// The inode is not a symbolic link, or its target is damaged.
    pub fn link_target(&self, inode: u64) -> Result<Vec<u8>, ReadError> {
        self.tables.link_target(inode)
    }

    /// The value of an inode's extended attribute `name`, or `None`. A binary search; touches the
    /// pages of the inode, its set and its items.
    ///
    /// # Errors
    /// There is no such inode, or a row that it needs is damaged.
    pub fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        xattrs::xattr(&self.tables, inode, name)
    }

    /// The names of an inode's extended attributes, sorted.
    ///
    /// # Errors
    /// As [`Tree::xattr`].
    pub fn xattr_names(&self, inode: u64) -> Result<Vec<Vec<u8>>, ReadError> {
        xattrs::xattr_names(&self.tables, inode)
    }

    /// All extended attributes of an inode, sorted by name.
    ///
    /// # Errors
    /// As [`Tree::xattr`], or the values are longer than 256 MiB in total.
    pub fn xattrs(&self, inode: u64) -> Result<Vec<Xattr>, ReadError> {
        xattrs::xattrs(&self.tables, inode)
    }
}

/// Bytes of regular files.
impl Tree {
    fn contents(&self) -> &ContentStore {
        self.tables.contents()
    }

    /// The content of a regular file.
    pub(crate) fn file_content(&self, inode: u64) -> Result<u64, ReadError> {
        self.tables.file_content(inode)
    }

    /// Reads a regular file from `offset` into `buf`. Returns the number of bytes read, which is
    /// less than asked for only at the end of the file. After an error the bytes in `buf` are
    /// undefined.
    ///
    /// Touches a page of inodes, contents, extents and frames each. Decodes the frames of the range
    /// that are not cached, with their references.
    ///
    /// # Errors
    /// The inode is not a regular file, or a page or frame that the range needs is damaged.
    pub fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ReadError> {
        let content = self.tables.file_content(inode)?;
        self.contents().read(content, offset, buf).at(|| format!("file inode {inode}"))
    }

    /// Reads a whole regular file into `buf`, which is as long as the file, if all frames that it
    /// needs are in the cache. Returns whether it did; if not, the bytes in `buf` are undefined, as
    /// after an error. Neither decodes nor waits for another reader.
    ///
    /// Touches the same pages as [`Tree::read`], and counts as a read for what is decoded ahead.
    ///
    /// # Errors
    /// The inode is not a regular file, or a page that the file needs is damaged.
    pub fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ReadError> {
        let content = self.tables.file_content(inode)?;
        self.contents().read_ready(content, buf).at(|| format!("file inode {inode}"))
    }

    /// Reads a whole regular file, if it is at most `len_max` bytes long.
    ///
    /// The limit is the caller's, because a hostile image may claim files of any size. Holes count
    /// as bytes.
    ///
    /// # Errors
    /// [`Fault::TooLong`] if the file is longer, otherwise as [`Tree::read`].
    pub fn read_to_vec(&self, inode: u64, len_max: usize) -> Result<Vec<u8>, ReadError> {
        let content = self.tables.file_content(inode)?;
        let read = || {
            let len = self.contents().content_len(content)?;
            let too_long = Fault::TooLong { len, len_max: len_max as u64 };
            let Some(len) = usize::try_from(len).ok().filter(|len| *len <= len_max) else {
                return Err(too_long.into());
            };
            let mut bytes = vec![0; len];
            self.contents().read(content, 0, &mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error: ReadError| error.at(format!("file inode {inode}")))
    }

    /// Calls `visit` with the bytes of `range` of a regular file, slice after slice, until it
    /// returns false. Copies nothing.
    ///
    /// # Errors
    /// As [`Tree::read`].
    pub fn visit_data(
        &self,
        inode: u64,
        range: Range<u64>,
        visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        let content = self.tables.file_content(inode)?;
        self.contents().visit(content, range, visit).at(|| format!("file inode {inode}"))
    }

    /// The layout of `range` of a regular file: frames, holes and zero runs. Decodes nothing.
    ///
    /// # Errors
    /// The inode is not a regular file, or its content's row is damaged.
    pub fn pieces(&self, inode: u64, range: Range<u64>) -> Result<Pieces<'_>, ReadError> {
        let content = self.tables.file_content(inode)?;
        self.contents().pieces(content, range).at(|| format!("file inode {inode}"))
    }

    /// The first offset from `offset` on that is data; zero runs are data. `None` if only a hole
    /// follows, or if `offset` is at the end or beyond it: what `lseek` calls ENXIO. Walks over the
    /// extents passed.
    ///
    /// # Errors
    /// The inode is not a regular file, or an extent is damaged.
    pub fn seek_data(&self, inode: u64, offset: u64) -> Result<Option<u64>, ReadError> {
        self.seek(inode, offset, false)
    }

    /// The first offset from `offset` on that is in a hole; the end of the file counts as one.
    /// `None` if `offset` is at the end or beyond it: what `lseek` calls ENXIO. Walks over the
    /// extents passed.
    ///
    /// # Errors
    /// As [`Tree::seek_data`].
    pub fn seek_hole(&self, inode: u64, offset: u64) -> Result<Option<u64>, ReadError> {
        let content = self.tables.file_content(inode)?;
        let size = self.contents().content_len(content)?;
        if offset >= size {
            return Ok(None);
        }
        Ok(Some(self.seek(inode, offset, true)?.unwrap_or(size)))
    }

    fn seek(&self, inode: u64, offset: u64, hole: bool) -> Result<Option<u64>, ReadError> {
        let content = self.tables.file_content(inode)?;
        let place = || format!("file inode {inode}");
        for segment in self.contents().segments(content, offset..u64::MAX).at(place)? {
            let segment = segment.at(place)?;
            if (segment.stream == STREAM_HOLE) == hole {
                return Ok(Some(segment.offset));
            }
        }
        Ok(None)
    }

    /// Bytes of a regular file that are not in holes. For `st_blocks`, round up to units of 512
    /// bytes. Touches one page of extents if the file is one extent, as most files are; walks over
    /// all extents of other files.
    ///
    /// # Errors
    /// As [`Tree::seek_data`].
    pub fn data_len(&self, inode: u64) -> Result<u64, ReadError> {
        let content = self.tables.file_content(inode)?;
        self.contents().data_len(content).at(|| format!("file inode {inode}"))
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("image", &self.image.number())
            .field("name", &self.snapshot().name.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}
