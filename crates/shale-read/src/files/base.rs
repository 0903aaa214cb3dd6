//! A file as the base of a thin image: whether it is the right one.
//!
//! The base may have grown since: then an earlier state of it is the base. What counts is the
//! identity of the state that ends where the thin image continues. It is compared by the head of
//! the base's Merkle tree, whatever the length of the base; every page and frame is still compared
//! with its sum when it is read, and with the identity of the thin image if one is expected.

use std::sync::Arc;

use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{Identity, ThinHead};

use crate::storage::open::start_of;
use crate::storage::sections::read_trailer;
use crate::storage::source::ByteSource;
use crate::storage::stored::Stored;
use crate::trust::merkle::{find, identity_of};

/// The base of an image that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BaseFacts {
    /// The name that the thin image has for the file of its base.
    pub name: Vec<u8>,
    /// Bytes of the base.
    pub base_len: u64,
    /// Identity of the base.
    pub identity: Identity,
    /// Bytes of the head of the thin image in its file. The byte of the image at `base_len` follows
    /// them.
    pub head_len: u64,
    /// Where the base was found, in words.
    pub found: String,
    /// The base of the base, if that is thin.
    pub base: Option<Box<BaseFacts>>,
}

impl BaseFacts {
    /// Number of bases below the image: 1, or more if the base is thin.
    pub fn depth(&self) -> usize {
        1 + self.base.as_ref().map_or(0, |base| base.depth())
    }
}

/// Returns where the base of `head` begins in `source`, or why it is not there.
pub(super) fn start_in(source: &Arc<dyn ByteSource>, head: &ThinHead) -> Result<u64, String> {
    let (start, superblock) = start_of(source).map_err(|error| error.to_string())?;
    if superblock.image_id != head.image_id {
        return Err("it is another image".to_owned());
    }
    let whole = Stored::new(Arc::clone(source), start, Arc::default());
    if whole.len() < head.base_len {
        let (found, len) = (whole.len(), head.base_len);
        return Err(format!("it has {found} of {len} bytes: it is an earlier state, or truncated"));
    }
    let base = whole.first(head.base_len);
    let at = head.base_len - TRAILER_SECTION_LEN as u64;
    let trailer = read_trailer(&base, at, &superblock)
        .map_err(|error| format!("it is damaged or has no state of this length ({error})"))?;
    let tree = find(&base, &trailer, superblock.image_tag());
    match tree.map_err(|error| format!("it is damaged ({error})"))? {
        None => Err("it has no identity".to_owned()),
        Some(tree) => match identity_of(&tree.head) {
            identity if identity == head.base_identity => Ok(start),
            identity => Err(format!("it has the identity {identity}")),
        },
    }
}
