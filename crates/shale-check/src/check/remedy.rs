//! Tells for each problem whether parity restores the damage, without repairing anything.
//!
//! Looks for parity only if problems were found. Compares all leaves with the hashes that the
//! parity stores, and counts damaged leaves against intact bodies; nothing is computed.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use shale_format::merkle::LEAF_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_host::{Phase, thread_count};
use shale_read::ByteSource;
use shale_read::trust::parity::{
    LeafDamage, LeafStore, Parity, find, find_by_trailer, read_available,
};

use super::context::Context;
use super::findings::{Finding, Remedy, Scope};
use super::report::ParityState;
use super::sections::Layout;
use crate::error::Error;

/// References followed from a frame to the one that is to blame.
const DEPTH_MAX: usize = 16;

/// Fills in what can be done about each problem.
pub(super) fn seek(
    context: &Context<'_>,
    source: &Arc<dyn ByteSource>,
    start: u64,
    layout: &Layout,
    found: &mut [Finding],
) -> Result<ParityState, Error> {
    if found.iter().all(|found| found.scope == Scope::OtherImage) {
        found.iter_mut().for_each(|found| found.problem.remedy = Remedy::OtherImage);
        return Ok(ParityState::NotSought);
    }
    if context.is_over() {
        return Ok(ParityState::NotSought);
    }
    context.progress.phase(Phase::Parity);
    let Some(parity) = look(source, start, layout) else {
        set(found, |_| Remedy::NoParity);
        return Ok(ParityState::None);
    };
    let store = Stored { source, start };
    let flag = context.options.cancel.flag();
    let threads = thread_count(context.options.threads);
    let done = |len| context.progress.done(0, len);
    let mut of_parts = Vec::new();
    for part in parity.parts() {
        let layout = part.layout();
        let count = layout.protected_count() + layout.body_count;
        context.progress.found(0, count * LEAF_LEN);
        let damage = part.scan(&store, threads, &flag, &done);
        of_parts.push(damage.ok_or(shale_host::Error::Cancelled)?);
    }
    let lost = parity.beyond_all(&of_parts);
    // Bodies of earlier sections lie in leaves of later ones.
    let bodies = of_parts.first().map(|newest| newest.bodies.clone()).unwrap_or_default();
    let leaves = of_parts.into_iter().flat_map(|damage| damage.leaves).collect();
    let damage = LeafDamage { leaves, bodies };
    let unprotected_end = parity.parts().last().map_or(0, |first| first.leaves().start * LEAF_LEN);
    let end_is_whole = {
        let mut end = [0; TRAILER_SECTION_LEN];
        let at = start + parity.image_len() - TRAILER_SECTION_LEN as u64;
        read_available(source, at, &mut end);
        end == parity.trailer_section()
    };
    let judge =
        Judge { parity: &parity, damage: &damage, lost: &lost, end_is_whole, unprotected_end };
    let remedies: Vec<Remedy> = (0..found.len()).map(|at| judge.remedy(found, at)).collect();
    for (found, remedy) in found.iter_mut().zip(remedies) {
        found.problem.remedy = remedy;
    }
    Ok(ParityState::Found {
        damaged_leaves: damage.leaves.len() as u64,
        damaged_bodies: damage.bodies.len() as u64,
        lost_leaves: lost.len() as u64,
    })
}

/// Finds the parity that the last trailer names; if the source does not end there, any parity.
fn look(source: &Arc<dyn ByteSource>, start: u64, layout: &Layout) -> Option<Parity> {
    let Layout { trailer: Some(trailer), image_tag, .. } = layout else {
        return find(source, Some(start), None);
    };
    if start + trailer.image_len == source.len() {
        return find_by_trailer(source, start, trailer, *image_tag);
    }
    let hint = start.checked_add(trailer.image_len);
    find(source, Some(start), hint)
}

fn set(found: &mut [Finding], remedy: impl Fn(&Finding) -> Remedy) {
    for found in found {
        found.problem.remedy = match found.scope {
            Scope::OtherImage => Remedy::OtherImage,
            _ => remedy(found),
        };
    }
}

struct Judge<'a> {
    parity: &'a Parity,
    damage: &'a LeafDamage,
    lost: &'a BTreeSet<u64>,
    end_is_whole: bool,
    /// What is before is protected by sections that are damaged beyond use, if there are any.
    unprotected_end: u64,
}

impl Judge<'_> {
    fn remedy(&self, found: &[Finding], at: usize) -> Remedy {
        // An intact frame that refers to a damaged one has the remedy of that one.
        let mut at = at;
        for _ in 0..DEPTH_MAX {
            let Scope::Through { below, .. } = found[at].scope else { break };
            let guilty = found.iter().position(|found| match found.scope {
                Scope::Frame(frame) | Scope::Through { frame, .. } => frame == below,
                _ => false,
            });
            match guilty {
                Some(guilty) => at = guilty,
                None => return self.of_all(),
            }
        }
        let Finding { problem, scope } = &found[at];
        match (scope, problem.offset) {
            (Scope::OtherImage, _) => Remedy::OtherImage,
            (Scope::Through { .. }, _) | (_, None) => self.of_all(),
            (_, Some(offset)) => {
                match (self.of_range(offset, problem.len.unwrap_or(1)), problem.len) {
                    // A problem was noticed there, but its cause may be somewhere else.
                    (Remedy::AsWritten, None) => self.of_all(),
                    (remedy, _) => remedy,
                }
            }
        }
    }

    /// The remedy for a problem without a single place.
    fn of_all(&self) -> Remedy {
        if !self.lost.is_empty() || self.unprotected_end > 0 {
            Remedy::BeyondParity
        } else if self.damage.is_none() && self.end_is_whole {
            Remedy::AsWritten
        } else {
            Remedy::Parity
        }
    }

    fn of_range(&self, offset: u64, len: u64) -> Remedy {
        let end = offset.saturating_add(len.max(1));
        if offset >= self.parity.image_len() {
            return Remedy::NoParity;
        }
        let protected = self.parity.head().section_offset;
        // Parity itself and the trailer after it are written again if nothing else is lost.
        if offset >= protected {
            return match self.lost.is_empty() && self.unprotected_end == 0 {
                true => Remedy::Parity,
                false => Remedy::BeyondParity,
            };
        }
        let leaves = offset / LEAF_LEN..end.min(protected).div_ceil(LEAF_LEN);
        if offset < self.unprotected_end || self.lost.range(leaves.clone()).next().is_some() {
            Remedy::BeyondParity
        } else if self.damage.leaves.range(leaves).next().is_some() || end > protected {
            Remedy::Parity
        } else {
            Remedy::AsWritten
        }
    }
}

/// The leaves as they are stored.
struct Stored<'s> {
    source: &'s Arc<dyn ByteSource>,
    start: u64,
}

impl LeafStore for Stored<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.source.read_at(self.start + offset, buf)
    }

    fn repaired(&mut self, _: u64, _: u64, _: &[u8]) -> io::Result<()> {
        // This store only scans; nothing is repaired.
        Err(io::ErrorKind::Unsupported.into())
    }
}
