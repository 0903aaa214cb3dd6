//! The head of a thin image: a file with the end of an image, whose beginning another file holds.
//!
//! The file begins with a superblock that has an incompatible bit, so a reader that does not know
//! thin images refuses it, and with a section that names the *base*: the image that holds the first
//! bytes. Everything after this head are the bytes of the image from the end of the base on.
//!
//! Only the layout is known here. The reader finds the base and compares its identity.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Checksum;
use crate::error::FormatError;
use crate::features::{Features, INCOMPAT_THIN};
use crate::limits::{FILE_LEN_MAX, NAME_LEN_MAX};
use crate::merkle::Identity;
use crate::section::{SECTION_HEADER_LEN, SectionHeader, SectionType};
use crate::superblock::{SUPERBLOCK_LEN, Superblock};
use crate::trailer::TRAILER_SECTION_LEN;

/// Bytes of a base record without its name.
pub const BASE_RECORD_LEN: usize = 48;
/// Bytes of the longest head.
pub const THIN_HEAD_LEN_MAX: usize =
    SUPERBLOCK_LEN + SECTION_HEADER_LEN + BASE_RECORD_LEN + NAME_LEN_MAX;
/// Fewest bytes of a base: an image has a superblock and a trailer.
pub const BASE_LEN_MIN: u64 = (SUPERBLOCK_LEN + TRAILER_SECTION_LEN) as u64;

/// On-disk layout of a base record, which its name follows.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct BaseRecordRaw {
    /// Bytes of the base: the image of this head continues there.
    pub base_len: U64,
    /// Identity of the base.
    pub base_identity: [u8; 32],
    /// Bytes of the name that follows.
    pub name_len: U16,
    /// Reserved, must be zero.
    pub reserved: [u8; 6],
}

const _: () = assert!(size_of::<BaseRecordRaw>() == BASE_RECORD_LEN);

/// The head of a thin image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinHead {
    /// ID of the image, and of its base.
    pub image_id: [u8; 16],
    /// Bytes of the base.
    pub base_len: u64,
    /// Identity of the base.
    pub base_identity: Identity,
    /// Name of the file of the base, without directories; empty if it had none.
    pub base_name: Vec<u8>,
}

impl ThinHead {
    /// Returns the bytes of this head in its file: what follows them is the end of the image.
    pub fn len(&self) -> u64 {
        (SUPERBLOCK_LEN + SECTION_HEADER_LEN + BASE_RECORD_LEN + self.base_name.len()) as u64
    }

    /// Always false: a head begins with a superblock.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the bytes on disk.
    ///
    /// # Errors
    /// The name cannot be that of a file, or the base is too short or too long.
    pub fn encode(&self, checksum: Checksum) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let mut superblock = Superblock::new(self.image_id);
        superblock.features.incompat = INCOMPAT_THIN;
        let record = BaseRecordRaw {
            base_len: U64::new(self.base_len),
            base_identity: self.base_identity.0,
            name_len: U16::new(self.base_name.len() as u16),
            reserved: [0; 6],
        };
        let payload = [record.as_bytes(), &self.base_name].concat();
        let header = SectionHeader {
            section_type: SectionType::Base as u16,
            codec: 0,
            offset: SUPERBLOCK_LEN as u64,
            stored_len: payload.len() as u64,
            plain_len: payload.len() as u64,
            image_tag: superblock.image_tag(),
            payload_sum: checksum(&payload),
        };
        Ok([&superblock.encode(checksum)[..], &header.encode(checksum), &payload].concat())
    }

    /// Reads and checks the head at the start of `bytes`, which are the first bytes of a file, at
    /// most [`THIN_HEAD_LEN_MAX`]. Returns `None` if the file is not thin: an image of another
    /// kind, or no image.
    ///
    /// # Errors
    /// The head is damaged, or is of a version or has features that this crate does not know.
    pub fn decode(bytes: &[u8], checksum: Checksum) -> Result<Option<Self>, FormatError> {
        const STRUCTURE: &str = "base record";
        let superblock = match Superblock::decode_with(bytes, INCOMPAT_THIN, checksum) {
            Ok(superblock) if superblock.features.incompat & INCOMPAT_THIN != 0 => superblock,
            // A damaged superblock may be anything; who opens it as an image says what is wrong.
            Ok(_) | Err(FormatError::Magic { .. } | FormatError::Short { .. }) => return Ok(None),
            Err(FormatError::Checksum { .. }) if !claims_thin(bytes) => return Ok(None),
            Err(error) => return Err(error),
        };
        let offset = SUPERBLOCK_LEN as u64;
        let tag = superblock.image_tag();
        let header = SectionHeader::decode(&bytes[SUPERBLOCK_LEN..], offset, tag, checksum)?;
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        if header.section_type != SectionType::Base as u16 || header.codec != 0 {
            return field("type of its section", header.section_type.into(), "9, stored");
        }
        let (shortest, longest) = (BASE_RECORD_LEN as u64, (BASE_RECORD_LEN as u64) + 255);
        if !(shortest..=longest).contains(&header.stored_len) {
            return field("length", header.stored_len, "48 to 303");
        }
        let start = SUPERBLOCK_LEN + SECTION_HEADER_LEN;
        let short = FormatError::Short {
            structure: STRUCTURE,
            expected: header.stored_len,
            found: bytes.len().saturating_sub(start) as u64,
        };
        let payload = bytes.get(start..start + header.stored_len as usize).ok_or(short.clone())?;
        let found = checksum(payload);
        if found != header.payload_sum {
            let expected = header.payload_sum;
            return Err(FormatError::Checksum { structure: STRUCTURE, expected, found });
        }
        let (raw, name) = BaseRecordRaw::read_from_prefix(payload).map_err(|_| short)?;
        if raw.reserved != [0; 6] {
            return field("reserved", 1, "0");
        }
        if usize::from(raw.name_len.get()) != name.len() {
            return field("length of the name", raw.name_len.get().into(), "the rest of it");
        }
        let head = Self {
            image_id: superblock.image_id,
            base_len: raw.base_len.get(),
            base_identity: Identity(raw.base_identity),
            base_name: name.to_vec(),
        };
        head.check()?;
        Ok(Some(head))
    }

    fn check(&self) -> Result<(), FormatError> {
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: "base record", field, found, allowed })
        };
        if !(BASE_LEN_MIN..=FILE_LEN_MAX).contains(&self.base_len) {
            return field("length of the base", self.base_len, "192 to 2^63 - 1");
        }
        let name = &self.base_name[..];
        let is_name = name.len() <= NAME_LEN_MAX
            && name != b"."
            && name != b".."
            && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        match is_name {
            true => Ok(()),
            false => field("name", name.len() as u64, "a name without `/`, up to 255 bytes"),
        }
    }
}

/// True if the bytes of a superblock say that the image is thin, whatever their sum is.
fn claims_thin(bytes: &[u8]) -> bool {
    let only_bit = Features { compat: 0, incompat: INCOMPAT_THIN };
    bytes.get(24..32).is_some_and(|bits| *bits == only_bit.incompat.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().fold(7, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
    }

    fn head(name: &[u8]) -> ThinHead {
        ThinHead {
            image_id: [3; 16],
            base_len: 1000,
            base_identity: Identity([5; 32]),
            base_name: name.to_vec(),
        }
    }

    #[test]
    fn heads_are_read_as_they_are_written() {
        for name in [&b""[..], b"week.shale", &[b'n'; 255]] {
            let bytes = head(name).encode(sum).unwrap();
            assert_eq!(bytes.len() as u64, head(name).len());
            assert!(bytes.len() <= THIN_HEAD_LEN_MAX);
            assert_eq!(ThinHead::decode(&bytes, sum), Ok(Some(head(name))));
            let longer = [&bytes[..], b"the end of the image"].concat();
            assert_eq!(ThinHead::decode(&longer, sum), Ok(Some(head(name))));
            // A reader of whole images refuses it as something that it does not know.
            let refused = Superblock::decode(&bytes, sum);
            assert_eq!(refused, Err(FormatError::Features { bits: INCOMPAT_THIN }));
        }
        assert_eq!(ThinHead::decode(&Superblock::new([1; 16]).encode(sum), sum), Ok(None));
        assert_eq!(ThinHead::decode(b"", sum), Ok(None));
        assert_eq!(ThinHead::decode(&[7; 500], sum), Ok(None));
    }

    #[test]
    fn every_damaged_byte_is_noticed_and_every_cut_too() {
        let bytes = head(b"week.shale").encode(sum).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let found = ThinHead::decode(&damaged, sum);
            // A damaged magic is no image; a damaged feature bit is a damaged superblock.
            assert!(matches!(found, Err(_) | Ok(None)), "byte {at}: {found:?}");
            if at >= 32 && !(SUPERBLOCK_LEN - 16..SUPERBLOCK_LEN).contains(&at) {
                assert!(found.is_err(), "byte {at}");
            }
        }
        for len in SUPERBLOCK_LEN..bytes.len() {
            assert!(ThinHead::decode(&bytes[..len], sum).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_and_impossible_lengths_are_refused() {
        for name in [&b".."[..], b".", b"a/b", b"/etc/passwd", b"a\0b", &[b'n'; 256]] {
            assert!(head(name).encode(sum).is_err(), "{}", name.escape_ascii());
        }
        for base_len in [0, 191, 1 << 63, u64::MAX] {
            assert!(ThinHead { base_len, ..head(b"a") }.encode(sum).is_err(), "{base_len}");
        }
    }
}
