//! The superblock: the first 64 bytes of an image.
//!
//! It is written first and never changed, not even by append or to a pipe. So it holds only what is
//! known before anything else: magic, version, features, image ID. `decode` checks magic, checksum,
//! version, reserved bytes and features, in this order, so that damage is called damage and an
//! image of a newer version is called that.

use crate::error::FormatError;
use crate::features::Features;
use crate::{Checksum, VERSION_MAJOR, VERSION_MINOR};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every image. The high bit catches 7-bit transports, CR LF and LF catch newline
/// translation (as in PNG, section 5.2).
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"\x8bSHALE\r\n";
/// Size of the superblock in bytes.
pub const SUPERBLOCK_LEN: usize = 64;

/// On-disk layout of the superblock.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct SuperblockRaw {
    /// `SUPERBLOCK_MAGIC`.
    pub magic: [u8; 8],
    /// Major version: a reader refuses a larger one.
    pub version_major: U16,
    /// Minor version.
    pub version_minor: U16,
    /// Reserved, must be zero.
    pub reserved_a: [u8; 4],
    /// Compatible feature bits.
    pub compat: U64,
    /// Incompatible feature bits.
    pub incompat: U64,
    /// Image ID, chosen by the writer; its first 8 bytes are the tag in every section header.
    pub image_id: [u8; 16],
    /// Unused, ignored by readers.
    pub unused: [u8; 8],
    /// XXH3-64 of the bytes before.
    pub checksum: U64,
}

const _: () = assert!(size_of::<SuperblockRaw>() == SUPERBLOCK_LEN);

/// A validated superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Major version.
    pub version_major: u16,
    /// Minor version.
    pub version_minor: u16,
    /// Feature bits.
    pub features: Features,
    /// Image ID, the same in the whole image.
    pub image_id: [u8; 16],
}

impl Superblock {
    /// Returns the superblock of an image of this version.
    pub fn new(image_id: [u8; 16]) -> Self {
        Self {
            version_major: VERSION_MAJOR,
            version_minor: VERSION_MINOR,
            features: Features::default(),
            image_id,
        }
    }

    /// Returns the image tag, which every section header repeats.
    pub fn image_tag(&self) -> u64 {
        let mut tag = [0; 8];
        tag.copy_from_slice(&self.image_id[..8]);
        u64::from_le_bytes(tag)
    }

    /// Returns the 64 bytes on disk.
    pub fn encode(&self, checksum: Checksum) -> [u8; SUPERBLOCK_LEN] {
        let mut raw = SuperblockRaw {
            magic: SUPERBLOCK_MAGIC,
            version_major: U16::new(self.version_major),
            version_minor: U16::new(self.version_minor),
            reserved_a: [0; 4],
            compat: U64::new(self.features.compat),
            incompat: U64::new(self.features.incompat),
            image_id: self.image_id,
            unused: [0; 8],
            checksum: U64::new(0),
        };
        raw.checksum = U64::new(checksum(&raw.as_bytes()[..SUPERBLOCK_LEN - 8]));
        let mut out = [0; SUPERBLOCK_LEN];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Reads and checks a superblock at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a superblock, are damaged, or are of a version or have features that this
    /// crate does not know.
    pub fn decode(bytes: &[u8], checksum: Checksum) -> Result<Self, FormatError> {
        Self::decode_with(bytes, 0, checksum)
    }

    /// As [`Superblock::decode`], for a file that may have these incompatible bits.
    ///
    /// # Errors
    /// As [`Superblock::decode`].
    pub(crate) fn decode_with(
        bytes: &[u8],
        incompat: u64,
        checksum: Checksum,
    ) -> Result<Self, FormatError> {
        const STRUCTURE: &str = "superblock";
        let (raw, _) = SuperblockRaw::read_from_prefix(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: SUPERBLOCK_LEN as u64,
            found: bytes.len() as u64,
        })?;
        if raw.magic != SUPERBLOCK_MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        let found = checksum(&bytes[..SUPERBLOCK_LEN - 8]);
        if raw.checksum.get() != found {
            return Err(FormatError::Checksum {
                structure: STRUCTURE,
                expected: raw.checksum.get(),
                found,
            });
        }
        let (major, minor) = (raw.version_major.get(), raw.version_minor.get());
        if major > VERSION_MAJOR || (VERSION_MAJOR == 0 && minor > VERSION_MINOR) {
            return Err(FormatError::Version { major, minor });
        }
        if raw.reserved_a != [0; 4] {
            return Err(FormatError::Field {
                structure: STRUCTURE,
                field: "reserved",
                found: u64::from(u32::from_le_bytes(raw.reserved_a)),
                allowed: "0",
            });
        }
        let features = Features { compat: raw.compat.get(), incompat: raw.incompat.get() };
        features.check(incompat)?;
        Ok(Self { version_major: major, version_minor: minor, features, image_id: raw.image_id })
    }
}
