//! zip, in and out.

mod source; // an archive as a source
mod time; // seconds as MS-DOS and Windows have them
mod write; // an archive as an output

pub use source::ZipSource;
pub use write::ZipWriter;

/// Bytes that an archive begins with; the second where it is empty.
pub(crate) const MAGICS: [&[u8; 4]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

// Signatures of the structures.
const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";
const DESCRIPTOR_MAGIC: &[u8] = b"PK\x07\x08";
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";
const END_MAGIC: &[u8] = b"PK\x05\x06";
const END64_LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";
const END64_MAGIC: &[u8] = b"PK\x06\x06";

// Kinds of extra fields.
/// Large lengths and offsets.
const EXTRA_LARGE: u16 = 0x0001;
/// Times in steps of 100 ns since 1601.
const EXTRA_WINDOWS: u16 = 0x000a;
/// Times in seconds since 1970.
const EXTRA_UNIX_TIME: u16 = 0x5455;
/// Owner and group.
const EXTRA_OWNER: u16 = 0x7875;
