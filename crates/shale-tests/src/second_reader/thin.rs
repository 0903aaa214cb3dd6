//! A thin image and its base as one image, by appendix E of the specification.

use shale_codec::merkle::derive;
use shale_codec::xxh3_64;

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Joins a thin image with its base, which begins with the first byte of `base`. `None` if a head
/// is not as the specification says, or the base is another.
pub fn join(thin: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let superblock = thin.get(..64)?;
    let right = superblock[..8] == [0x8b, 0x53, 0x48, 0x41, 0x4c, 0x45, 0x0d, 0x0a]
        && xxh3_64(&superblock[..56]) == u64_at(superblock, 56)?
        && superblock[8..16] == [0, 0, 4, 0, 0, 0, 0, 0]
        && u64_at(superblock, 24)? == 1;
    let header = thin.get(64..128)?;
    let right = right
        && header[..16] == [0x8b, 0x53, 0x45, 0x43, 0x54, 0x4e, 0x0d, 0x0a, 9, 0, 0, 0, 0, 0, 0, 0]
        && xxh3_64(&header[..56]) == u64_at(header, 56)?
        && u64_at(header, 16)? == 64
        && u64_at(header, 24)? == u64_at(header, 32)?
        && header[40..48] == superblock[32..40];
    let record_len = usize::try_from(u64_at(header, 24)?).ok().filter(|len| *len <= 303)?;
    let record = thin.get(128..128 + record_len)?;
    let name_len = usize::from(u16::from_le_bytes([*record.get(40)?, *record.get(41)?]));
    let base_len = usize::try_from(u64_at(record, 0)?).ok().filter(|len| *len >= 192)?;
    let right = right
        && xxh3_64(record) == u64_at(header, 48)?
        && record.get(42..48)? == [0; 6]
        && record.len() == 48 + name_len;
    // The base: the state that ends there has the same image ID, and the identity.
    let base = base.get(..base_len)?;
    let trailer = &base[base_len - 128..];
    let right = right
        && base[32..48] == superblock[32..48]
        && trailer[104..120] == superblock[32..48]
        && u64_at(trailer, 16)? == base_len as u64 - 128
        && xxh3_64(&trailer[64..]) == u64_at(trailer, 48)?;
    let merkle = usize::try_from(u64_at(trailer, 120)?).ok().filter(|offset| *offset > 0)?;
    let head = base.get(merkle.checked_add(64)?..)?.get(..64)?;
    let identity = derive("ShaleFS image identity 1", head);
    let is_it = right && record.get(8..40)? == &identity[..];
    is_it.then(|| [base, &thin[128 + record_len..]].concat())
}
