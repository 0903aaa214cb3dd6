//! Finding an image in a source: superblock, section headers, trailer, root.
//!
//! Everything here runs once per open. An image that ends with its trailer costs three reads
//! (superblock, trailer, root), whatever its size. Without a valid trailer at the end the section
//! headers are walked, one read each, to the last valid one: that is the state before an
//! interrupted append.

use std::mem::offset_of;

use shale_codec::{Codec, xxh3_64};
use shale_format::limits::{ROOT_PLAIN_LEN_MAX, SECTION_STORED_LEN_MAX};
use shale_format::section::{SECTION_HEADER_LEN, SECTION_MAGIC, SectionHeaderRaw};
use shale_format::superblock::{SUPERBLOCK_LEN, SUPERBLOCK_MAGIC};
use shale_format::trailer::{TRAILER_LEN, TRAILER_SECTION_LEN};
use shale_format::{FormatError, Root, SectionHeader, SectionType, Superblock, Trailer};

use crate::decoders::Decoders;
use crate::error::{Expected, Fault, Place, ReadError, contradiction, value};
use crate::image::{OffsetChoice, Recovery};
use crate::stored::{Stored, check_sum};

/// How far into a source a superblock is looked for.
const SCAN_LEN_MAX: u64 = 64 << 20;
/// Bytes of one read while looking.
const SCAN_STEP_LEN: u64 = 1 << 20;

/// Reads a superblock at `start` of the whole source; the image begins there.
fn superblock_at(whole: &Stored, start: u64) -> Result<Superblock, ReadError> {
    let mut bytes = [0; SUPERBLOCK_LEN];
    let available = whole.len().saturating_sub(start).min(SUPERBLOCK_LEN as u64) as usize;
    if available > 0 {
        whole.read_into(start, &mut bytes[..available])?;
    }
    Ok(Superblock::decode(&bytes[..available], xxh3_64)?)
}

/// Where the image begins in `whole` (the source from its first byte), and its superblock.
pub(crate) fn locate(whole: &Stored, choice: OffsetChoice) -> Result<(u64, Superblock), ReadError> {
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
            // It begins as an image does: newer or damaged, and nothing else.
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

fn not_image(whole: &Stored, looked: String) -> ReadError {
    Fault::NotImage { looked, found_len: whole.len() }.into()
}

/// If the source ends with a trailer section, the start of the image by what that section's header
/// says of its own place. Only a header and payload with right checksums count.
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
    // The header is asked to confirm its own offset and tag: the superblock, found through them,
    // has to agree afterwards.
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

/// Looks for the superblock's magic in the first part of the source, and takes the first place
/// where a superblock and a section header of the same image follow each other.
fn scan(whole: &Stored) -> Result<(u64, Superblock), ReadError> {
    let scan_len = whole.len().min(SCAN_LEN_MAX);
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
                    // Remembered: it is more to the point than "no image".
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

/// Reads and checks the section header at `offset`, and that the section ends inside `stored`.
pub(crate) fn read_header(
    stored: &Stored,
    offset: u64,
    image_tag: u64,
) -> Result<SectionHeader, ReadError> {
    let mut bytes = [0; SECTION_HEADER_LEN];
    let header = stored.healing(offset, &mut bytes, |bytes| {
        Ok(SectionHeader::decode(bytes, offset, image_tag, xxh3_64)?)
    })?;
    stored.check(header.payload_offset(), header.stored_len)?;
    Ok(header)
}

/// The trailer section at `offset`, fully checked. One read.
fn read_trailer(
    stored: &Stored,
    offset: u64,
    superblock: &Superblock,
) -> Result<Trailer, ReadError> {
    let mut bytes = [0; TRAILER_SECTION_LEN];
    stored.read_into(offset, &mut bytes)?;
    let (header, payload) = bytes.split_at(SECTION_HEADER_LEN);
    let header = SectionHeader::decode(header, offset, superblock.image_tag(), xxh3_64)?;
    if header.section_type != SectionType::Trailer as u16 {
        let expected = Expected::Exactly(SectionType::Trailer as u64);
        return Err(value("type of the last section", header.section_type.into(), expected));
    }
    if header.stored_len != TRAILER_LEN as u64 || header.codec != 0 {
        let expected = Expected::Exactly(TRAILER_LEN as u64);
        return Err(value("length of the trailer", header.stored_len, expected));
    }
    check_sum("payload", header.payload_sum, payload)?;
    let trailer = Trailer::decode(payload, offset)?;
    if trailer.image_id != superblock.image_id {
        return Err(contradiction("the trailer belongs to another image than the superblock"));
    }
    Ok(trailer)
}

/// The newest trailer of the image that begins `stored`: at the end, else the last one that the
/// walk over the sections meets.
pub(crate) fn find_trailer(
    stored: &Stored,
    superblock: &Superblock,
) -> Result<(Trailer, Option<Recovery>), ReadError> {
    let found_len = stored.len();
    let first_len = (SUPERBLOCK_LEN + TRAILER_SECTION_LEN) as u64;
    if found_len >= first_len {
        match read_trailer(stored, found_len - TRAILER_SECTION_LEN as u64, superblock) {
            Ok(trailer) => return Ok((trailer, None)),
            Err(error) if matches!(error.fault(), Fault::Io { .. }) => return Err(error),
            Err(_) => {}
        }
    }
    let mut offset = SUPERBLOCK_LEN as u64;
    let mut section_count = 0;
    let mut newest = None;
    let mut damaged = None;
    let what = loop {
        if offset == found_len {
            break "nothing, where the trailer or the next section belongs".to_owned();
        }
        let header = match read_header(stored, offset, superblock.image_tag()) {
            Ok(header) => header,
            Err(error) if matches!(error.fault(), Fault::Io { .. }) => return Err(error),
            Err(error) => {
                let what = describe_stop(stored, offset, superblock, &error);
                // Bytes that are there and wrong are damage, not truncation.
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
                // An earlier or later one may do.
                Err(error) => damaged = Some(error.at(format!("trailer at offset {offset}"))),
            }
        }
        section_count += 1;
        offset = header.end();
    };
    match newest {
        Some(trailer) => {
            let reason = format!("after {section_count} sections, at offset {offset}: {what}");
            let recovery = Recovery { image_len: trailer.image_len, found_len, reason };
            Ok((trailer, Some(recovery)))
        }
        None => Err(damaged
            .unwrap_or_else(|| Fault::Truncated { found_len, section_count, offset, what }.into())),
    }
}

/// Why the walk stopped at `offset`, in words.
fn describe_stop(
    stored: &Stored,
    offset: u64,
    superblock: &Superblock,
    error: &ReadError,
) -> String {
    let left = stored.len().saturating_sub(offset);
    if left < SECTION_HEADER_LEN as u64 {
        return format!("{left} bytes, less than a section header,");
    }
    // If the header itself is right, it is the payload that ends early: say how much is missing.
    let mut bytes = [0; SECTION_HEADER_LEN];
    let header = stored
        .read_into(offset, &mut bytes)
        .and_then(|()| Ok(SectionHeader::decode(&bytes, offset, superblock.image_tag(), xxh3_64)?));
    match header {
        Ok(header) => {
            let len = header.stored_len + SECTION_HEADER_LEN as u64;
            format!("a section of {len} bytes of which {left} are there")
        }
        Err(_) if bytes[..8] != SECTION_MAGIC => "no section header".to_owned(),
        Err(_) => format!("no valid section header ({error})"),
    }
}

/// The payload of a section, verified, decoded if it is compressed; at most `plain_len_max` bytes
/// either way.
pub(crate) fn read_payload(
    stored: &Stored,
    header: &SectionHeader,
    plain_len_max: u64,
    decoders: &Decoders,
) -> Result<Vec<u8>, ReadError> {
    let max = plain_len_max.min(SECTION_STORED_LEN_MAX);
    for (what, len) in [
        ("stored length of the section", header.stored_len),
        ("its plain length", header.plain_len),
    ] {
        if len > max {
            return Err(value(what, len, Expected::AtMost(max)));
        }
    }
    let mut payload = stored.room(header.payload_offset(), header.stored_len as usize)?;
    stored.healing(header.payload_offset(), &mut payload, |bytes| {
        check_sum("payload", header.payload_sum, bytes)
    })?;
    decode_payload(payload, header, decoders)
}

fn decode_payload(
    payload: Vec<u8>,
    header: &SectionHeader,
    decoders: &Decoders,
) -> Result<Vec<u8>, ReadError> {
    if header.codec == 0 {
        return Ok(payload);
    }
    let mut plain = Vec::new();
    decoders.with(|context| {
        let plain_len = header.plain_len as usize;
        context.decoder.decode(Codec::Zstd, &[], &payload, plain_len, &mut plain)
    })?;
    Ok(plain)
}

/// The root that `trailer` leads to. One read.
pub(crate) fn read_root(
    stored: &Stored,
    trailer: &Trailer,
    image_tag: u64,
    decoders: &Decoders,
) -> Result<Root, ReadError> {
    root_at(stored, trailer.root_offset, trailer.root_section_len, image_tag, decoders)
}

/// The second root of an image: the section behind the Merkle tree. Four reads.
pub(crate) fn read_second_root(
    stored: &Stored,
    trailer: &Trailer,
    image_tag: u64,
    decoders: &Decoders,
) -> Result<Root, ReadError> {
    let offset = trailer.merkle_offset;
    let merkle = read_header(stored, offset, image_tag)
        .at(|| format!("merkle section at offset {offset}"))?;
    let header = read_header(stored, merkle.end(), image_tag)
        .at(|| format!("second root at offset {}", merkle.end()))?;
    root_at(stored, header.offset, header.end() - header.offset, image_tag, decoders)
}

/// The root in the section of `len` bytes at `offset`.
pub(crate) fn root_at(
    stored: &Stored,
    offset: u64,
    len: u64,
    image_tag: u64,
    decoders: &Decoders,
) -> Result<Root, ReadError> {
    let read = || -> Result<Root, ReadError> {
        let max = ROOT_PLAIN_LEN_MAX + SECTION_HEADER_LEN as u64;
        let expected = Expected::Between(SECTION_HEADER_LEN as u64, max);
        if !(SECTION_HEADER_LEN as u64..=max).contains(&len) {
            return Err(value("length of the root section", len, expected));
        }
        let mut section = stored.room(offset, len as usize)?;
        let header = stored.healing(offset, &mut section, |section| {
            let header = SectionHeader::decode(section, offset, image_tag, xxh3_64)?;
            if header.section_type != SectionType::Root as u16 {
                let expected = Expected::Exactly(SectionType::Root as u64);
                return Err(value("type of the section", header.section_type.into(), expected));
            }
            if header.stored_len != len - SECTION_HEADER_LEN as u64 {
                let expected = Expected::Exactly(len - SECTION_HEADER_LEN as u64);
                return Err(value("length of its payload", header.stored_len, expected));
            }
            check_sum("payload", header.payload_sum, &section[SECTION_HEADER_LEN..])?;
            Ok(header)
        })?;
        let payload = section.split_off(SECTION_HEADER_LEN);
        if header.plain_len > ROOT_PLAIN_LEN_MAX {
            let expected = Expected::AtMost(ROOT_PLAIN_LEN_MAX);
            return Err(value("plain length of the root", header.plain_len, expected));
        }
        Ok(Root::decode(&decode_payload(payload, &header, decoders)?)?)
    };
    read().at(|| format!("root section at offset {offset}"))
}

/// Section headers in order, from the superblock to the trailer the image was opened with. Each
/// costs one read. After an error there is nothing to go on from, so it ends.
pub struct SectionWalk<'i> {
    stored: &'i Stored,
    image_tag: u64,
    offset: u64,
}

impl<'i> SectionWalk<'i> {
    pub(crate) fn new(stored: &'i Stored, image_tag: u64) -> Self {
        Self { stored, image_tag, offset: SUPERBLOCK_LEN as u64 }
    }
}

impl Iterator for SectionWalk<'_> {
    type Item = Result<SectionHeader, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.stored.len() {
            return None;
        }
        let at = self.offset;
        let header = read_header(self.stored, at, self.image_tag);
        self.offset = header.as_ref().map_or(u64::MAX, SectionHeader::end);
        Some(header.at(|| format!("section at offset {at}")))
    }
}
