//! Gives small files to the kernel before it asks for them (FUSE_NOTIFY_STORE).
//!
//! A read of a small file costs the reader and the driver several times as much as putting the file
//! into the page cache. So once a program reads the files that it lists, the driver stores files
//! that are likely to be read next before it answers a request, while the program waits. It stores
//! only whole files, at their exact length, whose bytes are decoded and verified already, and only
//! files that the kernel knows.
//!
//! A store waits for a page that a read has locked, until that read is answered. Therefore one
//! thread at most stores at a time, and only if another one waits for requests: that one answers
//! the read. The storing thread holds no lock that another thread waits for.

mod listed; // what was listed, and what to push

use crate::view::{Attributes, MODE_FILE, MODE_TYPE_MASK, View};
use listed::{Listed, SmallFile};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files longer than this are not pushed, whatever the options say. The kernel reads ahead about as
/// much, so longer ones cost few requests for their size.
const PUSH_LEN_MAX: u64 = 128 << 10;
/// Files of a guess that are not ready, after which the rest is not tried.
const UNREADY_MAX: u32 = 4;

/// Where files are pushed to: the kernel, for one mount.
pub(crate) trait Sink: Send {
    /// Stores the bytes of a whole file. Does nothing if the kernel does not know the inode.
    ///
    /// # Errors
    /// The kernel refuses the bytes, or the mount is gone.
    fn store(&self, inode: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns whether a thread waits for requests, apart from the calling one.
    fn is_served_meanwhile(&self) -> bool;
}

/// Small files: of a listing, in its order, or to push.
#[derive(Default)]
pub(crate) struct SmallFiles(Vec<SmallFile>);

/// Pushes files of one mount.
pub(crate) struct Push {
    len_max: u64,
    /// Locked only for as long as it takes to look something up.
    listed: Mutex<Listed>,
    /// Locked while files are stored. No thread waits for it.
    storing: Mutex<Storing>,
    files_pushed: AtomicU64,
    bytes_pushed: AtomicU64,
    pushed_files_read: AtomicU64,
}

#[derive(Default)]
struct Storing {
    /// None before the mount works and after it has ended.
    sink: Option<Box<dyn Sink>>,
    buffer: Vec<u8>,
}

impl Push {
    /// Pushes files of at most `len_max` bytes; none if that is 0.
    pub(crate) fn new(len_max: u64) -> Self {
        Self {
            len_max: len_max.min(PUSH_LEN_MAX),
            listed: Mutex::default(),
            storing: Mutex::default(),
            files_pushed: AtomicU64::new(0),
            bytes_pushed: AtomicU64::new(0),
            pushed_files_read: AtomicU64::new(0),
        }
    }

    pub(crate) fn len_max(&self) -> u64 {
        self.len_max
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.len_max > 0
    }

    /// Begins or ends pushing into `sink`.
    pub(crate) fn connect(&self, sink: Option<Box<dyn Sink>>) {
        let mut storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        *storing = Storing { sink, buffer: Vec::new() };
    }

    /// Adds an entry of a listing to `files`, if it is a small file.
    pub(crate) fn collect(&self, entry: &Attributes, files: &mut SmallFiles) {
        if (1..=self.len_max).contains(&entry.len) && entry.mode & MODE_TYPE_MASK == MODE_FILE {
            files.0.push(SmallFile { inode: entry.inode, len: entry.len as u32 });
        }
    }

    /// Notes files of a listing that the kernel will know once it has taken in the answer.
    pub(crate) fn listed(&self, directory: u64, files: &SmallFiles) {
        if !files.0.is_empty() {
            self.lock().add(directory, &files.0);
        }
    }

    /// Notes that the kernel asks for what comes after the last entry of `directory`, so it knows
    /// all entries. May push some of them.
    pub(crate) fn ended(&self, directory: u64, view: &dyn View) {
        let mut wanted = SmallFiles::default();
        if self.is_enabled() {
            self.lock().ended(directory, &mut wanted.0);
        }
        self.push(wanted, view);
    }

    /// Notes a read that is about to be answered, so that this file is not pushed meanwhile.
    /// Returns the files to push before the answer is sent.
    pub(crate) fn reading(&self, inode: u64, offset: u64) -> SmallFiles {
        let mut wanted = SmallFiles::default();
        if self.is_enabled() && self.lock().read(inode, offset, &mut wanted.0) {
            self.pushed_files_read.fetch_add(1, Relaxed);
        }
        wanted
    }

    /// Notes that the kernel no longer knows an inode.
    pub(crate) fn forget(&self, inode: u64) {
        if self.is_enabled() {
            self.lock().forget(inode);
        }
    }

    /// Frees the memory of what was listed.
    pub(crate) fn rest(&self) {
        *self.lock() = Listed::default();
    }

    /// Returns counters by name, for statistics.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("files_pushed", self.files_pushed.load(Relaxed)),
            ("bytes_pushed", self.bytes_pushed.load(Relaxed)),
            ("pushed_files_read", self.pushed_files_read.load(Relaxed)),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes those of `wanted` whose bytes are ready.
    pub(crate) fn push(&self, wanted: SmallFiles, view: &dyn View) {
        let SmallFiles(mut wanted) = wanted;
        if wanted.is_empty() {
            return;
        }
        let wanted_count = wanted.len();
        // If another thread stores, this one does not wait for it.
        if let Ok(mut storing) = self.storing.try_lock() {
            self.store(&mut wanted, view, &mut storing);
        }
        if !wanted.is_empty() {
            self.lock().not_pushed(&wanted, wanted.len() == wanted_count);
        }
    }

    /// Stores files of `wanted`, and leaves the others in it.
    fn store(&self, wanted: &mut Vec<SmallFile>, view: &dyn View, storing: &mut Storing) {
        let Storing { sink, buffer } = storing;
        let Some(sink) = sink else { return };
        if !sink.is_served_meanwhile() {
            return;
        }
        let mut unready_left = UNREADY_MAX;
        let mut is_refused = false;
        wanted.retain(|file| {
            if unready_left == 0 || is_refused {
                return true;
            }
            buffer.resize(file.len as usize, 0);
            // Whoever reads the file meets the same error, and gets it reported.
            if !view.read_ready(file.inode, buffer).unwrap_or(false) {
                unready_left -= 1;
                return true;
            }
            is_refused = sink.store(file.inode, buffer).is_err();
            if !is_refused {
                self.files_pushed.fetch_add(1, Relaxed);
                self.bytes_pushed.fetch_add(buffer.len() as u64, Relaxed);
            }
            is_refused
        });
    }
}
