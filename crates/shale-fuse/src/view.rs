//! The seam between the driver and what it serves: a read-only tree of numbered inodes.
//!
//! The root is inode 1. Inode numbers are stable: the kernel keeps them for ever and hands them
//! to others as file handles. Nothing a view returns ever changes while it is served, because the
//! kernel is told to ask only once. A view answers on the thread that asks; it must not hold a
//! lock while it decodes or waits for input, and must not call back into the mount.

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

/// What `stat` shows of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number.
    pub inode: u64,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Entries that lead here.
    pub link_count: u64,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Major and minor number of a device; zero for all else.
    pub device: (u32, u32),
    /// Bytes of a file or of a symlink's target.
    pub len: u64,
    /// Bytes that are data, not hole; tools that copy holes look for `data_len < len`.
    pub data_len: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
}

/// One name in a directory, and what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name: any bytes but `/` and zero.
    pub name: &'a [u8],
    /// The inode under that name.
    pub attributes: Attributes,
}

/// What [`View::seek`] looks for.
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

/// Which extended attributes a tree holds; decides what the kernel is told to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XattrUse {
    /// Some inode may have an extended attribute.
    pub any: bool,
    /// Some inode may have a POSIX access control list. Where this is false, permission checks
    /// never reach the driver.
    pub acl: bool,
    /// Some inode may have an attribute in `trusted.`, whose name only root may see.
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
    /// The question does not fit the kind of inode. Reported as EINVAL.
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
    /// Attributes of `inode`.
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError>;

    /// The attributes of what `name` leads to in `directory`, or `None`.
    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError>;

    /// The directory that holds `directory`; the root's is the root.
    fn parent(&self, directory: u64) -> Result<u64, ViewError>;

    /// Calls `each` with the entries of `directory` from index `first` on, in a fixed order, until
    /// it returns false. An index past the end yields nothing. A directory is listed under its
    /// parent alone, so that no walk goes in circles.
    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError>;

    /// The target of a symlink.
    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError>;

    /// Names of the extended attributes of `inode`.
    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError>;

    /// The value of one extended attribute, or `None`.
    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError>;

    /// Fills `buf` from `offset` and returns how much of it; less than all only at the end.
    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError>;

    /// The next offset of what is sought, or `None` where the file ends before it.
    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError>;

    /// Size of the tree.
    fn totals(&self) -> Totals;

    /// Which extended attributes the tree holds. May err on the side of true.
    fn xattr_use(&self) -> XattrUse;

    /// Tells trees apart whose inode numbers mean different things, so that a file handle of one
    /// is not taken for another's.
    fn generation(&self) -> u32 {
        0
    }

    /// Likewise, for who may meet one of the trees years after the other; all zero if the view has
    /// nothing to tell them by.
    fn id(&self) -> [u8; 16] {
        [0; 16]
    }

    /// Where the bytes of a file lie, as text; `None` where the view has nothing to tell.
    fn layout(&self, _inode: u64) -> Result<Option<String>, ViewError> {
        Ok(None)
    }

    /// Equal for files whose bytes are equal, as far as the view knows: the kernel view lets them
    /// share their pages. In the order in which files are best read.
    fn content_key(&self, inode: u64) -> Result<u64, ViewError> {
        Ok(inode)
    }

    /// Gives memory back that is held only to be faster; called when nobody has asked for long.
    fn rest(&self) {}

    /// Counters of the layers below, by name, to be shown with the driver's statistics.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
