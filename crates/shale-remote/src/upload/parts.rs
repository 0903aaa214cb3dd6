//! Pieces of an upload: how contents are cut, and how several pieces are sent at once.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use md5::{Digest, Md5};

use super::contents::Watch;
use crate::error::Reason;
use crate::text;

/// Bytes of a part that is sent, at least. S3 asks for 5 MiB.
pub(super) const PART_LEN_MIN: u64 = 8 << 20;
/// Parts on their way at once. Each is in memory.
const IN_FLIGHT: usize = 4;
/// Bytes that are hashed at once.
const HASH_LEN: usize = 1 << 20;

/// Cuts `range` into at most `parts_max` parts, each as long as the others except the last.
pub(super) fn cut(range: &Range<u64>, parts_max: u64) -> Vec<Range<u64>> {
    let len = (range.end - range.start).div_ceil(parts_max.max(1)).max(PART_LEN_MIN);
    let len = len.next_multiple_of(1 << 20);
    let starts = (range.start..range.end).step_by(len as usize);
    starts.map(|start| start..range.end.min(start + len)).collect()
}

/// Does `send` for each of `parts`, several at once, until one fails. Returns the results in the
/// order of the parts. `send` gets the index of the part, and `len_of` says what it brings.
pub(super) fn send_all<P: Sync, T: Send + Clone + Default>(
    parts: &[P],
    watch: &dyn Watch,
    len_of: &(dyn Fn(&P) -> u64 + Sync),
    send: &(dyn Fn(usize, &P) -> Result<T, Reason> + Sync),
) -> Result<Vec<T>, Reason> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![T::default(); parts.len()]);
    let failed: Mutex<Option<Reason>> = Mutex::new(None);
    let lock_failed = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(part) = parts.get(index) else { return };
            if lock_failed().is_some() {
                return;
            }
            let sent = match watch.is_cancelled() {
                true => Err(Reason::Cancelled),
                false => send(index, part),
            };
            match sent {
                Ok(result) => {
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = result;
                    watch.advance(len_of(part));
                }
                Err(reason) => {
                    lock_failed().get_or_insert(reason);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..IN_FLIGHT.min(parts.len()) {
            // With fewer threads it takes longer, and no more.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(reason) => Err(reason),
        None => Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The bytes of a range of a file.
pub(super) fn read(file: &File, range: &Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// MD5 of bytes, in base64, as HTTP and stores write it. It finds errors of networks and disks, and
/// no forger.
pub(super) fn md5(bytes: &[u8]) -> String {
    text::base64(&Md5::digest(bytes))
}

/// As [`md5`], for a range of a file. Reads all of it.
pub(super) fn md5_of(file: &File, range: &Range<u64>) -> io::Result<String> {
    let mut hasher = Md5::new();
    for start in (range.start..range.end).step_by(HASH_LEN) {
        hasher.update(read(file, &(start..range.end.min(start + HASH_LEN as u64)))?);
    }
    Ok(text::base64(&hasher.finalize()))
}

/// A word that no other upload has.
pub(super) fn mark() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// A number that differs at each call.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_range_and_are_few() {
        for len in [1, PART_LEN_MIN, PART_LEN_MIN + 1, 200 << 30, 4 << 40] {
            let range = 7..7 + len;
            let parts = cut(&range, 10_000);
            assert!(parts.len() <= 10_000);
            let mut at = range.start;
            for part in &parts {
                assert_eq!(part.start, at);
                at = part.end;
            }
            assert_eq!(at, range.end);
            let before_last = &parts[..parts.len() - 1];
            assert!(before_last.iter().all(|part| part.end - part.start >= PART_LEN_MIN));
        }
    }

    #[test]
    fn sums_are_those_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..HASH_LEN as u32 * 2 + 5).map(|n| n as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        assert_eq!(md5_of(&file, &(3..bytes.len() as u64)).unwrap(), md5(&bytes[3..]));
        // RFC 1321, appendix A.5.
        assert_eq!(
            md5(b"message digest"),
            text::base64(b"\xf9\x6b\x69\x7d\x7c\xb7\x93\x8d\x52\x5a\x2f\x31\xaa\xf1\x61\xd0")
        );
    }
}
