//! The name of an object in its store: which object has it, and whether that may be replaced.

use super::contents::Replace;
use crate::error::Reason;
use crate::fetch::{Fetcher, Reply};
use crate::http::Request;
use crate::location::ObjectUrl;

/// The name of an object in its store.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) url: ObjectUrl,
    pub(super) fetcher: Fetcher,
}

impl Name {
    /// Looks at the object of this name.
    pub(super) fn head(&self) -> Result<Reply, Reason> {
        self.fetcher.call(&[200, 404], &|url| Ok(Request::new("HEAD", url, Vec::new())))
    }

    /// Fails if the name has an object now that may not be replaced.
    pub(super) fn still_free(&self, replace: &Replace) -> Result<(), Reason> {
        if *replace == Replace::Anything {
            return Ok(());
        }
        let found = self.head()?;
        let is_free = match replace {
            Replace::Only(etag) => found.header("etag") == Some(etag),
            _ => found.status == 404,
        };
        if is_free { Ok(()) } else { Err(taken(replace)) }
    }

    /// Decides what it means that the store refused the last request of an upload: nothing, if the
    /// object is that of this very upload, because the answer to an earlier attempt was lost.
    pub(super) fn lost(
        &self,
        replace: &Replace,
        mark: &str,
        refusal: &Reply,
    ) -> Result<(), Reason> {
        let head = self.head()?;
        let is_free = match replace {
            Replace::Nothing => head.status == 404,
            Replace::Only(etag) => head.header("etag") == Some(etag),
            Replace::Anything => true,
        };
        match head.mark() == Some(mark) {
            true => Ok(()),
            false if is_free => Err(gone(refusal)),
            false => Err(taken(replace)),
        }
    }
}

/// The store made no object, and said why.
pub(super) fn gone(refusal: &Reply) -> Reason {
    Reason::Gone { status: refusal.status, detail: refusal.detail() }
}

/// Why the object that has the name may not be replaced.
pub(super) fn taken(replace: &Replace) -> Reason {
    match replace {
        Replace::Only(_) => Reason::Replaced,
        Replace::Nothing | Replace::Anything => Reason::Exists,
    }
}
