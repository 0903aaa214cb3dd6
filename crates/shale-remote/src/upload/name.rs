//! The name of an object in its store, and who may ask about it.

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
}
