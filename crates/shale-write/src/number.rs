//! Numbers for the tables: which entries stay, in which order, and the inodes they lead to.
//!
//! Level order: directories breadth first, the entries of each by name; an inode is numbered
//! where its first entry is met. So the numbers depend on names alone. Costs a sort of each
//! directory's entries and 24 bytes an entry while the tables are written.

use std::collections::HashMap;

use shale_format::InodeKind;

use crate::dedupe::Contents;
use crate::digest::{EntryPayload, LinkGroup, PathDigest, TreeDigest};
use crate::report::EntryCounts;
use crate::tree::{DirectorySlot, InodeSlot, Tree};

/// The numbering of a finished tree.
#[derive(Debug)]
pub(crate) struct Numbering {
    /// Indexes of the entries that stay, grouped by directory slot, by name within.
    sorted: Vec<u32>,
    /// Where each directory slot's group begins in `sorted`; one more at the end.
    group_starts: Vec<u32>,
    /// Directory slots in level order.
    pub(crate) directories: Vec<DirectorySlot>,
    /// Directory index by slot.
    directory_indexes: Vec<u32>,
    /// Inode slots in the order of their numbers.
    pub(crate) inodes: Vec<InodeSlot>,
    /// Number by inode slot; 0: none.
    numbers: Vec<u32>,
    /// Entries that lead to an inode, by slot; of a directory: directories in it.
    link_counts: Vec<u32>,
}

impl Numbering {
    /// Numbers everything that can be reached from the root.
    pub(crate) fn new(tree: &Tree) -> Self {
        let mut numbering = Self {
            sorted: Vec::new(),
            group_starts: Vec::new(),
            directories: vec![0],
            directory_indexes: vec![0; tree.directories.len()],
            inodes: vec![tree.directories[0].inode],
            numbers: vec![0; tree.inode_count()],
            link_counts: vec![0; tree.inode_count()],
        };
        numbering.sort_entries(tree);
        numbering.numbers[tree.directories[0].inode as usize] = 1;
        let mut next = 0;
        while let Some(&slot) = numbering.directories.get(next) {
            numbering.directory_indexes[slot as usize] = next as u32;
            numbering.number_directory(tree, slot);
            next += 1;
        }
        numbering
    }

    /// Groups entries by directory, sorts each group, drops what was left out or replaced.
    fn sort_entries(&mut self, tree: &Tree) {
        let mut starts = vec![0u32; tree.directories.len() + 1];
        for entry in &tree.entries {
            starts[entry.directory as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut sorted = vec![0u32; tree.entries.len()];
        let mut fill = starts.clone();
        for (index, entry) in tree.entries.iter().enumerate() {
            let place = &mut fill[entry.directory as usize];
            sorted[*place as usize] = index as u32;
            *place += 1;
        }
        drop(fill);
        let name = |index: u32| tree.name(&tree.entries[index as usize]);
        let mut kept = 0;
        for directory in 0..tree.directories.len() {
            let group = starts[directory] as usize..starts[directory + 1] as usize;
            sorted[group.clone()].sort_by(|&a, &b| name(a).cmp(name(b)));
            starts[directory] = kept as u32;
            for at in group.clone() {
                let index = sorted[at];
                let replaced = at + 1 < group.end && name(sorted[at + 1]) == name(index);
                if !replaced && !tree.is_left_out(tree.entries[index as usize].inode) {
                    sorted[kept] = index;
                    kept += 1;
                }
            }
        }
        starts[tree.directories.len()] = kept as u32;
        sorted.truncate(kept);
        self.sorted = sorted;
        self.group_starts = starts;
    }

    fn number_directory(&mut self, tree: &Tree, slot: DirectorySlot) {
        for at in self.group(slot) {
            let inode = tree.entries[self.sorted[at] as usize].inode;
            let number = &mut self.numbers[inode as usize];
            if *number == 0 {
                self.inodes.push(inode);
                *number = self.inodes.len() as u32;
            }
            if tree.kind(inode) == InodeKind::Directory {
                self.directories.push(tree.payload(inode) as DirectorySlot);
                let own = tree.directories[slot as usize].inode;
                self.link_counts[own as usize] += 1;
            } else {
                self.link_counts[inode as usize] += 1;
            }
        }
    }

    fn group(&self, slot: DirectorySlot) -> std::ops::Range<usize> {
        let slot = slot as usize;
        self.group_starts[slot] as usize..self.group_starts[slot + 1] as usize
    }

    /// Indexes of a directory's entries, by name.
    pub(crate) fn entries(&self, slot: DirectorySlot) -> &[u32] {
        &self.sorted[self.group(slot)]
    }

    /// Number of an inode, from 1.
    pub(crate) fn number(&self, inode: InodeSlot) -> u64 {
        u64::from(self.numbers[inode as usize])
    }

    /// Index of a directory, from 0.
    pub(crate) fn directory_index(&self, slot: DirectorySlot) -> u64 {
        u64::from(self.directory_indexes[slot as usize])
    }

    /// Link count as Linux counts: entries, or for a directory 2 and its directories.
    pub(crate) fn link_count(&self, tree: &Tree, inode: InodeSlot) -> u64 {
        let count = u64::from(self.link_counts[inode as usize]);
        if tree.kind(inode) == InodeKind::Directory { count + 2 } else { count }
    }

    /// Counts entries by kind.
    pub(crate) fn counts(&self, tree: &Tree) -> EntryCounts {
        let mut counts = EntryCounts {
            inodes: self.inodes.len() as u64,
            directories: self.directories.len() as u64,
            ..EntryCounts::default()
        };
        for &slot in &self.directories {
            for &index in self.entries(slot) {
                counts.total += 1;
                match tree.kind(tree.entries[index as usize].inode) {
                    InodeKind::File => counts.files += 1,
                    InodeKind::Directory => {}
                    InodeKind::Symlink => counts.symlinks += 1,
                    InodeKind::BlockDevice | InodeKind::CharDevice => counts.devices += 1,
                    InodeKind::Fifo | InodeKind::Socket => counts.specials += 1,
                }
            }
        }
        // Every entry and the root leads to an inode; what is too many are further names.
        counts.hard_links = counts.total + 1 - counts.inodes;
        counts
    }

    /// Digest of the tree, see [`crate::digest`]. Names and parents are taken from the tree as it
    /// was taken in, not from the numbers.
    pub(crate) fn digest(&self, tree: &Tree, contents: &Contents) -> TreeDigest {
        let mut digest = TreeDigest::default();
        // A parent is always mentioned before its directories.
        let mut paths = vec![PathDigest::ROOT; tree.directories.len()];
        for slot in 1..tree.directories.len() {
            let parent = paths[tree.directories[slot].parent as usize];
            paths[slot] = parent.child(tree.directory_name(slot as u32));
        }
        let mut groups: HashMap<InodeSlot, LinkGroup> = HashMap::new();
        let mut add = |parent: &PathDigest, name: &[u8], inode: InodeSlot| {
            let xattrs = tree.xattr_set(inode).map_or(&[][..], |set| tree.xattrs(set));
            let payload = match tree.kind(inode) {
                InodeKind::File => {
                    EntryPayload::Content(&contents.digests()[tree.payload(inode) as usize])
                }
                InodeKind::Symlink => EntryPayload::Target(tree.target(inode)),
                InodeKind::BlockDevice | InodeKind::CharDevice => {
                    EntryPayload::Device(tree.payload(inode))
                }
                InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => EntryPayload::None,
            };
            let xattrs = xattrs.iter().map(|xattr| (&xattr.name[..], &xattr.value[..]));
            digest.add_entry(parent, name, &tree.record(inode), xattrs, payload);
        };
        add(&PathDigest::ROOT, b"", tree.directories[0].inode);
        for &slot in &self.directories {
            for &index in self.entries(slot) {
                let entry = &tree.entries[index as usize];
                let parent = &paths[entry.directory as usize];
                let name = tree.name(entry);
                add(parent, name, entry.inode);
                let is_directory = tree.kind(entry.inode) == InodeKind::Directory;
                if !is_directory && self.link_counts[entry.inode as usize] > 1 {
                    groups.entry(entry.inode).or_default().add(parent, name);
                }
            }
        }
        for group in groups.values() {
            digest.add_links(group);
        }
        digest
    }
}
