//! What the caller of a check decides.

use std::time::Duration;

use shale_format::Identity;
use shale_host::Cancel;
use shale_read::OffsetChoice;

use super::level::{CheckLevel, Subset};

/// How to check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Where the image begins in the source.
    pub offset: OffsetChoice,
    /// Threads that decode frames, of which at most two read tables; 0 for one per processor.
    pub threads: usize,
    /// Bytes of plain frames that are cached because other frames refer to them.
    pub cache_bytes_max: u64,
    /// How deep the check goes.
    pub level: CheckLevel,
    /// Which part of the bytes and frames to check. Structure and tables are always checked
    /// completely.
    pub subset: Subset,
    /// Start no more bytes or frames after this time; what was left out is counted. Structure and
    /// tables are always checked completely.
    pub time_max: Option<Duration>,
    /// The identity that the image must have.
    pub expect: Option<Identity>,
    /// Ends the check with [`shale_host::Error::Cancelled`].
    pub cancel: Cancel,
}

impl CheckOptions {
    shale_host::setters! {
        offset: OffsetChoice,
        threads: usize,
        cache_bytes_max: u64,
        level: CheckLevel,
        subset: Subset,
        time_max: Option<Duration>,
        expect: Option<Identity>,
        cancel: Cancel,
    }
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            offset: OffsetChoice::Auto,
            threads: 0,
            cache_bytes_max: 256 << 20,
            level: CheckLevel::default(),
            subset: Subset::ALL,
            time_max: None,
            expect: None,
            cancel: Cancel::new(),
        }
    }
}
