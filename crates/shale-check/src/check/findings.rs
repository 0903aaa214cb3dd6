//! Problems as the stages find them, from any thread, and everything known about each at the end.
//!
//! A stage that finds a problem says where it is and what it concerns: a frame, rows of a table,
//! everything. Later stages look up which files it touches and whether parity can restore them.
//! Only the first [`PROBLEM_COUNT_MAX`] problems are kept; all are counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Problems kept in a report; more are counted.
pub(super) const PROBLEM_COUNT_MAX: usize = 1_000;
/// Paths kept for one problem; more are counted.
pub(super) const TOUCHED_PATH_COUNT_MAX: usize = 10;

/// One problem of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The structure: "section 4 (frames)", "table entries", "frame 17".
    pub place: String,
    /// Where it begins, from the start of the image, if it has one place.
    pub offset: Option<u64>,
    /// Bytes from there on that are in doubt, if known.
    pub len: Option<u64>,
    /// What is wrong, with the expected and the found value.
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

/// The files that a problem touches: some or all of their bytes, names or attributes cannot be
/// read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Touches {
    /// True if it touches everything in the image, because what leads there is damaged.
    pub everything: bool,
    /// Paths touched, in all snapshots; if the names of a directory are lost, the directory.
    pub path_count: u64,
    /// The first ten of them, from the root of their snapshot, without a leading slash.
    pub paths: Vec<Vec<u8>>,
    /// Names of the snapshots they are in.
    pub snapshots: Vec<Vec<u8>>,
}

/// What can be done about a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Remedy {
    /// Unknown: the time was up, or the problem is not damage.
    #[default]
    NotSought,
    /// Parity restores it.
    Parity,
    /// There is parity, but more is damaged than it can restore.
    BeyondParity,
    /// There is no parity for it.
    NoParity,
    /// The bytes are the same as when the parity was computed: the image was built or changed like
    /// this.
    AsWritten,
    /// The image is not damaged, but it is not the expected one.
    OtherImage,
}

impl Remedy {
    /// A word for machine-readable output.
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

/// What a problem concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Scope {
    /// No file.
    #[default]
    Nothing,
    /// All files.
    Everything,
    /// The content of a frame.
    Frame(u64),
    /// The content of a frame that is intact itself, but refers to a damaged one below.
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
    /// Key of the first row, and of the row after the last, if there is one.
    pub(super) keys: (u64, Option<u64>),
}

/// A problem, and what it concerns.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) problem: Problem,
    pub(super) scope: Scope,
}

/// Collects problems from any thread.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Mutex<Vec<Finding>>,
    count: AtomicU64,
}

impl Findings {
    /// Adds a problem that touches no file by itself.
    pub(super) fn add(
        &self,
        place: impl Into<String>,
        offset: Option<u64>,
        what: impl Into<String>,
    ) {
        self.add_about(place, offset.map(|offset| (offset, None)), what, Scope::Nothing);
    }

    /// Adds a problem that concerns something; `range` is its offset and, if known, its length.
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
            found.push(Finding { problem, scope });
        }
    }

    /// The number of all problems, including those that were not kept.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// True if no further problem would be kept, so that a stage can stop.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= PROBLEM_COUNT_MAX as u64
    }

    /// Appends the problems that another stage collected separately.
    pub(super) fn append(&self, later: Findings) {
        self.count.fetch_add(later.count(), Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(|e| e.into_inner());
        let room = PROBLEM_COUNT_MAX.saturating_sub(found.len());
        found.extend(later.take().into_iter().take(room));
    }

    /// Takes the problems that were kept.
    pub(super) fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(|e| e.into_inner()))
    }
}
