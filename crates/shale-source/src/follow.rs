//! A directory tree whose symbolic links are packed as their targets, wherever those are.
//!
//! A link to a file becomes a separate file, and a link to a directory becomes a directory with all
//! its entries, whose links are followed too. A dangling link, and a link to a directory that
//! contains it, are problems. The tree is walked twice: first for its seed, then for its entries.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::directory_source::DirectorySource;
use crate::directory::options::ScanOptions;
use shale_codec::Hasher;
use shale_format::InodeKind;
use shale_host::NoProgress;
use shale_model::{EntrySource, Problem, ProblemKind, Select, SourceEntry, SourceError};

use crate::choose::Choose;
use crate::join::join;

/// Nested links that are followed; more form a circle that names do not show.
const DEPTH_MAX: usize = 40;

/// A tree with its links followed.
pub(crate) struct Followed {
    trees: Vec<FollowedTree>,
    scan: ScanOptions,
    choose: Choose,
    /// Path of the tree in the image, against which rules are matched.
    place: Vec<u8>,
    seed: [u8; 32],
    problems: Vec<Problem>,
}

/// A tree whose entries are yielded.
struct FollowedTree {
    source: DirectorySource,
    root: PathBuf,
    /// Path of the link that led here; empty for the first tree.
    prefix: Vec<u8>,
    /// The directory that contains this link.
    from: PathBuf,
}

/// Selects one name of a directory.
struct Only(Vec<u8>);

impl Select for Only {
    fn takes(&self, path: &[u8], _: InodeKind) -> bool {
        path == self.0
    }
}

/// What a link leads to.
enum Target {
    /// A file, under the path of the link.
    Entry(SourceEntry),
    /// A directory, whose entries come next unless it is left out.
    Tree,
    /// Nothing that can be packed, and why.
    Problem(String),
}

impl Followed {
    /// Walks the tree below `root` and computes its seed.
    pub(crate) fn open(
        root: &Path,
        scan: &ScanOptions,
        choose: &Choose,
        place: &[u8],
        progress: &dyn shale_host::Progress,
    ) -> Result<Self, SourceError> {
        let mut first = Self::start(root, scan, choose, place, progress)?;
        let mut hasher = Hasher::new();
        hasher.update(&first.trees[0].source.seed());
        while let Some(entry) = first.next_entry()? {
            hasher.update(&(entry.path.len() as u64).to_le_bytes());
            hasher.update(&entry.path);
            let metadata = &entry.metadata;
            let (kind, mtime) = (metadata.kind.mode_bits(), metadata.mtime);
            for number in [kind | metadata.permissions, metadata.uid, metadata.gid, mtime.nsec] {
                hasher.update(&number.to_le_bytes());
            }
            hasher.update(&mtime.sec.to_le_bytes());
            hasher.update(&metadata.len.to_le_bytes());
        }
        let seed = *hasher.finalize().as_bytes();
        drop(first);
        Ok(Self { seed, ..Self::start(root, scan, choose, place, &NoProgress)? })
    }

    fn start(
        root: &Path,
        scan: &ScanOptions,
        choose: &Choose,
        place: &[u8],
        progress: &dyn shale_host::Progress,
    ) -> Result<Self, SourceError> {
        let source = DirectorySource::open(root, scan, progress)?;
        let from = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let tree = FollowedTree { source, root: root.to_owned(), prefix: Vec::new(), from };
        Ok(Self {
            trees: vec![tree],
            scan: scan.clone(),
            choose: choose.clone(),
            place: place.to_vec(),
            seed: [0; 32],
            problems: Vec::new(),
        })
    }

    /// Follows a link. A tree that it leads to comes next.
    fn follow(&mut self, path: &Path, link: SourceEntry) -> Result<Target, SourceError> {
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(error) => return Ok(Target::Problem(format!("it leads to nothing: {error}"))),
        };
        let here = path.parent().and_then(|parent| parent.canonicalize().ok());
        let here = here.unwrap_or_default();
        if target.is_dir() {
            let above = |above: &PathBuf| above.starts_with(&target);
            let is_circle = above(&here) || self.trees.iter().any(|tree| above(&tree.from));
            if is_circle || self.trees.len() >= DEPTH_MAX {
                let target = target.display();
                return Ok(Target::Problem(format!("it leads back to {target}, in which it lies")));
            }
            let place = join(&self.place, &link.path);
            let select = self.choose.select(&place, None, None);
            if select.is_some_and(|_| !self.choose.takes(&place, InodeKind::Directory)) {
                return Ok(Target::Tree);
            }
            let scan =
                ScanOptions { select: self.choose.select(&place, None, None), ..self.scan.clone() };
            let source = DirectorySource::open(&target, &scan, &NoProgress)?;
            self.trees.push(FollowedTree { source, root: target, prefix: link.path, from: here });
            return Ok(Target::Tree);
        }
        let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
            return Ok(Target::Problem("it leads to nothing".to_owned()));
        };
        let name = name.as_bytes().to_vec();
        let select: Arc<dyn Select> = Arc::new(Only(name.clone()));
        let scan = ScanOptions { select: Some(select), threads: 1, ..self.scan.clone() };
        let mut source = DirectorySource::open(folder, &scan, &NoProgress)?;
        while let Some(entry) = source.next_entry()? {
            if entry.path == name {
                return Ok(Target::Entry(SourceEntry { path: link.path, link: None, ..entry }));
            }
        }
        let problem = source.take_problems().into_iter().next();
        let what = problem.map_or("it is left out".to_owned(), |problem| problem.kind.to_string());
        Ok(Target::Problem(what))
    }
}

impl EntrySource for Followed {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        while let Some(tree) = self.trees.last_mut() {
            let Some(mut entry) = tree.source.next_entry()? else {
                let prefix = std::mem::take(&mut tree.prefix);
                let problems = tree.source.take_problems().into_iter();
                self.problems
                    .extend(problems.map(|p| Problem { path: join(&prefix, &p.path), ..p }));
                self.trees.pop();
                continue;
            };
            let path = tree.root.join(OsStr::from_bytes(&entry.path));
            entry.path = join(&tree.prefix, &entry.path);
            if entry.metadata.kind != InodeKind::Symlink {
                return Ok(Some(entry));
            }
            let link = entry.path.clone();
            match self.follow(&path, entry)? {
                Target::Entry(entry) => return Ok(Some(entry)),
                Target::Tree => {}
                Target::Problem(what) => {
                    let kind = ProblemKind::Unreadable(what);
                    self.problems.push(Problem { path: link, kind });
                }
            }
        }
        Ok(None)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
