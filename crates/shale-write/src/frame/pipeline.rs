//! Frames on their way: from the stream to the threads, and in order to the image.
//!
//! Where frames stand alone they are compressed as soon as they are full and written when their
//! turn comes; no more than the budget is in flight. Where frames refer to others they wait in
//! [`WaitingFrames`] until all are there. Then references are chosen, and they take the same way.
//!
//! Keeps one record of 72 bytes a frame until the tables are written.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

use shale_format::{AppendIndex, Category, FrameRecord, SectionType};

use crate::base::frames::OldFrames;
use crate::base::index::{OldIndex, Query};
use crate::base::learn::{Wanted, learn};
use crate::content::dedupe::Contents;
use crate::content::samples::SampleRun;
use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::frame::body::Body;
use crate::frame::compress::{Compressor, Packed, Packing, References};
use crate::frame::framer::{FrameTraits, Framer, PlainFrame};
use crate::frame::held::HeldFrames;
use crate::frame::waiting::{LoadFrame, WaitingFrames};
use crate::layout::buffered::Buffered;
use crate::output::emitter::Emitter;
use crate::output::frame_table::FrameTable;
use crate::plan::classes::ClassIndex;
use crate::plan::error::WriteError;
use crate::plan::report::{CategoryCounts, Report, Stage};
use crate::reference::choice::{FrameShape, ReferenceChoice};
use crate::reference::co_read_sets::CoReadSets;
use crate::reference::constraints::{bounds, set_depths};
use crate::reference::sketch::Sketches;
use crate::reference::stage::ReferenceStage;
use crate::segment::segmenter::Anchor;
use shale_host::Phase;

/// The stream of new bytes, cut into frames.
pub(crate) struct FramePipeline<'env> {
    build: Build<'env>,
    emitter: Emitter<'env>,
    framer: Framer,
    /// Frames that are kept until the stream ends, so that they can be read back or get references;
    /// `None` where frames stand alone.
    waiting: Option<WaitingFrames>,
    /// Chooses references; `None` where there are none.
    references: Option<ReferenceStage<'env>>,
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: u64,
    /// Frames that may be taken back, see [`Self::hold`].
    held: Option<HeldFrames>,
    table: FrameTable,
    /// Frames of the image that is continued; loaded when first asked for.
    old: OnceCell<Arc<OldFrames>>,
    /// Its append index, and which frames are to be learned; all by default.
    old_index: OldIndex,
    learned_frames: Option<Vec<bool>>,
    /// Sketches of old and new frames, for the append index of this build.
    sketches: Option<(Sketches, Sketches)>,
    counts: Counts,
}

/// Plain bytes of a short frame, see [`FramePipeline::set_short`].
const SHORT_FRAME_LEN: usize = 32 << 10;

struct InFlight {
    ticket: Ticket<Result<Packed, WriteError>>,
    bytes: u64,
}

#[derive(Default)]
struct Counts {
    frames_with_references: u64,
    frames_references_dropped: u64,
    reference_saved_bytes: u64,
    temporary_file_bytes: u64,
    stored_bytes: u64,
    categories: Vec<CategoryCounts>,
}

impl<'env> FramePipeline<'env> {
    /// Starts a pipeline that writes to `emitter`. `keeps_plain`: the stream will be read back.
    pub(crate) fn new(build: Build<'env>, emitter: Emitter<'env>, keeps_plain: bool) -> Self {
        let plan = build.plan();
        let references = plan.references.map(|limits| {
            ReferenceStage::new(build.clone(), limits, plan.level.reference_work_per_byte)
        });
        let table =
            build.base().map_or_else(FrameTable::default, |base| FrameTable::after(base.state()));
        let start = table.stream_start;
        let waiting = (keeps_plain || references.is_some()).then(|| {
            WaitingFrames::new(plan.waiting_bytes_max, build.options().temp_dir.clone(), start)
        });
        Self {
            emitter,
            framer: Framer::new(plan.classes.usual().frame_len, start),
            waiting,
            references,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            held: None,
            table,
            old: OnceCell::new(),
            old_index: OldIndex::default(),
            learned_frames: None,
            sketches: None,
            counts: Counts::default(),
            build,
        }
    }

    /// Returns a query for the frames of the image that is continued which new contents resemble,
    /// for [`Self::narrow`]; `None` if there is no append index or nothing to learn.
    pub(crate) fn query(&mut self) -> Option<Query> {
        let base = self.build.base()?;
        self.references.as_ref()?;
        self.old_index = OldIndex::of(&**base);
        self.old_index.query()
    }

    /// Lets only those frames be learned that contents of this query resemble.
    pub(crate) fn narrow(&mut self, query: &Query) {
        self.learned_frames = Some(self.old_index.wanted(query));
    }

    /// Learns what frames of the image that is continued share with new contents. Called once,
    /// before the first byte of the stream.
    /// `anchors` takes those of each frame, with windows of `window_len` bytes; 0 for none.
    pub(crate) fn learn(
        &mut self,
        window_len: u32,
        mut anchors: impl FnMut(&[Anchor]),
    ) -> Result<(), WriteError> {
        let wanted = Wanted { sketch: self.references.is_some(), window_len };
        if self.build.base().is_none() || (!wanted.sketch && window_len == 0) {
            return Ok(());
        }
        let old = Arc::clone(self.old()?);
        let references = &mut self.references;
        let frames = self.learned_frames.as_deref();
        learn(&self.build, &old, wanted, frames, |learned| {
            if let Some(references) = references {
                references.push_old(&learned.prints);
            }
            anchors(&learned.anchors);
        })
    }

    /// From now on, all bytes lie in `buffered`, and frames are made of ranges of it. Called before
    /// the first byte of the stream.
    pub(crate) fn begin_buffered(&mut self, buffered: Arc<Buffered>) {
        self.framer.begin_buffered(buffered);
    }

    /// Begins a part of the stream with contents of a class, hot or not. Parts share no frame.
    pub(crate) fn begin_part(&mut self, class: ClassIndex, is_hot: bool) -> Result<(), WriteError> {
        let how = self.build.plan().classes.get(class);
        let hot = how.hot.as_ref().filter(|_| is_hot);
        let frame_len = hot.map_or(how.frame_len, |hot| hot.frame_len);
        if let Some(frame) = self.framer.begin_part(frame_len, class, hot.is_some()) {
            self.frame(frame)?;
        }
        Ok(())
    }

    /// Returns whether bytes can be taken back: where frames stand alone.
    pub(crate) fn can_roll_back(&self) -> bool {
        self.waiting.is_none()
    }

    /// Keeps all frames that follow from being written until [`Self::release`]. They stay in memory
    /// up to the budget, and then in a temporary file.
    pub(crate) fn hold(&mut self) {
        debug_assert!(self.can_roll_back() && self.held.is_none());
        let plan = self.build.plan();
        let temp_dir = self.build.options().temp_dir.clone();
        let before = self.in_flight.len();
        self.held =
            Some(HeldFrames::new(self.framer.clone(), before, plan.waiting_bytes_max, temp_dir));
    }

    /// Writes the frames that were held, if any were.
    pub(crate) fn release(&mut self) -> Result<(), WriteError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.counts.temporary_file_bytes = self.counts.temporary_file_bytes.max(held.file_len());
        held.each(|packed| self.emit(packed))
    }

    /// Takes back everything since [`Self::hold`].
    pub(crate) fn roll_back(&mut self) {
        let Some(held) = self.held.take() else { return };
        for frame in self.in_flight.drain(held.before()..) {
            self.in_flight_bytes -= frame.bytes;
        }
        self.framer = held.into_framer();
    }

    /// Puts what follows into short frames, if `is_short`: parts of many contents that resemble
    /// different frames. A short frame can refer to most of those.
    pub(crate) fn set_short(&mut self, is_short: bool) -> Result<(), WriteError> {
        match self.framer.set_len_max(if is_short { SHORT_FRAME_LEN } else { usize::MAX }) {
            Some(frame) => self.frame(frame),
            None => Ok(()),
        }
    }

    /// Appends a run of bytes to the stream. Returns its offset there. `place` is where they lie in
    /// buffer space, see [`Self::begin_buffered`]. `may_split` is for parts of large files. `run`
    /// is for bytes that are samples.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut place: u64,
        category: Category,
        may_split: bool,
        mut run: Option<SampleRun>,
    ) -> Result<u64, WriteError> {
        if let Some(frame) = self.framer.before_run(bytes.len(), category, may_split, run) {
            self.frame(frame)?;
        }
        let offset = self.framer.stream_len();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, frame) = self.framer.push(rest, place, category, run);
            rest = &rest[taken..];
            place += taken as u64;
            run = run.map(|run| run.after(taken as u64));
            if let Some(frame) = frame {
                self.frame(frame)?;
            }
        }
        Ok(offset)
    }

    /// The frames of the image that is continued.
    pub(crate) fn old(&self) -> Result<&Arc<OldFrames>, WriteError> {
        if let Some(old) = self.old.get() {
            return Ok(old);
        }
        let old = match self.build.base() {
            Some(base) => OldFrames::of(&**base)?,
            None => OldFrames::default(),
        };
        Ok(self.old.get_or_init(|| Arc::new(old)))
    }

    /// Reads bytes of the stream back. Only for a pipeline with `keeps_plain`.
    pub(crate) fn read_at(&self, stream_offset: u64, out: &mut [u8]) -> Result<(), WriteError> {
        let old_len = self.table.stream_start.saturating_sub(stream_offset).min(out.len() as u64);
        let (old, out) = out.split_at_mut(old_len as usize);
        self.read_old(stream_offset, old)?;
        if out.is_empty() {
            return Ok(());
        }
        let stream_offset = stream_offset + old_len;
        let (start, current) = self.framer.current();
        let waiting_len = start.saturating_sub(stream_offset).min(out.len() as u64) as usize;
        let (before, after) = out.split_at_mut(waiting_len);
        if !before.is_empty() {
            let waiting = self.waiting.as_ref().expect("a pipeline that keeps plain frames");
            waiting.read_at(stream_offset, before)?;
        }
        if !after.is_empty() {
            let from = (stream_offset + waiting_len as u64 - start) as usize;
            current.read_at(from, after)?;
        }
        Ok(())
    }

    /// Reads bytes of the stream of the image that is continued.
    fn read_old(&self, mut stream_offset: u64, mut out: &mut [u8]) -> Result<(), WriteError> {
        let Some(base) = self.build.base() else { return Ok(()) };
        while !out.is_empty() {
            let (frame, start) = self.old()?.frame_at(stream_offset);
            let plain = base.frame(frame as u64)?;
            let from = (stream_offset - start) as usize;
            let len = out.len().min(plain.len() - from);
            let (part, rest) = out.split_at_mut(len);
            part.copy_from_slice(&plain[from..from + len]);
            stream_offset += len as u64;
            out = rest;
        }
        Ok(())
    }

    /// Ends the stream: compresses and writes all frames. Adds what was counted to `report`.
    pub(crate) fn finish(
        mut self,
        contents: &Contents,
        report: &mut Report,
    ) -> Result<(FrameTable, Option<AppendIndex>, Emitter<'env>), WriteError> {
        if let Some(frame) = self.framer.end_frame() {
            self.frame(frame)?;
        }
        if let Some(waiting) = self.waiting.take() {
            self.finish_waiting(waiting, contents)?;
        }
        self.write_ready(0)?;
        self.emitter.end_section()?;
        let old = match self.table.records.is_empty() {
            true => Arc::default(),
            false => Arc::clone(self.old()?),
        };
        set_depths(&mut self.table, &old);
        report.frames = self.table.records.len() as u64;
        report.plain_bytes = self.framer.stream_len() - self.table.stream_start;
        report.stored_bytes = self.counts.stored_bytes;
        report.references = self.table.references.len() as u64;
        report.frames_with_references = self.counts.frames_with_references;
        report.frames_references_dropped = self.counts.frames_references_dropped;
        report.reference_saved_bytes = self.counts.reference_saved_bytes;
        report.temporary_file_bytes += self.counts.temporary_file_bytes;
        report.categories = self.counts.categories;
        report.categories.sort_by_key(|counts| counts.category);
        report.bounds = bounds(&self.table, &old);
        let index = self.sketches.take().and_then(|(old, new)| {
            let image_len = self.build.base()?.state().image_len;
            self.old_index.continued(&old, &new, image_len, self.counts.stored_bytes)
        });
        Ok((self.table, index, self.emitter))
    }

    fn frame(&mut self, frame: PlainFrame) -> Result<(), WriteError> {
        self.build.check_cancel()?;
        let Some(waiting) = &mut self.waiting else {
            let PlainFrame { body, len, traits } = frame;
            let load = match body {
                Body::Bytes(bytes) => LoadFrame::Bytes(Arc::new(bytes)),
                Body::Ranges(ranges) => LoadFrame::Ranges(ranges),
            };
            return self.submit(len as u64, traits, move || Ok((load.load()?, Vec::new())));
        };
        let load = waiting.push(frame)?;
        match &mut self.references {
            Some(references) => references.push(load),
            None => Ok(()),
        }
    }

    /// Chooses references for all waiting frames, then compresses them.
    fn finish_waiting(
        &mut self,
        waiting: WaitingFrames,
        contents: &Contents,
    ) -> Result<(), WriteError> {
        self.counts.temporary_file_bytes = waiting.file_len();
        let mut choice = ReferenceChoice::default();
        if let Some(mut references) = self.references.take() {
            self.build.phase(Phase::Refer, Stage::Refer);
            let old = Arc::clone(self.old()?);
            let of_old = (0..old.count())
                .map(|index| FrameShape { len: old.len_of(index) as u32, is_alone: false });
            let plan = self.build.plan();
            let stands_alone =
                |traits: FrameTraits| traits.is_hot || plan.classes.get(traits.class).is_alone;
            let of_new = (0..waiting.count()).map(|index| FrameShape {
                // A frame is at most 64 MiB long.
                len: waiting.frame_len(index) as u32,
                is_alone: stands_alone(waiting.traits(index)),
            });
            let shapes: Vec<_> = of_old.chain(of_new).collect();
            let frame_len = plan.classes.usual().frame_len as u64;
            let start = self.table.stream_start;
            let frame_at = |offset| match offset < start {
                true => old.frame_at(offset).0 as u32,
                false => (old.count() + waiting.frame_at(offset)) as u32,
            };
            let co_read_sets =
                CoReadSets::of_contents(contents, &frame_at, shapes.len(), frame_len);
            choice = references.choose(&shapes, &old, &co_read_sets)?;
            if self.build.base().is_some() && self.build.options().append_index {
                self.sketches = Some(references.into_sketches());
            }
        }
        let first = self.table.first as usize;
        let base = self.build.base();
        self.build.phase(Phase::Compress, Stage::Compress);
        let waiting = Arc::new(waiting);
        for index in 0..waiting.count() {
            self.build.check_cancel()?;
            let of_frame = choice.of(first + index).to_vec();
            let mut bytes = waiting.frame_len(index);
            for &r in &of_frame {
                bytes += match (r as usize).checked_sub(first) {
                    Some(local) => waiting.frame_len(local),
                    None => self.old()?.len_of(r as usize) as usize,
                };
            }
            let traits = waiting.traits(index);
            let waiting = Arc::clone(&waiting);
            self.submit(bytes as u64, traits, move || {
                let references: Result<References, WriteError> = of_frame
                    .into_iter()
                    .map(|r| {
                        let plain = match ((r as usize).checked_sub(first), base) {
                            (None, Some(base)) => base.frame(u64::from(r))?,
                            (local, _) => waiting.frame(local.unwrap_or_default())?,
                        };
                        Ok((u64::from(r), plain))
                    })
                    .collect();
                Ok((waiting.frame(index)?, references?))
            })?;
        }
        Ok(())
    }

    /// Submits a frame to the threads, where `load` returns its bytes and references.
    fn submit(
        &mut self,
        bytes: u64,
        traits: FrameTraits,
        load: impl FnOnce() -> Result<(Arc<Vec<u8>>, References), WriteError> + Send + 'env,
    ) -> Result<(), WriteError> {
        let env = self.build.env;
        let class = env.plan.classes.get(traits.class);
        let hot = class.hot.as_ref().filter(|_| traits.is_hot);
        let codecs = hot.map_or(&class.codecs, |hot| &hot.codecs);
        let (choice, array_choice) = (codecs.of(traits.category), codecs.of(Category::Array));
        let ticket = self.build.submit(Urgency::Normal, Stage::Compress, move |scratch| {
            env.options.check_cancel()?;
            let packing = Packing {
                choice,
                array_choice,
                tries_incompressible: class.tries_incompressible,
                tries_filters: class.tries_filters,
                tries_lines: class.tries_lines,
                effort: class.effort,
                samples: traits.samples,
            };
            let (plain, references) = load()?;
            let packed =
                Compressor::new(scratch).pack(&packing, &plain, traits.category, references)?;
            env.progress.compressed(packed.record.plain_len, packed.record.stored_len);
            Ok(packed)
        });
        self.in_flight.push_back(InFlight { ticket, bytes });
        self.in_flight_bytes += bytes;
        self.write_ready(self.build.plan().flight_bytes_max)
    }

    /// Writes the oldest frames: those that are ready, and more until at most `flight_bytes_max`
    /// bytes are in flight; with 0, all frames.
    fn write_ready(&mut self, flight_bytes_max: u64) -> Result<(), WriteError> {
        while let Some(oldest) = self.in_flight.front() {
            let must = self.in_flight_bytes > flight_bytes_max || flight_bytes_max == 0;
            if !must && !oldest.ticket.is_ready() {
                break;
            }
            let packed = self.build.wait(&oldest.ticket)?;
            self.in_flight_bytes -= oldest.bytes;
            self.in_flight.pop_front();
            let passes = self.held.as_mut().is_none_or(HeldFrames::passes);
            match &mut self.held {
                Some(held) if !passes => held.push(packed)?,
                _ => self.emit(packed)?,
            }
        }
        Ok(())
    }

    fn emit(&mut self, packed: Packed) -> Result<(), WriteError> {
        let stored_offset = self.emitter.add(SectionType::Frames, &packed.stored)?;
        let record = FrameRecord {
            plain_start: self.table.stream_end(),
            stored_offset,
            reference_first: self.table.first_reference + self.table.references.len() as u64,
            ..packed.record
        };
        self.table.references.extend_from_slice(&packed.references);
        self.table.records.push(record);
        self.counts.stored_bytes += record.stored_len;
        self.counts.frames_with_references += u64::from(!packed.references.is_empty());
        self.counts.frames_references_dropped += u64::from(packed.references_dropped);
        self.counts.reference_saved_bytes += packed.saved_bytes;
        let category = Category::from_id(record.category);
        let categories = &mut self.counts.categories;
        let index = match categories.iter().position(|counts| counts.category == category) {
            Some(index) => index,
            None => {
                categories.push(CategoryCounts {
                    category,
                    frames: 0,
                    plain_bytes: 0,
                    stored_bytes: 0,
                });
                categories.len() - 1
            }
        };
        categories[index].frames += 1;
        categories[index].plain_bytes += record.plain_len;
        categories[index].stored_bytes += record.stored_len;
        Ok(())
    }
}
