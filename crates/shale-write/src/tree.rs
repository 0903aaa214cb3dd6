//! The tree while it is taken in: entries in any order, in bounded memory.
//!
//! Entries are kept apart by depth, directories apart from all others, in batches; a full batch is
//! sorted, digested and packed by some thread and kept as a piece of a sorted run, in memory up to
//! the budget and then in a temporary file (see [`runs`] and [`store`]). A source in any order that
//! goes through directories one after the other is never really sorted: its batches are, and follow
//! each other. [`Tree::seal`] makes up the directories that were only mentioned, and what comes of
//! it is read in level order by [`crate::number`].
//!
//! A path that comes twice keeps what came last, but a directory stays a directory. Inodes that may
//! have further names and distinct sets of attributes lie in memory up to the budget, too, and then
//! in temporary files (see [`links`] and [`sets`]). In memory stay files whose content is still
//! being read.

mod record; // an entry in temporary storage
mod store; // blocks, in memory or a file
mod paged; // records changed in any order, in memory or a file
mod links; // inodes that may have several names
mod sets; // distinct sets of extended attributes
mod batch; // some thousand entries, sorted and packed
mod runs; // sorted runs, and many read as one
mod queue; // numbers on their way from one depth to the next
mod seal; // directories that were only mentioned

use std::collections::{HashMap, VecDeque};

use shale_format::limits::{
    LINK_TARGET_LEN_MAX, NAME_LEN_MAX, XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::{InodeKind, Timestamp};

use crate::compress::Bench;
use crate::digest::{ContentDigest, TreeDigest, content_digest};
use crate::flow::Env;
use crate::pool::{Pool, Ticket, Urgency};
use crate::source::{Metadata, Repeat, SourceEntry, Xattr};
use crate::{ProblemKind, WriteError};

use batch::{Batch, EmptyContent, PackedBatch};
pub(crate) use batch::{Parents, add_entry, inode_record};
pub(crate) use links::Links;
use links::{Link, LinkState};
pub(crate) use queue::Queue;
use record::Attributes;
pub(crate) use record::{NONE, Record, name_of, path_of};
pub(crate) use runs::Merge;
use runs::Runs;
pub(crate) use seal::{Depth, NOTED_MAX, Sealed, note};
pub(crate) use sets::XattrSets;
pub(crate) use store::Store;

/// A file whose content is being read.
pub(crate) type InodeSlot = u64;

/// The tree.
pub(crate) struct Tree<'env> {
    env: &'env Env<'env>,
    store: Store,
    bench: Bench,
    root: Record,
    /// By depth; the first is what is in the root.
    depths: Vec<Streams>,
    /// Bytes of batches that are not full, about.
    buffered_bytes: usize,
    packing: VecDeque<Packing>,
    pending: HashMap<InodeSlot, Pending>,
    /// Further names of those.
    names_waiting: usize,
    slot_next: InodeSlot,
    links: Links,
    xattr_sets: XattrSets,
    /// Path of the parent of the entry before.
    last_parent: Vec<u8>,
    /// The key at hand and its depth.
    key: Vec<u8>,
    depth: usize,
    sequence: u64,
    empty: EmptyContent,
    digest: TreeDigest,
    repeats: Vec<Repeat>,
}

/// Entries of one depth: directories, and all others.
#[derive(Default)]
struct Streams([Stream; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Directories,
    Others,
}

struct Stream {
    batch: Batch,
    /// Entries at which a batch is full: more where order is lacking, for longer runs.
    batch_len_max: usize,
    runs: Runs,
    last_key: Vec<u8>,
}

struct Packing {
    depth: usize,
    part: Part,
    ticket: Ticket<Result<PackedBatch, WriteError>>,
}

/// A regular file whose content was not read yet, and its names.
struct Pending {
    record: Record,
    names: Vec<(u64, Vec<u8>)>,
}

/// What [`Tree::add`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// All that there is to it.
    Whole,
    /// A regular file whose content must be read.
    NeedsContent(InodeSlot),
}

/// Entries of a batch, at first and at most; where memory is short, a quarter of what packed ones
/// may have, as several are on their way.
const BATCH_LEN: usize = 4096;
const BATCH_LEN_MAX: usize = 65_536;
/// Bytes of an entry in a batch, about.
const ENTRY_BYTES: u64 = 192;
/// Runs that show that a source has no order.
const RUNS_FEW: usize = 4;
/// Most batches on their way.
const PACKING_MAX: usize = 8;
/// Bytes of batches that are not full, at most: deep trees have many.
const BUFFERED_BYTES_MAX: usize = 32 << 20;

impl Default for Stream {
    fn default() -> Self {
        Self {
            batch: Batch::default(),
            batch_len_max: BATCH_LEN,
            runs: Runs::default(),
            last_key: Vec::new(),
        }
    }
}

impl<'env> Tree<'env> {
    /// A tree with an implied root.
    pub(crate) fn new(env: &'env Env<'env>) -> Self {
        let temp_dir = env.options.temp_dir.as_deref();
        Self {
            env,
            store: Store::new(env.plan.tree_bytes_max, env.options.temp_dir.clone()),
            bench: Bench::default(),
            root: implied_directory(0),
            depths: Vec::new(),
            buffered_bytes: 0,
            packing: VecDeque::new(),
            pending: HashMap::new(),
            names_waiting: 0,
            slot_next: 0,
            links: Links::new(env.plan.interned_bytes_max / 3 * 2, temp_dir),
            xattr_sets: XattrSets::new(env.plan.interned_bytes_max / 3, temp_dir),
            last_parent: Vec::new(),
            key: Vec::new(),
            depth: 0,
            sequence: 0,
            empty: EmptyContent(content_digest(&[])),
            digest: TreeDigest::default(),
            repeats: Vec::new(),
        }
    }

    /// Takes an entry in. A problem leaves it out and changes nothing else.
    pub(crate) fn add(
        &mut self,
        pool: &mut Pool<'env>,
        entry: &SourceEntry,
    ) -> Result<Result<Added, ProblemKind>, WriteError> {
        self.sequence += 1;
        let (parent, name) = split(&entry.path);
        if let Err(problem) = check_entry(entry, parent, name, &self.last_parent) {
            return Ok(Err(problem));
        }
        let kind = entry.metadata.kind;
        if entry.path.is_empty() {
            if kind != InodeKind::Directory {
                return Ok(Err(ProblemKind::Limit("the root is not a directory".to_owned())));
            }
            let record = self.record(entry)?;
            if !self.root.attributes.implied {
                note(&mut self.repeats, b"", (self.root.sequence, record.sequence));
            }
            self.root = record;
            return Ok(Ok(Added::Whole));
        }
        self.mention(pool, parent)?;
        if kind == InodeKind::Directory {
            let record = self.record(entry)?;
            self.take_key(&entry.path);
            self.push(pool, Part::Directories, &record, &[], None)?;
            return Ok(Ok(Added::Whole));
        }
        let mut known = None;
        if let Some(id) = entry.link
            && let Some(slot) = self.links.find(id)?
        {
            let link = self.links.get(slot)?;
            if link.record.kind() == kind {
                return self.add_name(pool, entry, &link);
            }
            known = Some(slot);
        }
        let mut record = self.record(entry)?;
        let needs_content = kind == InodeKind::File && entry.metadata.len > 0;
        let inode = self.slot_next;
        if let Some(id) = entry.link {
            let state = match needs_content {
                true => LinkState::Pending(inode),
                false => LinkState::Ready,
            };
            record.link =
                self.links.push(id, known, &state, &record, &entry.target, &entry.path)?;
        }
        if needs_content {
            self.slot_next += 1;
            let names = vec![(self.sequence, entry.path.clone())];
            self.pending.insert(inode, Pending { record, names });
            return Ok(Ok(Added::NeedsContent(inode)));
        }
        self.take_key(&entry.path);
        self.push(pool, Part::Others, &record, &entry.target, None)?;
        Ok(Ok(Added::Whole))
    }

    /// A further name of an inode.
    fn add_name(
        &mut self,
        pool: &mut Pool<'env>,
        entry: &SourceEntry,
        link: &Link,
    ) -> Result<Result<Added, ProblemKind>, WriteError> {
        match &link.state {
            LinkState::LeftOut(kind) => return Ok(Err(kind.clone())),
            LinkState::Pending(inode) => {
                if let Some(pending) = self.pending.get_mut(inode) {
                    pending.names.push((self.sequence, entry.path.clone()));
                    self.names_waiting += 1;
                }
            }
            LinkState::Ready => {
                let record = Record { sequence: self.sequence, ..link.record };
                let mut target = Vec::new();
                self.links.target(record.link, &mut target)?;
                self.take_key(&entry.path);
                self.push(pool, Part::Others, &record, &target, link.content.as_ref())?;
            }
        }
        Ok(Ok(Added::Whole))
    }

    /// Says what content a regular file has, and what its metadata were when it was read.
    pub(crate) fn set_content(
        &mut self,
        pool: &mut Pool<'env>,
        inode: InodeSlot,
        metadata: &Metadata,
        content_id: u64,
        digest: &ContentDigest,
    ) -> Result<(), WriteError> {
        let Some(Pending { record, names }) = self.pending.remove(&inode) else {
            return Ok(());
        };
        self.names_waiting -= names.len() - 1;
        let xattrs = record.attributes.xattrs;
        let attributes = attributes(metadata, self.env.options.times_kept, xattrs);
        let record = Record { payload: content_id, attributes, ..record };
        let content = (content_id != 0).then_some(digest);
        if record.link != NONE {
            let link = Link { state: LinkState::Ready, record, content: content.copied() };
            self.links.set(record.link, &link)?;
        }
        for (sequence, path) in names {
            self.take_key(&path);
            self.push(pool, Part::Others, &Record { sequence, ..record }, &[], content)?;
        }
        Ok(())
    }

    /// Further names of files whose content is being read; they stay in memory till then.
    pub(crate) fn names_waiting(&self) -> usize {
        self.names_waiting
    }

    /// Leaves an inode out, with all its names. Returns those that it has beyond the first.
    pub(crate) fn leave_out(
        &mut self,
        inode: InodeSlot,
        kind: &ProblemKind,
    ) -> Result<Vec<Vec<u8>>, WriteError> {
        let Some(Pending { record, names }) = self.pending.remove(&inode) else {
            return Ok(Vec::new());
        };
        self.names_waiting -= names.len() - 1;
        if record.link != NONE {
            let state = LinkState::LeftOut(kind.clone());
            self.links.set(record.link, &Link { state, record, content: None })?;
        }
        Ok(names.into_iter().skip(1).map(|(_, path)| path).collect())
    }

    /// Everything that was taken in, ready to be read in level order. Every content must have been
    /// set or left out.
    pub(crate) fn seal(mut self, pool: &mut Pool<'env>) -> Result<Sealed, WriteError> {
        self.submit_all(pool)?;
        while !self.packing.is_empty() {
            self.settle(pool)?;
        }
        let mut sealed = Sealed {
            store: self.store,
            bench: self.bench,
            root: self.root,
            depths: Vec::new(),
            links: self.links,
            xattr_sets: self.xattr_sets,
            digest: self.digest,
            repeats: self.repeats,
            collisions: Vec::new(),
            missing: Vec::new(),
        };
        let runs = self.depths.into_iter().map(|streams| streams.0.map(|stream| stream.runs));
        sealed.complete(runs.collect())?;
        Ok(sealed)
    }

    fn record(&mut self, entry: &SourceEntry) -> Result<Record, WriteError> {
        let xattrs = self.xattr_sets.intern(&entry.xattrs)?;
        let payload = match entry.metadata.kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => entry.metadata.device,
            _ => 0,
        };
        let attributes = attributes(&entry.metadata, self.env.options.times_kept, xattrs);
        Ok(Record { sequence: self.sequence, payload, link: NONE, attributes })
    }

    /// Notes that there is a directory at `path`.
    fn mention(&mut self, pool: &mut Pool<'env>, path: &[u8]) -> Result<(), WriteError> {
        if path == self.last_parent {
            return Ok(());
        }
        self.take_key(path);
        let depth = self.depth;
        let is_last = |streams: &Streams| streams.0[0].last_key == self.key;
        if depth > 0 && !self.depths.get(depth - 1).is_some_and(is_last) {
            let record = implied_directory(self.sequence);
            self.push(pool, Part::Directories, &record, &[], None)?;
        }
        self.last_parent.clear();
        self.last_parent.extend_from_slice(path);
        Ok(())
    }

    /// Takes the key and the depth of a path at hand.
    fn take_key(&mut self, path: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(path);
        let mut depth = usize::from(!path.is_empty());
        for byte in &mut self.key {
            if *byte == b'/' {
                *byte = 0;
                depth += 1;
            }
        }
        self.depth = depth;
    }

    /// Puts the record with the key at hand where it belongs.
    fn push(
        &mut self,
        pool: &mut Pool<'env>,
        part: Part,
        record: &Record,
        target: &[u8],
        content: Option<&ContentDigest>,
    ) -> Result<(), WriteError> {
        let depth = self.depth;
        if self.depths.len() < depth {
            self.depths.resize_with(depth, Streams::default);
        }
        let stream = &mut self.depths[depth - 1].0[part as usize];
        let xattrs = match record.attributes.xattrs {
            NONE => None,
            set => Some(self.xattr_sets.get(set)?),
        };
        let before = stream.batch.memory_len();
        stream.batch.push(&self.key, record, target, content, xattrs.as_ref());
        self.buffered_bytes += stream.batch.memory_len() - before;
        if part == Part::Directories {
            stream.last_key.clear();
            stream.last_key.extend_from_slice(&self.key);
        }
        if stream.batch.len() >= stream.batch_len_max {
            self.submit(pool, depth, part)?;
        } else if self.buffered_bytes > BUFFERED_BYTES_MAX {
            self.submit_all(pool)?;
        }
        Ok(())
    }

    fn submit_all(&mut self, pool: &mut Pool<'env>) -> Result<(), WriteError> {
        for depth in 1..=self.depths.len() {
            self.submit(pool, depth, Part::Directories)?;
            self.submit(pool, depth, Part::Others)?;
        }
        Ok(())
    }

    fn submit(
        &mut self,
        pool: &mut Pool<'env>,
        depth: usize,
        part: Part,
    ) -> Result<(), WriteError> {
        let batch = std::mem::take(&mut self.depths[depth - 1].0[part as usize].batch);
        if batch.len() == 0 {
            return Ok(());
        }
        self.buffered_bytes -= batch.memory_len();
        let empty = self.empty;
        let ticket =
            pool.submit(Urgency::Urgent, &self.env.leave, move |bench| batch.pack(bench, empty));
        self.packing.push_back(Packing { depth, part, ticket });
        while self.packing.len() > (self.env.plan.threads + 1).min(PACKING_MAX) {
            self.settle(pool)?;
        }
        Ok(())
    }

    /// Keeps the oldest batch that is being packed.
    fn settle(&mut self, pool: &mut Pool<'env>) -> Result<(), WriteError> {
        let Some(Packing { depth, part, ticket }) = self.packing.pop_front() else {
            return Ok(());
        };
        let mut batch = pool.wait(&ticket)?;
        self.digest.merge(&batch.digest);
        for (slot, path) in batch.links.drain(..) {
            self.links.add_path(slot, &path)?;
        }
        for repeat in batch.repeats.drain(..) {
            let key = repeat.path.as_slice();
            note(&mut self.repeats, key, repeat.sequences);
        }
        let stream = &mut self.depths[depth - 1].0[part as usize];
        let is_new = stream.runs.append(batch, &mut self.store, &mut self.bench)?;
        if is_new && stream.runs.count() > RUNS_FEW {
            let most = self.env.plan.tree_bytes_max / (4 * ENTRY_BYTES);
            let most = (most as usize).clamp(BATCH_LEN, BATCH_LEN_MAX);
            stream.batch_len_max = (stream.batch_len_max * 2).min(most);
        }
        Ok(())
    }
}

const KIND_MASK: u16 = 0o170000;

/// A directory that nobody has given: mode 0755, nobody's time.
fn implied_directory(sequence: u64) -> Record {
    let mode = (InodeKind::Directory.mode_bits() | 0o755) as u16;
    let attributes = Attributes { mode, implied: true, xattrs: NONE, ..Attributes::default() };
    Record { sequence, payload: 0, link: NONE, attributes }
}

fn attributes(metadata: &Metadata, times_kept: u8, xattrs: u32) -> Attributes {
    let kept = |bit, time| if times_kept & bit != 0 { time } else { Timestamp::default() };
    Attributes {
        mode: metadata.kind.mode_bits() as u16 & KIND_MASK | metadata.permissions as u16 & 0o7777,
        implied: false,
        uid: metadata.uid,
        gid: metadata.gid,
        xattrs,
        times: [
            kept(TIME_MTIME, metadata.mtime),
            kept(TIME_ATIME, metadata.atime),
            kept(TIME_CTIME, metadata.ctime),
            kept(TIME_BTIME, metadata.btime),
        ],
    }
}

/// The next slot, unless there are none left.
fn slot(count: usize, what: &'static str, path: &[u8]) -> Result<u32, WriteError> {
    let max = u64::from(NONE) - 1;
    u32::try_from(count).ok().filter(|&slot| slot != NONE).ok_or_else(|| WriteError::Limit {
        path: path.to_vec(),
        what,
        found: count as u64,
        max,
    })
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Checks an entry against the limits; a parent that was checked before is not checked again.
fn check_entry(
    entry: &SourceEntry,
    parent: &[u8],
    name: &[u8],
    last_parent: &[u8],
) -> Result<(), ProblemKind> {
    let limit = |what: String| Err(ProblemKind::Limit(what));
    // An empty path is the root's; one that begins with a slash has an empty parent and no place.
    let has_parent = name.len() < entry.path.len();
    let is_new_parent = has_parent && (parent.is_empty() || parent != last_parent);
    let above = is_new_parent.then(|| parent.split(|&byte| byte == b'/'));
    let own = (!entry.path.is_empty()).then_some(name);
    for name in above.into_iter().flatten().chain(own) {
        if name.is_empty() || name == b"." || name == b".." || name.contains(&0) {
            return limit("a name in its path is not allowed".to_owned());
        }
        if name.len() > NAME_LEN_MAX {
            return limit(format!("name of {} bytes, {NAME_LEN_MAX} allowed", name.len()));
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
