//! Paths in an image: looked up as the system would, and walked in order.
//!
//! Symbolic links are followed inside the image only: an absolute target begins at the root of the
//! image, and `..` of the root is the root.

use shale_model::{InodeKind, PatternError, Patterns};
use shale_read::{Attributes, Tree};

use crate::error::Error;

/// Compiles patterns for one tree; see [`Patterns::for_paths`]. Costs one lookup a name for a
/// pattern with brackets, braces or backslashes.
///
/// # Errors
/// A pattern is not valid.
pub fn patterns_in_tree<P: AsRef<[u8]>>(
    patterns: &[P],
    tree: &Tree,
) -> Result<Patterns, PatternError> {
    Patterns::for_paths(patterns, |path| matches!(tree.lookup_path(path), Ok(Some(_))))
}

/// Most links followed in one path, as on Linux.
const LINK_COUNT_MAX: usize = 40;

/// Returns the attributes of the inode at `path`. With `follow`, a symbolic link in the last
/// component is followed too. Costs one lookup for each name.
///
/// # Errors
/// [`Error::Path`] if the path does not exist, [`Error::Read`] if the image cannot be read.
pub fn resolve(tree: &Tree, path: &[u8], follow: bool) -> Result<Attributes, Error> {
    let fail = |what| Error::Path { path: path.escape_ascii().to_string(), what };
    // Names still to come, the next one last.
    let mut ahead: Vec<Vec<u8>> = Vec::new();
    push_names(&mut ahead, path);
    // A trailing slash asks for the target of a link.
    let follow = follow || path.ends_with(b"/");
    let mut links = 0;
    let mut at = tree.attributes(tree.root_inode())?;
    while let Some(name) = ahead.pop() {
        if at.kind != InodeKind::Directory {
            return Err(fail("not found: a name on the way is not a directory"));
        }
        if name == b".." {
            at = tree.attributes(tree.parent(at.inode)?)?;
            continue;
        }
        let inode =
            tree.lookup(at.inode, &name)?.ok_or_else(|| fail("no such file or directory"))?;
        let found = tree.attributes(inode)?;
        if found.kind == InodeKind::Symlink && (follow || !ahead.is_empty()) {
            links += 1;
            if links > LINK_COUNT_MAX {
                return Err(fail("more than 40 symbolic links on the way; they may form a circle"));
            }
            let target = tree.link_target(inode)?;
            if target.starts_with(b"/") {
                at = tree.attributes(tree.root_inode())?;
            }
            push_names(&mut ahead, &target);
        } else {
            at = found;
        }
    }
    if path.ends_with(b"/") && at.kind != InodeKind::Directory {
        return Err(fail("not a directory"));
    }
    Ok(at)
}

fn push_names(ahead: &mut Vec<Vec<u8>>, path: &[u8]) {
    let names = path.rsplit(|&byte| byte == b'/');
    ahead.extend(names.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec));
}

/// One entry of a directory, with attributes.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Calls `visit` with each entry of a directory, in order of names, until it returns an error.
/// Holds at most some hundred entries in memory.
///
/// # Errors
/// The error of `visit`, or the image cannot be read.
pub fn each_entry<E: From<shale_read::ReadError>>(
    tree: &Tree,
    directory_inode: u64,
    mut visit: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    const ENTRIES_TAKEN: usize = 512;
    let mut cookie = 0;
    let mut taken = Vec::with_capacity(ENTRIES_TAKEN);
    loop {
        tree.list_attributes(directory_inode, cookie, |entry, attributes| {
            cookie = entry.cookie;
            taken.push(Entry { name: entry.name.to_vec(), attributes: *attributes });
            taken.len() < ENTRIES_TAKEN
        })?;
        if taken.is_empty() {
            return Ok(());
        }
        for entry in taken.drain(..) {
            visit(entry)?;
        }
    }
}
