//! Problems as they are found, from any thread, and all that is known of each in the end.
//!
//! A stage that finds something says where it lies and what it is about: a frame, rows of a table,
//! everything. Later stages look up which files that touches and whether parity can bring it back.
//! Only the first [`PROBLEM_COUNT_MAX`] problems are kept; all are counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PROBLEM_COUNT_MAX;

/// Paths named with one problem; further ones are counted.
pub(super) const TOUCHED_PATH_COUNT_MAX: usize = 10;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The structure: "section 4 (frames)", "table entries", "frame 17".
    pub place: String,
    /// Where it lies, from the start of the image, if it lies in one place.
    pub offset: Option<u64>,
    /// Bytes from there on that are in doubt, if that is known.
    pub len: Option<u64>,
    /// What is wrong, with what was expected and found.
    pub what: String,
    /// Which files it touches.
    pub touches: Touches,
    /// What can be done about it.
    pub remedy: Remedy,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at offset {offset}: {}", self.place, self.what),
            None => write!(f, "{}: {}", self.place, self.what),
        }
    }
}

/// The files that a problem touches: their bytes, names or attributes cannot be read, or not all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touches {
    /// Everything that the image holds, as what leads to it is damaged.
    pub everything: bool,
    /// Paths touched, in all snapshots; of a directory whose names are lost, the directory.
    pub path_count: u64,
    /// The first ten of them, from the root of their snapshot, without a leading slash.
    pub paths: Vec<Vec<u8>>,
    /// Names of the snapshots they are in.
    pub snapshots: Vec<Vec<u8>>,
}

/// What can be done about a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Remedy {
    /// Nobody looked: the time was over, or it is not about damage.
    #[default]
    NotSought,
    /// Parity restores it.
    Parity,
    /// There is parity, but more is damaged than it can restore.
    BeyondParity,
    /// There is no parity for it.
    NoParity,
    /// The bytes are what they were when parity was made: it was built or changed like this.
    AsWritten,
    /// It is not damaged, but another image than the one expected.
    OtherImage,
}

impl Remedy {
    /// A word for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSought => "not sought",
            Self::Parity => "parity",
            Self::BeyondParity => "beyond parity",
            Self::NoParity => "no parity",
            Self::AsWritten => "as written",
            Self::OtherImage => "other image",
        }
    }
}

/// What a problem is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Scope {
    /// No file.
    #[default]
    Nothing,
    /// All files.
    Everything,
    /// What a frame holds.
    Frame(u64),
    /// The same, but the frame itself is whole: the one below, which it refers to, is not.
    Through { frame: u64, below: u64 },
    /// Rows of a table that cannot be read.
    Rows(RowScope),
    /// It is another image than the one expected.
    OtherImage,
}

/// Rows `first..end` of the table whose top page is at `top`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowScope {
    pub(super) table: &'static str,
    pub(super) top: u64,
    pub(super) first: u64,
    pub(super) end: u64,
    /// Key of the first row, and of the row behind the last if there is one.
    pub(super) keys: (u64, Option<u64>),
}

/// A problem, and what it is about.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) problem: Problem,
    pub(super) scope: Scope,
}

/// Where problems are gathered, from any thread.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Mutex<Vec<Found>>,
    count: AtomicU64,
}

impl Findings {
    /// A problem that touches no file by itself.
    pub(super) fn add(
        &self,
        place: impl Into<String>,
        offset: Option<u64>,
        what: impl Into<String>,
    ) {
        self.add_about(place, offset.map(|offset| (offset, None)), what, Scope::Nothing);
    }

    /// A problem about something; `range` is its offset and, if known, its length.
    pub(super) fn add_about(
        &self,
        place: impl Into<String>,
        range: Option<(u64, Option<u64>)>,
        what: impl Into<String>,
        scope: Scope,
    ) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(|e| e.into_inner());
        if found.len() < PROBLEM_COUNT_MAX {
            let problem = Problem {
                place: place.into(),
                offset: range.map(|(offset, _)| offset),
                len: range.and_then(|(_, len)| len),
                what: what.into(),
                touches: Touches::default(),
                remedy: Remedy::default(),
            };
            found.push(Found { problem, scope });
        }
    }

    /// All problems, also those not kept.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A stage may stop once nothing it finds would be kept.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= PROBLEM_COUNT_MAX as u64
    }

    /// Takes over what was found apart, behind what is here.
    pub(super) fn append(&self, later: Findings) {
        self.count.fetch_add(later.count(), Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(|e| e.into_inner());
        let room = PROBLEM_COUNT_MAX.saturating_sub(found.len());
        found.extend(later.take().into_iter().take(room));
    }

    /// What was kept so far.
    pub(super) fn take(&self) -> Vec<Found> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(|e| e.into_inner()))
    }
}
