//! What a caller is told while something runs, and how it stops it.
//!
//! Calls of [`Progress`] come from several threads, some thousand a second at most, and must
//! return at once. Nothing here knows of terminals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// create: directories of the source are listed; totals are not known yet.
    Scan,
    /// create: contents are read, and compressed as far as the level allows.
    Read,
    /// create: contents are laid in the order of the image, near-copies behind each other.
    Order,
    /// create: frames are compared with each other and references chosen.
    Refer,
    /// create: frames that waited for their references are compressed.
    Compress,
    /// create: metadata tables and root are written.
    Tables,
    /// create: the image is brought to the disk.
    Sync,
    /// create: the image is read back and compared with what was read from the source.
    Verify,
    /// check: section headers and sums.
    Sections,
    /// check: pages and rows of all tables, and what holds between them.
    Rows,
    /// check: all frames are decoded.
    Frames,
    /// check: the files that damage hits are looked up.
    Damage,
    /// create, parity, repair: leaves are hashed and parity is computed.
    Parity,
    /// repair: the image is copied, and compared with its parity.
    Repair,
    /// extract: the tree is walked and directories are made.
    Plan,
    /// extract: files are written.
    Files,
    /// extract: hard links are made, and attributes of directories set.
    Finish,
}

impl Phase {
    /// A word for people.
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
    /// A phase begins; counts of the phase before are complete.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }
    /// More items and bytes are now known to be ahead in this phase.
    fn found(&self, items: u64, bytes: u64) {
        let _ = (items, bytes);
    }
    /// More items and bytes are done in this phase.
    fn done(&self, items: u64, bytes: u64) {
        let _ = (items, bytes);
    }
    /// create: more plain bytes were compressed into so many stored ones.
    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        let _ = (plain_bytes, stored_bytes);
    }
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// A switch that ends whatever was given a copy of it, soon, with an error that says so. All
/// copies are one switch.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is not thrown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws the switch.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the switch was thrown.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once the switch was thrown.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// The switch as a flag, for signal handlers and the build pipeline.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// Hands the pipeline's calls on.
pub(crate) struct BuildProgress<'a>(pub(crate) &'a dyn Progress);

impl shale_write::Progress for BuildProgress<'_> {
    fn phase(&self, phase: shale_write::Phase) {
        self.0.phase(match phase {
            shale_write::Phase::Scan => Phase::Scan,
            shale_write::Phase::Read => Phase::Read,
            shale_write::Phase::Order => Phase::Order,
            shale_write::Phase::Refer => Phase::Refer,
            shale_write::Phase::Compress => Phase::Compress,
            shale_write::Phase::Tables => Phase::Tables,
        });
    }

    fn found(&self, entries: u64, bytes: u64) {
        self.0.found(entries, bytes);
    }

    fn read(&self, entries: u64, bytes: u64) {
        self.0.done(entries, bytes);
    }

    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        self.0.compressed(plain_bytes, stored_bytes);
    }
}
