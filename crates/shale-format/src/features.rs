//! Feature bits: who may read an image.
//!
//! *Compatible* bits announce additions that a reader may ignore. *Incompatible* bits announce
//! changes without which content or names would be read wrongly: a reader that does not know one of
//! them refuses the image.

use crate::FormatError;

/// The two sets of bits in the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Bits that readers may ignore.
    pub compat: u64,
    /// Bits that readers must know.
    pub incompat: u64,
}

/// Incompatible bit of a file that holds only the end of an image: see [`crate::ThinHead`].
pub const INCOMPAT_THIN: u64 = 1;
/// Incompatible bits that an image itself may have: none yet.
pub const INCOMPAT_KNOWN: u64 = 0;

impl Features {
    /// Checks that all incompatible bits are known: those of images, and `more`.
    ///
    /// # Errors
    /// A bit is unknown.
    pub fn check(self, more: u64) -> Result<(), FormatError> {
        match self.incompat & !(INCOMPAT_KNOWN | more) {
            0 => Ok(()),
            bits => Err(FormatError::Features { bits }),
        }
    }
}
