//! Feature bits: who may read an image.
//!
//! *Compatible* bits tell of additions that a reader may ignore. *Incompatible* bits tell of
//! things without which content or names would be read wrongly: a reader that does not know one
//! refuses the image.

use crate::FormatError;

/// The two sets of bits in the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// May be ignored by readers.
    pub compat: u64,
    /// Must be known by readers.
    pub incompat: u64,
}

/// Incompatible bits this version knows: none yet.
pub const INCOMPAT_KNOWN: u64 = 0;

impl Features {
    /// Refuses bits that this version must know and does not.
    pub fn check(self) -> Result<(), FormatError> {
        match self.incompat & !INCOMPAT_KNOWN {
            0 => Ok(()),
            bits => Err(FormatError::Features { bits }),
        }
    }
}
