//! Compares the payload of one section with its sum.

use shale_codec::Xxh3;
use shale_format::{SectionHeader, SectionType};

use super::context::Context;
use super::findings::Scope;

/// Bytes read, summed and hashed at once: whole leaves that fit the second-level cache of a core.
const CHUNK_LEN: u64 = 1 << 18;

/// True for sections whose contents are also checked elsewhere: frames, pages, parity. The sums of
/// all other sections are compared at every level.
pub(super) fn is_bulk(section: &SectionHeader) -> bool {
    use SectionType::{Merkle, MerkleContinued, Root, Signature, Trailer};
    ![Root, Merkle, MerkleContinued, Signature, Trailer]
        .iter()
        .any(|kind| *kind as u16 == section.section_type)
}

/// A section as text.
pub(super) fn section_place(index: usize, section: &SectionHeader) -> String {
    let kind = SectionType::from_id(section.section_type);
    format!("section {index} ({})", kind.map_or("of unknown type", SectionType::name))
}

/// The outcome for a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// Its sum was compared.
    Summed,
    /// A part could not be read, which was reported.
    Unreadable,
    /// The time was up.
    Left,
}

/// Compares the payload of a section with its sum, and passes its bytes on in pieces, with their
/// offsets. All pieces except the first begin at a leaf, and all except the first and last have
/// [`CHUNK_LEN`] bytes.
pub(super) fn check_payload(
    context: &Context<'_>,
    index: usize,
    section: &SectionHeader,
    buf: &mut Vec<u8>,
    mut each: impl FnMut(u64, &[u8]),
) -> Payload {
    let mut sum = Xxh3::new();
    let mut at = section.payload_offset();
    while at < section.end() {
        if context.is_over() {
            return Payload::Left;
        }
        let len = (section.end() - at).min(CHUNK_LEN - at % CHUNK_LEN);
        if let Err(what) = context.store.read(at, len, buf) {
            let range = Some((at, Some(len)));
            let place = section_place(index, section);
            context.findings.add_about(place, range, what, Scope::Nothing);
            return Payload::Unreadable;
        }
        sum.update(buf);
        each(at, buf);
        at += len;
    }
    let sum = sum.sum_64();
    if sum != section.payload_sum {
        let range = Some((section.payload_offset(), Some(section.stored_len)));
        let what = format!(
            "payload is damaged: sum {:016x} expected, {sum:016x} found",
            section.payload_sum
        );
        context.findings.add_about(section_place(index, section), range, what, Scope::Nothing);
    }
    Payload::Summed
}
