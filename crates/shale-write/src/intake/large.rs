//! Large contents: read and digested piece by piece by one thread at a time, looked at by any, and
//! handed out in order.
//!
//! Two kinds of tasks share the work. The first kind reads and digests the next pieces; each
//! follows the one before. The second kind sketches a piece and finds its zeroes; those of several
//! pieces run at the same time. The thread that decides only asks for them, so what it does for a
//! large content does not depend on the speed of the source.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use shale_format::Category;
use shale_model::{Metadata, OpenContent, ProblemKind};

use crate::content::categorize::category_of;
use crate::content::read::{
    Finished, LargeFile, LargePiece, PIECE_LEN, PieceReader, Run, SMALL_LEN_MAX, join_short_runs,
    split_runs,
};
use crate::content::samples::{SampleFinder, SampleRun};
use crate::exec::build::{Build, Env};
use crate::exec::pool::{Ticket, Urgency};
use crate::intake::treatment::Treatment;
use crate::layout::similarity::{Sketcher, WINDOW_LEN};
use crate::plan::error::WriteError;
use crate::plan::order::Order;
use crate::plan::report::Stage;

/// Pieces that one task reads.
const STEP_PIECES: usize = 2;
/// Bytes of a large file that are read ahead of its turn, at most.
pub(super) const FIRST_LEN: u64 = (STEP_PIECES * PIECE_LEN) as u64;
/// Most pieces that were read and not handed out, beside those of the last task.
const WAITING_PIECES_MAX: usize = 4;

/// A large content that is being read.
pub(crate) struct Reading<P> {
    pub(crate) pieces: P,
    finder: SampleFinder,
    category: Option<Category>,
    /// The last bytes of data, for sketches of windows that begin there.
    before: Vec<u8>,
    treatment: Treatment,
    sketches: bool,
}

/// What one task read.
pub(crate) struct Step<P> {
    reading: Reading<P>,
    pieces: Vec<RawPiece>,
    /// Set at the end, or when the source failed.
    end: Option<io::Result<Finished>>,
}

/// A piece that was read and not looked at.
enum RawPiece {
    Data { bytes: Vec<u8>, before: Vec<u8>, samples: Vec<(Range<usize>, SampleRun)> },
    Hole(u64),
}

/// A piece, and what was found in it.
pub(crate) enum Piece {
    Data(Data),
    Hole(u64),
}

/// Data of a content.
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    pub(crate) runs: Vec<Run>,
    pub(crate) samples: Vec<(Range<usize>, SampleRun)>,
    /// Fingerprints, see [`crate::layout::similarity`].
    prints: Vec<u64>,
}

impl<P: PieceReader> Reading<P> {
    /// Nothing was read yet of a content of about `len` bytes.
    pub(crate) fn new(env: &Env<'_>, pieces: P, len: u64, treatment: Treatment) -> Self {
        Self {
            pieces,
            finder: SampleFinder::new(len),
            category: None,
            before: Vec::new(),
            treatment,
            sketches: env.plan.order == Order::Similarity,
        }
    }

    /// Reads the next pieces.
    fn step(mut self) -> Step<P> {
        let mut pieces = Vec::new();
        let end = loop {
            if self.pieces.is_at_end() {
                break Some(self.pieces.finish());
            }
            if pieces.len() == STEP_PIECES {
                break None;
            }
            let mut bytes = Vec::new();
            match self.pieces.next(&mut bytes) {
                Ok(Some(LargePiece::Data)) => pieces.push(self.data(bytes)),
                Ok(Some(LargePiece::Hole(len))) => {
                    self.finder.skip(len);
                    pieces.push(RawPiece::Hole(len));
                }
                Ok(None) => break Some(self.pieces.finish()),
                Err(error) => break Some(Err(error)),
            }
        };
        Step { reading: self, pieces, end }
    }

    fn data(&mut self, bytes: Vec<u8>) -> RawPiece {
        let mut samples = self.finder.push(&bytes);
        if self.treatment.ignores_samples() {
            samples.clear();
        }
        self.category.get_or_insert_with(|| {
            let known = self.treatment.category.or(self.finder.category());
            known.unwrap_or_else(|| category_of(&bytes))
        });
        let mut before = Vec::new();
        if self.sketches {
            before.clone_from(&self.before);
            self.before.extend_from_slice(&bytes[bytes.len().saturating_sub(WINDOW_LEN)..]);
            let excess = self.before.len().saturating_sub(WINDOW_LEN);
            self.before.drain(..excess);
        }
        RawPiece::Data { bytes, before, samples }
    }
}

impl Reading<LargeFile> {
    /// Starts again at the front.
    fn rewind(&mut self) {
        self.pieces.rewind();
        self.finder = SampleFinder::new(self.pieces.metadata.len);
        self.category = None;
        self.before.clear();
    }
}

/// A large file that was opened, and its first pieces.
pub(crate) struct Opened {
    pub(crate) metadata: Metadata,
    /// Sample of the bytes, see [`LargeFile::sample`]; `None` if the file is small by now.
    pub(crate) sample: Option<io::Result<u64>>,
    pub(crate) step: Step<LargeFile>,
}

/// Opens a file. Reads its sample and its first pieces, unless it is small by now.
///
/// # Errors
/// Why it cannot be opened.
pub(crate) fn open_large(
    env: &Env<'_>,
    content: &dyn OpenContent,
    treatment: Treatment,
) -> Result<Opened, ProblemKind> {
    Ok(opened(env, LargeFile::open(content)?, treatment))
}

/// Reads the sample and the first pieces of a file that is open.
pub(crate) fn opened(env: &Env<'_>, mut file: LargeFile, treatment: Treatment) -> Opened {
    let metadata = file.metadata;
    if metadata.len <= SMALL_LEN_MAX {
        let reading = Reading::new(env, file, metadata.len, treatment);
        let step = Step { reading, pieces: Vec::new(), end: None };
        return Opened { metadata, sample: None, step };
    }
    let sample = file.sample();
    let reading = Reading::new(env, file, metadata.len, treatment);
    let step = match sample.is_ok() {
        true => reading.step(),
        false => Step { reading, pieces: Vec::new(), end: None },
    };
    Opened { metadata, sample: Some(sample), step }
}

/// The pieces of a large content, in order.
pub(crate) struct LargePieces<'env, P> {
    build: Build<'env>,
    /// What reads on, when no task does.
    idle: Option<Reading<P>>,
    reading: Option<Ticket<Step<P>>>,
    end: Option<io::Result<Finished>>,
    looks: VecDeque<Look>,
    sketcher: Sketcher,
    category: Option<Category>,
}

/// A piece that is being looked at.
enum Look {
    Data(Ticket<Data>),
    Hole(u64),
}

impl<'env, P: PieceReader + Send + 'env> LargePieces<'env, P> {
    /// Goes on after the first step.
    pub(crate) fn after(build: Build<'env>, step: Step<P>) -> Self {
        let mut pieces = Self::of(build, None);
        pieces.take(step);
        pieces
    }

    /// Starts to read.
    pub(crate) fn start(build: Build<'env>, reading: Reading<P>) -> Self {
        Self::of(build, Some(reading))
    }

    fn of(build: Build<'env>, idle: Option<Reading<P>>) -> Self {
        Self {
            build,
            idle,
            reading: None,
            end: None,
            looks: VecDeque::new(),
            sketcher: Sketcher::default(),
            category: None,
        }
    }

    /// Returns the next piece, or `None` at the end or when the source failed.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        loop {
            self.read_on();
            if let Some(look) = self.looks.pop_front() {
                return Some(match look {
                    Look::Hole(len) => Piece::Hole(len),
                    Look::Data(ticket) => {
                        let data = self.build.wait(&ticket);
                        self.sketcher.add(&data.prints);
                        Piece::Data(data)
                    }
                });
            }
            let step = self.reading.take().map(|ticket| self.build.wait(&ticket))?;
            self.take(step);
        }
    }

    /// Lets a thread read on, if too little is waiting.
    fn read_on(&mut self) {
        if let Some(ticket) = self.reading.take_if(|ticket| ticket.is_ready()) {
            let step = self.build.wait(&ticket);
            self.take(step);
        }
        if self.end.is_none()
            && self.looks.len() < WAITING_PIECES_MAX
            && let Some(reading) = self.idle.take()
        {
            let task = move |_: &mut _| reading.step();
            self.reading = Some(self.build.submit(Urgency::Urgent, Stage::Read, task));
        }
    }

    /// Takes what was read, and lets threads look at it.
    fn take(&mut self, step: Step<P>) {
        let sketches = step.reading.sketches;
        self.category = step.reading.category;
        (self.idle, self.end) = (Some(step.reading), step.end);
        for piece in step.pieces {
            self.looks.push_back(match piece {
                RawPiece::Hole(len) => Look::Hole(len),
                RawPiece::Data { bytes, before, samples } => {
                    let task = move |_: &mut _| look_at(bytes, &before, samples, sketches);
                    Look::Data(self.build.submit(Urgency::Urgent, Stage::Read, task))
                }
            });
        }
    }

    /// Category of the content, once a piece of data was returned.
    pub(crate) fn category(&self) -> Option<Category> {
        self.category
    }

    /// Returns how reading ended. Called once, after the end.
    pub(crate) fn end(&mut self) -> io::Result<Finished> {
        self.end.take().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Returns the sketch of all data. Called after the end.
    pub(crate) fn sketch(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.sketcher).finish()
    }

    /// Returns what was read from. Called after the end.
    pub(crate) fn into_reader(self) -> Option<P> {
        self.idle.map(|reading| reading.pieces)
    }
}

/// Finds zeroes and fingerprints in a piece.
fn look_at(
    bytes: Vec<u8>,
    before: &[u8],
    samples: Vec<(Range<usize>, SampleRun)>,
    sketches: bool,
) -> Data {
    let mut runs = Vec::new();
    split_runs(&bytes, 0..bytes.len(), &mut runs);
    if !samples.is_empty() {
        join_short_runs(&mut runs);
    }
    let mut sketcher = Sketcher::default();
    if sketches {
        sketcher.push(before);
        sketcher.push(&bytes);
    }
    Data { bytes, runs, samples, prints: sketcher.finish() }
}

/// Reads all of a file for its digest, and rewinds it.
///
/// # Errors
/// [`WriteError::Cancelled`]; those of the source are part of the result.
pub(crate) fn digest_only(
    build: &Build<'_>,
    mut step: Step<LargeFile>,
) -> Result<(io::Result<Finished>, Reading<LargeFile>), WriteError> {
    loop {
        build.check_cancel()?;
        let mut reading = step.reading;
        if let Some(end) = step.end {
            reading.rewind();
            return Ok((end, reading));
        }
        let ticket = build.submit(Urgency::Urgent, Stage::Read, move |_| reading.step());
        step = build.wait(&ticket);
    }
}
