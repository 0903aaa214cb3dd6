//! Compares every byte with the sums of sections and the hashes of leaves, in several threads.
//!
//! The work is split into units in the order of the image. A thread that decodes frames first takes
//! the units that end before its frames, so the bytes are read from disk once and are hashed,
//! summed and decoded while they are in memory. The remaining units are done at the end. A section
//! is summed and its leaves are hashed in one pass, in pieces that stay in the processor's cache,
//! because copying from the page cache takes as long as hashing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use shale_codec::merkle::leaf_hash;
use shale_format::SectionHeader;
use shale_format::merkle::LEAF_LEN;
use shale_host::{thread_count, threads};

use super::context::Context;
use super::findings::Scope;
use super::identity::HashTree;
use super::level::Subset;
use super::payload::{Payload, check_payload, is_bulk};
use super::report::{Checked, Left};
use super::sections::Layout;

/// Leaves in a unit that belongs to no section: 1 MiB.
pub(super) const LEAVES_TAKEN: u64 = 16;
/// Runs of damaged leaves that are reported one by one.
const NAMED_MAX: usize = 20;

/// A piece of work.
#[derive(Debug, Clone)]
struct Unit {
    /// Offset at which its last byte ends.
    end: u64,
    bytes: u64,
    /// Index of the section to sum.
    section: Option<usize>,
    /// Leaves to hash: those inside the payload of the section, or of no section.
    leaves: Range<u64>,
}

/// All units, and what came of them.
pub(super) struct Bytes<'a> {
    context: &'a Context<'a>,
    layout: &'a Layout,
    tree: Option<&'a HashTree>,
    /// Units in the order of the image.
    units: Vec<Unit>,
    next: AtomicUsize,
    leaves: AtomicU64,
    damaged_leaves: Mutex<BTreeSet<u64>>,
    /// Sections whose sum was begun and not finished, and their leaves that were not hashed.
    left_sections: AtomicU64,
    left_leaves: AtomicU64,
}

impl<'a> Bytes<'a> {
    /// Prepares the units: sections whose sums were not compared yet and leaves of the tree, as far
    /// as they belong to the subset.
    pub(super) fn new(
        context: &'a Context<'a>,
        layout: &'a Layout,
        tree: Option<&'a HashTree>,
    ) -> Self {
        let subset = context.options.subset;
        let covered = tree.map_or(0, |tree| tree.head.covered_len);
        let mut units = Vec::new();
        let mut hashed = 0;
        for (index, section) in layout.sections.iter().enumerate() {
            if !is_bulk(section) {
                continue;
            }
            let end = (section.end().min(covered) / LEAF_LEN).max(hashed);
            let leaves = section.payload_offset().div_ceil(LEAF_LEN).clamp(hashed, end)..end;
            if !leaves.is_empty() {
                units.extend(runs_of_leaves(hashed..leaves.start, covered, subset));
                hashed = leaves.end;
            }
            if subset.has(index as u64) {
                let (end, bytes) = (section.end(), section.stored_len);
                units.push(Unit { end, bytes, section: Some(index), leaves });
            }
        }
        units.extend(runs_of_leaves(hashed..covered.div_ceil(LEAF_LEN), covered, subset));
        units.sort_by_key(|unit| unit.end);
        Self {
            context,
            layout,
            tree,
            units,
            next: AtomicUsize::new(0),
            leaves: AtomicU64::new(0),
            damaged_leaves: Mutex::default(),
            left_sections: AtomicU64::new(0),
            left_leaves: AtomicU64::new(0),
        }
    }

    /// Bytes that will be read.
    pub(super) fn total(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// Runs the units that end at `end` or before and that no thread has taken yet.
    pub(super) fn run_to(&self, end: u64) {
        let mut buf = Vec::new();
        loop {
            let at = self.next.load(Ordering::Relaxed);
            let Some(unit) = self.units.get(at) else { return };
            if unit.end > end || self.context.is_over() {
                return;
            }
            let taken =
                self.next.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                self.run(unit, &mut buf);
            }
        }
    }

    /// Runs all remaining units with all threads, and reports what they found.
    pub(super) fn finish(&self, checked: &mut Checked, left: &mut Left) {
        let threads = thread_count(self.context.options.threads);
        threads::run(threads, || self.run_to(u64::MAX));
        let done = self.next.load(Ordering::Relaxed).min(self.units.len());
        for unit in &self.units[done..] {
            left.sections += u64::from(unit.section.is_some());
            left.leaves += unit.leaves.end - unit.leaves.start;
        }
        left.sections += self.left_sections.load(Ordering::Relaxed);
        left.leaves += self.left_leaves.load(Ordering::Relaxed);
        checked.leaves += self.leaves.load(Ordering::Relaxed);
        self.report_leaves();
    }

    fn run(&self, unit: &Unit, buf: &mut Vec<u8>) {
        let section =
            unit.section.and_then(|index| self.layout.sections.get(index).zip(Some(index)));
        match section {
            Some((section, index)) => self.run_section(index, section, &unit.leaves, buf),
            None => self.run_leaves(unit.leaves.clone(), buf),
        }
        self.context.progress.done(0, unit.bytes);
    }

    /// Sums a section, and hashes the leaves inside its payload in the same pass.
    fn run_section(
        &self,
        index: usize,
        section: &SectionHeader,
        leaves: &Range<u64>,
        buf: &mut Vec<u8>,
    ) {
        let mut next = leaves.start;
        let mut damaged = Vec::new();
        let outcome = check_payload(self.context, index, section, buf, |offset, bytes| {
            // A leaf ends in the piece in which it begins.
            while next < leaves.end
                && let from = (next * LEAF_LEN - offset) as usize
                && let Some(leaf) = bytes.get(from..from + LEAF_LEN as usize)
            {
                if !self.is_whole(next, leaf) {
                    damaged.push(next);
                }
                next += 1;
            }
        });
        self.hashed(next - leaves.start, damaged);
        match outcome {
            Payload::Summed => {}
            Payload::Unreadable => {
                let rest = next..leaves.end;
                for first in rest.clone().step_by(LEAVES_TAKEN as usize) {
                    self.run_leaves(first..rest.end.min(first + LEAVES_TAKEN), buf);
                }
            }
            Payload::Left => {
                self.left_sections.fetch_add(1, Ordering::Relaxed);
                self.left_leaves.fetch_add(leaves.end - next, Ordering::Relaxed);
            }
        }
    }

    fn run_leaves(&self, leaves: Range<u64>, buf: &mut Vec<u8>) {
        let covered = self.tree.map_or(0, |tree| tree.head.covered_len);
        let len = len_of_leaves(&leaves, covered);
        let mut damaged = Vec::new();
        // If the run cannot be read at once, it is read leaf by leaf, so that only the bad leaf
        // counts as damaged.
        let all = self.context.store.read(leaves.start * LEAF_LEN, len, buf).is_ok();
        if !all {
            buf.clear();
        }
        let mut one = Vec::new();
        for leaf in leaves.clone() {
            let from = ((leaf - leaves.start) * LEAF_LEN) as usize;
            let leaf_len = len_of_leaves(&(leaf..leaf + 1), covered) as usize;
            let bytes = match buf.get(from..from + leaf_len) {
                Some(bytes) => Some(bytes),
                None => {
                    let read = self.context.store.read(leaf * LEAF_LEN, leaf_len as u64, &mut one);
                    read.is_ok().then_some(one.as_slice())
                }
            };
            if !bytes.is_some_and(|bytes| self.is_whole(leaf, bytes)) {
                damaged.push(leaf);
            }
        }
        self.hashed(leaves.end - leaves.start, damaged);
    }

    fn is_whole(&self, leaf: u64, bytes: &[u8]) -> bool {
        self.tree.and_then(|tree| tree.hash_of(leaf)) == Some(&leaf_hash(bytes))
    }

    fn hashed(&self, count: u64, damaged: Vec<u64>) {
        self.leaves.fetch_add(count, Ordering::Relaxed);
        if !damaged.is_empty() {
            self.damaged_leaves.lock().unwrap_or_else(|e| e.into_inner()).extend(damaged);
        }
    }

    /// Reports adjacent damaged leaves as one problem.
    fn report_leaves(&self) {
        let damaged =
            std::mem::take(&mut *self.damaged_leaves.lock().unwrap_or_else(|e| e.into_inner()));
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for leaf in damaged {
            match runs.last_mut() {
                Some((_, end)) if *end == leaf => *end += 1,
                _ => runs.push((leaf, leaf + 1)),
            }
        }
        let findings = self.context.findings;
        let covered = self.tree.map_or(0, |tree| tree.head.covered_len);
        for &(first, end) in runs.iter().take(NAMED_MAX) {
            let (place, what) = match end - first {
                1 => (format!("leaf {first}"), "it is damaged"),
                _ => (format!("leaves {first} to {}", end - 1), "they are damaged"),
            };
            let from = first * LEAF_LEN;
            let len = (end * LEAF_LEN).min(covered) - from;
            findings.add_about(place, Some((from, Some(len))), what, Scope::Nothing);
        }
        if let Some(&(first, _)) = runs.get(NAMED_MAX) {
            let leaves: u64 = runs[NAMED_MAX..].iter().map(|(first, end)| end - first).sum();
            let what = format!("{leaves} more leaves are damaged, from leaf {first} on");
            findings.add_about("merkle tree", None, what, Scope::Nothing);
        }
    }
}

/// Splits leaves that are in no section's payload into units of one run each.
fn runs_of_leaves(leaves: Range<u64>, covered: u64, subset: Subset) -> impl Iterator<Item = Unit> {
    let runs = leaves.start / LEAVES_TAKEN..leaves.end.div_ceil(LEAVES_TAKEN);
    runs.filter(move |&run| subset.has(run)).filter_map(move |run| {
        let first = (run * LEAVES_TAKEN).max(leaves.start);
        let leaves = first..((run + 1) * LEAVES_TAKEN).min(leaves.end);
        let bytes = len_of_leaves(&leaves, covered);
        let end = leaves.start * LEAF_LEN + bytes;
        (!leaves.is_empty()).then_some(Unit { end, bytes, section: None, leaves })
    })
}

/// Bytes of these leaves; the last leaf of a tree may be short.
fn len_of_leaves(leaves: &Range<u64>, covered: u64) -> u64 {
    (leaves.end * LEAF_LEN).min(covered).saturating_sub(leaves.start * LEAF_LEN)
}
