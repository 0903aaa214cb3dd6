//! Signatures of a zip archive's structures and kinds of its extra fields.

/// First bytes of an archive: a local header; the end record of an empty archive; the mark of an
/// archive that was split, in its two forms, when it has become one again.
pub(crate) const MAGICS: [&[u8; 4]; 4] = [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"PK00"];

pub(super) const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";
pub(super) const DESCRIPTOR_MAGIC: &[u8] = b"PK\x07\x08";
pub(super) const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";
pub(super) const SIGNATURE_MAGIC: &[u8] = b"PK\x05\x05";
pub(super) const END_MAGIC: &[u8] = b"PK\x05\x06";
pub(super) const END64_LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";
pub(super) const END64_MAGIC: &[u8] = b"PK\x06\x06";

/// Bytes of a local header without name and extra fields.
pub(super) const LOCAL_LEN: u64 = 30;
/// Bytes of an entry of the directory without name, extra fields and comment.
pub(super) const ENTRY_LEN: usize = 46;
/// Bytes of the end record without comment.
pub(super) const END_LEN: usize = 22;

/// The entry is encrypted.
pub(super) const FLAG_ENCRYPTED: u16 = 1;
/// It is encrypted in a way that only PKZIP knows.
pub(super) const FLAG_STRONG: u16 = 1 << 6;
/// Lengths and checksum follow the data.
pub(super) const FLAG_DESCRIPTOR: u16 = 1 << 3;
/// The name is UTF-8.
pub(super) const FLAG_UTF8: u16 = 1 << 11;

/// Lengths and offsets of 64 bits.
pub(super) const EXTRA_LARGE: u16 = 0x0001;
/// Times in steps of 100 ns since 1601.
pub(super) const EXTRA_WINDOWS: u16 = 0x000a;
/// Times in seconds since 1970.
pub(super) const EXTRA_UNIX_TIME: u16 = 0x5455;
/// Times, and in local headers owner and group, of Info-ZIP's first version for Unix.
pub(super) const EXTRA_UNIX_1: u16 = 0x5855;
/// Owner and group of 16 bits of its second version, in local headers only.
pub(super) const EXTRA_UNIX_2: u16 = 0x7855;
/// Owner and group of any length.
pub(super) const EXTRA_OWNER: u16 = 0x7875;
/// Parameters of AES, and the compression method.
pub(super) const EXTRA_AES: u16 = 0x9901;
/// The method that stands for AES.
pub(super) const METHOD_AES: u16 = 99;
/// The name in UTF-8.
pub(super) const EXTRA_UNICODE_PATH: u16 = 0x7075;

/// Systems that an entry may be made on.
pub(super) const HOST_DOS: u8 = 0;
pub(super) const HOST_UNIX: u8 = 3;
pub(super) const HOST_OS2: u8 = 6;
pub(super) const HOST_WINDOWS: u8 = 11;
pub(super) const HOST_VFAT: u8 = 14;
pub(super) const HOST_MAC: u8 = 19;
/// In the attributes of MS-DOS: it is read-only, it is a directory.
pub(super) const DOS_READ_ONLY: u32 = 0x01;
pub(super) const DOS_DIRECTORY: u32 = 0x10;
