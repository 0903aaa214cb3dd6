//! An open image: where it lies, its newest root, the tables that all snapshots share.
//!
//! Opening reads superblock, trailer and root, three reads for an image of any size, and checks
//! all three; no table page is touched. What the tables say is checked when it is read. An image
//! is immutable once open: bytes appended to its file later are not seen.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use shale_format::schema::{contents, extents, frames, references};
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::{Identity, MerkleHead, Root, SectionHeader, Snapshot, Superblock, Trailer};

use crate::cache::FrameCache;
use crate::counters::Counters;
use crate::error::{Fault, Place, ReadError, contradiction};
use crate::pages::{PageStore, TableHandle};
use crate::prefetch::Prefetch;
use crate::sections::{self, SectionWalk};
use crate::source::{SliceSource, Source};
use crate::stored::Stored;
use crate::tree::Tree;
use crate::trust::heal::{HealingSource, Log, Trail};
use crate::trust::merkle::{self, ProvenSource, identity_of};
use crate::trust::parity;
use crate::workers::Workers;

/// Where in its source an image begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OffsetChoice {
    /// At the start; else where the trailer at the end of the source says; else where the first
    /// superblock in the first 64 MiB is.
    #[default]
    Auto,
    /// At this offset in bytes.
    At(u64),
}

/// Which snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SnapshotChoice {
    /// The newest, which is the last.
    #[default]
    Newest,
    /// By number from 0, the oldest.
    Index(usize),
    /// By name; of several of the same name the newest.
    Name(Vec<u8>),
}

/// How an image is opened and how much memory it may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the image begins.
    pub offset: OffsetChoice,
    /// A frame cache shared with other images.
    pub cache: Option<Arc<FrameCache>>,
    /// Bytes of the frame cache that is made for this image if `cache` is none.
    pub cache_bytes_max: u64,
    /// Bytes of this image's cache of table pages.
    pub page_cache_bytes_max: u64,
    /// Most plain bytes that reading one frame may decode, its references and theirs included. No
    /// image that `shale create` makes comes near the default; a hostile one could otherwise make
    /// one read take hours.
    pub read_bytes_max: u64,
    /// Threads that decode beside those that read. Without them, nothing is decoded ahead.
    pub workers: Option<Arc<Workers>>,
    /// Bytes that are decoded ahead of a reader that goes on from where it was; 0 is none.
    pub prefetch_bytes_max: u64,
    /// Only the image of this identity is opened, and every byte that is used of it is verified
    /// against it, whoever made it and whatever happened to it on the way.
    pub expect: Option<Identity>,
    /// Repair damage while reading, in memory, if the image has parity.
    pub repair: bool,
    /// Bytes of repaired leaves that are kept. With fewer a read may have to repair again what an
    /// earlier one did, and is still given all that it needs.
    pub repaired_bytes_max: u64,
    /// Where repairs are told.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            offset: OffsetChoice::Auto,
            cache: None,
            cache_bytes_max: 256 << 20,
            page_cache_bytes_max: 64 << 20,
            read_bytes_max: 512 << 20,
            workers: None,
            prefetch_bytes_max: 4 << 20,
            expect: None,
            repair: true,
            repaired_bytes_max: 256 << 20,
            log: None,
        }
    }
}

/// Tells that the source does not end with a valid trailer, so an earlier state of the image was
/// opened: an append was interrupted, or other bytes follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of the state that was opened.
    pub image_len: u64,
    /// Bytes from the start of the image to the end of the source.
    pub found_len: u64,
    /// What was found behind the last whole section.
    pub reason: String,
}

/// An open image. Shared by reference count; usable from many threads.
pub struct Image {
    number: u64,
    /// What tables and frames may lie in: if an identity is expected, only what it covers.
    pub(crate) stored: Stored,
    /// The image to the end of its trailer.
    whole: Stored,
    superblock: Superblock,
    trailer: Trailer,
    recovery: Option<Recovery>,
    root: Root,
    cache: Arc<FrameCache>,
    pages: Arc<PageStore>,
    read_bytes_max: u64,
    /// For jobs that must not keep the image alive.
    pub(crate) me: Weak<Image>,
    pub(crate) workers: Option<Arc<Workers>>,
    pub(crate) prefetch: Prefetch,
    pub(crate) contents: TableHandle,
    pub(crate) extents: TableHandle,
    pub(crate) frames: TableHandle,
    pub(crate) references: TableHandle,
}

impl Image {
    /// Opens the image in `source`.
    ///
    /// Three reads if the image begins the source and is whole. A few more if other data precedes
    /// it (up to 65 if it has to be searched for); one per section if its end is missing.
    ///
    /// An image that cannot be opened as it is, or only in an earlier state, is opened through its
    /// parity if it has some and [`Options::repair`] is set; looking for it may read all of the
    /// source.
    pub fn open(source: Arc<dyn Source>, options: Options) -> Result<Arc<Self>, ReadError> {
        let error = match Found::locate(&source, options.offset) {
            Ok(found) => match Self::open_found(&source, found, &options) {
                Ok(image) => return Ok(image),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if !options.repair || !(error.is_corrupt() || error.is_lost()) {
            return Err(error);
        }
        let start = match options.offset {
            OffsetChoice::At(start) => start,
            // An image stored inside this one must not be taken for it.
            OffsetChoice::Auto => 0,
        };
        let Some(parity) = parity::find(&source, Some(start), None) else { return Err(error) };
        let end = start + parity.image_len();
        let kept = options.repaired_bytes_max;
        let healing: Arc<dyn Source> =
            Arc::new(HealingSource::forced(source, parity, kept, options.log.clone()));
        let at = OffsetChoice::At(start);
        let opened = Found::locate(&healing, at)
            .and_then(|found| Self::open_found(&healing, found, &options));
        match opened {
            // What was appended later may be what is damaged.
            Err(_) if healing.len() > end => {
                let healing: Arc<dyn Source> = Arc::new(SliceSource::new(healing, 0, end));
                let found = Found::locate(&healing, at)?;
                Self::open_found(&healing, found, &options)
            }
            opened => opened,
        }
    }

    fn open_found(
        source: &Arc<dyn Source>,
        found: Found,
        options: &Options,
    ) -> Result<Arc<Self>, ReadError> {
        let Found { start, superblock, trailer, mut recovery, .. } = found;
        let counters = found.stored.counters();
        let tag = superblock.image_tag();
        let mut source = Arc::clone(source);
        if options.repair {
            let trail = match &recovery {
                Some(recovery) => Trail::Broken(start + recovery.image_len),
                None => Trail::Whole(trailer, tag),
            };
            let kept = options.repaired_bytes_max;
            source = Arc::new(HealingSource::new(source, start, trail, kept, options.log.clone()));
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
        let cache =
            options.cache.clone().unwrap_or_else(|| FrameCache::new(options.cache_bytes_max));
        let decoders = Arc::clone(&cache.decoders);
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

        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let (contents, extents, frames, references) = (
            table(root.contents, &contents::SCHEMA),
            table(root.extents, &extents::SCHEMA),
            table(root.frames, &frames::SCHEMA),
            table(root.references, &references::SCHEMA),
        );
        Ok(Arc::new_cyclic(|me| Self {
            number: NUMBERS.fetch_add(1, Relaxed),
            contents,
            extents,
            frames,
            references,
            stored,
            whole,
            superblock,
            trailer,
            recovery,
            root,
            cache,
            pages,
            read_bytes_max: options.read_bytes_max,
            me: Weak::clone(me),
            workers: options.workers.clone(),
            prefetch: Prefetch::new(options.prefetch_bytes_max),
        }))
    }

    /// The head of the Merkle tree of the image, and its identity; none before format 0.2. Two
    /// reads. Nothing vouches for it but the sum of its section: it says which image this claims to
    /// be, and [`Options::expect`] holds it to that.
    pub fn identity(&self) -> Result<Option<(MerkleHead, Identity)>, ReadError> {
        let found = merkle::find(&self.whole, &self.trailer, self.superblock.image_tag())?;
        Ok(found.map(|found| (found.head, identity_of(&found.head))))
    }

    /// A number that no other image opened by this process has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where the image begins in its source.
    pub fn offset(&self) -> u64 {
        self.stored.start()
    }

    /// Bytes of the image, from superblock to the end of the trailer it was opened with.
    pub fn len(&self) -> u64 {
        self.whole.len()
    }

    /// Never: an image has at least a superblock and a trailer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The trailer it was opened with.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The root it was opened with: bounds, tables, snapshots.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The snapshots, oldest first; at least one.
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.root.snapshots
    }

    /// Says so if the source does not end with the state that was opened.
    pub fn recovered(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// What reading has cost so far.
    pub fn counters(&self) -> &Arc<Counters> {
        self.stored.counters()
    }

    /// The frame cache in use.
    pub fn cache(&self) -> &Arc<FrameCache> {
        &self.cache
    }

    /// Bytes of memory that this image's cached table pages take.
    pub fn page_cache_bytes(&self) -> u64 {
        self.pages.bytes()
    }

    /// Most plain bytes that reading one frame may decode.
    pub fn read_bytes_max(&self) -> u64 {
        self.read_bytes_max
    }

    /// Gives back the memory of this image's cached pages and frames, as far as no reader holds it.
    pub fn clear_caches(&self) {
        self.pages.clear();
        self.cache.forget(self.number);
        self.cache.decoders.clear();
    }

    /// One snapshot's tree. Reads nothing.
    pub fn tree(self: &Arc<Self>, choice: &SnapshotChoice) -> Result<Tree, ReadError> {
        let snapshots = self.snapshots();
        let (index, wanted) = match choice {
            SnapshotChoice::Newest => (snapshots.len().checked_sub(1), String::new()),
            SnapshotChoice::Index(index) => (Some(*index), format!("number {index}")),
            SnapshotChoice::Name(name) => (
                snapshots.iter().rposition(|snapshot| snapshot.name == *name),
                format!("named `{}`", name.escape_ascii()),
            ),
        };
        let snapshot_count = snapshots.len() as u64;
        match index.and_then(|index| snapshots.get(index)) {
            Some(snapshot) => Ok(Tree::new(Arc::clone(self), &self.pages, snapshot)),
            None => Err(Fault::NoSnapshot { wanted, snapshot_count }.into()),
        }
    }

    /// Section headers from the superblock to the trailer; one read each.
    pub fn sections(&self) -> SectionWalk<'_> {
        SectionWalk::new(&self.whole, self.superblock.image_tag())
    }

    /// The payload of a section, verified against its checksum and decoded; refused where it is
    /// longer than `len_max`, stored or plain.
    pub fn section_payload(
        &self,
        header: &SectionHeader,
        len_max: u64,
    ) -> Result<Vec<u8>, ReadError> {
        sections::read_payload(&self.whole, header, len_max, &self.cache.decoders)
            .at(|| format!("section at offset {}", header.offset))
    }

    /// Fills `buf` with stored bytes of the image from `offset`, as they are: nothing vouches for
    /// them. For digests over the whole image and for dumps.
    pub fn read_stored(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.whole.read_into(offset, buf)
    }

    pub(crate) fn page_store(&self) -> &Arc<PageStore> {
        &self.pages
    }
}

/// An image that was found in a source, and not opened yet.
struct Found {
    start: u64,
    /// From the start of the image to the end of the source.
    stored: Stored,
    superblock: Superblock,
    trailer: Trailer,
    recovery: Option<Recovery>,
}

impl Found {
    fn locate(source: &Arc<dyn Source>, choice: OffsetChoice) -> Result<Self, ReadError> {
        let counters = Arc::new(Counters::default());
        let whole = Stored::new(Arc::clone(source), 0, Arc::clone(&counters));
        let (start, superblock) = sections::locate(&whole, choice)?;
        let stored = Stored::new(Arc::clone(source), start, counters);
        let (trailer, recovery) = sections::find_trailer(&stored, &superblock)?;
        Ok(Self { start, stored, superblock, trailer, recovery })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // In a shared cache, nobody will ask for these again.
        self.cache.forget(self.number);
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("number", &self.number)
            .field("offset", &self.offset())
            .field("trailer", &self.trailer)
            .finish_non_exhaustive()
    }
}
