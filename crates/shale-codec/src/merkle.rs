//! Hashes of fixed leaves of a stream, and the tree above them (BLAKE3).
//!
//! The stream comes in pieces of any length. A leaf's hash is the BLAKE3 hash of its bytes, a
//! node's hash is the BLAKE3 hash of the hashes below it. The caller chooses the stream, the length
//! of leaves and the hashes of a node. A top hash alone does not fix the shape of a tree: whoever
//! signs or compares it has to include the length of the stream.

/// A 32-byte hash.
pub type LeafHash = [u8; 32];

/// The BLAKE3 hash of `bytes`.
pub fn leaf_hash(bytes: &[u8]) -> LeafHash {
    *blake3::hash(bytes).as_bytes()
}

/// Returns the hash of `bytes` by BLAKE3 in its key derivation mode, which no other use of BLAKE3
/// gives.
pub fn derive(context: &str, bytes: &[u8]) -> LeafHash {
    blake3::derive_key(context, bytes)
}

/// Hashes the leaves of a stream. Holds 32 bytes for each leaf and one state of BLAKE3.
#[derive(Debug, Clone)]
pub struct LeafHasher {
    leaf_len: usize,
    hasher: blake3::Hasher,
    /// Bytes of the incomplete leaf.
    open_len: usize,
    leaves: Vec<LeafHash>,
}

impl LeafHasher {
    /// Prepares for leaves of `leaf_len` bytes, at least one.
    pub fn new(leaf_len: usize) -> Self {
        let leaf_len = leaf_len.max(1);
        Self { leaf_len, hasher: blake3::Hasher::new(), open_len: 0, leaves: Vec::new() }
    }

    /// Continues after leaves that were hashed before, all of `leaf_len` bytes.
    pub fn after(leaf_len: usize, leaves: Vec<LeafHash>) -> Self {
        Self { leaves, ..Self::new(leaf_len) }
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(self.leaf_len - self.open_len));
            self.open_len += piece.len();
            if self.open_len == piece.len() && piece.len() == self.leaf_len {
                // A whole leaf in one piece is the fast case.
                self.leaves.push(leaf_hash(piece));
                self.open_len = 0;
            } else {
                self.hasher.update(piece);
                if self.open_len == self.leaf_len {
                    self.end_leaf();
                }
            }
            bytes = rest;
        }
    }

    fn end_leaf(&mut self) {
        self.leaves.push(*self.hasher.finalize().as_bytes());
        self.hasher.reset();
        self.open_len = 0;
    }

    /// The hashes of all leaves; the last leaf may be shorter than the others.
    pub fn finish(mut self) -> Vec<LeafHash> {
        if self.open_len > 0 {
            self.end_leaf();
        }
        self.leaves
    }
}

/// Returns all levels of the tree over `leaves`, one after the other from the leaves up. The last
/// hash is the top; one leaf is its own top.
pub fn tree(mut leaves: Vec<LeafHash>, fan_out: usize) -> Vec<LeafHash> {
    let fan_out = fan_out.max(2);
    let mut level = 0..leaves.len();
    while level.len() > 1 {
        for first in level.clone().step_by(fan_out) {
            let node = &leaves[first..(first + fan_out).min(level.end)];
            let hash = leaf_hash(node.as_flattened());
            leaves.push(hash);
        }
        level = level.end..leaves.len();
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| ((n * 7) >> 2) as u8).collect();
        let whole: Vec<LeafHash> = bytes.chunks(64).map(leaf_hash).collect();
        for step in [1, 7, 63, 64, 65, 128, 999, 1000] {
            let mut hasher = LeafHasher::new(64);
            bytes.chunks(step).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.finish(), whole, "pieces of {step}");
        }
        assert!(LeafHasher::new(64).finish().is_empty());
    }

    #[test]
    fn every_leaf_reaches_the_top() {
        let leaves: Vec<LeafHash> = (0..9u8).map(|n| leaf_hash(&[n])).collect();
        let hashes = tree(leaves.clone(), 4);
        assert_eq!(hashes.len(), 9 + 3 + 1);
        assert_eq!(hashes[9], leaf_hash(leaves[..4].as_flattened()));
        assert_eq!(hashes[12], leaf_hash(hashes[9..12].as_flattened()));
        for at in 0..9 {
            let mut other = leaves.clone();
            other[at][0] ^= 1;
            assert_ne!(tree(other, 4).last(), hashes.last());
        }
        assert_eq!(tree(leaves[..1].to_vec(), 4), leaves[..1]);
    }
}
