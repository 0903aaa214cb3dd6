//! Directories of caches, as the Cache Directory Tagging Specification marks them: a file
//! `CACHEDIR.TAG` that begins with a certain line. As in tar, the directory and the tag are packed,
//! and what else is in the directory is not.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

const TAG_NAME: &[u8] = b"CACHEDIR.TAG";
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The directories of one tree that were looked at.
#[derive(Debug)]
pub(crate) struct Caches {
    root: PathBuf,
    /// Whether a directory is one of a cache.
    known: Mutex<HashMap<Vec<u8>, bool>>,
}

impl Caches {
    /// Looks for caches in the tree at `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), known: Mutex::default() }
    }

    /// Returns whether the entry at `path` below the root lies in a directory of a cache. The tag
    /// itself does not count. Opens one file for each directory.
    pub(crate) fn contain(&self, path: &[u8]) -> bool {
        let at = path.iter().rposition(|&byte| byte == b'/');
        let (directory, name) = at.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        if name == TAG_NAME || path.is_empty() {
            return false;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&is_cache) = known.get(directory) {
            return is_cache;
        }
        let is_cache = is_tagged(&self.root.join(OsStr::from_bytes(directory)));
        known.insert(directory.to_vec(), is_cache);
        is_cache
    }
}

/// Returns whether a directory has a valid tag. Links are not followed.
fn is_tagged(directory: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let path = directory.join(OsStr::from_bytes(TAG_NAME));
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    let mut file = File::from(file);
    let mut head = [0; SIGNATURE.len()];
    file.metadata().is_ok_and(|found| found.is_file())
        && file.read_exact(&mut head).is_ok()
        && head == SIGNATURE
}
