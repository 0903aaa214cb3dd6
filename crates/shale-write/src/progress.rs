//! What the caller is told while a build runs. Calls come from several threads, some thousand
//! times a second at most, and must return at once.

/// What a build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Directories are listed; totals are not known yet.
    Scan,
    /// File contents are read, and compressed as far as the level allows.
    Read,
    /// Contents are laid in kin order, see [`crate::kin`].
    Order,
    /// Frames are compared with each other and references chosen.
    Refer,
    /// Frames that were waiting for their references are compressed.
    Compress,
    /// Metadata tables and root are written.
    Tables,
}

/// Receives increments. Every method has an empty default.
pub trait Progress: Sync {
    /// The build enters a phase.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }
    /// More entries and bytes of file content were found by the scan.
    fn found(&self, entries: u64, bytes: u64) {
        let _ = (entries, bytes);
    }
    /// More entries were taken in, and more bytes of content read.
    fn read(&self, entries: u64, bytes: u64) {
        let _ = (entries, bytes);
    }
    /// More bytes were compressed: plain bytes in, stored bytes out.
    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        let _ = (plain_bytes, stored_bytes);
    }
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}
