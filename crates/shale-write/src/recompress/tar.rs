//! Regular files of tar archives: where their bytes lie.
//!
//! A file in an archive may be a container of streams. The sum of each header is compared, and the
//! walk ends at the first one that is wrong.

use std::ops::Range;

/// Bytes of a header; contents are padded to a multiple of it.
pub(crate) const HEADER_LEN: usize = 512;

const SUM: Range<usize> = 148..156;
const SIZE: Range<usize> = 124..136;
const MAGIC: Range<usize> = 257..262;

/// Returns whether a file that begins with these bytes is an archive.
pub(crate) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(MAGIC) == Some(b"ustar") && bytes.first_chunk().is_some_and(has_sum)
}

/// Returns where the bytes of the regular files lie, in order.
pub(crate) fn files(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEADER_LEN>) {
        let Some(len) = size(&header[SIZE]).filter(|_| has_sum(header)) else { break };
        let start = at + HEADER_LEN;
        let Some(end) = start.checked_add(len).filter(|&end| end <= bytes.len()) else { break };
        if matches!(header[156], 0 | b'0' | b'7') && len > 0 {
            found.push(start..end);
        }
        // No overflow: the end is at most the length of a slice.
        at = end.next_multiple_of(HEADER_LEN);
    }
    found
}

/// The sum of all bytes, with spaces in its own place.
fn has_sum(header: &[u8; HEADER_LEN]) -> bool {
    let all: usize = header.iter().map(|&byte| usize::from(byte)).sum();
    let own: usize = header[SUM].iter().map(|&byte| usize::from(byte)).sum();
    octal(&header[SUM]) == Some(all - own + SUM.len() * usize::from(b' '))
}

/// A length in octal digits, or as a big-endian number after a byte 80.
fn size(field: &[u8]) -> Option<usize> {
    match field.split_first()? {
        (0x80, number) => number
            .iter()
            .try_fold(0usize, |sum, &byte| sum.checked_mul(256)?.checked_add(usize::from(byte))),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Option<usize> {
    let digits = field.trim_ascii_start();
    let len = digits.iter().position(|byte| !(b'0'..=b'7').contains(byte));
    let (digits, rest) = digits.split_at(len.unwrap_or(digits.len()));
    let ends = rest.iter().all(|byte| matches!(byte, 0 | b' '));
    let is_number = !digits.is_empty() && digits.len() <= 12 && ends;
    is_number.then(|| digits.iter().fold(0, |sum, byte| sum * 8 + usize::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(size: &[u8], kind: u8) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[0] = b'a';
        header[MAGIC].copy_from_slice(b"ustar");
        header[SIZE][..size.len()].copy_from_slice(size);
        header[156] = kind;
        header[SUM].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header
    }

    #[test]
    fn files_are_found_up_to_the_first_wrong_header() {
        let mut bytes = header(b"00000000003", b'0').to_vec();
        bytes.resize(1024, b'x');
        bytes.extend_from_slice(&header(b"00000000010", b'x'));
        bytes.resize(2048, b'y');
        bytes.extend_from_slice(&header(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0], 0));
        bytes.resize(3072, b'z');
        bytes.extend_from_slice(&header(b"00000000000", b'0'));
        let end = bytes.len();
        bytes.resize(end + 1024, 0);
        assert!(is_tar(&bytes));
        let expected = [Range { start: 512, end: 515 }, Range { start: 2560, end: 3072 }];
        assert_eq!(files(&bytes), expected);
        let lie = header(b"77777777777", b'0');
        assert!(files(&lie).is_empty() && is_tar(&lie));
        let lie = header(&[0x80, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255], b'0');
        assert!(files(&lie).is_empty());
        bytes[1024] ^= 1;
        assert_eq!(files(&bytes), expected[..1]);
        for cut in 0..bytes.len() {
            files(&bytes[..cut]);
        }
    }
}
