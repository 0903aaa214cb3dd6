//! The frame of an image: superblock, section headers and their sums, trailers, root.
//!
//! Sections are walked from the superblock on. After a damaged header the walk looks for the next
//! valid one. A header states its own offset and its image, so the bytes of a packed file cannot
//! pass for a header.

use std::ops::Range;

use shale_codec::{Codec, Decoder, xxh3_64};
use shale_format::limits::ROOT_PLAIN_LEN_MAX;
use shale_format::section::{SECTION_HEADER_LEN, SECTION_MAGIC};
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_LEN;
use shale_format::{FormatError, Root, SectionHeader, SectionType, Superblock, Trailer};

use super::context::Context;
use super::findings::Scope;
use super::payload::{check_payload, is_bulk, section_place};
use super::store::{PageFault, Store};
use crate::error::Error;

/// Bytes read at once while searching.
const CHUNK_LEN: u64 = 1 << 20;

/// What the walk found.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Complete sections with valid headers, by offset.
    pub(super) sections: Vec<SectionHeader>,
    /// Ranges from a damaged header to the next valid one: the sections in them are unknown.
    gaps: Vec<Range<u64>>,
    /// The tag in the superblock.
    pub(super) image_tag: u64,
    /// The length in the last trailer.
    pub(super) image_len: Option<u64>,
    pub(super) root: Option<Root>,
    /// The last trailer.
    pub(super) trailer: Option<Trailer>,
}

impl Layout {
    /// True if `len` bytes at `offset` lie inside the payload of one section of this type, or may
    /// do so: after a damaged header nothing contradicts it. The bytes' own sums prove them intact;
    /// no reader needs section headers for that.
    pub(super) fn may_hold(&self, section_type: SectionType, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len) else { return false };
        if self.gaps.iter().any(|gap| gap.start <= offset && end <= gap.end) {
            return true;
        }
        let after = self.sections.partition_point(|section| section.offset <= offset);
        let Some(section) = after.checked_sub(1).and_then(|at| self.sections.get(at)) else {
            return false;
        };
        section.section_type == section_type as u16
            && offset >= section.payload_offset()
            && end <= section.end()
    }

    /// True if sections before `offset` may be missing from the list.
    fn is_gap_before(&self, offset: u64) -> bool {
        self.gaps.first().is_some_and(|gap| gap.start < offset)
    }

    /// Bytes of the section at `offset`, header included, if the section is complete.
    pub(super) fn section_len(&self, offset: u64) -> Option<u64> {
        Some(self.section_at(offset)?.end() - offset)
    }

    /// Returns the section at `offset`, if it is complete.
    pub(super) fn section_at(&self, offset: u64) -> Option<&SectionHeader> {
        self.sections.iter().find(|section| section.offset == offset)
    }
}

/// Reads the superblock.
pub(super) fn superblock(store: &Store) -> Result<Superblock, FormatError> {
    let mut bytes = Vec::new();
    let len = store.len().min(SUPERBLOCK_LEN as u64);
    if store.read(0, len, &mut bytes).is_err() {
        bytes.clear();
    }
    Superblock::decode(&bytes, xxh3_64)
}

/// Walks all sections, sums the payloads of small ones, and reads the newest root.
pub(super) fn walk(context: &Context<'_>, superblock: &Superblock) -> Result<Layout, Error> {
    let Context { store, findings, progress, .. } = context;
    let mut layout = Layout { image_tag: superblock.image_tag(), ..Layout::default() };
    let mut trailers: Vec<(usize, Trailer)> = Vec::new();
    let mut offset = SUPERBLOCK_LEN as u64;
    progress.found(0, store.len());
    let mut bytes = Vec::new();
    while offset < store.len() {
        context.check_cancel()?;
        let header_len = (store.len() - offset).min(SECTION_HEADER_LEN as u64);
        let header = store.read(offset, header_len, &mut bytes).and_then(|()| {
            SectionHeader::decode(&bytes, offset, superblock.image_tag(), xxh3_64)
                .map_err(|error| error.to_string())
        });
        let header = match header {
            Ok(header) => header,
            // What follows a trailer need not be a section: other data may follow the image.
            Err(what) => {
                let next = next_header(context, offset + 1, superblock.image_tag())?;
                let place = format!("section {}", layout.sections.len());
                let range = Some((offset, Some(SECTION_HEADER_LEN as u64)));
                let is_end = trailers.last().is_some_and(|(_, t)| t.image_len == offset);
                if !is_end || next.in_place.is_some() {
                    findings.add_about(place, range, what, Scope::Nothing);
                } else if let Some((found, expected)) = next.shifted {
                    let what = format!(
                        "a section of this image is at offset {found} and belongs to {expected}: \
                         bytes between it and the image were cut out or inserted"
                    );
                    findings.add_about(place, range, what, Scope::Nothing);
                }
                let next = next.in_place;
                layout.gaps.push(offset..next.unwrap_or(store.len()));
                match next {
                    Some(next) => {
                        offset = next;
                        continue;
                    }
                    None => break,
                }
            }
        };
        let kind = SectionType::from_id(header.section_type);
        let place = section_place(layout.sections.len(), &header);
        let is_whole = header.stored_len <= store.len() - header.payload_offset();
        if !is_whole {
            let there = store.len() - header.payload_offset();
            let len = header.stored_len;
            findings.add_about(
                &place,
                Some((offset, Some(len.saturating_add(SECTION_HEADER_LEN as u64)))),
                format!(
                    "truncated: its payload is {len} bytes, {there} are there; copy the image again"
                ),
                Scope::Nothing,
            );
            let next = next_header(context, header.payload_offset(), superblock.image_tag())?;
            let next = next.in_place;
            layout.gaps.push(offset..next.unwrap_or(store.len()));
            match next {
                Some(next) => {
                    offset = next;
                    continue;
                }
                None => break,
            }
        }
        if !is_bulk(&header) {
            check_payload(context, layout.sections.len(), &header, &mut bytes, |_, _| {});
        }
        progress.done(0, header.end() - offset);
        if kind == Some(SectionType::Trailer) {
            match read_trailer(store, &header) {
                Ok(trailer) => trailers.push((layout.sections.len(), trailer)),
                Err(what) => findings.add(&place, Some(offset), what),
            }
        }
        offset = header.end();
        layout.sections.push(header);
    }
    check_trailers(context, superblock, &layout, &trailers);
    match trailers.last() {
        None => findings.add_about(
            "trailer",
            None,
            "there is none: the image is truncated or was never completed; copy or build it again",
            Scope::Everything,
        ),
        Some((_, trailer)) => {
            layout.image_len = Some(trailer.image_len);
            layout.root = read_root(context, &layout, trailer);
            layout.trailer = Some(*trailer);
        }
    }
    Ok(layout)
}

/// Section headers after a place where one should be.
#[derive(Default)]
struct NextHeader {
    /// Offset of the first that is where it belongs.
    in_place: Option<u64>,
    /// Offset of one that is elsewhere, and the offset where it belongs, which is not before the
    /// place. Headers of a further copy of the image do not count.
    shifted: Option<(u64, u64)>,
}

/// Searches for the next section header of this image from `from` on.
fn next_header(context: &Context<'_>, from: u64, tag: u64) -> Result<NextHeader, Error> {
    let Context { store, .. } = context;
    let mut next = NextHeader::default();
    let mut chunk = Vec::new();
    let mut header = Vec::new();
    let mut at = from;
    let end = store.len().saturating_sub(SECTION_HEADER_LEN as u64 - 1);
    while at < end {
        context.check_cancel()?;
        // Chunks overlap so that no magic is split.
        let len = (store.len() - at).min(CHUNK_LEN + SECTION_MAGIC.len() as u64 - 1);
        if store.read(at, len, &mut chunk).is_ok() {
            for (index, _) in
                chunk.windows(SECTION_MAGIC.len()).enumerate().filter(|(_, w)| **w == SECTION_MAGIC)
            {
                let offset = at + index as u64;
                if offset >= end
                    || store.read(offset, SECTION_HEADER_LEN as u64, &mut header).is_err()
                {
                    continue;
                }
                let claimed = SectionHeader::claimed_offset(&header);
                if SectionHeader::decode(&header, claimed, tag, xxh3_64).is_err() {
                    continue;
                }
                if claimed == offset {
                    next.in_place = Some(offset);
                    return Ok(next);
                }
                // A copy of the image begins after it.
                let is_copy = offset.checked_sub(claimed).is_some_and(|start| start >= from - 1);
                if claimed >= from - 1 && !is_copy && next.shifted.is_none() {
                    next.shifted = Some((offset, claimed));
                }
            }
        }
        at += CHUNK_LEN;
    }
    Ok(next)
}

fn read_trailer(store: &Store, header: &SectionHeader) -> Result<Trailer, String> {
    if header.stored_len != TRAILER_LEN as u64 {
        return Err(format!("its payload is {} bytes, expected {TRAILER_LEN}", header.stored_len));
    }
    let mut bytes = Vec::new();
    store.read(header.payload_offset(), header.stored_len, &mut bytes)?;
    if xxh3_64(&bytes) != header.payload_sum {
        return Err("its payload is damaged".to_owned());
    }
    Trailer::decode(&bytes, header.offset).map_err(|error| error.to_string())
}

/// Checks that the trailers form a chain back to the first, and count the sections before them.
fn check_trailers(
    context: &Context<'_>,
    superblock: &Superblock,
    layout: &Layout,
    trailers: &[(usize, Trailer)],
) {
    let mut previous = 0;
    for (index, trailer) in trailers {
        let Some(section) = layout.sections.get(*index) else { continue };
        let add = |what| context.findings.add("trailer", Some(section.offset), what);
        if trailer.image_id != superblock.image_id {
            add("its image id is not the superblock's".to_owned());
        }
        // Sections that the walk did not see cannot be compared.
        let in_gap = layout.is_gap_before(section.offset);
        if trailer.previous_trailer_offset != previous && !in_gap {
            add(format!(
                "the trailer before it is at {previous}, but it says {}",
                trailer.previous_trailer_offset
            ));
        }
        if trailer.section_count != *index as u64 && !in_gap {
            add(format!("{index} sections are before it, but it says {}", trailer.section_count));
        }
        previous = section.offset;
    }
    if let Some((index, _)) = trailers.last()
        && index + 1 < layout.sections.len()
    {
        let behind = layout.sections.len() - index - 1;
        context.findings.add(
            "trailer",
            None,
            format!(
                "{behind} sections lie after the last trailer: an append was not completed, or its \
                 trailer is damaged; the state before it is whole if nothing else is reported"
            ),
        );
    }
}

/// Reads the root that the trailer names, or if that is damaged the second one, after the Merkle
/// tree.
fn read_root(context: &Context<'_>, layout: &Layout, trailer: &Trailer) -> Option<Root> {
    let result = match layout.section_at(trailer.root_offset) {
        None => Err("no whole section is where the trailer says the root is".to_owned()),
        Some(section) => whole_root(context.store, layout, section, trailer.root_section_len),
    };
    let what = match result {
        Ok(root) => return Some(root),
        Err(what) => what,
    };
    let second = layout
        .section_at(trailer.merkle_offset)
        .filter(|_| trailer.merkle_offset > 0)
        .and_then(|merkle| layout.section_at(merkle.end()))
        .and_then(|section| {
            let len = section.end() - section.offset;
            whole_root(context.store, layout, section, len).ok()
        });
    let range = Some((trailer.root_offset, Some(trailer.root_section_len)));
    match &second {
        Some(_) => {
            let what = format!("{what}; the second root is used");
            context.findings.add_about("root", range, what, Scope::Nothing);
        }
        None => context.findings.add_about("root", range, what, Scope::Everything),
    }
    second
}

/// Reads a root and the earlier ones that it needs.
fn whole_root(
    store: &Store,
    layout: &Layout,
    section: &SectionHeader,
    expected: u64,
) -> Result<Root, String> {
    let root = decode_root(store, section, expected)?;
    let joined = root.join(section.offset, |earlier| {
        let read = |offset| match layout.section_at(offset) {
            Some(section) if section.payload_sum == earlier.payload_sum => {
                decode_root(store, section, earlier.section_len)
            }
            _ => Err("no section with its sum is there".to_owned()),
        };
        let first = read(earlier.offset);
        let found = first.or_else(|what| read(earlier.copy_offset).map_err(|_| what));
        found.map_err(|what| {
            let at = earlier.offset;
            PageFault(format!("it needs the root at offset {at}, and this: {what}"))
        })
    });
    joined.map_err(|fault| fault.0)
}

fn decode_root(store: &Store, section: &SectionHeader, expected: u64) -> Result<Root, String> {
    if section.section_type != SectionType::Root as u16 {
        return Err(format!("the section there is of type {}, not a root", section.section_type));
    }
    let section_len = section.end() - section.offset;
    if section_len != expected {
        return Err(format!("its section is {section_len} bytes, the trailer says {expected}"));
    }
    if section.plain_len > ROOT_PLAIN_LEN_MAX || section.stored_len > ROOT_PLAIN_LEN_MAX {
        return Err(format!("it is {} bytes, allowed is 16 MiB", section.plain_len));
    }
    let mut bytes = Vec::new();
    store.read(section.payload_offset(), section.stored_len, &mut bytes)?;
    if xxh3_64(&bytes) != section.payload_sum {
        return Err("its payload is damaged".to_owned());
    }
    if section.codec == 1 {
        let mut plain = Vec::new();
        Decoder::new()
            .decode(Codec::Zstd, &[], &bytes, section.plain_len as usize, &mut plain)
            .map_err(|error| format!("it does not decode: {error}"))?;
        bytes = plain;
    }
    Root::decode(&bytes).map_err(|error| error.to_string())
}
