//! Entries in temporary storage, in few bytes and one pass.
//!
//! A record holds a key, attributes and a link target. The key is the path with zero bytes instead
//! of slashes, so keys of one depth sort as their components do. In a block, each record stores how
//! it differs from the one before: the start of the key is shared, and attributes are stored only
//! where they change. The program that wrote the blocks reads them back, but they are not trusted:
//! a block that does not parse is an error.

use std::ops::Range;

use shale_format::{InodeKind, Timestamp};

use crate::plan::error::WriteError;

/// An entry without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Number of the entry in the source. Of two entries with one path the later one stays.
    pub(crate) sequence: u64,
    /// Content id of a file, number of a device, count of directories in a directory; otherwise 0.
    pub(crate) payload: u64,
    /// Link slot, or [`NONE`].
    pub(crate) link: u32,
    pub(crate) attributes: Attributes,
}

/// Fields that inodes near each other mostly share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attributes {
    pub(crate) mode: u16,
    /// A directory that a path implies and no entry gives.
    pub(crate) implied: bool,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Number of the set of extended attributes, or [`NONE`].
    pub(crate) xattrs: u32,
    /// mtime, atime, ctime and btime; the epoch where not kept.
    pub(crate) times: [Timestamp; 4],
}

/// No link, no set of attributes.
pub(crate) const NONE: u32 = u32::MAX;

impl Record {
    /// Returns the kind of the inode.
    pub(crate) fn kind(&self) -> InodeKind {
        // Modes are made only of kinds.
        InodeKind::from_mode(u32::from(self.attributes.mode)).unwrap_or(InodeKind::File)
    }
}

/// Returns the record of a directory without an entry: mode 0755, times at the epoch.
pub(crate) fn implied_directory(sequence: u64) -> Record {
    let mode = (InodeKind::Directory.mode_bits() | 0o755) as u16;
    let attributes = Attributes { mode, implied: true, xattrs: NONE, ..Attributes::default() };
    Record { sequence, payload: 0, link: NONE, attributes }
}

/// Returns the next slot, or an error if none is left.
pub(crate) fn slot(count: usize, what: &'static str, path: &[u8]) -> Result<u32, WriteError> {
    let max = u64::from(NONE) - 1;
    u32::try_from(count).ok().filter(|&slot| slot != NONE).ok_or_else(|| WriteError::Limit {
        path: path.to_vec(),
        what,
        found: count as u64,
        max,
    })
}

/// Returns the name in a key.
pub(crate) fn name_of(key: &[u8]) -> &[u8] {
    key.rsplit(|&byte| byte == 0).next().unwrap_or(key)
}

/// Returns the key of the parent directory; empty for the root.
pub(crate) fn parent_of(key: &[u8]) -> &[u8] {
    key.iter().rposition(|&byte| byte == 0).map_or(&[], |at| &key[..at])
}

/// Returns the path of a key.
pub(crate) fn path_of(key: &[u8]) -> Vec<u8> {
    key.iter().map(|&byte| if byte == 0 { b'/' } else { byte }).collect()
}

const SAME_ATTRIBUTES: u8 = 1;
const PAYLOAD_ZERO: u8 = 2;
const PAYLOAD_NEXT: u8 = 4;
const SEQUENCE_NEXT: u8 = 8;
const HAS_LINK: u8 = 16;
const HAS_TARGET: u8 = 32;

/// Writes the records of a block.
#[derive(Debug, Default)]
pub(crate) struct RecordWriter {
    pub(crate) bytes: Vec<u8>,
    key: Vec<u8>,
    record: Record,
}

impl RecordWriter {
    /// Adds a record.
    pub(crate) fn push(&mut self, key: &[u8], record: &Record, target: &[u8]) {
        let before = &self.record;
        let mut flags = 0;
        if record.attributes == before.attributes {
            flags |= SAME_ATTRIBUTES;
        }
        if record.payload == 0 {
            flags |= PAYLOAD_ZERO;
        } else if record.payload == before.payload.wrapping_add(1) {
            flags |= PAYLOAD_NEXT;
        }
        if record.sequence == before.sequence.wrapping_add(1) {
            flags |= SEQUENCE_NEXT;
        }
        if record.link != NONE {
            flags |= HAS_LINK;
        }
        if !target.is_empty() {
            flags |= HAS_TARGET;
        }
        let shared = shared_len(&self.key, key);
        let out = &mut self.bytes;
        out.push(flags);
        put(out, shared as u64);
        put(out, (key.len() - shared) as u64);
        out.extend_from_slice(&key[shared..]);
        if flags & SAME_ATTRIBUTES == 0 {
            let Attributes { mode, implied, uid, gid, xattrs, times } = record.attributes;
            put(out, u64::from(mode) << 1 | u64::from(implied));
            put(out, u64::from(uid));
            put(out, u64::from(gid));
            put(out, u64::from(xattrs.wrapping_add(1)));
            for (time, before) in times.iter().zip(before.attributes.times) {
                let change = time.sec.wrapping_sub(before.sec);
                put(out, (change << 1 ^ change >> 63).cast_unsigned());
                put(out, u64::from(time.nsec));
            }
        }
        if flags & (PAYLOAD_ZERO | PAYLOAD_NEXT) == 0 {
            put(out, record.payload);
        }
        if flags & SEQUENCE_NEXT == 0 {
            put(out, record.sequence);
        }
        if flags & HAS_LINK != 0 {
            put(out, u64::from(record.link));
        }
        if flags & HAS_TARGET != 0 {
            put(out, target.len() as u64);
            out.extend_from_slice(target);
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(&key[shared..]);
        self.record = *record;
    }

    /// Returns the block so far and begins the next one.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.key.clear();
        self.record = Record::default();
        std::mem::take(&mut self.bytes)
    }
}

/// Reads the records of one block after the other.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    bytes: Vec<u8>,
    at: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) record: Record,
    target: Range<usize>,
}

impl RecordReader {
    /// Returns the buffer of the last block, to be filled with the next one.
    pub(crate) fn next_block(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.at = 0;
        self.key.clear();
        self.record = Record::default();
        &mut self.bytes
    }

    /// Returns the link target of the current record.
    pub(crate) fn target(&self) -> &[u8] {
        &self.bytes[self.target.clone()]
    }

    /// Goes to the next record; returns false at the end of the block.
    ///
    /// # Errors
    /// [`WriteError::TemporaryFileDamaged`] where the block does not parse.
    pub(crate) fn advance(&mut self) -> Result<bool, WriteError> {
        if self.at == self.bytes.len() {
            return Ok(false);
        }
        self.parse().ok_or(WriteError::TemporaryFileDamaged)
    }

    fn parse(&mut self) -> Option<bool> {
        let flags = *self.bytes.get(self.at)?;
        self.at += 1;
        let shared = self.number()? as usize;
        let rest = self.span()?;
        if shared > self.key.len() {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(&self.bytes[rest]);
        if flags & SAME_ATTRIBUTES == 0 {
            let mode = self.number()?;
            let mut attributes = Attributes {
                mode: (mode >> 1) as u16,
                implied: mode & 1 != 0,
                uid: self.number()? as u32,
                gid: self.number()? as u32,
                xattrs: (self.number()? as u32).wrapping_sub(1),
                times: self.record.attributes.times,
            };
            for time in &mut attributes.times {
                let change = self.number()?;
                let change = (change >> 1).cast_signed() ^ -(change & 1).cast_signed();
                time.sec = time.sec.wrapping_add(change);
                time.nsec = self.number()? as u32;
            }
            self.record.attributes = attributes;
        }
        self.record.payload = if flags & PAYLOAD_ZERO != 0 {
            0
        } else if flags & PAYLOAD_NEXT != 0 {
            self.record.payload.wrapping_add(1)
        } else {
            self.number()?
        };
        self.record.sequence = if flags & SEQUENCE_NEXT != 0 {
            self.record.sequence.wrapping_add(1)
        } else {
            self.number()?
        };
        self.record.link = if flags & HAS_LINK != 0 { self.number()? as u32 } else { NONE };
        self.target = if flags & HAS_TARGET != 0 { self.span()? } else { 0..0 };
        Some(true)
    }

    fn span(&mut self) -> Option<Range<usize>> {
        let len = self.number()? as usize;
        let start = self.at;
        let end = start.checked_add(len).filter(|&end| end <= self.bytes.len())?;
        self.at = end;
        Some(start..end)
    }

    fn number(&mut self) -> Option<u64> {
        get(&self.bytes, &mut self.at)
    }
}

/// Appends a number with seven bits a byte.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number that [`put`] wrote.
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Returns how many bytes two keys share at the start.
fn shared_len(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (at, (a, b)) in a_words.iter().zip(b_words).enumerate() {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return at * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    let whole = a_words.len().min(b_words.len()) * 8;
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_as_written() {
        let time = |sec, nsec| Timestamp { sec, nsec };
        let mut attributes =
            Attributes { mode: 0o100644, uid: 7, xattrs: NONE, ..Default::default() };
        let plain = Record { sequence: 1, payload: 0, link: NONE, attributes };
        attributes.times =
            [time(-5, 999_999_999), time(i64::MIN, 0), time(i64::MAX, 1), time(0, 0)];
        attributes.xattrs = 3;
        attributes.implied = true;
        let odd = Record { sequence: 900, payload: u64::MAX, link: 4, attributes };
        let records: [(&[u8], Record, &[u8]); 5] = [
            (b"", plain, b""),
            (b"a\0file-1", Record { sequence: 2, payload: 1, ..plain }, b""),
            (b"a\0file-1\0longer", odd, b"../target"),
            (b"a\0file-2", Record { sequence: 901, payload: 0, ..odd }, b""),
            (b"b", plain, b"x"),
        ];
        let mut writer = RecordWriter::default();
        for (key, record, target) in &records {
            writer.push(key, record, target);
        }
        let mut reader = RecordReader::default();
        let block = writer.take();
        *reader.next_block() = block.clone();
        for (key, record, target) in &records {
            assert!(reader.advance().unwrap());
            assert_eq!((&reader.key[..], &reader.record, reader.target()), (*key, record, *target));
        }
        assert!(!reader.advance().unwrap());
        // A block that is cut anywhere is an error or has fewer records; it never panics.
        for len in 0..block.len() {
            *reader.next_block() = block[..len].to_vec();
            while let Ok(true) = reader.advance() {}
        }
    }
}
