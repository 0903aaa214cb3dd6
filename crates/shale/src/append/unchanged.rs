//! A directory tree of which files that did not change since the newest snapshot are not read.
//!
//! A file is taken to be unchanged if the snapshot has a file of the same path, length and
//! modification time (and time of change, where the snapshot keeps it), to the nanosecond. Files
//! whose modification time is that of no real change are always read: tools that make reproducible
//! trees set all times to 0 or to the first time that a zip archive can hold.

use shale_format::InodeKind;
use shale_model::{Content, EntrySource, Metadata, Problem, Review, SourceEntry, SourceError};
use shale_read::{Attributes, ReadError, TIME_CTIME, Tree};

use shale_source::join;

/// 1980-01-02: later times are taken to be times of changes.
const TIME_MIN: i64 = 315_619_200;

/// A source that knows the newest snapshot.
pub(super) struct Unchanged {
    source: Box<dyn EntrySource>,
    tree: Tree,
    /// Path of the source in the image.
    prefix: Vec<u8>,
    /// The directory looked into last, and its inode in the snapshot.
    directory: (Vec<u8>, Option<u64>),
}

impl Unchanged {
    pub(super) fn new(source: Box<dyn EntrySource>, tree: Tree, prefix: Vec<u8>) -> Self {
        let directory = (Vec::new(), Some(tree.root_inode()));
        Self { source, tree, prefix, directory }
    }

    /// Returns the content that the snapshot has for a file, if the file did not change.
    fn find(&mut self, path: &[u8], metadata: &Metadata) -> Result<Option<u64>, ReadError> {
        let path = join(&self.prefix, path);
        let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], &path[..]),
        };
        if self.directory.0 != parent {
            self.directory = (parent.to_vec(), self.directory_at(parent)?);
        }
        let Some(directory) = self.directory.1 else { return Ok(None) };
        let found = self.tree.lookup_attributes(directory, name)?;
        let found = found.filter(|found| self.is_same(found, metadata));
        Ok(found.and_then(|found| found.content()))
    }

    fn directory_at(&self, path: &[u8]) -> Result<Option<u64>, ReadError> {
        let mut at = self.tree.root_inode();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            match self.tree.lookup_attributes(at, name)? {
                Some(found) if found.kind == InodeKind::Directory => at = found.inode,
                _ => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    fn is_same(&self, found: &Attributes, metadata: &Metadata) -> bool {
        let keeps_ctime = self.tree.snapshot().times_kept & TIME_CTIME != 0;
        found.kind == InodeKind::File
            && found.size == metadata.len
            && found.mtime == metadata.mtime
            && (!keeps_ctime || found.ctime == metadata.ctime)
            && metadata.mtime.sec >= TIME_MIN
    }
}

impl EntrySource for Unchanged {
    fn seed(&self) -> [u8; 32] {
        self.source.seed()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let Some(mut entry) = self.source.next_entry()? else { return Ok(None) };
        if let Content::File(_) = entry.content
            && entry.metadata.kind == InodeKind::File
            // A name that cannot be looked up is read like any other new file.
            && let Ok(Some(content)) = self.find(&entry.path, &entry.metadata)
        {
            entry.content = Content::Held(content);
        }
        Ok(Some(entry))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.source.take_problems()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        self.source.take_warnings()
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        self.source.review(review)
    }
}
