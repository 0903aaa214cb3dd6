//! Whether parity brings back what is damaged, said for each problem before anybody has repaired.
//!
//! Looks for parity only where something was found. All leaves are compared with the hashes that
//! the parity has of them, and counted against the bodies that are whole: nothing is computed.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use shale_format::merkle::LEAF_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_read::Source;
use shale_read::trust::parity::{
    LeafDamage, LeafStore, Parity, find, find_behind, read_what_is_there,
};

use super::findings::{Found, Remedy, Scope};
use super::sections::Layout;
use super::{Context, ParityState};
use crate::error::Error;
use crate::progress::Phase;
use crate::threads::thread_count;

/// References followed from a frame to the one that is to blame.
const DEPTH_MAX: usize = 16;

/// Fills in what can be done about each problem.
pub(super) fn seek(
    context: &Context<'_>,
    source: &Arc<dyn Source>,
    start: u64,
    layout: &Layout,
    found: &mut [Found],
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
    let shape = parity.layout();
    context.progress.found(0, (shape.leaf_count + shape.body_count) * LEAF_LEN);
    let flag = context.options.cancel.flag();
    let threads = thread_count(context.options.threads);
    let done = |len| context.progress.done(0, len);
    let damage = parity.scan(&store, threads, &flag, &done).ok_or(Error::Cancelled)?;
    let lost = parity.beyond(&damage);
    let end_is_whole = {
        let mut end = [0; TRAILER_SECTION_LEN];
        let at = start + parity.image_len() - TRAILER_SECTION_LEN as u64;
        read_what_is_there(source, at, &mut end);
        end == parity.trailer_section()
    };
    let judge = Judge { parity: &parity, damage: &damage, lost: &lost, end_is_whole };
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

/// The parity that the last trailer leads to, or where that is not the end of the source, any.
fn look(source: &Arc<dyn Source>, start: u64, layout: &Layout) -> Option<Parity> {
    let Layout { trailer: Some(trailer), image_tag, .. } = layout else {
        return find(source, Some(start), None);
    };
    if start + trailer.image_len == source.len() {
        return find_behind(source, start, trailer, *image_tag);
    }
    let hint = start.checked_add(trailer.image_len);
    find(source, Some(start), hint)
}

fn set(found: &mut [Found], remedy: impl Fn(&Found) -> Remedy) {
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
}

impl Judge<'_> {
    fn remedy(&self, found: &[Found], at: usize) -> Remedy {
        // A frame that is whole and refers to one that is not has the remedy of that.
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
        let Found { problem, scope } = &found[at];
        match (scope, problem.offset) {
            (Scope::OtherImage, _) => Remedy::OtherImage,
            (Scope::Through { .. }, _) | (_, None) => self.of_all(),
            (_, Some(offset)) => {
                match (self.of_range(offset, problem.len.unwrap_or(1)), problem.len) {
                    // Something was noticed there; what is to blame may lie elsewhere.
                    (Remedy::AsWritten, None) => self.of_all(),
                    (remedy, _) => remedy,
                }
            }
        }
    }

    /// Of what lies in no one place.
    fn of_all(&self) -> Remedy {
        if !self.lost.is_empty() {
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
        // Parity itself and the trailer behind it are written again where nothing else is lost.
        if offset >= protected {
            return match self.lost.is_empty() {
                true => Remedy::Parity,
                false => Remedy::BeyondParity,
            };
        }
        let leaves = offset / LEAF_LEN..end.min(protected).div_ceil(LEAF_LEN);
        if self.lost.range(leaves.clone()).next().is_some() {
            Remedy::BeyondParity
        } else if self.damage.leaves.range(leaves).next().is_some() || end > protected {
            Remedy::Parity
        } else {
            Remedy::AsWritten
        }
    }
}

/// The leaves as they are.
struct Stored<'s> {
    source: &'s Arc<dyn Source>,
    start: u64,
}

impl LeafStore for Stored<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.source.read_at(self.start + offset, buf)
    }

    fn repaired(&mut self, _: u64, _: u64, _: &[u8]) -> io::Result<()> {
        // Nobody is asked to repair here.
        Err(io::ErrorKind::Unsupported.into())
    }
}
