//! One layer of a union: a view with its range of inode numbers, and what its marks say.

use crate::view::{Attributes, MODE_DIRECTORY, MODE_TYPE_MASK, ROOT, View, ViewError};
use std::io;
use std::sync::Arc;

/// What names begin with that only mean something to a layer (OCI).
pub(super) const MARK: &[u8] = b".wh.";
/// The entry that makes a directory opaque (OCI).
const OPAQUE_MARK: &[u8] = b".wh..wh..opq";
/// Longest name.
const NAME_LEN_MAX: usize = 255;
/// Name spaces of the attributes of overlayfs.
const OVERLAY: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];
/// A directory of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Index of the layer, from the bottom.
    pub(super) layer: usize,
    /// The inode there.
    pub(super) inode: u64,
}

/// A view among others.
pub(super) struct Layer {
    pub(super) view: Arc<dyn View>,
    /// The number of its inode n is this + n.
    pub(super) base: u64,
    pub(super) inode_count: u64,
    /// It may have extended attributes.
    pub(super) has_xattrs: bool,
}

/// A mode with the type bits of a character device.
const MODE_CHAR_DEVICE: u32 = 0o020000;

pub(super) fn is_directory(found: &Attributes) -> bool {
    found.mode & MODE_TYPE_MASK == MODE_DIRECTORY
}

pub(super) fn is_whiteout(found: &Attributes) -> bool {
    found.mode & MODE_TYPE_MASK == MODE_CHAR_DEVICE && found.device == (0, 0)
}

pub(super) fn is_of_overlay(name: &[u8]) -> bool {
    OVERLAY.iter().any(|space| name.starts_with(space))
}

impl Layer {
    pub(super) fn ours(&self, theirs: Attributes) -> Result<Attributes, ViewError> {
        if !(1..=self.inode_count).contains(&theirs.inode) {
            return Err(ViewError::Damaged(format!("inode {} does not exist", theirs.inode)));
        }
        // The number of directories in a merged directory is not known; 1 says so.
        let link_count = if is_directory(&theirs) { 1 } else { theirs.link_count };
        Ok(Attributes { inode: self.number(theirs.inode), link_count, ..theirs })
    }

    fn number(&self, inode: u64) -> u64 {
        if inode == ROOT { ROOT } else { self.base + inode }
    }

    /// Returns whether a directory hides what the layers below have at its path.
    pub(super) fn is_opaque(&self, directory: u64) -> Result<bool, ViewError> {
        if self.view.lookup(directory, OPAQUE_MARK)?.is_some() {
            return Ok(true);
        }
        if self.has_xattrs {
            for name in [&b"trusted.overlay.opaque"[..], b"user.overlay.opaque"] {
                if self.view.xattr(directory, name)?.as_deref() == Some(b"y") {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a directory has the whiteout `.wh.NAME`.
    pub(super) fn hides(&self, directory: u64, name: &[u8]) -> Result<bool, ViewError> {
        if name.len() + MARK.len() > NAME_LEN_MAX {
            return Ok(false);
        }
        Ok(self.view.lookup(directory, &[MARK, name].concat())?.is_some())
    }

    /// Refuses an inode of which overlayfs keeps a part elsewhere: a directory that was renamed, a
    /// file of which only the metadata were copied up.
    pub(super) fn check_whole(&self, inode: u64) -> Result<(), ViewError> {
        if !self.has_xattrs {
            return Ok(());
        }
        let mut refused = None;
        self.view.xattr_names(inode, &mut |name| {
            let space = OVERLAY.iter().find_map(|space| name.strip_prefix(*space));
            if let Some(what @ (b"redirect" | b"metacopy")) = space {
                refused = Some(String::from_utf8_lossy(what).into_owned());
            }
        })?;
        match refused {
            None => Ok(()),
            Some(what) => Err(ViewError::Source(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("it has the overlayfs attribute `{what}`, which is not supported"),
            ))),
        }
    }
}
