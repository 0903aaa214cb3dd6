//! How work reports its progress, and how the caller cancels it.
//!
//! The methods of [`Progress`] are called from several threads, at most some thousand times a
//! second, and must return at once. This module does not know terminals.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// create: the directories of the source are listed; totals are not known yet.
    Scan,
    /// create: contents are read, and compressed as far as the level allows.
    Read,
    /// create: contents are arranged in the order of the image, with near-copies next to each
    /// other.
    Order,
    /// create: frames are compared with each other and references are chosen.
    Refer,
    /// create: frames that waited for their references are compressed.
    Compress,
    /// create: metadata tables and root are written.
    Tables,
    /// create: the image is flushed to the disk.
    Sync,
    /// create: the image is read back and compared with what was read from the source.
    Verify,
    /// create, append: the image is sent to its store.
    Upload,
    /// check: section headers and sums.
    Sections,
    /// check: pages and rows of all tables, and their consistency.
    Rows,
    /// check: all frames are decoded.
    Frames,
    /// check: the damaged files are looked up.
    Damage,
    /// create, parity, repair: leaves are hashed and parity is computed.
    Parity,
    /// repair: the image is copied and compared with its parity.
    Repair,
    /// extract: the tree is walked and directories are created.
    Plan,
    /// extract: files are written.
    Files,
    /// extract: hard links are created, and directories get their attributes.
    Finish,
}

impl Phase {
    /// Returns a word for messages.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Scan => "scan",
            Phase::Read => "read",
            Phase::Order => "order",
            Phase::Refer => "refer",
            Phase::Compress => "compress",
            Phase::Tables => "tables",
            Phase::Sync => "sync",
            Phase::Verify => "verify",
            Phase::Upload => "upload",
            Phase::Sections => "sections",
            Phase::Rows => "rows",
            Phase::Frames => "frames",
            Phase::Damage => "damage",
            Phase::Parity => "parity",
            Phase::Repair => "repair",
            Phase::Plan => "plan",
            Phase::Files => "files",
            Phase::Finish => "finish",
        }
    }
}

/// Receives increments. Every method has an empty default.
pub trait Progress: Sync {
    /// A phase begins; the counts of the previous phase are complete.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }
    /// More items and bytes were found that this phase will process.
    fn found(&self, items: u64, bytes: u64) {
        let _ = (items, bytes);
    }
    /// More items and bytes were processed in this phase.
    fn done(&self, items: u64, bytes: u64) {
        let _ = (items, bytes);
    }
    /// create: contents may take up to this many bytes of temporary files in this directory, before
    /// any is made; `None` if nobody knows how much the source holds.
    fn temporary(&self, bytes_max: Option<u64>, directory: &Path) {
        let _ = (bytes_max, directory);
    }
    /// create: more plain bytes were compressed, into this number of stored bytes.
    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        let _ = (plain_bytes, stored_bytes);
    }
}

/// Ignores all progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// Cancels work: whatever was given a copy of it ends soon, with an error that says so. All copies
/// are one switch.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Returns a switch that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the work.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once the work was cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns the switch as a flag, for signal handlers and the build pipeline.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}
