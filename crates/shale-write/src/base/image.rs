//! The image that a build continues, as the writer sees it.
//!
//! The writer does not know the reader. [`Base`] says what it asks of the image; the facade answers
//! with the reader. Nothing of the image is changed: the build writes after its end, and rows,
//! frames and contents that are new get the numbers after the last ones.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use shale_codec::merkle::LeafHasher;
use shale_format::limits::ROOT_DEPTH_MAX;
use shale_format::merkle::HashRuns;
use shale_format::{AppendIndex, EarlierRoot, MerkleHead, Root};
use shale_table::{Page, PageRef, Schema, TableRoot};

use crate::base::generation::patched_by;
use crate::plan::digest::ContentDigest;
use crate::plan::error::WriteError;

/// Why the image could not be read.
pub type BaseError = Box<dyn Error + Send + Sync>;

impl From<BaseError> for WriteError {
    fn from(error: BaseError) -> Self {
        Self::Base(error)
    }
}

/// The state that is continued: where everything ends.
#[derive(Debug, Clone, Default)]
pub struct BaseState {
    /// ID of the image.
    pub image_id: [u8; 16],
    /// Version in its superblock: its readers know no more than that.
    pub version: (u16, u16),
    /// Bytes of the image: new sections begin here.
    pub image_len: u64,
    /// Sections of the image, its last trailer included.
    pub section_count: u64,
    /// The newest root.
    pub root: Root,
    /// Where that root is. `None` if it is not known.
    pub root_place: Option<EarlierRoot>,
    /// Contents, the empty one included.
    pub content_count: u64,
    /// End of content space.
    pub content_space_len: u64,
    /// End of stream space.
    pub stream_len: u64,
    /// End of rebuilt space.
    pub rebuilt_space_len: u64,
}

impl BaseState {
    /// Number of frames.
    pub(crate) fn frame_count(&self) -> u64 {
        self.root.frames.row_count.saturating_sub(1)
    }

    /// Returns the root that one with `snapshot_count` snapshots names, for the records of older
    /// ones, and those that this one names in turn. None if it has all records itself.
    pub(crate) fn earlier_roots(&self, snapshot_count: usize) -> Vec<EarlierRoot> {
        // Readers of versions before do not look for it.
        let Some(newest) = self.root_place.filter(|_| self.version >= (0, 4)) else {
            return Vec::new();
        };
        let chain: Vec<EarlierRoot> =
            std::iter::once(newest).chain(self.root.earlier.iter().copied()).collect();
        // The first root of an image has generation 0.
        let wanted = patched_by((snapshot_count as u64).saturating_sub(1)) + 1;
        let mut roots = chain.iter().enumerate();
        let fits = |&(nth, root): &(usize, &EarlierRoot)| {
            u64::from(root.snapshot_count) <= wanted && chain.len() - nth <= ROOT_DEPTH_MAX
        };
        roots.find(fits).map(|(nth, _)| chain[nth..].to_vec()).unwrap_or_default()
    }
}

/// One frame of the image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BaseFrame {
    /// Plain bytes.
    pub plain_len: u64,
    /// Longest chain of references below it.
    pub depth: u8,
    /// Frames that it refers to.
    pub references: Vec<u64>,
}

/// An image that a build continues. Any thread may ask.
pub trait Base: Send + Sync {
    /// Where everything ends.
    fn state(&self) -> &BaseState;

    /// Returns the hashes of the leaves of the whole image so far.
    ///
    /// # Errors
    /// The image cannot be read.
    fn leaves(&self) -> Result<LeafHasher, BaseError>;

    /// Returns the head of the Merkle tree of the image, and where its hashes lie: an append need
    /// not store these again. `None` if there is no tree, or if readers of the version of the image
    /// do not look for hashes in several sections.
    ///
    /// # Errors
    /// The image cannot be read.
    fn hash_runs(&self) -> Result<Option<(MerkleHead, HashRuns)>, BaseError>;

    /// Returns the length of a content.
    ///
    /// # Errors
    /// There is no such content, or the image cannot be read.
    fn content_len(&self, content: u64) -> Result<u64, BaseError>;

    /// Returns the contents of this length, ascending.
    ///
    /// # Errors
    /// The image cannot be read.
    fn contents_of_len(&self, len: u64) -> Result<Vec<u64>, BaseError>;

    /// Returns whether a content has these bytes and holes. The answer is a fact about the bytes of
    /// the image: they are read and compared by digest, at the latest now.
    ///
    /// # Errors
    /// The image cannot be read.
    fn content_is(
        &self,
        content: u64,
        digest: &ContentDigest,
        holes: &[Range<u64>],
    ) -> Result<bool, BaseError>;

    /// Returns the digest of a content, which is read for it.
    ///
    /// # Errors
    /// The image cannot be read.
    fn content_digest(&self, content: u64) -> Result<ContentDigest, BaseError>;

    /// Returns the greatest depth of the chunks that a content is rebuilt from; 0 if it is not.
    ///
    /// # Errors
    /// The image cannot be read.
    fn content_depth(&self, content: u64) -> Result<u64, BaseError>;

    /// Returns all frames, in order.
    ///
    /// # Errors
    /// The image cannot be read.
    fn frames(&self) -> Result<Vec<BaseFrame>, BaseError>;

    /// Returns the plain bytes of a frame.
    ///
    /// # Errors
    /// The image cannot be read.
    fn frame(&self, frame: u64) -> Result<Arc<Vec<u8>>, BaseError>;

    /// Returns the append indexes of the image, as far as they can be read. They are hints.
    ///
    /// # Errors
    /// The image cannot be read.
    fn append_indexes(&self) -> Result<Vec<Arc<AppendIndex>>, BaseError>;

    /// Returns a page of a table of the image.
    ///
    /// # Errors
    /// The image cannot be read.
    fn page(
        &self,
        table: &TableRoot,
        page: &PageRef,
        schema: &'static Schema,
    ) -> Result<Arc<Page>, BaseError>;

    /// Returns the plain bytes of a page of a table of the image.
    ///
    /// # Errors
    /// The image cannot be read.
    fn page_bytes(&self, table: &TableRoot, page: &PageRef) -> Result<Vec<u8>, BaseError>;

    /// Fills `out` with bytes of the image as they are stored.
    ///
    /// # Errors
    /// The image cannot be read.
    fn read_stored(&self, offset: u64, out: &mut [u8]) -> Result<(), BaseError>;
}
