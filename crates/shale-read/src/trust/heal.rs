//! A source that repairs what its reader finds damaged, from the parity in the same source.
//!
//! Until something is damaged this costs nothing: parity is looked for when a reader first asks for
//! a repair. The first damaged leaf of a group has the whole group read, up to a GiB; all damaged
//! leaves of the group are repaired then and kept in memory, so the next ones cost nothing. The
//! file is never written to. Each repair is told to the log.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use shale_format::merkle::LEAF_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;

use crate::source::Source;
use crate::trust::parity::{LeafStore, Parity, find};

/// Repaired leaves kept in memory: 256 MiB.
const LEAF_COUNT_MAX: usize = 4096;

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
    log: Option<Log>,
}

#[derive(Default)]
struct Overlay {
    /// By number of the leaf.
    leaves: HashMap<u64, Box<[u8]>>,
    /// Offset in the source and bytes of the last trailer, where it was lost.
    trailer: Option<(u64, [u8; TRAILER_SECTION_LEN])>,
}

impl HealingSource {
    /// Over a source whose image begins at `start`, where a parity section may begin at `hint`.
    pub(crate) fn new(
        inner: Arc<dyn Source>,
        start: u64,
        hint: Option<u64>,
        log: Option<Log>,
    ) -> Self {
        let len = inner.len();
        let parity = Mutex::new(Known::NotYet(hint));
        Self { inner, len, start, parity, overlay: RwLock::default(), log }
    }

    /// Over a source whose image cannot be opened as it is: superblock and trailer are repaired at
    /// once, and a length that was cut off is restored.
    pub(crate) fn forced(inner: Arc<dyn Source>, parity: Parity, log: Option<Log>) -> Self {
        let start = parity.start();
        let end = start + parity.image_len();
        let len = inner.len().max(end);
        let trailer = parity.trailer_section();
        let at = end - TRAILER_SECTION_LEN as u64;
        let mut found = [0; TRAILER_SECTION_LEN];
        let lost = inner.read_at(at, &mut found).is_err() || found != trailer;
        let overlay = Overlay { leaves: HashMap::new(), trailer: lost.then_some((at, trailer)) };
        let parity = Mutex::new(Known::Some(Arc::new(parity)));
        let overlay = RwLock::new(overlay);
        let source = Self { inner, len, start, parity, overlay, log };
        if lost {
            source.say(format!("the trailer at offset {at} was repaired from parity"));
        }
        source.heal(start, SUPERBLOCK_LEN as u64);
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
        let end = offset + buf.len() as u64;
        let mut put = |at: u64, bytes: &[u8]| {
            let (from, to) = (at.max(offset), (at + bytes.len() as u64).min(end));
            if from < to {
                let piece = &bytes[(from - at) as usize..(to - at) as usize];
                let into = (from - offset) as usize;
                buf[into..into + piece.len()].copy_from_slice(piece);
            }
        };
        if !overlay.leaves.is_empty() {
            let first = offset.saturating_sub(self.start) / LEAF_LEN;
            let last = end.saturating_sub(self.start).div_ceil(LEAF_LEN);
            for leaf in first..last {
                if let Some(bytes) = overlay.leaves.get(&leaf) {
                    put(self.start + leaf * LEAF_LEN, bytes);
                }
            }
        }
        if let Some((at, bytes)) = &overlay.trailer {
            put(*at, bytes);
        }
    }

    /// Whether nothing was repaired so far.
    fn is_untouched(&self) -> bool {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        overlay.leaves.is_empty() && overlay.trailer.is_none()
    }

    /// Whether the byte at `at` was repaired.
    fn is_repaired(&self, at: u64) -> bool {
        let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
        let in_leaf = at.checked_sub(self.start).is_some_and(|at| {
            let bytes = overlay.leaves.get(&(at / LEAF_LEN));
            bytes.is_some_and(|bytes| at % LEAF_LEN < bytes.len() as u64)
        });
        let in_trailer = overlay.trailer.as_ref().is_some_and(|(from, bytes)| {
            at.checked_sub(*from).is_some_and(|at| at < bytes.len() as u64)
        });
        in_leaf || in_trailer
    }

    /// Reads leaf by leaf, those that were repaired from memory, after one read of all has failed.
    fn read_pieces(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut at = offset;
        let mut rest = &mut *buf;
        while !rest.is_empty() {
            let within = at.checked_sub(self.start).map_or(0, |at| at % LEAF_LEN);
            let mut len = rest.len().min((LEAF_LEN - within) as usize);
            // The trailer begins anywhere in a leaf.
            let overlay = self.overlay.read().unwrap_or_else(|e| e.into_inner());
            if let Some((trailer, _)) = overlay.trailer
                && at < trailer
            {
                len = len.min((trailer - at) as usize);
            }
            drop(overlay);
            let (piece, behind) = rest.split_at_mut(len);
            match self.is_repaired(at) && self.is_repaired(at + len as u64 - 1) {
                true => self.lay_over(at, piece),
                false => self.inner.read_at(at, piece)?,
            }
            rest = behind;
            at += len as u64;
        }
        Ok(())
    }
}

/// Leaves through the overlay, repaired ones into it.
struct Through<'s>(&'s HealingSource);

impl LeafStore for Through<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(self.0.start + offset, buf)
    }

    fn repaired(&mut self, leaf: u64, _: u64, bytes: &[u8]) -> io::Result<()> {
        let mut overlay = self.0.overlay.write().unwrap_or_else(|e| e.into_inner());
        if overlay.leaves.len() >= LEAF_COUNT_MAX {
            overlay.leaves.clear();
        }
        overlay.leaves.insert(leaf, bytes.into());
        drop(overlay);
        let (from, len) = (leaf * LEAF_LEN, bytes.len());
        self.0.say(format!("leaf {leaf}, {len} bytes at offset {from}, was repaired from parity"));
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

    fn heal(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len).min(self.len);
        if len == 0 || offset < self.start || offset >= end {
            return false;
        }
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
        let mut healed = first < last;
        for leaf in first..last {
            match parity.repair_leaf(&mut Through(self), leaf) {
                Ok(true) => {}
                Ok(false) => healed = false,
                Err(error) => {
                    self.say(format!("leaf {leaf} was not repaired: {error}"));
                    healed = false;
                }
            }
        }
        healed
    }
}
