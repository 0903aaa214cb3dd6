//! The Merkle section: the head of the tree, and the hashes that no earlier section has.
//!
//! An append keeps the hashes of all leaves that were whole before, and of all nodes over such
//! leaves; only the others are stored. So that a tree does not come to lie in ever more places, a
//! run of old hashes that is less than twice as long as the new ones after it is stored again with
//! them: then a level has at most a logarithm of runs, and a hash is stored again a few times.

use shale_format::merkle::{HASH_LEN, HashRuns, LEAF_LEN, MERKLE_HEAD_LEN, MerkleShape};
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::{MerkleHead, SectionType};

/// A tree that is continued.
#[derive(Debug)]
pub(crate) struct OldTree {
    pub(crate) head: MerkleHead,
    pub(crate) runs: HashRuns,
}

/// Returns type and payload of the section of a tree. `hashes` are all of its hashes. The header of
/// the section is at the end of what it covers.
pub(crate) fn section(
    head: &MerkleHead,
    hashes: &[[u8; HASH_LEN]],
    old: Option<&OldTree>,
) -> (SectionType, Vec<u8>) {
    let whole = || (SectionType::Merkle, [&head.encode()[..], hashes.as_flattened()].concat());
    let Some(old) = old else { return whole() };
    let levels = stored_again(&head.shape(), old);
    let shape = head.shape();
    let starts = || (0..shape.level_count()).map(|level| shape.level_start(level));
    // The length of the list has to be known before the offsets in it.
    let place = |payload_at: u64| {
        let (mut runs, mut at) = (HashRuns::empty(), payload_at);
        for (level, (start, again)) in starts().zip(&levels).enumerate() {
            let old_start = old.head.shape().level_start(level);
            for run in old.runs.within(old_start..old_start + again) {
                runs.push(run.count, run.offset);
            }
            let count = shape.hash_count(level) - again;
            debug_assert!(start + again + count <= shape.hash_total());
            runs.push(count, at);
            at += count * HASH_LEN as u64;
        }
        runs
    };
    let section_at = head.covered_len + (SECTION_HEADER_LEN + MERKLE_HEAD_LEN) as u64;
    // Runs that lie next to each other are joined, which no offset of a new one changes: those of
    // this section follow all others.
    let len = place(section_at).encoded_len();
    let runs = place(section_at + len as u64);
    let mut payload = [&head.encode()[..], &runs.encode()].concat();
    for (level, (start, again)) in starts().zip(&levels).enumerate() {
        let new = (start + again) as usize..(start + shape.hash_count(level)) as usize;
        payload.extend_from_slice(hashes[new].as_flattened());
    }
    if payload.len() as u64 >= shape.payload_len() {
        return whole();
    }
    (SectionType::MerkleContinued, payload)
}

/// Returns for each level of the new tree how many hashes at its start are taken from where they
/// are.
fn stored_again(shape: &MerkleShape, old: &OldTree) -> Vec<u64> {
    let mut kept = old.head.covered_len / LEAF_LEN;
    let mut levels = Vec::new();
    for level in 0..shape.level_count() {
        kept = kept.min(old.head.shape().hash_count(level)).min(shape.hash_count(level));
        let start = old.head.shape().level_start(level);
        let mut taken = kept;
        let runs: Vec<_> = old.runs.within(start..start + kept).collect();
        for run in runs.iter().rev() {
            if run.count >= 2 * (shape.hash_count(level) - taken) {
                break;
            }
            taken = run.first - start;
        }
        levels.push(taken);
        kept /= shale_format::merkle::FAN_OUT;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use shale_codec::merkle::{leaf_hash, tree};
    use shale_format::merkle::FAN_OUT;

    /// The hashes of a tree over leaves of which each has its number as its bytes, and the last one
    /// its length, too, if it is short.
    fn hashes(covered_len: u64) -> Vec<[u8; HASH_LEN]> {
        let leaves = (0..covered_len.div_ceil(LEAF_LEN)).map(|leaf| {
            let len = (covered_len - leaf * LEAF_LEN).min(LEAF_LEN);
            leaf_hash([leaf, len].map(u64::to_le_bytes).as_flattened())
        });
        tree(leaves.collect(), FAN_OUT as usize)
    }

    /// Appends trees, each of which covers this many bytes more than the one before. Returns the
    /// lengths of payloads, those of whole trees, and the numbers of runs. All hashes are found in
    /// an image that has only the payloads.
    fn grow(steps: &[u64]) -> Vec<(usize, u64, usize)> {
        let mut image: Vec<(u64, Vec<u8>)> = Vec::new();
        let (mut old, mut sizes, mut covered_len) = (None::<OldTree>, Vec::new(), 0);
        for &step in steps {
            covered_len += step;
            let shape = MerkleShape::new(covered_len);
            let hashes = hashes(covered_len);
            let tree_root = *hashes.last().unwrap();
            let head = MerkleHead { covered_len, root_offset: 0, root_section_len: 65, tree_root };
            let (kind, payload) = section(&head, &hashes, old.as_ref());
            let at = covered_len + SECTION_HEADER_LEN as u64;
            let end = at + payload.len() as u64;
            let runs = match kind {
                SectionType::Merkle => {
                    assert_eq!(payload.len() as u64, shape.payload_len());
                    HashRuns::whole(&shape, covered_len)
                }
                _ => HashRuns::decode(&payload[MERKLE_HEAD_LEN..], end, &shape).unwrap(),
            };
            let all = 0..shape.hash_total();
            sizes.push((payload.len(), shape.payload_len(), runs.within(all.clone()).count()));
            image.push((at, payload));
            let places = runs.places(all).flat_map(|place| {
                let part = image.iter().rev().find(|(at, _)| *at <= place.start).unwrap();
                let from = (place.start - part.0) as usize;
                part.1[from..from + (place.end - place.start) as usize].to_vec()
            });
            assert!(places.eq(hashes.as_flattened().iter().copied()), "{covered_len} of {steps:?}");
            old = Some(OldTree { head, runs });
            covered_len = end;
        }
        sizes
    }

    #[test]
    fn an_append_stores_the_hashes_that_are_new() {
        let sizes = grow(&[700 * LEAF_LEN + 5000, 500, 500]);
        assert_eq!(sizes[0].0, 64 + 32 * (701 + 3 + 1));
        // Runs of old leaves and of old nodes; the last leaf, its node and the top.
        assert!(sizes[1].0 <= 64 + 8 + 4 * 16 + 4 * 32, "{sizes:?}");
        assert!(sizes[2].0 <= sizes[1].0, "{sizes:?}");
    }

    #[test]
    fn trees_that_grow_lie_in_few_places() {
        for (step, count) in [(3000, 300), (LEAF_LEN, 300), (200_000, 200), (50 << 20, 20)] {
            let sizes = grow(&vec![step; count]);
            let stored: usize = sizes.iter().map(|size| size.0).sum();
            let whole: u64 = sizes.iter().map(|size| size.1).sum();
            assert!(stored as u64 * 3 < whole * 2, "{stored} of {whole} in steps of {step}");
            let most = sizes.iter().map(|size| size.2).max();
            assert!(most <= Some(16), "{most:?} runs in steps of {step}");
        }
        // Short and whole last leaves, nodes and tops.
        let whole = 256 << 16;
        grow(&[1, 1, 65_000, 64 << 10, 1, whole, 1, whole, 600 << 16]);
    }
}
