//! Compares the hashes of the Merkle tree with each other, and its identity with the expected one.
//!
//! The tree covers every byte before it, including those that no table uses. The leaves are
//! compared in the stage that reads all bytes. Memory: 32 bytes for each 64 KiB of the image.

use shale_codec::merkle::tree;
use shale_format::merkle::{FAN_OUT, HASH_LEN, HASH_RUNS_LEN_MAX, MERKLE_HEAD_LEN, decode_section};
use shale_format::{Identity, MerkleHead, SectionType, Trailer};
use shale_read::identity_of;

use super::context::Context;
use super::findings::Scope;
use super::sections::Layout;

/// A tree whose hashes agree with each other.
pub(super) struct HashTree {
    pub(super) head: MerkleHead,
    pub(super) identity: Identity,
    /// Level by level, leaves first.
    hashes: Vec<[u8; HASH_LEN]>,
}

impl HashTree {
    /// The hash that a leaf should have.
    pub(super) fn hash_of(&self, leaf: u64) -> Option<&[u8; HASH_LEN]> {
        usize::try_from(leaf).ok().and_then(|leaf| self.hashes.get(leaf))
    }
}

/// Reads the tree that the newest trailer names, if there is one and it can be read.
pub(super) fn check(context: &Context<'_>, layout: &Layout, trailer: &Trailer) -> Option<HashTree> {
    let expected = context.options.expect;
    let place = "merkle tree";
    let offset = trailer.merkle_offset;
    if offset == 0 {
        if let Some(expected) = expected {
            let what = format!("there is none, so {expected} cannot be compared");
            context.findings.add_about(place, None, what, Scope::OtherImage);
        }
        return None;
    }
    let tree = match read(context, layout, offset) {
        Ok(tree) => tree,
        Err(what) => {
            let range = Some((offset, layout.section_len(offset)));
            context.findings.add_about(place, range, what, Scope::Nothing);
            return None;
        }
    };
    if let Some(expected) = expected.filter(|&expected| expected != tree.identity) {
        let what = format!(
            "the identity is {}, expected {expected}: this is another image, or one that was \
             changed",
            tree.identity
        );
        context.findings.add_about("identity", None, what, Scope::OtherImage);
    }
    let MerkleHead { root_offset, root_section_len, .. } = tree.head;
    if (root_offset, root_section_len) != (trailer.root_offset, trailer.root_section_len) {
        context.findings.add(place, Some(offset), "it is for another root than the trailer's");
    }
    Some(tree)
}

/// Reads the head and all hashes of the tree, and compares the hashes with each other.
fn read(context: &Context<'_>, layout: &Layout, offset: u64) -> Result<HashTree, String> {
    let section =
        layout.section_at(offset).ok_or("no whole section is where the trailer says it is")?;
    let is_continued = section.section_type == SectionType::MerkleContinued as u16;
    if !is_continued && section.section_type != SectionType::Merkle as u16 || section.codec != 0 {
        return Err(format!("the section there is of type {}", section.section_type));
    }
    let mut bytes = Vec::new();
    let of_head = MERKLE_HEAD_LEN as u64 + HASH_RUNS_LEN_MAX * u64::from(is_continued);
    context.store.read(section.payload_offset(), section.stored_len.min(of_head), &mut bytes)?;
    let (head, runs) = decode_section(&bytes, section).map_err(|error| error.to_string())?;
    let (mut found, all) = (Vec::new(), 0..head.shape().hash_total());
    for place in runs.places(all) {
        context.store.read(place.start, place.end - place.start, &mut bytes)?;
        found.extend_from_slice(&bytes);
    }
    let (hashes, _) = found.as_chunks::<HASH_LEN>();
    let leaf_count = head.shape().leaf_count() as usize;
    let leaves = hashes.get(..leaf_count).unwrap_or_default().to_vec();
    let right = tree(leaves, FAN_OUT as usize);
    if right != hashes || right.last() != Some(&head.tree_root) {
        return Err("its hashes contradict each other".to_owned());
    }
    Ok(HashTree { head, identity: identity_of(&head), hashes: right })
}
