//! Bodies about trust: identity, parity and repair, signatures, check, damage.

use super::mend_sums;
use crate::walk::{facts, small_options};
use shale::{CheckLevel, CheckOptions, NoProgress, Subset, check};
use shale_codec::signature::{SecretKey, is_signed};
use shale_codec::xxh3_64;
use shale_format::merkle::{Identity, LEAF_LEN};
use shale_format::parity::{PARITY_HEAD_LEN, PARITY_MAGIC, ParityHead};
use shale_format::{MerkleHead, Signature};
use shale_read::trust::parity::{LeafRepair, LeafStore, encode_chunk, find};
use shale_read::{ByteSource, Image, MemorySource};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An image of a few KiB of every kind of inode, and the same with parity.
const WHOLE: [&[u8]; 2] = [
    include_bytes!("../../../../testdata/images/0.2-tiny.shale"),
    include_bytes!("../../../../testdata/images/0.2-parity.shale"),
];

/// Any bytes as the head of a Merkle tree, and as an image that is read under the identity which it
/// claims to have. What is proven is never another answer than what is not, and no other identity
/// opens it.
pub fn identity(bytes: &[u8]) {
    if let Ok(head) = MerkleHead::decode(bytes, 1 << 30, bytes.len() as u64) {
        assert_eq!(head.shape().payload_len(), bytes.len() as u64);
        assert_eq!(head.encode(), bytes[..head.encode().len()]);
    }
    let mut image = bytes.to_vec();
    mend_sums(&mut image);
    let source = Arc::new(MemorySource::new(image));
    let Ok(opened) = Image::open(source.clone(), small_options()) else { return };
    let Ok(Some((_, identity))) = opened.identity() else { return };
    let expecting = |expect: Identity| small_options().expect(expect);
    let mut other = identity;
    other.0[31] ^= 1;
    assert!(Image::open(source.clone(), expecting(other)).is_err(), "another identity opens it");
    let (Ok(proven), Ok(free)) =
        (facts(source.clone(), expecting(identity)), facts(source, small_options()))
    else {
        return;
    };
    for (question, answer) in &proven.answers {
        let same = free.answers.get(question).is_none_or(|other| other == answer);
        assert!(same, "{question:?} has two answers");
    }
}

/// Leaves in memory.
struct Memory<'m> {
    source: &'m MemorySource,
    start: u64,
    repaired: HashMap<u64, Vec<u8>>,
}

impl LeafStore for Memory<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let (leaf, within) = (offset / LEAF_LEN, (offset % LEAF_LEN) as usize);
        match self.repaired.get(&leaf).and_then(|bytes| bytes.get(within..within + buf.len())) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => self.source.read_at(self.start + offset, buf),
        }
    }

    fn repaired(&mut self, leaf: u64, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        assert_eq!(offset, leaf * LEAF_LEN);
        assert!(!bytes.is_empty() && bytes.len() as u64 <= LEAF_LEN);
        self.repaired.insert(leaf, bytes.to_vec());
        Ok(())
    }
}

/// Any bytes as an image with a parity section: found, compared, repaired. Sums of its heads and
/// chunks are made right first. What is repaired has the hash that it should have, and nothing is
/// repaired that was said to be lost.
pub fn parity(bytes: &[u8]) {
    let mut image = bytes.to_vec();
    mend_sums(&mut image);
    mend_parity(&mut image);
    let source = MemorySource::new(image);
    let Some(parity) = find(&source, None, None) else { return };
    let mut store = Memory { source: &source, start: parity.start(), repaired: HashMap::new() };
    let run = AtomicBool::new(false);
    let scan = |store: &Memory<'_>| parity.scan(store, 1, &run, &|_| ()).expect("nobody cancels");
    let before = scan(&store);
    let lost = parity.beyond(&before);
    assert!(lost.is_subset(&before.leaves));
    let mut left = before.clone();
    parity.repair(&mut store, &mut left, &mut |_| ()).expect("memory takes every leaf");
    assert!(lost.is_subset(&left.leaves), "more was repaired than could be");
    assert_eq!(scan(&store).leaves, left.leaves, "what was repaired is not what it should be");
    assert_eq!(store.repaired.len(), before.leaves.len() - left.leaves.len());
    // One leaf at a time, as readers ask: the same are lost.
    for &leaf in before.leaves.iter().take(4) {
        store.repaired.clear();
        let found = parity.repair_leaf(&mut store, leaf, &(leaf..leaf + 1), 1);
        match found.expect("memory takes every leaf") {
            LeafRepair::Whole => assert!(store.repaired.contains_key(&leaf)),
            LeafRepair::Lost(all) => assert!(all.contains(&leaf) && all.is_subset(&lost)),
            // The hashes are of other bytes than the parity.
            LeafRepair::Changed => assert!(!lost.contains(&leaf)),
        }
    }
}

/// Makes the sums of parity heads and of the chunks of their tables right.
fn mend_parity(image: &mut [u8]) {
    let mut at = 0;
    let mut heads = 0;
    while heads < 8
        && let Some(found) = image[at..].windows(8).position(|window| window == PARITY_MAGIC)
    {
        let from = at + found;
        let Some(head) = image.get_mut(from..from + PARITY_HEAD_LEN) else { return };
        let sum = xxh3_64(&head[..PARITY_HEAD_LEN - 8]).to_le_bytes();
        head[PARITY_HEAD_LEN - 8..].copy_from_slice(&sum);
        let decoded = ParityHead::decode(head, xxh3_64);
        if let Ok((head, layout, offset)) = decoded
            && let Some(start) = (from as u64).checked_sub(offset)
            && let Some(zone) = layout.zones.iter().position(|zone| start + zone == from as u64)
        {
            mend_chunks(image, from + PARITY_HEAD_LEN, &head, &layout, zone as u64);
        }
        at = from + 8;
        heads += 1;
    }
}

fn mend_chunks(
    image: &mut [u8],
    first: usize,
    head: &ParityHead,
    layout: &shale_format::parity::ParityLayout,
    zone: u64,
) {
    for index in 0..layout.chunk_count.min(64) {
        let len = head.chunk_len as usize;
        let Some(chunk) =
            image.get_mut(first + index as usize * len..).and_then(|b| b.get_mut(..len))
        else {
            return;
        };
        let mut right = Vec::with_capacity(len);
        encode_chunk(zone * layout.chunk_count + index, &chunk[16..], &mut right);
        chunk.copy_from_slice(&right);
    }
}

/// Any bytes as a signature, and as an image that has some. A signature is right for what was
/// signed with its key, and for nothing else.
pub fn signature(bytes: &[u8]) {
    if let Ok(Some(signature)) = Signature::decode(bytes) {
        assert_eq!(signature.encode(), bytes);
        let message = Signature::message(&signature.identity);
        // Any bytes may be a right signature by chance of 2^-128 only, so these are seeds.
        let right = is_signed(&signature.public_key, &message, &signature.signature);
        let mut other = message;
        other[51] ^= 1;
        assert!(!right || !is_signed(&signature.public_key, &other, &signature.signature));
        let ours = SecretKey::new(&[7; 32]);
        assert!(is_signed(&ours.public(), &message, &ours.sign(&message)));
    }
    let mut image = bytes.to_vec();
    mend_sums(&mut image);
    if let Ok(image) = Image::open(Arc::new(MemorySource::new(image)), small_options()) {
        let _ = shale::signatures(&image);
    }
}

/// Any bytes as an image that is checked, at a level and in parts that the last byte chooses. What
/// a check says agrees with itself.
pub fn check_image(bytes: &[u8]) {
    let choice = bytes.last().copied().unwrap_or_default();
    let mut image = bytes.to_vec();
    mend_sums(&mut image);
    let source = Arc::new(MemorySource::new(image));
    let level = CheckLevel::ALL[usize::from(choice % 4)];
    let subset = match choice / 4 % 4 {
        0 => Subset::new(1, 2),
        1 => Subset::new(2, 2),
        _ => None,
    };
    let options = CheckOptions::default()
        .level(level)
        .subset(subset.unwrap_or(Subset::ALL))
        .threads(1)
        .cache_bytes_max(8 << 20);
    let Ok(report) = check(source, &options, &NoProgress) else { return };
    assert_eq!(report.is_clean(), report.problem_count == 0);
    assert_eq!(report.is_clean(), report.advice().is_empty());
    assert!(report.problems.len() as u64 <= report.problem_count);
    assert!(report.is_complete() && report.damaged_paths.len() as u64 <= report.damaged_path_count);
    for problem in &report.problems {
        assert!(problem.touches.paths.len() as u64 <= problem.touches.path_count);
    }
}

/// Damages a whole image as the bytes say, five for each damage: kind, place, length or value. Each
/// answer is one of the whole image; where it has parity and one block is hit, all are given.
pub fn damage_then_read(bytes: &[u8]) {
    let Some((choice, damages)) = bytes.split_first() else { return };
    let has_parity = choice % 2 == 1;
    let whole = WHOLE[usize::from(has_parity)];
    let mut damaged = whole.to_vec();
    for damage in damages.chunks_exact(5).take(16) {
        let [kind, a, b, c, amount] = *damage else { return };
        if damaged.is_empty() {
            break;
        }
        let at = u32::from_le_bytes([a, b, c, 0]) as usize % damaged.len();
        let end = (at + 1 + usize::from(amount) * (1 + usize::from(kind / 8))).min(damaged.len());
        match kind % 6 {
            0 => damaged[at] ^= amount,
            1 => damaged[at..end].fill(amount),
            2 => damaged.truncate(at),
            3 => damaged.copy_within(at..end, (at / 2).min(at)),
            4 => damaged[at..end].reverse(),
            _ => drop(damaged.splice(at..at, [amount])),
        }
    }
    if damaged == whole {
        return;
    }
    thread_local! {
        static TRUTH: crate::walk::Facts = crate::damage::truth(WHOLE[0]);
    }
    TRUTH.with(|truth| {
        let source = Arc::new(MemorySource::new(damaged.as_slice()));
        if let Ok(found) = facts(source.clone(), small_options()) {
            found.judge(truth).expect("an answer of a damaged image is one of the whole image");
        }
        let options = CheckOptions::default().threads(1);
        if let Ok(report) = check(source, &options, &NoProgress) {
            // What is clean is whole, with its parity or without, before or after other data.
            let (at, len) = (report.offset as usize, report.image_len as usize);
            let is_plain = WHOLE.iter().any(|whole| damaged.get(at..at + len) == Some(whole));
            assert!(!report.is_clean() || is_plain, "check finds nothing");
        }
    });
}
