//! Puts contents into the stream, each distinct one once.
//!
//! A content that is in memory goes into the stream at once. A large one goes there in pieces
//! while it is read; only where one like it was met before, it is read twice. Where the layout
//! order is not that of the source, contents wait in a [`ReorderBuffer`] until all are known.
//!
//! A large content may fail after a part of it was read. Then nothing of it stays: the buffer
//! forgets it, the pipeline takes its frames back, and where neither can, it first goes to a
//! temporary file.

use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use shale_format::limits::CHUNK_DEPTH_MAX;
use shale_format::{AppendIndex, Category, ChunkRecord};
use shale_model::{Metadata, OpenContent, ProblemKind};

use crate::content::dedupe::{ContentKey, Contents};
use crate::content::extents::StoredAt;
use crate::content::read::{
    ATTEMPTS_MAX, Finished, FoundStream, LargeFile, LargeReader, PieceReader, ReadFailure, Run,
    SMALL_LEN_MAX, SmallContent, read_small, sample_of, split_runs,
};
use crate::content::relocation::Relocation;
use crate::content::samples::SampleRun;
use crate::exec::build::Build;
use crate::frame::pipeline::FramePipeline;
use crate::intake::copied::{CopiedContent, copy_to_file};
use crate::intake::large::{
    Data, LargePieces, Opened, Piece, Reading, Step, digest_only, open_large, opened,
};
use crate::intake::outcome::{Attempt, Outcome, Stored};
use crate::intake::sketched::{find_streams, sketched};
use crate::intake::treatment::Treatment;
use crate::layout::order::LayoutOrder;
use crate::layout::reorder_buffer::{Arranged, Part, ReorderBuffer, parts_of};
use crate::output::emitter::Emitter;
use crate::output::frame_table::FrameTable;
use crate::plan::digest::ContentDigest;
use crate::plan::error::WriteError;
use crate::plan::report::{Report, Stage, StreamCounts};
use crate::recompress::container::Container;
use crate::segment::ahead::{ReadAhead, ScannedParts, Wanted};
use crate::segment::homes::Homes;
use crate::segment::segmenter::Anchor;
use crate::segment::stage::SegmentStage;
use shale_host::Phase;

/// Contents so far, and the stages that they pass.
pub(crate) struct ContentWriter<'env> {
    build: Build<'env>,
    contents: Contents,
    frames: FramePipeline<'env>,
    segments: Option<SegmentStage>,
    /// Contents that wait to be put into order; `None` where they go into the stream at once.
    buffer: Option<ReorderBuffer<'env>>,
    /// Ranges of the buffer that hold samples, ascending.
    buffered_samples: Vec<(Range<u64>, SampleRun)>,
    /// Files with streams, by number in this build: the number of the first content that was
    /// stored for them.
    containers: HashMap<u64, u64>,
    /// Contents of this build that are rebuilt: the depth of their chunks.
    depths: HashMap<u64, u64>,
    /// The treatment of the content that is being stored.
    treatment: Treatment,
    /// What is in a stream that holds streams goes into the buffer as one.
    is_in_group: bool,
    /// Whether frames of the image that is continued were learned.
    has_learned: bool,
    counts: Counts,
}

/// A range of a content that is rebuilt, and where it lies in rebuilt space.
type RebuiltRange = (Range<usize>, u64);

#[derive(Default)]
struct Counts {
    files_read_again: u64,
    duplicate_files: u64,
    duplicate_bytes: u64,
    held_files: u64,
    held_bytes: u64,
    streams: [StreamCounts; Container::ALL.len()],
    /// Bytes of the longest content that was copied to a temporary file.
    copied_bytes_max: u64,
}

/// All contents of a build.
pub(crate) struct Finish<'env> {
    pub(crate) contents: Contents,
    pub(crate) frames: FrameTable,
    /// The append index of the frames, where an image is continued.
    pub(crate) index: Option<AppendIndex>,
    pub(crate) emitter: Emitter<'env>,
}

impl<'env> ContentWriter<'env> {
    /// No contents. Frames go to `emitter`.
    pub(crate) fn new(build: Build<'env>, emitter: Emitter<'env>) -> Self {
        let plan = build.plan();
        let stream_len = build.base().map_or(0, |base| base.state().stream_len);
        let segments = (plan.segment_window_len > 0).then(|| {
            SegmentStage::new(plan.segment_window_len, plan.level.segment_lens_min, stream_len)
        });
        let buffer = plan.reorders.then(|| {
            let layout_order = LayoutOrder::new(plan.order, &build.options().first);
            let temp_dir = build.options().temp_dir.clone();
            ReorderBuffer::new(build.clone(), plan.reorder_bytes_max, temp_dir, layout_order)
        });
        Self {
            contents: build.base().map_or_else(Contents::new, |base| Contents::after(base.clone())),
            frames: FramePipeline::new(build.clone(), emitter, segments.is_some()),
            segments,
            buffer,
            buffered_samples: Vec::new(),
            containers: HashMap::new(),
            depths: HashMap::new(),
            treatment: Treatment::default(),
            is_in_group: false,
            has_learned: false,
            counts: Counts::default(),
            build,
        }
    }

    /// Digest of a content.
    pub(crate) fn digest(&self, content_id: u64) -> ContentDigest {
        self.contents.digest(content_id)
    }

    /// Notes that a file at `path` has a content.
    pub(crate) fn note_path(&mut self, content_id: u64, path: &[u8]) {
        if let Some(buffer) = &mut self.buffer
            && let Some(local) = content_id.checked_sub(self.contents.first())
        {
            // What is in a file is stored where the file would be.
            let first = self.containers.get(&local).copied().unwrap_or(local);
            (first..=local).for_each(|local| buffer.note_path(local, path));
        }
    }

    /// Takes a content that the image which is continued holds.
    pub(crate) fn held(&mut self, metadata: Metadata, content: u64) -> Result<Outcome, WriteError> {
        if content >= self.contents.first() {
            let kind = ProblemKind::Unreadable("no image holds its content".to_owned());
            return Ok(Outcome::LeftOut(kind));
        }
        let len = self.contents.content_len(content)?;
        self.counts.held_files += 1;
        self.counts.held_bytes += len;
        self.build.progress().done(0, len);
        Ok(Outcome::Stored(Metadata { len, ..metadata }, content, None))
    }

    /// Says how the contents that follow are treated.
    pub(crate) fn treat(&mut self, treatment: Treatment) {
        self.treatment = treatment;
    }

    /// Stores a content that is in memory, unless it is there already.
    pub(crate) fn small(&mut self, mut content: SmallContent) -> Result<Outcome, WriteError> {
        let len = content.bytes.len() as u64;
        self.counts.files_read_again += content.read_again;
        self.build.progress().done(0, len);
        let metadata = Metadata { len, ..content.metadata };
        if len == 0 {
            return Ok(Outcome::Stored(metadata, 0, content.change));
        }
        let key = ContentKey { len, digest: content.digest, holes: &content.holes };
        if let Some(id) = self.find(&key)? {
            return Ok(Outcome::Stored(metadata, id, content.change));
        }
        if content.is_deferred {
            // The memory for one file is set aside for this thread.
            find_streams(self.build.env, &mut content);
        }
        let id = self.store_container(&content)?;
        Ok(Outcome::Stored(metadata, id, content.change))
    }

    /// Stores a content: what is in its streams as contents of their own, then the rest of its
    /// bytes.
    fn store_container(&mut self, content: &SmallContent) -> Result<u64, WriteError> {
        let first = self.contents.count() as u64;
        let (rebuilt, depth) = self.store_streams(&content.streams)?;
        if rebuilt.is_empty() {
            return self.store(content, &[], content.bytes.len() as u64, content.category);
        }
        let rebuilt_len: usize = rebuilt.iter().map(|(range, _)| range.len()).sum();
        // Short headers between streams are stored as a small file of no special kind.
        let literal_len = (content.bytes.len() - rebuilt_len) as u64;
        let id = self.store(content, &rebuilt, literal_len, Category::Generic)?;
        let local = id - self.contents.first();
        self.depths.insert(local, depth);
        if !self.is_in_group {
            self.containers.insert(local, first);
        }
        Ok(id)
    }

    /// Stores what is in streams. Returns the ranges that are rebuilt from it, where they lie in
    /// rebuilt space, and the depth of their chunks.
    fn store_streams(
        &mut self,
        streams: &[FoundStream],
    ) -> Result<(Vec<RebuiltRange>, u64), WriteError> {
        let (mut rebuilt, mut deepest) = (Vec::new(), 0);
        for stream in streams {
            let (id, below) = self.inner(&stream.plain)?;
            let depth = below + 1;
            if depth > CHUNK_DEPTH_MAX {
                continue;
            }
            deepest = deepest.max(depth);
            let records =
                stream.chunks.iter().map(|(_, chunk)| ChunkRecord { content: id, depth, ..*chunk });
            let mut place = self.contents.chunks.add_stream(records);
            let counts = &mut self.counts.streams[stream.kind as usize];
            counts.streams += 1;
            counts.plain_bytes += stream.plain.bytes.len() as u64;
            for (range, chunk) in &stream.chunks {
                counts.bytes += chunk.len;
                rebuilt.push((range.clone(), place));
                place += chunk.len;
            }
        }
        Ok((rebuilt, deepest))
    }

    /// Stores what is in a stream, unless it is there already. Returns its id and the depth of its
    /// chunks, 0 if it has none.
    fn inner(&mut self, content: &SmallContent) -> Result<(u64, u64), WriteError> {
        let len = content.bytes.len() as u64;
        let key = ContentKey { len, digest: content.digest, holes: &[] };
        if let Some(id) = self.contents.find(&key)? {
            let depth = match id.checked_sub(self.contents.first()) {
                Some(local) => self.depths.get(&local).copied().unwrap_or(0),
                None => self.contents.depth_in_base(id)?,
            };
            return Ok((id, depth));
        }
        if content.streams.is_empty() || self.is_in_group {
            let id = self.store_container(content)?;
            return Ok((id, self.depths.get(&(id - self.contents.first())).copied().unwrap_or(0)));
        }
        // A chunk of this stream needs what is in many of the streams in it, so they stay together.
        let start = self.buffer.as_ref().map_or(0, ReorderBuffer::end);
        self.is_in_group = true;
        let stored = self.store_container(content);
        self.is_in_group = false;
        let id = stored?;
        let local = id - self.contents.first();
        if let Some(buffer) = &mut self.buffer {
            let first = content.streams.first().map_or(content, |stream| &stream.plain);
            let len = buffer.end() - start;
            let how = (first.category, self.treatment.class);
            buffer.end_content(start, local, len, how, &content.similarity_sketch);
        }
        Ok((id, self.depths.get(&local).copied().unwrap_or(0)))
    }

    /// Stores the bytes of a content that is not there yet, all but those at the ranges of
    /// `rebuilt`, which come from rebuilt space. `len` and `category` decide how its bytes are
    /// treated.
    fn store(
        &mut self,
        content: &SmallContent,
        rebuilt: &[(Range<usize>, u64)],
        len: u64,
        category: Category,
    ) -> Result<u64, WriteError> {
        let base = self.contents.extents.end();
        let buffer_start = self.buffer.as_ref().map_or(0, ReorderBuffer::end);
        let mut runs = Vec::new();
        if rebuilt.is_empty() {
            runs.clone_from(&content.runs);
        }
        let mut at = 0;
        for (range, place) in rebuilt {
            split_runs(&content.bytes, at..range.start, &mut runs);
            self.runs(&content.bytes, &runs, &[], len, category)?;
            runs.clear();
            self.without_data(range.len() as u64, StoredAt::Rebuilt(*place))?;
            at = range.end;
        }
        if !rebuilt.is_empty() {
            split_runs(&content.bytes, at..content.bytes.len(), &mut runs);
        }
        let samples = if rebuilt.is_empty() { &content.samples[..] } else { &[] };
        self.runs(&content.bytes, &runs, samples, len, category)?;
        self.end_content()?;
        if content.bytes.len() as u64 > SMALL_LEN_MAX {
            self.contents.note_sample(content.bytes.len() as u64, sample_of(&content.bytes))?;
        }
        let id = self.contents.push(content.digest, base);
        if let Some(buffer) = self.buffer.as_mut().filter(|_| !self.is_in_group) {
            let sketch = &content.similarity_sketch;
            let local = id - self.contents.first();
            buffer.end_content(buffer_start, local, len, (category, self.treatment.class), sketch);
        }
        Ok(id)
    }

    /// Stores runs of a content, of which `samples` are some.
    fn runs(
        &mut self,
        bytes: &[u8],
        runs: &[Run],
        samples: &[(Range<usize>, SampleRun)],
        len: u64,
        category: Category,
    ) -> Result<(), WriteError> {
        for run in runs {
            match run {
                Run::Data(range) => {
                    let mut at = range.start;
                    while at < range.end {
                        let next = samples.iter().find(|(samples, _)| samples.end > at);
                        let (end, run) = match next {
                            Some((samples, run)) if samples.start <= at => {
                                (samples.end, Some(run.after((at - samples.start) as u64)))
                            }
                            Some((samples, _)) => (samples.start, None),
                            None => (range.end, None),
                        };
                        let end = end.min(range.end);
                        self.data(&bytes[at..end], len, category, run)?;
                        at = end;
                    }
                }
                Run::Zero(len) => self.without_data(*len, StoredAt::Zero)?,
                Run::Hole(len) => self.without_data(*len, StoredAt::Hole)?,
            }
        }
        Ok(())
    }

    /// Stores a large file, of which `first` was read beforehand. Its bytes are read twice only
    /// where one like it was met before.
    pub(crate) fn large(
        &mut self,
        content: &dyn OpenContent,
        mut first: Option<Result<Opened, ProblemKind>>,
    ) -> Result<Outcome, WriteError> {
        let patience = self.build.patience();
        for attempt in 0..ATTEMPTS_MAX {
            let env = self.build.env;
            let opened = first.take().unwrap_or_else(|| open_large(env, content, self.treatment));
            let opened = match opened {
                Ok(opened) => opened,
                Err(kind) => return Ok(Outcome::LeftOut(kind)),
            };
            self.counts.files_read_again += u64::from(attempt > 0);
            let metadata = opened.metadata;
            let Opened { sample: Some(sample), step, .. } = opened else {
                // It became small since it was listed.
                match read_small(content, SMALL_LEN_MAX, patience, &|| env.is_cancelled()) {
                    Ok(content) => return self.small(sketched(env, content, self.treatment)),
                    Err(ReadFailure::Problem(kind)) => return Ok(Outcome::LeftOut(kind)),
                    Err(ReadFailure::Large) => continue,
                }
            };
            match self.large_attempt(sample, step, metadata, attempt)? {
                Attempt::Done(stored) => return Ok(stored.outcome(metadata)),
                Attempt::Changed => {}
                Attempt::Failed(error) => return Ok(Outcome::LeftOut(ProblemKind::of(&error))),
            }
        }
        Ok(Outcome::LeftOut(ProblemKind::Changed))
    }

    /// Reads a large content that can be read only once. Only its end shows whether it is new. It
    /// waits for that in the buffer, or, where one of its length was met before, in a temporary
    /// file.
    pub(crate) fn large_reader(
        &mut self,
        metadata: Metadata,
        reader: Box<dyn Read + Send>,
        holes: Vec<Range<u64>>,
    ) -> Result<Outcome, WriteError> {
        let pieces = LargeReader::new(reader, metadata.len, holes);
        let reading = Reading::new(self.build.env, pieces, metadata.len, self.treatment);
        let mut pieces = LargePieces::start(self.build.clone(), reading);
        let was_met = self.contents.has_large_len(metadata.len)?;
        let attempt = if was_met && self.buffer.is_none() {
            match self.copy(&mut pieces, metadata)? {
                Ok((copy, _)) => {
                    let opened = opened(self.build.env, copy.reader(), self.treatment);
                    match opened.sample {
                        Some(sample) => self.large_attempt(sample, opened.step, metadata, 0)?,
                        // It is shorter than it was said to be.
                        None => Attempt::Changed,
                    }
                }
                Err(error) => Attempt::Failed(error),
            }
        } else {
            let attempt = self.stream(&mut pieces, metadata, 0, was_met)?;
            if let (Attempt::Done(_), Some(reader)) = (&attempt, pieces.into_reader()) {
                self.contents.note_sample(metadata.len, reader.sample())?;
            }
            attempt
        };
        Ok(match attempt {
            Attempt::Done(stored) => stored.outcome(metadata),
            Attempt::Changed => Outcome::LeftOut(ProblemKind::Changed),
            Attempt::Failed(error) => Outcome::LeftOut(ProblemKind::of(&error)),
        })
    }

    /// Ends the contents: puts them into order where they wait for it, and finishes all frames.
    /// Adds what was counted to `report`.
    pub(crate) fn finish(mut self, report: &mut Report) -> Result<Finish<'env>, WriteError> {
        if let Some(buffer) = self.buffer.take() {
            self.build.phase(Phase::Order, Stage::Order);
            self.reorder(buffer, report)?;
        }
        // The index of segments is freed before frames are compressed.
        if let Some(segments) = self.segments.take() {
            let counters = segments.counters();
            report.segments = counters.match_count;
            report.segment_bytes = counters.match_bytes;
        }
        let (frames, index, emitter) = self.frames.finish(&self.contents, report)?;
        report.files_read_again = self.counts.files_read_again;
        report.duplicate_files = self.counts.duplicate_files;
        report.duplicate_bytes = self.counts.duplicate_bytes;
        report.temporary_file_bytes += self.counts.copied_bytes_max;
        report.held_files = self.counts.held_files;
        report.held_bytes = self.counts.held_bytes;
        let kinds = Container::ALL.into_iter().zip(self.counts.streams);
        report.streams = kinds.filter(|(_, counts)| counts.streams > 0).collect();
        report.first_content = self.contents.first();
        report.contents = self.contents.count() as u64;
        let extents = &self.contents.extents;
        report.extents = extents.row_count() as u64;
        extents.visit(extents.start(), extents.end(), |len, place| match place {
            StoredAt::Hole => report.hole_bytes += len,
            StoredAt::Zero => report.zero_bytes += len,
            StoredAt::Stream(_) | StoredAt::Rebuilt(_) => {}
        });
        Ok(Finish { contents: self.contents, frames, index, emitter })
    }

    /// Moves the contents from the buffer into the stream, in the order asked for.
    fn reorder(
        &mut self,
        buffer: ReorderBuffer<'env>,
        report: &mut Report,
    ) -> Result<(), WriteError> {
        report.similar_contents = buffer.similar_count();
        report.contents_stored_first = buffer.listed_count();
        report.temporary_file_bytes += buffer.file_len_max();
        let buffered = std::mem::take(&mut self.contents.extents);
        let Arranged { bytes, items, mut order } = buffer.finish()?;
        let bytes = Arc::new(bytes);
        let has_hot = self.build.plan().has_hot;
        let hot_count = if has_hot { report.contents_stored_first as usize } else { 0 };
        // What lies between streams would only be in the way of what is in them.
        let place = |index: &u32| {
            let item = items[*index as usize];
            (item.class, self.containers.contains_key(&u64::from(item.content)))
        };
        order[hot_count..].sort_by_key(place);
        if let Some(mut query) = self.frames.query() {
            let mut read = Vec::new();
            for part in parts_of(&items, &order) {
                self.build.check_cancel()?;
                read.resize((part.range.end - part.range.start) as usize, 0);
                bytes.read_at(part.range.start, &mut read)?;
                query.push(&read);
            }
            self.frames.narrow(&query);
        }
        self.build.enter(Stage::Segment);
        self.frames.begin_buffered(Arc::clone(&bytes));
        if items.iter().any(|item| !item.range().is_empty()) {
            self.begin_stream()?;
        }
        let mut relocation = Relocation::default();
        let samples = std::mem::take(&mut self.buffered_samples);
        let window_len = self.build.plan().segment_window_len;
        let mut ahead = ReadAhead::new(self.build.clone(), bytes, window_len);
        let mut asked = parts_of(&items, &order);
        let mut in_part = None;
        let (mut found, mut next) = (ScannedParts::default(), 0);
        for part in parts_of(&items, &order) {
            self.build.check_cancel()?;
            while ahead.has_room()
                && let Some(Part { item, range, .. }) = asked.next()
            {
                let segments = self.segments.as_ref();
                let step_log2 =
                    segments.map(|segments| segments.step_log2(item.content_len, item.category));
                ahead.ask(Wanted { content_start: item.range().start, range, step_log2 });
            }
            if next == found.part_count() {
                (found, next) = (ahead.next()?, 0);
            }
            let Part { item, position, range } = part;
            let kind = (item.class, position < hot_count);
            if in_part != Some(kind) {
                in_part = Some(kind);
                self.frames.begin_part(item.class, position < hot_count)?;
            }
            let (bytes, known) = found.part(next);
            next += 1;
            let how = (item.content_len, item.category);
            self.buffered_data(&samples, (range.start, bytes, known), how)?;
            if range.end == item.range().end {
                self.end_content()?;
                relocation.push(item.range(), &std::mem::take(&mut self.contents.extents));
            }
        }
        relocation.sort();
        self.contents.extents = buffered;
        let order: Vec<u32> = order.iter().map(|&index| items[index as usize].content).collect();
        self.contents.reorder(&order, &relocation);
        Ok(())
    }

    fn find(&mut self, key: &ContentKey<'_>) -> Result<Option<u64>, WriteError> {
        let found = self.contents.find(key)?;
        if found.is_some() {
            self.counts.duplicate_files += 1;
            self.counts.duplicate_bytes += key.len;
        }
        Ok(found)
    }

    /// Stores a large file whose sample and first step were read. The rest is read once, or twice
    /// where one like it was met before.
    fn large_attempt(
        &mut self,
        sample: io::Result<u64>,
        step: Step<LargeFile>,
        metadata: Metadata,
        attempt: u32,
    ) -> Result<Attempt<Stored>, WriteError> {
        let sample = match sample {
            Ok(sample) => sample,
            Err(error) => return Ok(Attempt::Failed(error)),
        };
        let mut pieces = if self.contents.note_sample(metadata.len, sample)? {
            let (finished, reading) = digest_only(&self.build, step)?;
            let finished = match finished {
                Ok(finished) => finished,
                Err(error) => return Ok(Attempt::Failed(error)),
            };
            let Finished { len, digest, holes, change } = finished;
            if self.build.patience().takes(change, attempt)
                && let Some(id) = self.find(&ContentKey { len, digest, holes: &holes })?
            {
                self.build.progress().done(0, len);
                return Ok(Attempt::Done(Stored { id, len, change }));
            }
            LargePieces::start(self.build.clone(), reading)
        } else {
            LargePieces::after(self.build.clone(), step)
        };
        self.stream(&mut pieces, metadata, attempt, false)
    }

    /// Puts a large content into the stream while it is read. If it turns out to have changed, or
    /// cannot be read to its end, or is there already, nothing of it stays in the stream. It may be
    /// there if `was_met`.
    fn stream<P: PieceReader + Send + 'env>(
        &mut self,
        pieces: &mut LargePieces<'env, P>,
        metadata: Metadata,
        attempt: u32,
        was_met: bool,
    ) -> Result<Attempt<Stored>, WriteError> {
        if self.buffer.is_some() || self.frames.can_roll_back() {
            return self.stream_revocably(pieces, metadata.len, attempt, was_met);
        }
        // What is in the stream may be referred to at once, so only whole contents get there.
        let (copy, finished) = match self.copy(pieces, metadata)? {
            Ok((copy, finished)) => (copy.reader(), finished),
            Err(error) => return Ok(Attempt::Failed(error)),
        };
        if !self.build.patience().takes(finished.change, attempt) {
            return Ok(Attempt::Changed);
        }
        let reading = Reading::new(self.build.env, copy, finished.len, self.treatment);
        let mut copy = LargePieces::start(self.build.clone(), reading);
        Ok(match self.stream_revocably(&mut copy, finished.len, attempt, false)? {
            Attempt::Done(stored) => Attempt::Done(Stored { change: finished.change, ..stored }),
            // The bytes are in the stream.
            Attempt::Failed(error) => return Err(WriteError::TemporaryFile(error)),
            Attempt::Changed => return Err(WriteError::TemporaryFileDamaged),
        })
    }

    /// Puts a large content of about `len` bytes into the buffer, or into a pipeline that can take
    /// it back.
    fn stream_revocably<P: PieceReader + Send + 'env>(
        &mut self,
        pieces: &mut LargePieces<'env, P>,
        len: u64,
        attempt: u32,
        was_met: bool,
    ) -> Result<Attempt<Stored>, WriteError> {
        let base = self.contents.extents.end();
        let buffer_start = self.buffer.as_ref().map_or(0, ReorderBuffer::end);
        if self.buffer.is_none() && self.frames.can_roll_back() {
            self.frames.hold();
        }
        loop {
            self.build.check_cancel()?;
            match pieces.next() {
                Some(Piece::Data(data)) => {
                    let Data { bytes, runs, samples, .. } = data;
                    let category = pieces.category().unwrap_or(Category::Generic);
                    self.runs(&bytes, &runs, &samples, len, category)?;
                    self.build.progress().done(0, bytes.len() as u64);
                }
                Some(Piece::Hole(len)) => {
                    self.without_data(len, StoredAt::Hole)?;
                    self.build.progress().done(0, len);
                }
                None => break,
            }
        }
        self.end_content()?;
        let finished = pieces.end();
        if let Ok(Finished { len, digest, holes, change }) = &finished
            && was_met
        {
            let key = ContentKey { len: *len, digest: *digest, holes };
            if self.contents.has(&key)? {
                self.take_back(base, buffer_start)?;
                let id = self.find(&key)?.unwrap_or_default();
                return Ok(Attempt::Done(Stored { id, len: *len, change: *change }));
            }
        }
        let failed = match finished {
            Ok(read) if self.build.patience().takes(read.change, attempt) => {
                self.frames.release()?;
                let Finished { len, digest, change, .. } = read;
                if len == 0 {
                    return Ok(Attempt::Done(Stored { id: 0, len, change }));
                }
                let id = self.contents.push(digest, base);
                if let Some(buffer) = &mut self.buffer {
                    let category = pieces.category().unwrap_or(Category::Generic);
                    let local = id - self.contents.first();
                    let how = (category, self.treatment.class);
                    buffer.end_content(buffer_start, local, len, how, &pieces.sketch());
                }
                return Ok(Attempt::Done(Stored { id, len, change }));
            }
            Ok(_) => Attempt::Changed,
            Err(error) => Attempt::Failed(error),
        };
        self.take_back(base, buffer_start)?;
        Ok(failed)
    }

    /// Forgets what was stored since content space ended at `base` and buffer space at
    /// `buffer_start`.
    fn take_back(&mut self, base: u64, buffer_start: u64) -> Result<(), WriteError> {
        self.contents.extents.truncate(base);
        match &mut self.buffer {
            Some(buffer) => {
                self.buffered_samples.retain(|(range, _)| range.start < buffer_start);
                buffer.truncate(buffer_start)?;
            }
            None => self.frames.roll_back(),
        }
        Ok(())
    }

    /// Copies a content to a temporary file, and counts its bytes.
    fn copy<P: PieceReader + Send + 'env>(
        &mut self,
        pieces: &mut LargePieces<'env, P>,
        metadata: Metadata,
    ) -> Result<io::Result<(CopiedContent, Finished)>, WriteError> {
        let copied = copy_to_file(&self.build, pieces, metadata)?;
        if let Ok((copy, _)) = &copied {
            self.counts.copied_bytes_max = self.counts.copied_bytes_max.max(copy.file_len());
        }
        Ok(copied)
    }

    /// Stores data of a content of `content_len` bytes.
    fn data(
        &mut self,
        bytes: &[u8],
        content_len: u64,
        category: Category,
        run: Option<SampleRun>,
    ) -> Result<(), WriteError> {
        if let Some(buffer) = &mut self.buffer {
            let start = buffer.push(bytes)?;
            if let Some(run) = run {
                let range = start..start + bytes.len() as u64;
                match self.buffered_samples.last_mut() {
                    Some((last, first))
                        if last.end == start && first.after(last.end - last.start) == run =>
                    {
                        last.end = range.end;
                    }
                    _ => self.buffered_samples.push((range, run)),
                }
            }
            self.contents.extents.push(bytes.len() as u64, StoredAt::Stream(start));
            return Ok(());
        }
        self.begin_stream()?;
        self.stream_data((bytes, 0, None), content_len, category, run)
    }

    /// Learns of the image that is continued, before the first byte goes into the stream.
    fn begin_stream(&mut self) -> Result<(), WriteError> {
        if !self.has_learned {
            self.has_learned = true;
            let window_len = self.build.plan().segment_window_len;
            let segments = &mut self.segments;
            self.frames.learn(window_len, |anchors| {
                if let Some(segments) = segments {
                    segments.learn(anchors);
                }
            })?;
            if let (Some(segments), Some(_)) = (&mut self.segments, self.build.base()) {
                segments.set_homes(Homes::of(Arc::clone(self.frames.old()?), self.build.plan()));
            }
        }
        Ok(())
    }

    /// Puts data into the stream: where they lie in the buffer, and their anchors, if known.
    fn stream_data(
        &mut self,
        (bytes, place, known): (&[u8], u64, Option<&[Anchor]>),
        content_len: u64,
        category: Category,
        run: Option<SampleRun>,
    ) -> Result<(), WriteError> {
        let extents = &mut self.contents.extents;
        match &mut self.segments {
            None => {
                let may_split = content_len > SMALL_LEN_MAX;
                let offset = self.frames.push(bytes, place, category, may_split, run)?;
                extents.push(bytes.len() as u64, StoredAt::Stream(offset));
                Ok(())
            }
            Some(segments) => {
                let bytes = (bytes, place, known);
                segments.push(bytes, content_len, (category, run), &mut self.frames, extents)
            }
        }
    }

    /// Puts data from `start` in the buffer into the stream, where these ranges of it are
    /// `samples`.
    fn buffered_data(
        &mut self,
        samples: &[(Range<u64>, SampleRun)],
        (start, bytes, known): (u64, &[u8], Option<&[Anchor]>),
        (content_len, category): (u64, Category),
    ) -> Result<(), WriteError> {
        let (mut at, end) = (start, start + bytes.len() as u64);
        let mut next = samples.partition_point(|(range, _)| range.end <= at);
        while at < end {
            let (stop, run) = match samples.get(next) {
                Some((range, run)) if range.start <= at => {
                    next += 1;
                    (range.end, Some(run.after(at - range.start)))
                }
                Some((range, _)) => (range.start, None),
                None => (end, None),
            };
            let stop = stop.min(end);
            let part = &bytes[(at - start) as usize..(stop - start) as usize];
            self.stream_data((part, at, known), content_len, category, run)?;
            at = stop;
        }
        Ok(())
    }

    /// Adds an extent that has no bytes in the stream.
    fn without_data(&mut self, len: u64, place: StoredAt) -> Result<(), WriteError> {
        self.end_content()?;
        self.contents.extents.push(len, place);
        Ok(())
    }

    /// Ends what the segment stage holds back.
    fn end_content(&mut self) -> Result<(), WriteError> {
        match &mut self.segments {
            None => Ok(()),
            Some(segments) => segments.end(&mut self.frames, &mut self.contents.extents),
        }
    }
}
