//! Section headers, the trailer and the root, read and verified.
//!
//! Every structure is checked against its checksum and against the place it was read from before
//! anything of it is used. Opening and bulk tools come here; reads of files never do.

use shale_codec::{Codec, xxh3_64};
use shale_format::limits::{ROOT_PLAIN_LEN_MAX, SECTION_STORED_LEN_MAX};
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::{TRAILER_LEN, TRAILER_SECTION_LEN};
use shale_format::{Root, SectionHeader, SectionType, Superblock, Trailer};

use crate::error::{ErrorContext, Expected, Fault, ReadError, contradiction, value};
use crate::storage::decoders::Decoders;
use crate::storage::stored::{Stored, check_sum};

/// Reads and checks the section header at `offset`, and that the section ends inside `stored`.
pub(crate) fn read_header(
    stored: &Stored,
    offset: u64,
    image_tag: u64,
) -> Result<SectionHeader, ReadError> {
    let mut bytes = [0; SECTION_HEADER_LEN];
    let header = stored.read_verified(offset, &mut bytes, |bytes| {
        Ok(SectionHeader::decode(bytes, offset, image_tag, xxh3_64)?)
    })?;
    stored.check(header.payload_offset(), header.stored_len)?;
    Ok(header)
}

/// Reads and checks the trailer section at `offset`. One read.
pub(crate) fn read_trailer(
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

/// Reads the payload of a section, verifies it and decodes it if it is compressed. Refuses more
/// than `plain_len_max` bytes, stored or plain.
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
    let mut payload = stored.buffer(header.payload_offset(), header.stored_len as usize)?;
    stored.read_verified(header.payload_offset(), &mut payload, |bytes| {
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

/// Longest earlier root that is fetched because another root names it.
const HINTED_ROOT_LEN_MAX: u64 = 1 << 20;
/// Bytes in front of an earlier root that are fetched with it. An append writes its pages there,
/// and pages of the newest snapshot patch these.
const HINTED_PAGES_LEN: u64 = 8 << 10;

/// Reads the root that `trailer` names. One read, and one for each earlier root that it needs.
pub(crate) fn read_root(
    stored: &Stored,
    trailer: &Trailer,
    image_tag: u64,
    decoders: &Decoders,
) -> Result<Root, ReadError> {
    let (offset, len) = (trailer.root_offset, trailer.root_section_len);
    joined_root_at(stored, offset, len, image_tag, decoders)
}

/// Reads the second root of an image, the section after the Merkle tree. Four reads.
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
    joined_root_at(stored, header.offset, header.end() - header.offset, image_tag, decoders)
}

/// Reads the root in the section of `len` bytes at `offset`, and the earlier ones that it needs,
/// which it names all. If one of these is damaged, its copy is read.
pub(crate) fn joined_root_at(
    stored: &Stored,
    offset: u64,
    len: u64,
    image_tag: u64,
    decoders: &Decoders,
) -> Result<Root, ReadError> {
    let root = root_at(stored, offset, len, (image_tag, None), decoders)?;
    if stored.is_far() {
        // The lengths are not proven yet; a long root is read when its turn comes.
        let short = root.earlier.iter().filter(|it| it.section_len <= HINTED_ROOT_LEN_MAX);
        let sections = short.map(|it| {
            it.offset.saturating_sub(HINTED_PAGES_LEN)..it.offset.saturating_add(it.section_len)
        });
        stored.will_need(&sections.collect::<Vec<_>>());
    }
    root.join(offset, |earlier| {
        let at = |offset| {
            let sum = Some(earlier.payload_sum);
            root_at(stored, offset, earlier.section_len, (image_tag, sum), decoders)
        };
        at(earlier.offset).or_else(|error| match earlier.copy_offset {
            0 => Err(error),
            copy => at(copy).map_err(|_| error),
        })
    })
}

/// Reads the root in the section of `len` bytes at `offset`, whose payload has this sum, if it is
/// known.
fn root_at(
    stored: &Stored,
    offset: u64,
    len: u64,
    (image_tag, payload_sum): (u64, Option<u64>),
    decoders: &Decoders,
) -> Result<Root, ReadError> {
    let read = || -> Result<Root, ReadError> {
        let max = ROOT_PLAIN_LEN_MAX + SECTION_HEADER_LEN as u64;
        let expected = Expected::Between(SECTION_HEADER_LEN as u64, max);
        if !(SECTION_HEADER_LEN as u64..=max).contains(&len) {
            return Err(value("length of the root section", len, expected));
        }
        let mut section = stored.buffer(offset, len as usize)?;
        let header = stored.read_verified(offset, &mut section, |section| {
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
            match payload_sum {
                Some(expected) if expected != header.payload_sum => {
                    let (what, found) = ("payload", header.payload_sum);
                    Err(Fault::Checksum { what, expected, found }.into())
                }
                _ => Ok(header),
            }
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

/// Section headers in order, from the superblock to the trailer that the image was opened with.
/// Each costs one read. Ends after an error, because the next header cannot be found.
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
