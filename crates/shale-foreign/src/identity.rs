//! Hard-link detection: the paths met so far, each known by a hash of 16 bytes.
//!
//! Archives name the target of a hard link by its path. Each entry costs the hash of its path, a
//! number and a kind: about 40 bytes, whatever the length of the path. The hash of a path is made
//! of the hash of its parent and of its last name, so the directories above an entry are looked up
//! in time linear in its path. Nobody can find two paths with equal hashes.

use std::collections::{HashMap, HashSet};

use shale_model::{InodeKind, LinkId};

type Key = [u8; 16];

/// Paths met so far.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    seen: HashMap<Key, (u64, InodeKind)>,
    left_out: HashSet<u64>,
    next: u64,
    last: LastPath,
}

/// The path that was hashed last: the next one mostly shares its directories.
#[derive(Debug, Default)]
struct LastPath {
    path: Vec<u8>,
    /// End and hash of each prefix that ends with a component.
    prefixes: Vec<(usize, Key)>,
}

impl Identities {
    /// Records an entry with an inode of its own. It replaces an earlier one of its path.
    pub(crate) fn add(&mut self, path: &[u8], kind: InodeKind) -> LinkId {
        let number = self.next;
        self.next += 1;
        let key = self.last.key(path);
        self.seen.insert(key, (number, kind));
        link_id(number)
    }

    /// Records an entry that is not packed.
    pub(crate) fn add_left_out(&mut self, path: &[u8], kind: InodeKind) {
        let id = self.add(path, kind);
        self.left_out.insert(id.inode);
    }

    /// Returns true if an inode is not packed.
    pub(crate) fn is_left_out(&self, id: LinkId) -> bool {
        self.left_out.contains(&id.inode)
    }

    /// Records a further name of an inode.
    pub(crate) fn add_name(&mut self, path: &[u8], id: LinkId, kind: InodeKind) {
        let key = self.last.key(path);
        self.seen.insert(key, (id.inode, kind));
    }

    /// The inode of an earlier path.
    pub(crate) fn find(&mut self, path: &[u8]) -> Option<(LinkId, InodeKind)> {
        let key = self.last.key(path);
        self.seen.get(&key).map(|&(number, kind)| (link_id(number), kind))
    }

    /// Checks that every directory above `path` that the archive has is one.
    ///
    /// # Errors
    /// Names the first path above that is a symbolic link or a file. An extraction would follow
    /// the link or fail; in an image nothing can lie below either.
    pub(crate) fn check_above(&mut self, path: &[u8]) -> Result<(), String> {
        self.last.key(path);
        let above = self.last.prefixes.split_last().map_or(&[][..], |(_, above)| above);
        for (end, key) in above {
            if let Some((_, kind)) = self.seen.get(key)
                && *kind != InodeKind::Directory
            {
                let what = match kind {
                    InodeKind::Symlink => "a symbolic link",
                    InodeKind::File => "a file",
                    _ => "not a directory",
                };
                let above = crate::names::shown(&path[..*end]);
                return Err(format!("it lies below {above}, which is {what} in the archive"));
            }
        }
        Ok(())
    }
}

impl LastPath {
    /// The hash of a path without empty components.
    fn key(&mut self, path: &[u8]) -> Key {
        let shared = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        let is_prefix = |end: usize| end <= shared && matches!(path.get(end), None | Some(b'/'));
        while self.prefixes.last().is_some_and(|&(end, _)| !is_prefix(end)) {
            self.prefixes.pop();
        }
        self.path.truncate(shared);
        self.path.extend_from_slice(&path[shared..]);
        let (mut at, mut key) = match self.prefixes.last() {
            Some(&(end, key)) => (end + 1, key),
            None => (0, Key::default()),
        };
        while at < path.len() {
            let rest = &path[at..];
            let end = at + rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let hash = shale_codec::hash(&[&key, &path[at..end]].concat());
            key.copy_from_slice(&hash.as_bytes()[..16]);
            self.prefixes.push((end, key));
            at = end + 1;
        }
        key
    }
}

fn link_id(number: u64) -> LinkId {
    LinkId { device: 0, inode: number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_whatever_was_asked_before() {
        let paths = ["a", "a/b", "a/b/c", "ab", "a/bc", "a/b/c/d/e", "a/b/d", "x"];
        let mut seen = Identities::default();
        let ids: Vec<LinkId> =
            paths.iter().map(|path| seen.add(path.as_bytes(), InodeKind::Directory)).collect();
        for (path, id) in paths.iter().zip(&ids).rev().chain(paths.iter().zip(&ids)) {
            assert_eq!(seen.find(path.as_bytes()), Some((*id, InodeKind::Directory)), "{path}");
        }
        for path in ["", "b", "a/b/c/d", "a/c", "abc"] {
            assert_eq!(seen.find(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn nothing_lies_below_a_link_or_a_file() {
        let mut seen = Identities::default();
        seen.add(b"d", InodeKind::Directory);
        seen.add(b"d/link", InodeKind::Symlink);
        seen.add(b"d/file", InodeKind::File);
        for good in ["d/x", "d/link", "d/link2/x", "e/f/g", "d/file"] {
            assert_eq!(seen.check_above(good.as_bytes()), Ok(()), "{good}");
        }
        for bad in ["d/link/x", "d/link/x/y", "d/file/x"] {
            assert!(seen.check_above(bad.as_bytes()).is_err(), "{bad}");
        }
        seen.add(b"d/file", InodeKind::Directory);
        assert_eq!(seen.check_above(b"d/file/x"), Ok(()), "it was replaced by a directory");
    }
}
