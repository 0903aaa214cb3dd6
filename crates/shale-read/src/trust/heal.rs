//! A source that repairs what its reader finds damaged, from the parity in the same source.
//!
//! Until something is damaged this costs nothing: parity is looked for when a reader first asks for
//! a repair. The first damaged leaf of a group has the whole group read, up to a GiB; the damaged
//! leaves of the group are repaired then and kept in memory, so the next ones cost nothing. A
//! reader is given the bytes that it asked for at once, so it has them however few are kept. The
//! file is never written to. Each repair is told to the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use shale_format::merkle::LEAF_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;

use crate::source::Source;
use crate::trust::parity::{LeafRepair, LeafStore, Parity, find};

/// Where lines about repairs go.
#[derive(Clone)]
pub struct Log(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log(..)")
    }
}

/// What is known of the parity of a source.
enum Known {
    /// Nobody has looked, or asked for anything to be repaired; the offset in the source where a
    /// parity section may begin.
    NotYet(Option<u64>),
    /// There is none.
    None,
    Some(Arc<Parity>),
}

/// A source with an overlay of what was repaired.
pub(crate) struct HealingSource {
    inner: Arc<dyn Source>,
    len: u64,
    start: u64,
    parity: Mutex<Known>,
    overlay: RwLock<Overlay>,
    /// Repaired leaves that are kept.
    leaf_count_max: usize,
    log: Option<Log>,
}

/// What is laid over the bytes of the source.
#[derive(Default)]
struct Overlay {
    /// Repaired leaves by number, as many as are kept.
    leaves: BTreeMap<u64, Box<[u8]>>,
    /// What leads to the rest, where it was lost: offsets in the source and bytes. Whoever opens an
    /// image reads it without asking for a repair, so it is never dropped.
    fixed: Vec<(u64, Vec<u8>)>,
}

impl Overlay {
    /// Keeps a leaf that was repaired for a read of `leaves`, and drops others where they are too
    /// many: first what lies before that read, as most read on from where they are, and then what
    /// is farthest behind it.
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
    /// Over a source whose image begins at `start`, where a parity section may begin at `hint`.
    /// Keeps repaired leaves of at most `bytes_max`.
    pub(crate) fn new(
        inner: Arc<dyn Source>,
        start: u64,
        hint: Option<u64>,
        bytes_max: u64,
        log: Option<Log>,
    ) -> Self {
        let len = inner.len();
        let parity = Mutex::new(Known::NotYet(hint));
        let leaf_count_max = leaf_count_max(bytes_max);
        Self { inner, len, start, parity, overlay: RwLock::default(), leaf_count_max, log }
    }

    /// Over a source whose image cannot be opened as it is: superblock and trailer are repaired at
    /// once, and a length that was cut off is restored.
    pub(crate) fn forced(
        inner: Arc<dyn Source>,
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
        let parity = Mutex::new(Known::Some(Arc::new(parity)));
        let leaf_count_max = leaf_count_max(bytes_max);
        let source = Self { inner, len, start, parity, overlay, leaf_count_max, log };
        if lost {
            source.say(format!("the trailer at offset {at} was repaired from parity"));
        }
        let mut superblock = [0; SUPERBLOCK_LEN];
        if source.heal(start, &mut superblock) {
            let mut overlay = source.overlay.write().unwrap_or_else(|e| e.into_inner());
            overlay.fixed.push((start, superblock.to_vec()));
        }
        source
    }

    fn say(&self, line: String) {
        if let Some(Log(log)) = &self.log {
            log(&line);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.parity.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Puts the repaired bytes of `buf`, which begins at `offset`, in their places.
    fn lay_over(&self, offset: u64, buf: &mut [u8]) {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        let last = (offset + buf.len() as u64).saturating_sub(self.start).div_ceil(LEAF_LEN);
        let first = (offset.saturating_sub(self.start) / LEAF_LEN).min(last);
        for (leaf, bytes) in overlay.leaves.range(first..last) {
            lay(self.start + leaf * LEAF_LEN, bytes, offset, buf);
        }
        for (at, bytes) in &overlay.fixed {
            lay(*at, bytes, offset, buf);
        }
    }

    /// Whether nothing is laid over the source.
    fn is_untouched(&self) -> bool {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        overlay.leaves.is_empty() && overlay.fixed.is_empty()
    }

    /// Reads piece by piece, those that were repaired from memory, after one read of all has failed.
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
        // What was dropped meanwhile is read as it is, which its reader will see.
        self.lay_over(offset, buf);
        Ok(())
    }

    /// Repairs `leaf` for a read of `leaves`, and gives what came with it of that read.
    fn repair(&self, parity: &Parity, leaf: u64, leaves: &Range<u64>) -> Option<Repaired> {
        let mut through = Through { source: self, repaired: Repaired::new() };
        let others_max = self.leaf_count_max;
        match parity.repair_leaf(&mut through, leaf, leaves, others_max) {
            Ok(LeafRepair::Whole) => {}
            Ok(LeafRepair::Lost(_) | LeafRepair::Changed) => return None,
            Err(error) => {
                self.say(format!("leaf {leaf} was not repaired: {error}"));
                return None;
            }
        }
        let mut of_read = Repaired::new();
        let mut overlay = self.overlay.write().unwrap_or_else(|e| e.into_inner());
        for (leaf, bytes) in through.repaired {
            if leaves.contains(&leaf) {
                of_read.insert(leaf, bytes.clone());
            }
            overlay.keep(leaf, bytes, leaves, self.leaf_count_max);
        }
        Some(of_read)
    }
}

/// Copies as much of `bytes`, which belong at `at`, as lies in `buf`, which begins at `offset`.
fn lay(at: u64, bytes: &[u8], offset: u64, buf: &mut [u8]) {
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

/// Leaves through the overlay; repaired ones are held until all is done, as others may be computed
/// from them.
struct Through<'s> {
    source: &'s HealingSource,
    repaired: Repaired,
}

impl LeafStore for Through<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (leaf, within) = (offset / LEAF_LEN, (offset % LEAF_LEN) as usize);
        // Where the last leaf is short, a body of parity may begin in its place.
        match self.repaired.get(&leaf).and_then(|bytes| bytes.get(within..within + buf.len())) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => self.source.read_at(self.source.start + offset, buf),
        }
    }

    fn repaired(&mut self, leaf: u64, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.repaired.insert(leaf, bytes.into());
        let (from, len) = (leaf * LEAF_LEN, bytes.len());
        self.source
            .say(format!("leaf {leaf}, {len} bytes at offset {from}, was repaired from parity"));
        Ok(())
    }
}

impl Source for HealingSource {
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
                self.lay_over(offset, buf);
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
        // Held while repairing, so that a group is repaired once however many readers ask.
        let mut known = self.known();
        if let Known::NotYet(hint) = *known {
            *known = match find(&self.inner, Some(self.start), hint) {
                Some(parity) => Known::Some(Arc::new(parity)),
                None => Known::None,
            };
        }
        let Known::Some(parity) = &*known else { return false };
        let first = (offset - self.start) / LEAF_LEN;
        let last = (end - self.start).div_ceil(LEAF_LEN).min(parity.layout().leaf_count);
        let leaves = first..last;
        if leaves.is_empty() {
            return false;
        }
        let mut wanted: BTreeSet<u64> = leaves.clone().collect();
        let mut bytes = Vec::new();
        while let Some(leaf) = wanted.pop_first() {
            let through = Through { source: self, repaired: Repaired::new() };
            if parity.is_leaf_whole(&through, leaf, &mut bytes) {
                lay(self.start + leaf * LEAF_LEN, &bytes, offset, buf);
                continue;
            }
            let Some(repaired) = self.repair(parity, leaf, &leaves) else { return false };
            for (leaf, bytes) in repaired {
                lay(self.start + leaf * LEAF_LEN, &bytes, offset, buf);
                wanted.remove(&leaf);
            }
        }
        // What lies behind the leaves, if the read goes on there.
        let behind = self.start + parity.head().section_offset;
        match behind.checked_sub(offset).and_then(|at| usize::try_from(at).ok()) {
            Some(at) if at < buf.len() => self.read_at(behind, &mut buf[at..]).is_ok(),
            _ => true,
        }
    }
}
