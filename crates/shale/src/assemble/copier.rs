//! Frames and contents of images, as the writer asks for them.
//!
//! Contents are numbered in the order of the images and of their numbers there, and so are frames:
//! what lay together stays together. Takes 8 bytes of memory a content and a frame of the images,
//! and 80 more a content whose bytes are compared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shale_codec::{Hasher, xxh3_64};
use shale_format::{ChunkRecord, FrameRecord};
use shale_host::{Phase, Progress, thread_count, threads};
use shale_read::{Fault, Image, PieceKind, ReadError};
use shale_write::digest::ContentDigest;
use shale_write::{BaseError, CopiedFrame, CopiedPlace, CopiedTree, Copies};

use super::numbers::{Needed, Offsets};
use crate::contents::{Known, read};
use crate::error::Error;
use crate::options::CreateOptions;

/// A frame or content that is not copied.
const NONE: u64 = u64::MAX;
/// Contents that a thread reads at a time.
const CONTENTS_TAKEN: usize = 64;

/// What is copied, and the trees that follow.
pub(super) struct Copier<'a, T> {
    plan: Plan<'a>,
    tree: T,
}

/// What is copied.
pub(super) struct Plan<'a> {
    images: &'a [Arc<Image>],
    /// The frames to copy, in their order: image and number there.
    frames: Vec<(u32, u64)>,
    /// By image, the number of each of its frames in the new image, or [`NONE`].
    frame_numbers: Vec<Vec<u64>>,
    /// The chunks to copy, in their order: image and number there.
    chunks: Vec<(u32, u64)>,
    /// By image, the number of each of its chunks in the new image, or [`NONE`].
    chunk_numbers: Vec<Vec<u64>>,
    /// The contents to copy, in their order: image and number there.
    contents: Vec<(u32, u64)>,
    /// Where the contents of each image begin in the common numbering.
    starts: Vec<u64>,
    /// The digests of those that were read.
    digests: Vec<Option<ContentDigest>>,
    /// By number in the common numbering, the number in the new image.
    numbers: Arc<Vec<u64>>,
    equal_contents: u64,
    compared_contents: u64,
    image_id: [u8; 16],
}

impl<'a, T> Copier<'a, T>
where
    T: FnMut(&Arc<Vec<u64>>) -> Result<Option<CopiedTree>, Error>,
{
    /// Copies what is planned. `tree` returns the next tree, with the numbers of contents.
    pub(super) fn new(plan: Plan<'a>, tree: T) -> Self {
        Self { plan, tree }
    }

    /// What was copied.
    pub(super) fn into_plan(self) -> Plan<'a> {
        self.plan
    }
}

impl<'a> Plan<'a> {
    /// Decides what is copied.
    pub(super) fn new(
        images: &'a [Arc<Image>],
        (offsets, needed): (&Offsets, Needed),
        history: &str,
        options: &CreateOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let mut plan = Self {
            images,
            frames: Vec::new(),
            frame_numbers: images.iter().map(|i| vec![NONE; i.frame_count() as usize]).collect(),
            chunks: Vec::new(),
            chunk_numbers: images.iter().map(|i| vec![NONE; i.chunk_count() as usize]).collect(),
            contents: Vec::new(),
            starts: (0..images.len()).map(|image| offsets.of(image).start).collect(),
            digests: Vec::new(),
            numbers: Arc::default(),
            equal_contents: 0,
            compared_contents: 0,
            image_id: [0; 16],
        };
        plan.number_contents(offsets, &needed, options, progress)?;
        plan.number_frames(options)?;
        plan.image_id = plan.hash(needed.into_hasher(), history)?;
        Ok(plan)
    }

    /// An ID that depends on what is kept only, and is known before anything is written.
    pub(super) fn image_id(&self) -> [u8; 16] {
        self.image_id
    }

    /// Number of frames that are not copied.
    pub(super) fn dropped_frames(&self) -> u64 {
        let all: u64 = self.images.iter().map(|image| image.frame_count()).sum();
        all - self.frames.len() as u64
    }

    /// How often a content was found in one more image.
    pub(super) fn equal_contents(&self) -> u64 {
        self.equal_contents
    }

    /// How many contents were read to be compared.
    pub(super) fn compared_contents(&self) -> u64 {
        self.compared_contents
    }

    /// Numbers the contents that are needed, each distinct one once.
    fn number_contents(
        &mut self,
        offsets: &Offsets,
        needed: &Needed,
        options: &CreateOptions,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let mut lens = Vec::new();
        for (image, open) in self.images.iter().enumerate() {
            for number in offsets.of(image).filter(|&number| needed.has(number)) {
                let content = number - offsets.of(image).start;
                self.contents.push((image as u32, content));
                lens.push(open.content_len(content)?);
            }
        }
        // An image holds equal contents once. So only those of one length in several images can be
        // equal, and the others need not be read.
        let mut first_with: HashMap<u64, (u32, bool)> = HashMap::new();
        for (&(image, _), &len) in self.contents.iter().zip(&lens) {
            let (first, is_shared) = first_with.entry(len).or_insert((image, false));
            *is_shared |= *first != image;
        }
        let may_be_equal = |len: &u64| first_with.get(len).is_some_and(|&(_, is_shared)| is_shared);
        let reads: Vec<bool> = lens.iter().map(may_be_equal).collect();
        self.compared_contents = reads.iter().filter(|&&reads| reads).count() as u64;
        let known = self.read(&reads, &lens, options, progress)?;

        let mut numbers = vec![0; offsets.all().end as usize];
        // Contents of different depths are kept apart, as chunks may only need what is less deep.
        let mut by_bytes: HashMap<(u64, u64, Known), u64> = HashMap::new();
        let mut kept = Vec::new();
        for ((&(image, content), len), known) in self.contents.iter().zip(lens).zip(known) {
            let at = &mut numbers[(offsets.of(image as usize).start + content) as usize];
            let digest = known.as_ref().map(|known| known.digest);
            let next = kept.len() as u64 + 1;
            *at = match known.filter(|_| may_be_equal(&len)) {
                Some(known) => {
                    let depth = depth(&self.images[image as usize], content)?;
                    *by_bytes.entry((len, depth, known)).or_insert(next)
                }
                None => next,
            };
            match *at == next {
                true => {
                    kept.push((image, content));
                    self.digests.push(digest);
                }
                false => self.equal_contents += 1,
            }
        }
        self.contents = kept;
        self.numbers = Arc::new(numbers);
        Ok(())
    }

    /// Reads the contents that `reads` marks, with several threads.
    fn read(
        &self,
        reads: &[bool],
        lens: &[u64],
        options: &CreateOptions,
        progress: &dyn Progress,
    ) -> Result<Vec<Option<Known>>, Error> {
        let bytes = lens.iter().zip(reads).filter(|(_, reads)| **reads).map(|(len, _)| len).sum();
        progress.phase(Phase::Read);
        progress.found(reads.iter().filter(|&&reads| reads).count() as u64, bytes);
        let next = AtomicUsize::new(0);
        let (images, contents) = (self.images, &self.contents);
        let work = || -> Result<Vec<(usize, Known)>, Error> {
            let mut found = Vec::new();
            loop {
                let first = next.fetch_add(CONTENTS_TAKEN, Ordering::Relaxed);
                if first >= reads.len() {
                    return Ok(found);
                }
                for at in first..(first + CONTENTS_TAKEN).min(reads.len()) {
                    if !reads[at] {
                        continue;
                    }
                    options.cancel.check()?;
                    let (image, content) = contents[at];
                    let known = read(&images[image as usize], content);
                    let known =
                        known.inspect_err(|_| next.store(reads.len(), Ordering::Relaxed))?;
                    found.push((at, known));
                    progress.done(1, lens[at]);
                }
            }
        };
        let mut known = vec![None; reads.len()];
        for found in threads::run(thread_count(options.build.threads), work) {
            for (at, found) in found? {
                known[at] = Some(found);
            }
        }
        Ok(known)
    }

    /// Numbers the frames that the contents lie in, and those that they refer to.
    fn number_frames(&mut self, options: &CreateOptions) -> Result<(), Error> {
        let mut waiting = Vec::new();
        for &(image, content) in &self.contents {
            options.cancel.check()?;
            let (open, numbers) =
                (&self.images[image as usize], &mut self.frame_numbers[image as usize]);
            let len = open.content_len(content)?;
            for piece in open.pieces(content, 0..len)? {
                match piece?.kind {
                    PieceKind::Frame { frame, .. } => waiting.push(frame),
                    PieceKind::Rebuilt { chunk, .. } => {
                        // Any number marks it for now.
                        self.chunk_numbers[image as usize][chunk as usize] = 0;
                    }
                    PieceKind::Hole | PieceKind::Zero => {}
                }
            }
            while let Some(frame) = waiting.pop() {
                // Any number marks it for now.
                if std::mem::replace(&mut numbers[frame as usize], 0) == NONE {
                    let record = open.frame_record(frame)?;
                    waiting.extend_from_slice(open.references(&record)?.frames());
                }
            }
        }
        self.frames = numbered(&mut self.frame_numbers);
        self.chunks = numbered(&mut self.chunk_numbers);
        Ok(())
    }

    /// Hashes everything that is kept into an ID.
    fn hash(&self, mut hasher: Hasher, history: &str) -> Result<[u8; 16], ReadError> {
        hasher.update(history.as_bytes());
        for (image, numbers) in self.frame_numbers.iter().enumerate() {
            for record in self.images[image].frame_records(0..numbers.len() as u64) {
                let (frame, record) = record?;
                if numbers[frame as usize] != NONE {
                    hasher.update(&record.plain_sum.to_le_bytes());
                    hasher.update(&record.stored_sum.to_le_bytes());
                }
            }
        }
        for &(image, chunk) in &self.chunks {
            let record = self.images[image as usize].chunk_record(chunk)?;
            let ChunkRecord { len, offset, plain_len, model, .. } = record;
            let numbers = [len, offset, plain_len, model, record.carried.column()];
            for number in numbers {
                hasher.update(&number.to_le_bytes());
            }
            hasher.update(&record.sum.to_le_bytes());
        }
        for &(image, content) in &self.contents {
            hasher.update(&self.images[image as usize].content_len(content)?.to_le_bytes());
        }
        for number in self.numbers.iter().filter(|&&number| number > 0) {
            hasher.update(&number.to_le_bytes());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Ok(id)
    }

    /// Number of frames that are copied.
    pub(super) fn frame_count(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Number of chunks that are copied.
    pub(super) fn chunk_count(&self) -> u64 {
        self.chunks.len() as u64
    }

    /// Number of contents that are copied.
    pub(super) fn content_count(&self) -> u64 {
        self.contents.len() as u64
    }

    /// The record of a frame in the image that it comes from, and the frames that it refers to, by
    /// their numbers in the new one.
    pub(super) fn frame(&self, frame: u64) -> Result<(FrameRecord, Vec<u64>), ReadError> {
        let (image, number) = self.frames[frame as usize];
        let open = &self.images[image as usize];
        let record = open.frame_record(number)?;
        let mut references = Vec::new();
        for &reference in open.references(&record)?.frames() {
            references.push(self.frame_numbers[image as usize][reference as usize]);
        }
        Ok((record, references))
    }

    /// A chunk whose content has its new number.
    pub(super) fn chunk(&self, chunk: u64) -> Result<ChunkRecord, ReadError> {
        let (image, number) = self.chunks[chunk as usize];
        let record = self.images[image as usize].chunk_record(number)?;
        let content = self.starts[image as usize].saturating_add(record.content);
        let content = usize::try_from(content).ok().and_then(|at| self.numbers.get(at).copied());
        Ok(ChunkRecord { content: content.unwrap_or(NONE), ..record })
    }

    /// Gives the parts of a content to `visit`, with their lengths, in order.
    pub(super) fn content(
        &self,
        content: u64,
        visit: &mut dyn FnMut(u64, CopiedPlace),
    ) -> Result<(), ReadError> {
        let (image, number) = self.contents[content as usize - 1];
        let open = &self.images[image as usize];
        for piece in open.pieces(number, 0..u64::MAX)? {
            let piece = piece?;
            let place = match piece.kind {
                PieceKind::Zero => CopiedPlace::Zero,
                PieceKind::Hole => CopiedPlace::Hole,
                PieceKind::Rebuilt { chunk, chunk_offset } => {
                    let chunk = self.chunk_numbers[image as usize][chunk as usize];
                    CopiedPlace::Rebuilt { chunk, offset: chunk_offset }
                }
                PieceKind::Frame { frame, frame_offset } => {
                    let frame = self.frame_numbers[image as usize][frame as usize];
                    CopiedPlace::Frame { frame, offset: frame_offset }
                }
            };
            visit(piece.len, place);
        }
        Ok(())
    }

    /// A frame with its stored bytes.
    fn copied(&self, frame: u64) -> Result<CopiedFrame, ReadError> {
        let (image, number) = self.frames[frame as usize];
        let open = &self.images[image as usize];
        let (record, references) = self.frame(frame)?;
        if !references.is_empty() {
            for &reference in open.references(&record)?.frames() {
                if open.frame_record(reference)?.depth >= record.depth {
                    // It could lead in a circle. This names what is wrong.
                    open.read_cost(number)?;
                }
            }
        }
        let stored = stored(open, number, &record)?;
        Ok(CopiedFrame { record, references, stored })
    }
}

/// Numbers what is marked, image by image, and returns it in this order.
fn numbered(marked: &mut [Vec<u64>]) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    for (image, numbers) in (0..).zip(marked) {
        for (at, number) in (0..).zip(numbers).filter(|(_, number)| **number != NONE) {
            *number = all.len() as u64;
            all.push((image, at));
        }
    }
    all
}

/// The greatest depth of the chunks of a content; 0 if nothing of it is rebuilt.
fn depth(image: &Image, content: u64) -> Result<u64, ReadError> {
    let mut depth = 0;
    if image.chunk_count() > 0 {
        for piece in image.pieces(content, 0..u64::MAX)? {
            if let PieceKind::Rebuilt { chunk, .. } = piece?.kind {
                depth = depth.max(image.chunk_record(chunk)?.depth);
            }
        }
    }
    Ok(depth)
}

/// Reads the stored bytes of a frame, and compares them with their sum.
fn stored(image: &Arc<Image>, frame: u64, record: &FrameRecord) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; record.stored_len as usize];
    image.read_stored(record.stored_offset, &mut bytes)?;
    if xxh3_64(&bytes) != record.stored_sum {
        // Parity may repair it.
        image.frame_verified(frame)?;
        image.read_stored(record.stored_offset, &mut bytes)?;
    }
    let found = xxh3_64(&bytes);
    if found != record.stored_sum {
        let fault = Fault::Checksum { what: "stored", expected: record.stored_sum, found };
        return Err(ReadError::from(fault).at(format!("frame {frame}")));
    }
    Ok(bytes)
}

impl<T> Copies for Copier<'_, T>
where
    T: FnMut(&Arc<Vec<u64>>) -> Result<Option<CopiedTree>, Error>,
{
    fn frame_count(&self) -> u64 {
        self.plan.frame_count()
    }

    fn frame(&mut self, frame: u64) -> Result<CopiedFrame, BaseError> {
        Ok(self.plan.copied(frame)?)
    }

    fn chunk_count(&self) -> u64 {
        self.plan.chunk_count()
    }

    fn chunk(&mut self, chunk: u64) -> Result<ChunkRecord, BaseError> {
        Ok(self.plan.chunk(chunk)?)
    }

    fn content_count(&self) -> u64 {
        self.plan.content_count()
    }

    fn content(
        &mut self,
        content: u64,
        visit: &mut dyn FnMut(u64, CopiedPlace),
    ) -> Result<Option<ContentDigest>, BaseError> {
        self.plan.content(content, visit)?;
        Ok(self.plan.digests[content as usize - 1])
    }

    fn next_tree(&mut self) -> Result<Option<CopiedTree>, BaseError> {
        Ok((self.tree)(&self.plan.numbers)?)
    }
}
