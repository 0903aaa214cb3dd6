//! Several sources as one, each below a prefix; and directories without anything in them left out.
//!
//! Sources come one after the other, so a later one replaces what an earlier one has at the same
//! path, and directories of the same path become one with the metadata of the later. Inodes of
//! different sources are different, except where two directory trees show the same inode.

use std::collections::{HashMap, VecDeque};

use shale_codec::Hasher;
use shale_format::InodeKind;
use shale_write::source::Review;
use shale_write::{Problem, Source, SourceEntry, WriteError};

/// A source with its place.
pub(crate) struct Part {
    pub(crate) source: Box<dyn Source>,
    /// Path of its root, without slashes at its ends; empty for the root of the image.
    pub(crate) prefix: Vec<u8>,
    /// Its inodes are the system's.
    pub(crate) is_tree: bool,
}

/// Several sources as one.
pub(crate) struct Joined {
    parts: Vec<Part>,
    seed: [u8; 32],
    /// The part whose turn it is.
    index: usize,
    problems: Vec<Problem>,
}

impl Joined {
    pub(crate) fn new(parts: Vec<Part>) -> Self {
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
        Self { parts, seed, index: 0, problems: Vec::new() }
    }

    fn note_problems(&mut self) {
        if let Some(part) = self.parts.get_mut(self.index) {
            let problems = part.source.take_problems().into_iter();
            let prefix = &part.prefix;
            self.problems.extend(problems.map(|p| Problem { path: join(prefix, &p.path), ..p }));
        }
    }
}

/// Path of what is at `path` below `prefix`.
pub(crate) fn join(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    match (prefix, path) {
        (b"", path) => path.to_vec(),
        (prefix, b"") => prefix.to_vec(),
        (prefix, path) => [prefix, b"/", path].concat(),
    }
}

impl Source for Joined {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
        loop {
            let Some(part) = self.parts.get_mut(self.index) else { return Ok(None) };
            // Looked at where it is: an entry is hundreds of bytes, and there may be a billion.
            let mut next = part.source.next_entry();
            if let Ok(Some(entry)) = &mut next {
                if !part.prefix.is_empty() {
                    entry.path = join(&part.prefix, &entry.path);
                }
                if let Some(link) = entry.link.as_mut().filter(|_| !part.is_tree) {
                    // No device of a system has such a number.
                    link.device = u64::MAX - self.index as u64;
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

    fn review(&self, review: &Review<'_>) -> Result<(), WriteError> {
        match &self.parts[..] {
            [part] => part.source.review(review),
            // Several sources may repeat each other, and prefixes are nobody's to give.
            _ => Ok(()),
        }
    }
}

/// A source without directories that hold nothing but directories. Holds directories back until
/// something is in them: memory is those that have nothing yet.
pub(crate) struct WithoutEmpty {
    source: Box<dyn Source>,
    held: HashMap<Vec<u8>, SourceEntry>,
    ready: VecDeque<SourceEntry>,
}

impl WithoutEmpty {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        Self { source, held: HashMap::new(), ready: VecDeque::new() }
    }
}

impl Source for WithoutEmpty {
    fn seed(&self) -> [u8; 32] {
        *shale_codec::hash(&[&self.source.seed()[..], b"no empty directories"].concat()).as_bytes()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
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
}
