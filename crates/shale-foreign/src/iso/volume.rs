//! The descriptors at the beginning of an image: which trees of directories it has.

use super::record::Record;
use crate::tree::{ImageFile, le};

/// Bytes of a sector. Blocks of other lengths were never used.
pub(super) const SECTOR_LEN: u64 = 2048;
/// The first sector of the descriptors.
const FIRST: u64 = 16;
/// Descriptors that are looked at.
const COUNT_MAX: u64 = 64;

/// What the descriptors say.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// The root of the tree that every image has.
    pub(super) primary: Option<Record>,
    /// The root of the tree with names in UCS-2.
    pub(super) joliet: Option<Record>,
    /// There is a UDF file system as well.
    pub(super) has_udf: bool,
}

impl Volumes {
    /// Reads the descriptors.
    ///
    /// # Errors
    /// Says why there is no tree.
    pub(super) fn read(file: &ImageFile) -> Result<Self, String> {
        let mut found = Self::default();
        let mut is_over = false;
        for sector in FIRST..FIRST + COUNT_MAX {
            let at = sector * SECTOR_LEN;
            if at + SECTOR_LEN > file.len() {
                break;
            }
            let bytes = file.read(at, SECTOR_LEN)?;
            match (&bytes[1..6], bytes[0]) {
                (b"NSR02" | b"NSR03", _) => found.has_udf = true,
                (b"BEA01" | b"TEA01" | b"BOOT2", _) => {}
                (b"CD001", _) if is_over => {}
                (b"CD001", 255) => is_over = true,
                (b"CD001", kind @ (1 | 2)) => {
                    let block_len = le(&bytes[128..130]);
                    if block_len != SECTOR_LEN {
                        return Err(format!("its blocks have {block_len} bytes, not 2048"));
                    }
                    let root = Record::parse(&bytes[156..190])
                        .ok_or_else(|| format!("the root in sector {sector} is corrupt"))?;
                    let escape = &bytes[88..91];
                    if kind == 1 {
                        found.primary.get_or_insert(root);
                    } else if matches!(escape, b"%/@" | b"%/C" | b"%/E") {
                        found.joliet.get_or_insert(root);
                    }
                }
                (b"CD001", _) => {}
                _ => break,
            }
        }
        if found.primary.is_none() {
            return Err("it has no primary volume descriptor: corrupt".to_owned());
        }
        Ok(found)
    }
}
