//! Finds an image in a source: where it begins, and its newest trailer.
//!
//! This runs once per open. An image that begins the source and ends with its trailer costs two
//! reads, whatever its size. If the source does not end with a valid trailer, the section headers
//! are walked, one read each, and the last valid trailer is used: the state before an interrupted
//! append. Zeroes after that trailer are padding, as on a partition, and no recovery.

use std::mem::offset_of;
use std::sync::Arc;

use shale_codec::xxh3_64;
use shale_format::features::INCOMPAT_THIN;
use shale_format::section::{SECTION_HEADER_LEN, SECTION_MAGIC, SectionHeaderRaw};
use shale_format::superblock::{SUPERBLOCK_LEN, SUPERBLOCK_MAGIC};
use shale_format::thin::THIN_HEAD_LEN_MAX;
use shale_format::trailer::{PADDED_TO, TRAILER_LEN, TRAILER_SECTION_LEN};
use shale_format::{FormatError, SectionHeader, SectionType, Superblock, ThinHead, Trailer};

use crate::counters::Counters;
use crate::error::{ErrorContext, Fault, ReadError};
use crate::storage::sections::{read_header, read_trailer};
use crate::storage::source::ByteSource;
use crate::storage::stored::Stored;

/// How far into a source the search for a superblock goes.
const SCAN_LEN_MAX: u64 = 64 << 20;
/// The same in a source that is far away, where each byte has to come over a network.
const SCAN_FAR_LEN_MAX: u64 = 4 << 20;
/// Bytes per read of that search.
const SCAN_STEP_LEN: u64 = 1 << 20;
/// Bytes after an image that are compared with zero.
const PADDING_LEN_MAX: u64 = 64 << 10;

/// Where in its source an image begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OffsetChoice {
    /// At the start of the source. If no superblock is there: where the trailer at the end of the
    /// source says. If there is no trailer either: at the first superblock in the first 64 MiB.
    #[default]
    Auto,
    /// At this offset in bytes.
    At(u64),
}

/// Recovery of an image: an earlier state was opened, or the second root was used.
///
/// An append was interrupted, other bytes follow the image, or its first root is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Bytes of the state that was opened.
    pub image_len: u64,
    /// Bytes from the start of the image to the end of the source.
    pub found_len: u64,
    /// Why this state was opened.
    pub reason: String,
}

/// An image located in a source but not opened yet.
pub(crate) struct LocatedImage {
    /// Where the image begins in the source.
    pub(crate) start: u64,
    /// From the start of the image to the end of the source.
    pub(crate) stored: Stored,
    pub(crate) superblock: Superblock,
    pub(crate) trailer: Trailer,
    pub(crate) recovery: Option<Recovery>,
}

impl LocatedImage {
    /// Finds the image and its newest trailer.
    ///
    /// # Errors
    /// No superblock was found, no trailer is valid, or the source cannot be read.
    pub(crate) fn find(
        source: &Arc<dyn ByteSource>,
        choice: OffsetChoice,
    ) -> Result<Self, ReadError> {
        let counters = Arc::new(Counters::default());
        let whole = Stored::new(Arc::clone(source), 0, Arc::clone(&counters));
        let (start, superblock) = locate(&whole, choice)?;
        let stored = Stored::new(Arc::clone(source), start, counters);
        let (trailer, recovery) = find_trailer(&stored, &superblock)?;
        Ok(Self { start, stored, superblock, trailer, recovery })
    }
}

/// Finds the superblock of the image in a source, and where it begins.
///
/// # Errors
/// There is none, or the source cannot be read.
pub(crate) fn start_of(source: &Arc<dyn ByteSource>) -> Result<(u64, Superblock), ReadError> {
    let whole = Stored::new(Arc::clone(source), 0, Arc::default());
    locate(&whole, OffsetChoice::Auto)
}

/// Reads the superblock of an image that begins at `start` of the whole source.
fn superblock_at(whole: &Stored, start: u64) -> Result<Superblock, ReadError> {
    let mut bytes = [0; SUPERBLOCK_LEN];
    let available = whole.len().saturating_sub(start).min(SUPERBLOCK_LEN as u64) as usize;
    if available > 0 {
        whole.read_into(start, &mut bytes[..available])?;
    }
    Ok(Superblock::decode(&bytes[..available], xxh3_64)?)
}

/// Where the image begins in `whole`, the source from its first byte, and its superblock.
fn locate(whole: &Stored, choice: OffsetChoice) -> Result<(u64, Superblock), ReadError> {
    if let OffsetChoice::At(start) = choice {
        let superblock = superblock_at(whole, start).map_err(|error| match error.fault() {
            Fault::Format { error: FormatError::Magic { .. } | FormatError::Short { .. } } => {
                not_image(whole, format!("offset {start}"))
            }
            _ => error.at(format!("superblock at offset {start}")),
        })?;
        return Ok((start, superblock));
    }
    match superblock_at(whole, 0) {
        Ok(superblock) => return Ok((0, superblock)),
        Err(error) => match error.fault() {
            Fault::Format { error: FormatError::Magic { .. } } => {}
            Fault::Format { error: FormatError::Short { .. } } => {
                return Err(not_image(whole, "offset 0".into()));
            }
            Fault::Format { error: FormatError::Features { bits: INCOMPAT_THIN } } => {
                return Err(without_base(whole));
            }
            // It begins like an image, so it is a newer or a damaged one.
            _ => return Err(error.at("superblock at offset 0")),
        },
    }
    if let Some(start) = start_by_end(whole)? {
        let superblock = superblock_at(whole, start).at(|| {
            format!("superblock at offset {start}, where the trailer says that the image begins")
        })?;
        return Ok((start, superblock));
    }
    scan(whole)
}

/// The error for a thin image whose base nobody looked for.
fn without_base(whole: &Stored) -> ReadError {
    let len = whole.len().min(THIN_HEAD_LEN_MAX as u64) as usize;
    let head = whole.read(0, len).and_then(|bytes| Ok(ThinHead::decode(&bytes, xxh3_64)?));
    match head {
        Ok(Some(head)) => Fault::Thin {
            name: head.base_name.escape_ascii().to_string(),
            identity: head.base_identity,
        }
        .into(),
        Ok(None) => not_image(whole, "offset 0".into()),
        Err(error) => error.at("head of a thin image"),
    }
}

fn not_image(whole: &Stored, looked: String) -> ReadError {
    Fault::NotImage { looked, found_len: whole.len() }.into()
}

/// The start of the image by the trailer at the end of the source, whose header holds its own
/// offset. `None` if there is no trailer with valid checksums.
fn start_by_end(whole: &Stored) -> Result<Option<u64>, ReadError> {
    let Some(at) = whole.len().checked_sub(TRAILER_SECTION_LEN as u64) else { return Ok(None) };
    let mut bytes = [0; TRAILER_SECTION_LEN];
    whole.read_into(at, &mut bytes)?;
    let (header_bytes, payload) = bytes.split_at(SECTION_HEADER_LEN);
    let field = |at: usize| {
        let mut le = [0; 8];
        le.copy_from_slice(&header_bytes[at..at + 8]);
        u64::from_le_bytes(le)
    };
    // Offset and tag come from the header itself; the superblock found through them must agree
    // afterwards.
    let offset = field(offset_of!(SectionHeaderRaw, offset));
    let tag = field(offset_of!(SectionHeaderRaw, image_tag));
    let Ok(header) = SectionHeader::decode(header_bytes, offset, tag, xxh3_64) else {
        return Ok(None);
    };
    let is_trailer = header.section_type == SectionType::Trailer as u16
        && header.stored_len == TRAILER_LEN as u64
        && xxh3_64(payload) == header.payload_sum;
    Ok(at.checked_sub(offset).filter(|_| is_trailer))
}

/// Searches the first part of the source for the superblock's magic. Takes the first one that is
/// followed by a section header of the same image.
fn scan(whole: &Stored) -> Result<(u64, Superblock), ReadError> {
    let scan_len_max = if whole.is_far() { SCAN_FAR_LEN_MAX } else { SCAN_LEN_MAX };
    let scan_len = whole.len().min(scan_len_max);
    let overlap = SUPERBLOCK_MAGIC.len() as u64 - 1;
    let mut at = 0;
    let mut buf = Vec::new();
    let mut refused = None;
    while at + overlap < scan_len {
        let len = SCAN_STEP_LEN.min(scan_len - at);
        buf.resize(len as usize, 0);
        whole.read_into(at, &mut buf)?;
        for found in find_all(&buf, &SUPERBLOCK_MAGIC) {
            let start = at + found as u64;
            match validate_start(whole, start) {
                Ok(superblock) => return Ok((start, superblock)),
                Err(error) => match error.fault() {
                    Fault::Io { .. } => return Err(error),
                    // Kept: "needs a newer reader" says more than "no image".
                    Fault::Format {
                        error: FormatError::Version { .. } | FormatError::Features { .. },
                    } => refused = refused.or(Some(error)),
                    _ => {}
                },
            }
        }
        at += len - overlap;
    }
    let looked = format!("the end, nor anywhere in the first {scan_len} bytes");
    Err(refused.unwrap_or_else(|| not_image(whole, looked)))
}

/// Positions of `needle` in `bytes`.
fn find_all<'b>(bytes: &'b [u8], needle: &'b [u8; 8]) -> impl Iterator<Item = usize> + 'b {
    bytes
        .windows(needle.len())
        .enumerate()
        .filter(move |(_, window)| window[0] == needle[0] && *window == needle)
        .map(|(at, _)| at)
}

fn validate_start(whole: &Stored, start: u64) -> Result<Superblock, ReadError> {
    let superblock = superblock_at(whole, start)?;
    let mut header = [0; SECTION_HEADER_LEN];
    whole.read_into(start + SUPERBLOCK_LEN as u64, &mut header)?;
    SectionHeader::decode(&header, SUPERBLOCK_LEN as u64, superblock.image_tag(), xxh3_64)?;
    Ok(superblock)
}

/// The newest trailer of the image that begins `stored`: the one at the end, or else the last one
/// that the walk over the sections finds.
fn find_trailer(
    stored: &Stored,
    superblock: &Superblock,
) -> Result<(Trailer, Option<Recovery>), ReadError> {
    let found_len = stored.len();
    let first_len = (SUPERBLOCK_LEN + TRAILER_SECTION_LEN) as u64;
    // What ends with the base of a thin image is the base.
    let base_len = stored.base_len();
    if found_len >= first_len {
        match trailer_at_end(stored, superblock) {
            Ok(trailer) if trailer.image_len > base_len => return Ok((trailer, None)),
            Err(error) if matches!(error.fault(), Fault::Io { .. }) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let mut offset = base_len.max(SUPERBLOCK_LEN as u64);
    let mut section_count = 0;
    let mut newest = None;
    let mut damaged = None;
    let what = loop {
        if offset >= found_len {
            break "nothing where the trailer or the next section belongs".to_owned();
        }
        let header = match read_header(stored, offset, superblock.image_tag()) {
            Ok(header) => header,
            Err(error) if matches!(error.fault(), Fault::Io { .. }) => return Err(error),
            Err(error) => {
                let what = describe_stop(stored, offset, superblock, &error);
                // A wrong checksum is damage, not truncation.
                if matches!(error.fault(), Fault::Format { error: FormatError::Checksum { .. } }) {
                    damaged = Some(error.at(format!("section header at offset {offset}")));
                }
                break what;
            }
        };
        if header.section_type == SectionType::Trailer as u16 {
            match read_trailer(stored, offset, superblock) {
                Ok(trailer) => newest = Some(trailer),
                Err(error) if matches!(error.fault(), Fault::Io { .. }) => return Err(error),
                // An earlier or later trailer may be valid.
                Err(error) => damaged = Some(error.at(format!("trailer at offset {offset}"))),
            }
        }
        section_count += 1;
        offset = header.end();
    };
    match newest {
        Some(trailer) if follows_padding(stored, trailer.image_len)? => Ok((trailer, None)),
        Some(trailer) => {
            let reason = format!("after {section_count} sections, at offset {offset}: {what}");
            let recovery = Recovery { image_len: trailer.image_len, found_len, reason };
            Ok((trailer, Some(recovery)))
        }
        None => Err(damaged
            .unwrap_or_else(|| Fault::Truncated { found_len, section_count, offset, what }.into())),
    }
}

/// Reads the trailer that ends the source. If there is none, looks for one in the last block that
/// only zeroes follow, as in an image that is padded to whole blocks.
fn trailer_at_end(stored: &Stored, superblock: &Superblock) -> Result<Trailer, ReadError> {
    let trailer_len = TRAILER_SECTION_LEN as u64;
    let end = stored.len();
    let error = match read_trailer(stored, end - trailer_len, superblock) {
        Err(error) if !matches!(error.fault(), Fault::Io { .. }) => error,
        result => return result,
    };
    let first = end.saturating_sub(PADDED_TO + trailer_len).max(SUPERBLOCK_LEN as u64);
    let mut tail = vec![0; (end - first) as usize];
    stored.read_into(first, &mut tail)?;
    let used = tail.len() - tail.iter().rev().take_while(|&&byte| byte == 0).count();
    // A trailer may end with zeroes of its own, so try each magic number from the end.
    let magics: Vec<usize> = find_all(&tail, &SECTION_MAGIC).collect();
    for at in magics.into_iter().rev().filter(|at| at + TRAILER_SECTION_LEN >= used) {
        if let Ok(trailer) = read_trailer(stored, first + at as u64, superblock) {
            return Ok(trailer);
        }
    }
    Err(error)
}

/// Returns whether only zeroes follow the image, as far as this looks: at most 64 KiB, since a
/// partition may be much larger than its image. `len` is the length of the source, `end` the end of
/// the image in it.
///
/// # Errors
/// Those of `read_at`, which reads from the source.
pub fn is_padding<E>(
    len: u64,
    end: u64,
    mut read_at: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<bool, E> {
    let len = len.min(end.saturating_add(PADDING_LEN_MAX));
    let mut buf = [0; PADDED_TO as usize];
    let mut at = end;
    while at < len {
        let step = (len - at).min(PADDED_TO);
        let buf = &mut buf[..step as usize];
        read_at(at, buf)?;
        if buf.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

fn follows_padding(stored: &Stored, image_len: u64) -> Result<bool, ReadError> {
    is_padding(stored.len(), image_len, |at, buf| stored.read_into(at, buf))
}

/// What the walk found at `offset` instead of a section, in words.
fn describe_stop(
    stored: &Stored,
    offset: u64,
    superblock: &Superblock,
    error: &ReadError,
) -> String {
    let left = stored.len().saturating_sub(offset);
    if left < SECTION_HEADER_LEN as u64 {
        return format!("{left} bytes, less than a section header");
    }
    // If the header is valid, the payload ends early: report how much is missing.
    let mut bytes = [0; SECTION_HEADER_LEN];
    let header = stored
        .read_into(offset, &mut bytes)
        .and_then(|()| Ok(SectionHeader::decode(&bytes, offset, superblock.image_tag(), xxh3_64)?));
    match header {
        Ok(header) => {
            let len = header.stored_len + SECTION_HEADER_LEN as u64;
            format!("a section of {len} bytes of which {left} were found")
        }
        Err(_) if bytes[..8] != SECTION_MAGIC => "no section header".to_owned(),
        Err(_) => format!("no valid section header ({error})"),
    }
}
