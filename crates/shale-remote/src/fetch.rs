//! A range of an object: asked for, tried again where that helps, resumed where it broke off.
//!
//! Every answer is compared with the state of the object that was opened: its length, its ETag or,
//! without one, its time of change. Another state is an error and never bytes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::counters::{Counters, add};
use crate::credentials::{Access, Signer};
use crate::error::Reason;
use crate::http::{Answer, Client, Request};
use crate::location::ObjectUrl;
use crate::options::Options;
use crate::text;

/// An attempt that brought this many bytes does not count as failed.
const PROGRESS_LEN: usize = 64 << 10;
/// Length of an answer that a request without one may take as long as: a store may need minutes to
/// put parts together.
const CALL_LEN: u64 = 16 << 20;
/// The longest pause that a server may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// How often an unreachable server is tried again: a wrong name should fail soon.
const UNREACHABLE_RETRIES: u32 = 2;
/// Length of an answer that is not a part of the object. The list of all blocks of a blob in Azure
/// is the longest.
const REPLY_LEN_MAX: u64 = 16 << 20;
/// The headers that tell the objects of two uploads apart: in S3, in Google's store, and in Azure,
/// where no name may have a hyphen.
pub(crate) const MARKS: [&str; 3] =
    ["x-amz-meta-shale-upload", "x-goog-meta-shale-upload", "x-ms-meta-shaleupload"];

/// Which state of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObjectState {
    pub(crate) len: u64,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl ObjectState {
    /// Fails if an answer belongs to another state.
    pub(crate) fn check(&self, found: &Self) -> Result<(), Reason> {
        if self.len != found.len {
            let what = format!("it had {} bytes and has {}", self.len, found.len);
            return Err(Reason::Changed(what));
        }
        let differ = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => Some(a != b),
            _ => None,
        };
        let etag = differ(&self.etag, &found.etag);
        if etag.or_else(|| differ(&self.modified, &found.modified)) == Some(true) {
            let what = if etag.is_some() { "another ETag" } else { "another time of change" };
            return Err(Reason::Changed(what.into()));
        }
        Ok(())
    }

    /// True if another state can be told from this one.
    pub(crate) fn is_known(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }

    /// The ETag for `if-match`, which compares strong ones only.
    fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }
}

/// Which bytes are asked for.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    Range(Range<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl Wanted {
    fn len(&self) -> u64 {
        match self {
            Wanted::Range(range) => range.end - range.start,
            Wanted::Last(len) => *len,
        }
    }

    fn header(&self) -> String {
        match self {
            Wanted::Range(range) => format!("bytes={}-{}", range.start, range.end - 1),
            Wanted::Last(len) => format!("bytes=-{len}"),
        }
    }
}

/// Bytes that arrived, and the state they belong to.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) identity: ObjectState,
}

/// Why an attempt failed, and when the server wants to be asked again.
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pause: Option<Duration>,
    /// Another attempt differs: it goes to another region or has new credentials.
    is_corrected: bool,
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self { reason, pause: None, is_corrected: false }
    }
}

/// What a store says about an object.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: ureq::http::HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The ETag of the object.
    pub(crate) fn etag(&self) -> Option<String> {
        self.header("etag").map(str::to_owned)
    }

    /// What tells the upload that made the object from others.
    pub(crate) fn mark(&self) -> Option<&str> {
        MARKS.iter().find_map(|name| self.header(name))
    }

    /// What the store says of an error, as the end of a message.
    pub(crate) fn detail(&self) -> String {
        detail(&self.body, self.header("x-ms-error-code").unwrap_or_default())
    }

    /// Length of the object, in an answer to HEAD.
    pub(crate) fn len(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }
}

/// Fetches ranges of one object.
#[derive(Debug)]
pub(crate) struct Fetcher {
    url: ObjectUrl,
    client: Client,
    signer: Signer,
    retries: u32,
    is_anonymous: bool,
    gate: Gate,
    counters: Arc<Counters>,
    /// The last request failed although it was tried again: the next one is tried once.
    is_down: AtomicBool,
}

impl Fetcher {
    pub(crate) fn new(
        url: ObjectUrl,
        options: &Options,
        access: Access,
        counters: Arc<Counters>,
    ) -> Result<Self, Reason> {
        let signer = Signer::new(&url, options, access)?;
        let address = signer.address(&url);
        let client = Client::new(&address, options.timeout, options.in_flight_max.max(1))?;
        Ok(Self {
            url,
            client,
            signer,
            retries: options.retries,
            is_anonymous: options.is_anonymous,
            gate: Gate { free: Mutex::new(options.in_flight_max.max(1)), freed: Condvar::new() },
            counters,
            is_down: AtomicBool::new(false),
        })
    }

    /// True if the end of the object can be asked for before its length is known.
    pub(crate) fn knows_suffixes(&self) -> bool {
        self.signer.knows_suffixes()
    }

    /// The address of the store itself, of Google's store.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        self.signer.endpoint()
    }

    /// Fetches `wanted` of the state `known`, or of any state if nothing is known yet.
    pub(crate) fn fetch(
        &self,
        wanted: Wanted,
        known: Option<&ObjectState>,
    ) -> Result<Part, Reason> {
        let mut part = Part { start: 0, bytes: Vec::new(), identity: ObjectState::default() };
        let mut identity = known.cloned();
        let mut wanted = wanted;
        let (mut failed, mut corrected) = (0, 0);
        loop {
            let before = part.bytes.len();
            let failure = match self.attempt(&wanted, &mut identity, &mut part) {
                Ok(()) => {
                    self.is_down.store(false, Relaxed);
                    part.identity = identity.unwrap_or_default();
                    return Ok(part);
                }
                Err(failure) => failure,
            };
            if failure.is_corrected && corrected < 2 {
                corrected += 1;
                continue;
            }
            let arrived = part.bytes.len() - before;
            failed = if arrived >= PROGRESS_LEN { 0 } else { failed + 1 };
            let retries = match self.is_down.load(Relaxed) {
                true => 0,
                false => self.retries_after(&failure.reason),
            };
            if !failure.reason.is_passing() || failed > retries {
                let is_down = failure.reason.is_passing();
                self.is_down.store(is_down, Relaxed);
                return Err(failure.reason);
            }
            if !part.bytes.is_empty() {
                // What arrived is kept; the rest is asked for.
                let from = part.start + part.bytes.len() as u64;
                let end = match &wanted {
                    Wanted::Range(range) => range.end,
                    Wanted::Last(_) => identity.as_ref().map_or(from, |identity| identity.len),
                };
                wanted = Wanted::Range(from..end);
            }
            self.pause(failure.pause, failed);
        }
    }

    /// Sends a request that changes or describes the object, and tries it again where that helps.
    /// `make` makes it anew for each attempt, for the address that it is given. Answers with a
    /// status of `accepted` are returned, others are errors.
    pub(crate) fn call(
        &self,
        accepted: &[u16],
        make: &dyn Fn(String) -> io::Result<Request>,
    ) -> Result<Reply, Reason> {
        let mut failed = 0;
        loop {
            match self.call_once(accepted, make) {
                Ok(reply) => return Ok(reply),
                Err(failure) => self.wait(failure, &mut failed)?,
            }
        }
    }

    /// Waits until the next attempt, after `failed` attempts that failed in a row.
    ///
    /// # Errors
    /// The reason of the failure, if another attempt does not help.
    pub(crate) fn wait(&self, failure: Failure, failed: &mut u32) -> Result<(), Reason> {
        *failed += 1;
        if !failure.reason.is_passing() || *failed > self.retries_after(&failure.reason) {
            return Err(failure.reason);
        }
        self.pause(failure.pause, *failed);
        Ok(())
    }

    /// How often a request is tried again that failed for this reason.
    fn retries_after(&self, reason: &Reason) -> u32 {
        match reason {
            Reason::Unreachable(_) => self.retries.min(UNREACHABLE_RETRIES),
            _ => self.retries,
        }
    }

    /// Waits before the next attempt: as long as the server asked for, or longer the more failed.
    fn pause(&self, asked: Option<Duration>, failed: u32) {
        add(&self.counters.retries, 1);
        std::thread::sleep(asked.unwrap_or_else(|| pause(failed)));
    }

    /// As [`Fetcher::call`], once, or as often as the store corrects where or by whom it is asked.
    pub(crate) fn call_once(
        &self,
        accepted: &[u16],
        make: &dyn Fn(String) -> io::Result<Request>,
    ) -> Result<Reply, Failure> {
        let mut corrected = 0;
        loop {
            match self.send(accepted, make) {
                Err(failure) if failure.is_corrected && corrected < 2 => corrected += 1,
                done => return done,
            }
        }
    }

    fn send(
        &self,
        accepted: &[u16],
        make: &dyn Fn(String) -> io::Result<Request>,
    ) -> Result<Reply, Failure> {
        let _permit = self.gate.enter();
        let request = make(self.signer.address(&self.url));
        let mut request = request.map_err(|error| Reason::Local(error.to_string()))?;
        if !request.is_to_session {
            self.signer.sign(&mut request)?;
        }
        add(&self.counters.requests, 1);
        let answer = self.client.send(&request, CALL_LEN)?;
        let status = answer.status();
        if !accepted.contains(&status) {
            return Err(self.refusal(answer, false));
        }
        let headers = answer.headers().clone();
        let is_head = request.method == "HEAD";
        let body = if is_head { Ok(String::new()) } else { answer.whole_text(REPLY_LEN_MAX) };
        let body = body.map_err(|error| self.client.reason(ureq::Error::from(error)))?;
        Ok(Reply { status, headers, body })
    }

    /// Asks once. Appends what arrives to `part`, also if the attempt fails.
    fn attempt(
        &self,
        wanted: &Wanted,
        identity: &mut Option<ObjectState>,
        part: &mut Part,
    ) -> Result<(), Failure> {
        let _permit = self.gate.enter();
        let mut request = Request::get(self.signer.address(&self.url));
        request = request.header("range", wanted.header());
        if let Some(etag) = identity.as_ref().and_then(ObjectState::strong_etag) {
            request = request.header("if-match", etag);
        }
        self.signer.sign(&mut request)?;
        add(&self.counters.requests, 1);
        let answer = self.client.send(&request, wanted.len())?;
        let (range, found) = match answer.status() {
            206 => partial(&answer)?,
            // A server may send the whole object if all of it was asked for.
            200 => whole(&answer, wanted)?,
            _ => return Err(self.refusal(answer, identity.is_some())),
        };
        match &*identity {
            Some(known) => known.check(&found)?,
            None => *identity = Some(found),
        }
        let len = identity.as_ref().map_or(0, |identity| identity.len);
        let expected = match wanted {
            Wanted::Range(range) => range.start..range.end.min(len),
            Wanted::Last(last) => len.saturating_sub(*last)..len,
        };
        if range != expected {
            let what = format!(
                "bytes {} to {} instead of {} to {}",
                range.start, range.end, expected.start, expected.end
            );
            return Err(Reason::Answer(what).into());
        }
        if answer.header("content-encoding").is_some_and(|coding| coding != "identity") {
            let what = "it compresses what it sends; switch that off for this file";
            return Err(Reason::Answer(what.into()).into());
        }
        if part.bytes.is_empty() {
            part.start = range.start;
        }
        self.receive(answer, range.end - range.start, &mut part.bytes)?;
        Ok(())
    }

    /// Appends the body of an answer, of `len` bytes, to `bytes`.
    fn receive(&self, answer: Answer, len: u64, bytes: &mut Vec<u8>) -> Result<(), Reason> {
        let before = bytes.len();
        // The length is bounded by what was asked for.
        bytes.reserve_exact(len as usize);
        let ends = ["content-length", "transfer-encoding"];
        let has_end = ends.iter().any(|name| answer.header(name).is_some());
        let mut reader = answer.reader(len + 1);
        let read = (&mut reader).take(len).read_to_end(bytes);
        let arrived = (bytes.len() - before) as u64;
        add(&self.counters.received_bytes, arrived);
        let why = match read {
            Ok(_) if arrived == len => {
                if has_end {
                    // Only a connection whose answer was read to its end is used again. Another
                    // one costs a round trip, and with TLS two. An error concerns no byte that was
                    // asked for.
                    let _ = reader.read(&mut [0]);
                }
                return Ok(());
            }
            Ok(_) => "the answer ended early".to_owned(),
            Err(error) => match self.client.reason(ureq::Error::from(error)) {
                Reason::Unreachable(why) => why,
                reason => return Err(reason),
            },
        };
        Err(Reason::Broken { arrived, expected: len, why })
    }

    /// Why the server refused, and whether another attempt differs.
    fn refusal(&self, answer: Answer, is_open: bool) -> Failure {
        let status = answer.status();
        let region = answer.header("x-amz-bucket-region").map(str::to_owned);
        let pause = answer.header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        let pause = pause.map(|seconds| Duration::from_secs(seconds).min(PAUSE_MAX));
        let total = answer.header("content-range").map(str::to_owned);
        let is_error_text = answer
            .header("content-type")
            .is_some_and(|kind| kind.contains("xml") || kind.contains("json"));
        let named = answer.header("x-ms-error-code").map(str::to_owned).unwrap_or_default();
        let body = if is_error_text { answer.text() } else { String::new() };
        let code = text::xml_field(&body, "Code").unwrap_or(&named);
        let detail = detail(&body, &named);
        let moved = region.as_deref().or_else(|| text::xml_field(&body, "Region"));
        let has_moved = matches!(status, 301 | 307 | 400 | 403)
            && moved.is_some_and(|region| self.signer.moved_to(region));
        // Stores report expired credentials with status 400 as well.
        let is_denied = matches!(status, 401 | 403) || (status == 400 && code.contains("Token"));
        let advice = self.signer.advice(self.is_anonymous);
        let reason = match status {
            404 | 410 => Reason::NotFound { status, detail },
            _ if is_denied => Reason::Denied {
                status,
                detail,
                advice,
                is_anonymous: self.is_anonymous,
                may_be_anonymous: self.signer.may_be_anonymous(),
            },
            412 => Reason::Changed("another ETag".into()),
            416 if is_open => Reason::Changed("it is shorter".into()),
            416 if total.as_deref() == Some("bytes */0") => {
                Reason::Answer("the object is empty".into())
            }
            416 => Reason::NoRanges,
            _ => Reason::Server { status, detail },
        };
        let is_corrected = has_moved || (is_denied && self.signer.refused());
        Failure { reason, pause, is_corrected }
    }
}

/// What the body of an error says, as the end of a message: its code, or `named` if the body has
/// none, and its text.
fn detail(body: &str, named: &str) -> String {
    let code = text::xml_field(body, "Code").unwrap_or(named);
    let in_json = json_message(body).unwrap_or_default();
    let message = text::xml_field(body, "Message").unwrap_or_default();
    match (code, message) {
        ("", "") if !in_json.is_empty() => text::one_line(&format!(": {in_json}")),
        ("", _) => String::new(),
        (code, "") => text::one_line(&format!(": {code}")),
        (code, message) => text::one_line(&format!(": {code}, {message}")),
    }
}

/// The message in an error of Google's store.
fn json_message(body: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(body).ok()?;
    Some(json.get("error")?.get("message")?.as_str()?.to_owned())
}

/// The range in an answer with a part of the object, and the state it belongs to.
fn partial(answer: &Answer) -> Result<(Range<u64>, ObjectState), Reason> {
    let wrong = |what: &str| Reason::Answer(format!("a part of the object with {what}"));
    let range = answer.header("content-range").ok_or_else(|| wrong("no content-range"))?;
    let parse = || -> Option<(Range<u64>, u64)> {
        let (range, len) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (start, last) = range.split_once('-')?;
        let (start, last): (u64, u64) = (start.trim().parse().ok()?, last.trim().parse().ok()?);
        let len = len.trim().parse().ok()?;
        (start <= last && last < len).then_some((start..last + 1, len))
    };
    let (range, len) = parse().ok_or_else(|| wrong(&format!("content-range {range}")))?;
    Ok((range, identity(answer, len)))
}

/// As [`partial`], for an answer with the whole object: only if all of it was asked for.
fn whole(answer: &Answer, wanted: &Wanted) -> Result<(Range<u64>, ObjectState), Reason> {
    let len = answer.header("content-length").and_then(|len| len.parse::<u64>().ok());
    match (len, wanted) {
        (Some(0), _) => Err(Reason::Answer("the object is empty".into())),
        (Some(len), Wanted::Last(last)) if len <= *last => Ok((0..len, identity(answer, len))),
        (Some(len), Wanted::Range(range)) if range.start == 0 && len <= range.end => {
            Ok((0..len, identity(answer, len)))
        }
        _ => Err(Reason::NoRanges),
    }
}

fn identity(answer: &Answer, len: u64) -> ObjectState {
    let header = |name| answer.header(name).map(str::to_owned);
    ObjectState { len, etag: header("etag"), modified: header("last-modified") }
}

/// The pause before attempt `failed`: twice as long each time, and a little different for everyone.
fn pause(failed: u32) -> Duration {
    let longest = PAUSE_FIRST * 2u32.pow(failed.saturating_sub(1).min(6));
    let chance = RandomState::new().hash_one(failed) % 512;
    longest / 2 + (longest / 2) * (chance as u32) / 512
}

/// Lets this many requests through at once.
#[derive(Debug)]
struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Permit<'g>(&'g Gate);

impl Gate {
    fn enter(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let none = |free: &mut usize| *free == 0;
        let mut free = self.freed.wait_while(free, none).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_state_of_an_object_is_noticed() {
        let state = |len, etag: Option<&str>, modified: Option<&str>| ObjectState {
            len,
            etag: etag.map(str::to_owned),
            modified: modified.map(str::to_owned),
        };
        let known = state(5, Some("a"), Some("then"));
        assert!(known.check(&state(5, Some("a"), Some("later"))).is_ok());
        assert!(known.check(&state(5, Some("b"), Some("then"))).is_err());
        assert!(known.check(&state(6, Some("a"), Some("then"))).is_err());
        assert!(known.check(&state(5, None, Some("later"))).is_err());
        assert!(known.check(&state(5, None, None)).is_ok());
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        assert!(pause(1) <= PAUSE_FIRST);
        assert!(pause(50) <= PAUSE_FIRST * 64 && pause(50) >= PAUSE_FIRST * 32);
    }
}
