//! Metadata that replace those of the source: owners, permissions, times, attributes.
//!
//! In a directory tree they are replaced while it is listed, so that the identity of the image
//! depends only on what is stored; in archives, as the entries pass.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use shale_codec::Hasher;
use shale_format::{InodeKind, Timestamp};
use shale_model::{Amend, EntrySource, Problem, SourceEntry, SourceError};
use shale_model::{Content, ContentFile, Metadata, OpenContent, Review, Xattr};

use crate::chmod::Chmod;
use shale_model::pattern::NamePattern;

/// Which metadata replace those of the source.
#[derive(Debug, Clone, Default)]
pub struct Adjust {
    /// Owner of all entries.
    pub owner: Option<u32>,
    /// Group of all entries.
    pub group: Option<u32>,
    /// New owner by stored owner, unless `owner` is set: the first range that contains it decides.
    pub owner_map: Vec<IdRange>,
    /// New group by stored group, in the same way.
    pub group_map: Vec<IdRange>,
    /// Changes of permissions.
    pub chmod: Option<Chmod>,
    /// Modification, access and creation time of all entries.
    pub mtime: Option<Timestamp>,
    /// Upper limit of these times.
    pub time_max: Option<Timestamp>,
    /// No extended attributes.
    pub no_xattrs: bool,
    /// If not empty, only attributes that match one of these are packed.
    pub xattr_include: Vec<NamePattern>,
    /// Attributes that match one of these are not packed.
    pub xattr_exclude: Vec<NamePattern>,
}

/// Maps the numbers from `first` to `last` to those from `to` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
    /// What the first number maps to.
    pub to: u32,
}

impl Adjust {
    /// True if nothing is changed.
    pub fn is_nothing(&self) -> bool {
        self.owner.is_none()
            && self.group.is_none()
            && self.owner_map.is_empty()
            && self.group_map.is_empty()
            && self.chmod.is_none()
            && self.mtime.is_none()
            && self.time_max.is_none()
            && !self.no_xattrs
            && self.xattr_include.is_empty()
            && self.xattr_exclude.is_empty()
    }

    fn xattrs(&self, given: Arc<[Xattr]>) -> Arc<[Xattr]> {
        if given.iter().all(|xattr| self.keeps_xattr(&xattr.name)) {
            return given;
        }
        given.iter().filter(|xattr| self.keeps_xattr(&xattr.name)).cloned().collect()
    }
}

impl Amend for Adjust {
    fn amend(&self, metadata: &mut Metadata) {
        let mapped = |ranges: &[IdRange], id: u32| {
            let range = ranges.iter().find(|range| (range.first..=range.last).contains(&id));
            range.map_or(id, |range| range.to.saturating_add(id - range.first))
        };
        metadata.uid = self.owner.unwrap_or_else(|| mapped(&self.owner_map, metadata.uid));
        metadata.gid = self.group.unwrap_or_else(|| mapped(&self.group_map, metadata.gid));
        if let Some(chmod) = &self.chmod
            && metadata.kind != InodeKind::Symlink
        {
            let is_directory = metadata.kind == InodeKind::Directory;
            metadata.permissions = chmod.apply(metadata.permissions, is_directory);
        }
        let times =
            [&mut metadata.mtime, &mut metadata.atime, &mut metadata.ctime, &mut metadata.btime];
        for time in times {
            if let Some(fixed) = self.mtime {
                *time = fixed;
            }
            if let Some(max) = self.time_max {
                *time = (*time).min(max);
            }
        }
    }

    fn keeps_xattr(&self, name: &[u8]) -> bool {
        let any = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(name));
        !self.no_xattrs
            && (self.xattr_include.is_empty() || any(&self.xattr_include))
            && !any(&self.xattr_exclude)
    }
}

/// A source with adjusted metadata.
pub(crate) struct Adjusted {
    pub(crate) source: Box<dyn EntrySource>,
    pub(crate) adjust: Arc<Adjust>,
}

impl EntrySource for Adjusted {
    fn seed(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        hasher.update(&self.source.seed());
        hasher.update(format!("{:?}", self.adjust).as_bytes());
        *hasher.finalize().as_bytes()
    }

    fn content_bytes_max(&self) -> Option<u64> {
        self.source.content_bytes_max()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let Some(mut entry) = self.source.next_entry()? else { return Ok(None) };
        self.adjust.amend(&mut entry.metadata);
        entry.xattrs = self.adjust.xattrs(entry.xattrs);
        if let Content::File(file) = entry.content {
            let metadata = entry.metadata;
            entry.content = Content::File(Box::new(AdjustedFile { file, metadata }));
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

/// A content with known metadata.
struct AdjustedFile<F: ?Sized> {
    metadata: Metadata,
    file: Box<F>,
}

impl OpenContent for AdjustedFile<dyn OpenContent> {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        Ok(Box::new(AdjustedFile { file: self.file.open()?, metadata: self.metadata }))
    }
}

impl ContentFile for AdjustedFile<dyn ContentFile> {
    fn metadata(&mut self) -> io::Result<Metadata> {
        // Archives do not change while they are read.
        Ok(self.metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, out)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        self.file.data_after(offset, len)
    }
}
