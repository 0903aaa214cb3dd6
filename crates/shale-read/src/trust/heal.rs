//! A source that repairs damage while it is read, from the parity in the same source.
//!
//! Without damage it costs nothing. Parity is searched when a reader first asks for a repair: a few
//! small reads if the end of the image is intact. Repairing the first damaged leaf of a group reads
//! the whole group, up to 1 GiB. The damaged leaves of the group are repaired together and kept in
//! memory, so the next ones cost nothing. A reader gets the bytes it asked for with the repair
//! itself, however few leaves are kept. A leaf beyond repair is not tried again, unless a read that
//! failed then succeeds now. The file is never written. Each repair is logged.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use shale_format::Trailer;
use shale_format::merkle::LEAF_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;

use crate::storage::source::ByteSource;
use crate::trust::parity::{LeafRepair, LeafStore, Parity, find, find_by_trailer};

/// Leaves recorded as beyond repair: 2 MiB of memory.
const LOST_COUNT_MAX: usize = 1 << 16;

/// Receives a line of text for each repair.
#[derive(Clone)]
pub struct Log(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log(..)")
    }
}

/// Where to search for parity.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParityHint {
    /// The source ends with this trailer of the image with this tag.
    Trailer(Trailer, u64),
    /// Other bytes follow the image, which ends at this offset in the source.
    End(u64),
}

/// Offset and length of a read that failed.
type Unread = (u64, usize);

/// What is known about the parity of a source.
enum Known {
    /// Not searched yet: no reader has asked for a repair.
    NotYet(ParityHint),
    /// None was found. If a read failed, there may be some nevertheless.
    None(ParityHint, Option<Unread>),
    Some(Arc<Parity>),
}

/// What is known about repairs.
struct State {
    parity: Known,
    /// Leaves found beyond repair, so that their groups are not read at every access. Each comes
    /// with a read that failed then, if any.
    lost: BTreeMap<u64, Option<Unread>>,
}

impl State {
    fn new(parity: Known) -> Mutex<Self> {
        Mutex::new(Self { parity, lost: BTreeMap::new() })
    }

    /// The parity. Searches for it if that was not done yet, or if a read that failed during the
    /// last search succeeds now.
    fn parity(&mut self, source: &dyn ByteSource, start: u64) -> Option<Arc<Parity>> {
        let hint = match &self.parity {
            Known::Some(parity) => return Some(Arc::clone(parity)),
            Known::NotYet(hint) => *hint,
            Known::None(hint, Some(unread)) if is_readable(source, *unread) => *hint,
            Known::None(..) => return None,
        };
        let watched = Watched { inner: source, unread: Mutex::new(None) };
        let found = match hint {
            ParityHint::Trailer(trailer, tag) => find_by_trailer(&watched, start, &trailer, tag),
            ParityHint::End(end) => find(&watched, Some(start), Some(end)),
        };
        let unread = watched.unread.into_inner().unwrap_or_else(|e| e.into_inner());
        let parity = found.map(Arc::new);
        self.parity = parity.clone().map_or(Known::None(hint, unread), Known::Some);
        parity
    }

    /// Returns whether one of `leaves` was found beyond repair, and no read that failed then
    /// succeeds now.
    fn is_lost(&mut self, source: &dyn ByteSource, leaves: &Range<u64>) -> bool {
        let mut of_read = self.lost.range(leaves.clone());
        let Some((&leaf, &unread)) = of_read.next() else { return false };
        let is_lost = unread.is_none_or(|unread| !is_readable(source, unread));
        if !is_lost {
            self.lost.retain(|_, other| *other != unread);
            self.lost.remove(&leaf);
        }
        is_lost
    }

    fn lose(&mut self, leaf: u64, others: BTreeSet<u64>, unread: Option<Unread>) {
        if self.lost.len() + others.len() > LOST_COUNT_MAX {
            self.lost.clear();
        }
        // The following leaves are asked for next.
        let near = others.range(leaf..).chain(others.range(..leaf)).take(LOST_COUNT_MAX);
        self.lost.extend(near.map(|&leaf| (leaf, unread)));
    }
}

/// Returns whether a read that failed before succeeds now.
fn is_readable(source: &dyn ByteSource, (offset, len): Unread) -> bool {
    source.read_at(offset, &mut vec![0; len]).is_ok()
}

/// A source that records the first failed read that may succeed later.
struct Watched<'s> {
    inner: &'s dyn ByteSource,
    unread: Mutex<Option<Unread>>,
}

impl ByteSource for Watched<'_> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, buf).inspect_err(|_| {
            // Beyond the end no read ever succeeds.
            if offset.checked_add(buf.len() as u64).is_some_and(|end| end <= self.inner.len()) {
                let mut unread = self.unread.lock().unwrap_or_else(|e| e.into_inner());
                unread.get_or_insert((offset, buf.len()));
            }
        })
    }
}

/// A source with an overlay of repaired bytes.
pub(crate) struct HealingSource {
    inner: Arc<dyn ByteSource>,
    len: u64,
    start: u64,
    state: Mutex<State>,
    overlay: RwLock<Overlay>,
    /// Repaired leaves that are kept at most.
    leaf_count_max: usize,
    log: Option<Log>,
}

/// Bytes that replace those of the source.
#[derive(Default)]
struct Overlay {
    /// Repaired leaves by number.
    leaves: BTreeMap<u64, Box<[u8]>>,
    /// Repaired superblock and trailer: offsets in the source and bytes. Opening an image reads
    /// them without asking for a repair, so they are never dropped.
    fixed: Vec<(u64, Vec<u8>)>,
}

impl Overlay {
    /// Adds a leaf that was repaired for a read of `leaves`. If there are too many, drops others:
    /// first those before that read, because most reads continue forward, then those farthest after
    /// it.
    fn keep(&mut self, leaf: u64, bytes: Box<[u8]>, leaves: &Range<u64>, leaf_count_max: usize) {
        self.leaves.insert(leaf, bytes);
        while self.leaves.len() > leaf_count_max {
            let before = self.leaves.range(..leaves.start).next_back();
            let farthest = before.or_else(|| self.leaves.last_key_value()).map(|(leaf, _)| *leaf);
            let Some(farthest) = farthest else { return };
            self.leaves.remove(&farthest);
        }
    }
}

impl HealingSource {
    /// Wraps a source whose image begins at `start`. Keeps repaired leaves of at most `bytes_max`
    /// bytes.
    pub(crate) fn new(
        inner: Arc<dyn ByteSource>,
        start: u64,
        hint: ParityHint,
        bytes_max: u64,
        log: Option<Log>,
    ) -> Self {
        let len = inner.len();
        let state = State::new(Known::NotYet(hint));
        let leaf_count_max = leaf_count_max(bytes_max);
        Self { inner, len, start, state, overlay: RwLock::default(), leaf_count_max, log }
    }

    /// Wraps a source whose image cannot be opened as it is. Repairs superblock and trailer at
    /// once, and restores the length of a truncated source.
    pub(crate) fn forced(
        inner: Arc<dyn ByteSource>,
        parity: Parity,
        bytes_max: u64,
        log: Option<Log>,
    ) -> Self {
        let start = parity.start();
        let end = start + parity.image_len();
        let len = inner.len().max(end);
        let trailer = parity.trailer_section();
        let at = end - TRAILER_SECTION_LEN as u64;
        let mut found = [0; TRAILER_SECTION_LEN];
        let lost = inner.read_at(at, &mut found).is_err() || found != trailer;
        let fixed = if lost { vec![(at, trailer.to_vec())] } else { Vec::new() };
        let overlay = RwLock::new(Overlay { fixed, ..Overlay::default() });
        let state = State::new(Known::Some(Arc::new(parity)));
        let leaf_count_max = leaf_count_max(bytes_max);
        let source = Self { inner, len, start, state, overlay, leaf_count_max, log };
        if lost {
            source.log(format!("the trailer at offset {at} was repaired from parity"));
        }
        let mut superblock = [0; SUPERBLOCK_LEN];
        if source.heal(start, &mut superblock) {
            let mut overlay = source.overlay.write().unwrap_or_else(|e| e.into_inner());
            overlay.fixed.push((start, superblock.to_vec()));
        }
        source
    }

    fn log(&self, line: String) {
        if let Some(Log(log)) = &self.log {
            log(&line);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Copies repaired bytes over `buf`, which begins at `offset`.
    fn apply_overlay(&self, offset: u64, buf: &mut [u8]) {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        let last = (offset + buf.len() as u64).saturating_sub(self.start).div_ceil(LEAF_LEN);
        let first = (offset.saturating_sub(self.start) / LEAF_LEN).min(last);
        for (leaf, bytes) in overlay.leaves.range(first..last) {
            copy_part(self.start + leaf * LEAF_LEN, bytes, offset, buf);
        }
        for (at, bytes) in &overlay.fixed {
            copy_part(*at, bytes, offset, buf);
        }
    }

    /// Returns whether nothing was repaired.
    fn is_untouched(&self) -> bool {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        overlay.leaves.is_empty() && overlay.fixed.is_empty()
    }

    /// Reads around the repaired bytes, after a read of the whole range failed.
    fn read_pieces(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        let end = offset + buf.len() as u64;
        let leaves = overlay.leaves.iter().map(|(leaf, bytes)| {
            let at = self.start + leaf * LEAF_LEN;
            at..at + bytes.len() as u64
        });
        let fixed = overlay.fixed.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64);
        let mut repaired: Vec<Range<u64>> =
            leaves.chain(fixed).filter(|there| there.start < end && there.end > offset).collect();
        drop(overlay);
        repaired.sort_by_key(|there| there.start);
        let mut at = offset;
        for gap in repaired.into_iter().chain(std::iter::once(end..end)) {
            if at < gap.start {
                let piece = &mut buf[(at - offset) as usize..(gap.start - offset) as usize];
                self.inner.read_at(at, piece)?;
            }
            at = at.max(gap.end);
        }
        // A leaf dropped meanwhile is read as it is; its reader verifies it.
        self.apply_overlay(offset, buf);
        Ok(())
    }

    /// Repairs `leaf` for a read of `leaves`. Returns the repaired leaves of that read.
    fn repair(
        &self,
        state: &mut State,
        parity: &Parity,
        leaf: u64,
        leaves: &Range<u64>,
    ) -> Option<Repaired> {
        let mut store = RepairStore::new(self);
        match parity.repair_leaf(&mut store, leaf, leaves, self.leaf_count_max) {
            Ok(LeafRepair::Whole) => {}
            Ok(LeafRepair::Changed) => return None,
            Ok(LeafRepair::Lost(others)) => {
                state.lose(leaf, others, store.unread.get());
                return None;
            }
            Err(error) => {
                self.log(format!("leaf {leaf} was not repaired: {error}"));
                return None;
            }
        }
        let mut of_read = Repaired::new();
        let mut overlay = self.overlay.write().unwrap_or_else(|e| e.into_inner());
        for (leaf, bytes) in store.repaired {
            if leaves.contains(&leaf) {
                of_read.insert(leaf, bytes.clone());
            }
            overlay.keep(leaf, bytes, leaves, self.leaf_count_max);
        }
        Some(of_read)
    }
}

/// Copies the part of `bytes`, which belong at `at`, that lies in `buf`, which begins at `offset`.
fn copy_part(at: u64, bytes: &[u8], offset: u64, buf: &mut [u8]) {
    let (from, to) = (at.max(offset), (at + bytes.len() as u64).min(offset + buf.len() as u64));
    if from < to {
        let piece = &bytes[(from - at) as usize..(to - at) as usize];
        let into = (from - offset) as usize;
        buf[into..into + piece.len()].copy_from_slice(piece);
    }
}

fn leaf_count_max(bytes_max: u64) -> usize {
    usize::try_from(bytes_max / LEAF_LEN).unwrap_or(usize::MAX)
}

/// Repaired leaves by number.
type Repaired = BTreeMap<u64, Box<[u8]>>;

/// A leaf store over a source and its overlay. Repaired leaves are held until the repair is done,
/// because others may be computed from them.
struct RepairStore<'s> {
    source: &'s HealingSource,
    repaired: Repaired,
    /// The first failed read that may succeed later.
    unread: Cell<Option<Unread>>,
}

impl<'s> RepairStore<'s> {
    fn new(source: &'s HealingSource) -> Self {
        Self { source, repaired: Repaired::new(), unread: Cell::new(None) }
    }
}

impl LeafStore for RepairStore<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (leaf, within) = (offset / LEAF_LEN, (offset % LEAF_LEN) as usize);
        // If the last leaf is short, a body of parity may begin in its place.
        match self.repaired.get(&leaf).and_then(|bytes| bytes.get(within..within + buf.len())) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let HealingSource { inner, start, .. } = self.source;
                self.source.read_at(start + offset, buf).inspect_err(|_| {
                    if start + offset + buf.len() as u64 <= inner.len() {
                        let first = self.unread.get().or(Some((start + offset, buf.len())));
                        self.unread.set(first);
                    }
                })
            }
        }
    }

    fn repaired(&mut self, leaf: u64, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.repaired.insert(leaf, bytes.into());
        let (from, len) = (leaf * LEAF_LEN, bytes.len());
        self.source
            .log(format!("leaf {leaf}, {len} bytes at offset {from}, was repaired from parity"));
        Ok(())
    }
}

impl ByteSource for HealingSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match self.inner.read_at(offset, buf) {
            Ok(()) => {
                self.apply_overlay(offset, buf);
                Ok(())
            }
            Err(error) => match self.is_untouched() {
                true => Err(error),
                false => self.read_pieces(offset, buf),
            },
        }
    }

    fn heal(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len && offset >= self.start && !buf.is_empty() => end,
            _ => return false,
        };
        // Held during the repair, so that a group is repaired once however many readers ask.
        let mut state = self.state();
        let Some(parity) = state.parity(&self.inner, self.start) else { return false };
        let first = (offset - self.start) / LEAF_LEN;
        let last = (end - self.start).div_ceil(LEAF_LEN).min(parity.layout().leaf_count);
        let leaves = first..last;
        if leaves.is_empty() || state.is_lost(&self.inner, &leaves) {
            return false;
        }
        // Of two sections that protect a leaf, the earlier one protects only its beginning.
        let protected_end = (end - self.start).min(parity.head().section_offset);
        let needed_len = |leaf: u64| protected_end.min((leaf + 1) * LEAF_LEN) - leaf * LEAF_LEN;
        let mut wanted: BTreeSet<u64> = leaves.clone().collect();
        let mut bytes = Vec::new();
        while let Some(leaf) = wanted.pop_first() {
            let mut parts =
                parity.parts_of(leaf).filter(|part| part.leaf_len(leaf) >= needed_len(leaf));
            let is_there = parts.any(|part| {
                if part.is_leaf_whole(&RepairStore::new(self), leaf, &mut bytes) {
                    copy_part(self.start + leaf * LEAF_LEN, &bytes, offset, buf);
                    return true;
                }
                let Some(repaired) = self.repair(&mut state, part, leaf, &leaves) else {
                    return false;
                };
                for (leaf, bytes) in repaired {
                    copy_part(self.start + leaf * LEAF_LEN, &bytes, offset, buf);
                    if bytes.len() as u64 >= needed_len(leaf) {
                        wanted.remove(&leaf);
                    }
                }
                true
            });
            if !is_there {
                return false;
            }
        }
        // The bytes after the leaves, if the read continues there.
        let after = self.start + parity.head().section_offset;
        match after.checked_sub(offset).and_then(|at| usize::try_from(at).ok()) {
            Some(at) if at < buf.len() => self.read_at(after, &mut buf[at..]).is_ok(),
            _ => true,
        }
    }

    fn is_far(&self) -> bool {
        self.inner.is_far()
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        self.inner.will_need(ranges);
    }

    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        let is_read = self.inner.read_again(offset, buf);
        if is_read {
            self.apply_overlay(offset, buf);
        }
        is_read
    }

    fn base_len(&self) -> u64 {
        self.inner.base_len()
    }
}
