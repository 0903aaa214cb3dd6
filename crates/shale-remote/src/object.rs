//! An open object: its bytes at any offset, fetched in as few round trips as its reader allows.
//!
//! Opening asks for the start and the end of the object at once. After that the reader may say what
//! it will need ([`Object::will_need`]); ranges near each other become one request, and requests of
//! one call are sent together. A reader that goes from front to back is recognised and overtaken.
//! For one that reads here and there in a neighbourhood, a request brings more than was asked for.

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::cache::{Cache, Entry};
use crate::counters::{CounterSnapshot, Counters, add};
use crate::credentials::Access;
use crate::error::{Error, Reason};
use crate::fetch::{Fetcher, ObjectState, Part, Wanted};
use crate::held::{BLOCK_LEN, Held, Presence};
use crate::location::ObjectUrl;
use crate::neighbourhood::Neighbourhood;
use crate::options::Options;

/// Ranges with fewer bytes between them become one request: those bytes cost less than a request.
const GAP_LEN_MAX: u64 = 16 << 10;
/// Bytes of one request at most, so that several connections share long ranges.
const REQUEST_LEN_MAX: u64 = 2 << 20;
/// Bytes that one read asks for at once at most. A longer read goes in steps.
const STEP_LEN: u64 = 16 << 20;
/// Bytes that are fetched ahead of a reader at most.
const AHEAD_LEN_MAX: u64 = 16 << 20;
/// How many times what a reader came past is fetched ahead of it.
const AHEAD_TIMES: u64 = 4;
/// Reads in sequence before anything is fetched ahead.
const STREAK_MIN: u32 = 3;
/// How far apart the reads of a sequence may be.
const STREAK_GAP_MAX: u64 = 16 << 10;
/// Sequences that are recognised at once.
const STREAMS_MAX: usize = 8;

/// An open object.
#[derive(Debug)]
pub struct Object {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    fetcher: Fetcher,
    identity: ObjectState,
    held: Held,
    entry: Option<Entry>,
    counters: Arc<Counters>,
    in_flight_max: usize,
    held_bytes_max: u64,
    /// Why the network is not used.
    offline: Option<Reason>,
    jobs: Mutex<Jobs>,
    job_added: Condvar,
    streams: Mutex<Vec<Stream>>,
    neighbourhood: Mutex<Neighbourhood>,
    is_closed: AtomicBool,
}

/// Ranges that threads fetch.
#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<Range<u64>>,
    threads: usize,
    idle: usize,
}

/// Reads from front to back.
#[derive(Debug, Default)]
struct Stream {
    /// Where the first read of the streak began.
    first: u64,
    next: u64,
    streak: u32,
    /// Where what was fetched ahead ends.
    ahead: u64,
}

impl Object {
    /// Opens an object: one round trip, two for stores that cannot be asked for the end of an
    /// object of unknown length. If it is cached as it is, the cache supplies its end.
    ///
    /// # Errors
    /// It cannot be reached or read, or the server does not send parts of it.
    pub fn open(url: &ObjectUrl, options: &Options) -> Result<Self, Error> {
        let fail = |reason| Error { url: url.to_string(), reason };
        let counters = Arc::new(Counters::default());
        let fetcher = Fetcher::new(url.clone(), options, Access::Read, Arc::clone(&counters))
            .map_err(fail)?;
        let cache = options.cache.as_ref().map(Cache::new);
        let cache_name = cache_name(url, options);
        let cached = cache.as_ref().and_then(|cache| cache.newest(&cache_name));
        let (parts, identity, offline) = if options.is_offline {
            let identity = cached.ok_or_else(|| fail(Reason::Offline))?;
            (Vec::new(), identity, Some(Reason::Offline))
        } else {
            add(&counters.round_trips, 1);
            match first_parts(&fetcher, options, cached.as_ref(), &counters) {
                Ok((parts, identity)) => (parts, identity, None),
                Err(reason) if reason.is_absence() && cached.is_some() => {
                    (Vec::new(), cached.unwrap_or_default(), Some(reason))
                }
                Err(reason) => return Err(fail(reason)),
            }
        };
        let entry = cache.and_then(|cache| cache.entry(&cache_name, &url.to_string(), &identity));
        let held = Held::new(options.held_bytes_max);
        let shared = Arc::new(Shared {
            name: url.to_string(),
            fetcher,
            identity,
            held,
            entry,
            counters,
            in_flight_max: options.in_flight_max.max(1),
            held_bytes_max: options.held_bytes_max,
            offline,
            jobs: Mutex::default(),
            job_added: Condvar::new(),
            streams: Mutex::default(),
            neighbourhood: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        for part in parts {
            shared.keep(part);
        }
        Ok(Self { shared })
    }

    /// Length of the object in bytes.
    pub fn len(&self) -> u64 {
        self.shared.identity.len
    }

    /// True if the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The URL, without passwords and signatures.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The ETag of the object, if the server has them.
    pub fn etag(&self) -> Option<&str> {
        self.shared.identity.etag.as_deref()
    }

    /// Why the server was not asked, if what is cached is used instead.
    pub fn offline(&self) -> Option<&Reason> {
        self.shared.offline.as_ref()
    }

    /// What reading has cost so far.
    pub fn counters(&self) -> CounterSnapshot {
        self.shared.counters.snapshot()
    }

    /// Fills `buf` with the bytes from `offset`. Bytes that are neither in memory nor cached cost a
    /// round trip; reads longer than 16 MiB cost one for each.
    ///
    /// # Errors
    /// The range reaches beyond the end, the bytes cannot be fetched, or the object has changed.
    /// The error holds an [`Error`].
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.shared.read_at(offset, buf).map_err(|reason| self.shared.error(reason))
    }

    /// Fetches in the background what `ranges` name and is not there yet: one round trip, whatever
    /// their number. Returns at once. Ranges that memory cannot hold are left out.
    pub fn will_need(&self, ranges: &[Range<u64>]) {
        let mut room = self.shared.held_bytes_max / 2;
        let mut taken = Vec::with_capacity(ranges.len());
        for range in ranges {
            let len = range.end.saturating_sub(range.start);
            match room.checked_sub(len) {
                Some(left) => room = left,
                None => break,
            }
            taken.push(range.clone());
        }
        let runs = self.shared.plan(taken);
        Shared::start(&self.shared, runs);
    }

    /// Reads the bytes from `offset` again from the server, past memory and cache, and replaces
    /// what these hold. Returns false if that is not possible.
    pub fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        let shared = &self.shared;
        let end = offset.saturating_add(buf.len() as u64);
        if shared.offline.is_some() || end > self.len() || buf.is_empty() {
            return false;
        }
        let range = align(offset..end, self.len());
        shared.held.forget(range.clone());
        add(&shared.counters.round_trips, 1);
        match shared.fetcher.fetch(Wanted::Range(range), Some(&shared.identity)) {
            Ok(part) => {
                let from = (offset - part.start) as usize;
                buf.copy_from_slice(&part.bytes[from..from + buf.len()]);
                shared.cache(&part);
                true
            }
            Err(_) => false,
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Relaxed);
        let given_up = std::mem::take(&mut self.shared.lock_jobs().waiting);
        for range in given_up {
            self.shared.held.give_up(range.start);
        }
        self.shared.job_added.notify_all();
    }
}

impl Shared {
    fn error(&self, reason: Reason) -> io::Error {
        Error { url: self.name.clone(), reason }.into()
    }

    fn lock_jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_at(self: &Arc<Self>, offset: u64, buf: &mut [u8]) -> Result<(), Reason> {
        let len = self.identity.len;
        let end = match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= len => end,
            end => return Err(Reason::End { len, end: end.unwrap_or(u64::MAX) }),
        };
        let mut at = offset;
        while at < end {
            let step_end = end.min(at.saturating_add(STEP_LEN));
            let ahead = self.ahead(at, step_end);
            let wanted = self.widened(at..step_end);
            let mut runs = self.plan(iter::once(wanted).chain(ahead).collect());
            // The first missing range is fetched here, the others meanwhile.
            let is_first = runs.first().is_some_and(|run| run.start < step_end);
            let first = is_first.then(|| runs.remove(0));
            Self::start(self, runs);
            if let Some(run) = first {
                self.bring(run)?;
            }
            while at < step_end {
                match self.held.find(at) {
                    Presence::Here(start, bytes) => {
                        let from = (at - start) as usize;
                        let count = (bytes.len() - from).min((step_end - at) as usize);
                        let to = (at - offset) as usize;
                        buf[to..to + count].copy_from_slice(&bytes[from..from + count]);
                        at += count as u64;
                    }
                    Presence::Coming => self.held.wait(at),
                    // Its fetch failed, or others needed the memory: it is fetched here.
                    Presence::Missing => {
                        let part_end = step_end.min(at.saturating_add(REQUEST_LEN_MAX));
                        for run in self.plan(iter::once(at..part_end).collect()) {
                            let from = self.bring(run.clone())?;
                            if run.contains(&at) {
                                let skip = (at - run.start) as usize;
                                let count = (from.len() - skip).min((part_end - at) as usize);
                                let to = (at - offset) as usize;
                                buf[to..to + count].copy_from_slice(&from[skip..skip + count]);
                                at += count as u64;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes a read, and returns what its reader is likely to need next. Reads of what is here
    /// already say nothing, unless it came because of this very habit.
    fn ahead(&self, start: u64, end: u64) -> Option<Range<u64>> {
        let is_missing = matches!(self.held.find(start), Presence::Missing);
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let follows =
            |stream: &Stream| start.abs_diff(stream.next) <= STREAK_GAP_MAX && end > stream.next;
        let found = streams.iter().position(follows);
        // The last one is the latest.
        let mut stream = match found {
            Some(at) => streams.remove(at),
            None if streams.len() == STREAMS_MAX => {
                streams.remove(0);
                Stream::default()
            }
            None => Stream::default(),
        };
        stream.next = end;
        if stream.streak == 0 {
            stream.first = start;
        }
        if is_missing || stream.ahead > start {
            stream.streak = stream.streak.saturating_add(1);
        }
        stream.ahead = stream.ahead.max(end);
        let mut ahead = None;
        if stream.streak > STREAK_MIN {
            // Several times as much as the reader came past, whether it reads all of it or little.
            let window = end.saturating_sub(stream.first).saturating_mul(AHEAD_TIMES);
            let window = window.min(AHEAD_LEN_MAX).min(self.held_bytes_max / 4);
            let to = end.saturating_add(window).min(self.identity.len);
            // In steps of half a window, so that each is worth its requests.
            let is_due = stream.ahead - end <= window / 2 || to == self.identity.len;
            if to > stream.ahead && is_due {
                ahead = Some(stream.ahead..to);
                stream.ahead = to;
            }
        }
        streams.push(stream);
        ahead
    }

    /// Returns `range`, or more around it if it is not here and reads near it were not either.
    fn widened(&self, range: Range<u64>) -> Range<u64> {
        let Some(gap) = self.held.gap_at(range.start) else { return range };
        let near = self.neighbourhood.lock().unwrap_or_else(PoisonError::into_inner).missed(&range);
        // One request: what is here already, or on its way, bounds it.
        let end = near.end.min(gap.end).min(self.identity.len);
        near.start.max(gap.start)..end.max(range.end)
    }

    /// Claims what is missing of `ranges`, takes from the cache what is there, and returns the rest
    /// in runs, each to be brought by one request.
    fn plan(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let len = self.identity.len;
        ranges.retain(|range| range.start < range.end && range.end <= len);
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let range = align(range, len);
            match joined.last_mut() {
                Some(last) if range.start <= last.end + GAP_LEN_MAX => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        let mut runs = Vec::new();
        for gap in joined.into_iter().flat_map(|range| self.held.claim(range)) {
            for run in self.take_cached(gap) {
                let mut run = run;
                while run.end - run.start > REQUEST_LEN_MAX {
                    let at = run.start + REQUEST_LEN_MAX;
                    self.held.cut(&run, at);
                    runs.push(run.start..at);
                    run.start = at;
                }
                runs.push(run);
            }
        }
        if !runs.is_empty() && self.offline.is_none() {
            add(&self.counters.round_trips, 1);
        }
        runs
    }

    /// Brings the blocks of a claimed range that are cached, and returns the rest.
    fn take_cached(&self, claimed: Range<u64>) -> Vec<Range<u64>> {
        let Some(entry) = &self.entry else { return vec![claimed] };
        let mut rest = Vec::new();
        let mut left = claimed;
        for (start, bytes) in entry.read(left.clone()) {
            let end = start + bytes.len() as u64;
            if left.start < start {
                self.held.cut(&left, start);
                rest.push(left.start..start);
            }
            if end < left.end {
                self.held.cut(&(start..left.end), end);
            }
            add(&self.counters.cached_bytes, end - start);
            self.held.bring(start, bytes);
            left.start = end;
        }
        if left.start < left.end {
            rest.push(left);
        }
        rest
    }

    /// Fetches a claimed run, or gives it up.
    fn bring(&self, run: Range<u64>) -> Result<Arc<Vec<u8>>, Reason> {
        let fetched = match &self.offline {
            Some(reason) => Err(reason.clone()),
            None => self.fetcher.fetch(Wanted::Range(run.clone()), Some(&self.identity)),
        };
        match fetched {
            Ok(part) => {
                self.cache(&part);
                Ok(self.held.bring(part.start, part.bytes))
            }
            Err(reason) => {
                self.held.give_up(run.start);
                Err(reason)
            }
        }
    }

    /// Keeps a part that arrived while the object was opened.
    fn keep(&self, part: Part) {
        // Only whole blocks: the end of the object completes its last one.
        let start = part.start.div_ceil(BLOCK_LEN) * BLOCK_LEN;
        let end = part.start + part.bytes.len() as u64;
        let end = if end == self.identity.len { end } else { end / BLOCK_LEN * BLOCK_LEN };
        for gap in if start < end { self.held.claim(start..end) } else { Vec::new() } {
            let from = (gap.start - part.start) as usize;
            let bytes = part.bytes[from..from + (gap.end - gap.start) as usize].to_vec();
            if let Some(entry) = &self.entry {
                entry.write(gap.start, &bytes);
            }
            self.held.bring(gap.start, bytes);
        }
    }

    fn cache(&self, part: &Part) {
        if let Some(entry) = &self.entry {
            entry.write(part.start, &part.bytes);
        }
    }

    /// Has threads bring claimed runs.
    fn start(this: &Arc<Self>, runs: Vec<Range<u64>>) {
        if runs.is_empty() {
            return;
        }
        let mut jobs = this.lock_jobs();
        jobs.waiting.extend(runs);
        let wanted = jobs.waiting.len().saturating_sub(jobs.idle);
        for _ in 0..wanted.min(this.in_flight_max - jobs.threads.min(this.in_flight_max)) {
            let shared = Arc::clone(this);
            let thread = std::thread::Builder::new().name("shale-fetch".into());
            if thread.spawn(move || shared.work()).is_ok() {
                jobs.threads += 1;
            }
        }
        if jobs.threads == 0 {
            // No thread to be had: whoever needs the bytes fetches them.
            for run in std::mem::take(&mut jobs.waiting) {
                this.held.give_up(run.start);
            }
        }
        drop(jobs);
        this.job_added.notify_all();
    }

    /// Brings runs until the object is closed.
    fn work(&self) {
        let mut jobs = self.lock_jobs();
        while !self.is_closed.load(Relaxed) {
            if let Some(run) = jobs.waiting.pop_front() {
                drop(jobs);
                // A reader that needs it meets the same error, and reports it.
                let _ = self.bring(run);
                jobs = self.lock_jobs();
                continue;
            }
            jobs.idle += 1;
            jobs = self.job_added.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}

/// `range`, widened to whole blocks of an object of `len` bytes.
fn align(range: Range<u64>, len: u64) -> Range<u64> {
    let end = range.end.div_ceil(BLOCK_LEN).saturating_mul(BLOCK_LEN).min(len);
    range.start / BLOCK_LEN * BLOCK_LEN..end
}

/// What opening fetches: the start and the end of the object, of one state.
fn first_parts(
    fetcher: &Fetcher,
    options: &Options,
    cached: Option<&ObjectState>,
    counters: &Counters,
) -> Result<(Vec<Part>, ObjectState), Reason> {
    let head = || fetcher.fetch(Wanted::Range(0..options.head_len.max(1)), None);
    let tail_len = options.tail_len.max(1);
    if !fetcher.knows_suffixes() || cached.is_some() {
        let head = head()?;
        let identity = head.identity.clone();
        let len = identity.len;
        if cached == Some(&identity) || head.bytes.len() as u64 == len {
            return Ok((vec![head], identity));
        }
        add(&counters.round_trips, 1);
        let range = len.saturating_sub(tail_len)..len;
        let tail = fetcher.fetch(Wanted::Range(range), Some(&identity))?;
        return Ok((vec![head, tail], identity));
    }
    let (head, tail) = std::thread::scope(|scope| {
        let head = scope.spawn(head);
        let tail = fetcher.fetch(Wanted::Last(tail_len), None);
        (head.join().unwrap_or_else(|_| Err(Reason::Answer("a thread panicked".into()))), tail)
    });
    // The head's error is the plainer one.
    let head = head?;
    let identity = head.identity.clone();
    let tail = match tail {
        Ok(tail) => tail,
        // A server that knows ranges, but not those at the end.
        Err(Reason::NoRanges | Reason::Server { .. } | Reason::Answer(_)) => {
            add(&counters.round_trips, 1);
            let range = identity.len.saturating_sub(tail_len)..identity.len;
            fetcher.fetch(Wanted::Range(range), Some(&identity))?
        }
        Err(reason) => return Err(reason),
    };
    identity.check(&tail.identity)?;
    Ok((vec![head, tail], identity))
}

/// The name of an object in the cache. A signature in a URL is not part of it.
fn cache_name(url: &ObjectUrl, options: &Options) -> String {
    let query = url.key.split_once('?').map_or("", |(_, query)| query);
    let lower = query.to_ascii_lowercase();
    let is_signed = lower.contains("signature=") || lower.contains("sig=");
    let query = if is_signed { "" } else { query };
    let endpoint = options.endpoint.as_deref().unwrap_or_default();
    let account = match url.scheme {
        crate::Scheme::Az => std::env::var("AZURE_STORAGE_ACCOUNT").unwrap_or_default(),
        _ => url.user.clone().unwrap_or_default(),
    };
    format!("{url}?{query} {endpoint} {account}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_widened_to_blocks_inside_the_object() {
        assert_eq!(align(5..6, 10), 0..10);
        assert_eq!(align(4096..4097, 100_000), 4096..8192);
        assert_eq!(align(99_000..100_000, 100_000), 98_304..100_000);
    }
}
