//! The Merkle tree of an image, read node by node, and a source that is verified against it.
//!
//! The head must give the identity that the caller expects, each node must have the hash in the
//! node above it or in the head, and each leaf must have the hash in its node. Reading one leaf of
//! a terabyte verifies three nodes of 8 KiB. The hashes of a node may lie in sections of several
//! appends; where they lie needs no proof, as the node is proven as a whole. Nodes are kept, so
//! that reading a part of an image fetches and verifies only that part. Leaves are verified each
//! time they are read, because a file or server may return other bytes later.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use shale_codec::merkle::{derive, leaf_hash, tree as hashes_of};
use shale_format::merkle::{
    FAN_OUT, HASH_LEN, HashRuns, IDENTITY_CONTEXT, LEAF_LEN, MERKLE_HEAD_LEN, MerkleShape,
    decode_section,
};
use shale_format::{Identity, MerkleHead, SectionType, Trailer};

use crate::error::{ErrorContext, Expected, ReadError, contradiction, value};
use crate::storage::sections::read_header;
use crate::storage::source::ByteSource;
use crate::storage::stored::Stored;

/// Nodes that are kept, 8 KiB each.
const NODE_COUNT_MAX: usize = 1024;
/// Leaves kept in each part of the leaf cache, 64 KiB each.
const LEAF_COUNT_MAX: usize = 4;
/// Parts of the leaf cache, so that readers rarely wait for each other.
const CACHE_PARTS: u64 = 16;

/// Verified nodes by level and number.
type Nodes = HashMap<(usize, u64), Arc<[u8]>>;
/// Verified leaves with their numbers, oldest first.
type Leaves = Vec<(u64, Arc<Vec<u8>>)>;

/// The identity of the image with this head.
pub fn identity_of(head: &MerkleHead) -> Identity {
    Identity(derive(IDENTITY_CONTEXT, &head.encode()))
}

/// The head of an image's Merkle tree and where its hashes are. Not verified.
#[derive(Debug, Clone)]
pub(crate) struct LocatedTree {
    pub(crate) head: MerkleHead,
    pub(crate) runs: HashRuns,
}

/// Bytes of a section that are read to find the head, and the runs if there are few.
const FIRST_LEN: u64 = 1024;

/// Reads the head of the tree that `trailer` names, and where its hashes lie; `None` if the image
/// has no tree. Two reads, or three if an append left many runs.
pub(crate) fn find(
    stored: &Stored,
    trailer: &Trailer,
    image_tag: u64,
) -> Result<Option<LocatedTree>, ReadError> {
    let offset = trailer.merkle_offset;
    if offset == 0 {
        return Ok(None);
    }
    let read = || -> Result<LocatedTree, ReadError> {
        let header = read_header(stored, offset, image_tag)?;
        let is_continued = header.section_type == SectionType::MerkleContinued as u16;
        if !is_continued && header.section_type != SectionType::Merkle as u16 {
            let expected = Expected::Exactly(SectionType::Merkle as u64);
            return Err(value("type of the section", header.section_type.into(), expected));
        }
        if header.codec != 0 {
            return Err(contradiction("a Merkle section is compressed"));
        }
        if header.stored_len < MERKLE_HEAD_LEN as u64 {
            let expected = Expected::AtLeast(MERKLE_HEAD_LEN as u64);
            return Err(value("length of its payload", header.stored_len, expected));
        }
        let at = header.payload_offset();
        let first_len = if is_continued { FIRST_LEN } else { MERKLE_HEAD_LEN as u64 };
        let mut bytes = stored.read(at, header.stored_len.min(first_len) as usize)?;
        if is_continued {
            let list = bytes.get(MERKLE_HEAD_LEN..).unwrap_or_default();
            let needed = MERKLE_HEAD_LEN + HashRuns::len_of(list)?;
            if needed as u64 > header.stored_len {
                let expected = Expected::AtLeast(needed as u64);
                return Err(value("length of its payload", header.stored_len, expected));
            }
            if needed > bytes.len() {
                // At most 16 KiB, by the limit on runs.
                bytes = stored.read(at, needed)?;
            }
        }
        let (head, runs) = decode_section(&bytes, &header)?;
        Ok(LocatedTree { head, runs })
    };
    read().map(Some).at(|| format!("merkle section at offset {offset}"))
}

/// Reads the hashes of all leaves, and proves that they lead to the head: 32 bytes for each 64 KiB
/// that the tree covers. Returns those of whole leaves. The head itself is not verified.
pub(crate) fn leaf_hashes(
    stored: &Stored,
    tree: &LocatedTree,
) -> Result<Vec<[u8; HASH_LEN]>, ReadError> {
    let mut bytes = Vec::new();
    for place in tree.runs.places(0..tree.head.shape().leaf_count()) {
        let from = bytes.len();
        stored.check(place.start, place.end - place.start)?;
        bytes.resize(from + (place.end - place.start) as usize, 0);
        stored.read_into(place.start, &mut bytes[from..])?;
    }
    let (leaves, _) = bytes.as_chunks::<HASH_LEN>();
    let mut hashes = hashes_of(leaves.to_vec(), FAN_OUT as usize);
    if hashes.last() != Some(&tree.head.tree_root) {
        return Err(contradiction("the hashes of the Merkle tree do not lead to its top"));
    }
    hashes.truncate((tree.head.covered_len / LEAF_LEN) as usize);
    Ok(hashes)
}

/// A Merkle tree with a trusted head. Its nodes are verified when they are read.
pub(crate) struct MerkleTree {
    head: MerkleHead,
    shape: MerkleShape,
    runs: HashRuns,
    /// Where the image begins in the source.
    start: u64,
    nodes: Mutex<Nodes>,
}

impl MerkleTree {
    pub(crate) fn new(found: &LocatedTree, start: u64) -> Self {
        let nodes = Mutex::new(HashMap::new());
        let LocatedTree { head, runs } = found.clone();
        Self { head, shape: head.shape(), runs, start, nodes }
    }

    /// The hash of a leaf, verified up to the head.
    fn leaf_hash(&self, source: &dyn ByteSource, leaf: u64) -> io::Result<[u8; HASH_LEN]> {
        let top = self.shape.level_count() - 1;
        // From the top down, so that no node is used before it is verified.
        let mut hash = self.head.tree_root;
        for level in (0..top).rev() {
            // Index within `level` of the hash on the path to the leaf.
            let index = leaf >> (8 * level as u32).min(63);
            let (hashes, node) = self.shape.node_of(level, index);
            let bytes = self.node(source, (level, node), hashes, &hash)?;
            let at = (index % 256) as usize * HASH_LEN;
            let Some(found) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            hash = *found;
        }
        Ok(hash)
    }

    /// Where the nodes lie that prove the first and the last of `leaves`: all of them, unless there
    /// are many leaves.
    fn nodes_of(&self, leaves: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let top = self.shape.level_count() - 1;
        (0..top).rev().flat_map(move |level| {
            [leaves.start, leaves.end - 1].into_iter().flat_map(move |leaf| {
                let index = leaf >> (8 * level as u32).min(63);
                let (hashes, _) = self.shape.node_of(level, index);
                self.runs
                    .places(hashes)
                    .map(|place| self.start + place.start..self.start + place.end)
            })
        })
    }

    fn node(
        &self,
        source: &dyn ByteSource,
        key: (usize, u64),
        hashes: Range<u64>,
        hash: &[u8; HASH_LEN],
    ) -> io::Result<Arc<[u8]>> {
        let nodes = || self.nodes.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = nodes().get(&key) {
            return Ok(Arc::clone(found));
        }
        // At most 8 KiB, by the shape.
        let len = (hashes.end - hashes.start) as usize * HASH_LEN;
        let parts: Vec<(u64, usize)> = self
            .runs
            .places(hashes)
            .map(|place| (self.start + place.start, (place.end - place.start) as usize))
            .collect();
        let mut bytes = vec![0; len];
        prove(source, &parts, &mut bytes, hash, || {
            let at = parts.last().map_or(0, |&(at, _)| at);
            format!("the node of the Merkle tree at offset {at}")
        })?;
        let bytes: Arc<[u8]> = bytes.into();
        let mut nodes = nodes();
        if nodes.len() >= NODE_COUNT_MAX {
            nodes.clear();
        }
        nodes.insert(key, Arc::clone(&bytes));
        Ok(bytes)
    }
}

/// Reads bytes that lie in `parts`, each at an offset and with a length, and compares them with
/// their hash. If a read failed or the hash differs, all parts are repaired, as far as possible,
/// and compared again.
fn prove(
    source: &dyn ByteSource,
    parts: &[(u64, usize)],
    bytes: &mut [u8],
    hash: &[u8; HASH_LEN],
    what: impl FnOnce() -> String,
) -> io::Result<()> {
    let mut failed = None;
    each_part(parts, bytes, |at, part| {
        failed = failed.take().or(source.read_at(at, part).err());
    });
    prove_read(source, parts, bytes, failed.map_or(Ok(()), Err), hash, what)
}

/// As [`prove`], for bytes that were read with the result `read`.
fn prove_read(
    source: &dyn ByteSource,
    parts: &[(u64, usize)],
    bytes: &mut [u8],
    read: io::Result<()>,
    hash: &[u8; HASH_LEN],
    what: impl FnOnce() -> String,
) -> io::Result<()> {
    if read.is_ok() && leaf_hash(bytes) == *hash {
        return Ok(());
    }
    let mut is_healed = true;
    each_part(parts, bytes, |at, part| is_healed &= source.heal(at, part));
    match is_healed {
        true if leaf_hash(bytes) == *hash => return Ok(()),
        true => {}
        false => read?,
    }
    Err(unproven(what()))
}

/// Gives each part of `bytes` to `visit`, with its offset.
fn each_part(parts: &[(u64, usize)], bytes: &mut [u8], mut visit: impl FnMut(u64, &mut [u8])) {
    let mut rest = bytes;
    for &(at, len) in parts {
        let (part, after) = rest.split_at_mut(len.min(rest.len()));
        visit(at, part);
        rest = after;
    }
}

fn unproven(what: String) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what} does not match the expected identity: this part of the image was changed"),
    )
}

/// A source whose bytes are verified against a Merkle tree, as far as the tree covers them.
pub(crate) struct ProvenSource {
    inner: Arc<dyn ByteSource>,
    /// Where the image begins in the source.
    start: u64,
    tree: MerkleTree,
    leaves: Vec<Mutex<Leaves>>,
}

impl ProvenSource {
    pub(crate) fn new(inner: Arc<dyn ByteSource>, start: u64, found: &LocatedTree) -> Self {
        Self {
            inner,
            start,
            tree: MerkleTree::new(found, start),
            leaves: (0..CACHE_PARTS).map(|_| Mutex::default()).collect(),
        }
    }

    /// A whole leaf, of which the reader needs a part. It is kept, because the rest is often needed
    /// next.
    fn leaf(&self, leaf: u64) -> io::Result<Arc<Vec<u8>>> {
        let part = &self.leaves[(leaf % CACHE_PARTS) as usize];
        let cache = || part.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, bytes)) = cache().iter().find(|(number, _)| *number == leaf) {
            return Ok(Arc::clone(bytes));
        }
        let mut bytes = vec![0; self.leaf_len(leaf) as usize];
        let read = self.inner.read_at(self.start + leaf * LEAF_LEN, &mut bytes);
        self.prove(leaf, &mut bytes, read)?;
        let bytes = Arc::new(bytes);
        let mut cache = cache();
        if cache.len() >= LEAF_COUNT_MAX {
            cache.remove(0);
        }
        cache.push((leaf, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Fills `buf` with whole leaves from the leaf `first` on: in one read, or leaf by leaf if that
    /// fails.
    fn leaves(&self, first: u64, buf: &mut [u8]) -> io::Result<()> {
        let is_read = self.inner.read_at(self.start + first * LEAF_LEN, buf).is_ok();
        for (leaf, bytes) in (first..).zip(buf.chunks_mut(LEAF_LEN as usize)) {
            let read = match is_read {
                true => Ok(()),
                false => self.inner.read_at(self.start + leaf * LEAF_LEN, bytes),
            };
            self.prove(leaf, bytes, read)?;
        }
        Ok(())
    }

    fn leaf_len(&self, leaf: u64) -> u64 {
        (self.tree.head.covered_len - leaf * LEAF_LEN).min(LEAF_LEN)
    }

    /// Compares a leaf with its hash. `read` is the result of reading it.
    fn prove(&self, leaf: u64, bytes: &mut [u8], read: io::Result<()>) -> io::Result<()> {
        let hash = self.tree.leaf_hash(&self.inner, leaf)?;
        let (at, len) = (self.start + leaf * LEAF_LEN, bytes.len());
        prove_read(&self.inner, &[(at, len)], bytes, read, &hash, || {
            format!("leaf {leaf}, {len} bytes at offset {at},")
        })
    }

    /// The part of `offset..end` that the tree covers, as offsets in the image.
    fn covered(&self, offset: u64, end: u64) -> Range<u64> {
        let covered_len = self.tree.head.covered_len;
        let clamp = |at: u64| at.saturating_sub(self.start).min(covered_len);
        clamp(offset.max(self.start))..clamp(end.max(self.start))
    }
}

impl ByteSource for ProvenSource {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let covered = self.covered(offset, end);
        if covered.is_empty() {
            return self.inner.read_at(offset, buf);
        }
        let first = (self.start + covered.start - offset) as usize;
        let last = (self.start + covered.end - offset) as usize;
        if first > 0 {
            self.inner.read_at(offset, &mut buf[..first])?;
        }
        if last < buf.len() {
            self.inner.read_at(offset + last as u64, &mut buf[last..])?;
        }
        let mut rest = &mut buf[first..last];
        let mut at = covered.start;
        while !rest.is_empty() {
            let (leaf, from) = (at / LEAF_LEN, (at % LEAF_LEN) as usize);
            let whole = rest.len() - rest.len() % LEAF_LEN as usize;
            let len = if from == 0 && whole > 0 {
                self.leaves(leaf, &mut rest[..whole])?;
                whole
            } else {
                let bytes = self.leaf(leaf)?;
                let len = rest.len().min(bytes.len() - from);
                rest[..len].copy_from_slice(&bytes[from..from + len]);
                len
            };
            rest = &mut rest[len..];
            at += len as u64;
        }
        Ok(())
    }

    // No `heal` and no `read_again`: covered bytes were repaired before they were compared.

    fn is_far(&self) -> bool {
        self.inner.is_far()
    }

    /// Leaves are read as a whole, and with the nodes that prove them.
    fn will_need(&self, ranges: &[Range<u64>]) {
        let mut all = Vec::with_capacity(ranges.len() * 2);
        for range in ranges {
            let covered = self.covered(range.start, range.end);
            if covered.is_empty() {
                all.push(range.clone());
                continue;
            }
            let (first, last) = (covered.start / LEAF_LEN, (covered.end - 1) / LEAF_LEN);
            let start = self.start + first * LEAF_LEN;
            let end = self.start + last * LEAF_LEN + self.leaf_len(last);
            all.push(start.min(range.start)..end.max(range.end));
            all.extend(self.tree.nodes_of(first..last + 1));
        }
        self.inner.will_need(&all);
    }

    fn base_len(&self) -> u64 {
        self.inner.base_len()
    }
}
