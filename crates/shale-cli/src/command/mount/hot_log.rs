//! `-o hotlog=FILE`: the list of files in the order of their first reads, for `shale create --hot`.
//!
//! Each path is listed once, relative to the root of the image. A read costs one lookup in a set of
//! inode numbers. A separate thread finds and writes the paths, and sleeps while there are no new
//! ones. The file is always complete; it lags about one second behind the reads, or up to ten
//! seconds if writing it takes long.
//!
//! Memory: at most [`FILES_MAX`] numbers, [`BYTES_MAX`] bytes of file paths and the same of
//! directory paths, and a copy of the list while it is written. A full list takes no more paths.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use shale::read::{ReadError, Tree};
use shale_fuse::{Flush, LineSink, ReadWatch};

use super::atomic_file::AtomicFile;

/// Limit of files in a list.
const FILES_MAX: usize = 1 << 19;
/// Limit of bytes of their paths.
const BYTES_MAX: usize = 32 << 20;
/// Limit of cached directory paths; a full cache is cleared.
const KNOWN_MAX: usize = 1 << 12;
/// Limit of bytes of a path that is assembled from cached directories.
const DEEP_LEN: usize = 1 << 16;
/// How long new paths wait for more before they are written.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause between two writes is this many times the duration of a write, within the bounds
/// [`INTERVAL`] and [`INTERVAL_MAX`].
const WRITING_PART: u32 = 50;
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The list and the thread that writes it. Dropping it writes the rest.
pub struct HotLog {
    first_reads: Arc<FirstReads>,
    thread: Option<JoinHandle<()>>,
}

impl HotLog {
    /// Begins a list of the first reads of `tree`. An existing file is kept until the first read.
    ///
    /// # Errors
    /// The file cannot be written there, or the thread cannot be started.
    pub fn start(path: &Path, tree: Tree, log: LineSink) -> anyhow::Result<Self> {
        // The list shows what a user reads, so only the owner may read it.
        let file = AtomicFile::new(path, 0o600);
        let file = file.with_context(|| format!("-o hotlog={}", path.display()))?;
        let first_reads = Arc::new(FirstReads::new(FILES_MAX));
        let mut writer = Writer {
            file,
            tree,
            log,
            first_reads: Arc::clone(&first_reads),
            list: List::default(),
            known: HashMap::new(),
            has_reported: false,
        };
        let thread = std::thread::Builder::new().name("hotlog".into());
        let thread = thread.spawn(move || writer.run())?;
        Ok(Self { first_reads, thread: Some(thread) })
    }

    /// Returns the function to call for every read.
    pub fn watch(&self) -> ReadWatch {
        let first_reads = Arc::clone(&self.first_reads);
        Arc::new(move |inode| first_reads.read(inode))
    }

    /// Returns the function that writes the list now.
    pub fn flush(&self) -> Flush {
        let first_reads = Arc::clone(&self.first_reads);
        Arc::new(move || first_reads.flush())
    }
}

impl Drop for HotLog {
    fn drop(&mut self) {
        self.first_reads.is_full.store(true, Relaxed);
        self.first_reads.news().is_over = true;
        self.first_reads.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The inodes that were read, and those of them that are not in the list yet.
struct FirstReads {
    seen: RwLock<HashSet<u64>>,
    /// No more inodes are taken.
    is_full: AtomicBool,
    files_max: usize,
    news: Mutex<News>,
    /// Signalled when there is news, when it is wanted now, and at the end.
    changed: Condvar,
    /// Signalled when all news is written.
    written: Condvar,
}

#[derive(Default)]
struct News {
    /// In the order of first reads.
    inodes: Vec<u64>,
    /// The writer holds inodes that are not written yet.
    is_writing: bool,
    /// The inodes must be written without waiting for more.
    is_wanted: bool,
    is_over: bool,
}

impl FirstReads {
    fn new(files_max: usize) -> Self {
        Self {
            seen: RwLock::default(),
            is_full: AtomicBool::new(false),
            files_max,
            news: Mutex::default(),
            changed: Condvar::new(),
            written: Condvar::new(),
        }
    }

    fn read(&self, inode: u64) {
        if self.is_full.load(Relaxed)
            || self.seen.read().unwrap_or_else(PoisonError::into_inner).contains(&inode)
        {
            return;
        }
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if !seen.insert(inode) {
            return;
        }
        if seen.len() >= self.files_max {
            self.is_full.store(true, Relaxed);
        }
        let mut news = self.news();
        news.inodes.push(inode);
        // With more than one, the writer has been woken already.
        if news.inodes.len() == 1 {
            self.changed.notify_one();
        }
    }

    /// Records that the result of the last [`next`](Self::next) is written.
    fn done(&self) {
        let mut news = self.news();
        news.is_writing = false;
        if news.inodes.is_empty() {
            news.is_wanted = false;
            self.written.notify_all();
        }
    }

    /// Waits until everything read so far is written, at most for [`INTERVAL`].
    fn flush(&self) {
        let mut news = self.news();
        news.is_wanted = !news.inodes.is_empty();
        self.changed.notify_all();
        let waits = |news: &mut News| news.is_writing || !news.inodes.is_empty();
        let _ = self.written.wait_timeout_while(news, INTERVAL, waits);
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for new inodes, and then up to `pause` for more. Returns none at the end.
    fn next(&self, pause: Duration) -> Vec<u64> {
        let waits = |news: &mut News| news.inodes.is_empty() && !news.is_over;
        let news = self.changed.wait_while(self.news(), waits);
        let news = news.unwrap_or_else(PoisonError::into_inner);
        let more =
            self.changed.wait_timeout_while(news, pause, |news| !news.is_over && !news.is_wanted);
        let (mut news, _) = more.unwrap_or_else(PoisonError::into_inner);
        news.is_writing = true;
        std::mem::take(&mut news.inodes)
    }
}

/// The thread that finds paths and writes them.
struct Writer {
    file: AtomicFile,
    tree: Tree,
    log: LineSink,
    first_reads: Arc<FirstReads>,
    list: List,
    /// Cached paths of directories, each with a trailing slash.
    known: HashMap<u64, Vec<u8>>,
    /// An error was reported; further ones are not.
    has_reported: bool,
}

impl Writer {
    fn run(&mut self) {
        let mut pause = INTERVAL;
        loop {
            let inodes = self.first_reads.next(pause);
            if inodes.is_empty() {
                return;
            }
            for inode in inodes {
                self.add(inode);
            }
            let start = Instant::now();
            if let Err(error) = self.file.replace(&self.list.bytes()) {
                // The disk may be full now and have room later.
                self.report(&format!("hotlog {}: {error}", self.file.path().display()));
            }
            self.first_reads.done();
            pause = (start.elapsed() * WRITING_PART).clamp(INTERVAL, INTERVAL_MAX);
        }
    }

    fn add(&mut self, inode: u64) {
        match self.path(inode) {
            Ok(path) if self.list.push(&path, BYTES_MAX) => {}
            Ok(_) => {
                self.first_reads.is_full.store(true, Relaxed);
                self.report(
                    "hotlog: the list is full; files that are first read from now on are not in it",
                );
            }
            Err(error) => self.report(&format!("hotlog: {error}")),
        }
    }

    /// Returns a path of a file, assembled from the cached paths of its directories.
    fn path(&mut self, inode: u64) -> Result<Vec<u8>, ReadError> {
        let (name, directory) = self.tree.name_of(inode)?;
        let mut unknown = Vec::new();
        let mut len = 0;
        let mut at = directory;
        let mut path = Vec::new();
        while at != self.tree.root_inode() {
            if let Some(known) = self.known.get(&at) {
                path.extend_from_slice(known);
                break;
            }
            let (name, above) = self.tree.name_of(at)?;
            len += name.len() + 1;
            if len > DEEP_LEN {
                // Bounded there.
                return self.tree.path_of(inode);
            }
            unknown.push((at, name));
            at = above;
        }
        for (directory, name) in unknown.into_iter().rev() {
            path.extend_from_slice(&name);
            path.push(b'/');
            if path.len() < BYTES_MAX / KNOWN_MAX {
                if self.known.len() >= KNOWN_MAX {
                    self.known.clear();
                }
                self.known.insert(directory, path.clone());
            }
        }
        path.extend_from_slice(&name);
        Ok(path)
    }

    fn report(&mut self, line: &str) {
        if !std::mem::replace(&mut self.has_reported, true) {
            (self.log)(line);
        }
    }
}

/// Paths, each followed by a zero byte.
#[derive(Default)]
struct List {
    paths: Vec<u8>,
    /// A path contains a line end, so line ends cannot separate paths.
    has_line_ends: bool,
}

impl List {
    /// Adds a path; returns false if the list is full.
    fn push(&mut self, path: &[u8], bytes_max: usize) -> bool {
        if self.paths.len() + path.len() >= bytes_max {
            return false;
        }
        self.has_line_ends |= path.contains(&b'\n');
        self.paths.extend_from_slice(path);
        self.paths.push(0);
        true
    }

    /// Returns the list as `--hot` reads it: lines, or paths that end with a zero byte.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.paths.clone();
        if !self.has_line_ends {
            bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'\n');
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_lines_unless_a_name_contains_a_line_end() {
        let mut list = List::default();
        assert!(list.push(b"a/b", 100) && list.push(b"c", 100));
        assert_eq!(list.bytes(), b"a/b\nc\n");
        assert!(list.push(b"d\ne", 100));
        assert_eq!(list.bytes(), b"a/b\0c\0d\ne\0");
    }

    #[test]
    fn a_list_is_bounded_and_has_each_file_once() {
        let mut list = List::default();
        assert!(list.push(b"1234", 10) && list.push(b"1234", 10) && !list.push(b"", 10));
        assert_eq!(list.bytes().len(), 10);
        let first_reads = FirstReads::new(3);
        for inode in [7, 5, 7, 5, 6, 9, 8] {
            first_reads.read(inode);
        }
        assert_eq!(first_reads.next(Duration::ZERO), [7, 5, 6]);
        first_reads.news().is_over = true;
        assert!(first_reads.next(Duration::MAX).is_empty());
    }
}
