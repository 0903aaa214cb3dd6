//! What follows an image in its file: what an append may cut off, and what it must not.

use std::io;

use shale_codec::xxh3_64;
use shale_format::SectionHeader;
use shale_format::section::{SECTION_HEADER_LEN, SECTION_MAGIC};
use shale_read::{ByteSource, Image};

/// What follows the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Nothing,
    /// Zeroes: padding, or space that a crash left.
    Zeroes,
    /// What an interrupted append left, in bytes.
    Torn(u64),
    /// Something else, in bytes.
    Other(u64),
}

/// Bytes that are compared with zero at a time.
const STEP_LEN: u64 = 64 << 10;

/// Looks at what follows `image` in `source`.
///
/// # Errors
/// The source cannot be read.
pub(crate) fn look(image: &Image, source: &dyn ByteSource) -> io::Result<Tail> {
    let end = image.offset() + image.len();
    let len = source.len().saturating_sub(end);
    if len == 0 {
        return Ok(Tail::Nothing);
    }
    let mut head = vec![0; len.min(SECTION_HEADER_LEN as u64) as usize];
    source.read_at(end, &mut head)?;
    let tag = image.superblock().image_tag();
    // The rest of the first header, too, may not have reached the disk: its first bytes are enough.
    let magic = &head[..head.len().min(SECTION_MAGIC.len())];
    let is_section = SECTION_MAGIC.starts_with(magic)
        || SectionHeader::decode(&head, image.len(), tag, xxh3_64).is_ok();
    if is_section {
        return Ok(Tail::Torn(len));
    }
    let mut at = end;
    let mut bytes = Vec::new();
    while at < source.len() {
        bytes.resize((source.len() - at).min(STEP_LEN) as usize, 0);
        source.read_at(at, &mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(Tail::Other(len));
        }
        at += bytes.len() as u64;
    }
    Ok(Tail::Zeroes)
}
