//! What the walk hands to the writer of an archive.

use std::ops::Range;

use shale_foreign::archive::ArchiveEntry;
use shale_model::{Metadata, Xattr};
use shale_read::Attributes;

use super::decode_ahead::Ticket;
use crate::error::Error;

/// One step of the walk.
pub(super) enum Step {
    Entry(Box<Entry>),
    /// Bytes of the last entry: of a frame, or zeroes.
    Frame(Ticket, Range<usize>, u64),
    Zeroes(u64),
    End,
    Failed(Error),
}

pub(super) struct Entry {
    pub(super) path: Vec<u8>,
    pub(super) attributes: Attributes,
    pub(super) metadata: Metadata,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) target: Vec<u8>,
    pub(super) hard_link: Option<Vec<u8>>,
    pub(super) link_count: u64,
    pub(super) data: Vec<Range<u64>>,
    pub(super) content: u64,
    pub(super) is_repeat: bool,
}

impl Entry {
    pub(super) fn for_archive(&self) -> ArchiveEntry<'_> {
        ArchiveEntry {
            path: &self.path,
            metadata: &self.metadata,
            link_count: self.link_count,
            inode: self.attributes.inode,
            xattrs: &self.xattrs,
            target: &self.target,
            hard_link: self.hard_link.as_deref(),
            data: &self.data,
            content: self.content,
            is_repeat: self.is_repeat,
        }
    }
}
