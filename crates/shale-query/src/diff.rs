//! What two trees differ in: entries that were added, removed, changed or moved.
//!
//! Two walks in the same order are merged, so the cost is the metadata of both sides, and the bytes
//! of those regular files whose contents cannot be compared by number. Of two snapshots of one
//! image, directories on pages that both share are not entered. Memory grows with the number of
//! changes, not with the trees.

use std::cmp::Ordering;
use std::collections::HashMap;

use shale_codec::Hasher;
use shale_read::InodeKind;

use crate::error::Error;
use crate::side::{Entry, Side, SideWalk};

/// What a comparison looks at.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Compare modification times.
    pub times: bool,
    /// Compare owners and groups.
    pub owners: bool,
    /// Compare extended attributes.
    pub xattrs: bool,
    /// Compare bytes of regular files that have equal lengths but are not known to be equal.
    /// Without, such files count as equal if their modification times are.
    pub content: bool,
    /// Report a removed file and an added one of equal bytes as moved.
    pub moves: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { times: true, owners: true, xattrs: true, content: true, moves: true }
    }
}

/// One difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Path in the new tree; of removed entries, in the old one.
    pub path: Vec<u8>,
    /// Kind of the inode: in the new tree, or in the old one if the entry was removed.
    pub inode_kind: InodeKind,
    /// Bytes of the regular file before, and now; 0 for other kinds.
    pub lens: (u64, u64),
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened to an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Only the new tree has it.
    Added,
    /// Only the old tree has it.
    Removed,
    /// Both have it, and these aspects differ.
    Changed(Vec<Aspect>),
    /// A regular file of equal bytes was removed at this path.
    Moved(Vec<u8>),
}

/// A part of an entry that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Aspect {
    /// Kind of inode. Nothing else is compared then.
    Type,
    /// Bytes of a regular file.
    Content,
    /// Target of a symbolic link.
    Target,
    /// Device number.
    Device,
    /// Permission bits.
    Mode,
    /// Owner.
    Owner,
    /// Group.
    Group,
    /// Modification time.
    Mtime,
    /// Extended attributes.
    Xattrs,
}

/// Totals of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffReport {
    /// Entries of the old tree.
    pub old_entries: u64,
    /// Entries of the new tree.
    pub new_entries: u64,
    /// Entries only in the new tree.
    pub added: u64,
    /// Entries only in the old tree.
    pub removed: u64,
    /// Entries in both that differ.
    pub changed: u64,
    /// Files that were moved.
    pub moved: u64,
    /// Bytes of regular files that were added or whose content changed.
    pub bytes_new: u64,
    /// Bytes of regular files that were read to compare them.
    pub bytes_compared: u64,
}

impl DiffReport {
    /// True if the trees differ.
    pub fn differs(&self) -> bool {
        self.added + self.removed + self.changed + self.moved > 0
    }
}

/// Compares two trees. Returns the changes in path order, and totals.
///
/// Regular files of one image are compared by content number and not read. Others of equal length
/// are read on both sides. Roots are compared by what is in them only.
///
/// # Errors
/// A tree or a file that has to be compared cannot be read.
pub fn diff(
    old: &Side,
    new: &Side,
    options: &DiffOptions,
) -> Result<(Vec<Change>, DiffReport), Error> {
    let mut differ = Differ {
        old,
        new,
        options,
        by_number: old.shares_contents(new),
        report: DiffReport::default(),
        changes: Vec::new(),
        added: Vec::new(),
        removed: Vec::new(),
    };
    differ.merge()?;
    differ.settle()
}

struct Differ<'a> {
    old: &'a Side,
    new: &'a Side,
    options: &'a DiffOptions,
    by_number: bool,
    report: DiffReport,
    changes: Vec<Change>,
    added: Vec<Entry>,
    removed: Vec<Entry>,
}

/// Paths in the order of a walk: by names, so a directory's entries follow it directly.
fn walk_order(one: &[u8], other: &[u8]) -> Ordering {
    one.split(|&byte| byte == b'/').cmp(other.split(|&byte| byte == b'/'))
}

impl Differ<'_> {
    fn merge(&mut self) -> Result<(), Error> {
        // Directories that are equal need not be entered.
        let changed = self.old.changed_directories(self.new)?;
        let is_same = |old: &Entry, new: &Entry| match (&changed, old.attributes, new.attributes) {
            (Some(changed), Some(old), Some(new)) => {
                old.kind == InodeKind::Directory && !changed.may_differ(&old, &new)
            }
            _ => false,
        };
        let (mut old_walk, mut new_walk) = (self.old.walk()?, self.new.walk()?);
        let (mut old, mut new) = (self.next_old(&mut old_walk)?, self.next_new(&mut new_walk)?);
        loop {
            let order = match (&old, &new) {
                (Some(old), Some(new)) => walk_order(&old.path, &new.path),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            if order.is_eq()
                && let (Some(before), Some(now)) = (&old, &new)
            {
                self.compare(before, now)?;
                if is_same(before, now) {
                    old_walk.skip_directory();
                    new_walk.skip_directory();
                }
            }
            if order.is_le() {
                let gone = std::mem::replace(&mut old, self.next_old(&mut old_walk)?);
                self.removed.extend(gone.filter(|_| order.is_lt()));
            }
            if order.is_ge() {
                let come = std::mem::replace(&mut new, self.next_new(&mut new_walk)?);
                self.added.extend(come.filter(|_| order.is_gt()));
            }
        }
        // Those that were not visited count, too.
        for (side, count) in
            [(self.old, &mut self.report.old_entries), (self.new, &mut self.report.new_entries)]
        {
            *count = side.entry_count().unwrap_or(*count);
        }
        Ok(())
    }

    fn next_old(&mut self, walk: &mut SideWalk<'_>) -> Result<Option<Entry>, Error> {
        let next = walk.next()?;
        self.report.old_entries += u64::from(next.is_some());
        Ok(next)
    }

    fn next_new(&mut self, walk: &mut SideWalk<'_>) -> Result<Option<Entry>, Error> {
        let next = walk.next()?;
        self.report.new_entries += u64::from(next.is_some());
        Ok(next)
    }

    fn compare(&mut self, old: &Entry, new: &Entry) -> Result<(), Error> {
        let mut aspects = Vec::new();
        if old.kind != new.kind {
            aspects.push(Aspect::Type);
        } else {
            let link = new.kind == InodeKind::Symlink;
            if new.kind == InodeKind::File && !self.same_content(old, new)? {
                aspects.push(Aspect::Content);
            }
            if link && self.old.link_target(old)? != self.new.link_target(new)? {
                aspects.push(Aspect::Target);
            }
            let options = self.options;
            let differs = [
                (Aspect::Device, old.device != new.device),
                (Aspect::Mode, !link && old.permissions != new.permissions),
                (Aspect::Owner, options.owners && old.uid != new.uid),
                (Aspect::Group, options.owners && old.gid != new.gid),
                (Aspect::Mtime, options.times && old.mtime != new.mtime),
            ];
            aspects
                .extend(differs.iter().filter(|(_, differs)| *differs).map(|(aspect, _)| *aspect));
            if options.xattrs && self.old.xattrs(old)? != self.new.xattrs(new)? {
                aspects.push(Aspect::Xattrs);
            }
        }
        if !aspects.is_empty() {
            self.report.changed += 1;
            if aspects.iter().any(|aspect| matches!(aspect, Aspect::Content | Aspect::Type)) {
                self.report.bytes_new += new.len;
            }
            self.changes.push(Change {
                path: new.path.clone(),
                inode_kind: new.kind,
                lens: (old.len, new.len),
                kind: ChangeKind::Changed(aspects),
            });
        }
        Ok(())
    }

    fn same_content(&mut self, old: &Entry, new: &Entry) -> Result<bool, Error> {
        if old.len != new.len {
            return Ok(false);
        }
        if old.len == 0 || self.by_number && old.content == new.content {
            return Ok(true);
        }
        if !self.options.content {
            return Ok(!self.by_number && old.mtime == new.mtime);
        }
        let report = &mut self.report;
        Ok(digest(self.old, old, report)? == digest(self.new, new, report)?)
    }

    /// Pairs moved files and puts everything in order.
    fn settle(mut self) -> Result<(Vec<Change>, DiffReport), Error> {
        let mut moved_from = vec![false; self.removed.len()];
        let origins = if self.options.moves { self.origins()? } else { HashMap::new() };
        for (index, entry) in std::mem::take(&mut self.added).into_iter().enumerate() {
            let kind = match origins.get(&index) {
                Some(&origin) => {
                    moved_from[origin] = true;
                    self.report.moved += 1;
                    ChangeKind::Moved(self.removed[origin].path.clone())
                }
                None => {
                    self.report.added += 1;
                    self.report.bytes_new += entry.len;
                    ChangeKind::Added
                }
            };
            let before = if matches!(kind, ChangeKind::Moved(_)) { entry.len } else { 0 };
            self.changes.push(Change {
                path: entry.path,
                inode_kind: entry.kind,
                lens: (before, entry.len),
                kind,
            });
        }
        for (entry, moved) in self.removed.into_iter().zip(moved_from) {
            if !moved {
                self.report.removed += 1;
                self.changes.push(Change {
                    path: entry.path,
                    inode_kind: entry.kind,
                    lens: (entry.len, 0),
                    kind: ChangeKind::Removed,
                });
            }
        }
        self.changes.sort_by(|one, other| walk_order(&one.path, &other.path));
        Ok((self.changes, self.report))
    }

    /// For each added file, the removed one of equal bytes, if there is one. Each removed file is
    /// taken once, in path order.
    fn origins(&mut self) -> Result<HashMap<usize, usize>, Error> {
        let is_candidate = |entry: &Entry| entry.kind == InodeKind::File && entry.len > 0;
        let mut removed_by_len: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, entry) in self.removed.iter().enumerate().filter(|(_, e)| is_candidate(e)) {
            removed_by_len.entry(entry.len).or_default().push(index);
        }
        let (removed, report) = (&self.removed, &mut self.report);
        let mut origins = HashMap::new();
        let mut digests: HashMap<usize, [u8; 32]> = HashMap::new();
        for (index, entry) in self.added.iter().enumerate().filter(|(_, e)| is_candidate(e)) {
            let Some(candidates) = removed_by_len.get_mut(&entry.len) else { continue };
            let place = if self.by_number {
                candidates.iter().position(|&origin| removed[origin].content == entry.content)
            } else if self.options.content && !candidates.is_empty() {
                let wanted = digest(self.new, entry, report)?;
                let mut found = None;
                for (place, &origin) in candidates.iter().enumerate() {
                    let digest = match digests.get(&origin) {
                        Some(digest) => *digest,
                        None => {
                            let digest = digest(self.old, &removed[origin], report)?;
                            digests.insert(origin, digest);
                            digest
                        }
                    };
                    if digest == wanted {
                        found = Some(place);
                        break;
                    }
                }
                found
            } else {
                None
            };
            if let Some(place) = place {
                origins.insert(index, candidates.remove(place));
            }
        }
        Ok(origins)
    }
}

/// A hash of a file's bytes: the two sides give theirs in pieces of different lengths.
fn digest(side: &Side, entry: &Entry, report: &mut DiffReport) -> Result<[u8; 32], Error> {
    let mut hasher = Hasher::new();
    side.read(entry, |bytes| {
        hasher.update(bytes);
        true
    })?;
    report.bytes_compared += entry.len;
    Ok(*hasher.finalize().as_bytes())
}
