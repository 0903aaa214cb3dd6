//! Many files at once: read in the order in which they are stored, by threads that go ahead of
//! Python.
//!
//! The ranges are sorted by where the image stores them and cut into batches. The bytes objects of
//! a batch are made empty, and threads decode into them, each a few megabytes further; so a byte is
//! copied once, and a frame that holds many files is decoded about once. While Python works on one
//! batch, the next ones are filled.
//!
//! A source that Python reads needs the interpreter's lock for it. Its threads work only while
//! Python waits for them: there may be no interpreter later.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::prelude::*;
use shale::read::{Image, ReadError, Tree, Unit};

use crate::bytes::{Blank, Room};
use crate::failure::read_failure;

/// Bytes of a batch, unless one file has more.
const BATCH_BYTES: u64 = 8 << 20;
/// The same for a source that Python reads: threads work on one batch at a time.
const BATCH_BYTES_PYTHON: u64 = 64 << 20;
/// Files of a batch at most.
const BATCH_FILES: usize = 4096;
/// Batches that are filled ahead of Python.
const BATCHES_AHEAD: usize = 3;
/// A thread reads this many bytes at once, or to the end of the frame that it is in: two threads in
/// one frame would wait for each other.
const PORTION_BYTES: u64 = 512 << 10;
/// From this many bytes on, a portion ends where a frame ends.
const PORTION_BYTES_MIN: u64 = 256 << 10;
/// Threads at most.
const THREADS_MAX: usize = 64;

/// A range of a file that is wanted.
struct Wanted {
    /// Where its content is stored.
    place: u64,
    content: u64,
    offset: u64,
    len: u64,
    /// Number in the caller's list.
    index: usize,
    inode: u64,
    /// Its part of all cuts.
    cuts: Range<usize>,
}

/// A part of a range whose bytes come from one frame or chunk, or from anywhere.
#[derive(Clone, Copy)]
struct Cut {
    len: u64,
    unit: Option<Unit>,
}

/// Ranges of files that are being read: an iterator over batches, each a list of (number, bytes),
/// or (number, exception) where a file cannot be read.
#[pyclass(frozen)]
pub(crate) struct Bulk {
    image: Arc<Image>,
    team: Team,
    /// Batches that may be filled while Python does not wait.
    ahead: usize,
    batch_bytes: u64,
    cuts: Vec<Cut>,
    state: Mutex<State>,
}

struct State {
    /// What no batch holds yet, sorted by place.
    wanted: std::vec::IntoIter<Wanted>,
    started: VecDeque<Batch>,
}

/// Files that Python gets together.
struct Batch {
    files: Vec<File>,
    work: Arc<Work>,
}

struct File {
    index: usize,
    /// The object for its bytes, or the error of making it.
    bytes: PyResult<Blank>,
}

/// What is left to do of a batch.
#[derive(Default)]
struct Work {
    state: Mutex<WorkState>,
    done: Condvar,
}

#[derive(Default)]
struct WorkState {
    portions_left: usize,
    /// Places in the batch, and why these files cannot be read.
    failed: Vec<(usize, ReadError)>,
}

/// What a thread reads at once.
struct Portion {
    image: Arc<Image>,
    work: Arc<Work>,
    parts: Vec<Part>,
}

/// A part of a file, and where it goes.
struct Part {
    at: usize,
    inode: u64,
    content: u64,
    offset: u64,
    room: Room,
}

impl Bulk {
    /// Begins to read `ranges`, each (inode, offset, length), with `threads` threads, of which
    /// Python's own is one while it waits. `is_python` says that the source needs the interpreter.
    ///
    /// # Errors
    /// An inode is not a regular file, or its attributes cannot be read.
    pub(crate) fn new(
        tree: &Tree,
        ranges: &[(u64, u64, u64)],
        threads: usize,
        is_python: bool,
    ) -> Result<Self, ReadError> {
        let image = Arc::clone(tree.image());
        let mut wanted = Vec::with_capacity(ranges.len());
        let mut cuts = Vec::with_capacity(ranges.len());
        // One thread waits for no other, and a source that Python reads is slow to tell.
        let is_cut = !is_python && threads > 1;
        for (index, &(inode, offset, len)) in ranges.iter().enumerate() {
            let of = tree.attributes(inode)?;
            let Some(content) = of.content() else {
                tree.read(inode, offset, &mut [])?; // Says what is wrong with it.
                continue;
            };
            let len = len.min(of.size.saturating_sub(offset));
            // An order and nothing else: whoever reads it meets the damage.
            let place = image.content_place(content).unwrap_or(u64::MAX);
            let first_cut = cuts.len();
            add_cuts(&mut cuts, &image, content, offset..offset + len, is_cut);
            let cuts = first_cut..cuts.len();
            wanted.push(Wanted { place, content, offset, len, index, inode, cuts });
        }
        wanted.sort_unstable_by_key(|it| (it.place, it.content, it.offset, it.index));
        let ahead = if is_python || threads < 2 { 0 } else { BATCHES_AHEAD };
        Ok(Self {
            image,
            team: Team::new(threads.clamp(1, THREADS_MAX) - 1),
            ahead,
            cuts,
            batch_bytes: if is_python { BATCH_BYTES_PYTHON } else { BATCH_BYTES },
            state: Mutex::new(State { wanted: wanted.into_iter(), started: VecDeque::new() }),
        })
    }

    /// Starts batches as far ahead as is allowed, and returns the oldest one.
    fn next(&self, py: Python<'_>) -> Option<Batch> {
        // Nothing here gives the interpreter's lock away, so this one is free soon.
        let mut state = lock(&self.state);
        while state.started.len() <= self.ahead {
            let Some(batch) = self.start(py, &mut state.wanted) else { break };
            state.started.push_back(batch);
        }
        state.started.pop_front()
    }

    /// Makes the bytes objects of the next batch, and has them filled.
    fn start(&self, py: Python<'_>, wanted: &mut std::vec::IntoIter<Wanted>) -> Option<Batch> {
        let (mut files, mut portions) = (Vec::new(), Vec::new());
        let (mut parts, mut part_bytes, mut batch_bytes) = (Vec::new(), 0, 0);
        let mut last_unit = None;
        let work = Arc::new(Work::default());
        let portion = |parts: &mut Vec<Part>| Portion {
            image: Arc::clone(&self.image),
            work: Arc::clone(&work),
            parts: std::mem::take(parts),
        };
        while let Some(next) = wanted.as_slice().first() {
            let is_full = files.len() == BATCH_FILES || batch_bytes + next.len > self.batch_bytes;
            if is_full && !files.is_empty() {
                break;
            }
            let Some(Wanted { content, offset, len, index, inode, cuts, .. }) = wanted.next()
            else {
                break;
            };
            batch_bytes = batch_bytes.saturating_add(len);
            let mut bytes = Blank::new(py, len);
            if let Ok(blank) = &mut bytes {
                let mut done = 0;
                for &Cut { len, unit } in &self.cuts[cuts] {
                    let is_next = unit.is_some() && unit != last_unit;
                    if part_bytes >= PORTION_BYTES || is_next && part_bytes >= PORTION_BYTES_MIN {
                        portions.push(portion(&mut parts));
                        part_bytes = 0;
                    }
                    let room = blank.room(len as usize);
                    let at = files.len();
                    parts.push(Part { at, inode, content, offset: offset + done, room });
                    done += len;
                    part_bytes += len;
                    last_unit = unit.or(last_unit);
                }
            }
            files.push(File { index, bytes });
        }
        if !parts.is_empty() {
            portions.push(portion(&mut parts));
        }
        if files.is_empty() {
            return None;
        }
        lock(&work.state).portions_left = portions.len();
        self.team.add(portions);
        Some(Batch { files, work })
    }
}

/// Adds the parts of a range to `cuts`: one for each frame or chunk in turn if `is_cut` and as far
/// as the image tells, else of equal length. Damage is met by those who read.
fn add_cuts(cuts: &mut Vec<Cut>, image: &Image, content: u64, range: Range<u64>, is_cut: bool) {
    let first = cuts.len();
    let mut done = range.start;
    let pieces = if is_cut { image.pieces(content, range.clone()).ok() } else { None };
    for piece in pieces.into_iter().flatten().map_while(Result::ok) {
        let unit = piece.kind.unit().map(|(unit, _)| unit);
        done += piece.len;
        match cuts[first..].last_mut() {
            Some(last) if unit.is_some() && last.unit == unit => last.len += piece.len,
            _ if unit.is_some() => cuts.push(Cut { len: piece.len, unit }),
            _ => add_equal(cuts, piece.len),
        }
    }
    add_equal(cuts, range.end.saturating_sub(done));
}

/// Adds parts of equal length, whose bytes may come from anywhere.
fn add_equal(cuts: &mut Vec<Cut>, mut len: u64) {
    while len > 0 {
        let step = len.min(PORTION_BYTES);
        cuts.push(Cut { len: step, unit: None });
        len -= step;
    }
}

/// What became of the ranges of a batch: bytes or exceptions, by number.
type Results<'py> = Vec<(usize, Bound<'py, PyAny>)>;

#[pymethods]
impl Bulk {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// The next batch.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Results<'py>>> {
        let Some(batch) = self.next(py) else { return Ok(None) };
        py.detach(|| self.team.help_until_done(&batch.work));
        let failed = std::mem::take(&mut lock(&batch.work.state).failed);
        let mut failures: HashMap<usize, ReadError> = failed.into_iter().collect();
        let result = |(at, file): (usize, File)| {
            let found = match (failures.remove(&at), file.bytes) {
                (Some(error), _) => Err(read_failure(py, error)),
                (None, Err(error)) => Err(error),
                (None, Ok(blank)) => blank.finish(py),
            };
            let found = match found {
                Ok(bytes) => bytes.into_any(),
                Err(error) => error.into_value(py).into_bound(py).into_any(),
            };
            (file.index, found)
        };
        Ok(Some(batch.files.into_iter().enumerate().map(result).collect()))
    }
}

impl Portion {
    fn read(mut self) {
        for part in std::mem::take(&mut self.parts) {
            let Part { at, inode, content, offset, mut room } = part;
            let range = offset..offset + room.len() as u64;
            let read = self.image.visit_content(content, range, |bytes| room.append(bytes));
            if let Err(error) = read {
                let error = error.at(format!("file inode {inode}"));
                lock(&self.work.state).failed.push((at, error));
            }
        }
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let mut state = lock(&self.work.state);
        state.portions_left -= 1;
        if state.portions_left == 0 {
            self.work.done.notify_all();
        }
    }
}
/// Threads that read portions. They end when the [`Bulk`] is dropped.
struct Team {
    shared: Arc<Shared>,
    threads_max: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    portions: VecDeque<Portion>,
    threads: usize,
    is_closed: bool,
}

impl Team {
    fn new(threads_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max }
    }

    fn add(&self, portions: Vec<Portion>) {
        let mut queue = lock(&self.shared.queue);
        queue.portions.extend(portions);
        while queue.threads < self.threads_max.min(queue.portions.len()) {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("shale-bulk".into());
            if thread.spawn(move || shared.work()).is_err() {
                break; // Whoever waits does the work.
            }
            queue.threads += 1;
        }
        drop(queue);
        self.shared.wake.notify_all();
    }

    /// Reads portions, those of later batches too, until `work` is done.
    fn help_until_done(&self, work: &Work) {
        loop {
            if lock(&work.state).portions_left == 0 {
                return;
            }
            let next = lock(&self.shared.queue).portions.pop_front();
            match next {
                Some(portion) => portion.read(),
                // All of this batch is being read by others.
                None => {
                    let state = lock(&work.state);
                    let is_busy = |state: &mut WorkState| state.portions_left > 0;
                    drop(
                        work.done
                            .wait_while(state, is_busy)
                            .unwrap_or_else(PoisonError::into_inner),
                    );
                }
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.portions);
        drop(queue);
        drop(left);
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(portion) = queue.portions.pop_front() {
                drop(queue);
                // A panic is a bug, but must not make Python wait for ever.
                let _ = catch_unwind(AssertUnwindSafe(|| portion.read()));
                queue = lock(&self.queue);
            } else if queue.is_closed {
                return;
            } else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A panic leaves none of these states half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
