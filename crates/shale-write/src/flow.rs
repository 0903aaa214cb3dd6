//! Frames on their way: from the stream to the threads, in order to the image.
//!
//! Where frames stand alone they are compressed as soon as they are full and written when their
//! turn comes; no more than the budget is in flight. Where frames refer to others they wait in a
//! [`Spool`] until all are there, references are chosen, and then they take the same way.
//!
//! Keeps one record of 72 bytes a frame until the tables are written.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shale_format::{Category, FrameRecord, ReadBounds, SectionType};

use crate::budget::Plan;
use crate::compress::{Packed, Packing, References};
use crate::dedupe::Contents;
use crate::emit::Emitter;
use crate::order::{FrameTraits, Framer, PlainFrame};
use crate::pool::{Pool, Ticket, Urgency};
use crate::progress::Phase;
use crate::refer::Shape;
use crate::reference::{self, Choice, PRINT_COUNT_MAX, Referrer, Sketches};
use crate::report::CategoryCounts;
use crate::spool::Spool;
use crate::spread::Spreads;
use crate::{Options, Progress, Report, WriteError};

/// What does not change during a build.
pub(crate) struct Env<'a> {
    pub(crate) options: &'a Options,
    pub(crate) plan: Plan,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) referrer: Option<&'a dyn Referrer>,
    /// Set when the build ends: tasks that wait are not run any more.
    pub(crate) leave: AtomicBool,
}

impl Env<'_> {
    /// Whether tasks should give up.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.leave.load(Ordering::Relaxed) || self.options.check_cancel().is_err()
    }
}

/// The stream of new bytes, cut into frames.
pub(crate) struct Flow<'env> {
    env: &'env Env<'env>,
    pub(crate) emitter: Emitter<'env>,
    framer: Framer,
    /// Frames that wait for references; `None` where frames stand alone.
    spool: Option<Spool>,
    /// Sketches that are being made, oldest first, and those that are done.
    sketching: VecDeque<Ticket<Vec<u64>>>,
    sketches: Sketches,
    flight: VecDeque<InFlight>,
    flight_bytes: u64,
    pub(crate) frames: Vec<FrameRecord>,
    /// References of all frames, one after the other.
    pub(crate) references: Vec<u64>,
    counts: Counts,
}

struct InFlight {
    ticket: Ticket<Result<Packed, WriteError>>,
    bytes: u64,
}

#[derive(Default)]
struct Counts {
    frames_with_references: u64,
    frames_references_dropped: u64,
    reference_saved_bytes: u64,
    spool_bytes: u64,
    stored_bytes: u64,
    categories: Vec<CategoryCounts>,
}

impl<'env> Flow<'env> {
    pub(crate) fn new(env: &'env Env<'env>, emitter: Emitter<'env>, keeps_plain: bool) -> Self {
        let spool = (keeps_plain || env.referrer.is_some())
            .then(|| Spool::new(env.plan.spool_bytes_max, env.options.temp_dir.clone()));
        Self {
            env,
            emitter,
            framer: Framer::new(env.plan.frame_len),
            spool,
            sketching: VecDeque::new(),
            sketches: Sketches::new(PRINT_COUNT_MAX),
            flight: VecDeque::new(),
            flight_bytes: 0,
            frames: Vec::new(),
            references: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Offset in stream space of the next byte.
    pub(crate) fn stream_len(&self) -> u64 {
        self.framer.stream_len()
    }

    /// What is pushed from here on is hot files, or is not: the two share no frame.
    pub(crate) fn begin_part(
        &mut self,
        pool: &mut Pool<'env>,
        is_hot: bool,
    ) -> Result<(), WriteError> {
        let plan = &self.env.plan;
        let hot = plan.hot.as_ref().filter(|_| is_hot);
        let frame_len = hot.map_or(plan.frame_len, |hot| hot.frame_len);
        if let Some(frame) = self.framer.begin_part(frame_len, hot.is_some()) {
            self.frame(pool, frame)?;
        }
        Ok(())
    }

    /// Appends a run of bytes to the stream and returns its offset there. `may_split`: it is part
    /// of a large file.
    pub(crate) fn push(
        &mut self,
        pool: &mut Pool<'env>,
        bytes: &[u8],
        category: Category,
        may_split: bool,
    ) -> Result<u64, WriteError> {
        if let Some(frame) = self.framer.before_run(bytes.len(), category, may_split) {
            self.frame(pool, frame)?;
        }
        let offset = self.framer.stream_len();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, frame) = self.framer.push(rest, category);
            rest = &rest[taken..];
            if let Some(frame) = frame {
                self.frame(pool, frame)?;
            }
        }
        Ok(offset)
    }

    /// Reads bytes of the stream back. Only where frames are kept.
    pub(crate) fn read_at(&self, stream_offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (start, current) = self.framer.current();
        let spooled = start.saturating_sub(stream_offset).min(out.len() as u64) as usize;
        let (before, after) = out.split_at_mut(spooled);
        if !before.is_empty() {
            let spool = self.spool.as_ref().ok_or(io::ErrorKind::Unsupported)?;
            spool.read_at(stream_offset, before)?;
        }
        if !after.is_empty() {
            let from = (stream_offset + spooled as u64 - start) as usize;
            let bytes =
                current.get(from..from + after.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            after.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Ends the stream: all frames are compressed and written.
    pub(crate) fn finish(
        &mut self,
        pool: &mut Pool<'env>,
        contents: &Contents,
    ) -> Result<(), WriteError> {
        if let Some(frame) = self.framer.end_frame() {
            self.frame(pool, frame)?;
        }
        if let Some(spool) = self.spool.take() {
            self.refer(pool, spool, contents)?;
        }
        self.land(pool, 0)?;
        self.emitter.end_section(pool)?;
        reference::set_depths(&mut self.frames, &self.references);
        Ok(())
    }

    /// What a random read can cost.
    pub(crate) fn bounds(&self) -> ReadBounds {
        reference::bounds(&self.frames, &self.references)
    }

    /// Adds what was counted here to a report.
    pub(crate) fn report(&mut self, report: &mut Report) {
        report.frames = self.frames.len() as u64;
        report.plain_bytes = self.framer.stream_len();
        report.stored_bytes = self.counts.stored_bytes;
        report.references = self.references.len() as u64;
        report.frames_with_references = self.counts.frames_with_references;
        report.frames_references_dropped = self.counts.frames_references_dropped;
        report.reference_saved_bytes = self.counts.reference_saved_bytes;
        report.spool_bytes += self.counts.spool_bytes;
        self.counts.categories.sort_by_key(|counts| counts.category);
        report.categories = std::mem::take(&mut self.counts.categories);
    }

    fn frame(&mut self, pool: &mut Pool<'env>, frame: PlainFrame) -> Result<(), WriteError> {
        self.env.options.check_cancel()?;
        let Some(spool) = &mut self.spool else {
            let PlainFrame { bytes, traits } = frame;
            return self.launch(pool, bytes.len() as u64, traits, move || {
                Ok((Arc::new(bytes), Vec::new()))
            });
        };
        let bytes = spool.push(frame)?;
        if let Some(referrer) = self.env.referrer {
            let ticket =
                pool.submit(Urgency::Normal, &self.env.leave, move |_| referrer.sketch(&bytes));
            self.sketching.push_back(ticket);
            // A sketch that waits holds its frame in memory: let only a few wait.
            self.collect_sketches(pool, self.env.plan.threads * 4);
        }
        Ok(())
    }

    /// Collects the oldest sketches until only `lag` are being made.
    fn collect_sketches(&mut self, pool: &mut Pool<'env>, lag: usize) {
        while self.sketching.len() > lag {
            if let Some(ticket) = self.sketching.pop_front() {
                let prints = pool.wait(&ticket);
                self.sketches.push(&prints);
            }
        }
    }

    /// Chooses references for all frames in the spool, then compresses them.
    fn refer(
        &mut self,
        pool: &mut Pool<'env>,
        spool: Spool,
        contents: &Contents,
    ) -> Result<(), WriteError> {
        self.counts.spool_bytes = spool.file_len();
        let mut choice = Choice::default();
        if let Some(referrer) = self.env.referrer {
            self.env.progress.phase(Phase::Refer);
            self.collect_sketches(pool, 0);
            self.env.options.check_cancel()?;
            let shapes: Vec<_> = (0..spool.frame_count())
                .map(|index| Shape {
                    // A frame is at most 64 MiB long.
                    len: spool.frame_len(index) as u32,
                    is_alone: spool.traits(index).is_hot,
                })
                .collect();
            let frame_len = self.env.plan.frame_len as u64;
            let frame_at = |offset| spool.frame_at(offset) as u32;
            let spreads = Spreads::of_contents(contents, &frame_at, shapes.len(), frame_len);
            let sketches = std::mem::replace(&mut self.sketches, Sketches::new(0));
            let env = self.env;
            choice = referrer.choose(sketches, &shapes, &spreads, &|| env.is_cancelled());
            env.options.check_cancel()?;
            reference::assert_valid(&choice, &shapes, referrer.limits());
        }
        self.env.progress.phase(Phase::Compress);
        let spool = Arc::new(spool);
        for index in 0..spool.frame_count() {
            self.env.options.check_cancel()?;
            let of_frame = choice.of(index).to_vec();
            let bytes = spool.frame_len(index)
                + of_frame.iter().map(|&r| spool.frame_len(r as usize)).sum::<usize>();
            let traits = spool.traits(index);
            let spool = Arc::clone(&spool);
            self.launch(pool, bytes as u64, traits, move || {
                let references: Result<References, WriteError> = of_frame
                    .into_iter()
                    .map(|r| Ok((u64::from(r), spool.frame(r as usize)?)))
                    .collect();
                Ok((spool.frame(index)?, references?))
            })?;
        }
        Ok(())
    }

    /// Hands a frame to the threads; `load` brings its bytes and references there.
    fn launch(
        &mut self,
        pool: &mut Pool<'env>,
        bytes: u64,
        traits: FrameTraits,
        load: impl FnOnce() -> Result<(Arc<Vec<u8>>, References), WriteError> + Send + 'env,
    ) -> Result<(), WriteError> {
        let env = self.env;
        let hot = env.plan.hot.as_ref().filter(|_| traits.is_hot);
        let choice = hot.map_or(&env.plan.codecs, |hot| &hot.codecs).of(traits.category);
        let ticket = pool.submit(Urgency::Normal, &env.leave, move |bench| {
            env.options.check_cancel()?;
            let packing = Packing {
                choice,
                tries_incompressible: env.plan.level.tries_incompressible,
                tries_filters: env.plan.level.tries_filters,
            };
            let (plain, references) = load()?;
            let packed = bench.pack(&packing, &plain, traits.category, references)?;
            env.progress.compressed(packed.record.plain_len, packed.record.stored_len);
            Ok(packed)
        });
        self.flight.push_back(InFlight { ticket, bytes });
        self.flight_bytes += bytes;
        self.land(pool, self.env.plan.flight_bytes_max)
    }

    /// Writes the oldest frames: those that are ready, and more until few enough bytes are in
    /// flight.
    fn land(&mut self, pool: &mut Pool<'env>, flight_bytes_max: u64) -> Result<(), WriteError> {
        while let Some(oldest) = self.flight.front() {
            let must = self.flight_bytes > flight_bytes_max || flight_bytes_max == 0;
            if !must && !pool.is_ready(&oldest.ticket) {
                break;
            }
            let packed = pool.wait(&oldest.ticket)?;
            self.flight_bytes -= oldest.bytes;
            self.flight.pop_front();
            self.emit(pool, packed)?;
        }
        Ok(())
    }

    fn emit(&mut self, pool: &mut Pool<'env>, packed: Packed) -> Result<(), WriteError> {
        let stored_offset = self.emitter.add(pool, SectionType::Frames, &packed.stored)?;
        let last = self.frames.last();
        let record = FrameRecord {
            plain_start: last.map_or(0, |last| last.plain_start + last.plain_len),
            stored_offset,
            reference_first: self.references.len() as u64,
            ..packed.record
        };
        self.references.extend_from_slice(&packed.references);
        self.frames.push(record);
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
