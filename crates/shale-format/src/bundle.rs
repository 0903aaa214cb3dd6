//! The header of a bundle: one file that is an executable, this header and an image.
//!
//! The executable is the runtime of `crates/shale-runtime`. It finds the header after its own end,
//! which is why this file also knows where the end of an ELF file is. `docs/format.md`, appendix F,
//! is the normative text.

use crate::Checksum;
use crate::error::FormatError;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of the header.
pub const BUNDLE_MAGIC: [u8; 8] = *b"\x8bSHBND\r\n";
/// The version of the header that this program writes and reads.
pub const BUNDLE_VERSION: u16 = 1;
/// Size of the fixed part of the header in bytes.
pub const BUNDLE_HEADER_LEN: usize = 64;
/// Bytes of the whole header: the fixed part, the path of the program, zeroes. The header begins at
/// a multiple of it, and the image follows it.
pub const BUNDLE_BLOCK_LEN: usize = 4096;
/// Longest path of a program.
pub const BUNDLE_RUN_LEN_MAX: usize = BUNDLE_BLOCK_LEN - BUNDLE_HEADER_LEN;
/// Bytes at the start of an executable that [`executable_len`] needs.
pub const EXECUTABLE_HEAD_LEN: usize = 64;

/// On-disk layout of the fixed part of the header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct BundleRaw {
    /// `BUNDLE_MAGIC`.
    pub magic: [u8; 8],
    /// `BUNDLE_VERSION`; a runtime refuses another one.
    pub version: U16,
    /// Bytes of the path of the program, after the fixed part.
    pub run_len: U16,
    /// Reserved, must be zero.
    pub reserved: [u8; 4],
    /// Bytes at the start of the image that a start of the program reads; a hint.
    pub warm_len: U64,
    /// Unused, ignored by readers.
    pub unused: [u8; 32],
    /// XXH3-64 of the whole header, with zeroes in this place.
    pub checksum: U64,
}

const _: () = assert!(size_of::<BundleRaw>() == BUNDLE_HEADER_LEN);

/// A validated header of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Path of the program in the image, relative to its root.
    pub run: Vec<u8>,
    /// Bytes at the start of the image that a start of the program reads; 0 if that is not known.
    pub warm_len: u64,
}

impl Bundle {
    /// Returns the header on disk.
    ///
    /// # Errors
    /// The path is empty, too long, or not one that [`Bundle::decode`] accepts.
    pub fn encode(&self, sum: Checksum) -> Result<[u8; BUNDLE_BLOCK_LEN], FormatError> {
        check_run(&self.run)?;
        let raw = BundleRaw {
            magic: BUNDLE_MAGIC,
            version: U16::new(BUNDLE_VERSION),
            run_len: U16::new(self.run.len() as u16),
            reserved: [0; 4],
            warm_len: U64::new(self.warm_len),
            unused: [0; 32],
            checksum: U64::new(0),
        };
        let mut block = [0; BUNDLE_BLOCK_LEN];
        block[..BUNDLE_HEADER_LEN].copy_from_slice(raw.as_bytes());
        block[BUNDLE_HEADER_LEN..][..self.run.len()].copy_from_slice(&self.run);
        let checksum = sum(&block);
        block[BUNDLE_HEADER_LEN - 8..BUNDLE_HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
        Ok(block)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The bytes are too few, do not begin with the magic, do not have the checksum that they
    /// claim, or have a value that this version does not allow.
    pub fn decode(bytes: &[u8], sum: Checksum) -> Result<Self, FormatError> {
        let Some(block) = bytes.get(..BUNDLE_BLOCK_LEN) else {
            return Err(FormatError::Short {
                structure: STRUCTURE,
                expected: BUNDLE_BLOCK_LEN as u64,
                found: bytes.len() as u64,
            });
        };
        let mut block: [u8; BUNDLE_BLOCK_LEN] = block.try_into().unwrap_or([0; BUNDLE_BLOCK_LEN]);
        let (raw, _) = BundleRaw::read_from_prefix(&block)
            .map_err(|_| FormatError::Magic { structure: STRUCTURE })?;
        if raw.magic != BUNDLE_MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        block[BUNDLE_HEADER_LEN - 8..BUNDLE_HEADER_LEN].fill(0);
        let (expected, found) = (raw.checksum.get(), sum(&block));
        if expected != found {
            return Err(FormatError::Checksum { structure: STRUCTURE, expected, found });
        }
        let refuse = |field, found: u64, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        if raw.version.get() != BUNDLE_VERSION {
            return refuse("version", raw.version.get().into(), "1");
        }
        if raw.reserved != [0; 4] {
            return refuse("reserved", 1, "0");
        }
        let run_len = usize::from(raw.run_len.get());
        let Some(run) = block[BUNDLE_HEADER_LEN..].get(..run_len) else {
            return refuse("run_len", run_len as u64, "1 to 4032");
        };
        check_run(run)?;
        Ok(Self { run: run.to_vec(), warm_len: raw.warm_len.get() })
    }
}

const STRUCTURE: &str = "bundle header";

/// Checks the path of a program: relative, with names only, so that it cannot leave the image.
fn check_run(run: &[u8]) -> Result<(), FormatError> {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    if run.len() > BUNDLE_RUN_LEN_MAX || !run.split(|&byte| byte == b'/').all(is_name) {
        return Err(FormatError::Field {
            structure: STRUCTURE,
            field: "path of the program",
            found: run.len() as u64,
            allowed: "a relative path of 1 to 4032 bytes without `.`, `..` and empty names",
        });
    }
    Ok(())
}

/// Returns the length of the ELF file that begins with `head`, as far as its table of sections
/// tells: linkers and `strip` put that table last. `None` if this is not an ELF file with such a
/// table, in the byte order of x86 and ARM.
pub fn executable_len(head: &[u8; EXECUTABLE_HEAD_LEN]) -> Option<u64> {
    let u16_at = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let u32_at = |at: usize| u16_at(at) | u16_at(at + 2) << 16;
    let u64_at = |at: usize| u32_at(at) | u32_at(at + 4) << 32;
    if head[..4] != *b"\x7fELF" || head[5] != 1 {
        return None;
    }
    let (table_offset, entry_len, entry_count) = match head[4] {
        1 => (u32_at(0x20), u16_at(0x2e), u16_at(0x30)),
        2 => (u64_at(0x28), u16_at(0x3a), u16_at(0x3c)),
        _ => return None,
    };
    let table_len = entry_len * entry_count;
    (table_offset > 0 && table_len > 0).then(|| table_offset.checked_add(table_len)).flatten()
}

/// Returns where the header of a bundle begins, from the length of its executable.
pub fn bundle_offset(executable_len: u64) -> Option<u64> {
    executable_len.checked_next_multiple_of(BUNDLE_BLOCK_LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().fold(7, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    fn bundle() -> Bundle {
        Bundle { run: b"usr/bin/an app".to_vec(), warm_len: 12_345 }
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        let block = bundle().encode(sum).unwrap();
        assert_eq!(Bundle::decode(&block, sum), Ok(bundle()));
        let longest = Bundle { run: vec![b'x'; BUNDLE_RUN_LEN_MAX], warm_len: u64::MAX };
        assert_eq!(Bundle::decode(&longest.encode(sum).unwrap(), sum), Ok(longest));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let block = bundle().encode(sum).unwrap();
        for at in 0..block.len() {
            let mut other = block;
            other[at] ^= 0x40;
            assert!(Bundle::decode(&other, sum).is_err(), "byte {at}");
        }
        assert!(Bundle::decode(&block[..BUNDLE_BLOCK_LEN - 1], sum).is_err());
    }

    #[test]
    fn programs_outside_of_the_image_are_refused() {
        for run in ["", "/bin/sh", "a//b", "a/../b", "..", "./a", "a/", "a\0b"] {
            let bundle = Bundle { run: run.into(), warm_len: 0 };
            assert!(bundle.encode(sum).is_err(), "{run}");
        }
        assert!(Bundle { run: vec![b'x'; 4033], warm_len: 0 }.encode(sum).is_err());
    }

    #[test]
    fn the_end_of_an_executable_is_the_end_of_its_sections() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let head: [u8; EXECUTABLE_HEAD_LEN] = own[..EXECUTABLE_HEAD_LEN].try_into().unwrap();
        assert_eq!(executable_len(&head), Some(own.len() as u64));
        for (at, byte) in [(0, 0), (4, 3), (5, 2)] {
            let mut other = head;
            other[at] = byte;
            assert_eq!(executable_len(&other), None, "byte {at}");
        }
        let mut endless = head;
        endless[0x28..0x30].fill(0xff);
        assert_eq!(executable_len(&endless), None);
        assert_eq!(bundle_offset(u64::MAX), None);
        assert_eq!((bundle_offset(4096), bundle_offset(4097)), (Some(4096), Some(8192)));
    }
}
