//! How an image is opened, and which snapshot of it.

use std::sync::Arc;

use shale_format::{Identity, Snapshot};
use shale_model::utc_period;

use crate::error::{Fault, ReadError};
use crate::frames::cache::FrameCache;
use crate::frames::workers::Workers;
use crate::storage::open::OffsetChoice;
use crate::trust::heal::Log;

/// Which snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SnapshotChoice {
    /// The newest snapshot, which is the last.
    #[default]
    Newest,
    /// The snapshot with this number; 0 is the oldest.
    Index(usize),
    /// The snapshot with this name; if several have it, the newest of them.
    Name(Vec<u8>),
    /// The snapshot that a user names: `latest`; `#NUMBER`, counted from 0; a name; or, if no
    /// snapshot has this name, a time in UTC ([`utc_period`]).
    ///
    /// A time means the newest snapshot that is not after it. The time of a snapshot is its name,
    /// if that is one: of `2026-11-22` the first second, while a wanted `2026-11-22` lasts until
    /// the end of the day. Snapshots with other names are not considered.
    Word(Vec<u8>),
}

impl SnapshotChoice {
    /// Finds the snapshot among all snapshots of an image, oldest first.
    ///
    /// # Errors
    /// [`Fault::NoSnapshot`], which lists the snapshots.
    pub(crate) fn index(&self, snapshots: &[Snapshot]) -> Result<usize, ReadError> {
        let newest = snapshots.len().checked_sub(1);
        let named = |name: &[u8]| snapshots.iter().rposition(|snapshot| snapshot.name == name);
        let at = |index: usize| (index < snapshots.len()).then_some(index);
        let (found, wanted) = match self {
            Self::Newest => (newest, "latest".to_owned()),
            Self::Index(index) => (at(*index), format!("#{index}")),
            Self::Name(name) => (named(name), format!("named `{}`", name.escape_ascii())),
            Self::Word(word) => {
                let shown = word.escape_ascii();
                if word == b"latest" {
                    (newest, shown.to_string())
                } else if let Some(number) = snapshot_number(word) {
                    (number.and_then(at), shown.to_string())
                } else if let Some(index) = named(word) {
                    (Some(index), String::new())
                } else if let Some(period) = utc_period(word) {
                    (not_after(snapshots, *period.end()), format!("at or before {shown} (UTC)"))
                } else {
                    (None, format!("named `{shown}`"))
                }
            }
        };
        found.ok_or_else(|| {
            let snapshot_count = snapshots.len() as u64;
            Fault::NoSnapshot { wanted, snapshot_count, names: listed(snapshots) }.into()
        })
    }
}

/// Parses `#NUMBER`. Returns `Some(None)` for a number that is too large for any snapshot.
fn snapshot_number(word: &[u8]) -> Option<Option<usize>> {
    let digits = word.strip_prefix(b"#")?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()))
}

/// Returns the snapshot with the latest time that is at most `sec`; of several, the newest.
fn not_after(snapshots: &[Snapshot], sec: i64) -> Option<usize> {
    let timed = snapshots.iter().enumerate().filter_map(|(index, snapshot)| {
        let start = *utc_period(&snapshot.name)?.start();
        (start <= sec).then_some((start, index))
    });
    timed.max().map(|(_, index)| index)
}

/// Lists snapshots for an error: all of a few, else the first and the last ones.
fn listed(snapshots: &[Snapshot]) -> String {
    const SHOWN: usize = 12;
    let show = |(index, snapshot): (usize, &Snapshot)| match snapshot.name.is_empty() {
        true => format!("#{index}"),
        false => format!("#{index} `{}`", snapshot.name.escape_ascii()),
    };
    let all = || snapshots.iter().enumerate();
    if snapshots.len() <= SHOWN {
        return all().map(show).collect::<Vec<_>>().join(", ");
    }
    let mut names: Vec<String> = all().take(SHOWN / 2).map(show).collect();
    names.push("...".to_owned());
    names.extend(all().skip(snapshots.len() - SHOWN / 2).map(show));
    names.join(", ")
}

/// How an image is opened, and how much memory it may use.
///
/// ```
/// use shale_read::{FrameCache, Options};
///
/// // Two images that share one cache of 64 MiB.
/// let cache = FrameCache::new(64 << 20);
/// let options = Options::default().cache(cache).page_cache_bytes_max(16 << 20);
/// let both = [options.clone(), options];
/// # drop(both);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where the image begins. Default: [`OffsetChoice::Auto`].
    pub offset: OffsetChoice,
    /// A frame cache shared with other images. Default: one of its own.
    pub cache: Option<Arc<FrameCache>>,
    /// Bytes of the image's own frame cache, if it has one. Default: 256 MiB.
    pub cache_bytes_max: u64,
    /// Bytes of the image's cache of table pages. Default: 64 MiB.
    pub page_cache_bytes_max: u64,
    /// Most plain bytes that reading one frame may decode, with its references and theirs. Default:
    /// 512 MiB, far above what the writer allows; a hostile image could otherwise make one read
    /// take hours.
    pub read_bytes_max: u64,
    /// Threads that decode beside the reading threads. Default: none, so nothing is decoded ahead.
    pub workers: Option<Arc<Workers>>,
    /// Bytes decoded ahead of a sequential reader; 0 disables it. Default: 4 MiB.
    pub prefetch_bytes_max: u64,
    /// Opens only the image with this identity, and verifies every byte that is used against it,
    /// whoever made the image and whatever happened to it on the way. Default: any image.
    pub expect: Option<Identity>,
    /// Repairs damage while reading, in memory, if the image has parity. Default: true.
    pub repair: bool,
    /// Bytes of repaired leaves that are kept. With fewer, a read may have to repair a leaf again;
    /// it still gets all the bytes it needs. Default: 256 MiB.
    pub repaired_bytes_max: u64,
    /// Receives a line for each repair. Default: none.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            offset: OffsetChoice::Auto,
            cache: None,
            cache_bytes_max: 256 << 20,
            page_cache_bytes_max: 64 << 20,
            read_bytes_max: 512 << 20,
            workers: None,
            prefetch_bytes_max: 4 << 20,
            expect: None,
            repair: true,
            repaired_bytes_max: 256 << 20,
            log: None,
        }
    }
}

impl Options {
    /// Sets [`Options::offset`].
    #[must_use]
    pub fn offset(self, offset: OffsetChoice) -> Self {
        Self { offset, ..self }
    }

    /// Sets [`Options::cache`].
    #[must_use]
    pub fn cache(self, cache: Arc<FrameCache>) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// Sets [`Options::cache_bytes_max`].
    #[must_use]
    pub fn cache_bytes_max(self, cache_bytes_max: u64) -> Self {
        Self { cache_bytes_max, ..self }
    }

    /// Sets [`Options::page_cache_bytes_max`].
    #[must_use]
    pub fn page_cache_bytes_max(self, page_cache_bytes_max: u64) -> Self {
        Self { page_cache_bytes_max, ..self }
    }

    /// Sets [`Options::read_bytes_max`].
    #[must_use]
    pub fn read_bytes_max(self, read_bytes_max: u64) -> Self {
        Self { read_bytes_max, ..self }
    }

    /// Sets [`Options::workers`].
    #[must_use]
    pub fn workers(self, workers: Arc<Workers>) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Sets [`Options::prefetch_bytes_max`].
    #[must_use]
    pub fn prefetch_bytes_max(self, prefetch_bytes_max: u64) -> Self {
        Self { prefetch_bytes_max, ..self }
    }

    /// Sets [`Options::expect`].
    #[must_use]
    pub fn expect(self, identity: impl Into<Option<Identity>>) -> Self {
        Self { expect: identity.into(), ..self }
    }

    /// Sets [`Options::repair`].
    #[must_use]
    pub fn repair(self, repair: bool) -> Self {
        Self { repair, ..self }
    }

    /// Sets [`Options::repaired_bytes_max`].
    #[must_use]
    pub fn repaired_bytes_max(self, repaired_bytes_max: u64) -> Self {
        Self { repaired_bytes_max, ..self }
    }

    /// Sets [`Options::log`].
    #[must_use]
    pub fn log(self, log: Log) -> Self {
        Self { log: Some(log), ..self }
    }
}
