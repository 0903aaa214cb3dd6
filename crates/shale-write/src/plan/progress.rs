//! What the caller is told while a build runs. Calls come from several threads, up to some thousand
//! times a second, and must return at once.

/// What a build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Listing directories. Totals are not known yet.
    Scan,
    /// Reading file contents, and compressing them as far as the level allows.
    Read,
    /// Moving contents into the order in which they are stored.
    Order,
    /// Comparing frames and choosing references.
    Refer,
    /// Compressing the frames that waited for their references.
    Compress,
    /// Writing metadata tables and the root.
    Tables,
}

/// Receives increments. Every method does nothing by default.
pub trait Progress: Sync {
    /// The build enters a phase.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }
    /// The scan found more entries and bytes of file content.
    fn found(&self, entries: u64, bytes: u64) {
        let _ = (entries, bytes);
    }
    /// More entries were taken in, and more bytes of content were read.
    fn read(&self, entries: u64, bytes: u64) {
        let _ = (entries, bytes);
    }
    /// More bytes were compressed: plain bytes in, stored bytes out.
    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        let _ = (plain_bytes, stored_bytes);
    }
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}
