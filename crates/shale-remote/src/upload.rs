//! Writes an object to a store with the S3 protocol: all of it or nothing, and never over another
//! one by accident.
//!
//! Short objects are one request. Longer ones are uploaded in parts, several at once; what the
//! store has of them becomes an object only with the last request, and is given up on every error.
//! Each request carries the SHA-256 of its body in its signature, so the store refuses bytes that
//! changed on their way. Parts may be copied from the object that is replaced, inside of the store.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::counters::Counters;
use crate::error::{Error, Reason};
use crate::fetch::{Fetcher, Reply};
use crate::http::Request;
use crate::location::{ObjectUrl, Scheme};
use crate::options::Options;
use crate::text;

/// Objects up to this length are one request.
const SINGLE_LEN_MAX: u64 = 8 << 20;
/// Bytes of a part that is sent, at least. Stores ask for 5 MiB.
const PART_LEN_MIN: u64 = 8 << 20;
/// Bytes of a part that is copied inside of the store. Stores allow 5 GiB.
const COPIED_LEN: u64 = 1 << 30;
/// Bytes that a part must have, unless it is the last one.
pub const PART_LEN_ALLOWED: u64 = 5 << 20;
/// Number of parts that stores allow.
const PARTS_MAX: u64 = 10_000;
/// Parts on their way at once. Each is in memory.
const IN_FLIGHT: usize = 4;
/// The header that tells the objects of two uploads apart.
const MARK: &str = "x-amz-meta-shale-upload";

/// Which object may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replace {
    /// None: the name must be free.
    Nothing,
    /// Whatever has the name.
    Anything,
    /// The object with this ETag.
    Only(String),
}

/// The state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its length.
    pub len: u64,
    /// Its ETag, if the store has them.
    pub etag: Option<String>,
}

/// The bytes of a new object: the start of the one that is replaced, and then those of a file.
#[derive(Debug)]
pub struct Contents<'f> {
    /// Bytes of the object that is replaced; 0 for none, otherwise at least [`PART_LEN_ALLOWED`].
    pub copied_len: u64,
    /// The file.
    pub file: &'f File,
    /// The bytes of the file that follow. Not empty.
    pub range: Range<u64>,
}

/// What an upload asks and tells its caller.
pub trait Watch: Sync {
    /// True if the upload shall be given up.
    fn is_cancelled(&self) -> bool;
    /// So many more bytes are in the store.
    fn advance(&self, bytes: u64);
}

/// The name of an object that is to be written.
#[derive(Debug)]
pub struct Destination {
    url: ObjectUrl,
    fetcher: Fetcher,
}

/// A header that makes a store refuse a request if the object is another than expected.
type Condition = (&'static str, String);

/// A part of an upload.
struct Part {
    /// Where it begins: in the object that is replaced, or in the file.
    range: Range<u64>,
    is_copied: bool,
}

impl Destination {
    /// Takes the name of an object. Asks nobody.
    ///
    /// # Errors
    /// Objects cannot be written there.
    pub fn new(url: &ObjectUrl, options: &Options) -> Result<Self, Error> {
        let fail = |reason| Error { url: url.to_string(), reason };
        if url.scheme != Scheme::S3 {
            return Err(fail(Reason::NotWritable));
        }
        if options.is_offline {
            return Err(fail(Reason::Offline));
        }
        let fetcher = Fetcher::new(url.clone(), options, Arc::<Counters>::default());
        Ok(Self { url: url.clone(), fetcher: fetcher.map_err(fail)? })
    }

    /// Looks at the object of this name; `None` if there is none.
    ///
    /// # Errors
    /// The store cannot be reached or refuses.
    pub fn state(&self) -> Result<Option<State>, Error> {
        let reply = self.head().map_err(|reason| self.error(reason))?;
        Ok((reply.status == 200).then(|| State { len: reply.len.unwrap_or(0), etag: reply.etag }))
    }

    /// Writes the object. Returns its ETag.
    ///
    /// # Errors
    /// [`Reason::Exists`] or [`Reason::Replaced`] if another object has the name,
    /// [`Reason::Cancelled`], or whatever the store says. The object of this name is as it was, and
    /// the parts that were uploaded are given up; if that fails as well, the error says so.
    pub fn put(
        &self,
        contents: &Contents<'_>,
        replace: &Replace,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Error> {
        let sent_len = contents.range.end - contents.range.start;
        let len = contents.copied_len + sent_len;
        let done = match contents.copied_len == 0 && sent_len <= SINGLE_LEN_MAX {
            true => self.put_at_once(contents, replace, watch),
            false => self.put_in_parts(contents, replace, watch),
        };
        let etag = done.map_err(|reason| self.error(reason))?;
        // The store says what it has now.
        match self.state()? {
            Some(state) if state.len == len => Ok(etag.or(state.etag)),
            found => {
                let found = found.map_or(0, |state| state.len);
                let what = format!("it took {len} bytes, and has an object of {found}");
                Err(self.error(Reason::Answer(what)))
            }
        }
    }

    fn error(&self, reason: Reason) -> Error {
        Error { url: self.url.to_string(), reason }
    }

    fn head(&self) -> Result<Reply, Reason> {
        self.fetcher.call(&[200, 404], &|url| Ok(request("HEAD", url, Vec::new())))
    }

    fn put_at_once(
        &self,
        contents: &Contents<'_>,
        replace: &Replace,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Reason> {
        if watch.is_cancelled() {
            return Err(Reason::Cancelled);
        }
        let mark = mark();
        let reply = self.conditionally(replace, &|url, condition| {
            let mut request = request("PUT", url, read(contents.file, &contents.range)?);
            request.headers.push((MARK, mark.clone()));
            request.headers.extend(condition.clone());
            Ok(request)
        })?;
        if reply.status != 200 {
            self.lost(replace, &mark)?;
        }
        watch.advance(contents.range.end - contents.range.start);
        Ok(reply.etag)
    }

    fn put_in_parts(
        &self,
        contents: &Contents<'_>,
        replace: &Replace,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Reason> {
        let mark = mark();
        let begun = self.fetcher.call(&[200], &|url| {
            let mut request = request("POST", url + "?uploads=", Vec::new());
            request.headers.push((MARK, mark.clone()));
            Ok(request)
        })?;
        let id = text::xml_field(&begun.body, "UploadId").filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Reason::Answer("an upload without an ID".into()))?;
        let id = text::encode(text::unescape_xml(id).as_bytes(), false);
        let done = self.send_parts(contents, replace, &id, watch).and_then(|etags| {
            // Some stores ignore the condition of the last request.
            self.still_free(replace)?;
            self.complete(&etags, replace, (&id, &mark), watch)
        });
        done.map_err(|reason| match self.give_up(&id) {
            Ok(()) => reason,
            Err(_) => Reason::Left(Box::new(reason)),
        })
    }

    /// Uploads all parts, and returns their ETags.
    fn send_parts(
        &self,
        contents: &Contents<'_>,
        replace: &Replace,
        id: &str,
        watch: &dyn Watch,
    ) -> Result<Vec<String>, Reason> {
        let parts = plan(contents);
        let next = AtomicUsize::new(0);
        let etags = Mutex::new(vec![String::new(); parts.len()]);
        let failed: Mutex<Option<Reason>> = Mutex::new(None);
        let lock_failed = || failed.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            loop {
                let number = next.fetch_add(1, Relaxed);
                let Some(part) = parts.get(number) else { return };
                if lock_failed().is_some() {
                    return;
                }
                let sent = match watch.is_cancelled() {
                    true => Err(Reason::Cancelled),
                    false => self.send_part(contents, part, replace, (number + 1, id)),
                };
                match sent {
                    Ok(etag) => {
                        etags.lock().unwrap_or_else(PoisonError::into_inner)[number] = etag;
                        watch.advance(part.range.end - part.range.start);
                    }
                    Err(reason) => {
                        lock_failed().get_or_insert(reason);
                        return;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..IN_FLIGHT.min(parts.len()) {
                // With fewer threads it takes longer, and no more.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(reason) => Err(reason),
            None => Ok(etags.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Uploads one part, and returns its ETag.
    fn send_part(
        &self,
        contents: &Contents<'_>,
        part: &Part,
        replace: &Replace,
        (number, id): (usize, &str),
    ) -> Result<String, Reason> {
        let url = |url: String| format!("{url}?partNumber={number}&uploadId={id}");
        if !part.is_copied {
            let reply = self.fetcher.call(&[200], &|address| {
                Ok(request("PUT", url(address), read(contents.file, &part.range)?))
            })?;
            return reply.etag.ok_or_else(|| Reason::Answer("a part without an ETag".into()));
        }
        let from = format!("/{}/{}", self.url.place, self.url.key);
        let reply = self.fetcher.call(&[200, 412], &|address| {
            let mut request = request("PUT", url(address), Vec::new());
            request.headers.push(("x-amz-copy-source", text::encode(from.as_bytes(), true)));
            let range = format!("bytes={}-{}", part.range.start, part.range.end - 1);
            request.headers.push(("x-amz-copy-source-range", range));
            if let Replace::Only(etag) = replace {
                request.headers.push(("x-amz-copy-source-if-match", etag.clone()));
            }
            Ok(request)
        })?;
        if reply.status == 412 {
            return Err(Reason::Replaced);
        }
        // A copy that fails late has the status of one that succeeds.
        match text::xml_field(&reply.body, "ETag") {
            Some(etag) => Ok(text::unescape_xml(etag)),
            None => Err(failure_in(&reply.body, "a part was not copied")),
        }
    }

    /// Makes an object of the parts.
    fn complete(
        &self,
        etags: &[String],
        replace: &Replace,
        (id, mark): (&str, &str),
        watch: &dyn Watch,
    ) -> Result<Option<String>, Reason> {
        if watch.is_cancelled() {
            return Err(Reason::Cancelled);
        }
        let parts = etags.iter().enumerate().map(|(at, etag)| {
            let etag = text::escape_xml(etag);
            format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", at + 1)
        });
        let list: String = parts.collect();
        let list = format!(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{list}\
             </CompleteMultipartUpload>"
        );
        let reply = self.conditionally(replace, &|url, condition| {
            let url = format!("{url}?uploadId={id}");
            let mut request = request("POST", url, list.clone().into_bytes());
            request.headers.push(("content-type", "application/xml".into()));
            request.headers.extend(condition.clone());
            Ok(request)
        })?;
        if reply.status != 200 {
            self.lost(replace, mark)?;
            return Ok(None);
        }
        match text::xml_field(&reply.body, "ETag") {
            Some(etag) => Ok(Some(text::unescape_xml(etag))),
            None => match self.head()? {
                // The answer was lost, and the request was tried again.
                head if head.mark.as_deref() == Some(mark) => Ok(head.etag),
                _ => Err(failure_in(&reply.body, "the parts were not made an object")),
            },
        }
    }

    /// Sends a request with the condition of `replace`. A store that does not know conditions gets
    /// it without, after a look at the object.
    fn conditionally(
        &self,
        replace: &Replace,
        make: &dyn Fn(String, &Option<Condition>) -> io::Result<Request>,
    ) -> Result<Reply, Reason> {
        let condition = match replace {
            Replace::Nothing => Some(("if-none-match", "*".to_owned())),
            Replace::Anything => None,
            Replace::Only(etag) => Some(("if-match", etag.clone())),
        };
        let all = [200, 404, 409, 412, 501];
        let reply = self.fetcher.call(&all, &|url| make(url, &condition))?;
        if reply.status != 501 || condition.is_none() {
            return Ok(reply);
        }
        self.still_free(replace)?;
        self.fetcher.call(&all, &|url| make(url, &None))
    }

    /// Fails if the name has an object now that may not be replaced.
    fn still_free(&self, replace: &Replace) -> Result<(), Reason> {
        if *replace == Replace::Anything {
            return Ok(());
        }
        let found = self.head()?;
        let is_free = match replace {
            Replace::Only(etag) => found.etag.as_ref() == Some(etag),
            _ => found.status == 404,
        };
        if is_free { Ok(()) } else { Err(taken(replace)) }
    }

    /// Decides what a refused request means: nothing, if the object is that of this very upload,
    /// because the answer to an earlier attempt was lost.
    fn lost(&self, replace: &Replace, mark: &str) -> Result<(), Reason> {
        let head = self.head()?;
        match head.mark.as_deref() == Some(mark) {
            true => Ok(()),
            false if head.status == 404 && *replace == Replace::Nothing => {
                Err(Reason::Answer("the upload is gone; the store may have removed it".into()))
            }
            false => Err(taken(replace)),
        }
    }

    /// Tells the store to forget the parts.
    fn give_up(&self, id: &str) -> Result<(), Reason> {
        let url = |url: String| Ok(request("DELETE", format!("{url}?uploadId={id}"), Vec::new()));
        // It may be gone already.
        self.fetcher.call(&[200, 204, 404], &url).map(|_| ())
    }
}

fn taken(replace: &Replace) -> Reason {
    match replace {
        Replace::Only(_) => Reason::Replaced,
        Replace::Nothing | Replace::Anything => Reason::Exists,
    }
}

fn request(method: &'static str, url: String, body: Vec<u8>) -> Request {
    Request { method, url, headers: Vec::new(), body }
}

/// An error that a store reports with the status of success.
fn failure_in(body: &str, what: &str) -> Reason {
    let code = text::xml_field(body, "Code").unwrap_or("no reason given");
    Reason::Answer(text::one_line(&format!("{what} ({code})")))
}

fn read(file: &File, range: &Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// A word that no other upload has.
fn mark() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// Cuts the contents into parts.
fn plan(contents: &Contents<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let copies = (contents.copied_len / COPIED_LEN).max(u64::from(contents.copied_len > 0));
    for number in 0..copies {
        let start = number * COPIED_LEN;
        // The last one takes the rest, so that none is too short.
        let end = if number + 1 == copies { contents.copied_len } else { start + COPIED_LEN };
        parts.push(Part { range: start..end, is_copied: true });
    }
    let Range { start, end } = contents.range.clone();
    let left = PARTS_MAX.saturating_sub(copies).max(1);
    let part_len = (end - start).div_ceil(left).max(PART_LEN_MIN).next_multiple_of(1 << 20);
    let mut at = start;
    while at < end {
        let to = end.min(at + part_len);
        parts.push(Part { range: at..to, is_copied: false });
        at = to;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_stores_allow_and_cover_everything() {
        let file = tempfile::tempfile().unwrap();
        for copied_len in [0, PART_LEN_ALLOWED, COPIED_LEN, 3 * COPIED_LEN + 1] {
            for sent in [1, PART_LEN_MIN, PART_LEN_MIN + 1, 200 << 30, 4 << 40] {
                let range = 7..7 + sent;
                let parts = plan(&Contents { copied_len, file: &file, range: range.clone() });
                assert!(parts.len() as u64 <= PARTS_MAX);
                let (copied, sent): (Vec<_>, Vec<_>) = parts.iter().partition(|it| it.is_copied);
                for (parts, whole) in [(copied, 0..copied_len), (sent, range)] {
                    let mut at = whole.start;
                    for part in &parts {
                        assert_eq!(part.range.start, at);
                        at = part.range.end;
                    }
                    assert_eq!(at, whole.end);
                }
                let before_last = &parts[..parts.len() - 1];
                let len = |part: &Part| part.range.end - part.range.start;
                assert!(before_last.iter().all(|it| len(it) >= PART_LEN_ALLOWED));
                assert!(parts.iter().all(|it| len(it) <= 5 << 30));
            }
        }
    }
}
