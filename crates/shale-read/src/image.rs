//! An open image: where it lies, its newest root, the tables that all snapshots share.
//!
//! Opening reads superblock, trailer and root (three reads for an image of any size) and checks all
//! three. It touches no table page; tables are checked when they are read. An open image is
//! immutable: bytes appended to its file later are not seen.
//!
//! The layers below answer for frames and contents; this file states what they promise.
//! [`crate::Tree`] keeps its image open, so it comes after this file.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shale_format::schema::{chunks, contents, extents, frames, references};
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::{
    ChunkRecord, FrameRecord, Identity, MerkleHead, Root, SectionHeader, Snapshot, Superblock,
    Trailer,
};

use crate::content::chunks::ChunkTable;
use crate::content::map::{ContentMap, Pieces, Unit};
use crate::content::store::ContentStore;
use crate::counters::Counters;
use crate::error::{ErrorContext, Fault, ReadError, contradiction};
use crate::files::open_file;
use crate::frames::cache::FrameCache;
use crate::frames::part::FrameBytes;
use crate::frames::records::{FrameRecords, FrameTables, References};
use crate::frames::store::{FrameStore, ReadCost};
use crate::options::{Options, SnapshotChoice};
use crate::storage::open::{LocatedImage, OffsetChoice, Recovery};
use crate::storage::pages::{PageStore, TableHandle, TablePages};
use crate::storage::plan::Plan;
use crate::storage::sections::{self, SectionWalk};
use crate::storage::source::{ByteSource, SliceSource};
use crate::storage::stored::Stored;
use crate::storage::tables::{PageCheck, TableId, check_table, tables_of};
use crate::trust::heal::{HealingSource, ParityHint};
use crate::trust::merkle::{self, ProvenSource, identity_of};
use crate::trust::parity;
use shale_format::merkle::{HASH_LEN, HashRuns};

/// An open image. Shared by reference count; usable from many threads.
///
/// ```
/// use shale_read::{Image, SnapshotChoice};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/0.3-tiny.shale");
/// let image = Image::open_path(path)?;
/// println!("{} bytes, {} snapshots", image.len(), image.snapshots().len());
/// let tree = image.tree(&SnapshotChoice::Newest)?;
/// assert_eq!(tree.attributes(tree.root_inode())?.permissions, 0o755);
/// # Ok::<(), shale_read::ReadError>(())
/// ```
pub struct Image {
    /// The image to the end of its trailer.
    whole: Stored,
    superblock: Superblock,
    trailer: Trailer,
    recovery: Option<Recovery>,
    root: Root,
    pages: Arc<PageStore>,
    contents: Arc<ContentStore>,
}

/// Opening.
impl Image {
    /// Opens the image in the file or block device at `path`, with default [`Options`]. Its other
    /// parts, and the base of a thin image, are looked for beside it.
    ///
    /// For other options, use [`Image::open`] with what [`crate::files::open_file`] returns.
    ///
    /// # Errors
    /// [`Fault::Open`] if the file cannot be opened, otherwise as [`crate::files::open_file`] and
    /// [`Image::open`].
    pub fn open_path(path: impl AsRef<Path>) -> Result<Arc<Self>, ReadError> {
        Self::open(open_file(path)?.source, Options::default())
    }

    /// Opens the image in `source`.
    ///
    /// Three reads if the image begins the source and is complete. A few more if other data
    /// precedes it (up to 65 if it must be searched); one per section if its end is missing.
    ///
    /// If the image cannot be opened as it is, and it has parity and [`Options::repair`] is set, it
    /// is opened through its parity. Finding the parity may read the whole source.
    ///
    /// # Errors
    /// The source cannot be read or holds no image, the image is damaged, needs a newer reader or
    /// has another identity than expected.
    pub fn open(source: Arc<dyn ByteSource>, options: Options) -> Result<Arc<Self>, ReadError> {
        let error = match LocatedImage::find(&source, options.offset) {
            Ok(found) => match Self::open_located(&source, found, &options) {
                Ok(image) => return Ok(image),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if !options.repair || !(error.is_corrupt() || error.is_lost()) {
            return Err(error);
        }
        if source.is_far() && matches!(error.fault(), Fault::NotImage { .. }) {
            return Err(error); // Looking for parity may read everything, and any URL may be given.
        }
        let start = match options.offset {
            OffsetChoice::At(start) => start,
            // An image stored inside this one must not be mistaken for it.
            OffsetChoice::Auto => 0,
        };
        let Some(parity) = parity::find(&source, Some(start), None) else { return Err(error) };
        let end = start + parity.image_len();
        let kept = options.repaired_bytes_max;
        let healing: Arc<dyn ByteSource> =
            Arc::new(HealingSource::forced(source, parity, kept, options.log.clone()));
        let at = OffsetChoice::At(start);
        let opened = LocatedImage::find(&healing, at)
            .and_then(|found| Self::open_located(&healing, found, &options));
        match opened {
            // Bytes appended after the parity may be the damaged ones.
            Err(_) if healing.len() > end => {
                let healing: Arc<dyn ByteSource> = Arc::new(SliceSource::new(healing, 0, end));
                let found = LocatedImage::find(&healing, at)?;
                Self::open_located(&healing, found, &options)
            }
            opened => opened,
        }
    }

    fn open_located(
        source: &Arc<dyn ByteSource>,
        found: LocatedImage,
        options: &Options,
    ) -> Result<Arc<Self>, ReadError> {
        let LocatedImage { start, superblock, trailer, mut recovery, .. } = found;
        let counters = found.stored.counters();
        let tag = superblock.image_tag();
        let mut source = Arc::clone(source);
        if options.repair {
            let hint = match &recovery {
                Some(recovery) => ParityHint::End(start + recovery.image_len),
                None => ParityHint::Trailer(trailer, tag),
            };
            let kept = options.repaired_bytes_max;
            source = Arc::new(HealingSource::new(source, start, hint, kept, options.log.clone()));
        }
        let whole = Stored::new(Arc::clone(&source), start, Arc::clone(counters));
        let whole = whole.first(trailer.image_len);
        let mut stored = whole.clone();
        if let Some(expected) = options.expect {
            let Some(tree) = merkle::find(&whole, &trailer, tag)? else {
                return Err(Fault::NoIdentity { expected }.into());
            };
            let found = identity_of(&tree.head);
            if found != expected {
                return Err(Fault::Identity { expected, found }.into());
            }
            let MerkleHead { root_offset, root_section_len, covered_len, .. } = tree.head;
            if (trailer.root_offset, trailer.root_section_len) != (root_offset, root_section_len) {
                return Err(contradiction("the trailer leads to another root than the identity"));
            }
            let proven = Arc::new(ProvenSource::new(source, start, &tree));
            stored = Stored::new(proven, start, Arc::clone(counters)).first(covered_len);
            let mut bytes = [0; SUPERBLOCK_LEN];
            stored.read_into(0, &mut bytes)?;
            if Superblock::decode(&bytes, shale_codec::xxh3_64)? != superblock {
                return Err(contradiction("the superblock is another than the identity says"));
            }
        }
        if let Some(mut plan) = Plan::new(&stored) {
            plan.add(trailer.root_offset, trailer.root_section_len);
            plan.tell();
        }
        let cache =
            options.cache.clone().unwrap_or_else(|| FrameCache::new(options.cache_bytes_max));
        let decoders = Arc::clone(cache.decoders());
        let root = match sections::read_root(&stored, &trailer, tag, &decoders) {
            Err(error) if options.expect.is_none() && trailer.merkle_offset > 0 => {
                let Ok(root) = sections::read_second_root(&whole, &trailer, tag, &decoders) else {
                    return Err(error);
                };
                recovery = recovery.or_else(|| {
                    let image_len = trailer.image_len;
                    let reason = format!("the second root is used: {error}");
                    Some(Recovery { image_len, found_len: found.stored.len(), reason })
                });
                root
            }
            root => root?,
        };
        let pages = PageStore::new(stored.clone(), decoders, options.page_cache_bytes_max);
        let pages = Arc::new(pages);
        let table = |root, schema| TableHandle::new(&pages, root, schema);
        let frame_tables = FrameTables::new(
            table(root.frames, &frames::SCHEMA),
            table(root.references, &references::SCHEMA),
            stored,
        );
        let frame_store = FrameStore::new(
            next_number(),
            frame_tables,
            cache,
            options.workers.clone(),
            options.read_bytes_max,
        );
        let map = ContentMap::new(
            table(root.contents, &contents::SCHEMA),
            table(root.extents, &extents::SCHEMA),
            ChunkTable::new(table(root.chunks, &chunks::SCHEMA)),
            frame_store,
        );
        let contents = ContentStore::new(map, options.prefetch_bytes_max);
        Ok(Arc::new(Self { whole, superblock, trailer, recovery, root, pages, contents }))
    }
}

/// What the image is.
impl Image {
    /// The head of the image's Merkle tree and its identity; `None` before format 0.2. Two reads.
    ///
    /// The head is verified against the checksum of its section only. It states which image this
    /// claims to be; [`Options::expect`] enforces the claim.
    ///
    /// # Errors
    /// The Merkle section is damaged or cannot be read.
    pub fn identity(&self) -> Result<Option<(MerkleHead, Identity)>, ReadError> {
        let found = merkle::find(&self.whole, &self.trailer, self.superblock.image_tag())?;
        Ok(found.map(|found| (found.head, identity_of(&found.head))))
    }

    /// Where the hashes of the image's Merkle tree lie, with its head; `None` before format 0.2.
    /// Two or three reads. Neither is verified.
    ///
    /// # Errors
    /// The Merkle section is damaged or cannot be read.
    pub fn hash_runs(&self) -> Result<Option<(MerkleHead, HashRuns)>, ReadError> {
        let found = merkle::find(&self.whole, &self.trailer, self.superblock.image_tag())?;
        Ok(found.map(|found| (found.head, found.runs)))
    }

    /// The hashes of the whole leaves that the Merkle tree covers, compared with its top; none
    /// before format 0.2. An append goes on with the leaf after them. Takes 32 bytes for each 64
    /// KiB of the image.
    ///
    /// # Errors
    /// The Merkle section or one that it refers to is damaged or cannot be read.
    pub fn leaf_hashes(&self) -> Result<Vec<[u8; HASH_LEN]>, ReadError> {
        let found = merkle::find(&self.whole, &self.trailer, self.superblock.image_tag())?;
        found.map_or(Ok(Vec::new()), |found| merkle::leaf_hashes(&self.whole, &found))
    }

    /// A number that no other image opened by this process has.
    pub fn number(&self) -> u64 {
        self.frames().image_number()
    }

    /// Where the image begins in its source.
    pub fn offset(&self) -> u64 {
        self.whole.start()
    }

    /// Length of the image in bytes, from the superblock to the end of the trailer that was opened.
    pub fn len(&self) -> u64 {
        self.whole.len()
    }

    /// Always false: an image has at least a superblock and a trailer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The trailer that the image was opened with.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The root that the image was opened with: bounds, tables, snapshots.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The snapshots, oldest first; at least one.
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.root.snapshots
    }

    /// Returns the number of a snapshot, from 0.
    ///
    /// # Errors
    /// [`Fault::NoSnapshot`] if there is none.
    pub fn snapshot_number(&self, choice: &SnapshotChoice) -> Result<usize, ReadError> {
        choice.index(self.snapshots())
    }

    /// Describes the recovery, if an earlier state was opened.
    pub fn recovered(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }
}

/// Caches and counters.
impl Image {
    /// What reading has cost so far.
    pub fn counters(&self) -> &Arc<Counters> {
        self.whole.counters()
    }

    /// The frame cache in use.
    pub fn cache(&self) -> &Arc<FrameCache> {
        self.frames().cache()
    }

    /// Bytes of memory used by this image's cached table pages.
    pub fn page_cache_bytes(&self) -> u64 {
        self.pages.bytes()
    }

    /// Most plain bytes that reading one frame may decode.
    pub fn read_bytes_max(&self) -> u64 {
        self.frames().read_bytes_max()
    }

    /// Frees the memory of this image's cached pages and frames that no reader holds.
    pub fn clear_caches(&self) {
        self.pages.clear();
        self.frames().clear();
    }
}

/// Contents: the bytes of files, by content number.
impl Image {
    /// Number of contents, all snapshots together. Content 0 is the empty one.
    pub fn content_count(&self) -> u64 {
        self.contents.content_count()
    }

    /// Length of a content in bytes. Touches one or two pages.
    ///
    /// # Errors
    /// There is no such content, or its row is damaged.
    pub fn content_len(&self, content: u64) -> Result<u64, ReadError> {
        self.contents.content_len(content)
    }

    /// The layout of `range` of a content, clipped to the content: cut at extents and frames.
    ///
    /// # Errors
    /// There is no such content, or its row is damaged. Damage of extents and frames is an error of
    /// the iterator.
    pub fn pieces(&self, content: u64, range: Range<u64>) -> Result<Pieces<'_>, ReadError> {
        self.contents.pieces(content, range)
    }

    /// Fills `buf` with a content's bytes from `offset`. Returns the number of bytes read, which is
    /// less than asked for only at the end. After an error the bytes in `buf` are undefined.
    ///
    /// # Errors
    /// There is no such content, or a page or frame that the range needs is damaged.
    pub fn read_content(
        &self,
        content: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, ReadError> {
        self.contents.read(content, offset, buf)
    }

    /// As [`Image::read_content`], but gives the bytes to `take`, slice after slice, instead of
    /// copying them: for a target that a buffer would have to be copied to.
    ///
    /// # Errors
    /// As [`Image::read_content`].
    pub fn read_content_with(
        &self,
        content: u64,
        range: Range<u64>,
        take: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        self.contents.read_with(content, range, take)
    }

    /// Where a content is stored, as a number to sort by: contents that are read in this order have
    /// their frames decoded about once. The greatest number if nothing of its beginning is stored.
    /// Touches a page of contents and one or two of extents; decodes nothing.
    ///
    /// # Errors
    /// The number is beyond the contents of the image, or one of the first extents is damaged.
    pub fn content_place(&self, content: u64) -> Result<u64, ReadError> {
        self.contents.place(content)
    }

    /// Calls `visit` with the bytes of `range` of a content, slice after slice, until it returns
    /// false. Copies nothing: slices are parts of decoded frames, or zeroes.
    ///
    /// # Errors
    /// As [`Image::read_content`].
    pub fn visit_content(
        &self,
        content: u64,
        range: Range<u64>,
        visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        self.contents.visit(content, range, visit)
    }

    /// Bytes of a content that are not in holes: see [`crate::Tree::data_len`].
    ///
    /// # Errors
    /// There is no such content, or one of its extents is damaged.
    pub fn content_data_len(&self, content: u64) -> Result<u64, ReadError> {
        self.contents.data_len(content)
    }
}

/// Chunks of deflate streams, which are rebuilt.
impl Image {
    /// Number of chunks, all snapshots together.
    pub fn chunk_count(&self) -> u64 {
        self.contents.chunks().count()
    }

    /// The record of a chunk: what it is rebuilt from. Touches one or two pages.
    ///
    /// # Errors
    /// There is no such chunk, or its record is damaged.
    pub fn chunk_record(&self, chunk: u64) -> Result<ChunkRecord, ReadError> {
        self.contents.chunks().record(chunk)
    }

    /// The bytes of a frame or a chunk, cached, or decoded or rebuilt now.
    ///
    /// For a frame, see [`Image::frame`]. For a chunk that is not cached, this reads at most 1.1
    /// MiB of a content, as [`Image::read_content`] does, and searches it for matches as the
    /// encoder of the stream did. The checksum of the result is verified.
    ///
    /// # Errors
    /// There is no such frame or chunk, it or what it needs is damaged, or the encoder of the
    /// stream is unknown to this version.
    pub fn unit(&self, unit: Unit) -> Result<FrameBytes, ReadError> {
        self.contents.unit(unit)
    }
}

/// Frames.
impl Image {
    /// Number of frames, all snapshots together.
    pub fn frame_count(&self) -> u64 {
        self.frames().tables().frame_count()
    }

    /// The record of a frame: where it is stored and how it decodes. Touches one or two pages.
    /// Every field is checked against limits, tables and image.
    ///
    /// # Errors
    /// There is no such frame, or its record is damaged.
    pub fn frame_record(&self, frame: u64) -> Result<FrameRecord, ReadError> {
        self.frames().record(frame)
    }

    /// The records of `frames`, in order, clipped to the frames that exist. A damaged record is an
    /// error of its item; the iteration continues after it.
    pub fn frame_records(&self, frames: Range<u64>) -> FrameRecords<'_> {
        self.frames().records(frames)
    }

    /// The frames that `record` refers to, each of which exists. Touches one or two pages if there
    /// are any.
    ///
    /// # Errors
    /// The table of references is damaged, or names a frame that does not exist.
    pub fn references(&self, record: &FrameRecord) -> Result<References, ReadError> {
        self.frames().references(record)
    }

    /// The plain bytes of a frame, cached or decoded now.
    ///
    /// If it is not cached, this costs one read and one decode, and the same for each reference
    /// that is not cached: at most [`Options::read_bytes_max`] plain bytes in all. The checksums of
    /// their stored and plain bytes are verified.
    ///
    /// # Errors
    /// There is no such frame, it or a reference is damaged, or the limit is reached.
    pub fn frame(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        self.frames().frame(frame)
    }

    /// As [`Image::frame`], but always reads, decodes and verifies the frame itself, and does not
    /// cache it. Its references go through the cache, because many frames share them.
    ///
    /// # Errors
    /// As [`Image::frame`].
    pub fn frame_verified(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        self.frames().frame_verified(frame)
    }

    /// What reading one byte of a frame costs with an empty cache. Reads records and references of
    /// the frame and of all that it needs, and no frame.
    ///
    /// # Errors
    /// Whatever [`Image::frame`] would refuse without decoding: references that do not decrease in
    /// depth, and more than the limits of one read.
    pub fn read_cost(&self, frame: u64) -> Result<ReadCost, ReadError> {
        self.frames().read_cost(frame)
    }
}

/// Sections and tables as such, for check and dump.
impl Image {
    /// Section headers from the superblock to the trailer; one read each.
    pub fn sections(&self) -> SectionWalk<'_> {
        SectionWalk::new(&self.whole, self.superblock.image_tag())
    }

    /// The header of the section at `offset`; `None` if that is 0, which names no section.
    ///
    /// # Errors
    /// There is no valid section header.
    pub fn section_at(&self, offset: u64) -> Result<Option<SectionHeader>, ReadError> {
        match offset {
            0 => Ok(None),
            _ => sections::read_header(&self.whole, offset, self.superblock.image_tag())
                .map(Some)
                .at(|| format!("section at offset {offset}")),
        }
    }

    /// The payload of a section, verified against its checksum and decoded.
    ///
    /// # Errors
    /// The payload is damaged, or longer than `len_max`, stored or plain.
    pub fn section_payload(
        &self,
        header: &SectionHeader,
        len_max: u64,
    ) -> Result<Vec<u8>, ReadError> {
        sections::read_payload(&self.whole, header, len_max, self.cache().decoders())
            .at(|| format!("section at offset {}", header.offset))
    }

    /// Fills `buf` with stored bytes of the image from `offset`, unverified: for digests over the
    /// whole image and for dumps.
    ///
    /// # Errors
    /// The range is not inside the image, or the source cannot be read.
    pub fn read_stored(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.whole.read_into(offset, buf)
    }

    /// Every table of the image: the shared ones, then each snapshot's.
    pub fn tables(&self) -> Vec<TableId> {
        tables_of(&self.root)
    }

    /// The pages of a table, to read it with [`shale_table::Table`].
    pub fn table_pages(&self, table: &TableId) -> TablePages {
        TablePages::new(Arc::clone(&self.pages), &table.root)
    }

    /// Reads and verifies every page of a table, index pages before the pages they lead to, and
    /// calls `visit` with each until it returns false. A damaged data page is visited as such.
    ///
    /// One read per page; index pages are read twice. Data pages are not cached.
    ///
    /// # Errors
    /// An index page is damaged, so the pages that it leads to cannot be found.
    pub fn check_table(
        &self,
        table: &TableId,
        visit: impl FnMut(PageCheck) -> bool,
    ) -> Result<(), ReadError> {
        check_table(&self.table_pages(table), table, visit)
    }
}

/// For [`crate::Tree`].
impl Image {
    pub(crate) fn contents(&self) -> &Arc<ContentStore> {
        &self.contents
    }

    pub(crate) fn page_store(&self) -> &Arc<PageStore> {
        &self.pages
    }

    fn frames(&self) -> &FrameStore {
        self.contents.frames()
    }
}

/// The next image's number in this process.
fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Relaxed)
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("number", &self.number())
            .field("offset", &self.offset())
            .field("trailer", &self.trailer)
            .finish_non_exhaustive()
    }
}
