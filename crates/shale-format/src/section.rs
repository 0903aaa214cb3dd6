//! The header before every section: type, lengths, checksums and where it belongs.
//!
//! Sections can be walked from the superblock without trailer or root, as each header has the
//! length of its payload. A header repeats the tag of its image and its own offset, so a section
//! that was moved, swapped or taken from another image (such as one that is a file of this image)
//! is not mistaken for one of this image.

use crate::Checksum;
use crate::error::FormatError;
use crate::limits::SECTION_STORED_LEN_MAX;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every section header.
pub const SECTION_MAGIC: [u8; 8] = *b"\x8bSECTN\r\n";
/// Size of a section header in bytes.
pub const SECTION_HEADER_LEN: usize = 64;

/// On-disk layout of a section header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct SectionHeaderRaw {
    /// `SECTION_MAGIC`.
    pub magic: [u8; 8],
    /// What the payload is, see `SectionType`.
    pub section_type: U16,
    /// Codec of the whole payload: 0 stored, 1 zstd.
    pub codec: u8,
    /// Reserved, must be zero.
    pub reserved: [u8; 5],
    /// Offset of this header from the start of the image.
    pub offset: U64,
    /// Bytes of the payload as stored.
    pub stored_len: U64,
    /// Bytes of the payload once decoded.
    pub plain_len: U64,
    /// The image tag: first 8 bytes of the image ID.
    pub image_tag: U64,
    /// XXH3-64 of the stored payload.
    pub payload_sum: U64,
    /// XXH3-64 of the header bytes before.
    pub checksum: U64,
}

const _: () = assert!(size_of::<SectionHeaderRaw>() == SECTION_HEADER_LEN);

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[non_exhaustive]
pub enum SectionType {
    /// Stored frames, back to back.
    Frames = 1,
    /// Stored table pages, back to back.
    Pages = 2,
    /// A root.
    Root = 3,
    /// History of the image: text, one record a line.
    History = 4,
    /// A signature over the identity of the image.
    Signature = 5,
    /// Parity over the leaves of the image.
    Parity = 6,
    /// The Merkle tree over the leaves of the image.
    Merkle = 7,
    /// A trailer: the end of an image or of one of its earlier states.
    Trailer = 8,
    /// The base of a thin image; only in the head of its file.
    Base = 9,
    /// Fingerprints of frames, for appends only.
    AppendIndex = 10,
    /// The Merkle tree over the leaves of an image, with hashes that lie in earlier sections.
    MerkleContinued = 11,
}

impl SectionType {
    /// Returns the type with this number, if this version knows it.
    pub fn from_id(id: u16) -> Option<Self> {
        Some(match id {
            1 => Self::Frames,
            2 => Self::Pages,
            3 => Self::Root,
            4 => Self::History,
            5 => Self::Signature,
            6 => Self::Parity,
            7 => Self::Merkle,
            8 => Self::Trailer,
            9 => Self::Base,
            10 => Self::AppendIndex,
            11 => Self::MerkleContinued,
            _ => return None,
        })
    }

    /// The name in the glossary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Pages => "pages",
            Self::Root => "root",
            Self::History => "history",
            Self::Signature => "signature",
            Self::Parity => "parity",
            Self::Merkle => "merkle",
            Self::Trailer => "trailer",
            Self::Base => "base",
            Self::AppendIndex => "append index",
            Self::MerkleContinued => "merkle continued",
        }
    }
}

/// A validated section header. `section_type` stays a number, as readers skip unknown types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionHeader {
    /// What the payload is; compare with `SectionType as u16`.
    pub section_type: u16,
    /// Codec of the whole payload: 0 stored, 1 zstd.
    pub codec: u8,
    /// Offset of the header from the start of the image.
    pub offset: u64,
    /// Bytes of the payload as stored.
    pub stored_len: u64,
    /// Bytes of the payload once decoded.
    pub plain_len: u64,
    /// The image tag: first 8 bytes of the image ID.
    pub image_tag: u64,
    /// XXH3-64 of the stored payload.
    pub payload_sum: u64,
}

impl SectionHeader {
    /// Offset of the payload from the start of the image.
    pub fn payload_offset(&self) -> u64 {
        self.offset + SECTION_HEADER_LEN as u64
    }

    /// Offset of the first byte after the section.
    pub fn end(&self) -> u64 {
        self.payload_offset() + self.stored_len
    }

    /// Returns the 64 bytes on disk.
    pub fn encode(&self, checksum: Checksum) -> [u8; SECTION_HEADER_LEN] {
        let mut raw = SectionHeaderRaw {
            magic: SECTION_MAGIC,
            section_type: U16::new(self.section_type),
            codec: self.codec,
            reserved: [0; 5],
            offset: U64::new(self.offset),
            stored_len: U64::new(self.stored_len),
            plain_len: U64::new(self.plain_len),
            image_tag: U64::new(self.image_tag),
            payload_sum: U64::new(self.payload_sum),
            checksum: U64::new(0),
        };
        raw.checksum = U64::new(checksum(&raw.as_bytes()[..SECTION_HEADER_LEN - 8]));
        let mut out = [0; SECTION_HEADER_LEN];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Returns the offset at which the header at the start of `bytes` says that it is; 0 if the
    /// bytes are too few. Nothing is checked.
    pub fn claimed_offset(bytes: &[u8]) -> u64 {
        SectionHeaderRaw::read_from_prefix(bytes).map_or(0, |(raw, _)| raw.offset.get())
    }

    /// Reads and checks the header at the start of `bytes`, which were read from `offset` of the
    /// image with the tag `image_tag`.
    ///
    /// # Errors
    /// The bytes are not a header, or not one of this image and offset, or a value is beyond its
    /// limit.
    pub fn decode(
        bytes: &[u8],
        offset: u64,
        image_tag: u64,
        checksum: Checksum,
    ) -> Result<Self, FormatError> {
        const STRUCTURE: &str = "section header";
        let (raw, _) =
            SectionHeaderRaw::read_from_prefix(bytes).map_err(|_| FormatError::Short {
                structure: STRUCTURE,
                expected: SECTION_HEADER_LEN as u64,
                found: bytes.len() as u64,
            })?;
        if raw.magic != SECTION_MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        let found = checksum(&bytes[..SECTION_HEADER_LEN - 8]);
        if raw.checksum.get() != found {
            return Err(FormatError::Checksum {
                structure: STRUCTURE,
                expected: raw.checksum.get(),
                found,
            });
        }
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: STRUCTURE, field, found, allowed })
        };
        if raw.image_tag.get() != image_tag {
            return field("image tag", raw.image_tag.get(), "the tag of this image's superblock");
        }
        if raw.offset.get() != offset {
            return field("offset", raw.offset.get(), "the offset it was read from");
        }
        if raw.reserved != [0; 5] {
            return field("reserved", 1, "0");
        }
        if raw.codec > 1 {
            return field("codec", u64::from(raw.codec), "0 (stored) or 1 (zstd)");
        }
        if raw.stored_len.get() > SECTION_STORED_LEN_MAX {
            return field("stored length", raw.stored_len.get(), "at most 2^40");
        }
        if raw.codec == 0 && raw.plain_len != raw.stored_len {
            return field("plain length", raw.plain_len.get(), "the stored length");
        }
        Ok(Self {
            section_type: raw.section_type.get(),
            codec: raw.codec,
            offset,
            stored_len: raw.stored_len.get(),
            plain_len: raw.plain_len.get(),
            image_tag,
            payload_sum: raw.payload_sum.get(),
        })
    }
}
