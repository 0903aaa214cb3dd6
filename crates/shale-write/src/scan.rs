//! A directory tree as a source.
//!
//! The tree is walked completely by several threads before the first entry is yielded, so its seed
//! is known then. Entries come in an order that depends on names alone: the root, then
//! for every directory what is in it except directories, by name, then its directories, by name,
//! each followed by what is in it. Contents of one directory so lie together in the image.
//!
//! Promises: symbolic links are never followed, whatever happens to the tree meanwhile; depth
//! costs neither stack nor descriptors; memory is 56 bytes and the name an entry, given back
//! directory by directory as entries are yielded. What cannot be read is collected as a
//! [`Problem`], never an end.
//!
//! Files are opened only when their content is read. What is mounted below the root is walked
//! too, unless told not to.

mod beneath; // opening by path below the root
mod list; // one directory
mod xattrs; // extended attributes of its entries
mod walk; // all directories, in parallel
mod file; // one regular file

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shale_format::InodeKind;
use shale_format::root::TIME_MTIME;

use crate::progress::Phase;
use crate::source::{Content, LinkId, Metadata, Xattr};
use crate::{Amend, Problem, Progress, Select, Source, SourceEntry, WriteError};

use file::{FileContent, Seen};
pub use list::file_identity;
pub(crate) use list::problem_kind;
use list::{Listing, NONE};
use xattrs::XattrSets;

/// How a directory tree is walked.
#[derive(Clone)]
pub struct ScanOptions {
    /// Threads that list directories; 0: as many as the machine offers.
    pub threads: usize,
    /// Files left out silently by identity: the image that is being written.
    pub excluded: Vec<LinkId>,
    /// Do not descend into other file systems; their mount points are packed as empty
    /// directories.
    pub one_file_system: bool,
    /// Times that will be kept; the others are not held in memory. As in [`crate::Options`].
    pub times_kept: u8,
    /// As in [`crate::Options`].
    pub cancel: Option<Arc<AtomicBool>>,
    /// What is taken; everything without. The root is not asked for.
    pub select: Option<Arc<dyn Select>>,
    /// What is stored instead of what the system says.
    pub amend: Option<Arc<dyn Amend>>,
}

impl std::fmt::Debug for ScanOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanOptions")
            .field("threads", &self.threads)
            .field("excluded", &self.excluded)
            .field("one_file_system", &self.one_file_system)
            .field("times_kept", &self.times_kept)
            .finish_non_exhaustive()
    }
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            excluded: Vec::new(),
            one_file_system: false,
            times_kept: TIME_MTIME,
            cancel: None,
            select: None,
            amend: None,
        }
    }
}

/// A walked tree.
pub struct DirectorySource {
    beneath: Arc<beneath::Beneath>,
    amend: Option<Arc<dyn Amend>>,
    root: Option<(Metadata, Arc<[Xattr]>)>,
    listings: Vec<Option<Listing>>,
    xattr_sets: XattrSets,
    problems: Vec<Problem>,
    seed: [u8; 32],
    /// Directories from the root to where we are.
    stack: Vec<Level>,
    /// Path of the last one.
    path: Vec<u8>,
}

impl std::fmt::Debug for DirectorySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectorySource").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A directory that is being yielded.
#[derive(Debug)]
struct Level {
    listing: Listing,
    /// Next node to look at; first for what is not a directory, then for directories.
    cursor: usize,
    directories_turn: bool,
    /// Length of the parent's path.
    parent_path_len: usize,
}

impl DirectorySource {
    /// Walks the tree below `root` (a directory; a symbolic link to one is followed here and
    /// nowhere else).
    ///
    /// # Errors
    /// [`WriteError::Source`] if the root cannot be opened, [`WriteError::Cancelled`]. Whatever
    /// is wrong below the root is left to [`Source::take_problems`].
    pub fn open(
        root: &Path,
        options: &ScanOptions,
        progress: &dyn Progress,
    ) -> Result<Self, WriteError> {
        progress.phase(Phase::Scan);
        walk::walk(root, options, progress)
    }

    /// The entry at `index` of the innermost directory.
    fn entry(&self, level: &Level, index: usize) -> SourceEntry {
        let listing = &level.listing;
        let node = &listing.nodes[index];
        let path = list::join(&self.path, listing.name(node));
        let metadata = listing.metadata(index);
        let xattrs = self.xattr_sets.get(listing.xattrs_of(node));
        let content = if metadata.kind == InodeKind::File && metadata.len > 0 {
            let beneath = Arc::clone(&self.beneath);
            let (xattrs, amend) = (Arc::clone(&xattrs), self.amend.clone());
            let seen = Arc::new(Seen { metadata, link: listing.link(node), xattrs, amend });
            Content::File(Box::new(FileContent { beneath, path: path.as_slice().into(), seen }))
        } else {
            Content::None
        };
        SourceEntry {
            path,
            metadata,
            xattrs,
            link: listing.link(node),
            target: listing.target(node).to_vec(),
            content,
        }
    }

    /// Goes on with what is in the directory at `path`, if it could be listed.
    fn enter(&mut self, listing_index: u32, path: &[u8]) {
        let listing = self.listings.get_mut(listing_index as usize).and_then(Option::take);
        if let Some(listing) = listing {
            let parent_path_len = self.path.len();
            self.path.clear();
            self.path.extend_from_slice(path);
            self.stack.push(Level { listing, cursor: 0, directories_turn: false, parent_path_len });
        }
    }
}

impl Source for DirectorySource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
        if let Some((metadata, xattrs)) = self.root.take() {
            self.enter(0, b"");
            return Ok(Some(SourceEntry {
                path: Vec::new(),
                metadata,
                xattrs,
                link: None,
                target: Vec::new(),
                content: Content::None,
            }));
        }
        while let Some(mut level) = self.stack.pop() {
            while let Some(node) = level.listing.nodes.get(level.cursor) {
                let (index, body) = (level.cursor, node.body);
                let is_directory = node.kind() == InodeKind::Directory;
                level.cursor += 1;
                if is_directory != level.directories_turn {
                    continue;
                }
                let entry = self.entry(&level, index);
                self.stack.push(level);
                if is_directory && body != NONE {
                    self.enter(body, &entry.path);
                }
                return Ok(Some(entry));
            }
            if level.directories_turn {
                self.path.truncate(level.parent_path_len);
            } else {
                (level.directories_turn, level.cursor) = (true, 0);
                self.stack.push(level);
            }
        }
        Ok(None)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
