//! Decodes every frame once, in parallel, and compares it with both of its sums.
//!
//! Workers take frames in order. A frame that others refer to stays in a cache until the last of
//! them is decoded, or until the cache exceeds its budget; then it is decoded again when needed. A
//! worker that needs a frame which another worker is decoding waits for it. Depth decreases along
//! references, so workers never wait in a circle.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use shale_codec::{Codec, Decoder, Filter, xxh3_64};
use shale_format::limits::{FRAME_PLAIN_LEN_MAX, PREFIX_LEN_MAX};
use shale_format::schema::{frames, references};
use shale_format::{FrameRecord, Root};
use shale_host::{thread_count, threads};
use shale_table::{Cursor, Table};

use super::bytes::Bytes;
use super::context::Context;
use super::findings::Scope;
use super::level::CheckLevel;
use super::report::{Checked, Left};
use super::rows::{Shared, record};
use super::store::{PageFault, Store, TablePages};
use crate::error::Error;

/// Frames that a worker takes at once. With few, neighbours are decoded at about the same time and
/// find each other's references in the cache. With one, workers would compete for the counter.
const FRAMES_TAKEN: u64 = 8;
/// Frames that belong to the same part when a part of the image is checked, as neighbours share
/// references. A multiple of [`FRAMES_TAKEN`].
pub(super) const FRAMES_IN_RUN: u64 = 64;

/// Checks the frames of the subset and returns those that do not decode. Also checks the bytes
/// before each frame, so that they are read once.
pub(super) fn check(
    context: &Context<'_>,
    root: &Root,
    shared: &Shared<'_>,
    bytes: &Bytes<'_>,
    checked: &mut Checked,
    left: &mut Left,
) -> Result<BTreeSet<u64>, Error> {
    let Some(frame_count) = shared.frame_count else {
        let what = "no frame was checked, as their table is damaged";
        context.findings.add("table frames", None, what);
        return Ok(BTreeSet::new());
    };
    // Frames cannot overlap (checked with their table), so this is bounded by the image.
    let Ok(len) = usize::try_from(frame_count) else {
        return Err(Error::Memory { frame_count });
    };
    let mut uses: Vec<AtomicU32> = Vec::new();
    if uses.try_reserve_exact(len).is_err() {
        return Err(Error::Memory { frame_count });
    }
    uses.resize_with(len, AtomicU32::default);
    if let Err(fault) = count_uses(context, root, &uses) {
        context.findings.add("table references", None, fault.0);
    }
    let work = Work {
        context,
        root,
        bytes,
        frame_count,
        next: AtomicU64::new(0),
        uses,
        cache: Mutex::new(Cache::default()),
        arrived: Condvar::new(),
        damaged: Mutex::new(BTreeSet::new()),
        stop: AtomicBool::new(false),
        frames: AtomicU64::new(0),
        left: AtomicU64::new(0),
        stored_bytes: AtomicU64::new(0),
        plain_bytes: AtomicU64::new(0),
        decoded: AtomicU64::new(0),
    };
    let subset = context.options.subset;
    let runs = frame_count.div_ceil(FRAMES_IN_RUN);
    let share = |total: u64| match runs {
        0 => 0,
        _ => (u128::from(total) * u128::from(subset.count_of(runs)) / u128::from(runs)) as u64,
    };
    context.progress.found(share(frame_count), share(plain_total(context, root)));
    let threads = thread_count(context.options.threads);
    let results = threads::run(threads, || work.run());
    context.check_cancel()?;
    for fault in results.into_iter().filter_map(Result::err) {
        context.findings.add("table frames", None, fault.0);
    }
    left.frames += work.left.into_inner();
    checked.frames += work.frames.into_inner();
    checked.stored_bytes += work.stored_bytes.into_inner();
    checked.plain_bytes += work.plain_bytes.into_inner();
    checked.frames_decoded += work.decoded.into_inner();
    Ok(work.damaged.into_inner().unwrap_or_else(|e| e.into_inner()))
}

fn plain_total(context: &Context<'_>, root: &Root) -> u64 {
    let pages = TablePages::new(context.store, &root.frames).ok();
    pages
        .as_ref()
        .and_then(|pages| Table::new(root.frames, &frames::SCHEMA, pages).ok())
        .and_then(|table| table.u64(frames::PLAIN_START, table.row_count().checked_sub(1)?).ok())
        .unwrap_or_default()
}

/// Counts how often each frame is referred to.
fn count_uses(context: &Context<'_>, root: &Root, uses: &[AtomicU32]) -> Result<(), PageFault> {
    let pages = TablePages::new(context.store, &root.references)?;
    let table = Table::new(root.references, &references::SCHEMA, &pages)?;
    let mut rows = table.cursor();
    for row in 0..table.row_count() {
        let frame = rows.u64(references::FRAME, row)?;
        if let Some(uses) = usize::try_from(frame).ok().and_then(|frame| uses.get(frame)) {
            uses.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

struct Work<'a> {
    context: &'a Context<'a>,
    root: &'a Root,
    bytes: &'a Bytes<'a>,
    frame_count: u64,
    next: AtomicU64,
    /// References to each frame that are not used yet.
    uses: Vec<AtomicU32>,
    cache: Mutex<Cache>,
    arrived: Condvar,
    damaged: Mutex<BTreeSet<u64>>,
    stop: AtomicBool,
    frames: AtomicU64,
    /// Frames that no worker took.
    left: AtomicU64,
    stored_bytes: AtomicU64,
    plain_bytes: AtomicU64,
    decoded: AtomicU64,
}

#[derive(Default)]
struct Cache {
    slots: HashMap<u64, Slot>,
    /// Cached frames in the order in which they were added; some may be removed already.
    order: VecDeque<u64>,
    bytes: u64,
    /// Frames that were decoded before their turn and need no decoding in it.
    ahead: BTreeSet<u64>,
}

enum Slot {
    /// A worker is decoding it.
    Busy,
    Kept(Arc<Vec<u8>>),
}

/// The plain bytes of a frame, or `Err` if it has none.
type Plain = Result<Arc<Vec<u8>>, ()>;

/// What a worker owns.
struct Tools<'t, 's> {
    records: Cursor<'t, TablePages<'s>>,
    references: Option<Cursor<'t, TablePages<'s>>>,
    decoder: Decoder,
    stored: Vec<u8>,
}

/// A frame that is being decoded. It is dropped before it is finished only by a panic. Workers that
/// wait for the frame then go on, so that the panic is reported when all have ended.
struct Decoding<'w, 'a> {
    work: &'w Work<'a>,
    frame: u64,
}

impl Drop for Decoding<'_, '_> {
    fn drop(&mut self) {
        self.work.stop.store(true, Ordering::Relaxed);
        self.work.lock().slots.remove(&self.frame);
        self.work.arrived.notify_all();
    }
}

impl Work<'_> {
    fn run(&self) -> Result<(), PageFault> {
        let store: &Store = self.context.store;
        let frame_pages = TablePages::new(store, &self.root.frames)?;
        let frame_table = Table::new(self.root.frames, &frames::SCHEMA, &frame_pages)?;
        let reference_pages = TablePages::new(store, &self.root.references)?;
        let reference_table =
            Table::new(self.root.references, &references::SCHEMA, &reference_pages)?;
        let mut tools = Tools {
            records: frame_table.cursor(),
            references: (reference_table.row_count() > 0).then(|| reference_table.cursor()),
            decoder: Decoder::new(),
            stored: Vec::new(),
        };
        loop {
            let first = self.next.fetch_add(FRAMES_TAKEN, Ordering::Relaxed);
            if first >= self.frame_count || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if self.context.check_cancel().is_err() {
                self.stop.store(true, Ordering::Relaxed);
                return Ok(());
            }
            if !self.context.options.subset.has(first / FRAMES_IN_RUN) {
                continue;
            }
            let end = (first + FRAMES_TAKEN).min(self.frame_count);
            if self.context.is_over() {
                self.left.fetch_add(end - first, Ordering::Relaxed);
                continue;
            }
            if let Ok(last) = record(&mut tools.records, end - 1) {
                self.bytes.run_to(last.stored_offset.saturating_add(last.stored_len));
            }
            for frame in first..end {
                let done = self.lock().ahead.remove(&frame);
                let record = match record(&mut tools.records, frame) {
                    Ok(record) => record,
                    Err(fault) => {
                        self.damage(frame, None, fault.0);
                        continue;
                    }
                };
                if !done && !self.is_damaged(frame) {
                    if self.context.options.level >= CheckLevel::Content {
                        let _ = self.get(frame, true, &mut tools);
                    } else if let Err(what) = self.read_stored(&record, &mut tools.stored) {
                        self.damage(frame, Some(&record), what);
                    }
                }
                self.frames.fetch_add(1, Ordering::Relaxed);
                self.stored_bytes.fetch_add(record.stored_len, Ordering::Relaxed);
                self.context.progress.done(1, record.plain_len);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn is_damaged(&self, frame: u64) -> bool {
        self.damaged.lock().unwrap_or_else(|e| e.into_inner()).contains(&frame)
    }

    fn damage(&self, frame: u64, record: Option<&FrameRecord>, what: String) {
        self.damage_about(frame, record, what, Scope::Frame(frame));
    }

    fn damage_about(&self, frame: u64, record: Option<&FrameRecord>, what: String, scope: Scope) {
        let is_new = self.damaged.lock().unwrap_or_else(|e| e.into_inner()).insert(frame);
        if is_new {
            let range = record.map(|record| (record.stored_offset, Some(record.stored_len)));
            self.context.findings.add_about(format!("frame {frame}"), range, what, scope);
        }
    }

    /// Returns the plain bytes of a frame: cached, decoded by another worker, or decoded here.
    /// `is_turn` is false if the frame is decoded only because another refers to it.
    fn get(&self, frame: u64, is_turn: bool, tools: &mut Tools<'_, '_>) -> Plain {
        {
            let mut cache = self.lock();
            loop {
                match cache.slots.get(&frame) {
                    Some(Slot::Kept(plain)) => return Ok(Arc::clone(plain)),
                    Some(Slot::Busy) => {
                        cache = self.arrived.wait(cache).unwrap_or_else(|e| e.into_inner());
                    }
                    None => break,
                }
            }
            if self.is_damaged(frame) {
                return Err(());
            }
            cache.slots.insert(frame, Slot::Busy);
        }
        let decoding = Decoding { work: self, frame };
        let plain = self.decode(frame, tools);
        std::mem::forget(decoding);
        let mut cache = self.lock();
        cache.slots.remove(&frame);
        if !is_turn && frame >= self.next.load(Ordering::Relaxed) {
            cache.ahead.insert(frame);
        }
        if let Ok(plain) = &plain
            && self.uses(frame) > 0
        {
            cache.keep(frame, plain, self.context.options.cache_bytes_max);
        }
        drop(cache);
        self.arrived.notify_all();
        plain
    }

    fn uses(&self, frame: u64) -> u32 {
        let uses = usize::try_from(frame).ok().and_then(|frame| self.uses.get(frame));
        uses.map_or(0, |uses| uses.load(Ordering::Relaxed))
    }

    /// Counts one use of a frame; after the last the frame leaves the cache.
    fn used(&self, frame: u64) {
        let Some(uses) = usize::try_from(frame).ok().and_then(|frame| self.uses.get(frame)) else {
            return;
        };
        let before = uses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if before == Ok(1) {
            self.lock().forget(frame);
        }
    }

    fn decode(&self, frame: u64, tools: &mut Tools<'_, '_>) -> Plain {
        let record =
            record(&mut tools.records, frame).map_err(|fault| self.damage(frame, None, fault.0))?;
        let mut below = Vec::new();
        if record.reference_count > 0 {
            for row in 0..u64::from(record.reference_count) {
                let reference = match &mut tools.references {
                    Some(rows) => rows.u64(references::FRAME, record.reference_first + row),
                    None => Err(PageFault("there is no table of references".to_owned())),
                };
                match reference {
                    Ok(reference) => below.push(reference),
                    Err(fault) => {
                        self.damage(frame, None, fault.0);
                        return Err(());
                    }
                }
            }
        }
        let prefix = self.prefix(frame, &record, &below, tools);
        for &reference in &below {
            self.used(reference);
        }
        let result = prefix.and_then(|prefix| {
            self.decode_plain(&record, &prefix, tools).map_err(|what| (what, None))
        });
        match result {
            Ok(plain) => {
                self.plain_bytes.fetch_add(record.plain_len, Ordering::Relaxed);
                Ok(Arc::new(plain))
            }
            Err((what, below)) => {
                let scope =
                    below.map_or(Scope::Frame(frame), |below| Scope::Through { frame, below });
                self.damage_about(frame, Some(&record), what, scope);
                Err(())
            }
        }
    }

    /// Returns the plain bytes of all references, or why there are none and which reference is to
    /// blame.
    fn prefix(
        &self,
        frame: u64,
        record: &FrameRecord,
        below: &[u64],
        tools: &mut Tools<'_, '_>,
    ) -> Result<Vec<u8>, (String, Option<u64>)> {
        let mut prefix = Vec::new();
        for &reference in below {
            // The tables stage checks this too, but recursion must not depend on another stage.
            let found = super::rows::record(&mut tools.records, reference);
            let found = found.map_err(|fault| (fault.0, None))?;
            if found.depth >= record.depth || reference == frame {
                let what = format!("it refers to frame {reference}, which is not below it");
                return Err((what, None));
            }
            let plain = self.get(reference, false, tools).map_err(|()| {
                let what = format!("it refers to frame {reference}, which is damaged");
                (what, Some(reference))
            })?;
            if (prefix.len() + plain.len()) as u64 > PREFIX_LEN_MAX {
                return Err(("its prefix is longer than 128 MiB".to_owned(), None));
            }
            let from = prefix.len();
            prefix.extend_from_slice(&plain);
            // Each reference is filtered separately, with the filter of the frame that uses it.
            if let Some(filter) = Filter::from_id(record.filter) {
                filter.apply(&mut prefix[from..]);
            }
        }
        Ok(prefix)
    }

    fn read_stored(&self, record: &FrameRecord, stored: &mut Vec<u8>) -> Result<(), String> {
        self.context.store.read(record.stored_offset, record.stored_len, stored)?;
        let sum = xxh3_64(stored);
        if sum != record.stored_sum {
            return Err(format!(
                "stored bytes are damaged: sum {:016x} expected, {sum:016x} found",
                record.stored_sum
            ));
        }
        Ok(())
    }

    fn decode_plain(
        &self,
        record: &FrameRecord,
        prefix: &[u8],
        tools: &mut Tools<'_, '_>,
    ) -> Result<Vec<u8>, String> {
        if record.stored_len > FRAME_PLAIN_LEN_MAX || record.plain_len > FRAME_PLAIN_LEN_MAX {
            return Err("it is longer than 64 MiB".to_owned());
        }
        self.read_stored(record, &mut tools.stored)?;
        let codec = Codec::from_id(record.codec)
            .ok_or_else(|| format!("codec {} is unknown; use a newer shale", record.codec))?;
        let filter = Filter::from_id(record.filter)
            .ok_or_else(|| format!("filter {} is unknown; use a newer shale", record.filter))?;
        let mut plain = Vec::new();
        let plain_len = record.plain_len as usize;
        tools
            .decoder
            .decode_filtered((codec, filter), prefix, &tools.stored, plain_len, &mut plain)
            .map_err(|error| error.to_string())?;
        self.decoded.fetch_add(1, Ordering::Relaxed);
        let sum = xxh3_64(&plain);
        if sum != record.plain_sum {
            return Err(format!(
                "plain bytes are wrong: sum {:016x} expected, {sum:016x} found",
                record.plain_sum
            ));
        }
        Ok(plain)
    }
}

impl Cache {
    fn keep(&mut self, frame: u64, plain: &Arc<Vec<u8>>, bytes_max: u64) {
        self.bytes += plain.len() as u64;
        self.slots.insert(frame, Slot::Kept(Arc::clone(plain)));
        self.order.push_back(frame);
        while self.bytes > bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.forget(oldest);
        }
    }

    fn forget(&mut self, frame: u64) {
        if let Some(Slot::Kept(plain)) = self.slots.get(&frame) {
            self.bytes = self.bytes.saturating_sub(plain.len() as u64);
            self.slots.remove(&frame);
        }
        // The queue keeps stale numbers; without this it would grow with every frame.
        if self.order.len() > 2 * self.slots.len() + 64 {
            let slots = &self.slots;
            self.order.retain(|frame| matches!(slots.get(frame), Some(Slot::Kept(_))));
        }
    }
}
