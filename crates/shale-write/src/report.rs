//! What came of a build: counters, what was left out, and the digests of what was read.

use std::fmt;

use shale_format::{Category, Identity};

use crate::digest::{ContentDigest, TreeDigest};

/// Counters, problems and digests of a finished build.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries by kind and bytes of content found.
    pub entries: EntryCounts,
    /// Bytes of all regular files as given, hard links counted once.
    pub file_bytes: u64,
    /// Bytes of unique contents that are holes.
    pub hole_bytes: u64,
    /// Bytes of unique contents that became zero runs.
    pub zero_bytes: u64,
    /// Regular files whose content equals an earlier one's.
    pub duplicate_files: u64,
    /// Bytes of those.
    pub duplicate_bytes: u64,
    /// Bytes of unique contents found elsewhere in the image by segment dedupe.
    pub segment_bytes: u64,
    /// Matches of segment dedupe.
    pub segments: u64,
    /// Unique contents, the empty one counted.
    pub contents: u64,
    /// Rows of the table of extents, without the sentinel.
    pub extents: u64,
    /// Frames.
    pub frames: u64,
    /// Plain bytes of all frames.
    pub plain_bytes: u64,
    /// Plain bytes of frames that no extent leads to: read from files that changed meanwhile.
    pub abandoned_bytes: u64,
    /// Stored bytes of all frames.
    pub stored_bytes: u64,
    /// Frames that keep references.
    pub frames_with_references: u64,
    /// References kept.
    pub references: u64,
    /// Frames whose references did not pay and were dropped.
    pub frames_references_dropped: u64,
    /// Bytes the kept references save, about: what a frame takes without is tried or estimated.
    pub reference_saved_bytes: u64,
    /// Frames and bytes by category.
    pub categories: Vec<CategoryCounts>,
    /// Pages and bytes by table.
    pub tables: Vec<TableCounts>,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Id of the image, as in its superblock.
    pub image_id: [u8; 16],
    /// Identity of the image: what `--expect` compares.
    pub identity: Identity,
    /// Entries that were left out, or would have been.
    pub problems: Vec<Problem>,
    /// Files read again because they changed while they were read.
    pub files_read_again: u64,
    /// Contents that were laid behind one they resemble.
    pub kin_contents: u64,
    /// Contents laid before all others, as was asked for.
    pub contents_laid_first: u64,
    /// Bytes of temporary files.
    pub spool_bytes: u64,
    /// Digest of each content's bytes as read, by content id. 32 bytes a content.
    pub content_digests: Vec<ContentDigest>,
    /// Digest of the tree as given: names, attributes, links.
    pub tree_digest: TreeDigest,
}

/// Entries by kind; hard links are counted once each, as their inode's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryCounts {
    /// All entries, the root not counted.
    pub total: u64,
    /// Inodes, the root counted.
    pub inodes: u64,
    /// Names of regular files.
    pub files: u64,
    /// Directories, the root counted.
    pub directories: u64,
    /// Names of symbolic links.
    pub symlinks: u64,
    /// Names of block and character devices.
    pub devices: u64,
    /// Names of fifos and sockets.
    pub specials: u64,
    /// Names beyond the first of their inode.
    pub hard_links: u64,
}

/// Frames and bytes of one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategoryCounts {
    /// The category.
    pub category: Category,
    /// Its frames.
    pub frames: u64,
    /// Plain bytes.
    pub plain_bytes: u64,
    /// Stored bytes.
    pub stored_bytes: u64,
}

/// Pages and bytes of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCounts {
    /// Name of its schema.
    pub name: &'static str,
    /// Rows, sentinel included.
    pub rows: u64,
    /// Pages, index pages included.
    pub pages: u64,
    /// Plain bytes of its pages.
    pub plain_bytes: u64,
    /// Stored bytes of its pages.
    pub stored_bytes: u64,
}

/// An entry that could not be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path below the root of the source.
    pub path: Vec<u8>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// It cannot be opened, listed or read; the system's message.
    Unreadable(String),
    /// It was there when its directory was listed and is not there any more.
    Vanished,
    /// It changed each time it was read.
    Changed,
    /// Another file has its path, or it has other extended attributes, than when its directory was
    /// listed: what was found out then (further names of the same inode, attributes) is not true of
    /// it.
    Replaced,
    /// A directory with the same path came before it.
    Collision,
    /// Something of it is beyond a limit of the format.
    Limit(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { &b"."[..] } else { &self.path };
        write!(f, "{}: {}", String::from_utf8_lossy(path), self.kind)
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::Vanished => f.write_str("vanished while the source was read"),
            Self::Replaced => {
                f.write_str("was replaced, or its attributes changed, while the source was read")
            }
            Self::Collision => f.write_str("would replace the directory that has the same path"),
            Self::Changed => f.write_str("changed each time it was read"),
            Self::Limit(what) => f.write_str(what),
        }
    }
}
