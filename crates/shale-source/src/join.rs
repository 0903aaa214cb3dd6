//! Several sources as one, each below a prefix; and a source without empty directories.
//!
//! Sources come one after the other. Directories with the same path become one, with the metadata
//! of the later source. Any other path in several sources is a conflict: an error, or, if the
//! caller allows it, the later source replaces the entry of the earlier one. Contents are not
//! compared. Where the sources can be read twice, they are listed first, so that the contents of
//! replaced entries are never read and leave no bytes in the image. Inodes of different sources are
//! different, except where two directory trees show the same inode.

use std::collections::{HashMap, VecDeque};

use shale_codec::Hasher;
use shale_format::InodeKind;
use shale_model::Review;
use shale_model::{Content, EntrySource, LinkId, Problem, SourceEntry, SourceError};

/// A source and its place in the image.
pub struct Part {
    /// Its entries.
    pub source: Box<dyn EntrySource>,
    /// Path of its root, without slashes at its ends; empty for the root of the image.
    pub prefix: Vec<u8>,
    /// True if its inode numbers are those of the system.
    pub is_tree: bool,
}

/// Several sources as one.
pub struct Joined {
    parts: Vec<Part>,
    seed: [u8; 32],
    /// Index of the current part.
    index: usize,
    problems: Vec<Problem>,
    /// Paths of several sources; `None` if there is one source.
    claims: Option<Claims>,
    /// Later sources may replace entries of earlier ones.
    replace: bool,
    /// The claims are those of all sources.
    is_listed: bool,
}

impl Joined {
    /// Joins the parts, in this order. With `replace` a later part replaces entries of earlier
    /// ones, else a path in several parts is an error, unless it is a directory in all of them.
    pub fn new(parts: Vec<Part>, replace: bool) -> Self {
        let mut hasher = Hasher::new();
        for part in &parts {
            hasher.update(&part.source.seed());
            hasher.update(&(part.prefix.len() as u64).to_le_bytes());
            hasher.update(&part.prefix);
        }
        let seed = match &parts[..] {
            [part] if part.prefix.is_empty() => part.source.seed(),
            _ => *hasher.finalize().as_bytes(),
        };
        let claims = (parts.len() > 1).then(Claims::default);
        Self { parts, seed, index: 0, problems: Vec::new(), claims, replace, is_listed: false }
    }

    /// Lists all entries and returns which source has which path. `check` may end this.
    ///
    /// # Errors
    /// Those of the sources and of `check`.
    pub fn list<E: From<SourceError>>(
        mut self,
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<Claims, E> {
        if let Some(claims) = &mut self.claims {
            claims.names = Some(HashMap::new());
        }
        while self.next_entry()?.is_some() {
            check()?;
        }
        Ok(self.claims.unwrap_or_default())
    }

    /// Leaves out the entries that later sources replace, as `claims` of the same sources say.
    pub fn without_replaced(self, claims: Claims) -> Self {
        Self { claims: Some(claims), is_listed: true, ..self }
    }

    fn note_problems(&mut self) {
        if let Some(part) = self.parts.get_mut(self.index) {
            let problems = part.source.take_problems().into_iter();
            let prefix = &part.prefix;
            self.problems.extend(problems.map(|p| Problem { path: join(prefix, &p.path), ..p }));
        }
    }
}

/// Most conflicting paths that an error names.
const CONFLICTS_NAMED_MAX: usize = 20;

/// The paths of all entries so far, by hash, and the source of each. Costs about 50 bytes a path.
#[derive(Clone, Default)]
pub struct Claims {
    by_path: HashMap<PathKey, Claim>,
    /// Source and parent directory of the last entry.
    last: (usize, Vec<u8>),
    /// The first conflicting paths.
    paths: Vec<Vec<u8>>,
    /// Number of conflicting paths.
    count: u64,
    /// The paths of each inode that may have several, if later sources may replace them.
    names: Option<HashMap<LinkId, Vec<PathKey>>>,
}

/// The beginning of the hash of a path.
type PathKey = [u8; 16];

/// The source of a path.
#[derive(Clone)]
struct Claim {
    part: u32,
    is_directory: bool,
    is_conflict: bool,
}

impl Claims {
    /// Adds an entry of a source, and the directories that its path implies.
    fn add(&mut self, part: usize, entry: &SourceEntry) {
        let path = &entry.path;
        if path.is_empty() {
            return;
        }
        let parent = path.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &path[..at]);
        if self.last.0 != part || self.last.1 != parent {
            for (at, _) in parent.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                self.claim(part, &parent[..at], true);
            }
            if !parent.is_empty() {
                self.claim(part, parent, true);
            }
            self.last.0 = part;
            self.last.1.clear();
            self.last.1.extend_from_slice(parent);
        }
        if let (Some(names), Some(link)) = (&mut self.names, entry.link) {
            names.entry(link).or_default().push(key_of(path));
        }
        self.claim(part, path, entry.metadata.kind == InodeKind::Directory);
    }

    /// Returns whether a later source than `part` has the path of an entry, and of all other names
    /// of its inode: the content may come with any of them.
    fn replaces(&self, part: usize, entry: &SourceEntry) -> bool {
        let is_replaced =
            |key: &PathKey| self.by_path.get(key).is_some_and(|claim| claim.part > part as u32);
        let names = entry.link.and_then(|link| self.names.as_ref()?.get(&link));
        entry.metadata.kind != InodeKind::Directory
            && is_replaced(&key_of(&entry.path))
            && names.is_none_or(|names| names.iter().all(is_replaced))
    }

    fn claim(&mut self, part: usize, path: &[u8], is_directory: bool) {
        let key = key_of(path);
        let part = part as u32;
        let new = Claim { part, is_directory, is_conflict: false };
        let claim = self.by_path.entry(key).or_insert(new);
        if claim.part == part {
            claim.is_directory = is_directory;
        } else if !(claim.is_directory && is_directory) {
            let is_known = std::mem::replace(&mut claim.is_conflict, true);
            (claim.part, claim.is_directory) = (part, is_directory);
            if !is_known {
                self.count += 1;
                if self.paths.len() < CONFLICTS_NAMED_MAX {
                    self.paths.push(path.to_vec());
                }
            }
        }
    }
}

fn key_of(path: &[u8]) -> PathKey {
    let mut key = [0; 16];
    key.copy_from_slice(&shale_codec::hash(path).as_bytes()[..16]);
    key
}

/// Joins a prefix and a path.
pub fn join(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    match (prefix, path) {
        (b"", path) => path.to_vec(),
        (prefix, b"") => prefix.to_vec(),
        (prefix, path) => [prefix, b"/", path].concat(),
    }
}

impl EntrySource for Joined {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn content_bytes_max(&self) -> Option<u64> {
        let known = self.parts.iter().map(|part| part.source.content_bytes_max());
        known.into_iter().try_fold(0, |sum: u64, bytes| Some(sum.saturating_add(bytes?)))
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        loop {
            let Some(part) = self.parts.get_mut(self.index) else {
                return match &mut self.claims {
                    Some(claims) if claims.count > 0 && !self.replace => {
                        let paths = std::mem::take(&mut claims.paths);
                        Err(SourceError::Conflict { paths, count: claims.count })
                    }
                    _ => Ok(None),
                };
            };
            // Looked at where it is: an entry is hundreds of bytes, and there may be a billion.
            let mut next = part.source.next_entry();
            if let Ok(Some(entry)) = &mut next {
                if !part.prefix.is_empty() {
                    entry.path = join(&part.prefix, &entry.path);
                }
                if let Some(link) = entry.link.as_mut().filter(|_| !part.is_tree) {
                    // No device of a system has this number.
                    link.device = u64::MAX - self.index as u64;
                }
                if let Some(claims) = self.claims.as_ref().filter(|_| self.is_listed) {
                    if claims.replaces(self.index, entry) {
                        continue;
                    }
                } else if let Some(claims) = &mut self.claims {
                    claims.add(self.index, entry);
                    // There will be no image: the rest is listed without reading contents.
                    if claims.count > 0 && !self.replace {
                        entry.content = Content::None;
                        entry.metadata.len = 0;
                    }
                }
                return next;
            }
            next?;
            self.note_problems();
            self.index += 1;
        }
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.note_problems();
        std::mem::take(&mut self.problems)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        let parts = self.parts.iter_mut();
        let mut warnings: Vec<String> =
            parts.flat_map(|part| part.source.take_warnings()).collect();
        match self.claims.as_ref().map_or(0, |claims| claims.count) {
            0 => {}
            1 => warnings.push("1 path was replaced by a later source".to_owned()),
            count => warnings.push(format!("{count} paths were replaced by later sources")),
        }
        warnings
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        match &self.parts[..] {
            [part] => part.source.review(review),
            // Several sources may repeat each other, and no source contains the prefixes.
            _ => Ok(()),
        }
    }
}

/// A source without directories that contain nothing, or only such directories. Holds directories
/// back until they have an entry; only those need memory.
pub struct WithoutEmpty {
    source: Box<dyn EntrySource>,
    held: HashMap<Vec<u8>, SourceEntry>,
    ready: VecDeque<SourceEntry>,
}

impl WithoutEmpty {
    pub fn new(source: Box<dyn EntrySource>) -> Self {
        Self { source, held: HashMap::new(), ready: VecDeque::new() }
    }
}

impl EntrySource for WithoutEmpty {
    fn seed(&self) -> [u8; 32] {
        *shale_codec::hash(&[&self.source.seed()[..], b"no empty directories"].concat()).as_bytes()
    }

    fn content_bytes_max(&self) -> Option<u64> {
        self.source.content_bytes_max()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            let Some(entry) = self.source.next_entry()? else { return Ok(None) };
            if entry.path.is_empty() {
                return Ok(Some(entry));
            }
            if entry.metadata.kind == InodeKind::Directory {
                self.held.insert(entry.path.clone(), entry);
                continue;
            }
            let slashes = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            for (at, _) in slashes {
                self.ready.extend(self.held.remove(&entry.path[..at]));
            }
            self.ready.push_back(entry);
        }
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.source.take_problems()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        self.source.take_warnings()
    }
}
