//! One side of a comparison: a snapshot of an image, or a directory of the system.
//!
//! Both are walked depth first, the entries of a directory in the order of their names' bytes, so
//! two walks can be merged. Memory is one path and, for a directory of the system, the names of the
//! directories on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use shale_read::{Attributes, ChangedDirectories, InodeKind, Timestamp, Tree, Walk};

use crate::error::Error;

/// What is compared.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Side {
    /// A snapshot of an image.
    Snapshot(Tree),
    /// A directory of the system. Symbolic links in it are compared, not followed.
    Directory(PathBuf),
}

/// An entry, with what both kinds of sides know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: InodeKind,
    pub(crate) permissions: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timestamp,
    /// Bytes of a regular file; else 0.
    pub(crate) len: u64,
    pub(crate) device: (u32, u32),
    /// Inode of an image; 0 in a directory.
    pub(crate) inode: u64,
    /// Content of an image; `None` in a directory and for other kinds.
    pub(crate) content: Option<u64>,
    /// All attributes, in an image.
    pub(crate) attributes: Option<Attributes>,
}

/// A walk over a side, one entry ahead.
pub(crate) enum SideWalk<'s> {
    Snapshot(Box<Walk>),
    Directory(DirectoryWalk<'s>),
}

impl Side {
    pub(crate) fn walk(&self) -> Result<SideWalk<'_>, Error> {
        Ok(match self {
            Self::Snapshot(tree) => SideWalk::Snapshot(Box::new(tree.walk(tree.root_inode())?)),
            Self::Directory(root) => SideWalk::Directory(DirectoryWalk::new(root)?),
        })
    }

    /// True if both are snapshots of the same open image, so equal content numbers mean equal
    /// bytes.
    pub(crate) fn shares_contents(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Snapshot(one), Self::Snapshot(other)) => {
                one.image().number() == other.image().number()
            }
            _ => false,
        }
    }

    /// Which directories can differ from those of `other`, if both sides know.
    pub(crate) fn changed_directories(
        &self,
        other: &Self,
    ) -> Result<Option<ChangedDirectories>, Error> {
        match (self, other) {
            (Self::Snapshot(one), Self::Snapshot(other)) => Ok(one.changed_directories(other)?),
            _ => Ok(None),
        }
    }

    /// Number of its entries, if it is known without a walk.
    pub(crate) fn entry_count(&self) -> Option<u64> {
        match self {
            Self::Snapshot(tree) => Some(tree.entry_count()),
            Self::Directory(_) => None,
        }
    }

    pub(crate) fn link_target(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        match self {
            Self::Snapshot(tree) => Ok(tree.link_target(entry.inode)?),
            Self::Directory(root) => {
                let path = below(root, &entry.path);
                match fs::read_link(&path) {
                    Ok(target) => Ok(target.into_os_string().into_vec()),
                    Err(source) => Err(Error::File { path, source }),
                }
            }
        }
    }

    pub(crate) fn xattrs(&self, entry: &Entry) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
        match self {
            Self::Snapshot(tree) => {
                let all = tree.xattrs(entry.inode)?;
                Ok(all.into_iter().map(|one| (one.name, one.value)).collect())
            }
            Self::Directory(root) => {
                let path = below(root, &entry.path);
                system_xattrs(&path).map_err(|source| Error::File { path, source })
            }
        }
    }

    /// Calls `visit` with the bytes of a regular file, in pieces, until it returns false.
    pub(crate) fn read(
        &self,
        entry: &Entry,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        match self {
            Self::Snapshot(tree) => Ok(tree.visit_data(entry.inode, 0..entry.len, visit)?),
            Self::Directory(root) => {
                let path = below(root, &entry.path);
                let mut read = || -> io::Result<()> {
                    let mut file = File::open(&path)?;
                    let mut buffer = vec![0; 1 << 20];
                    loop {
                        let len = file.read(&mut buffer)?;
                        if len == 0 || !visit(&buffer[..len]) {
                            return Ok(());
                        }
                    }
                };
                read().map_err(|source| Error::File { path, source })
            }
        }
    }
}

impl SideWalk<'_> {
    /// Does not enter the directory that was returned last.
    pub(crate) fn skip_directory(&mut self) {
        match self {
            Self::Snapshot(walk) => walk.skip_directory(),
            Self::Directory(walk) => walk.entering = None,
        }
    }

    /// The next entry, the root excepted.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Error> {
        match self {
            Self::Snapshot(walk) => loop {
                let Some(step) = walk.advance()? else { return Ok(None) };
                if step.depth == 0 {
                    continue;
                }
                let at = step.attributes;
                return Ok(Some(Entry {
                    path: step.path.to_vec(),
                    kind: at.kind,
                    permissions: at.permissions,
                    uid: at.uid,
                    gid: at.gid,
                    mtime: at.mtime,
                    len: if at.kind == InodeKind::File { at.size } else { 0 },
                    device: at.device(),
                    inode: at.inode,
                    content: at.content(),
                    attributes: Some(at),
                }));
            },
            Self::Directory(walk) => walk.next(),
        }
    }
}

/// A walk over a directory of the system.
pub(crate) struct DirectoryWalk<'s> {
    root: &'s Path,
    /// Names still to visit of each directory on the path, the next one last, and its path.
    open: Vec<(Vec<u8>, Vec<OsString>)>,
    entering: Option<Vec<u8>>,
}

impl<'s> DirectoryWalk<'s> {
    fn new(root: &'s Path) -> Result<Self, Error> {
        Ok(Self { root, open: vec![(Vec::new(), names(root, b"")?)], entering: None })
    }

    fn next(&mut self) -> Result<Option<Entry>, Error> {
        if let Some(path) = self.entering.take() {
            let names = names(self.root, &path)?;
            self.open.push((path, names));
        }
        while let Some((parent, names)) = self.open.last_mut() {
            let Some(name) = names.pop() else {
                self.open.pop();
                continue;
            };
            let mut path = parent.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let full = below(self.root, &path);
            let facts = fs::symlink_metadata(&full)
                .map_err(|source| Error::File { path: full.clone(), source })?;
            let entry = system_entry(path, &facts);
            if entry.kind == InodeKind::Directory {
                self.entering = Some(entry.path.clone());
            }
            return Ok(Some(entry));
        }
        Ok(None)
    }
}

fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsString::from_vec(path.to_vec()))
}

/// Names in a directory, the last one in byte order first.
fn names(root: &Path, path: &[u8]) -> Result<Vec<OsString>, Error> {
    let directory = below(root, path);
    let read = || -> io::Result<Vec<OsString>> {
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let mut names = read().map_err(|source| Error::File { path: directory.clone(), source })?;
    names.sort_unstable_by(|one, other| other.as_bytes().cmp(one.as_bytes()));
    Ok(names)
}

fn system_entry(path: Vec<u8>, facts: &Metadata) -> Entry {
    let kind = facts.file_type();
    let kind = if kind.is_dir() {
        InodeKind::Directory
    } else if kind.is_symlink() {
        InodeKind::Symlink
    } else if kind.is_char_device() {
        InodeKind::CharDevice
    } else if kind.is_block_device() {
        InodeKind::BlockDevice
    } else if kind.is_fifo() {
        InodeKind::Fifo
    } else if kind.is_socket() {
        InodeKind::Socket
    } else {
        InodeKind::File
    };
    let device = match kind {
        InodeKind::CharDevice | InodeKind::BlockDevice => {
            (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()))
        }
        _ => (0, 0),
    };
    Entry {
        path,
        kind,
        permissions: facts.mode() & 0o7777,
        uid: facts.uid(),
        gid: facts.gid(),
        mtime: Timestamp { sec: facts.mtime(), nsec: facts.mtime_nsec() as u32 },
        len: if kind == InodeKind::File { facts.len() } else { 0 },
        device,
        inode: 0,
        content: None,
        attributes: None,
    }
}

fn system_xattrs(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut list = vec![0; 64 << 10];
    let len = match rustix::fs::llistxattr(path, &mut list[..]) {
        Ok(len) => len,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut found = BTreeMap::new();
    let mut value = vec![0; 64 << 10];
    for name in list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        found.insert(name.to_vec(), value[..len].to_vec());
    }
    Ok(found)
}
