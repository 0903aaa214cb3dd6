//! The trailer: the payload of the last section, 64 bytes that say where the newest root is.
//!
//! An image ends with a trailer section, so a reader finds it `TRAILER_SECTION_LEN` bytes before
//! the end. Append writes new sections and a new trailer after the old one. The old one stays, and
//! is found by walking the sections if the new one is incomplete.

use crate::error::FormatError;
use crate::limits::SPACE_LEN_MAX;
use crate::section::SECTION_HEADER_LEN;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of the trailer payload in bytes.
pub const TRAILER_LEN: usize = 64;
/// Size of a whole trailer section: header and payload.
pub const TRAILER_SECTION_LEN: usize = SECTION_HEADER_LEN + TRAILER_LEN;
/// Writers can pad an image with zeroes to a multiple of this. It is a multiple of the sector
/// length of every block device: a loop device cuts a file at its last whole sector.
pub const PADDED_TO: u64 = 4096;

/// On-disk layout of the trailer. Its checksum is the `payload_sum` of its section header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct TrailerRaw {
    /// Offset of the root's section header from the start of the image.
    pub root_offset: U64,
    /// Stored bytes of the root section, header included.
    pub root_section_len: U64,
    /// Bytes of the image from its start to the end of this trailer.
    pub image_len: U64,
    /// Offset of the section header of the trailer before this one; 0 if this is the first.
    pub previous_trailer_offset: U64,
    /// Number of sections before this one.
    pub section_count: U64,
    /// The image ID again, so that the end of an image identifies it.
    pub image_id: [u8; 16],
    /// Offset of the section header of the Merkle tree; 0 if there is none, as before version 0.2.
    pub merkle_offset: U64,
}

const _: () = assert!(size_of::<TrailerRaw>() == TRAILER_LEN);

/// A validated trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Offset of the root's section header from the start of the image.
    pub root_offset: u64,
    /// Stored bytes of the root section, header included.
    pub root_section_len: u64,
    /// Bytes of the image from its start to the end of this trailer.
    pub image_len: u64,
    /// Offset of the section header of the trailer before this one; 0 if this is the first.
    pub previous_trailer_offset: u64,
    /// Number of sections before this one.
    pub section_count: u64,
    /// The image ID again.
    pub image_id: [u8; 16],
    /// Offset of the section header of the Merkle tree; 0 if there is none.
    pub merkle_offset: u64,
}

impl Trailer {
    /// Returns the 64 payload bytes on disk.
    pub fn encode(&self) -> [u8; TRAILER_LEN] {
        let raw = TrailerRaw {
            root_offset: U64::new(self.root_offset),
            root_section_len: U64::new(self.root_section_len),
            image_len: U64::new(self.image_len),
            previous_trailer_offset: U64::new(self.previous_trailer_offset),
            section_count: U64::new(self.section_count),
            image_id: self.image_id,
            merkle_offset: U64::new(self.merkle_offset),
        };
        let mut out = [0; TRAILER_LEN];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Reads a trailer payload whose section header was found and checked at `section_offset`.
    ///
    /// # Errors
    /// The payload has another length, or an offset or length does not fit before the trailer.
    pub fn decode(bytes: &[u8], section_offset: u64) -> Result<Self, FormatError> {
        const STRUCTURE: &str = "trailer";
        let raw = TrailerRaw::read_from_bytes(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: TRAILER_LEN as u64,
            found: bytes.len() as u64,
        })?;
        let trailer = Self {
            root_offset: raw.root_offset.get(),
            root_section_len: raw.root_section_len.get(),
            image_len: raw.image_len.get(),
            previous_trailer_offset: raw.previous_trailer_offset.get(),
            section_count: raw.section_count.get(),
            image_id: raw.image_id,
            merkle_offset: raw.merkle_offset.get(),
        };
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        if section_offset > SPACE_LEN_MAX - TRAILER_SECTION_LEN as u64
            || trailer.image_len != section_offset + TRAILER_SECTION_LEN as u64
        {
            return field("image length", trailer.image_len, "the end of the trailer");
        }
        match trailer.root_offset.checked_add(trailer.root_section_len) {
            Some(end) if end <= section_offset => {}
            _ => return field("root offset", trailer.root_offset, "a section before the trailer"),
        }
        if trailer.previous_trailer_offset >= section_offset {
            return field(
                "previous trailer offset",
                trailer.previous_trailer_offset,
                "an offset before this trailer",
            );
        }
        if trailer.merkle_offset >= section_offset {
            return field("merkle offset", trailer.merkle_offset, "an offset before this trailer");
        }
        Ok(trailer)
    }
}
