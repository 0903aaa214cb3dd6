//! Reads the tree in the order of the tables, and decides which entries stay where a path repeats.
//!
//! Directories come breadth first, and the entries of each directory by name. An inode is numbered
//! at its first entry. So numbers depend on names alone. [`walk`] reads a sealed tree in this
//! order, one depth after the other. It holds one block of each run of two depths at a time.

use shale_model::{Problem, ProblemKind, Repeat};

use crate::content::dedupe::Contents;
use crate::plan::digest::TreeDigest;
use crate::plan::error::WriteError;
use crate::tree::batch::{Parents, add_entry};
use crate::tree::links::Links;
use crate::tree::record::{NONE, Record, name_of, path_of};
use crate::tree::runs::Merge;
use crate::tree::seal::{Depth, NOTED_MAX, SealedTree, note};
use crate::tree::sets::XattrSets;
use crate::tree::store::Store;

/// An entry of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) record: &'a Record,
    pub(crate) target: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Returns its name in its directory.
    pub(crate) fn name(&self) -> &'a [u8] {
        name_of(self.key)
    }
}

/// The entry that stays where several have one path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Survivor {
    /// Number of the entry in the source, from 1.
    pub(crate) sequence: u64,
    /// A directory is replaced by nothing else, because its entries would be lost.
    pub(crate) is_directory: bool,
}

/// Visits a tree breadth first.
pub(crate) trait Visit {
    /// Begins the entries of the next directory. Directories come in the order in which
    /// [`Visit::entry`] met them, the root first.
    fn directory(&mut self, store: &mut Store) -> Result<(), WriteError>;

    /// Visits an entry of the directory; entries come by name.
    fn entry(&mut self, entry: &Entry<'_>, store: &mut Store) -> Result<(), WriteError>;

    /// Visits an entry that does not stay, because a later entry of the source or a directory has
    /// the same path.
    fn replaced(&mut self, entry: &Entry<'_>, by: Survivor) -> Result<(), WriteError>;
}

/// Walks a tree breadth first.
pub(crate) fn walk(
    depths: &[Depth],
    store: &mut Store,
    visit: &mut dyn Visit,
) -> Result<(), WriteError> {
    visit.directory(store)?;
    let mut parent = Vec::new();
    let mut above: Option<Merge<'_>> = None;
    for depth in depths {
        let mut here = Here {
            directories: Merge::new([&depth.directories[..]].into_iter(), store)?,
            others: depth.others.merge(store)?,
            key: Vec::new(),
        };
        match &mut above {
            None => here.visit(b"", store, visit)?,
            Some(above) => {
                while let Some((key, ..)) = above.head() {
                    parent.clear();
                    parent.extend_from_slice(key);
                    above.advance(store)?;
                    visit.directory(store)?;
                    here.visit(&parent, store, visit)?;
                }
            }
        }
        above = Some(Merge::new([&depth.directories[..]].into_iter(), store)?);
    }
    // Directories at the greatest depth are empty.
    if let Some(mut above) = above {
        while above.head().is_some() {
            visit.directory(store)?;
            above.advance(store)?;
        }
    }
    Ok(())
}

/// Entries of one depth that were not visited yet.
struct Here<'r> {
    directories: Merge<'r>,
    others: Merge<'r>,
    key: Vec<u8>,
}

impl Here<'_> {
    /// Visits the entries of one directory.
    fn visit(
        &mut self,
        parent: &[u8],
        store: &mut Store,
        visit: &mut dyn Visit,
    ) -> Result<(), WriteError> {
        loop {
            let directory = self.directories.head().filter(|head| is_in(head.0, parent));
            let other = self.others.head().filter(|head| is_in(head.0, parent));
            let is_directory = match (directory, other) {
                (None, None) => return Ok(()),
                (Some(directory), Some(other)) => directory.0 <= other.0,
                (directory, _) => directory.is_some(),
            };
            let found = if is_directory { directory } else { other };
            let Some((key, record, target)) = found else { return Ok(()) };
            visit.entry(&Entry { key, record, target }, store)?;
            let by = Survivor { sequence: record.sequence, is_directory };
            self.key.clear();
            self.key.extend_from_slice(key);
            let merge = if is_directory { &mut self.directories } else { &mut self.others };
            merge.advance(store)?;
            while let Some((key, record, target)) = self.others.head()
                && key == self.key
            {
                visit.replaced(&Entry { key, record, target }, by)?;
                self.others.advance(store)?;
            }
        }
    }
}

/// Returns whether the entry with this key, one level deeper than the directory, lies in it.
fn is_in(key: &[u8], directory: &[u8]) -> bool {
    directory.is_empty()
        || (key.get(directory.len()) == Some(&0) && &key[..directory.len()] == directory)
}

/// Removes what was counted for entries that do not stay.
pub(crate) struct Replaced<'a> {
    pub(crate) contents: &'a Contents,
    pub(crate) xattr_sets: &'a mut XattrSets,
    pub(crate) links: &'a mut Links,
    pub(crate) digest: &'a mut TreeDigest,
    pub(crate) repeats: &'a mut Vec<Repeat>,
    pub(crate) collisions: &'a mut Vec<Problem>,
    pub(crate) parents: Parents,
}

impl Replaced<'_> {
    /// Removes one entry.
    pub(crate) fn take_back(&mut self, entry: &Entry<'_>, by: Survivor) -> Result<(), WriteError> {
        let Entry { key, record, target } = *entry;
        let parent = self.parents.of(key);
        let content = self.contents.digest(record.payload);
        let xattrs = self.xattr_sets.get(record.attributes.xattrs)?;
        let mut digest = TreeDigest::default();
        add_entry(&mut digest, &parent, key, record, target, &content, &xattrs);
        self.digest.remove(&digest);
        if record.link != NONE {
            self.links.remove_path(record.link, &parent.child(name_of(key)))?;
        }
        note(self.repeats, key, (record.sequence, by.sequence));
        if by.is_directory && by.sequence < record.sequence && self.collisions.len() < NOTED_MAX {
            self.collisions.push(Problem { path: path_of(key), kind: ProblemKind::Collision });
        }
        Ok(())
    }
}

impl Visit for Replaced<'_> {
    fn directory(&mut self, _: &mut Store) -> Result<(), WriteError> {
        Ok(())
    }

    fn entry(&mut self, _: &Entry<'_>, _: &mut Store) -> Result<(), WriteError> {
        Ok(())
    }

    fn replaced(&mut self, entry: &Entry<'_>, by: Survivor) -> Result<(), WriteError> {
        self.take_back(entry, by)
    }
}

/// Counts the names of inodes that may have several, because the row of an inode holds their
/// number. Reads the whole tree if there are any.
pub(crate) fn count_links(
    sealed: &mut SealedTree,
    contents: &Contents,
) -> Result<bool, WriteError> {
    if sealed.links.is_empty() {
        return Ok(false);
    }
    let mut replaced = Replaced {
        contents,
        xattr_sets: &mut sealed.xattr_sets,
        links: &mut sealed.links,
        digest: &mut sealed.digest,
        repeats: &mut sealed.repeats,
        collisions: &mut sealed.collisions,
        parents: Parents::default(),
    };
    walk(&sealed.depths, &mut sealed.store, &mut replaced)?;
    Ok(true)
}
