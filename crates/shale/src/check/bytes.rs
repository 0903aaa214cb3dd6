//! Every byte against the sums of sections and the hashes of leaves, by several threads.
//!
//! The work is cut into units in the order of the image. Threads that decode frames take the units
//! that end before their frames first, so that the bytes come from the disk once and are hashed,
//! summed and decoded while they are in memory; what is left is done in the end.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use shale_codec::Xxh3;
use shale_codec::merkle::leaf_hash;
use shale_format::SectionHeader;
use shale_format::merkle::LEAF_LEN;

use super::findings::Scope;
use super::identity::Tree;
use super::sections::{Layout, is_bulk, section_place};
use super::{Checked, Context, Left};
use crate::threads::{self, thread_count};

/// Bytes summed at once.
const CHUNK_LEN: u64 = 1 << 20;
/// Leaves of a unit: a MiB.
pub(super) const LEAVES_TAKEN: u64 = 16;
/// Runs of damaged leaves reported one by one.
const NAMED_MAX: usize = 20;

/// A piece of work.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// Sum of a section, by its number.
    Section(usize),
    /// Leaves from this one on.
    Leaves(u64),
}

/// All of it.
pub(super) struct Bytes<'a> {
    context: &'a Context<'a>,
    layout: &'a Layout,
    tree: Option<&'a Tree>,
    /// Offsets of the last bytes and units, in the order of the image.
    units: Vec<(u64, Unit)>,
    next: AtomicUsize,
    leaves: AtomicU64,
    damaged_leaves: Mutex<BTreeSet<u64>>,
    /// Sections whose sum was begun and not finished.
    left_sections: AtomicU64,
}

impl<'a> Bytes<'a> {
    /// The sections whose sums were not compared yet, and the leaves of the tree; of both, those of
    /// the subset.
    pub(super) fn new(
        context: &'a Context<'a>,
        layout: &'a Layout,
        tree: Option<&'a Tree>,
    ) -> Self {
        let subset = context.options.subset;
        let mut units = Vec::new();
        for (index, section) in layout.sections.iter().enumerate() {
            if is_bulk(section) && subset.has(index as u64) {
                units.push((section.end(), Unit::Section(index)));
            }
        }
        let leaf_count = tree.map_or(0, Tree::leaf_count);
        for run in 0..leaf_count.div_ceil(LEAVES_TAKEN) {
            if subset.has(run) {
                let first = run * LEAVES_TAKEN;
                let end = (first + LEAVES_TAKEN).min(leaf_count) * LEAF_LEN;
                units.push((end, Unit::Leaves(first)));
            }
        }
        units.sort_by_key(|&(end, unit)| (end, matches!(unit, Unit::Leaves(_))));
        Self {
            context,
            layout,
            tree,
            units,
            next: AtomicUsize::new(0),
            leaves: AtomicU64::new(0),
            damaged_leaves: Mutex::default(),
            left_sections: AtomicU64::new(0),
        }
    }

    /// Bytes that will be read.
    pub(super) fn total(&self) -> u64 {
        self.units.iter().map(|&(_, unit)| self.unit_len(unit)).sum()
    }

    fn unit_len(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Section(index) => self.layout.sections.get(index).map_or(0, |s| s.stored_len),
            Unit::Leaves(first) => self.leaves_of(first).1,
        }
    }

    /// Number and bytes of the leaves of a unit.
    fn leaves_of(&self, first: u64) -> (u64, u64) {
        let covered = self.tree.map_or(0, |tree| tree.head.covered_len);
        let len = covered.saturating_sub(first * LEAF_LEN).min(LEAVES_TAKEN * LEAF_LEN);
        (len.div_ceil(LEAF_LEN), len)
    }

    /// Does the units that end at `end` or before and that nobody took so far.
    pub(super) fn run_to(&self, end: u64) {
        let mut buf = Vec::new();
        loop {
            let at = self.next.load(Ordering::Relaxed);
            let Some(&(unit_end, unit)) = self.units.get(at) else { return };
            if unit_end > end || self.context.is_over() {
                return;
            }
            let taken =
                self.next.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                self.run(unit, &mut buf);
            }
        }
    }

    /// Does all units that are left, with all threads, and reports what they found.
    pub(super) fn finish(&self, checked: &mut Checked, left: &mut Left) {
        let threads = thread_count(self.context.options.threads);
        threads::run(threads, || self.run_to(u64::MAX));
        let done = self.next.load(Ordering::Relaxed).min(self.units.len());
        for &(_, unit) in &self.units[done..] {
            match unit {
                Unit::Section(_) => left.sections += 1,
                Unit::Leaves(first) => left.leaves += self.leaves_of(first).0,
            }
        }
        left.sections += self.left_sections.load(Ordering::Relaxed);
        checked.leaves += self.leaves.load(Ordering::Relaxed);
        self.report_leaves();
    }

    fn run(&self, unit: Unit, buf: &mut Vec<u8>) {
        match unit {
            Unit::Section(index) => {
                if let Some(section) = self.layout.sections.get(index)
                    && !check_payload(self.context, index, section, buf)
                {
                    self.left_sections.fetch_add(1, Ordering::Relaxed);
                }
            }
            Unit::Leaves(first) => self.run_leaves(first, buf),
        }
        self.context.progress.done(0, self.unit_len(unit));
    }

    fn run_leaves(&self, first: u64, buf: &mut Vec<u8>) {
        let Some(tree) = self.tree else { return };
        let (count, len) = self.leaves_of(first);
        let mut damaged = Vec::new();
        // What cannot be read in one go is read leaf by leaf: only the bad one is damaged.
        let all = self.context.store.read(first * LEAF_LEN, len, buf).is_ok();
        if !all {
            buf.clear();
        }
        let mut one = Vec::new();
        for index in 0..count {
            let leaf = first + index;
            let from = (index * LEAF_LEN) as usize;
            let leaf_len = (len - index * LEAF_LEN).min(LEAF_LEN) as usize;
            let bytes = match buf.get(from..from + leaf_len) {
                Some(bytes) => Some(bytes),
                None => {
                    let read = self.context.store.read(leaf * LEAF_LEN, leaf_len as u64, &mut one);
                    read.is_ok().then_some(one.as_slice())
                }
            };
            if bytes.map(leaf_hash).as_ref() != tree.hash_of(leaf) {
                damaged.push(leaf);
            }
        }
        self.leaves.fetch_add(count, Ordering::Relaxed);
        if !damaged.is_empty() {
            self.damaged_leaves.lock().unwrap_or_else(|e| e.into_inner()).extend(damaged);
        }
    }

    /// Leaves that lie side by side are one problem.
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

/// Compares the payload of a section with its sum. Says whether there was time to.
pub(super) fn check_payload(
    context: &Context<'_>,
    index: usize,
    section: &SectionHeader,
    buf: &mut Vec<u8>,
) -> bool {
    let mut sum = Xxh3::new();
    let mut at = section.payload_offset();
    while at < section.end() {
        if context.is_over() {
            return false;
        }
        let len = (section.end() - at).min(CHUNK_LEN);
        if let Err(what) = context.store.read(at, len, buf) {
            let range = Some((at, Some(len)));
            let place = section_place(index, section);
            context.findings.add_about(place, range, what, Scope::Nothing);
            return true;
        }
        sum.update(buf);
        at += len;
    }
    let sum = sum.sum_64();
    if sum != section.payload_sum {
        let range = Some((section.payload_offset(), Some(section.stored_len)));
        let what = format!(
            "payload is damaged: sum {:016x} expected, {sum:016x} found",
            section.payload_sum
        );
        context.findings.add_about(section_place(index, section), range, what, Scope::Nothing);
    }
    true
}
