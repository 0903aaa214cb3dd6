//! The interface between the driver and what it serves: a read-only tree of numbered inodes.
//!
//! The root is inode 1. Inode numbers are stable: the kernel keeps them and gives them to other
//! machines as file handles. The answers of a view must not change while it is served, because the
//! kernel caches them; only the root may ([`View::root_changes`]). A view answers on the thread
//! that asks. It must not hold a lock while it decodes or waits for input, and must not access the
//! mount.

use std::io;

/// The inode number of the root of every view.
pub const ROOT: u64 = 1;

/// Type bits of a mode.
pub const MODE_TYPE_MASK: u32 = 0o170000;
/// Type bits of a directory.
pub const MODE_DIRECTORY: u32 = 0o040000;
/// Type bits of a regular file.
pub const MODE_FILE: u32 = 0o100000;
/// Type bits of a symbolic link.
pub const MODE_SYMLINK: u32 = 0o120000;

/// A point in time: seconds since 1970, possibly negative, and nanoseconds past them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// Whole seconds, rounded down.
    pub sec: i64,
    /// Nanoseconds past `sec`, below 10^9.
    pub nsec: u32,
}

/// The attributes that `stat` shows of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number.
    pub inode: u64,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Number of entries that point to this inode.
    pub link_count: u64,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Major and minor number of a device; zero for other kinds.
    pub device: (u32, u32),
    /// Bytes of a file or of a symlink's target.
    pub len: u64,
    /// Bytes that are data and not hole. Tools that preserve holes look for `data_len < len`.
    pub data_len: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name: any bytes but `/` and zero.
    pub name: &'a [u8],
    /// The inode under that name.
    pub attributes: Attributes,
}

/// The target of [`View::seek`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is not in a hole.
    Data,
    /// The next byte in a hole; the end of the file counts as one.
    Hole,
}

/// The size of the whole tree, for `statfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes of all files.
    pub len: u64,
    /// Inodes.
    pub inode_count: u64,
}

/// Which extended attributes a tree has; decides which requests the kernel sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XattrUse {
    /// Some inode may have an extended attribute.
    pub any: bool,
    /// Some inode may have a POSIX access control list. If not, permission checks never reach the
    /// driver.
    pub acl: bool,
    /// Some inode may have a `trusted.` attribute, whose name only root may see.
    pub trusted: bool,
}

/// Why a view did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// No inode has this number. Reported as ENOENT.
    #[error("no such inode")]
    NotFound,
    /// The inode is not a directory. Reported as ENOTDIR.
    #[error("not a directory")]
    NotDirectory,
    /// The call does not apply to this kind of inode. Reported as EINVAL.
    #[error("wrong kind of inode")]
    WrongKind,
    /// The image is damaged here. Reported as EIO and logged.
    #[error("{0}")]
    Damaged(String),
    /// The image could not be read. Reported as EIO and logged.
    #[error("cannot read the image: {0}")]
    Source(#[from] io::Error),
}

/// A read-only tree. Every method may be called from several threads at once.
pub trait View: Send + Sync + 'static {
    /// Returns the attributes of `inode`.
    ///
    /// # Errors
    /// See [`ViewError`], as for all methods.
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError>;

    /// Returns the attributes of the inode called `name` in `directory`, or `None`.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError>;

    /// Returns the parent directory of `directory`; the parent of the root is the root.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn parent(&self, directory: u64) -> Result<u64, ViewError>;

    /// Calls `each` with the entries of `directory` from index `first` on, in a fixed order, until
    /// `each` returns false. An index past the end yields nothing. A directory is listed only in
    /// its parent, so that a walk cannot loop.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError>;

    /// Returns the target of a symlink.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError>;

    /// Calls `each` with the names of the extended attributes of `inode`.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError>;

    /// Returns the value of one extended attribute, or `None`.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError>;

    /// Reads bytes from `offset` on into `buf` and returns how many; fewer than `buf` holds only at
    /// the end of the file.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError>;

    /// Reads a whole file into `buf`, which is as long as the file, if that takes neither decoding
    /// nor waiting. Returns whether it did; if not, the bytes of `buf` are undefined. The driver
    /// gives such files to the kernel before it asks for them.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn read_ready(&self, _inode: u64, _buf: &mut [u8]) -> Result<bool, ViewError> {
        Ok(false)
    }

    /// Returns the offset of the next data or hole, or `None` if the file ends before it.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError>;

    /// Returns the size of the tree.
    fn totals(&self) -> Totals;

    /// Returns which extended attributes the tree has. May say true if it is unknown.
    fn xattr_use(&self) -> XattrUse;

    /// Returns whether the root directory may get entries and lose names while it is served. Only
    /// what is said of the root and its names then changes; inode numbers keep their meaning.
    fn root_changes(&self) -> bool {
        false
    }

    /// Returns a number that differs between trees whose inode numbers mean different things, so
    /// that a file handle of one tree is not accepted by another.
    fn generation(&self) -> u32 {
        0
    }

    /// Returns an identifier of the tree that is unique over years, or zeroes if the view has
    /// none.
    fn id(&self) -> [u8; 16] {
        [0; 16]
    }

    /// Returns a path of an inode for messages, without a leading slash and empty for the root;
    /// `None` if the view cannot tell. May be slow.
    fn path(&self, _inode: u64) -> Option<Vec<u8>> {
        None
    }

    /// Describes where the bytes of a file lie, as text; `None` if the view does not know.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn layout(&self, _inode: u64) -> Result<Option<String>, ViewError> {
        Ok(None)
    }

    /// Returns a key that is equal for files that are known to have equal bytes; in the kernel view
    /// such files share their pages. The order of keys is the best order to read files in.
    ///
    /// # Errors
    /// See [`ViewError`].
    fn content_key(&self, inode: u64) -> Result<u64, ViewError> {
        Ok(inode)
    }

    /// Frees caches; called when the mount has been idle.
    fn rest(&self) {}

    /// Returns counters of the layers below, by name, for the statistics of the mount.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
