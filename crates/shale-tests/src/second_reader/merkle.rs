//! The Merkle tree of an image, by appendix A of the specification: all of it, from the leaves up.

use shale_codec::merkle::{derive, leaf_hash};

const LEAF_LEN: usize = 65_536;

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn place(value: u64) -> Option<usize> {
    usize::try_from(value).ok()
}

/// Computes all hashes of the bytes that the tree of the image covers, and compares them with those
/// that the image stores. Returns the identity, and how many runs of hashes the tree has; no runs
/// if its section has all of them. `None` if anything is not as the specification says.
pub fn identity(image: &[u8]) -> Option<([u8; 32], usize)> {
    let trailer = image.get(image.len().checked_sub(128)?..)?;
    let section = place(u64_at(trailer, 64 + 56)?).filter(|offset| *offset > 0)?;
    let header = image.get(section..section + 64)?;
    let (kind, payload_len) = (header[8], place(u64_at(header, 24)?)?);
    let payload = image.get(section + 64..section + 64 + payload_len)?;
    let head = payload.get(..64)?;
    let covered = image.get(..place(u64_at(head, 0)?)?)?;
    let is_right = header[9..16] == [0; 7]
        && covered.len() <= section
        && head[24..32] == [0, 0, 1, 0, 0, 1, 0, 0]
        && u64_at(head, 8)? == u64_at(trailer, 64)?
        && u64_at(head, 16)? == u64_at(trailer, 72)?;

    let mut level: Vec<[u8; 32]> = covered.chunks(LEAF_LEN).map(leaf_hash).collect();
    let mut hashes = level.clone();
    while level.len() > 1 {
        level = level.chunks(256).map(|node| leaf_hash(node.as_flattened())).collect();
        hashes.extend_from_slice(&level);
    }

    let mut stored = Vec::new();
    let mut run_count = 0;
    match kind {
        7 => stored.extend_from_slice(&payload[64..]),
        11 => {
            run_count = usize::from(payload[64]) + 256 * usize::from(payload[65]);
            let is_list = payload[66..72] == [0; 6] && (1..=1024).contains(&run_count);
            let list = payload.get(72..72 + 16 * run_count).filter(|_| is_list)?;
            for run in list.chunks(16) {
                let (offset, count) = (place(u64_at(run, 0)?)?, place(u64_at(run, 8)?)?);
                let end = offset.checked_add(count.checked_mul(32)?)?;
                let is_inside = count > 0 && end <= section + 64 + payload_len;
                stored.extend_from_slice(image.get(offset..end).filter(|_| is_inside)?);
            }
        }
        _ => return None,
    }
    let is_whole = is_right && stored == hashes.as_flattened() && head[32..] == level[0];
    is_whole.then(|| (derive("ShaleFS image identity 1", head), run_count))
}
