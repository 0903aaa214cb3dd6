//! How a directory tree is walked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shale_format::root::TIME_MTIME;
use shale_model::{Amend, LinkId, Select};

/// How a directory tree is walked.
#[derive(Clone)]
pub struct ScanOptions {
    /// Threads that list directories; 0 means as many as the machine offers.
    pub threads: usize,
    /// Identities of files that are left out without a report: the image that is being written.
    pub excluded: Vec<LinkId>,
    /// Do not descend into other file systems. Mount points are packed as empty directories.
    pub one_file_system: bool,
    /// Times to keep, as in [`crate::Options`]. Other times are not held in memory.
    pub times_kept: u8,
    /// Leave out files and directories that `chattr +d` marks as not to be dumped.
    pub no_nodump: bool,
    /// Cancels the walk, as in [`crate::Options`].
    pub cancel: Option<Arc<AtomicBool>>,
    /// Selects entries; all by default. The root is not asked for.
    pub select: Option<Arc<dyn Select>>,
    /// Changes metadata.
    pub amend: Option<Arc<dyn Amend>>,
}

impl std::fmt::Debug for ScanOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanOptions")
            .field("threads", &self.threads)
            .field("excluded", &self.excluded)
            .field("one_file_system", &self.one_file_system)
            .field("times_kept", &self.times_kept)
            .field("no_nodump", &self.no_nodump)
            .finish_non_exhaustive()
    }
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            excluded: Vec::new(),
            one_file_system: false,
            times_kept: TIME_MTIME,
            no_nodump: false,
            cancel: None,
            select: None,
            amend: None,
        }
    }
}
