//! A directory tree as a source.
//!
//! Several threads walk the whole tree before the first entry is yielded, so the seed is known by
//! then. The order of entries depends on names alone: first the root; then, for every directory,
//! its entries that are not directories, by name, and then its directories, by name, each followed
//! by its own entries. So contents of one directory lie together in the image.
//!
//! Symbolic links are never followed, even if the tree changes meanwhile. Depth costs neither stack
//! nor file descriptors. Memory is 56 bytes and the name an entry, and is freed directory by
//! directory as entries are yielded. An entry that cannot be read becomes a [`Problem`] and does
//! not end the scan.
//!
//! Files are opened only when their content is read. File systems that are mounted below the root
//! are walked too, unless the options exclude them.

use std::path::Path;
use std::sync::Arc;

use shale_format::InodeKind;
use shale_model::{
    Amend, Content, EntrySource, Metadata, Problem, SourceEntry, SourceError, Xattr,
};

use shale_host::Phase;
use shale_host::Progress;

use crate::directory::file::{FileContent, Seen};
use crate::directory::list::{self, Listing, NONE};
use crate::directory::options::ScanOptions;
use crate::directory::walk::{Walked, walk};
use crate::directory::xattrs::XattrSets;
use shale_host::Beneath;

/// A walked tree.
pub struct DirectorySource {
    beneath: Arc<Beneath>,
    amend: Option<Arc<dyn Amend>>,
    root: Option<(Metadata, Arc<[Xattr]>)>,
    listings: Vec<Option<Listing>>,
    xattr_sets: XattrSets,
    problems: Vec<Problem>,
    seed: [u8; 32],
    /// Bytes of all files.
    content_bytes: u64,
    /// Directories from the root to the current one.
    stack: Vec<DirectoryCursor>,
    /// Path of the current directory.
    path: Vec<u8>,
}

impl std::fmt::Debug for DirectorySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectorySource").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A directory whose entries are being yielded.
#[derive(Debug)]
struct DirectoryCursor {
    listing: Listing,
    /// Index of the next node, first among other entries and then among directories.
    next: usize,
    directories_turn: bool,
    /// Length of the parent's path.
    parent_path_len: usize,
}

impl DirectorySource {
    /// Walks the tree below `root`, which is a directory or a symbolic link to one; only this link
    /// is followed.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] if the root cannot be opened,
    /// [`SourceError::Cancelled`]. Problems below the root are reported by
    /// [`EntrySource::take_problems`].
    pub fn open(
        root: &Path,
        options: &ScanOptions,
        progress: &dyn Progress,
    ) -> Result<Self, SourceError> {
        progress.phase(Phase::Scan);
        let Walked { beneath, metadata, xattrs, listings, xattr_sets, problems, seed } =
            walk(root, options, progress)?;
        let content_bytes = listings.iter().flatten().map(Listing::content_bytes);
        let content_bytes = content_bytes.fold(0, u64::saturating_add);
        Ok(Self {
            content_bytes,
            beneath: Arc::new(beneath),
            amend: options.amend.clone(),
            root: Some((metadata, xattrs)),
            listings,
            xattr_sets,
            problems,
            seed,
            stack: Vec::new(),
            path: Vec::new(),
        })
    }

    /// Returns the entry at `index` of a directory.
    fn entry(&self, directory: &DirectoryCursor, index: usize) -> SourceEntry {
        let listing = &directory.listing;
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

    /// Continues with the entries of the directory at `path`, if it could be listed.
    fn enter(&mut self, listing_index: u32, path: &[u8]) {
        let listing = self.listings.get_mut(listing_index as usize).and_then(Option::take);
        if let Some(listing) = listing {
            let parent_path_len = self.path.len();
            self.path.clear();
            self.path.extend_from_slice(path);
            self.stack.push(DirectoryCursor {
                listing,
                next: 0,
                directories_turn: false,
                parent_path_len,
            });
        }
    }
}

impl EntrySource for DirectorySource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn content_bytes_max(&self) -> Option<u64> {
        Some(self.content_bytes)
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
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
        while let Some(mut directory) = self.stack.pop() {
            while let Some(node) = directory.listing.nodes.get(directory.next) {
                let (index, body) = (directory.next, node.body);
                let is_directory = node.kind() == InodeKind::Directory;
                directory.next += 1;
                if is_directory != directory.directories_turn {
                    continue;
                }
                let entry = self.entry(&directory, index);
                self.stack.push(directory);
                if is_directory && body != NONE {
                    self.enter(body, &entry.path);
                }
                return Ok(Some(entry));
            }
            if directory.directories_turn {
                self.path.truncate(directory.parent_path_len);
            } else {
                (directory.directories_turn, directory.next) = (true, 0);
                self.stack.push(directory);
            }
        }
        Ok(None)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
