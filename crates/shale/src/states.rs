//! What each snapshot added to its image, as the earlier states of the image tell it.
//!
//! Every append leaves the trailer before in its place, so the trailers are a list of all states.
//! Costs two reads for each of them.

use shale_format::limits::ROOT_PLAIN_LEN_MAX;
use shale_format::{Root, SectionType, Trailer};
use shale_model::utc_period;
use shale_read::{Image, ReadError, Snapshot};

/// Facts about a snapshot that its tree does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SnapshotFacts {
    /// Its time, in seconds since 1970, if its name is a time in UTC.
    pub time: Option<i64>,
    /// Bytes by which the image grew with it, without parity and signatures. `None` if it was
    /// written together with others, or if the earlier states cannot be read.
    pub added_bytes: Option<u64>,
}

/// A state of an image.
struct State {
    image_len: u64,
    snapshot_count: usize,
    previous_trailer_offset: u64,
}

/// Returns facts about all snapshots of an image, oldest first.
pub fn snapshot_facts(image: &Image) -> Vec<SnapshotFacts> {
    let snapshots = image.snapshots();
    let facts = snapshots
        .iter()
        .map(|snapshot| SnapshotFacts { time: time_of(snapshot), added_bytes: None });
    let mut facts: Vec<SnapshotFacts> = facts.collect();
    let mut state = State {
        image_len: image.len(),
        snapshot_count: snapshots.len(),
        previous_trailer_offset: image.trailer().previous_trailer_offset,
    };
    loop {
        let before = match state.previous_trailer_offset {
            0 => State { image_len: 0, snapshot_count: 0, previous_trailer_offset: 0 },
            offset => match state_at(image, offset) {
                Ok(Some(before)) if before.image_len < state.image_len => before,
                // What is damaged there does not concern the newest state.
                _ => return facts,
            },
        };
        if before.snapshot_count.checked_add(1) == Some(state.snapshot_count)
            && let Some(fact) = facts.get_mut(before.snapshot_count)
        {
            fact.added_bytes = Some(state.image_len - before.image_len);
        }
        if before.image_len == 0 {
            return facts;
        }
        state = before;
    }
}

/// Returns the time of a snapshot, in seconds since 1970, if its name is a time in UTC.
pub(crate) fn time_of(snapshot: &Snapshot) -> Option<i64> {
    utc_period(&snapshot.name).map(|period| *period.start())
}

/// Reads the state whose trailer is at an offset; `None` if there is another section.
fn state_at(image: &Image, offset: u64) -> Result<Option<State>, ReadError> {
    let Some(section) = image.section_at(offset)? else { return Ok(None) };
    if section.section_type != SectionType::Trailer as u16 {
        return Ok(None);
    }
    let payload = image.section_payload(&section, section.stored_len.min(ROOT_PLAIN_LEN_MAX))?;
    let trailer = Trailer::decode(&payload, offset)?;
    let Some(section) = image.section_at(trailer.root_offset)? else { return Ok(None) };
    let root = Root::decode(&image.section_payload(&section, ROOT_PLAIN_LEN_MAX)?)?;
    // Those of earlier roots need not be read to be counted.
    let older = root.earlier.first().map_or(0, |earlier| earlier.snapshot_count as usize);
    Ok(Some(State {
        image_len: trailer.image_len,
        snapshot_count: older + root.snapshots.len(),
        previous_trailer_offset: trailer.previous_trailer_offset,
    }))
}
