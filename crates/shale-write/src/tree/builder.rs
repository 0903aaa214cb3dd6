//! Takes in the entries of a tree in any order, in bounded memory.
//!
//! Entries are kept by depth, directories apart from all others, in batches. A thread sorts,
//! digests and packs a full batch. It becomes a part of a sorted run, in memory up to the budget
//! and then in a temporary file (see [`crate::tree::runs`] and [`crate::tree::store`]). If a source
//! finishes one directory before the next, whatever their order, its batches follow each other and
//! no large sort is needed. [`TreeBuilder::seal`] adds the directories that paths imply, and the
//! sealed tree is read by [`crate::tree::breadth_first`].
//!
//! Where a path comes twice, the last entry stays, but a directory stays a directory. Inodes that
//! may have further names and distinct sets of attributes also stay in memory up to the budget and
//! then go to temporary files (see [`crate::tree::links`] and [`crate::tree::sets`]). Files whose
//! content is still being read stay in memory.

use std::collections::{HashMap, VecDeque};

use shale_format::limits::{
    LINK_TARGET_LEN_MAX, NAME_LEN_MAX, PATH_LEN_MAX, SPACE_LEN_MAX, XATTR_COUNT_MAX,
    XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::{InodeKind, Timestamp};
use shale_model::{Metadata, ProblemKind, Repeat, SourceEntry, Xattr};

use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::exec::scratch::EncoderScratch;
use crate::plan::digest::{ContentDigest, PathDigest, TreeDigest, content_digest};
use crate::plan::error::WriteError;
use crate::plan::report::Stage;

use crate::tree::batch::{Batch, EmptyContent, PackedBatch, Parents};
use crate::tree::links::{InodeSlot, Link, LinkState, Links};
use crate::tree::record::{Attributes, NONE, Record, implied_directory, name_of};
use crate::tree::runs::Runs;
use crate::tree::seal::{SealedTree, note};
use crate::tree::sets::XattrSets;
use crate::tree::store::Store;

/// A tree that takes entries in.
pub(crate) struct TreeBuilder<'env> {
    build: Build<'env>,
    store: Store,
    scratch: EncoderScratch,
    root: Record,
    /// By depth. The first holds the entries of the root.
    depths: Vec<Streams>,
    /// Approximate bytes of batches that are not full.
    buffered_bytes: usize,
    packing: VecDeque<Packing>,
    pending: HashMap<InodeSlot, Pending>,
    /// Number of their further names.
    names_waiting: usize,
    slot_next: InodeSlot,
    links: Links,
    xattr_sets: XattrSets,
    /// Parent path of the last entry.
    last_parent: Vec<u8>,
    /// Digests of the directories above the current path.
    parents: Parents,
    /// Key of the current path, and its depth.
    key: Vec<u8>,
    depth: usize,
    sequence: u64,
    /// Bytes of all contents, those of the image that is continued included, before equal ones are
    /// found.
    content_len: u64,
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
    /// Entries in a full batch: more where the source has no order, so that runs get longer.
    batch_len_max: usize,
    runs: Runs,
    /// The last directory: a digest, because a deep tree has a long path at each of its depths.
    last: PathDigest,
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

/// Result of [`TreeBuilder::add`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Added {
    /// The entry is complete.
    Whole,
    /// A regular file whose content must be read.
    NeedsContent(InodeSlot),
    /// The entry was left out.
    Refused(ProblemKind),
}

/// Entries in a full batch, at first and at most. Where memory is short, a quarter of what packed
/// ones may take, because several are on their way.
const BATCH_LEN: usize = 4096;
const BATCH_LEN_MAX: usize = 65_536;
/// Approximate bytes of an entry in a batch.
const ENTRY_BYTES: u64 = 192;
/// This many runs show that a source has no order.
const RUNS_FEW: usize = 4;
/// Most batches on their way.
const PACKING_MAX: usize = 8;
/// Most bytes of batches that are not full: deep trees have many batches.
const BUFFERED_BYTES_MAX: usize = 32 << 20;

impl Default for Stream {
    fn default() -> Self {
        Self {
            batch: Batch::default(),
            batch_len_max: BATCH_LEN,
            runs: Runs::default(),
            last: PathDigest::ROOT,
        }
    }
}

impl<'env> TreeBuilder<'env> {
    /// Makes a tree with an implied root.
    pub(crate) fn new(build: Build<'env>) -> Self {
        let (plan, temp_dir) = (build.plan(), &build.options().temp_dir);
        Self {
            store: Store::new(plan.tree_bytes_max, temp_dir.clone()),
            scratch: EncoderScratch::default(),
            root: implied_directory(0),
            depths: Vec::new(),
            buffered_bytes: 0,
            packing: VecDeque::new(),
            pending: HashMap::new(),
            names_waiting: 0,
            slot_next: 0,
            links: Links::new(plan.interned_bytes_max / 3 * 2, temp_dir.as_deref()),
            xattr_sets: XattrSets::new(plan.interned_bytes_max / 3, temp_dir.as_deref()),
            last_parent: Vec::new(),
            parents: Parents::default(),
            key: Vec::new(),
            depth: 0,
            sequence: 0,
            content_len: build.base().map_or(0, |base| base.state().content_space_len),
            empty: EmptyContent(content_digest(&[])),
            digest: TreeDigest::default(),
            repeats: Vec::new(),
            build,
        }
    }

    /// Takes an entry in. An entry with a problem is refused and changes nothing.
    pub(crate) fn add(&mut self, entry: &SourceEntry) -> Result<Added, WriteError> {
        self.sequence += 1;
        let (parent, name) = split(&entry.path);
        if let Err(problem) = check_entry(entry, parent, name, &self.last_parent) {
            return Ok(Added::Refused(problem));
        }
        let kind = entry.metadata.kind;
        if entry.path.is_empty() {
            if kind != InodeKind::Directory {
                let kind = ProblemKind::Limit("the root is not a directory".to_owned());
                return Ok(Added::Refused(kind));
            }
            let record = self.record(entry)?;
            if !self.root.attributes.implied {
                note(&mut self.repeats, b"", (self.root.sequence, record.sequence));
            }
            self.root = record;
            return Ok(Added::Whole);
        }
        self.mention(parent)?;
        if kind == InodeKind::Directory {
            let record = self.record(entry)?;
            self.take_key(&entry.path);
            self.push(Part::Directories, &record, &[], None)?;
            return Ok(Added::Whole);
        }
        let mut known = None;
        if let Some(id) = entry.link
            && let Some(slot) = self.links.find(id)?
        {
            let link = self.links.get(slot)?;
            if link.record.kind() == kind {
                return self.add_name(entry, &link);
            }
            known = Some(slot);
        }
        let needs_content = kind == InodeKind::File && entry.metadata.len > 0;
        if needs_content {
            let sum = self.content_len.checked_add(entry.metadata.len);
            let Some(sum) = sum.filter(|sum| *sum <= SPACE_LEN_MAX) else {
                let what = format!("contents of more than {SPACE_LEN_MAX} bytes together");
                return Ok(Added::Refused(ProblemKind::Limit(what)));
            };
            self.content_len = sum;
        }
        let mut record = self.record(entry)?;
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
            return Ok(Added::NeedsContent(inode));
        }
        self.take_key(&entry.path);
        self.push(Part::Others, &record, &entry.target, None)?;
        Ok(Added::Whole)
    }

    /// Adds a further name of an inode.
    fn add_name(&mut self, entry: &SourceEntry, link: &Link) -> Result<Added, WriteError> {
        match &link.state {
            LinkState::LeftOut(kind) => return Ok(Added::Refused(kind.clone())),
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
                self.push(Part::Others, &record, &target, link.content.as_ref())?;
            }
        }
        Ok(Added::Whole)
    }

    /// Sets the content of a regular file, and its metadata when it was read.
    pub(crate) fn set_content(
        &mut self,
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
        let attributes = attributes(metadata, self.build.options().times_kept, xattrs);
        let record = Record { payload: content_id, attributes, ..record };
        let content = (content_id != 0).then_some(digest);
        if record.link != NONE {
            let link = Link { state: LinkState::Ready, record, content: content.copied() };
            self.links.set(record.link, &link)?;
        }
        for (sequence, path) in names {
            self.take_key(&path);
            self.push(Part::Others, &Record { sequence, ..record }, &[], content)?;
        }
        Ok(())
    }

    /// Number of further names of files whose content is being read. They stay in memory until
    /// then.
    pub(crate) fn names_waiting(&self) -> usize {
        self.names_waiting
    }

    /// Leaves out an inode with all its names. Returns all names but the first.
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

    /// Ends the input and returns the tree, ready to be read. Every content must have been set or
    /// left out.
    pub(crate) fn seal(mut self) -> Result<SealedTree, WriteError> {
        self.submit_all()?;
        while !self.packing.is_empty() {
            self.settle()?;
        }
        let mut sealed = SealedTree {
            store: self.store,
            scratch: self.scratch,
            parents: self.parents,
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
        let attributes = attributes(&entry.metadata, self.build.options().times_kept, xattrs);
        Ok(Record { sequence: self.sequence, payload, link: NONE, attributes })
    }

    /// Notes that a path implies the directory `path`.
    fn mention(&mut self, path: &[u8]) -> Result<(), WriteError> {
        if path == self.last_parent {
            return Ok(());
        }
        self.take_key(path);
        let depth = self.depth;
        let digest = self.parents.of(&self.key).child(name_of(&self.key));
        let is_last = |streams: &Streams| streams.0[0].last == digest;
        if depth > 0 && !self.depths.get(depth - 1).is_some_and(is_last) {
            let record = implied_directory(self.sequence);
            self.push(Part::Directories, &record, &[], None)?;
        }
        self.last_parent.clear();
        self.last_parent.extend_from_slice(path);
        Ok(())
    }

    /// Computes the key and the depth of a path.
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

    /// Adds the record of the current key to its batch.
    fn push(
        &mut self,
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
        let parent = self.parents.of(&self.key);
        stream.batch.push(&self.key, &parent, record, target, content, xattrs.as_ref());
        self.buffered_bytes += stream.batch.memory_len() - before;
        if part == Part::Directories {
            stream.last = parent.child(name_of(&self.key));
        }
        if stream.batch.len() >= stream.batch_len_max {
            self.submit(depth, part)?;
        } else if self.buffered_bytes > BUFFERED_BYTES_MAX {
            self.submit_all()?;
        }
        Ok(())
    }

    fn submit_all(&mut self) -> Result<(), WriteError> {
        for depth in 1..=self.depths.len() {
            self.submit(depth, Part::Directories)?;
            self.submit(depth, Part::Others)?;
        }
        Ok(())
    }

    fn submit(&mut self, depth: usize, part: Part) -> Result<(), WriteError> {
        let batch = std::mem::take(&mut self.depths[depth - 1].0[part as usize].batch);
        if batch.len() == 0 {
            return Ok(());
        }
        self.buffered_bytes -= batch.memory_len();
        let empty = self.empty;
        let ticket = self
            .build
            .submit(Urgency::Urgent, Stage::Tables, move |scratch| batch.pack(scratch, empty));
        self.packing.push_back(Packing { depth, part, ticket });
        while self.packing.len() > (self.build.plan().threads + 1).min(PACKING_MAX) {
            self.settle()?;
        }
        Ok(())
    }

    /// Keeps the oldest batch that is being packed.
    fn settle(&mut self) -> Result<(), WriteError> {
        let Some(Packing { depth, part, ticket }) = self.packing.pop_front() else {
            return Ok(());
        };
        let mut batch = self.build.wait(&ticket)?;
        self.digest.merge(&batch.digest);
        for (slot, path) in batch.links.drain(..) {
            self.links.add_path(slot, &path)?;
        }
        for repeat in batch.repeats.drain(..) {
            let key = repeat.path.as_slice();
            note(&mut self.repeats, key, repeat.sequences);
        }
        let stream = &mut self.depths[depth - 1].0[part as usize];
        let is_new = stream.runs.append(batch, &mut self.store, &mut self.scratch)?;
        if is_new && stream.runs.count() > RUNS_FEW {
            let most = self.build.plan().tree_bytes_max / (4 * ENTRY_BYTES);
            let most = (most as usize).clamp(BATCH_LEN, BATCH_LEN_MAX);
            stream.batch_len_max = (stream.batch_len_max * 2).min(most);
        }
        Ok(())
    }
}

const KIND_MASK: u16 = 0o170000;

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

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Checks an entry against the limits. A parent that was already checked is skipped.
fn check_entry(
    entry: &SourceEntry,
    parent: &[u8],
    name: &[u8],
    last_parent: &[u8],
) -> Result<(), ProblemKind> {
    let limit = |what: String| Err(ProblemKind::Limit(what));
    // The empty path is the root's. A path that begins with a slash has an empty parent, which is
    // not allowed.
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
    if entry.path.len() > PATH_LEN_MAX {
        let path_len = entry.path.len();
        return limit(format!("path of {path_len} bytes, {PATH_LEN_MAX} allowed"));
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
    let Metadata { mtime, atime, ctime, btime, .. } = &entry.metadata;
    let nanoseconds = [mtime, atime, ctime, btime].map(|time| time.nsec).into_iter().max();
    if let Some(found) = nanoseconds.filter(|found| *found >= 1_000_000_000) {
        return limit(format!("a time with {found} nanoseconds, less than 10^9 allowed"));
    }
    if entry.xattrs.len() as u64 > XATTR_COUNT_MAX {
        let count = entry.xattrs.len();
        return limit(format!("{count} extended attributes, {XATTR_COUNT_MAX} allowed"));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shale_host::NoProgress;
    use shale_model::Content;

    use super::*;
    use crate::exec::build::Env;
    use crate::plan::options::Options;

    fn entry(path: &str, kind: InodeKind) -> SourceEntry {
        let epoch = Timestamp::default();
        let metadata = Metadata {
            kind,
            permissions: 0o755,
            uid: 0,
            gid: 0,
            mtime: epoch,
            atime: epoch,
            ctime: epoch,
            btime: epoch,
            len: 0,
            device: 0,
        };
        SourceEntry {
            path: path.as_bytes().to_vec(),
            metadata,
            xattrs: Arc::default(),
            link: None,
            target: Vec::new(),
            content: Content::None,
        }
    }

    /// Digests of directories that are computed for these entries.
    fn computed(entries: &[SourceEntry]) -> u64 {
        let options = Options { level: 1, threads: 1, ..Options::default() };
        let env = Env::new(&options, Some(0), None, &NoProgress).unwrap();
        let counted: Result<u64, WriteError> = Build::run(&env, |build| {
            let mut tree = TreeBuilder::new(build);
            for entry in entries {
                assert_eq!(tree.add(entry)?, Added::Whole);
            }
            Ok(tree.seal()?.parents.computed_count)
        });
        counted.unwrap()
    }

    #[test]
    fn a_directory_costs_the_same_at_any_depth() {
        for depth in [100, 1000, 3000] {
            let path = vec!["d"; depth].join("/");
            // What one path implies: counted on the way down, and once more on the way up.
            let file = entry(&format!("{path}/f"), InodeKind::File);
            let count = computed(&[file]);
            assert!(count <= 2 * depth as u64 + 2, "{count} digests for {depth} directories");
            // Directories that are given, each with a file.
            let mut entries = Vec::new();
            for end in (1..=path.len()).step_by(2) {
                entries.push(entry(&path[..end], InodeKind::Directory));
                entries.push(entry(&format!("{}/f", &path[..end]), InodeKind::File));
            }
            let count = computed(&entries);
            assert!(count <= 2 * depth as u64 + 2, "{count} digests for {depth} directories");
        }
    }
}
