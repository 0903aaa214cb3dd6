//! The Merkle tree: every leaf hashed, every hash compared, and the identity with the one expected.
//!
//! The tree covers each byte before it, also those that no table leads to. Memory: 32 bytes for
//! each 64 KiB of the image.

use shale_codec::merkle::{LeafHasher, tree};
use shale_format::merkle::{FAN_OUT, HASH_LEN, LEAF_LEN, MERKLE_HEAD_LEN};
use shale_format::{Identity, MerkleHead, SectionType, Trailer};
use shale_read::identity_of;

use super::{Context, sections::Layout};
use crate::error::Error;

/// Bytes hashed at once.
const CHUNK_LEN: u64 = 1 << 20;
/// Damaged leaves reported one by one.
const NAMED_MAX: usize = 20;

/// Checks the tree of the newest trailer. Gives the identity that its head has, whatever else is
/// wrong.
pub(super) fn check(
    context: &Context<'_>,
    layout: &Layout,
    trailer: &Trailer,
) -> Result<Option<Identity>, Error> {
    let expected = context.options.expect;
    let place = "merkle tree";
    let offset = trailer.merkle_offset;
    if offset == 0 {
        if let Some(expected) = expected {
            let what = format!("there is none, so {expected} cannot be compared");
            context.findings.add(place, None, what);
        }
        return Ok(None);
    }
    let (head, hashes) = match read(context, layout, offset) {
        Ok(read) => read,
        Err(what) => {
            context.findings.add(place, Some(offset), what);
            return Ok(None);
        }
    };
    let identity = identity_of(&head);
    if expected.is_some_and(|expected| expected != identity) {
        let what = format!(
            "the identity is {identity}, expected {}: this is another image, or one that was \
             changed",
            expected.map_or_else(String::new, |expected| expected.to_string())
        );
        context.findings.add("identity", None, what);
    }
    if (head.root_offset, head.root_section_len) != (trailer.root_offset, trailer.root_section_len)
    {
        context.findings.add(place, Some(offset), "it is for another root than the trailer's");
    }
    leaves(context, &head, &hashes)?;
    Ok(Some(identity))
}

/// The head, and all hashes of the tree after they were compared with each other.
fn read(
    context: &Context<'_>,
    layout: &Layout,
    offset: u64,
) -> Result<(MerkleHead, Vec<[u8; HASH_LEN]>), String> {
    let section = layout.sections.iter().find(|section| section.offset == offset);
    let section = section.ok_or("no whole section is where the trailer says it is")?;
    if section.section_type != SectionType::Merkle as u16 || section.codec != 0 {
        return Err(format!("the section there is of type {}", section.section_type));
    }
    let mut bytes = Vec::new();
    let head_len = section.stored_len.min(MERKLE_HEAD_LEN as u64);
    context.store.read(section.payload_offset(), head_len, &mut bytes)?;
    let head = MerkleHead::decode(&bytes, offset, section.stored_len)
        .map_err(|error| error.to_string())?;
    let from = section.payload_offset() + MERKLE_HEAD_LEN as u64;
    context.store.read(from, section.stored_len - MERKLE_HEAD_LEN as u64, &mut bytes)?;
    let (hashes, _) = bytes.as_chunks::<HASH_LEN>();
    let leaf_count = head.shape().leaf_count() as usize;
    let leaves = hashes.get(..leaf_count).unwrap_or_default().to_vec();
    let right = tree(leaves, FAN_OUT as usize);
    if right != hashes || right.last() != Some(&head.tree_root) {
        return Err("its hashes contradict each other".to_owned());
    }
    Ok((head, right))
}

fn leaves(
    context: &Context<'_>,
    head: &MerkleHead,
    hashes: &[[u8; HASH_LEN]],
) -> Result<(), Error> {
    let (mut at, mut leaf, mut named) = (0, 0, 0);
    let mut chunk = Vec::new();
    let mut damaged = 0_u64;
    while at < head.covered_len {
        context.check_cancel()?;
        let len = (head.covered_len - at).min(CHUNK_LEN);
        let read = context.store.read(at, len, &mut chunk);
        let mut hasher = LeafHasher::new(LEAF_LEN as usize);
        if read.is_ok() {
            hasher.update(&chunk);
        }
        let found = hasher.finish();
        for index in 0..len.div_ceil(LEAF_LEN) as usize {
            if found.get(index) != hashes.get(leaf) {
                damaged += 1;
                if named < NAMED_MAX {
                    named += 1;
                    let offset = at + index as u64 * LEAF_LEN;
                    context.findings.add(format!("leaf {leaf}"), Some(offset), "it is damaged");
                }
            }
            leaf += 1;
        }
        at += len;
    }
    if damaged > named as u64 {
        let what = format!("{} more leaves are damaged", damaged - named as u64);
        context.findings.add("merkle tree", None, what);
    }
    Ok(())
}
