//! `-o hotlog=FILE`: which files were read first, as `shale create --hot` takes them.
//!
//! Each path comes once, in the order of first reads, from the root of the image. A reader pays a
//! look into a set of numbers; paths are found and written by a thread of its own, which sleeps
//! while nothing new is read. The file is always whole, and about a second behind, at most ten
//! where writing takes long.
//!
//! Memory: at most [`FILES_MAX`] numbers, [`BYTES_MAX`] of paths and as much again of those of
//! directories, and a copy of the list while it is written. A list that is full ends
//! there: what is read first is in it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use shale::read::{ReadError, Tree};
use shale_fuse::{Flush, LineSink, ReadWatch};

use super::whole_file::WholeFile;

/// Files in a list.
const FILES_MAX: usize = 1 << 19;
/// Bytes of their paths.
const BYTES_MAX: usize = 32 << 20;
/// Directories whose paths are remembered; after that many it begins again.
const KNOWN_MAX: usize = 1 << 12;
/// Bytes of a path that are put together here.
const DEEP_LEN: usize = 1 << 16;
/// How long new paths wait for others before they are written.
const INTERVAL: Duration = Duration::from_secs(1);
/// Writing takes one part in so many of the time, where that does not make them wait too long.
const WRITING_PART: u32 = 50;
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The list and the thread that writes it; dropping it writes what is left.
pub struct HotLog {
    first_reads: Arc<FirstReads>,
    thread: Option<JoinHandle<()>>,
}

impl HotLog {
    /// Begins a list of the first reads of `tree`. What was in the file stays there until something
    /// is read.
    pub fn start(path: &Path, tree: Tree, log: LineSink) -> anyhow::Result<Self> {
        // A list of what somebody reads is for him alone.
        let file = WholeFile::new(path, 0o600);
        let file = file.with_context(|| format!("-o hotlog={}", path.display()))?;
        let first_reads = Arc::new(FirstReads::new(FILES_MAX));
        let mut writer = Writer {
            file,
            tree,
            log,
            first_reads: Arc::clone(&first_reads),
            list: List::default(),
            known: HashMap::new(),
            said: false,
        };
        let thread = std::thread::Builder::new().name("hotlog".into());
        let thread = thread.spawn(move || writer.run())?;
        Ok(Self { first_reads, thread: Some(thread) })
    }

    /// What has to be told about every read.
    pub fn watch(&self) -> ReadWatch {
        let first_reads = Arc::clone(&self.first_reads);
        Arc::new(move |inode| first_reads.read(inode))
    }

    /// What has the list written now.
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

/// What was read before, and what of it is not listed yet.
struct FirstReads {
    seen: RwLock<HashSet<u64>>,
    /// Nothing is taken any more.
    is_full: AtomicBool,
    files_max: usize,
    news: Mutex<News>,
    /// There are news again, or they are wanted now, or no more will come.
    changed: Condvar,
    /// All news are written.
    written: Condvar,
}

#[derive(Default)]
struct News {
    /// In the order of their first reads.
    inodes: Vec<u64>,
    /// The writer has some of them that are not written yet.
    is_writing: bool,
    /// They are not to wait for others.
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
        // The writer sleeps on while there is more than one: it comes by itself.
        if news.inodes.len() == 1 {
            self.changed.notify_one();
        }
    }

    /// What [`next`](Self::next) gave last is written.
    fn done(&self) {
        let mut news = self.news();
        news.is_writing = false;
        if news.inodes.is_empty() {
            news.is_wanted = false;
            self.written.notify_all();
        }
    }

    /// Waits until all is written that was read up to now, but not for long.
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

    /// Waits for something new, and then for `pause` for more of it. Nothing at the end.
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
    file: WholeFile,
    tree: Tree,
    log: LineSink,
    first_reads: Arc<FirstReads>,
    list: List,
    /// Paths of directories, each with a slash behind it, as files lie together.
    known: HashMap<u64, Vec<u8>>,
    /// A complaint is told once.
    said: bool,
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
                // A full disk today is no reason to stop for ever.
                self.say(&format!("hotlog {}: {error}", self.file.path().display()));
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
                self.say("hotlog: the list is full; what is read from now on is not in it");
            }
            Err(error) => self.say(&format!("hotlog: {error}")),
        }
    }

    /// A path of a file, put together from what is known of the directories above it.
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
                // There it has an end.
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

    fn say(&mut self, line: &str) {
        if !std::mem::replace(&mut self.said, true) {
            (self.log)(line);
        }
    }
}

/// Paths, each with a zero byte behind it.
#[derive(Default)]
struct List {
    paths: Vec<u8>,
    /// A path has a line end in it, so lines cannot be told apart by them.
    has_line_ends: bool,
}

impl List {
    /// Adds a path; false if the list is full.
    fn push(&mut self, path: &[u8], bytes_max: usize) -> bool {
        if self.paths.len() + path.len() >= bytes_max {
            return false;
        }
        self.has_line_ends |= path.contains(&b'\n');
        self.paths.extend_from_slice(path);
        self.paths.push(0);
        true
    }

    /// As `--hot` reads them: lines, or ended by zero bytes where lines would not do.
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
    fn a_list_has_lines_unless_a_name_has_some() {
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
