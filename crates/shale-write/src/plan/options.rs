//! Options of a build. Every option has a default.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shale_codec::Settings;
use shale_format::Category;
use shale_format::root::TIME_MTIME;
use shale_model::Problem;

use crate::plan::error::WriteError;
use crate::plan::level::{LEVEL_DEFAULT, ReferenceLimits};
use crate::plan::order::Order;
use crate::plan::rules::FileRules;

/// Options of [`crate::create`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Compression level, 0 to 9, see [`crate::level::LEVELS`].
    pub level: u8,
    /// Number of threads that work at the same time; 0 means as many as the machine offers. Never
    /// changes the image.
    pub threads: usize,
    /// Bytes of memory that the build may use; 0 means [`crate::MEMORY_BYTES_DEFAULT`], or more if
    /// the level needs more. Never changes the image.
    pub memory_bytes_max: u64,
    /// Bytes of memory that the process can have at all, if a limit is known; 0 otherwise. The
    /// default of `memory_bytes_max` stays below. Never changes the image.
    pub memory_bytes_there: u64,
    /// Plain bytes of a frame. The level's by default.
    pub frame_len: Option<u32>,
    /// Codecs and their settings, for one category of data or for all. The level's by default.
    /// Later settings override earlier ones; settings for a category override those for all.
    pub codecs: Vec<(Option<Category>, Settings)>,
    /// Rules that give files at some paths another codec, level or treatment. Contents of rules
    /// with a codec, a level or `lines` are stored after the others, and share no frame with them.
    pub rules: Arc<FileRules>,
    /// The order in which contents are stored. The level's by default.
    pub order: Option<Order>,
    /// Paths, as the source writes them, whose contents are stored before all others, in this
    /// order.
    pub first: Vec<Vec<u8>>,
    /// The listed files are hot: programs wait for them. They go into short frames that decode
    /// quickly, without references, and without LZMA unless `codecs` asks for it.
    pub first_is_hot: bool,
    /// Bounds on references. The level's by default.
    pub references: Option<ReferenceLimits>,
    /// Shortest range that segment dedupe looks for; 0 turns it off. The level's by default.
    pub segment_window_len: Option<u32>,
    /// Store what is in compressed files: deflate streams in gzip, zip, PDF and git files are
    /// rebuilt when they are read. They are not by default.
    pub recompress: Option<bool>,
    /// Let an append note what its frames are like, so that the next one need not decode all. See
    /// [`shale_format::AppendIndex`].
    pub append_index: bool,
    /// The times to keep: `TIME_MTIME` and the other flags of `shale_format::root`, or-ed. Times
    /// that are not kept are stored as the epoch.
    pub times_kept: u8,
    /// Leave out files that cannot be read and report them, instead of failing.
    pub skip_unreadable: bool,
    /// Treat files that change, vanish or are replaced while they are read as unreadable. By
    /// default, what was read is packed, and what vanished is left out; the report names both.
    pub strict: bool,
    /// Name of the snapshot, at most 255 bytes. May be empty.
    pub snapshot_name: Vec<u8>,
    /// A label of the image, recorded in its history. At most 255 bytes without control characters.
    pub label: Option<String>,
    /// Directory for temporary files, which have no name. The system's by default.
    pub temp_dir: Option<PathBuf>,
    /// Set this to true to end the build soon with [`WriteError::Cancelled`].
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: LEVEL_DEFAULT,
            threads: 0,
            memory_bytes_max: 0,
            memory_bytes_there: 0,
            frame_len: None,
            codecs: Vec::new(),
            rules: Arc::default(),
            order: None,
            first: Vec::new(),
            first_is_hot: false,
            references: None,
            segment_window_len: None,
            recompress: None,
            append_index: true,
            times_kept: TIME_MTIME,
            skip_unreadable: false,
            strict: false,
            snapshot_name: Vec::new(),
            label: None,
            temp_dir: None,
            cancel: None,
        }
    }
}

impl Options {
    /// Returns whether a problem of an entry allows no image.
    pub(crate) fn is_fatal(&self, problem: &Problem) -> bool {
        !self.skip_unreadable && (self.strict || !problem.kind.is_change())
    }

    /// Fails if the build was cancelled.
    pub(crate) fn check_cancel(&self) -> Result<(), WriteError> {
        match &self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(WriteError::Cancelled),
            _ => Ok(()),
        }
    }
}
