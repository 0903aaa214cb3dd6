//! One upload: what is written, under which name, over what, and who hears of it.

use super::contents::{Contents, Replace, Watch};
use super::name::Name;
use crate::error::Reason;
use crate::fetch::Reply;

/// One upload.
pub(super) struct Upload<'a> {
    pub(super) name: &'a Name,
    pub(super) contents: &'a Contents<'a>,
    pub(super) replace: &'a Replace,
    /// What tells the object of this upload from those of others.
    pub(super) mark: &'a str,
    pub(super) watch: &'a dyn Watch,
}

impl Upload<'_> {
    /// Bytes that are sent.
    pub(super) fn sent_len(&self) -> u64 {
        self.contents.range.end - self.contents.range.start
    }

    /// Fails if the caller gave up.
    pub(super) fn go_on(&self) -> Result<(), Reason> {
        if self.watch.is_cancelled() { Err(Reason::Cancelled) } else { Ok(()) }
    }

    /// Fails if the name has an object now that may not be replaced.
    pub(super) fn check_free(&self) -> Result<(), Reason> {
        if *self.replace == Replace::Anything || self.is_free(&self.name.head()?) {
            return Ok(());
        }
        Err(self.taken())
    }

    /// Decides what it means that the store refused the last request of the upload: nothing, if the
    /// object is that of this very upload, because the answer to an earlier attempt was lost.
    pub(super) fn lost(&self, refusal: &Reply) -> Result<(), Reason> {
        let head = self.name.head()?;
        match head.mark() == Some(self.mark) {
            true => Ok(()),
            false if self.is_free(&head) => Err(gone(refusal)),
            false => Err(self.taken()),
        }
    }

    /// Whether what the store has under the name may be replaced.
    fn is_free(&self, head: &Reply) -> bool {
        match self.replace {
            Replace::Nothing => head.status == 404,
            Replace::Only(etag) => head.header("etag") == Some(etag),
            Replace::Anything => true,
        }
    }

    /// Why the object that has the name may not be replaced.
    fn taken(&self) -> Reason {
        match self.replace {
            Replace::Only(_) => Reason::Replaced,
            Replace::Nothing | Replace::Anything => Reason::Exists,
        }
    }
}

/// The store made no object, and said why.
pub(super) fn gone(refusal: &Reply) -> Reason {
    Reason::Gone { status: refusal.status, detail: refusal.detail() }
}
