//! Parity of an image: found on its own, read, and used to restore lost leaves.
//!
//! A parity section describes itself in three places, and its hashes are coded so that any third of
//! them restores all. Damage is recognised by these hashes (BLAKE3), and restored bytes are
//! compared with them before use: parity restores what was written, or nothing. A group that lost
//! no more leaves than it has intact bodies of parity is always restored.
//!
//! A section may protect the end of an image only and lead to an earlier section, which protects
//! the rest ([`Parity::parts`]). Each section is protected by the one after it.
//!
//! The numbers in a head are accepted only as far as they fit the source. The tables of hashes take
//! at most a few thousandths of the source's length in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;

use shale_codec::merkle::leaf_hash;
use shale_codec::parity::{ParityDecoder, SLICE_STEP, work_shards};
use shale_codec::xxh3_64;
use shale_format::limits::PARITY_SECTIONS_MAX;
use shale_format::merkle::{HASH_LEN, LEAF_LEN};
use shale_format::parity::{
    CHUNK_HEAD_LEN, PARITY_HEAD_LEN, PARITY_MAGIC, ParityLayout, ParitySet, SET_COUNT, ZONE_COUNT,
};
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{ParityHead, SectionHeader, SectionType, Trailer};

use crate::storage::source::ByteSource;

/// Bytes read at once during the search for a head.
const SCAN_STEP_LEN: u64 = 1 << 20;
/// Memory for decoding one group. It bounds the length of the slices.
const WORK_BYTES_MAX: usize = 256 << 20;
/// A head is not believed if it claims an image longer than this many times the source, plus
/// [`LOST_LEN_MAX`].
const LOST_FACTOR_MAX: u64 = 8;
/// Bytes that any image may have lost.
const LOST_LEN_MAX: u64 = 64 << 20;
/// Trailers that are followed back from the last. If there are more, the whole source is searched.
const TRAILER_COUNT_MAX: usize = 1 << 16;

/// A parity section of an image, with its table of hashes.
#[derive(Debug, Clone)]
pub struct Parity {
    /// Where the image begins in the source.
    start: u64,
    head: ParityHead,
    layout: ParityLayout,
    /// A hash for each protected leaf, then for each body.
    hashes: Arc<[[u8; HASH_LEN]]>,
    /// The earlier section, which protects the leaves before those of this one, if there has to be
    /// one and it was found.
    previous: Option<Arc<Self>>,
}

/// Damaged leaves and bodies, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafDamage {
    /// Protected leaves.
    pub leaves: BTreeSet<u64>,
    /// Bodies of parity.
    pub bodies: BTreeSet<u64>,
}

impl LeafDamage {
    /// Returns whether nothing is damaged.
    pub fn is_none(&self) -> bool {
        self.leaves.is_empty() && self.bodies.is_empty()
    }
}

/// Where a repair reads leaves from, and where it puts repaired ones.
pub trait LeafStore {
    /// Fills `buf` from `offset` of the image.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Takes a repaired leaf, whose `bytes` belong at `offset` of the image. Later reads return
    /// them.
    ///
    /// # Errors
    /// The bytes cannot be stored.
    fn repaired(&mut self, leaf: u64, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// The outcome of repairing one leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafRepair {
    /// The leaf is intact now.
    Whole,
    /// The leaf and all of these leaves are damaged beyond repair.
    Lost(BTreeSet<u64>),
    /// The source returned other bytes than a moment before.
    Changed,
}

/// Searches `source` for the newest parity: first at `hint`, an offset in the source where a parity
/// section may begin, then everywhere, backwards from the end. With `start`, only parity of an
/// image that begins there counts. Also finds the earlier sections that this one leads to.
///
/// Reads the whole source if there is no parity, so use it for damaged images only.
pub fn find(source: &dyn ByteSource, start: Option<u64>, hint: Option<u64>) -> Option<Parity> {
    let newest = find_within(source, 0..source.len(), start, hint, &|_| true)?;
    let mut parts = vec![newest];
    while let Some(last) = parts.last()
        && parts.len() < PARITY_SECTIONS_MAX
        && let Some(previous) = find_previous(source, last)
    {
        parts.push(previous);
    }
    parts.into_iter().rev().reduce(|earlier, part| part.after(earlier))
}

/// The section that protects the leaves before those of `part`. Where its beginning is damaged,
/// what lies between its beginning and `part` is searched for the rest of it.
///
/// Finds no further sections.
pub fn find_previous(source: &dyn ByteSource, part: &Parity) -> Option<Parity> {
    let wanted = part.head.previous_offset()?;
    let begin = part.start.checked_add(wanted)?;
    let end = part.start.checked_add(part.head.section_offset)?.min(source.len());
    let is_wanted =
        |head: &ParityHead| head.section_offset == wanted && head.image_id == part.head.image_id;
    find_within(source, begin..end, Some(part.start), Some(begin), &is_wanted)
}

/// As [`find`], for one section with a certain head, in a range of the source.
fn find_within(
    source: &dyn ByteSource,
    range: Range<u64>,
    start: Option<u64>,
    hint: Option<u64>,
    is_wanted: &dyn Fn(&ParityHead) -> bool,
) -> Option<Parity> {
    if let Some(hint) = hint
        && let Some(at) = hint.checked_add(SECTION_HEADER_LEN as u64)
        && let Some(parity) = parity_at(source, at, start, is_wanted)
    {
        return Some(parity);
    }
    let mut end = range.end;
    let mut buf = Vec::new();
    let overlap = PARITY_MAGIC.len() as u64 - 1;
    while end > range.start {
        let from = end.saturating_sub(SCAN_STEP_LEN).max(range.start);
        let len = (end + overlap).min(source.len()) - from;
        buf.resize(len as usize, 0);
        read_available(source, from, &mut buf);
        let found = buf
            .windows(PARITY_MAGIC.len())
            .enumerate()
            .rev()
            .filter(|(_, window)| window[0] == PARITY_MAGIC[0] && **window == PARITY_MAGIC)
            .find_map(|(at, _)| parity_at(source, from + at as u64, start, is_wanted));
        if found.is_some() {
            return found;
        }
        end = from;
    }
    None
}

/// As [`find`], for an image that begins at `start` of `source` and ends, with the source, with the
/// intact trailer `trailer`. `image_tag` is the tag in its superblock.
///
/// A parity section comes right after a trailer, and each trailer names the one before it. So two
/// small reads per trailer tell whether there is parity, and usually there is one trailer. The
/// whole source is searched only if a section on the way is damaged, or if a repair wrote one of
/// the trailers.
pub fn find_by_trailer(
    source: &dyn ByteSource,
    start: u64,
    trailer: &Trailer,
    image_tag: u64,
) -> Option<Parity> {
    let hint = match newest_section(source, start, trailer, image_tag) {
        Some(None) => return None,
        Some(Some(section)) => start.checked_add(section),
        None => None,
    };
    find(source, Some(start), hint)
}

/// Offset in the image of the newest parity section that the trailers lead to. The outer `None`
/// means unknown; the inner one means that there is no such section.
fn newest_section(
    source: &dyn ByteSource,
    start: u64,
    trailer: &Trailer,
    image_tag: u64,
) -> Option<Option<u64>> {
    let mut trailer = *trailer;
    for _ in 0..TRAILER_COUNT_MAX {
        // A trailer without a Merkle tree may have been written by a repair after others were lost.
        if trailer.merkle_offset == 0 {
            return None;
        }
        let at = trailer.previous_trailer_offset;
        if at == 0 {
            return Some(None);
        }
        let after = at.checked_add(TRAILER_SECTION_LEN as u64)?;
        let header = |offset: u64, kind: Option<SectionType>| {
            let mut bytes = [0; SECTION_HEADER_LEN];
            source.read_at(start.checked_add(offset)?, &mut bytes).ok()?;
            let header = SectionHeader::decode(&bytes, offset, image_tag, xxh3_64).ok()?;
            kind.is_none_or(|kind| header.section_type == kind as u16).then_some(header)
        };
        if header(after, None)?.section_type == SectionType::Parity as u16 {
            return Some(Some(after));
        }
        let header = header(at, Some(SectionType::Trailer))?;
        let mut payload = [0; TRAILER_SECTION_LEN - SECTION_HEADER_LEN];
        source.read_at(start.checked_add(header.payload_offset())?, &mut payload).ok()?;
        if xxh3_64(&payload) != header.payload_sum {
            return None;
        }
        trailer = Trailer::decode(&payload, at).ok()?;
    }
    None
}

/// Fills `buf` from `offset`, with zeroes where the source cannot be read. If a read of all fails,
/// blocks of 4 KiB are read one by one.
pub fn read_available(source: &dyn ByteSource, offset: u64, buf: &mut [u8]) {
    if source.read_at(offset, buf).is_ok() {
        return;
    }
    let mut at = offset;
    for block in buf.chunks_mut(4096) {
        let there = source.len().saturating_sub(at).min(block.len() as u64) as usize;
        block[there..].fill(0);
        if source.read_at(at, &mut block[..there]).is_err() {
            block.fill(0);
        }
        at += block.len() as u64;
    }
}

/// The parity whose head is at `at` of the source, if its head is wanted, and head and table of
/// hashes are valid.
fn parity_at(
    source: &dyn ByteSource,
    at: u64,
    start: Option<u64>,
    is_wanted: &dyn Fn(&ParityHead) -> bool,
) -> Option<Parity> {
    let mut bytes = [0; PARITY_HEAD_LEN];
    if at.checked_add(PARITY_HEAD_LEN as u64)? > source.len() {
        return None;
    }
    source.read_at(at, &mut bytes).ok()?;
    let (head, layout, offset) = ParityHead::decode(&bytes, xxh3_64).ok()?;
    let found = at.checked_sub(offset)?;
    let believable = source.len().saturating_mul(LOST_FACTOR_MAX).saturating_add(LOST_LEN_MAX);
    if start.is_some_and(|start| start != found) || layout.end > believable || !is_wanted(&head) {
        return None;
    }
    let hashes = read_table(source, found, &head, &layout)?;
    Some(Parity { start: found, head, layout, hashes, previous: None })
}

/// Reads the table of hashes from the first zone or, if that is damaged, restores it from all
/// zones.
fn read_table(
    source: &dyn ByteSource,
    start: u64,
    head: &ParityHead,
    layout: &ParityLayout,
) -> Option<Arc<[[u8; HASH_LEN]]>> {
    let share = (head.chunk_len - CHUNK_HEAD_LEN) as usize;
    let count = layout.chunk_count as usize;
    let mut chunk = vec![0; head.chunk_len as usize];
    let mut read = |number: u64| -> Option<Vec<u8>> {
        let zone = layout.zones[(number / layout.chunk_count) as usize];
        let within = number % layout.chunk_count;
        let at = start + zone + PARITY_HEAD_LEN as u64 + within * head.chunk_len;
        source.read_at(at, &mut chunk).ok()?;
        is_chunk(&chunk, number).then(|| chunk[CHUNK_HEAD_LEN as usize..].to_vec())
    };
    let mut table: Vec<Option<Vec<u8>>> = (0..layout.chunk_count).map(&mut read).collect();
    if table.iter().any(Option::is_none) {
        let parity_count = count * (ZONE_COUNT as usize - 1);
        let mut decoder = ParityDecoder::new(count, parity_count, share).ok()?;
        let mut whole = 0;
        for (index, chunk) in table.iter().enumerate() {
            if let Some(chunk) = chunk {
                decoder.add_data(index, chunk).ok()?;
                whole += 1;
            }
        }
        for index in 0..parity_count {
            if whole < count
                && let Some(chunk) = read((count + index) as u64)
            {
                decoder.add_parity(index, &chunk).ok()?;
                whole += 1;
            }
        }
        decoder.finish(|index, chunk| table[index] = Some(chunk.to_vec())).ok()?;
    }
    let bytes: Vec<u8> = table.into_iter().flatten().flatten().collect();
    let (hashes, _) = bytes.as_chunks::<HASH_LEN>();
    let wanted = (layout.protected_count() + layout.body_count) as usize;
    hashes.get(..wanted).map(Arc::from)
}

fn is_chunk(chunk: &[u8], number: u64) -> bool {
    let (sum, rest) = chunk.split_at(8);
    sum == xxh3_64(rest).to_le_bytes() && rest[..8] == number.to_le_bytes()
}

/// Appends a chunk of the coded table to `out`, as it is stored.
pub fn encode_chunk(number: u64, share: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(share);
    let sum = xxh3_64(&out[from + 8..]);
    out[from..from + 8].copy_from_slice(&sum.to_le_bytes());
}

impl Parity {
    /// This section after an earlier one, to which it leads.
    fn after(self, earlier: Self) -> Self {
        Self { previous: Some(Arc::new(earlier)), ..self }
    }

    /// This section, and the earlier ones that protect the leaves before, the newest first. If one
    /// of them is damaged beyond use, it and those before it are missing.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |part| part.previous.as_deref())
    }

    /// Returns whether sections are missing, so that nothing protects the first leaves.
    pub fn is_incomplete(&self) -> bool {
        self.parts().last().is_some_and(|first| first.layout.first_leaf > 0)
    }

    /// The sections that protect a leaf, the newest first. These are two where an earlier section
    /// begins in the leaf: that one protects the bytes before.
    pub fn parts_of(&self, leaf: u64) -> impl Iterator<Item = &Self> {
        self.parts().filter(move |part| part.leaves().contains(&leaf))
    }

    /// The leaves that this section protects.
    pub fn leaves(&self) -> Range<u64> {
        self.layout.first_leaf..self.layout.leaf_count
    }

    /// Where the image begins in the source.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The head of the section.
    pub fn head(&self) -> &ParityHead {
        &self.head
    }

    /// Where the parts of the section are.
    pub fn layout(&self) -> &ParityLayout {
        &self.layout
    }

    /// Length of the image up to the end of the trailer after the section.
    pub fn image_len(&self) -> u64 {
        self.layout.end + TRAILER_SECTION_LEN as u64
    }

    /// The trailer section after the parity, as it was written.
    pub fn trailer_section(&self) -> [u8; TRAILER_SECTION_LEN] {
        let payload = self.head.trailer(&self.layout).encode();
        let mut tag = [0; 8];
        tag.copy_from_slice(&self.head.image_id[..8]);
        let header = SectionHeader {
            section_type: SectionType::Trailer as u16,
            codec: 0,
            offset: self.layout.end,
            stored_len: payload.len() as u64,
            plain_len: payload.len() as u64,
            image_tag: u64::from_le_bytes(tag),
            payload_sum: xxh3_64(&payload),
        };
        let mut out = [0; TRAILER_SECTION_LEN];
        out[..SECTION_HEADER_LEN].copy_from_slice(&header.encode(xxh3_64));
        out[SECTION_HEADER_LEN..].copy_from_slice(&payload);
        out
    }

    /// Length of the protected leaf `leaf`. Only the last one can be shorter than the others.
    pub fn leaf_len(&self, leaf: u64) -> u64 {
        self.head.section_offset.saturating_sub(leaf * LEAF_LEN).min(LEAF_LEN)
    }

    /// Compares every protected leaf and body with its hash, with `threads` threads. Returns `None`
    /// if `cancelled` was set. Reads all protected leaves and the parity; `done` gets the length of
    /// each.
    pub fn scan(
        &self,
        store: &(dyn LeafStore + Sync),
        threads: usize,
        cancelled: &AtomicBool,
        done: &(dyn Fn(u64) + Sync),
    ) -> Option<LeafDamage> {
        let (leaf_count, body_count) = (self.layout.leaf_count, self.layout.body_count);
        let next = AtomicU64::new(self.layout.first_leaf);
        let damage = Mutex::new(LeafDamage::default());
        let work = || {
            let mut buf = vec![0; LEAF_LEN as usize];
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= leaf_count + body_count || cancelled.load(Ordering::Relaxed) {
                    return;
                }
                let whole = self.is_whole(store, index, &mut buf);
                done(buf.len() as u64);
                if !whole {
                    let mut damage = damage.lock().unwrap_or_else(|e| e.into_inner());
                    match index.checked_sub(leaf_count) {
                        None => damage.leaves.insert(index),
                        Some(body) => damage.bodies.insert(body),
                    };
                }
            }
        };
        std::thread::scope(|scope| {
            // If no more threads can be started, the others do the work.
            let mut others = 1..threads.max(1);
            let _ = others.try_for_each(|_| Builder::new().spawn_scoped(scope, work).map(drop));
            work();
        });
        let damage = damage.into_inner().unwrap_or_else(|e| e.into_inner());
        (!cancelled.load(Ordering::Relaxed)).then_some(damage)
    }

    /// Returns whether leaf or body `index` matches its hash. Bodies are numbered after leaves.
    fn is_whole(&self, store: &dyn LeafStore, index: u64, buf: &mut Vec<u8>) -> bool {
        let (offset, len) = match index.checked_sub(self.layout.leaf_count) {
            None => (index * LEAF_LEN, self.leaf_len(index)),
            Some(body) => (self.layout.body_offset(body), LEAF_LEN),
        };
        buf.resize(len as usize, 0);
        store.read(offset, buf).is_ok() && Some(&leaf_hash(buf)) == self.hash_of(index)
    }

    /// The hash of leaf or body `index`, numbered as above.
    fn hash_of(&self, index: u64) -> Option<&[u8; HASH_LEN]> {
        self.hashes.get(index.checked_sub(self.layout.first_leaf)? as usize)
    }

    /// The groups of the leaf `leaf`: set and number.
    fn groups_of(&self, leaf: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.head.sets.iter().enumerate().filter_map(move |(set, groups)| {
            let within = leaf.checked_sub(groups.first_leaf)?;
            (groups.group_count > 0).then(|| (set, within % u64::from(groups.group_count)))
        })
    }

    /// The number of the first body of a set.
    fn first_body(&self, set: usize) -> u64 {
        self.head.sets[..set].iter().map(ParitySet::body_count).sum()
    }

    /// The leaves of a group, in the order of the code.
    pub fn group_leaves(&self, set: usize, group: u64) -> impl Iterator<Item = u64> + use<> {
        let groups = self.head.sets[set];
        (groups.first_leaf + group..self.layout.leaf_count)
            .step_by(groups.group_count.max(1) as usize)
    }

    /// The bodies of a group, in the order of the code.
    pub fn group_bodies(&self, set: usize, group: u64) -> impl Iterator<Item = u64> + use<> {
        let groups = self.head.sets[set];
        let (first, count) = (self.first_body(set), u64::from(groups.group_count));
        (0..u64::from(groups.parity_count)).map(move |index| first + index * count + group)
    }

    /// Repairs the leaves of `damage`, which this section protects, as far as possible, and removes
    /// them from it. Calls `done` with each repaired leaf.
    ///
    /// # Errors
    /// A leaf cannot be read or stored. A leaf beyond repair is no error and stays in `damage`.
    pub fn repair(
        &self,
        store: &mut dyn LeafStore,
        damage: &mut LeafDamage,
        done: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        // A leaf restored by one set may be the one that a group of another set lacked.
        loop {
            let before = damage.leaves.len();
            for set in (0..SET_COUNT).rev() {
                let mut groups: BTreeSet<u64> = BTreeSet::new();
                for &leaf in &damage.leaves {
                    groups.extend(
                        self.groups_of(leaf).filter(|(of, _)| *of == set).map(|(_, group)| group),
                    );
                }
                for group in groups {
                    self.repair_group(store, (set, group), damage, &|_| true, done)?;
                }
            }
            if damage.leaves.is_empty() || damage.leaves.len() == before {
                return Ok(());
            }
        }
    }

    /// The leaves of `damage` that [`Parity::repair`] of this section cannot restore. Reads
    /// nothing.
    pub fn beyond(&self, damage: &LeafDamage) -> BTreeSet<u64> {
        let mut lost = damage.leaves.clone();
        loop {
            let before = lost.len();
            for set in (0..SET_COUNT).rev() {
                let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
                for &leaf in &lost {
                    for (_, group) in self.groups_of(leaf).filter(|(of, _)| *of == set) {
                        groups.entry(group).or_default().push(leaf);
                    }
                }
                for (group, leaves) in groups {
                    let whole = self
                        .group_bodies(set, group)
                        .filter(|body| !damage.bodies.contains(body))
                        .take(leaves.len())
                        .count();
                    if whole == leaves.len() {
                        leaves.iter().for_each(|leaf| _ = lost.remove(leaf));
                    }
                }
            }
            if lost.is_empty() || lost.len() == before {
                return lost;
            }
        }
    }

    /// The leaves of all sections that a repair cannot restore, if `damage` is what each of
    /// [`Parity::parts`] found. Reads nothing.
    ///
    /// A repair begins with the newest section, which may restore bodies of the one before. Then it
    /// writes each section again whose leaves are all restored, and with it leaves of the one
    /// after.
    pub fn beyond_all(&self, damage: &[LeafDamage]) -> BTreeSet<u64> {
        let parts: Vec<&Self> = self.parts().collect();
        let mut damage = damage.to_vec();
        let mut lost: Vec<BTreeSet<u64>> = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if let Some(later) = lost.last() {
                damage[at].bodies.retain(|&body| {
                    let begin = part.layout.body_offset(body);
                    let leaves = begin / LEAF_LEN..(begin + LEAF_LEN).div_ceil(LEAF_LEN);
                    later.range(leaves).next().is_some()
                });
            }
            lost.push(part.beyond(&damage[at]));
        }
        for at in (1..parts.len()).rev() {
            if lost[at].is_empty() && !lost[at - 1].is_empty() {
                damage[at - 1].leaves.retain(|&leaf| !parts[at].writes_again(leaf));
                lost[at - 1] = parts[at - 1].beyond(&damage[at - 1]);
            }
        }
        lost.into_iter().flatten().collect()
    }

    /// Returns whether a leaf of the section after this one has only bytes that this one protects,
    /// or that are written again with it.
    fn writes_again(&self, leaf: u64) -> bool {
        (leaf + 1) * LEAF_LEN <= self.image_len()
    }

    /// Repairs `leaf`, one of the `leaves` of a read. Also repairs other leaves that the same
    /// groups restore: all of this read, and at most `others_max` more, those after the read first.
    ///
    /// Reads a group of the leaf, up to 1 GiB. If that group has lost too many leaves, reads other
    /// groups that can restore some of them first, one after the other, and in the worst case all.
    /// Memory is that for decoding one group and for the leaves it restores.
    ///
    /// # Errors
    /// The store cannot read a leaf or keep a repaired one.
    pub fn repair_leaf(
        &self,
        store: &mut dyn LeafStore,
        leaf: u64,
        leaves: &Range<u64>,
        others_max: usize,
    ) -> io::Result<LeafRepair> {
        if !self.leaves().contains(&leaf) {
            return Ok(LeafRepair::Lost(BTreeSet::from([leaf])));
        }
        if self.is_leaf_whole(store, leaf, &mut Vec::new()) {
            return Ok(LeafRepair::Whole);
        }
        let mut damage = LeafDamage::default();
        let mut scanned = BTreeSet::new();
        let mut ahead: BTreeSet<(usize, u64)> = self.groups_of(leaf).collect();
        let mut lost = BTreeSet::new();
        let plan = loop {
            // `pop_last` takes groups of metadata first: they are small and have more parity.
            let Some(group) = ahead.pop_last() else { return Ok(LeafRepair::Lost(lost)) };
            self.scan_group(store, group, &scanned, &mut damage);
            scanned.insert(group);
            match self.plan(&damage, &scanned, leaf) {
                Ok(plan) => break plan,
                Err(left) => lost = left,
            }
            let groups = lost.iter().flat_map(|&leaf| self.groups_of(leaf));
            ahead = groups.filter(|group| !scanned.contains(group)).collect();
        };
        for (at, &group) in plan.iter().enumerate() {
            let (_, later) = plan.split_at(at + 1);
            let kept = match later {
                [] => self.nearest(group, &damage, leaves, others_max),
                _ => BTreeSet::new(),
            };
            let wanted = |leaf: u64| {
                leaves.contains(&leaf)
                    || kept.contains(&leaf)
                    || self.groups_of(leaf).any(|group| later.contains(&group))
            };
            self.repair_group(store, group, &mut damage, &wanted, &mut |_| ())?;
        }
        Ok(match damage.leaves.contains(&leaf) {
            true => LeafRepair::Changed,
            false => LeafRepair::Whole,
        })
    }

    /// Returns whether the protected leaf `leaf` matches its hash. Fills `buf` with its bytes.
    pub fn is_leaf_whole(&self, store: &dyn LeafStore, leaf: u64, buf: &mut Vec<u8>) -> bool {
        self.leaves().contains(&leaf) && self.is_whole(store, leaf, buf)
    }

    /// Adds the damage of a group to `damage`, which holds that of the groups `scanned`.
    fn scan_group(
        &self,
        store: &dyn LeafStore,
        (set, group): (usize, u64),
        scanned: &BTreeSet<(usize, u64)>,
        damage: &mut LeafDamage,
    ) {
        let mut buf = Vec::new();
        for leaf in self.group_leaves(set, group) {
            let is_known = self.groups_of(leaf).any(|group| scanned.contains(&group));
            if !is_known && !self.is_whole(store, leaf, &mut buf) {
                damage.leaves.insert(leaf);
            }
        }
        for body in self.group_bodies(set, group) {
            if !self.is_whole(store, self.layout.leaf_count + body, &mut buf) {
                damage.bodies.insert(body);
            }
        }
    }

    /// Plans which of the groups `scanned` to repair, and in which order, so that `leaf` is
    /// restored. `Err` holds the leaves that stay lost if this is impossible. Reads nothing.
    fn plan(
        &self,
        damage: &LeafDamage,
        scanned: &BTreeSet<(usize, u64)>,
        leaf: u64,
    ) -> Result<Vec<(usize, u64)>, BTreeSet<u64>> {
        let mut lost = damage.leaves.clone();
        let mut plan = Vec::new();
        loop {
            let before = plan.len();
            for &(set, group) in scanned.iter().rev() {
                let of_group = |leaf: &u64| self.groups_of(*leaf).any(|of| of == (set, group));
                let count = lost.iter().copied().filter(of_group).count();
                let bodies = self.group_bodies(set, group);
                let whole = bodies.filter(|body| !damage.bodies.contains(body)).take(count).count();
                if count == 0 || whole < count {
                    continue;
                }
                lost.retain(|leaf| !of_group(leaf));
                plan.push((set, group));
                if !lost.contains(&leaf) {
                    return Ok(plan);
                }
            }
            if plan.len() == before {
                return Err(lost);
            }
        }
    }

    /// At most `count_max` damaged leaves of a group: first those after `leaves`, then those before
    /// it.
    fn nearest(
        &self,
        (set, group): (usize, u64),
        damage: &LeafDamage,
        leaves: &Range<u64>,
        count_max: usize,
    ) -> BTreeSet<u64> {
        let after = damage.leaves.range(leaves.end..);
        let all = after.chain(damage.leaves.range(..leaves.start)).copied();
        let of_group = |leaf: &u64| self.groups_of(*leaf).any(|of| of == (set, group));
        all.filter(of_group).take(count_max).collect()
    }

    /// Repairs the leaves of a group that are `wanted`, if the group has enough parity.
    fn repair_group(
        &self,
        store: &mut dyn LeafStore,
        (set, group): (usize, u64),
        damage: &mut LeafDamage,
        wanted: &dyn Fn(u64) -> bool,
        done: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let leaves: Vec<u64> = self.group_leaves(set, group).collect();
        let bodies: Vec<u64> = self.group_bodies(set, group).collect();
        let lost: Vec<u64> =
            leaves.iter().copied().filter(|leaf| damage.leaves.contains(leaf)).collect();
        let whole: Vec<(usize, u64)> = bodies
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, body)| !damage.bodies.contains(body))
            .take(lost.len())
            .collect();
        if lost.is_empty() || whole.len() < lost.len() {
            return Ok(());
        }
        let shards = work_shards(leaves.len(), bodies.len());
        let slice_len = (WORK_BYTES_MAX / shards / SLICE_STEP * SLICE_STEP)
            .clamp(SLICE_STEP, LEAF_LEN as usize);
        let mut restored: BTreeMap<u64, Vec<u8>> = lost
            .iter()
            .filter(|leaf| wanted(**leaf))
            .map(|&leaf| (leaf, vec![0; LEAF_LEN as usize]))
            .collect();
        let failed = |error| io::Error::other(error);
        let mut slice = vec![0; slice_len];
        let mut from = 0;
        while from < LEAF_LEN as usize {
            let len = slice_len.min(LEAF_LEN as usize - from);
            let slice = &mut slice[..len];
            let mut decoder =
                ParityDecoder::new(leaves.len(), bodies.len(), len).map_err(failed)?;
            for (index, &leaf) in leaves.iter().enumerate() {
                if damage.leaves.contains(&leaf) {
                    continue;
                }
                // A short leaf is coded as if zeroes followed it.
                let there = (self.leaf_len(leaf) as usize).saturating_sub(from).min(len);
                slice[there..].fill(0);
                store.read(leaf * LEAF_LEN + from as u64, &mut slice[..there])?;
                decoder.add_data(index, slice).map_err(failed)?;
            }
            for &(index, body) in &whole {
                store.read(self.layout.body_offset(body) + from as u64, slice)?;
                decoder.add_parity(index, slice).map_err(failed)?;
            }
            let put = |index: usize, slice: &[u8]| {
                if let Some(bytes) = leaves.get(index).and_then(|leaf| restored.get_mut(leaf)) {
                    bytes[from..from + len].copy_from_slice(slice);
                }
            };
            decoder.finish(put).map_err(failed)?;
            from += len;
        }
        for (leaf, bytes) in restored {
            let bytes = &bytes[..self.leaf_len(leaf) as usize];
            // Only the original bytes are returned: the source may change between two reads.
            if Some(&leaf_hash(bytes)) == self.hash_of(leaf) {
                store.repaired(leaf, leaf * LEAF_LEN, bytes)?;
                damage.leaves.remove(&leaf);
                done(leaf);
            }
        }
        Ok(())
    }
}
