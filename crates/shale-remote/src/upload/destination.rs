//! An object that is written: complete, or not at all.

use std::sync::Arc;

use super::contents::{Contents, Replace, State, Watch};
use super::name::Name;
use super::parts::mark;
use super::task::Upload;
use super::{azure, google, s3};
use crate::counters::Counters;
use crate::credentials::Access;
use crate::error::{Error, Reason};
use crate::fetch::Fetcher;
use crate::location::{ObjectUrl, Scheme};
use crate::options::Options;

/// The name of an object that is to be written.
#[derive(Debug)]
pub struct Destination {
    name: Name,
    store: Store,
}

/// By which protocol.
#[derive(Debug, Clone, Copy)]
enum Store {
    S3,
    Google,
    Azure,
}

impl Destination {
    /// Takes the name of an object. Asks nobody.
    ///
    /// # Errors
    /// Objects cannot be written there.
    pub fn new(url: &ObjectUrl, options: &Options) -> Result<Self, Error> {
        let fail = |reason| Error { url: url.to_string(), reason };
        let store = match url.scheme {
            Scheme::S3 => Store::S3,
            Scheme::Gs => Store::Google,
            Scheme::Az => Store::Azure,
            Scheme::Http | Scheme::Https => return Err(fail(Reason::NotWritable)),
        };
        // Programs on the way may resolve it, and another object would be written.
        if url.key.split('/').any(|part| matches!(part, "." | "..")) {
            let what = "a part of the name is `.` or `..`; choose another name to write to";
            return Err(fail(Reason::Url(what.into())));
        }
        if options.is_offline {
            return Err(fail(Reason::Offline));
        }
        let counters = Arc::<Counters>::default();
        let fetcher = Fetcher::new(url.clone(), options, Access::Write, counters);
        Ok(Self { name: Name { url: url.clone(), fetcher: fetcher.map_err(fail)? }, store })
    }

    /// Looks at the object of this name; `None` if there is none.
    ///
    /// # Errors
    /// The store cannot be reached or refuses.
    pub fn state(&self) -> Result<Option<State>, Error> {
        let reply = self.name.head().map_err(|reason| self.error(reason))?;
        let state = State { len: reply.len().unwrap_or(0), etag: reply.etag() };
        Ok((reply.status == 200).then_some(state))
    }

    /// How many of the first `len` bytes of the object of this name a new one can have without
    /// being sent them: all of them, fewer or none, as the store allows. One request at most.
    ///
    /// # Errors
    /// The store cannot be reached or refuses.
    pub fn copied_len(&self, len: u64) -> Result<u64, Error> {
        let copied = match self.store {
            Store::S3 => Ok(s3::copied(len)),
            Store::Google => google::copied(&self.name, len),
            Store::Azure => azure::copied(&self.name, len),
        };
        copied.map_err(|reason| self.error(reason))
    }

    /// Writes the object, and asks the store for its length. Returns its ETag.
    ///
    /// # Errors
    /// [`Reason::Exists`] or [`Reason::Replaced`] if another object has the name,
    /// [`Reason::Cancelled`], or whatever the store says. The object of this name is as it was, and
    /// what was uploaded is given up; if that fails as well, the error says so.
    pub fn put(
        &self,
        contents: &Contents<'_>,
        replace: &Replace,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Error> {
        let len = contents.copied_len + contents.range.end - contents.range.start;
        debug_assert!(contents.copied_len == 0 || matches!(replace, Replace::Only(_)));
        let mark = mark();
        let upload = Upload { name: &self.name, contents, replace, mark: &mark, watch };
        let done = match self.store {
            Store::S3 => s3::put(&upload),
            Store::Google => google::put(&upload).map(|()| None),
            Store::Azure => azure::put(&upload),
        };
        let checked = done.and_then(|etag| {
            let found = self.written(len, &mark)?;
            Ok(etag.or(found))
        });
        checked.map_err(|reason| self.error(reason))
    }

    /// Asks the store whether its object is the one that was written. Returns its ETag.
    fn written(&self, len: u64, mark: &str) -> Result<Option<String>, Reason> {
        let head = self.name.head()?;
        // Some stores with the S3 protocol keep no mark.
        if head.mark().is_some_and(|found| found != mark) {
            return Err(Reason::Replaced);
        }
        match head.len().filter(|_| head.status == 200).unwrap_or(0) {
            found if found == len => Ok(head.etag()),
            found => {
                let what = format!("it took {len} bytes, and has an object of {found}");
                Err(Reason::Answer(what))
            }
        }
    }

    fn error(&self, reason: Reason) -> Error {
        Error { url: self.name.url.to_string(), reason }
    }
}
