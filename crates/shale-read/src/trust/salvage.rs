//! Finds what is left of an image whose superblock, trailer or root is lost, by section headers.
//!
//! A header holds its own offset, its image's tag and a checksum, so an intact header proves itself
//! whatever surrounds it. The image is the one that most headers name. This reads the whole source
//! and uses 64 bytes of memory for each header found.

use std::collections::HashMap;
use std::mem::offset_of;

use shale_codec::xxh3_64;
use shale_format::section::{SECTION_HEADER_LEN, SECTION_MAGIC, SectionHeaderRaw};
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_LEN;
use shale_format::{SectionHeader, SectionType, Superblock, Trailer};

use crate::counters::Counters;
use crate::storage::decoders::Decoders;
use crate::storage::sections::joined_root_at;
use crate::storage::source::ByteSource;
use crate::storage::stored::Stored;
use crate::trust::parity::read_available;
use std::sync::Arc;

/// Bytes read at once.
const STEP_LEN: u64 = 1 << 20;

/// What is left of an image.
#[derive(Debug, Clone)]
pub struct Remains {
    /// The superblock, if it is intact.
    pub superblock: Option<Superblock>,
    /// The first 8 bytes of the image id, as most headers name it.
    pub image_tag: u64,
    /// The whole image id, if the superblock or a trailer is intact.
    pub image_id: Option<[u8; 16]>,
    /// Intact section headers of the image, by offset. Their payloads may be damaged.
    pub sections: Vec<SectionHeader>,
    /// Intact trailers with the offsets of their headers, newest last.
    pub trailers: Vec<(u64, Trailer)>,
    /// Offset and length of each section that holds an intact root, newest last.
    pub roots: Vec<(u64, u64)>,
}

impl Remains {
    /// The superblock; if it is lost, one made from the other fields.
    pub fn superblock(&self) -> Superblock {
        self.superblock.unwrap_or_else(|| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&self.image_tag.to_le_bytes());
            Superblock::new(self.image_id.unwrap_or(id))
        })
    }
}

/// Searches the image that begins at `start` of `source`. `None` if no header is left.
pub fn remains(source: &Arc<dyn ByteSource>, start: u64) -> Option<Remains> {
    let len = source.len().saturating_sub(start);
    let mut bytes = [0; SUPERBLOCK_LEN];
    let there = len.min(SUPERBLOCK_LEN as u64) as usize;
    read_available(source, start, &mut bytes[..there]);
    let superblock = Superblock::decode(&bytes[..there], xxh3_64).ok();

    let mut found: Vec<SectionHeader> = Vec::new();
    let overlap = SECTION_HEADER_LEN as u64 - 1;
    let (mut at, mut buf) = (0, Vec::new());
    while at < len {
        let piece_len = (len - at).min(STEP_LEN + overlap);
        buf.resize(piece_len as usize, 0);
        read_available(source, start + at, &mut buf);
        for (index, bytes) in buf.windows(SECTION_HEADER_LEN).enumerate() {
            if bytes[0] != SECTION_MAGIC[0] || bytes[..8] != SECTION_MAGIC {
                continue;
            }
            let offset = at + index as u64;
            let field = offset_of!(SectionHeaderRaw, image_tag);
            let Some(tag) = bytes[field..].first_chunk() else { continue };
            let tag = u64::from_le_bytes(*tag);
            if let Ok(header) = SectionHeader::decode(bytes, offset, tag, xxh3_64)
                && found.last().is_none_or(|last| last.offset < offset)
            {
                found.push(header);
            }
        }
        at += STEP_LEN;
    }
    let mut votes: HashMap<u64, usize> = HashMap::new();
    found.iter().for_each(|header| *votes.entry(header.image_tag).or_default() += 1);
    let most = votes.into_iter().max_by_key(|&(tag, count)| (count, tag)).map(|(tag, _)| tag);
    let image_tag = superblock.as_ref().map(Superblock::image_tag).or(most)?;
    found.retain(|header| header.image_tag == image_tag);

    let counters = Arc::new(Counters::default());
    let stored = Stored::new(Arc::clone(source), start, counters);
    let decoders = Decoders::default();
    let (mut trailers, mut roots) = (Vec::new(), Vec::new());
    for header in &found {
        if header.section_type == SectionType::Trailer as u16
            && header.stored_len == TRAILER_LEN as u64
            && let Ok(payload) = stored.read(header.payload_offset(), TRAILER_LEN)
            && xxh3_64(&payload) == header.payload_sum
            && let Ok(trailer) = Trailer::decode(&payload, header.offset)
        {
            trailers.push((header.offset, trailer));
        }
        let section_len = header.stored_len.saturating_add(SECTION_HEADER_LEN as u64);
        if header.section_type == SectionType::Root as u16
            && joined_root_at(&stored, header.offset, section_len, image_tag, &decoders).is_ok()
        {
            roots.push((header.offset, section_len));
        }
    }
    let image_id = superblock
        .map(|superblock| superblock.image_id)
        .or_else(|| trailers.last().map(|(_, trailer)| trailer.image_id));
    if found.is_empty() {
        return None;
    }
    Some(Remains { superblock, image_tag, image_id, sections: found, trailers, roots })
}
