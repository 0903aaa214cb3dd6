//! Metadata other than the source has: owners, permissions, times, attributes.
//!
//! Applied to directory trees while they are listed, so that only what is stored makes an image
//! what it is, and to the entries of archives on their way.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use shale_codec::Hasher;
use shale_format::{InodeKind, Timestamp};
use shale_write::source::{Content, ContentFile, Metadata, OpenContent, Review, Xattr};
use shale_write::{Amend, Problem, Source, SourceEntry, WriteError};

use super::chmod::Chmod;
use super::rules::NamePattern;

/// What is stored instead of what the source says.
#[derive(Debug, Clone, Default)]
pub struct Adjust {
    /// Owner of everything.
    pub owner: Option<u32>,
    /// Group of everything.
    pub group: Option<u32>,
    /// Owners by owner, before `owner`: the first range that holds decides.
    pub owner_map: Vec<IdRange>,
    /// Groups by group.
    pub group_map: Vec<IdRange>,
    /// Changes of permissions.
    pub chmod: Option<Chmod>,
    /// Time of everything: modification, access and creation.
    pub mtime: Option<Timestamp>,
    /// Such times after this become this.
    pub time_max: Option<Timestamp>,
    /// No extended attributes.
    pub no_xattrs: bool,
    /// If there is any, only attributes that one of these matches.
    pub xattr_include: Vec<NamePattern>,
    /// No attributes that one of these matches.
    pub xattr_exclude: Vec<NamePattern>,
}

/// Numbers from `first` to `last` become `to` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
    /// What the first number becomes.
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

/// A source with other metadata.
pub(crate) struct Adjusted {
    pub(crate) source: Box<dyn Source>,
    pub(crate) adjust: Arc<Adjust>,
}

impl Source for Adjusted {
    fn seed(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        hasher.update(&self.source.seed());
        hasher.update(format!("{:?}", self.adjust).as_bytes());
        *hasher.finalize().as_bytes()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
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

    fn review(&self, review: &Review<'_>) -> Result<(), WriteError> {
        self.source.review(review)
    }
}

/// A content whose metadata are known.
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
