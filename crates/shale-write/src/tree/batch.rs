//! Batches of some thousand entries of one depth: sorted, digested and packed by any thread.

use std::collections::HashMap;
use std::sync::Arc;

use crate::exec::scratch::EncoderScratch;
use crate::plan::digest::{ContentDigest, EntryPayload, PathDigest, TreeDigest};
use crate::plan::error::WriteError;
use crate::tree::record::{NONE, Record, RecordWriter, name_of, parent_of, path_of};
use crate::tree::store::{BLOCK_LEN, PackedBlock, pack};
use shale_format::{InodeKind, InodeRecord};
use shale_model::{Repeat, Xattr};

/// Entries in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    items: Vec<Item>,
    /// Keys and targets, one after the other.
    strings: Vec<u8>,
    /// Attributes of the records, which the digest needs.
    xattrs: HashMap<u32, Arc<[Xattr]>>,
    /// Approximate bytes of those.
    xattrs_len: usize,
    contents: Vec<ContentDigest>,
    /// Digests of directories, each once for entries in it that follow each other.
    parents: Vec<PathDigest>,
    /// Whether keys ascend so far.
    is_sorted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    key_start: u32,
    key_len: u32,
    target_len: u32,
    /// Index in `contents`, or [`NONE`] for the empty content.
    content: u32,
    /// Index in `parents`.
    parent: u32,
    record: Record,
}

/// A batch that was sorted and packed.
#[derive(Debug)]
pub(crate) struct PackedBatch {
    pub(crate) blocks: Vec<PackedBlock>,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    pub(crate) digest: TreeDigest,
    /// Path digests of inodes that may have several names.
    pub(crate) links: Vec<(u32, PathDigest)>,
    pub(crate) repeats: Vec<Repeat>,
}

/// Digest of the empty content, which every empty file needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmptyContent(pub(crate) ContentDigest);

impl Batch {
    /// Adds an entry of the directory `parent`. `content` is the digest of a file's content, unless
    /// that is empty.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        parent: &PathDigest,
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
        if self.parents.last() != Some(parent) {
            self.parents.push(*parent);
        }
        self.items.push(Item {
            key_start: self.strings.len() as u32,
            key_len: key.len() as u32,
            target_len: target.len() as u32,
            content,
            parent: self.parents.len() as u32 - 1,
            record: *record,
        });
        self.strings.extend_from_slice(key);
        self.strings.extend_from_slice(target);
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Approximate bytes of the batch.
    pub(crate) fn memory_len(&self) -> usize {
        self.items.len() * size_of::<Item>()
            + self.strings.len()
            + self.xattrs_len
            + self.contents.len() * size_of::<ContentDigest>()
            + self.parents.len() * size_of::<PathDigest>()
    }

    fn key(&self, item: &Item) -> &[u8] {
        &self.strings[item.key_start as usize..][..item.key_len as usize]
    }

    fn target(&self, item: &Item) -> &[u8] {
        &self.strings[(item.key_start + item.key_len) as usize..][..item.target_len as usize]
    }

    /// Sorts by key, keeps the last entry of each key, and digests and packs the result.
    pub(crate) fn pack(
        mut self,
        scratch: &mut EncoderScratch,
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
        for item in &self.items {
            let (key, target) = (self.key(item), self.target(item));
            writer.push(key, &item.record, target);
            if writer.bytes.len() >= BLOCK_LEN {
                packed.blocks.push(pack(scratch, &writer.take())?);
            }
            if item.record.attributes.implied {
                // Only the end shows whether it stays implied.
                continue;
            }
            let parent = self.parents[item.parent as usize];
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
            packed.blocks.push(pack(scratch, &writer.take())?);
        }
        Ok(packed)
    }

    fn sort(&mut self, repeats: &mut Vec<Repeat>) {
        let mut items = std::mem::take(&mut self.items);
        items.sort_by(|a, b| {
            let rank = |item: &Item| (!item.record.attributes.implied, item.record.sequence);
            self.key(a).cmp(self.key(b)).then(rank(a).cmp(&rank(b)))
        });
        // Of entries with one key the last stays; given ones win over implied ones.
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

/// Digests of the directories above the current entry. Neighbours share them, so a walk computes
/// one for each directory, whatever its depth.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    key: Vec<u8>,
    digests: Vec<PathDigest>,
    /// Digests that were computed so far.
    pub(crate) computed_count: u64,
}

impl Parents {
    /// Returns the digest of the directory that holds the entry with this key.
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
                    self.computed_count += 1;
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

/// Converts a record to a row of the table of inodes, without links, attributes and payload.
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
