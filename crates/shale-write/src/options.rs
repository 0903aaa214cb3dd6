//! What the caller of a build decides. Everything has a default.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shale_codec::Settings;
use shale_format::Category;
use shale_format::root::TIME_MTIME;

use crate::WriteError;
use crate::laying::Order;
use crate::levels::{LEVEL_DEFAULT, ReferenceLimits};

/// Options of [`crate::create`].
#[derive(Debug, Clone)]
pub struct Options {
    /// 0 to 9, see [`crate::levels::LEVELS`].
    pub level: u8,
    /// Threads that work at the same time; 0: as many as the machine offers. Never changes the
    /// image.
    pub threads: usize,
    /// Bytes of memory the build may use; 0: see [`crate::budget`]. Never changes the image.
    pub memory_bytes_max: u64,
    /// Plain bytes of a frame, instead of the level's.
    pub frame_len: Option<u32>,
    /// Codecs and their settings, instead of the level's: for one category of data, or for all.
    /// What is said later counts; what is said for a category counts before what is said for all.
    pub codecs: Vec<(Option<Category>, Settings)>,
    /// The order in which contents are laid, instead of the level's.
    pub order: Option<Order>,
    /// Paths, as the source writes them, whose contents are laid before all others, in this order.
    pub first: Vec<Vec<u8>>,
    /// Programs wait for these: they go into frames that decode quickly, short ones without
    /// references and without LZMA unless asked for.
    pub first_is_hot: bool,
    /// Bounds on references, instead of the level's.
    pub references: Option<ReferenceLimits>,
    /// Shortest range that segment dedupe looks for, instead of the level's; 0 turns it off.
    pub segment_window_len: Option<u32>,
    /// Which times are kept: `TIME_MTIME` and its siblings of `shale_format::root`, or-ed. Times
    /// not kept are stored as the epoch.
    pub times_kept: u8,
    /// Pack without the files that cannot be read and report them, instead of failing.
    pub skip_unreadable: bool,
    /// Name of the snapshot, at most 255 bytes; may be empty.
    pub snapshot_name: Vec<u8>,
    /// Where temporary files go; `None`: the system's directory for them. They have no name.
    pub temp_dir: Option<PathBuf>,
    /// Set to true by anyone to end the build soon with [`WriteError::Cancelled`].
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: LEVEL_DEFAULT,
            threads: 0,
            memory_bytes_max: 0,
            frame_len: None,
            codecs: Vec::new(),
            order: None,
            first: Vec::new(),
            first_is_hot: false,
            references: None,
            segment_window_len: None,
            times_kept: TIME_MTIME,
            skip_unreadable: false,
            snapshot_name: Vec::new(),
            temp_dir: None,
            cancel: None,
        }
    }
}

impl Options {
    /// Fails if the build was cancelled.
    pub(crate) fn check_cancel(&self) -> Result<(), WriteError> {
        match &self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(WriteError::Cancelled),
            _ => Ok(()),
        }
    }
}
