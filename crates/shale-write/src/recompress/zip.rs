//! Entries of zip files (APPNOTE 6.3): where their deflate streams lie.
//!
//! Only the central directory says so. What is wrong with a zip file is not our business: an entry
//! whose numbers do not fit is passed over, and its bytes are stored as they are.

use std::ops::Range;

const END_MAGIC: [u8; 4] = *b"PK\x05\x06";
const CENTRAL_MAGIC: [u8; 4] = *b"PK\x01\x02";
const LOCAL_MAGIC: [u8; 4] = *b"PK\x03\x04";
const END_LEN: usize = 22;
const CENTRAL_LEN: usize = 46;
const LOCAL_LEN: usize = 30;
/// The longest comment after the end record.
const COMMENT_LEN_MAX: usize = u16::MAX as usize;
const METHOD_STORED: u16 = 0;
const METHOD_DEFLATE: u16 = 8;
const FLAG_ENCRYPTED: u16 = 1;

/// Returns whether a file that begins and ends with these bytes may be a zip file.
pub(crate) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(&LOCAL_MAGIC)
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where its bytes lie.
    pub(crate) range: Range<usize>,
    /// They are a deflate stream, and not stored as they are.
    pub(crate) is_deflated: bool,
}

/// Returns where the bytes of the entries lie that are deflated or stored, ascending and without
/// overlap.
pub(crate) fn entries(bytes: &[u8]) -> Vec<Entry> {
    let mut found = listed(bytes).unwrap_or_default();
    found.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut end = 0;
    found.retain(|entry| {
        let is_next = entry.range.start >= end;
        if is_next {
            end = entry.range.end;
        }
        is_next
    });
    found
}

fn listed(bytes: &[u8]) -> Option<Vec<Entry>> {
    let first_end = bytes.len().saturating_sub(END_LEN + COMMENT_LEN_MAX);
    let end = first_end + memchr::memmem::rfind(&bytes[first_end..], &END_MAGIC)?;
    let mut at = u32_at(bytes, end + 16)? as usize;
    let mut found = Vec::new();
    while at < end && bytes.get(at..at + 4)? == CENTRAL_MAGIC {
        let name_len = usize::from(u16_at(bytes, at + 28)?);
        let extra_len = usize::from(u16_at(bytes, at + 30)?);
        let comment_len = usize::from(u16_at(bytes, at + 32)?);
        found.extend(entry(bytes, at));
        at += CENTRAL_LEN + name_len + extra_len + comment_len;
    }
    Some(found)
}

/// Returns the entry whose central header is at `at`, if it is deflated or stored.
fn entry(bytes: &[u8], at: usize) -> Option<Entry> {
    let method = u16_at(bytes, at + 10)?;
    let is_encrypted = u16_at(bytes, at + 8)? & FLAG_ENCRYPTED != 0;
    let stored_len = u32_at(bytes, at + 20)? as usize;
    let local = u32_at(bytes, at + 42)? as usize;
    let has_local = bytes.get(local..local.checked_add(4)?)? == LOCAL_MAGIC;
    if !matches!(method, METHOD_STORED | METHOD_DEFLATE) || is_encrypted || !has_local {
        return None;
    }
    let name_len = usize::from(u16_at(bytes, local + 26)?);
    let extra_len = usize::from(u16_at(bytes, local + 28)?);
    let start = local + LOCAL_LEN + name_len + extra_len;
    let end = start.checked_add(stored_len)?;
    let is_deflated = method == METHOD_DEFLATE;
    (end <= bytes.len()).then_some(Entry { range: start..end, is_deflated })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One entry `a` with these stored bytes.
    fn zip(stored: &[u8], method: u16, stored_len: u32, local: u32) -> Vec<u8> {
        let mut bytes = LOCAL_MAGIC.to_vec();
        bytes.resize(LOCAL_LEN, 0);
        bytes[26] = 1;
        bytes.push(b'a');
        bytes.extend_from_slice(stored);
        let directory = bytes.len();
        bytes.extend_from_slice(&CENTRAL_MAGIC);
        bytes.resize(directory + CENTRAL_LEN, 0);
        bytes[directory + 10..directory + 12].copy_from_slice(&method.to_le_bytes());
        bytes[directory + 20..directory + 24].copy_from_slice(&stored_len.to_le_bytes());
        bytes[directory + 28] = 1;
        bytes[directory + 42..directory + 46].copy_from_slice(&local.to_le_bytes());
        bytes.push(b'a');
        bytes.extend_from_slice(&END_MAGIC);
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&(directory as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes
    }

    #[test]
    fn streams_are_found_by_the_directory_and_lies_are_passed_over() {
        for (method, is_deflated) in [(0, false), (8, true)] {
            let found = entries(&zip(b"12345", method, 5, 0));
            assert_eq!(found, [Entry { range: 31..36, is_deflated }]);
        }
        assert_eq!(entries(&zip(b"12345", 9, 5, 0)), []);
        assert_eq!(entries(&zip(b"12345", 8, u32::MAX, 0)), []);
        assert_eq!(entries(&zip(b"12345", 8, 5, u32::MAX)), []);
        let whole = zip(b"12345", 8, 5, 0);
        for cut in 0..whole.len() {
            let _ = entries(&whole[..cut]);
        }
    }
}
