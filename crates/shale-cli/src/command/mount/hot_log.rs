//! `-o hotlog=FILE`: which files were read first, as `shale create --hot` takes them.
//!
//! Each path comes once, in the order of first reads, from the root of the image. A reader pays a
//! look into a set of numbers; paths are found and written by a thread of its own, which sleeps
//! while nothing new is read. The file is always whole and at most about a second behind.
//!
//! Memory: at most [`FILES_MAX`] numbers and [`BYTES_MAX`] of paths. A list that is full ends
//! there: what is read first is in it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use shale::read::Tree;
use shale_fuse::{LineSink, ReadWatch};

use super::whole_file::WholeFile;

/// Files in a list.
const FILES_MAX: usize = 1 << 19;
/// Bytes of their paths.
const BYTES_MAX: usize = 32 << 20;
/// How long new paths wait for others before they are written.
const INTERVAL: Duration = Duration::from_secs(1);
/// Writing takes at most one part in so many of the time.
const WRITING_PART: u32 = 50;

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
        let (news, seen) = channel();
        let first_reads = Arc::new(FirstReads {
            seen: RwLock::default(),
            is_full: AtomicBool::new(false),
            files_max: FILES_MAX,
            news,
        });
        let full = Arc::clone(&first_reads);
        let thread = std::thread::Builder::new().name("hotlog".into()).spawn(move || {
            let mut writer = Writer { file, tree, log, full, list: List::default(), said: false };
            writer.run(&seen);
        })?;
        Ok(Self { first_reads, thread: Some(thread) })
    }

    /// What has to be told about every read.
    pub fn watch(&self) -> ReadWatch {
        let first_reads = Arc::clone(&self.first_reads);
        Arc::new(move |inode| first_reads.read(inode))
    }
}

impl Drop for HotLog {
    fn drop(&mut self) {
        self.first_reads.is_full.store(true, Relaxed);
        let _ = self.first_reads.news.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What was read before.
struct FirstReads {
    seen: RwLock<HashSet<u64>>,
    /// Nothing is taken any more.
    is_full: AtomicBool,
    files_max: usize,
    /// Inodes in the order of their first reads; `None` at the end.
    news: Sender<Option<u64>>,
}

impl FirstReads {
    fn read(&self, inode: u64) {
        if self.is_full.load(Relaxed)
            || self.seen.read().unwrap_or_else(PoisonError::into_inner).contains(&inode)
        {
            return;
        }
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.insert(inode) {
            // Under the lock, so that the order is that of the set.
            let _ = self.news.send(Some(inode));
            if seen.len() >= self.files_max {
                self.is_full.store(true, Relaxed);
            }
        }
    }
}

/// The thread that finds paths and writes them.
struct Writer {
    file: WholeFile,
    tree: Tree,
    log: LineSink,
    full: Arc<FirstReads>,
    list: List,
    /// A complaint is told once.
    said: bool,
}

impl Writer {
    fn run(&mut self, seen: &Receiver<Option<u64>>) {
        let mut pause = INTERVAL;
        while let Ok(Some(inode)) = seen.recv() {
            self.add(inode);
            let end = Instant::now() + pause;
            let is_over = loop {
                match seen.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(Some(inode)) => self.add(inode),
                    Ok(None) | Err(RecvTimeoutError::Disconnected) => break true,
                    Err(RecvTimeoutError::Timeout) => break false,
                }
            };
            let start = Instant::now();
            if let Err(error) = self.file.replace(&self.list.bytes()) {
                // A full disk today is no reason to stop for ever.
                self.say(&format!("hotlog {}: {error}", self.file.path().display()));
            }
            if is_over {
                return;
            }
            pause = INTERVAL.max(start.elapsed() * WRITING_PART);
        }
    }

    fn add(&mut self, inode: u64) {
        match self.tree.path_of(inode) {
            Ok(path) if self.list.push(&path, BYTES_MAX) => {}
            Ok(_) => {
                self.full.is_full.store(true, Relaxed);
                self.say("hotlog: the list is full; what is read from now on is not in it");
            }
            Err(error) => self.say(&format!("hotlog: {error}")),
        }
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
        let (news, seen) = channel();
        let first_reads = FirstReads {
            seen: RwLock::default(),
            is_full: AtomicBool::new(false),
            files_max: 3,
            news,
        };
        for inode in [7, 5, 7, 5, 6, 9, 8] {
            first_reads.read(inode);
        }
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [Some(7), Some(5), Some(6)]);
    }
}
