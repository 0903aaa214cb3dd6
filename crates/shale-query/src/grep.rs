//! Which files contain a text: ripgrep's matcher over contents in stored order.
//!
//! Contents are searched in the order of their content numbers, which is the order of their frames,
//! so each frame is decoded once even with a small cache. A content with several paths is searched
//! once and reported under each of them. Threads take runs of adjacent contents.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use shale_read::{Attributes, InodeKind, Tree};

use crate::error::Error;

/// How a text is searched.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GrepOptions {
    /// Ignore case.
    pub ignore_case: bool,
    /// The pattern is a text and not a regular expression.
    pub fixed: bool,
    /// Only whole words match.
    pub word: bool,
    /// Report lines that do not match.
    pub invert: bool,
    /// Stop after the first match of a file.
    pub first_only: bool,
    /// Search files with NUL bytes, too, as if they were text.
    pub binary: bool,
    /// Threads that decode and search.
    pub threads: usize,
}

impl Default for GrepOptions {
    fn default() -> Self {
        Self {
            ignore_case: false,
            fixed: false,
            word: false,
            invert: false,
            first_only: false,
            binary: false,
            threads: 1,
        }
    }
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMatch {
    /// Number of the line, from 1.
    pub number: u64,
    /// The line, with its line end if it has one.
    pub line: Vec<u8>,
}

/// Totals of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepReport {
    /// Distinct contents that were searched.
    pub contents: u64,
    /// Contents that could not be read.
    pub errors: u64,
}

/// What a search reports: a path and some of its matching lines, or why its content is not
/// searched.
pub type MatchReport<'f> =
    dyn FnMut(&[u8], Result<&[LineMatch], &io::Error>) -> io::Result<()> + Send + 'f;

/// Searches the regular files among `files` (path, attributes) and calls `found` with matches in
/// the order of contents, never from two threads at once. A file with more than 1 MiB of matching
/// lines is reported in several calls. Memory is about 1 MiB for each thread, and one line.
///
/// # Errors
/// The pattern is not valid, or `found` returned an error, which ends the search.
pub fn grep(
    tree: &Tree,
    files: &[(Vec<u8>, Attributes)],
    pattern: &str,
    options: &GrepOptions,
    found: &mut MatchReport<'_>,
) -> Result<GrepReport, Error> {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(options.ignore_case)
        .fixed_strings(options.fixed)
        .word(options.word)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| Error::Pattern(error.to_string()))?;
    let mut contents: BTreeMap<u64, Job> = BTreeMap::new();
    for (place, (_, attributes)) in files.iter().enumerate() {
        if attributes.kind == InodeKind::File && attributes.size > 0 {
            let inode = attributes.inode;
            let job = contents.entry(attributes.payload).or_insert(Job { inode, places: vec![] });
            job.places.push(place);
        }
    }
    let jobs: Vec<Job> = contents.into_values().collect();
    let report = GrepReport { contents: jobs.len() as u64, ..GrepReport::default() };
    let turns = Turns {
        files,
        state: Mutex::new(State { run: 0, found, report, failure: None }),
        changed: Condvar::new(),
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut searcher = searcher(options);
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            let start = run * RUN;
            if start >= jobs.len() || turns.failed() {
                return;
            }
            let mut turn =
                Turn { turns: &turns, run, lines: Vec::new(), bytes: 0, done: Vec::new() };
            for job in &jobs[start..jobs.len().min(start + RUN)] {
                let reader = ContentReader { tree, inode: job.inode, at: 0 };
                let mut sink = Lines { turn: &mut turn, job, first_only: options.first_only };
                let outcome = searcher.search_reader(&matcher, reader, &mut sink);
                turn.end_content(job, outcome);
            }
            turn.end();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            // Where the system refuses a thread, the others do its work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let state = turns.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.failure {
        Some(error) => Err(Error::Output(error)),
        None => Ok(state.report),
    }
}

/// A content, and the files that have it.
struct Job {
    inode: u64,
    places: Vec<usize>,
}

/// Lets runs of contents report one after the other.
struct Turns<'a, 'f> {
    files: &'a [(Vec<u8>, Attributes)],
    state: Mutex<State<'a, 'f>>,
    changed: Condvar,
}

struct State<'a, 'f> {
    /// The run that may report now.
    run: usize,
    found: &'a mut MatchReport<'f>,
    report: GrepReport,
    failure: Option<io::Error>,
}

/// What one run found and did not report yet.
struct Turn<'t, 'a, 'f> {
    turns: &'t Turns<'a, 'f>,
    run: usize,
    /// Matches of the content that is searched now.
    lines: Vec<LineMatch>,
    bytes: usize,
    /// Contents that are done.
    done: Vec<(&'t Job, Result<Vec<LineMatch>, io::Error>)>,
}

impl<'a, 'f> Turns<'a, 'f> {
    fn failed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failure.is_some()
    }

    /// Waits until it is the turn of `run`.
    fn wait(&self, run: usize) -> MutexGuard<'_, State<'a, 'f>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |state: &mut State<'_, '_>| state.run != run && state.failure.is_none();
        self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State<'_, '_> {
    fn report(
        &mut self,
        files: &[(Vec<u8>, Attributes)],
        job: &Job,
        outcome: Result<&[LineMatch], &io::Error>,
    ) {
        for &place in &job.places {
            if self.failure.is_none()
                && let Err(error) = (self.found)(&files[place].0, outcome)
            {
                self.failure = Some(error);
            }
        }
    }
}

impl<'t> Turn<'t, '_, '_> {
    /// Takes a line. Returns false if nobody wants more.
    fn take(&mut self, job: &'t Job, line: LineMatch) -> bool {
        self.bytes += line.line.len() + size_of::<LineMatch>();
        self.lines.push(line);
        if self.bytes < BYTES_HELD_MAX {
            return true;
        }
        let lines = std::mem::take(&mut self.lines);
        self.done.push((job, Ok(lines)));
        self.flush()
    }

    fn end_content(&mut self, job: &'t Job, outcome: Result<(), io::Error>) {
        let lines = std::mem::take(&mut self.lines);
        if !lines.is_empty() {
            self.done.push((job, Ok(lines)));
        }
        if let Err(error) = outcome {
            self.done.push((job, Err(error)));
        }
    }

    /// Reports everything, in turn. Returns false after a failure.
    fn flush(&mut self) -> bool {
        let mut state = self.turns.wait(self.run);
        for (job, outcome) in self.done.drain(..) {
            state.report.errors += u64::from(outcome.is_err());
            state.report(self.turns.files, job, outcome.as_ref().map(Vec::as_slice));
        }
        self.bytes = 0;
        state.failure.is_none()
    }

    /// Reports what is left and gives the turn to the next run.
    fn end(mut self) {
        self.flush();
        let mut state = self.turns.wait(self.run);
        if state.run == self.run {
            state.run += 1;
        }
        drop(state);
        self.turns.changed.notify_all();
    }
}

/// Bytes of matching lines that a thread holds before it waits for its turn.
const BYTES_HELD_MAX: usize = 1 << 20;

/// Contents that a thread takes at a time.
const RUN: usize = 32;

fn searcher(options: &GrepOptions) -> Searcher {
    let binary =
        if options.binary { BinaryDetection::none() } else { BinaryDetection::quit(b'\x00') };
    SearcherBuilder::new()
        .invert_match(options.invert)
        .line_number(true)
        .binary_detection(binary)
        .build()
}

struct Lines<'s, 't, 'a, 'f> {
    turn: &'s mut Turn<'t, 'a, 'f>,
    job: &'t Job,
    first_only: bool,
}

impl Sink for Lines<'_, '_, '_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let number = found.line_number().unwrap_or(0);
        let line = LineMatch { number, line: found.bytes().to_vec() };
        Ok(self.turn.take(self.job, line) && !self.first_only)
    }
}

/// A regular file as a stream.
struct ContentReader<'t> {
    tree: &'t Tree,
    inode: u64,
    at: u64,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.tree.read(self.inode, self.at, buf).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}
