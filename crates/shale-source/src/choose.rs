//! Which entries of the inputs are packed: by rules, by a list, by kind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shale_format::InodeKind;
use shale_model::{EntrySource, Metadata, Problem, Select, SourceEntry, SourceError, Timestamp};

use crate::caches::Caches;
use crate::git::GitRules;
use crate::join::join;
use crate::share::Share;
use shale_model::pattern::Rules;

/// Which entries are packed; all by default.
#[derive(Debug, Clone, Default)]
pub struct Choose {
    /// Filter rules, matched against paths in the image.
    pub rules: Arc<Rules>,
    /// If set, only these paths in the image are packed, with the directories that lead to them.
    pub list: Option<Arc<Listed>>,
    /// If set, only this share of the paths is packed; other builds pack the others.
    pub share: Option<Arc<Share>>,
    /// Leave out block and character devices.
    pub no_devices: bool,
    /// Leave out pipes.
    pub no_fifos: bool,
    /// Leave out sockets.
    pub no_sockets: bool,
    /// Leave out directories that contain nothing, or only such directories.
    pub no_empty_directories: bool,
    /// Leave out entries that the `.gitignore` files of directory trees name; not below links.
    pub git_ignore: bool,
    /// Leave out what lies in directories of caches that have a `CACHEDIR.TAG`, except the tag; in
    /// directory trees, not below links.
    pub no_caches: bool,
    /// Leave out what `chattr +d` marks as not to be dumped, in directory trees.
    pub no_nodump: bool,
    /// Leave out regular files that are longer.
    pub len_max: Option<u64>,
    /// Leave out everything but directories that was modified before.
    pub newer: Option<Timestamp>,
    /// Records every decision. Entries below a directory that is left out are not asked for.
    pub record: Option<Arc<Record>>,
}

/// Paths by which input is chosen.
#[derive(Debug, Default)]
pub struct Listed {
    /// For each path, whether it was listed itself, and whether it was found.
    paths: HashMap<Vec<u8>, (bool, AtomicBool)>,
}

/// Decisions, in the order in which they were made.
pub type Record = Mutex<Vec<Decision>>;

/// What happens to one path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision {
    /// Path in the image.
    pub path: Vec<u8>,
    /// It is a directory.
    pub is_directory: bool,
    /// It is packed.
    pub is_taken: bool,
    /// The rule that decided, or another reason; empty if nothing excluded the entry.
    pub reason: Vec<u8>,
}

impl Choose {
    /// Packs only these paths. Each is relative to the root of the image.
    pub fn set_list<'p>(&mut self, paths: impl IntoIterator<Item = &'p [u8]>) {
        let mut listed = Listed::default();
        for path in paths {
            let names = path.split(|&byte| byte == b'/');
            let names: Vec<&[u8]> =
                names.filter(|name| !name.is_empty() && *name != b".").collect();
            for end in 1..=names.len() {
                let place = listed.paths.entry(names[..end].join(&b'/'));
                place.or_insert_with(|| (false, AtomicBool::new(false))).0 |= end == names.len();
            }
        }
        self.list = Some(Arc::new(listed));
    }

    /// Returns the selection for an input at `prefix`, if anything is left out.
    pub(crate) fn select(
        &self,
        prefix: &[u8],
        git: Option<Arc<GitRules>>,
        caches: Option<Caches>,
    ) -> Option<Arc<dyn Select>> {
        let is_needed = !self.rules.is_empty()
            || self.list.is_some()
            || self.share.is_some()
            || self.no_devices
            || self.no_fifos
            || self.no_sockets
            || git.is_some()
            || caches.is_some()
            || self.is_by_metadata()
            || self.record.is_some();
        is_needed.then(|| {
            let chosen = Chosen { choose: self.clone(), prefix: prefix.to_vec(), git, caches };
            Arc::new(chosen) as Arc<dyn Select>
        })
    }

    /// Returns the number of listed paths that were not found, and the first of them.
    pub(crate) fn missing(&self) -> Option<(usize, String)> {
        let list = self.list.as_ref()?;
        let unmet =
            list.paths.iter().filter(|(_, (asked, met))| *asked && !met.load(Ordering::Relaxed));
        let mut unmet: Vec<&Vec<u8>> = unmet.map(|(path, _)| path).collect();
        unmet.sort_unstable();
        unmet.first().map(|first| (unmet.len(), first.escape_ascii().to_string()))
    }

    /// Returns whether metadata decide what is packed.
    pub(crate) fn is_by_metadata(&self) -> bool {
        self.len_max.is_some() || self.newer.is_some()
    }

    /// Returns why an entry with these metadata is left out, if it is.
    fn refuses(&self, metadata: &Metadata) -> Option<String> {
        let is_long = |max| metadata.kind == InodeKind::File && metadata.len > max;
        let is_old = |than| metadata.kind != InodeKind::Directory && metadata.mtime < than;
        if let Some(max) = self.len_max.filter(|max| is_long(*max)) {
            return Some(format!("it is larger than {max} bytes"));
        }
        self.newer.is_some_and(is_old).then(|| "it is older than what is packed".to_owned())
    }

    /// True if the entry at this path of the image is packed.
    pub(crate) fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        self.decide(path, kind).0
    }

    /// Decides whether an entry is packed, and why.
    fn decide(&self, path: &[u8], kind: InodeKind) -> (bool, &[u8]) {
        let is_left_out = match kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => self.no_devices,
            InodeKind::Fifo => self.no_fifos,
            InodeKind::Socket => self.no_sockets,
            _ => false,
        };
        if is_left_out {
            return (false, b"its kind is left out");
        }
        if self.share.as_ref().is_some_and(|share| !share.takes(path, kind)) {
            return (false, b"it is in another share");
        }
        if let Some(list) = &self.list {
            match list.paths.get(path) {
                None => return (false, b"it is not in the list"),
                Some((asked, met)) => {
                    met.store(true, Ordering::Relaxed);
                    if !asked && kind != InodeKind::Directory {
                        return (false, b"it is not in the list");
                    }
                }
            }
        }
        let (takes, rule) = self.rules.decide(path, kind == InodeKind::Directory);
        (takes, rule.unwrap_or_default())
    }
}

struct Chosen {
    choose: Choose,
    prefix: Vec<u8>,
    git: Option<Arc<GitRules>>,
    caches: Option<Caches>,
}

impl Select for Chosen {
    fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        let is_directory = kind == InodeKind::Directory;
        let mut ignored = self.git.as_ref().and_then(|git| git.ignores(path, is_directory));
        if self.caches.as_ref().is_some_and(|caches| caches.contain(path)) {
            ignored.get_or_insert_with(|| b"it is in the directory of a cache".to_vec());
        }
        let path = join(&self.prefix, path);
        // Rules are tested in any case: those that never match are reported.
        let (is_taken, reason) = self.choose.decide(&path, kind);
        let is_taken = is_taken && ignored.is_none();
        if let Some(record) = &self.choose.record {
            let reason = ignored.unwrap_or_else(|| reason.to_vec());
            let decision = Decision { path, is_directory, is_taken, reason };
            record.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
        }
        is_taken
    }

    fn takes_metadata(&self, path: &[u8], metadata: &Metadata) -> bool {
        let Some(reason) = self.choose.refuses(metadata) else { return true };
        if let Some(record) = &self.choose.record {
            let path = join(&self.prefix, path);
            let mut decisions = record.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(decision) = decisions.iter_mut().rev().find(|known| known.path == path) {
                decision.is_taken = false;
                decision.reason = reason.into_bytes();
            }
        }
        false
    }
}

/// A source without the entries that `select` refuses by their metadata. For sources that ask only
/// for paths.
pub(crate) struct ByMetadata {
    pub(crate) source: Box<dyn EntrySource>,
    pub(crate) select: Arc<dyn Select>,
    /// What tells this choice from others.
    pub(crate) seed: Vec<u8>,
}

impl EntrySource for ByMetadata {
    fn seed(&self) -> [u8; 32] {
        *shale_codec::hash(&[&self.source.seed()[..], &self.seed].concat()).as_bytes()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        loop {
            let next = self.source.next_entry()?;
            match &next {
                Some(entry) if !self.select.takes_metadata(&entry.path, &entry.metadata) => {}
                _ => return Ok(next),
            }
        }
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.source.take_problems()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        self.source.take_warnings()
    }
}
