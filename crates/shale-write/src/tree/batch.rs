//! Entries of one depth, some thousands at a time: sorted, digested and packed by any thread.

use std::collections::HashMap;
use std::sync::Arc;

use super::record::{NONE, Record, RecordWriter, name_of, parent_of, path_of};
use super::store::{BLOCK_LEN, PackedBlock, pack};
use crate::WriteError;
use crate::compress::Bench;
use crate::digest::{ContentDigest, EntryPayload, PathDigest, TreeDigest};
use crate::source::{Repeat, Xattr};
use shale_format::{InodeKind, InodeRecord};

/// Entries as they came.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    items: Vec<Item>,
    /// Keys and targets, end to end.
    strings: Vec<u8>,
    /// What records stand for, where it is not in them: needed for the digest.
    xattrs: HashMap<u32, Arc<[Xattr]>>,
    /// Bytes of those, about.
    xattrs_len: usize,
    contents: Vec<ContentDigest>,
    /// Keys ascend so far.
    is_sorted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    key_start: u32,
    key_len: u32,
    target_len: u32,
    /// Index in `contents`, or [`NONE`] for the empty content.
    content: u32,
    record: Record,
}

/// A batch ready to be kept.
#[derive(Debug)]
pub(crate) struct PackedBatch {
    pub(crate) blocks: Vec<PackedBlock>,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    pub(crate) digest: TreeDigest,
    /// Names of inodes that may have more than one.
    pub(crate) links: Vec<(u32, PathDigest)>,
    pub(crate) repeats: Vec<Repeat>,
}

/// The empty content's digest is needed at every empty file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmptyContent(pub(crate) ContentDigest);

impl Batch {
    /// Adds an entry. `content` is the digest of a file's content unless it is empty.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        record: &Record,
        target: &[u8],
        content: Option<&ContentDigest>,
        xattrs: Option<&Arc<[Xattr]>>,
    ) {
        self.is_sorted = match self.items.last() {
            None => true,
            Some(last) => self.is_sorted && self.key(last) < key,
        };
        let content = content.map_or(NONE, |digest| {
            self.contents.push(*digest);
            self.contents.len() as u32 - 1
        });
        if let Some(xattrs) = xattrs {
            self.xattrs.entry(record.attributes.xattrs).or_insert_with(|| {
                let len = |xattr: &Xattr| size_of::<Xattr>() + xattr.name.len() + xattr.value.len();
                self.xattrs_len += 64 + xattrs.iter().map(len).sum::<usize>();
                Arc::clone(xattrs)
            });
        }
        self.items.push(Item {
            key_start: self.strings.len() as u32,
            key_len: key.len() as u32,
            target_len: target.len() as u32,
            content,
            record: *record,
        });
        self.strings.extend_from_slice(key);
        self.strings.extend_from_slice(target);
    }

    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes it holds, about.
    pub(crate) fn memory_len(&self) -> usize {
        self.items.len() * size_of::<Item>()
            + self.strings.len()
            + self.xattrs_len
            + self.contents.len() * size_of::<ContentDigest>()
    }

    fn key(&self, item: &Item) -> &[u8] {
        &self.strings[item.key_start as usize..][..item.key_len as usize]
    }

    fn target(&self, item: &Item) -> &[u8] {
        &self.strings[(item.key_start + item.key_len) as usize..][..item.target_len as usize]
    }

    /// Sorts by key, keeps the last of those with one key, digests and packs what stays.
    pub(crate) fn pack(
        mut self,
        bench: &mut Bench,
        empty: EmptyContent,
    ) -> Result<PackedBatch, WriteError> {
        let mut repeats = Vec::new();
        if !self.is_sorted {
            self.sort(&mut repeats);
        }
        let mut packed = PackedBatch {
            blocks: Vec::new(),
            first_key: self.items.first().map_or(Vec::new(), |item| self.key(item).to_vec()),
            last_key: self.items.last().map_or(Vec::new(), |item| self.key(item).to_vec()),
            digest: TreeDigest::default(),
            links: Vec::new(),
            repeats,
        };
        let mut writer = RecordWriter::default();
        let mut parents = Parents::default();
        for item in &self.items {
            let (key, target) = (self.key(item), self.target(item));
            writer.push(key, &item.record, target);
            if writer.bytes.len() >= BLOCK_LEN {
                packed.blocks.push(pack(bench, &writer.take())?);
            }
            if item.record.attributes.implied {
                // Whether it stays so shows at the end.
                continue;
            }
            let parent = parents.of(key);
            let content = match item.content {
                NONE => &empty.0,
                index => &self.contents[index as usize],
            };
            let xattrs = match item.record.attributes.xattrs {
                NONE => &[][..],
                set => self.xattrs.get(&set).map_or(&[][..], |set| set),
            };
            add_entry(&mut packed.digest, &parent, key, &item.record, target, content, xattrs);
            if item.record.link != NONE {
                packed.links.push((item.record.link, parent.child(name_of(key))));
            }
        }
        if !writer.bytes.is_empty() {
            packed.blocks.push(pack(bench, &writer.take())?);
        }
        Ok(packed)
    }

    fn sort(&mut self, repeats: &mut Vec<Repeat>) {
        let mut items = std::mem::take(&mut self.items);
        items.sort_by(|a, b| {
            let rank = |item: &Item| (!item.record.attributes.implied, item.record.sequence);
            self.key(a).cmp(self.key(b)).then(rank(a).cmp(&rank(b)))
        });
        // Of those with one key the last stays, a real one before an implied one.
        let mut kept: Vec<Item> = Vec::with_capacity(items.len());
        for item in items {
            match kept.last_mut() {
                Some(last) if self.key(last) == self.key(&item) => {
                    if !last.record.attributes.implied {
                        let sequences = (last.record.sequence, item.record.sequence);
                        repeats.push(Repeat { path: path_of(self.key(&item)), sequences });
                    }
                    *last = item;
                }
                _ => kept.push(item),
            }
        }
        self.items = kept;
    }
}

/// Digests of the directories above the entry at hand: neighbours share them.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    key: Vec<u8>,
    digests: Vec<PathDigest>,
}

impl Parents {
    /// The digest of the directory that holds the entry with this key.
    pub(crate) fn of(&mut self, key: &[u8]) -> PathDigest {
        let parent = parent_of(key);
        if parent != self.key {
            let names = |key: &'_ [u8]| key.split(|&byte| byte == 0).count();
            let shared = self
                .key
                .split(|&byte| byte == 0)
                .zip(parent.split(|&byte| byte == 0))
                .take_while(|(a, b)| a == b)
                .count();
            let shared = if self.key.is_empty() || parent.is_empty() { 0 } else { shared };
            self.digests.truncate(shared);
            if !parent.is_empty() {
                debug_assert!(shared <= names(parent));
                for name in parent.split(|&byte| byte == 0).skip(shared) {
                    let above = self.digests.last().copied().unwrap_or(PathDigest::ROOT);
                    self.digests.push(above.child(name));
                }
            }
            self.key.clear();
            self.key.extend_from_slice(parent);
        }
        self.digests.last().copied().unwrap_or(PathDigest::ROOT)
    }
}

/// Adds an entry to a digest.
pub(crate) fn add_entry(
    digest: &mut TreeDigest,
    parent: &PathDigest,
    key: &[u8],
    record: &Record,
    target: &[u8],
    content: &ContentDigest,
    xattrs: &[Xattr],
) {
    let payload = match record.kind() {
        InodeKind::File => EntryPayload::Content(content),
        InodeKind::Symlink => EntryPayload::Target(target),
        InodeKind::BlockDevice | InodeKind::CharDevice => EntryPayload::Device(record.payload),
        InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => EntryPayload::None,
    };
    let xattrs = xattrs.iter().map(|xattr| (&xattr.name[..], &xattr.value[..]));
    digest.add_entry(parent, name_of(key), &inode_record(record), xattrs, payload);
}

/// A record as a row of the table of inodes, without links, attributes and payload.
pub(crate) fn inode_record(record: &Record) -> InodeRecord {
    let attributes = &record.attributes;
    let [mtime, atime, ctime, btime] = attributes.times;
    InodeRecord {
        kind: record.kind(),
        permissions: u32::from(attributes.mode & 0o7777),
        uid: attributes.uid,
        gid: attributes.gid,
        link_count: 0,
        mtime,
        atime,
        ctime,
        btime,
        xattr_set: 0,
        payload: 0,
    }
}
