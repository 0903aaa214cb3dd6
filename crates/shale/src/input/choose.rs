//! What is taken of the inputs: by rules, by a list, by kind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shale_format::InodeKind;
use shale_write::Select;

use super::git::GitRules;
use super::join::join;
use super::rules::Rules;
use super::{Input, open};
use crate::create::CreateOptions;
use crate::error::Error;
use crate::progress::{BuildProgress, Progress};

/// What is taken. Everything, unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct Choose {
    /// Filter rules, held against paths in the image.
    pub rules: Arc<Rules>,
    /// Paths in the image that are taken, and no others; directories on the way to them come too.
    pub list: Option<Arc<Listed>>,
    /// Leave out block and character devices.
    pub no_devices: bool,
    /// Leave out pipes.
    pub no_fifos: bool,
    /// Leave out sockets.
    pub no_sockets: bool,
    /// Leave out directories that hold nothing but such directories.
    pub no_empty_directories: bool,
    /// Leave out what the `.gitignore` files of directory trees say; not in what links lead to.
    pub git_ignore: bool,
    /// Told of every decision; for [`survey`].
    pub(super) record: Option<Arc<Record>>,
}

/// Paths by which input is chosen.
#[derive(Debug, Default)]
pub struct Listed {
    /// With whether it was asked for itself, and whether it was met.
    paths: HashMap<Vec<u8>, (bool, AtomicBool)>,
}

type Record = Mutex<Vec<Decision>>;

/// What became of one path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision {
    /// Path in the image.
    pub path: Vec<u8>,
    /// It is a directory.
    pub is_directory: bool,
    /// It is packed.
    pub is_taken: bool,
    /// The rule that decided, or another reason; empty where nothing spoke against it.
    pub reason: Vec<u8>,
}

impl Choose {
    /// Takes only these paths. Each is made relative to the root of the image.
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

    /// Something that asks for the entries of an input at `prefix`, if anything is left out.
    pub(super) fn select(
        &self,
        prefix: &[u8],
        git: Option<Arc<GitRules>>,
    ) -> Option<Arc<dyn Select>> {
        let is_needed = !self.rules.is_empty()
            || self.list.is_some()
            || self.no_devices
            || self.no_fifos
            || self.no_sockets
            || git.is_some()
            || self.record.is_some();
        is_needed.then(|| {
            let chosen = Chosen { choose: self.clone(), prefix: prefix.to_vec(), git };
            Arc::new(chosen) as Arc<dyn Select>
        })
    }

    /// Listed paths that were not met: how many, and the first.
    pub(super) fn missing(&self) -> Option<(usize, String)> {
        let list = self.list.as_ref()?;
        let unmet =
            list.paths.iter().filter(|(_, (asked, met))| *asked && !met.load(Ordering::Relaxed));
        let mut unmet: Vec<&Vec<u8>> = unmet.map(|(path, _)| path).collect();
        unmet.sort_unstable();
        unmet.first().map(|first| (unmet.len(), first.escape_ascii().to_string()))
    }

    /// Whether an entry at this path of the image is taken.
    pub(super) fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        self.decide(path, kind).0
    }

    /// Whether an entry is taken, and why.
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
}

impl Select for Chosen {
    fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        let is_directory = kind == InodeKind::Directory;
        let ignored = self.git.as_ref().and_then(|git| git.ignores(path, is_directory));
        let path = join(&self.prefix, path);
        // Rules are asked all the same: those that never match are told of.
        let (is_taken, reason) = self.choose.decide(&path, kind);
        let is_taken = is_taken && ignored.is_none();
        if let Some(record) = &self.choose.record {
            let reason = ignored.unwrap_or_else(|| reason.to_vec());
            let decision = Decision { path, is_directory, is_taken, reason };
            record.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
        }
        is_taken
    }
}

/// Goes through the inputs and tells what would become of every path, by path, without packing
/// anything. Paths below a directory that is left out are not among them. Memory is all of them.
pub fn survey(
    sources: &[Input],
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Vec<Decision>, Error> {
    let record: Arc<Record> = Arc::default();
    let mut options = options.clone();
    options.choose.record = Some(Arc::clone(&record));
    let mut source = open(sources, Vec::new(), &options, &BuildProgress(progress))?;
    while source.next_entry()?.is_some() {
        options.cancel.check()?;
    }
    drop((source, options));
    let mut decisions = std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner));
    decisions.sort_unstable();
    decisions.dedup();
    Ok(decisions)
}
