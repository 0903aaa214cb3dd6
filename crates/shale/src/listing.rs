//! Paths in an image: found as the system would find them, and walked in order.
//!
//! Symbolic links are followed inside the image only: an absolute target begins at the root of the
//! image, and `..` of the root is the root.

use shale_format::InodeKind;
use shale_read::{Attributes, Tree};

use crate::error::Error;

/// Links followed on the way to one path, as on Linux.
const LINK_COUNT_MAX: usize = 40;

/// The inode that `path` leads to. With `follow`, a symbolic link in the last place is followed
/// too. Costs one lookup a name.
pub fn resolve(tree: &Tree, path: &[u8], follow: bool) -> Result<Attributes, Error> {
    let fail = |what| Error::Path { path: path.escape_ascii().to_string(), what };
    // Names still to go, the next one last.
    let mut ahead: Vec<Vec<u8>> = Vec::new();
    push_names(&mut ahead, path);
    // A slash at the end asks for what a link leads to.
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

/// Calls `visit` with each entry of a directory in order of names until it returns an error.
/// Holds some hundred entries at a time, whatever the size of the directory.
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
