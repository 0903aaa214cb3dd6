//! Adds parity to a new image, to one that has none, and again to one that was repaired.
//!
//! A parity section follows everything that it protects, so it can be added to any image without
//! changing a byte: `create --parity` and `parity add` do the same. The header of the section and
//! the new trailer are written last, after everything else has reached the disk. Until then the
//! file holds the image as it was, followed by bytes that readers ignore.
//!
//! The parity of an image that grew may be extended: a new section protects what no earlier one
//! does, and leads to that one, so nothing before it is read or coded again.
//!
//! The parity depends only on the protected bytes and the head, so a repaired image gets the same
//! parity again, bit for bit. Memory: 128 MiB for coding, 32 bytes for each leaf and body, and four
//! times that while the table of hashes is coded.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use shale_codec::merkle::{leaf_hash, tree};
use shale_codec::parity::{ParityEncoder, SLICE_STEP};
use shale_codec::{Xxh3, xxh3_64};
use shale_format::limits::{PARITY_GROUP_LEAVES_MAX, PARITY_SECTIONS_MAX};
use shale_format::merkle::{FAN_OUT, HASH_LEN, LEAF_LEN};
use shale_format::parity::{CHUNK_HEAD_LEN, PARITY_HEAD_LEN, ParityLayout, SET_COUNT, ZONE_COUNT};
use shale_format::section::SECTION_MAGIC;
use shale_format::trailer::{PADDED_TO, TRAILER_SECTION_LEN};
use shale_format::{
    FormatError, Identity, MerkleHead, ParityHead, SectionHeader, SectionType, Superblock, Trailer,
};
use shale_host::{Cancel, Phase, Progress, thread_count, threads};
use shale_read::trust::parity::encode_chunk;
use shale_read::{ByteSource, FileSource, Image, OffsetChoice, Options, SliceSource, identity_of};

use crate::check::{CheckOptions, check};
use crate::error::{Error, ParityProblem};

/// Memory for coding, for all threads together.
const WORK_BYTES_MAX: usize = 128 << 20;
/// Sections that protect at least this many leaves have their bodies at multiples of a leaf, so
/// that a lost block damages one body and not two.
const ALIGN_LEAVES_MIN: u64 = 1024;
/// Bytes read at once.
const CHUNK_LEN: usize = 1 << 20;

/// How much parity to add, and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParityOptions {
    /// Bytes of parity for each million bytes of the image: 50,000 are 5 %.
    pub parts_per_million: u32,
    /// Most leaves of a group. Groups smaller than the format's maximum make the first repair
    /// during a read cheaper. In return, each group guarantees only its own share, and cannot use
    /// the parity of others.
    pub group_leaves_max: u64,
    /// Where the image begins in its file.
    pub offset: OffsetChoice,
    /// Cut off the bytes that an interrupted writer left after the image, once the image was found
    /// complete.
    pub force: bool,
    /// Let earlier parity protect what it protects, if there is some and if that is at least twice
    /// as much as the rest. Images of versions before 0.4 get parity over everything.
    pub extends: bool,
    /// Threads; 0 for one per processor. The result does not depend on it.
    pub threads: usize,
    /// Cancels the run; the image is then as it was before.
    pub cancel: Cancel,
}

impl ParityOptions {
    shale_host::setters! {
        parts_per_million: u32,
        group_leaves_max: u64,
        offset: OffsetChoice,
        force: bool,
        extends: bool,
        threads: usize,
        cancel: Cancel,
    }
}

impl Default for ParityOptions {
    fn default() -> Self {
        Self {
            parts_per_million: 50_000,
            group_leaves_max: PARITY_GROUP_LEAVES_MAX,
            offset: OffsetChoice::Auto,
            force: false,
            extends: false,
            threads: 0,
            cancel: Cancel::new(),
        }
    }
}

/// What was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParityReport {
    /// Bytes of the image with its parity.
    pub image_bytes: u64,
    /// Bytes added to it.
    pub added_bytes: u64,
    /// Leaves of 64 KiB that the new section protects.
    pub leaves: u64,
    /// Groups of leaves. In each, as many leaves can be restored as it has bodies of parity.
    pub groups: u64,
    /// Bodies of parity in each group.
    pub parity_of_group: u64,
    /// Length of the longest burst that can always be repaired, wherever it begins.
    pub burst_bytes: u64,
    /// Identity of the image; parity does not change it.
    pub identity: Identity,
}

/// Adds parity to the image in the file at `path`: in place, after the image.
///
/// # Errors
/// The image must be complete, because parity would preserve the damage. On any error, and when the
/// run is cancelled, the image is as it was before. Bytes of an interrupted writer that
/// [`ParityOptions::force`] allows to cut off are removed only after the image was found complete;
/// they do not come back if writing fails then.
pub fn add_parity(
    path: &Path,
    options: &ParityOptions,
    progress: &dyn Progress,
) -> Result<ParityReport, Error> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(Error::io("open for writing", path))?;
    add_to_file(&file, path, options, progress)
}

/// Adds parity to the image in an open file; `path` is for messages.
///
/// # Errors
/// As [`add_parity`].
pub fn add_to_file(
    file: &File,
    path: &Path,
    options: &ParityOptions,
    progress: &dyn Progress,
) -> Result<ParityReport, Error> {
    let io = |action| move |error: io::Error| Error::io(action, path)(error);
    let again = file.try_clone().map_err(io("open"))?;
    let source: Arc<dyn ByteSource> = Arc::new(FileSource::new(again).map_err(io("open"))?);
    let read = Options::default().offset(options.offset).repair(false);
    let image = Image::open(Arc::clone(&source), read)?;
    let start = image.offset();
    let image_end = start + image.len();
    if image.recovered().is_some() && !options.force {
        return Err(Error::Parity {
            path: path.to_owned(),
            problem: ParityProblem::InterruptedWriter,
        });
    }
    let is_padded = image.recovered().is_none() && source.len() > image_end;
    // Zeroes at the end of the last block are padding; more may be the hole of something else.
    if image.recovered().is_none() && source.len() >= image_end.saturating_add(PADDED_TO) {
        return Err(Error::Parity {
            path: path.to_owned(),
            problem: ParityProblem::OtherDataFollows,
        });
    }
    // Everything that can fail for the image itself is tested before anything is changed.
    let (output, mut state) = State::new(file, path, start, &image, options)?;
    let first_leaf = state.range.first_leaf;
    let mut hashes = match first_leaf {
        0 => Vec::new(),
        // What is not read is as the tree says that it was.
        _ => image.leaf_hashes()?.get(..first_leaf as usize).ok_or_else(|| damaged(path))?.to_vec(),
    };
    hashes.extend(output.hash_leaves(
        first_leaf..image.len().div_ceil(LEAF_LEN),
        image.len(),
        progress,
    )?);
    let (identity, tree) = match image.identity()? {
        Some((head, identity)) => {
            output.compare_tree(&image, &head, &hashes)?;
            (identity, None)
        }
        None => {
            let expect = CheckOptions::default()
                .offset(OffsetChoice::At(start))
                .threads(options.threads)
                .cancel(options.cancel.clone());
            // Checks without the bytes that an interrupted writer left.
            let source = Arc::new(SliceSource::new(source, 0, image_end));
            if !check(source, &expect, progress)?.is_clean() {
                return Err(damaged(path));
            }
            let (identity, section) = state.add_tree(hashes);
            (identity, Some(section))
        }
    };
    let head = state.head(options);
    head.layout().map_err(|error| too_much(path, error))?;
    options.cancel.check()?;
    let guard = CutOnDrop { file, len: image_end, armed: true };
    file.set_len(image_end).map_err(io("cut"))?;
    // The header of the section is written last. This tells what is left of an interrupted run from
    // bytes of someone else, in whatever order the disk writes.
    output.write(image.len(), &SECTION_MAGIC)?;
    output.sync()?;
    if let Some(section) = tree {
        output.write(image.len(), &section)?;
    }
    let report = output.write_section(&head, progress)?;
    if is_padded {
        let end = start + report.end + TRAILER_SECTION_LEN as u64;
        file.set_len(end.next_multiple_of(PADDED_TO)).map_err(io("pad"))?;
    }
    guard.disarm();
    Ok(ParityReport {
        image_bytes: report.end + TRAILER_SECTION_LEN as u64,
        added_bytes: report.end + TRAILER_SECTION_LEN as u64 - image.len(),
        leaves: report.protected_count(),
        groups: head.sets[0].group_count.into(),
        parity_of_group: head.sets[0].parity_count.into(),
        burst_bytes: head.burst_len().min(state.range.burst_len),
        identity,
    })
}

/// Reads the head of a section, if that is one of parity.
///
/// # Errors
/// The head cannot be read, or is damaged.
pub(crate) fn head_of(image: &Image, section: &SectionHeader) -> Result<Option<ParityHead>, Error> {
    if section.section_type != SectionType::Parity as u16 {
        return Ok(None);
    }
    let mut head = [0; PARITY_HEAD_LEN];
    image.read_stored(section.payload_offset(), &mut head)?;
    Ok(Some(ParityHead::decode(&head, xxh3_64)?.0))
}

/// Returns the newest of these sections and those that it leads to, as far as they are there.
pub(crate) fn chain(heads: &[ParityHead]) -> Vec<&ParityHead> {
    let previous = |head: &&ParityHead| {
        let wanted = head.previous_offset()?;
        heads.iter().find(|earlier| earlier.section_offset == wanted)
    };
    std::iter::successors(heads.last(), previous).collect()
}

/// What a new section protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ParityRange {
    /// The first leaf, and the bytes in it before the section that protects the leaves before.
    first_leaf: u64,
    previous_at: u64,
    /// Length of the longest burst that all sections repair which protect the leaves before.
    burst_len: u64,
    /// End of the parity before: what follows may be metadata.
    earlier_end: u64,
}

impl ParityRange {
    /// Everything.
    const ALL: Self = Self { first_leaf: 0, previous_at: 0, burst_len: u64::MAX, earlier_end: 0 };

    /// Returns the bytes after the section of a chain that protects at least twice as much as they
    /// are; the newest such section is taken. So a chain is short, and a byte is coded again only
    /// where the rest has doubled.
    fn after(heads: &[ParityHead], image_len: u64) -> Self {
        let chain = chain(heads);
        for (at, head) in chain.iter().enumerate() {
            let begin = head.section_offset;
            let protected_len = begin - head.sets[0].first_leaf * LEAF_LEN;
            if begin < LEAF_LEN || protected_len / 2 < image_len - begin {
                continue;
            }
            let parts = &chain[at..];
            let is_whole = parts.last().is_some_and(|first| first.sets[0].first_leaf == 0);
            if !is_whole || parts.len() >= PARITY_SECTIONS_MAX {
                break;
            }
            let newest_end = heads.last().and_then(|head| head.layout().ok()).map(|it| it.end);
            return Self {
                first_leaf: begin / LEAF_LEN,
                previous_at: begin % LEAF_LEN,
                burst_len: parts.iter().map(|head| head.burst_len()).min().unwrap_or(u64::MAX),
                earlier_end: newest_end.map_or(0, |end| end + TRAILER_SECTION_LEN as u64),
            };
        }
        Self::ALL
    }
}

fn damaged(path: &Path) -> Error {
    Error::Parity { path: path.to_owned(), problem: ParityProblem::Damaged }
}

fn too_much(path: &Path, error: FormatError) -> Error {
    Error::Parity { path: path.to_owned(), problem: ParityProblem::TooMuch(error) }
}

/// Truncates a file to its image again, unless it was disarmed.
struct CutOnDrop<'f> {
    file: &'f File,
    len: u64,
    armed: bool,
}

impl CutOnDrop<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CutOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            // If this fails, readers still find the last trailer.
            let _ = self.file.set_len(self.len);
        }
    }
}

/// Where an image ends, and what its next trailer has to say.
struct State {
    superblock: Superblock,
    end: u64,
    /// First byte of the metadata at the end of the image.
    metadata_offset: u64,
    trailer: Trailer,
    /// Offset of the last trailer's section header.
    trailer_offset: u64,
    section_count: u64,
    range: ParityRange,
}

impl State {
    fn new<'f>(
        file: &'f File,
        path: &Path,
        start: u64,
        image: &Image,
        options: &ParityOptions,
    ) -> Result<(ParityOutput<'f>, Self), Error> {
        let trailer = *image.trailer();
        let superblock = image.superblock();
        let has_ranges = (superblock.version_major, superblock.version_minor) >= (0, 4);
        let extends = options.extends && has_ranges && trailer.merkle_offset > 0;
        let (mut section_count, mut metadata_offset, mut heads) = (0, 0, Vec::new());
        for section in image.sections() {
            let section = section?;
            section_count += 1;
            if extends {
                heads.extend(head_of(image, &section)?);
            }
            if section.section_type == SectionType::Frames as u16 || metadata_offset == 0 {
                metadata_offset = section.end();
            }
        }
        let output = ParityOutput {
            file,
            path: path.to_owned(),
            start,
            threads: thread_count(options.threads),
            cancel: options.cancel.clone(),
        };
        let range = ParityRange::after(&heads, image.len());
        let metadata_offset = metadata_offset.max(range.earlier_end);
        let state = Self {
            superblock: *superblock,
            end: image.len(),
            metadata_offset,
            trailer,
            trailer_offset: image.len() - TRAILER_SECTION_LEN as u64,
            section_count,
            range,
        };
        Ok((output, state))
    }

    /// Gives an image of an earlier version a Merkle tree. Returns the identity and the section to
    /// write after the image.
    fn add_tree(&mut self, leaves: Vec<[u8; HASH_LEN]>) -> (Identity, Vec<u8>) {
        let hashes = tree(leaves, FAN_OUT as usize);
        let head = MerkleHead {
            covered_len: self.end,
            root_offset: self.trailer.root_offset,
            root_section_len: self.trailer.root_section_len,
            tree_root: hashes.last().copied().unwrap_or_default(),
        };
        let payload = [&head.encode(), hashes.as_flattened()].concat();
        let header = header(
            SectionType::Merkle,
            self.end,
            payload.len() as u64,
            xxh3_64(&payload),
            self.superblock.image_tag(),
        );
        self.trailer.merkle_offset = self.end;
        self.end = header.end();
        self.section_count += 1;
        (identity_of(&head), [&header.encode(xxh3_64)[..], &payload].concat())
    }

    fn head(&self, options: &ParityOptions) -> ParityHead {
        let leaf_count = self.end.div_ceil(LEAF_LEN);
        let metadata_leaves = leaf_count - (self.metadata_offset / LEAF_LEN).min(leaf_count);
        let ParityRange { first_leaf, previous_at, .. } = self.range;
        let protected_count = leaf_count - first_leaf;
        let sets = ParityHead::sets_for(
            (first_leaf, leaf_count),
            metadata_leaves,
            options.parts_per_million,
            options.group_leaves_max,
        );
        ParityHead {
            section_offset: self.end,
            image_id: self.superblock.image_id,
            chunk_len: ParityHead::chunk_len_for(protected_count, &sets),
            body_align: if protected_count >= ALIGN_LEAVES_MIN { LEAF_LEN } else { 1 },
            previous_at,
            sets,
            root_offset: self.trailer.root_offset,
            root_section_len: self.trailer.root_section_len,
            previous_trailer_offset: self.trailer_offset,
            // Counts the parity section itself.
            section_count: self.section_count + 1,
            merkle_offset: self.trailer.merkle_offset,
        }
    }
}

fn header(kind: SectionType, offset: u64, len: u64, sum: u64, image_tag: u64) -> SectionHeader {
    SectionHeader {
        section_type: kind as u16,
        codec: 0,
        offset,
        stored_len: len,
        plain_len: len,
        image_tag,
        payload_sum: sum,
    }
}

/// A file that holds the protected bytes and gets the parity.
pub(crate) struct ParityOutput<'f> {
    pub(crate) file: &'f File,
    pub(crate) path: PathBuf,
    /// Where the image begins in the file.
    pub(crate) start: u64,
    pub(crate) threads: usize,
    pub(crate) cancel: Cancel,
}

impl ParityOutput<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.file
            .read_exact_at(buf, self.start + offset)
            .map_err(|error| Error::io("read", &self.path)(error))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file
            .write_all_at(bytes, self.start + offset)
            .map_err(|error| Error::io("write to", &self.path)(error))
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|error| Error::io("write to disk", &self.path)(error))
    }

    /// Hashes some of the leaves of the first `len` bytes.
    fn hash_leaves(
        &self,
        leaves: Range<u64>,
        len: u64,
        progress: &dyn Progress,
    ) -> Result<Vec<[u8; HASH_LEN]>, Error> {
        progress.phase(Phase::Parity);
        progress.found(0, len - leaves.start * LEAF_LEN);
        let hash = |index: u64| -> Result<[u8; HASH_LEN], Error> {
            let leaf = leaves.start + index;
            let mut buf = vec![0; (len - leaf * LEAF_LEN).min(LEAF_LEN) as usize];
            self.read(leaf * LEAF_LEN, &mut buf)?;
            progress.done(0, buf.len() as u64);
            Ok(leaf_hash(&buf))
        };
        self.in_parallel(leaves.end - leaves.start, hash)
    }

    /// Runs `work` for 0..count in all threads and returns the results in order, or the first
    /// error.
    fn in_parallel<T: Send + Default + Clone>(
        &self,
        count: u64,
        work: impl Fn(u64) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let next = AtomicU64::new(0);
        let results = Mutex::new(vec![T::default(); count as usize]);
        let failure = Mutex::new(None);
        let run = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                let result = self.cancel.check().map_err(Error::from).and_then(|()| work(index));
                match result {
                    Ok(result) => {
                        let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
                        if let Some(place) = results.get_mut(index as usize) {
                            *place = result;
                        }
                    }
                    Err(error) => {
                        next.store(count, Ordering::Relaxed);
                        failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                    }
                }
            }
        };
        threads::run(self.threads, run);
        match failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(error) => Err(error),
            None => Ok(results.into_inner().unwrap_or_else(|e| e.into_inner())),
        }
    }

    /// Fails if the leaves of the image do not match its Merkle tree.
    fn compare_tree(
        &self,
        image: &Image,
        head: &MerkleHead,
        hashes: &[[u8; HASH_LEN]],
    ) -> Result<(), Error> {
        let count = head.shape().leaf_count() as usize;
        let mut leaves = hashes.get(..count).unwrap_or_default().to_vec();
        // The last leaf of the tree may be shorter than that of the file.
        let short = head.covered_len % LEAF_LEN;
        if short > 0
            && let Some(last) = leaves.last_mut()
        {
            let mut buf = vec![0; short as usize];
            image.read_stored(head.covered_len - short, &mut buf)?;
            *last = leaf_hash(&buf);
        }
        if tree(leaves, FAN_OUT as usize).last() != Some(&head.tree_root) {
            return Err(damaged(&self.path));
        }
        Ok(())
    }

    /// Writes the parity section that `head` describes, and the trailer after it.
    pub(crate) fn write_section(
        &self,
        head: &ParityHead,
        progress: &dyn Progress,
    ) -> Result<ParityLayout, Error> {
        let layout = head.layout().map_err(|error| too_much(&self.path, error))?;
        let leaves = layout.first_leaf..layout.leaf_count;
        let mut hashes = self.hash_leaves(leaves, head.section_offset, progress)?;
        self.write_bodies(head, &layout, progress)?;
        hashes.extend(self.in_parallel(layout.body_count, |body| {
            let mut buf = vec![0; LEAF_LEN as usize];
            self.read(layout.body_offset(body), &mut buf)?;
            Ok(leaf_hash(&buf))
        })?);
        self.write_zones(head, &layout, &hashes)?;
        // The sum in the header needs a second pass over the section, which is in the page cache.
        let (mut sum, mut at) = (Xxh3::new(), layout.zones[0]);
        let mut buf = vec![0; CHUNK_LEN];
        while at < layout.end {
            self.cancel.check()?;
            let len = (layout.end - at).min(CHUNK_LEN as u64) as usize;
            self.read(at, &mut buf[..len])?;
            sum.update(&buf[..len]);
            at += len as u64;
        }
        let mut tag = [0; 8];
        tag.copy_from_slice(&head.image_id[..8]);
        let tag = u64::from_le_bytes(tag);
        let len = layout.end - layout.zones[0];
        let own = header(SectionType::Parity, head.section_offset, len, sum.sum_64(), tag);
        let payload = head.trailer(&layout).encode();
        let trailer_len = payload.len() as u64;
        let trailer = header(SectionType::Trailer, layout.end, trailer_len, xxh3_64(&payload), tag);
        // No header may be visible before the bytes that it promises are on the disk.
        self.sync()?;
        self.write(head.section_offset, &own.encode(xxh3_64))?;
        self.sync()?;
        self.write(layout.end, &[&trailer.encode(xxh3_64)[..], &payload].concat())?;
        self.sync()?;
        Ok(layout)
    }

    fn write_bodies(
        &self,
        head: &ParityHead,
        layout: &ParityLayout,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let coding = |error: shale_codec::parity::ParityError| Error::Parity {
            path: self.path.clone(),
            problem: ParityProblem::Coding(error.to_string()),
        };
        let mut first_body = 0;
        for set in head.sets.iter().take(SET_COUNT) {
            let groups = u64::from(set.group_count);
            if groups == 0 {
                continue;
            }
            let parity_count = set.parity_count as usize;
            let leaves = layout.leaf_count - set.first_leaf;
            let shards = leaves.div_ceil(groups) as usize + parity_count.next_power_of_two();
            let slice_len = (WORK_BYTES_MAX / self.threads.max(1) / shards / SLICE_STEP
                * SLICE_STEP)
                .clamp(SLICE_STEP, LEAF_LEN as usize);
            let slices = (LEAF_LEN as usize).div_ceil(slice_len) as u64;
            progress.found(0, leaves * LEAF_LEN);
            self.in_parallel(groups * slices, |task| {
                let (group, from) = (task / slices, (task % slices) as usize * slice_len);
                let len = slice_len.min(LEAF_LEN as usize - from);
                let members = (set.first_leaf + group..layout.leaf_count).step_by(groups as usize);
                let mut encoder = ParityEncoder::new(members.clone().count(), parity_count, len)
                    .map_err(coding)?;
                let mut slice = vec![0; len];
                for (index, leaf) in members.enumerate() {
                    if index % 1024 == 0 {
                        self.cancel.check()?;
                    }
                    let at = leaf * LEAF_LEN + from as u64;
                    let there = head.section_offset.saturating_sub(at).min(len as u64) as usize;
                    slice[there..].fill(0);
                    self.read(at, &mut slice[..there])?;
                    encoder.add(&slice).map_err(coding)?;
                    progress.done(0, len as u64);
                }
                let mut written = Ok(());
                let put = |index: usize, slice: &[u8]| {
                    let body = first_body + index as u64 * groups + group;
                    if written.is_ok() {
                        written = self.write(layout.body_offset(body) + from as u64, slice);
                    }
                };
                encoder.finish(put).map_err(coding)?;
                written
            })?;
            first_body += set.body_count();
        }
        Ok(())
    }

    fn write_zones(
        &self,
        head: &ParityHead,
        layout: &ParityLayout,
        hashes: &[[u8; HASH_LEN]],
    ) -> Result<(), Error> {
        let coding = |error: shale_codec::parity::ParityError| Error::Parity {
            path: self.path.clone(),
            problem: ParityProblem::Coding(error.to_string()),
        };
        let share_len = (head.chunk_len - CHUNK_HEAD_LEN) as usize;
        let count = layout.chunk_count as usize;
        let mut table = hashes.as_flattened().to_vec();
        table.resize(count * share_len, 0);
        let mut chunks = Vec::new();
        let mut encoder = ParityEncoder::new(count, count * (ZONE_COUNT as usize - 1), share_len)
            .map_err(coding)?;
        for (number, share) in table.chunks_exact(share_len).enumerate() {
            encoder.add(share).map_err(coding)?;
            encode_chunk(number as u64, share, &mut chunks);
        }
        let put = |index: usize, share: &[u8]| {
            encode_chunk((count + index) as u64, share, &mut chunks);
        };
        encoder.finish(put).map_err(coding)?;
        let zone_len = count * head.chunk_len as usize;
        for (zone, chunks) in layout.zones.iter().zip(chunks.chunks(zone_len.max(1))) {
            let bytes = [&head.encode(*zone, xxh3_64), chunks].concat();
            self.write(*zone, &bytes)?;
            // Padding that aligns the bodies, which are already written and begin no earlier.
            let end = zone + bytes.len() as u64;
            if let Some(bodies) = layout.bodies.iter().find(|bodies| **bodies >= end) {
                let gap = bodies - end;
                if gap < head.body_align {
                    self.write(end, &vec![0; gap as usize])?;
                }
            }
        }
        Ok(())
    }
}
