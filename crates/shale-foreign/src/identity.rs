//! Who is a further name of whom: paths seen so far, by a hash of 16 bytes.
//!
//! Archives name the target of a hard link by its path. What is kept of each entry is the hash of
//! its path and its number: 40 bytes, whatever the length of the path. The hash is one that nobody
//! can find two equal inputs of.

use std::collections::{HashMap, HashSet};

use shale_format::InodeKind;
use shale_write::source::LinkId;

/// Paths seen so far.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    seen: HashMap<[u8; 16], (u64, InodeKind)>,
    left_out: HashSet<u64>,
    next: u64,
}

impl Identities {
    /// Takes note of an entry with an inode of its own, in place of an earlier one of its path.
    pub(crate) fn add(&mut self, path: &[u8], kind: InodeKind) -> LinkId {
        let number = self.next;
        self.next += 1;
        self.seen.insert(key(path), (number, kind));
        link_id(number)
    }

    /// Takes note of an entry that is not packed.
    pub(crate) fn add_left_out(&mut self, path: &[u8], kind: InodeKind) {
        let id = self.add(path, kind);
        self.left_out.insert(id.inode);
    }

    /// Whether an inode is not packed.
    pub(crate) fn is_left_out(&self, id: LinkId) -> bool {
        self.left_out.contains(&id.inode)
    }

    /// Takes note of a further name.
    pub(crate) fn add_name(&mut self, path: &[u8], id: LinkId, kind: InodeKind) {
        self.seen.insert(key(path), (id.inode, kind));
    }

    /// The inode that a path seen before leads to.
    pub(crate) fn find(&self, path: &[u8]) -> Option<(LinkId, InodeKind)> {
        self.seen.get(&key(path)).map(|&(number, kind)| (link_id(number), kind))
    }

    /// The first directory on the way to `path` that is a symbolic link, if any.
    pub(crate) fn link_above<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes
            .map(|(at, _)| &path[..at])
            .find(|above| self.find(above).is_some_and(|(_, kind)| kind == InodeKind::Symlink))
    }
}

fn link_id(number: u64) -> LinkId {
    LinkId { device: 0, inode: number }
}

fn key(path: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&shale_codec::hash(path).as_bytes()[..16]);
    key
}
