//! The tree in memory: what the tables will say, while it is taken in.
//!
//! Entries come in any order; directories that were not given yet are made up with mode 0755 and
//! filled in when they come. A path that comes twice keeps what came last. Memory an entry: 16
//! bytes and the name; an inode: 48 bytes, 48 more if other times than mtime are kept; a
//! directory: 16 bytes more; a symbolic link: its target; an inode with further names: about 40
//! bytes more. Attributes are held once a distinct set.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;
use shale_codec::xxh3_64;
use shale_format::limits::{
    LINK_TARGET_LEN_MAX, NAME_LEN_MAX, XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::{InodeKind, InodeRecord, Timestamp};

use crate::ProblemKind;
use crate::source::{LinkId, Metadata, SourceEntry, Xattr};

/// A directory in the order of its first mention; 0 is the root.
pub(crate) type DirectorySlot = u32;
/// An inode in the order of its first mention; 0 is the root directory's.
pub(crate) type InodeSlot = u32;

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    strings: Strings,
    pub(crate) entries: Vec<Entry>,
    inodes: Vec<Inode>,
    /// atime, ctime, btime by inode; empty if none of them is kept.
    times: Vec<[Timestamp; 3]>,
    pub(crate) directories: Vec<Directory>,
    directory_index: HashTable<DirectorySlot>,
    links: HashMap<LinkId, InodeSlot>,
    xattr_sets: Vec<Arc<[Xattr]>>,
    xattr_index: HashMap<Arc<[Xattr]>, u32>,
    /// The parent of the entry before: most entries follow one of the same directory.
    last_parent: (Vec<u8>, DirectorySlot),
    times_kept: u8,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    name: StringRef,
    pub(crate) directory: DirectorySlot,
    pub(crate) inode: InodeSlot,
}

/// A directory: its own entry is needed for its path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory {
    pub(crate) inode: InodeSlot,
    /// Parent, name: as in its entry. The root is its own parent and has no name.
    pub(crate) parent: DirectorySlot,
    name: StringRef,
}

#[derive(Debug, Clone, Copy)]
struct Inode {
    /// Content id, place of the link target, device number or directory slot, by kind.
    payload: u64,
    /// Bytes of content of a regular file.
    len: u64,
    mtime: Timestamp,
    uid: u32,
    gid: u32,
    /// Set of attributes, or `NO_XATTRS`.
    xattrs: u32,
    mode: u16,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Ready,
    /// A directory that was only mentioned in paths.
    Implied,
    /// A regular file whose content was not read yet.
    Awaiting,
    /// Left out, with all its names.
    LeftOut,
}

const _: () = assert!(size_of::<Entry>() == 16 && size_of::<Inode>() == 48);

const NO_XATTRS: u32 = u32::MAX;
/// Slots are 32 bits wide; the last is never used.
const SLOT_COUNT_MAX: usize = u32::MAX as usize;

/// What [`Tree::add`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// All that there is to it.
    Whole,
    /// A regular file whose content must be read.
    NeedsContent(InodeSlot),
}

impl Tree {
    /// A tree with an implied root.
    pub(crate) fn new(times_kept: u8) -> Self {
        let mut tree = Self {
            strings: Strings::default(),
            entries: Vec::new(),
            inodes: Vec::new(),
            times: Vec::new(),
            directories: Vec::new(),
            directory_index: HashTable::new(),
            links: HashMap::new(),
            xattr_sets: Vec::new(),
            xattr_index: HashMap::new(),
            last_parent: (Vec::new(), 0),
            times_kept,
        };
        tree.push_inode(&IMPLIED_DIRECTORY, NO_XATTRS, 0, State::Implied);
        tree.directories.push(Directory { inode: 0, parent: 0, name: StringRef::EMPTY });
        tree
    }

    /// Takes an entry in. An error leaves it out and changes nothing else of note.
    pub(crate) fn add(&mut self, entry: &SourceEntry) -> Result<Added, ProblemKind> {
        check_limits(entry)?;
        if self.entries.len() >= SLOT_COUNT_MAX {
            return Err(ProblemKind::Limit("more than 2^32 entries".to_owned()));
        }
        let is_directory = entry.metadata.kind == InodeKind::Directory;
        if entry.path.is_empty() {
            if !is_directory {
                return Err(ProblemKind::Limit("the root is not a directory".to_owned()));
            }
            self.fill_directory(0, entry);
            return Ok(Added::Whole);
        }
        let (parent, name) = split(&entry.path);
        let parent = self.parent(parent)?;
        if is_directory {
            let slot = match self.find_directory(parent, name) {
                Some(slot) => slot,
                None => self.push_directory(parent, name),
            };
            self.fill_directory(slot, entry);
            return Ok(Added::Whole);
        }
        let known = entry.link.and_then(|link| self.links.get(&link).copied());
        if let Some(inode) = known
            && self.kind(inode) == entry.metadata.kind
        {
            let name = self.strings.push(name);
            self.entries.push(Entry { name, directory: parent, inode });
            return Ok(Added::Whole);
        }
        let needs_content = entry.metadata.kind == InodeKind::File && entry.metadata.len > 0;
        let payload = match entry.metadata.kind {
            InodeKind::Symlink => self.strings.push(&entry.target).0,
            InodeKind::BlockDevice | InodeKind::CharDevice => entry.metadata.device,
            _ => 0,
        };
        let state = if needs_content { State::Awaiting } else { State::Ready };
        let xattrs = self.intern(&entry.xattrs);
        let inode = self.push_inode(&entry.metadata, xattrs, payload, state);
        if let Some(link) = entry.link {
            self.links.insert(link, inode);
        }
        let name = self.strings.push(name);
        self.entries.push(Entry { name, directory: parent, inode });
        Ok(if needs_content { Added::NeedsContent(inode) } else { Added::Whole })
    }

    /// Says what content a regular file has, and what its metadata were when it was read.
    pub(crate) fn set_content(&mut self, inode: InodeSlot, metadata: &Metadata, content_id: u64) {
        let times = self.kept_times(metadata);
        let slot = &mut self.inodes[inode as usize];
        slot.payload = content_id;
        slot.len = metadata.len;
        slot.mtime = times[0];
        slot.uid = metadata.uid;
        slot.gid = metadata.gid;
        slot.mode = mode(metadata);
        slot.state = State::Ready;
        if let Some(others) = self.times.get_mut(inode as usize) {
            others.copy_from_slice(&times[1..]);
        }
    }

    /// Leaves an inode out, with all its names.
    pub(crate) fn leave_out(&mut self, inode: InodeSlot) {
        self.inodes[inode as usize].state = State::LeftOut;
    }

    /// Whether the inode was left out.
    pub(crate) fn is_left_out(&self, inode: InodeSlot) -> bool {
        self.inodes[inode as usize].state == State::LeftOut
    }

    /// Number of inodes, those left out counted.
    pub(crate) fn inode_count(&self) -> usize {
        self.inodes.len()
    }

    /// Kind of an inode.
    pub(crate) fn kind(&self, inode: InodeSlot) -> InodeKind {
        let mode = u32::from(self.inodes[inode as usize].mode);
        // Modes are only made of kinds.
        InodeKind::from_mode(mode).unwrap_or(InodeKind::File)
    }

    /// Length of a regular file.
    pub(crate) fn content_len(&self, inode: InodeSlot) -> u64 {
        self.inodes[inode as usize].len
    }

    /// Content id of a regular file, number of a device, slot of a directory.
    pub(crate) fn payload(&self, inode: InodeSlot) -> u64 {
        self.inodes[inode as usize].payload
    }

    /// Target of a symbolic link.
    pub(crate) fn target(&self, inode: InodeSlot) -> &[u8] {
        self.strings.get(StringRef(self.inodes[inode as usize].payload))
    }

    /// Index of an inode's set of attributes.
    pub(crate) fn xattr_set(&self, inode: InodeSlot) -> Option<u32> {
        Some(self.inodes[inode as usize].xattrs).filter(|&set| set != NO_XATTRS)
    }

    /// A set of attributes, by name.
    pub(crate) fn xattrs(&self, set: u32) -> &[Xattr] {
        &self.xattr_sets[set as usize]
    }

    /// Number of sets of attributes.
    pub(crate) fn xattr_set_count(&self) -> usize {
        self.xattr_sets.len()
    }

    /// Name of an entry.
    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        self.strings.get(entry.name)
    }

    /// Name of a directory in its parent.
    pub(crate) fn directory_name(&self, slot: DirectorySlot) -> &[u8] {
        self.strings.get(self.directories[slot as usize].name)
    }

    /// Path of an entry, for messages. Costs its depth.
    pub(crate) fn path(&self, entry: &Entry) -> Vec<u8> {
        let mut names = vec![self.name(entry)];
        let mut slot = entry.directory;
        while slot != 0 {
            names.push(self.directory_name(slot));
            slot = self.directories[slot as usize].parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// An inode as a row of the table, without links, attributes and payload.
    pub(crate) fn record(&self, inode: InodeSlot) -> InodeRecord {
        let slot = &self.inodes[inode as usize];
        let [atime, ctime, btime] = self.times.get(inode as usize).copied().unwrap_or_default();
        InodeRecord {
            kind: self.kind(inode),
            permissions: u32::from(slot.mode & !KIND_MASK),
            uid: slot.uid,
            gid: slot.gid,
            link_count: 0,
            mtime: slot.mtime,
            atime,
            ctime,
            btime,
            xattr_set: 0,
            payload: 0,
        }
    }

    fn kept_times(&self, metadata: &Metadata) -> [Timestamp; 4] {
        let kept = |bit, time| if self.times_kept & bit != 0 { time } else { Timestamp::default() };
        [
            kept(TIME_MTIME, metadata.mtime),
            kept(TIME_ATIME, metadata.atime),
            kept(TIME_CTIME, metadata.ctime),
            kept(TIME_BTIME, metadata.btime),
        ]
    }

    fn push_inode(
        &mut self,
        metadata: &Metadata,
        xattrs: u32,
        payload: u64,
        state: State,
    ) -> InodeSlot {
        let times = self.kept_times(metadata);
        self.inodes.push(Inode {
            payload,
            len: metadata.len,
            mtime: times[0],
            uid: metadata.uid,
            gid: metadata.gid,
            xattrs,
            mode: mode(metadata),
            state,
        });
        if self.times_kept & !TIME_MTIME != 0 {
            self.times.push([times[1], times[2], times[3]]);
        }
        (self.inodes.len() - 1) as InodeSlot
    }

    fn intern(&mut self, xattrs: &Arc<[Xattr]>) -> u32 {
        if xattrs.is_empty() {
            return NO_XATTRS;
        }
        if let Some(&set) = self.xattr_index.get(xattrs) {
            return set;
        }
        let sorted: Arc<[Xattr]> = if xattrs.is_sorted_by(|a, b| a.name < b.name) {
            Arc::clone(xattrs)
        } else {
            let mut sorted = xattrs.to_vec();
            // Of two with one name the last stays.
            sorted.reverse();
            sorted.sort_by(|a, b| a.name.cmp(&b.name));
            sorted.dedup_by(|a, b| a.name == b.name);
            sorted.into()
        };
        *self.xattr_index.entry(sorted).or_insert_with_key(|set| {
            self.xattr_sets.push(Arc::clone(set));
            (self.xattr_sets.len() - 1) as u32
        })
    }

    /// The directory at `path`, made up if it was not given yet.
    fn parent(&mut self, path: &[u8]) -> Result<DirectorySlot, ProblemKind> {
        if path == self.last_parent.0 {
            return Ok(self.last_parent.1);
        }
        // The last parent's child, or its parent's, is near; all others are found from the root.
        let (mut slot, rest) = match path.strip_prefix(self.last_parent.0.as_slice()) {
            Some([b'/', rest @ ..]) if !self.last_parent.0.is_empty() => (self.last_parent.1, rest),
            _ => (0, path),
        };
        if !rest.is_empty() {
            for name in rest.split(|&byte| byte == b'/') {
                slot = match self.find_directory(slot, name) {
                    Some(slot) => slot,
                    None if self.entries.len() < SLOT_COUNT_MAX => self.push_directory(slot, name),
                    None => return Err(ProblemKind::Limit("more than 2^32 entries".to_owned())),
                };
            }
        }
        self.last_parent.0.clear();
        self.last_parent.0.extend_from_slice(path);
        self.last_parent.1 = slot;
        Ok(slot)
    }

    fn find_directory(&self, parent: DirectorySlot, name: &[u8]) -> Option<DirectorySlot> {
        let same = |&slot: &DirectorySlot| {
            let directory = &self.directories[slot as usize];
            directory.parent == parent && self.strings.get(directory.name) == name
        };
        self.directory_index.find(directory_hash(parent, name), same).copied()
    }

    fn push_directory(&mut self, parent: DirectorySlot, name: &[u8]) -> DirectorySlot {
        let slot = self.directories.len() as DirectorySlot;
        let inode = self.push_inode(&IMPLIED_DIRECTORY, NO_XATTRS, u64::from(slot), State::Implied);
        let name_ref = self.strings.push(name);
        self.directories.push(Directory { inode, parent, name: name_ref });
        self.entries.push(Entry { name: name_ref, directory: parent, inode });
        let (directories, strings) = (&self.directories, &self.strings);
        self.directory_index.insert_unique(directory_hash(parent, name), slot, |&slot| {
            let directory = &directories[slot as usize];
            directory_hash(directory.parent, strings.get(directory.name))
        });
        slot
    }

    fn fill_directory(&mut self, slot: DirectorySlot, entry: &SourceEntry) {
        let inode = self.directories[slot as usize].inode;
        let xattrs = self.intern(&entry.xattrs);
        self.set_content(inode, &entry.metadata, u64::from(slot));
        self.inodes[inode as usize].xattrs = xattrs;
    }
}

const KIND_MASK: u16 = 0o170000;

const IMPLIED_DIRECTORY: Metadata = Metadata {
    kind: InodeKind::Directory,
    permissions: 0o755,
    uid: 0,
    gid: 0,
    mtime: Timestamp { sec: 0, nsec: 0 },
    atime: Timestamp { sec: 0, nsec: 0 },
    ctime: Timestamp { sec: 0, nsec: 0 },
    btime: Timestamp { sec: 0, nsec: 0 },
    len: 0,
    device: 0,
};

fn mode(metadata: &Metadata) -> u16 {
    (metadata.kind.mode_bits() | metadata.permissions & 0o7777) as u16
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

fn directory_hash(parent: DirectorySlot, name: &[u8]) -> u64 {
    xxh3_64(name) ^ u64::from(parent).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn check_limits(entry: &SourceEntry) -> Result<(), ProblemKind> {
    let limit = |what: String| Err(ProblemKind::Limit(what));
    if !entry.path.is_empty() {
        for name in entry.path.split(|&byte| byte == b'/') {
            if name.is_empty() || name == b"." || name == b".." || name.contains(&0) {
                return limit("a name in its path is not allowed".to_owned());
            }
            if name.len() > NAME_LEN_MAX {
                return limit(format!("name of {} bytes, {NAME_LEN_MAX} allowed", name.len()));
            }
        }
    }
    let target_len = entry.target.len();
    if target_len > LINK_TARGET_LEN_MAX {
        return limit(format!("link target of {target_len} bytes, {LINK_TARGET_LEN_MAX} allowed"));
    }
    let is_symlink = entry.metadata.kind == InodeKind::Symlink;
    if is_symlink != (target_len > 0) || entry.target.contains(&0) {
        return limit("its link target is empty or not allowed".to_owned());
    }
    if entry.metadata.len > shale_format::limits::FILE_LEN_MAX {
        return limit(format!("{} bytes long, 2^63 - 1 allowed", entry.metadata.len));
    }
    for Xattr { name, value } in entry.xattrs.iter() {
        if name.is_empty()
            || name.contains(&0)
            || name.len() > XATTR_NAME_LEN_MAX
            || value.len() > XATTR_VALUE_LEN_MAX
        {
            let (name_len, value_len) = (name.len(), value.len());
            return limit(format!("extended attribute of {name_len} and {value_len} bytes"));
        }
    }
    Ok(())
}

/// Byte strings in blocks, never moved: growing costs no copy of what is there.
#[derive(Debug, Default)]
struct Strings {
    blocks: Vec<Vec<u8>>,
}

/// Place and length of a string: 47 bits of offset, 17 bits of length.
#[derive(Debug, Clone, Copy)]
struct StringRef(u64);

const BLOCK_LEN: usize = 1 << 20;
const LEN_BITS: u32 = 17;

impl StringRef {
    const EMPTY: Self = Self(0);
}

impl Strings {
    fn push(&mut self, bytes: &[u8]) -> StringRef {
        // Limits were checked: nothing here is longer than a link target.
        debug_assert!(bytes.len() < 1 << LEN_BITS && bytes.len() <= BLOCK_LEN);
        if bytes.is_empty() {
            return StringRef::EMPTY;
        }
        if self.blocks.last().is_none_or(|block| block.len() + bytes.len() > BLOCK_LEN) {
            self.blocks.push(Vec::with_capacity(BLOCK_LEN));
        }
        let block_index = self.blocks.len() - 1;
        let block = &mut self.blocks[block_index];
        let offset = (block_index * BLOCK_LEN + block.len()) as u64;
        block.extend_from_slice(bytes);
        StringRef(offset << LEN_BITS | bytes.len() as u64)
    }

    fn get(&self, string: StringRef) -> &[u8] {
        let len = (string.0 & ((1 << LEN_BITS) - 1)) as usize;
        if len == 0 {
            return &[];
        }
        let offset = (string.0 >> LEN_BITS) as usize;
        &self.blocks[offset / BLOCK_LEN][offset % BLOCK_LEN..][..len]
    }
}
