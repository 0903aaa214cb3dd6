//! Passes the progress of the build pipeline on to the caller.

use shale_host::{Phase, Progress};

/// Receives the calls of the pipeline and passes them on.
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
