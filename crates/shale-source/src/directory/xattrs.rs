//! Extended attributes of the walked tree.
//!
//! The kernel returns the attributes of symbolic links, devices and files that we may not open only
//! by path. The path leads through the open directory in `/proc`, so nobody can exchange a
//! directory on it. If `/proc` is missing, the path from the root of the walk is used. All
//! namespaces that the caller may see are read as bytes, POSIX ACLs and capabilities among them.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::io::Errno;
use shale_codec::Hasher;
use shale_model::Xattr;

use shale_host::Beneath;
use shale_host::beneath::retry;

/// Sets of attributes, each kept once: all files of a labelled system share a few sets.
#[derive(Debug, Default)]
pub(super) struct XattrSets {
    sets: Vec<Arc<[Xattr]>>,
    by_content: HashMap<Arc<[Xattr]>, u32>,
}

impl XattrSets {
    /// Returns the number of this set. `xattrs` is sorted by name and not empty.
    pub(super) fn intern(&mut self, xattrs: Vec<Xattr>) -> u32 {
        let set: Arc<[Xattr]> = xattrs.into();
        *self.by_content.entry(set).or_insert_with_key(|set| {
            self.sets.push(Arc::clone(set));
            (self.sets.len() - 1) as u32
        })
    }

    /// Returns the set with this number; an empty one for `NONE`.
    pub(super) fn get(&self, index: u32) -> Arc<[Xattr]> {
        self.sets.get(index as usize).cloned().unwrap_or_default()
    }

    /// Frees what only interning needs.
    pub(super) fn seal(&mut self) {
        self.by_content = HashMap::new();
    }
}

/// Adds attributes to a hash.
pub(super) fn hash_xattrs(hasher: &mut Hasher, xattrs: &[Xattr]) {
    hasher.update(&(xattrs.len() as u64).to_le_bytes());
    for xattr in xattrs {
        hasher.update(&(xattr.name.len() as u64).to_le_bytes());
        hasher.update(&xattr.name);
        hasher.update(&(xattr.value.len() as u64).to_le_bytes());
        hasher.update(&xattr.value);
    }
}

/// Reads extended attributes.
pub(super) struct XattrReader<'a> {
    beneath: &'a Beneath,
    /// Whether `/proc` shows our open files.
    proc: bool,
    path: Vec<u8>,
    names: Vec<u8>,
    value: Vec<u8>,
}

/// Limit of the kernel on the list of names and on a value.
const XATTR_BUFFER_LEN: usize = 64 << 10;

impl<'a> XattrReader<'a> {
    pub(super) fn new(beneath: &'a Beneath) -> Self {
        let path = format!("/proc/self/fd/{}/.", beneath.root().as_raw_fd());
        Self {
            beneath,
            proc: rustix::fs::stat(path.as_str()).is_ok(),
            path: Vec::new(),
            names: vec![0; XATTR_BUFFER_LEN],
            value: vec![0; XATTR_BUFFER_LEN],
        }
    }

    /// Reads the attributes of the entry `name` in the open directory at `path`, sorted by name.
    pub(super) fn of_entry(
        &mut self,
        directory: BorrowedFd,
        path: &[u8],
        name: &[u8],
    ) -> io::Result<Vec<Xattr>> {
        self.path.clear();
        if self.proc {
            write!(self.path, "/proc/self/fd/{}/", directory.as_raw_fd())?;
        } else {
            self.path.extend_from_slice(self.beneath.root_path().as_os_str().as_bytes());
            self.path.push(b'/');
            if !path.is_empty() {
                self.path.extend_from_slice(path);
                self.path.push(b'/');
            }
        }
        self.path.extend_from_slice(name);
        let path = &self.path;
        read_xattrs(
            &mut self.names,
            &mut self.value,
            |names| rustix::fs::llistxattr(path.as_slice(), names),
            |name, value| rustix::fs::lgetxattr(path.as_slice(), name, value),
        )
    }
}

/// Reads the attributes of an open file or directory, sorted by name. Allocates its own buffers, so
/// it is for single files.
pub(super) fn of_open(file: BorrowedFd) -> io::Result<Vec<Xattr>> {
    read_xattrs(
        &mut vec![0; XATTR_BUFFER_LEN],
        &mut vec![0; XATTR_BUFFER_LEN],
        |names| rustix::fs::flistxattr(file, names),
        |name, value| rustix::fs::fgetxattr(file, name, value),
    )
}

fn read_xattrs(
    names: &mut [u8],
    value: &mut [u8],
    list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize, Errno>,
) -> io::Result<Vec<Xattr>> {
    let len = match retry(|| list(names)) {
        Err(Errno::OPNOTSUPP) => 0,
        len => len?,
    };
    let mut xattrs = Vec::new();
    for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        match retry(|| get(name, value)) {
            // Removed since the names were listed, or listed although we may not read it.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
            Ok(len) => xattrs.push(Xattr { name: name.to_vec(), value: value[..len].to_vec() }),
        }
    }
    xattrs.sort_unstable();
    xattrs.dedup_by(|a, b| a.name == b.name);
    Ok(xattrs)
}
