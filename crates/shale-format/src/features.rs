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

/// Incompatible bits this version knows: none yet.
pub const INCOMPAT_KNOWN: u64 = 0;

impl Features {
    /// Checks that this version knows all incompatible bits.
    ///
    /// # Errors
    /// A bit is unknown.
    pub fn check(self) -> Result<(), FormatError> {
        match self.incompat & !INCOMPAT_KNOWN {
            0 => Ok(()),
            bits => Err(FormatError::Features { bits }),
        }
    }
}
