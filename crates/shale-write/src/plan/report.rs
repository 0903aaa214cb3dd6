//! The result of a build: counters, entries that were left out, and digests of what was read.

use std::time::Duration;

use shale_format::{Category, Identity, ReadBounds};
use shale_model::{Change, Problem};

use crate::plan::digest::{ContentDigest, TreeDigest};
use crate::recompress::container::Container;

/// Counters, problems and digests of a finished build.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries by kind.
    pub entries: EntryCounts,
    /// Bytes of all regular files as given. Each inode counts once.
    pub file_bytes: u64,
    /// Bytes of distinct contents that are holes.
    pub hole_bytes: u64,
    /// Bytes of distinct contents that are stored as zero runs.
    pub zero_bytes: u64,
    /// Regular files whose content equals that of an earlier file.
    pub duplicate_files: u64,
    /// Bytes of those.
    pub duplicate_bytes: u64,
    /// Files whose content the image held already and which were not read.
    pub held_files: u64,
    /// Bytes of those.
    pub held_bytes: u64,
    /// Deflate streams that are rebuilt when they are read, by what they were found in.
    pub streams: Vec<(Container, StreamCounts)>,
    /// Bytes of distinct contents that segment dedupe found elsewhere in the image.
    pub segment_bytes: u64,
    /// Matches of segment dedupe.
    pub segments: u64,
    /// Distinct contents that the build added; the empty one is included where it starts an image.
    pub contents: u64,
    /// ID of the first content that the build added.
    pub first_content: u64,
    /// Rows of the table of extents, without the sentinel.
    pub extents: u64,
    /// Frames.
    pub frames: u64,
    /// Plain bytes of all frames.
    pub plain_bytes: u64,
    /// What a random read of the frames can cost.
    pub bounds: ReadBounds,
    /// Stored bytes of all frames.
    pub stored_bytes: u64,
    /// Frames that keep references.
    pub frames_with_references: u64,
    /// References kept.
    pub references: u64,
    /// Frames whose references did not pay and were dropped.
    pub frames_references_dropped: u64,
    /// Bytes that the references save, approximately: the size without them is measured by a trial
    /// or estimated.
    pub reference_saved_bytes: u64,
    /// Frames and bytes by category.
    pub categories: Vec<CategoryCounts>,
    /// Pages and bytes by table.
    pub tables: Vec<TableCounts>,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Id of the image, as in its superblock.
    pub image_id: [u8; 16],
    /// Identity of the image, which `--expect` compares.
    pub identity: Identity,
    /// Entries that were left out.
    pub problems: Vec<Problem>,
    /// Entries that were packed although they changed while they were read.
    pub changes: Vec<Change>,
    /// Possible faults of a source as a whole although all of its entries were read.
    pub warnings: Vec<String>,
    /// Files that were read again because they changed while they were read.
    pub files_read_again: u64,
    /// Contents that were stored after one that they resemble.
    pub similar_contents: u64,
    /// Contents that were stored first because a list names them.
    pub contents_stored_first: u64,
    /// Bytes of temporary files.
    pub temporary_file_bytes: u64,
    /// Most plain bytes of frames and their references on their way at a time. It bounds how many
    /// threads compress.
    pub flight_bytes_max: u64,
    /// Processor time by stage. Neither listing the source nor comparing the image with it is part
    /// of it: they come before and after a build.
    pub times: Vec<StageTime>,
    /// Digest of the bytes of each content that was added, as read, by content id less
    /// `first_content`; 32 bytes a content.
    pub content_digests: Vec<ContentDigest>,
    /// Digest of the tree as given: names, attributes and links.
    pub tree_digest: TreeDigest,
}

/// A stage of a build, for counting time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Contents are read, hashed and compared. Where they keep the order of the source, they are
    /// also searched for repeated segments, and cut into frames.
    Read,
    /// Contents are put in order.
    Order,
    /// Contents that were put in order are searched for repeated segments, and cut into frames.
    Segment,
    /// Frames are sketched, and references are chosen.
    Refer,
    /// Frames are compressed.
    Compress,
    /// Metadata tables are made.
    Tables,
    /// The image is hashed and written.
    Write,
}

impl Stage {
    /// All stages, in their order.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Order,
        Self::Segment,
        Self::Refer,
        Self::Compress,
        Self::Tables,
        Self::Write,
    ];

    /// Returns a word for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Order => "order",
            Self::Segment => "segment",
            Self::Refer => "refer",
            Self::Compress => "compress",
            Self::Tables => "tables",
            Self::Write => "write",
        }
    }
}

/// Processor time of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Time of the one thread that decides what goes where. More threads do not shorten it.
    pub deciding: Duration,
    /// Time of work that any thread can do.
    pub helping: Duration,
}

/// Number of entries by kind. A further name of an inode counts as an entry of the inode's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryCounts {
    /// All entries except the root.
    pub total: u64,
    /// Inodes, the root included.
    pub inodes: u64,
    /// Names of regular files.
    pub files: u64,
    /// Directories, the root included.
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

/// Deflate streams that are rebuilt when they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// How many.
    pub streams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that they hold.
    pub plain_bytes: u64,
}

/// Pages and bytes of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCounts {
    /// Name of its schema.
    pub name: &'static str,
    /// Rows, the sentinel included.
    pub rows: u64,
    /// Pages, index pages included.
    pub pages: u64,
    /// Plain bytes of its pages.
    pub plain_bytes: u64,
    /// Stored bytes of its pages.
    pub stored_bytes: u64,
}
