//! Reads an image back and compares it with what was read from the source.
//!
//! It uses the reader, as every later user will, and decodes every frame. The digest of each
//! content and the digest of the tree (names, attributes, xattrs, links) must equal those that the
//! build computed from the source, before anything was packed. Contents are read in order, so
//! frames are decoded about once. Of an image that a build continued, the contents that it held
//! before are not read again: the build read them itself where it took a file to be equal. Memory:
//! the digests in the report and caches, which stay within a share of the memory of the build.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock};

use shale_format::{InodeKind, InodeRecord};
use shale_host::{Cancel, Progress, thread_count, threads};
use shale_read::{
    Attributes, ByteSource, FrameBytes, Image, Options, Piece, ReadError, SnapshotChoice, Tree,
    Xattr,
};
use shale_write::Report;
use shale_write::digest::{
    ContentDigest, ContentHasher, EntryPayload, LinkGroup, PathDigest, TreeDigest, content_digest,
};

use crate::error::Error;

/// Contents longer than this are decoded by all threads together, others by one thread each.
const LARGE_LEN: u64 = 32 << 20;
/// Least bytes of the frame cache: the frames of one read, with what they refer to.
const CACHE_BYTES_MIN: u64 = 24 << 20;
/// Contents that a worker takes at once.
const CONTENTS_TAKEN: u64 = 64;

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Contents whose digest was compared.
    pub contents: u64,
    /// Bytes of these contents, holes included.
    pub content_bytes: u64,
    /// Entries that were compared.
    pub entries: u64,
    /// Frames decoded for the comparison, references included.
    pub frames_decoded: u64,
    /// Bytes that were read of the image.
    pub read_bytes: u64,
}

/// Reads the image in `source` back and compares it with the `report` of its build.
///
/// # Errors
/// [`Error::Verify`] if anything differs or cannot be read; cancellation.
pub fn verify(
    source: Arc<dyn ByteSource>,
    report: &Report,
    build: &shale_write::Options,
    cancel: &Cancel,
    progress: &dyn Progress,
) -> Result<VerifyReport, Error> {
    let image = open_again(source, report, build)?;
    let tree = image.tree(&SnapshotChoice::Newest).map_err(unreadable)?;
    let verifier = Verifier::new(&image, report, cancel, progress);
    let contents = report.content_digests.len() as u64;
    progress.found(contents, verifier.total().map_err(unreadable)?);
    let threads = thread_count(build.threads);
    let entries = std::thread::scope(|scope| {
        let workers = threads::start(scope, threads - 1, || || verifier.small_contents());
        let entries = verifier.tree(&tree, &report.tree_digest);
        verifier.small_contents();
        workers.into_iter().for_each(threads::join);
        entries
    });
    verifier.large_contents(threads);
    let content_bytes = verifier.bytes.load(Ordering::Relaxed);
    verifier.end()?;
    let counters = image.counters().snapshot();
    Ok(VerifyReport {
        contents,
        content_bytes,
        entries,
        frames_decoded: counters.frames_decoded,
        read_bytes: counters.source_bytes,
    })
}

/// Opens the image in `source` again, and compares its length, identity and number of contents with
/// the `report` of its build.
///
/// # Errors
/// [`Error::Verify`] if anything differs or cannot be read.
pub(crate) fn open_again(
    source: Arc<dyn ByteSource>,
    report: &Report,
    build: &shale_write::Options,
) -> Result<Arc<Image>, Error> {
    let found_len = source.len();
    if found_len != report.image_bytes {
        return fail(format!("it is {found_len} bytes, {} were written", report.image_bytes));
    }
    // Damage must be noticed here, not repaired.
    let expect = Some(report.identity);
    let options = within(build, Options::default()).expect(expect).repair(false);
    let image = Image::open(source, options).map_err(unreadable)?;
    if let Some(recovery) = image.recovered() {
        return fail(format!("its newest state is not whole: {}", recovery.reason));
    }
    let contents = report.content_digests.len() as u64;
    let (found, expected) = (image.content_count(), report.first_content + contents);
    if found != expected {
        return fail(format!("it has {found} contents, {expected} were written"));
    }
    Ok(image)
}

/// Compares the trees of an image with their digests, with several threads. Returns the number of
/// entries. Contents count by the digests of the `report`.
///
/// # Errors
/// [`Error::Verify`] if anything differs or cannot be read; cancellation.
pub(crate) fn verify_trees(
    image: &Arc<Image>,
    report: &Report,
    digests: &[TreeDigest],
    build: &shale_write::Options,
    (cancel, progress): (&Cancel, &dyn Progress),
) -> Result<u64, Error> {
    let verifier = Verifier::new(image, report, cancel, progress);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut entries = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(digest) = digests.get(number).filter(|_| !verifier.is_over()) else {
                return entries;
            };
            match image.tree(&SnapshotChoice::Index(number)) {
                Ok(tree) => entries += verifier.tree(&tree, digest),
                Err(error) => verifier.fail(error.to_string()),
            }
        }
    };
    let entries = threads::run(thread_count(build.threads).min(digests.len()), work);
    verifier.end()?;
    Ok(entries.into_iter().sum())
}

pub(crate) fn unreadable(error: ReadError) -> Error {
    Error::Verify { what: error.to_string() }
}

/// Bounds the caches by the memory that the build may use, or that the system allows.
fn within(build: &shale_write::Options, options: Options) -> Options {
    let memory = match (build.memory_bytes_max, build.memory_bytes_there) {
        (0, 0) => return options,
        (0, there) => there,
        (max, _) => max,
    };
    let frames = options.cache_bytes_max.min(memory / 4).max(CACHE_BYTES_MIN);
    let pages = options.page_cache_bytes_max.min(memory / 16).max(CACHE_BYTES_MIN / 4);
    options.cache_bytes_max(frames).page_cache_bytes_max(pages)
}

pub(crate) fn fail<T>(what: String) -> Result<T, Error> {
    Err(Error::Verify { what })
}

struct Verifier<'a> {
    image: &'a Arc<Image>,
    report: &'a Report,
    cancel: &'a Cancel,
    progress: &'a dyn Progress,
    next: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl<'a> Verifier<'a> {
    fn new(
        image: &'a Arc<Image>,
        report: &'a Report,
        cancel: &'a Cancel,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            image,
            report,
            cancel,
            progress,
            next: AtomicU64::new(report.first_content),
            bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Ends the run with its first failure, if there is one.
    fn end(self) -> Result<(), Error> {
        self.cancel.check()?;
        match self.failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(what) => fail(what),
            None => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.cancel.is_cancelled()
    }

    fn fail(&self, what: String) {
        self.failed.store(true, Ordering::Relaxed);
        self.failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(what);
    }

    fn total(&self) -> Result<u64, ReadError> {
        let mut total = 0;
        for content in self.report.first_content..self.image.content_count() {
            total += self.image.content_len(content)?;
        }
        Ok(total)
    }

    fn small_contents(&self) {
        let count = self.image.content_count();
        loop {
            let first = self.next.fetch_add(CONTENTS_TAKEN, Ordering::Relaxed);
            if first >= count {
                return;
            }
            for content in first..(first + CONTENTS_TAKEN).min(count) {
                if self.is_over() {
                    return;
                }
                let result = self.image.content_len(content).and_then(|len| match len {
                    0..=LARGE_LEN => self.hash(content, len).map(|hasher| Some((len, hasher))),
                    _ => Ok(None),
                });
                match result {
                    Ok(Some((len, hasher))) => self.compare(content, len, hasher),
                    Ok(None) => {}
                    Err(error) => self.fail(format!("content {content}: {error}")),
                }
            }
        }
    }

    fn hash(&self, content: u64, len: u64) -> Result<ContentHasher, ReadError> {
        let mut hasher = ContentHasher::new();
        for piece in self.image.pieces(content, 0..len)? {
            let piece = piece?;
            match piece.kind.unit() {
                Some((unit, offset)) => {
                    let bytes = self.image.unit(unit)?;
                    hasher.update(slice(&bytes, offset, piece.len));
                }
                None => hasher.update_zeroes(piece.len),
            }
        }
        Ok(hasher)
    }

    /// Compares long contents one after the other. Hashing is sequential: each of n threads decodes
    /// every n-th piece ahead, and one thread hashes.
    fn large_contents(&self, threads: usize) {
        for content in self.report.first_content..self.image.content_count() {
            if self.is_over() {
                return;
            }
            match self.image.content_len(content) {
                Ok(len) if len > LARGE_LEN => match self.hash_ahead(content, len, threads) {
                    Ok(Some(hasher)) => self.compare(content, len, hasher),
                    Ok(None) => {}
                    Err(error) => self.fail(format!("content {content}: {error}")),
                },
                Ok(_) => {}
                Err(error) => self.fail(format!("content {content}: {error}")),
            }
        }
    }

    /// Returns `None` if the run ends before the content does.
    fn hash_ahead(
        &self,
        content: u64,
        len: u64,
        threads: usize,
    ) -> Result<Option<ContentHasher>, ReadError> {
        type Decoded = Result<(Piece, Option<FrameBytes>), ReadError>;
        std::thread::scope(|scope| {
            let mut ahead = Vec::new();
            // Which pieces a thread decodes depends on how many threads could be started.
            let started = Arc::new(OnceLock::new());
            for turn in 0..threads {
                let (give, take) = sync_channel::<Decoded>(2);
                let count = Arc::clone(&started);
                let decode = move || {
                    let count = *count.wait();
                    let pieces = match self.image.pieces(content, 0..len) {
                        Ok(pieces) => pieces,
                        Err(error) => return drop(give.send(Err(error))),
                    };
                    for piece in pieces.skip(turn).step_by(count) {
                        let decoded = piece.and_then(|piece| match piece.kind.unit() {
                            Some((unit, _)) => Ok((piece, Some(self.image.unit(unit)?))),
                            None => Ok((piece, None)),
                        });
                        // The hasher stopped: an error, or the end of the run.
                        if give.send(decoded).is_err() {
                            return;
                        }
                    }
                };
                if threads::start_one(scope, decode).is_err() {
                    break;
                }
                ahead.push(take);
            }
            if ahead.is_empty() {
                return self.hash(content, len).map(Some);
            }
            let _ = started.set(ahead.len());
            let mut hasher = ContentHasher::new();
            for take in ahead.iter().cycle() {
                if self.is_over() {
                    return Ok(None);
                }
                let Ok(decoded) = take.recv() else { break };
                let (piece, plain) = decoded?;
                match (piece.kind.unit(), plain) {
                    (Some((_, offset)), Some(plain)) => {
                        hasher.update(slice(&plain, offset, piece.len));
                    }
                    _ => hasher.update_zeroes(piece.len),
                }
                self.progress.done(0, piece.len);
            }
            Ok(Some(hasher))
        })
    }

    fn compare(&self, content: u64, len: u64, hasher: ContentHasher) {
        if len <= LARGE_LEN {
            self.progress.done(1, len);
        } else {
            self.progress.done(1, 0);
        }
        self.bytes.fetch_add(len, Ordering::Relaxed);
        let found = hasher.finish();
        if self.digest(content) != Some(found) {
            self.fail(format!("content {content} of {len} bytes is not what the source held"));
        }
    }

    /// The digest that a content must have; one that the image held before the build counts by its
    /// number, as the build did not read it.
    fn digest(&self, content: u64) -> Option<ContentDigest> {
        let first = self.report.first_content;
        match content.checked_sub(first) {
            None if content == 0 => Some(content_digest(&[])),
            None => Some(ContentDigest::held(content)),
            Some(at) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                self.report.content_digests.get(at).copied()
            }
        }
    }

    /// Compares the digest of a tree and returns the number of its entries.
    fn tree(&self, tree: &Tree, expected: &TreeDigest) -> u64 {
        match self.tree_digest(tree) {
            Ok(Some(digest)) => {
                if digest != *expected {
                    self.fail(format!(
                        "names, attributes or links are not what the source had ({} entries \
                         found, {} written)",
                        digest.entry_count, expected.entry_count
                    ));
                }
                digest.entry_count
            }
            Ok(None) => 0,
            Err(error) => {
                self.fail(error.to_string());
                0
            }
        }
    }

    fn tree_digest(&self, tree: &Tree) -> Result<Option<TreeDigest>, ReadError> {
        let mut digest = TreeDigest::default();
        let mut groups: HashMap<u64, LinkGroup> = HashMap::new();
        // Path digests of the parents, by depth.
        let mut above: Vec<PathDigest> = Vec::new();
        let mut xattrs: (u64, Vec<Xattr>) = (0, Vec::new());
        let mut walk = tree.walk(tree.root_inode())?;
        while let Some(visit) = walk.advance()? {
            if self.is_over() {
                return Ok(None);
            }
            let attributes = &visit.attributes;
            let name = visit.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            above.truncate(visit.depth);
            let parent = above.last().copied().unwrap_or(PathDigest::ROOT);
            if attributes.xattr_set != xattrs.0 {
                let items = match attributes.xattr_set {
                    0 => Vec::new(),
                    _ => tree.xattrs(attributes.inode)?,
                };
                xattrs = (attributes.xattr_set, items);
            }
            let (target, content);
            let payload = match attributes.kind {
                InodeKind::File => {
                    content = self.digest(attributes.payload);
                    match &content {
                        Some(digest) => EntryPayload::Content(digest),
                        None => EntryPayload::None,
                    }
                }
                InodeKind::Symlink => {
                    target = tree.link_target(attributes.inode)?;
                    EntryPayload::Target(&target)
                }
                InodeKind::BlockDevice | InodeKind::CharDevice => {
                    EntryPayload::Device(attributes.payload)
                }
                _ => EntryPayload::None,
            };
            digest.add_entry(
                &parent,
                name,
                &record_of(attributes),
                xattrs.1.iter().map(|item| (item.name.as_slice(), item.value.as_slice())),
                payload,
            );
            if attributes.kind == InodeKind::Directory {
                above.push(if visit.depth == 0 { PathDigest::ROOT } else { parent.child(name) });
            } else if attributes.link_count > 1 {
                groups.entry(attributes.inode).or_default().add(&parent, name);
            }
        }
        for group in groups.values() {
            digest.add_links(group);
        }
        Ok(Some(digest))
    }
}

fn record_of(attributes: &Attributes) -> InodeRecord {
    InodeRecord {
        kind: attributes.kind,
        permissions: attributes.permissions,
        uid: attributes.uid,
        gid: attributes.gid,
        link_count: attributes.link_count,
        mtime: attributes.mtime,
        atime: attributes.atime,
        ctime: attributes.ctime,
        btime: attributes.btime,
        xattr_set: attributes.xattr_set,
        payload: attributes.payload,
    }
}

/// Returns the part of a frame that a piece refers to; the reader has checked that it lies inside.
fn slice(plain: &FrameBytes, frame_offset: u64, len: u64) -> &[u8] {
    let start = usize::try_from(frame_offset).unwrap_or(usize::MAX);
    let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
    plain.get(start..end).unwrap_or_default()
}
