//! One directory record.

use shale_format::Timestamp;

use super::date;
use crate::tree::le;

/// Bytes of a record without its name.
const HEAD_LEN: usize = 33;
const FLAG_DIRECTORY: u8 = 2;
const FLAG_ASSOCIATED: u8 = 4;
/// The next record goes on with the same file.
const FLAG_CONTINUES: u8 = 0x80;

/// A directory record.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// Name as it is stored; one zero byte for the directory itself, a byte 1 for its parent.
    pub(super) name: Vec<u8>,
    /// The sector in which its bytes begin.
    pub(super) start: u64,
    pub(super) len: u64,
    /// Sectors of an extended attribute record before its bytes.
    pub(super) attributes_len: u8,
    /// Place and length stand in it twice, in both byte orders, and differ.
    pub(super) contradicts_itself: bool,
    pub(super) is_directory: bool,
    /// It is the resource fork of another file.
    pub(super) is_associated: bool,
    pub(super) continues: bool,
    pub(super) is_interleaved: bool,
    pub(super) mtime: Option<Timestamp>,
    /// What follows the name: fields of Rock Ridge.
    pub(super) system: Vec<u8>,
}

impl Record {
    /// Reads the record at the beginning of `bytes`, which end where it ends; `None` if it is
    /// corrupt.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD_LEN)?;
        let name_len = usize::from(head[32]);
        let name = bytes.get(HEAD_LEN..HEAD_LEN + name_len)?.to_vec();
        // The name is padded so that the fields begin at an even byte.
        let system_at = (HEAD_LEN + name_len).next_multiple_of(2);
        let flags = head[25];
        Some(Self {
            start: le(&head[2..6]) + u64::from(head[1]),
            attributes_len: head[1],
            len: le(&head[10..14]),
            contradicts_itself: differ(&[&head[2..10], &head[10..18]]),
            is_directory: flags & FLAG_DIRECTORY != 0,
            is_associated: flags & FLAG_ASSOCIATED != 0,
            continues: flags & FLAG_CONTINUES != 0,
            is_interleaved: head[26] != 0 || head[27] != 0,
            mtime: date::short(&head[18..25]),
            system: bytes.get(system_at..).unwrap_or_default().to_vec(),
            name,
        })
    }

    /// Returns true for the record of the directory itself, which comes first.
    pub(super) fn is_self(&self) -> bool {
        self.name[..] == [0]
    }

    /// Returns true for the records of the directory itself and of its parent.
    pub(super) fn is_dot(&self) -> bool {
        matches!(self.name[..], [0 | 1])
    }
}

/// Whether one of these numbers of 4 bytes differs from itself in the other byte order (ECMA-119,
/// 7.3.3). Some programs leave all of the second ones to zeroes.
pub(super) fn differ(numbers: &[&[u8]]) -> bool {
    let mut halves = numbers.iter().map(|both| both.split_at(4));
    let has_second = halves.clone().any(|(_, big)| big != [0; 4]);
    has_second && halves.any(|(little, big)| !little.iter().eq(big.iter().rev()))
}

/// Whether a sector begins with an extended attribute record (ECMA-119, 9.5): owner and group are
/// the same in both byte orders, and its version is 1.
pub(super) fn begins_with_attributes(sector: &[u8]) -> bool {
    const VERSION_AT: usize = 180;
    let is_same = |both: &[u8]| both[0] == both[3] && both[1] == both[2];
    sector.get(VERSION_AT) == Some(&1) && is_same(&sector[..4]) && is_same(&sector[4..8])
}

/// A name without Rock Ridge: without its version, and without a dot that nothing follows.
pub(super) fn plain_name(name: &[u8]) -> Vec<u8> {
    let name = match name.iter().rposition(|&byte| byte == b';') {
        Some(at) if at > 0 && name[at + 1..].iter().all(u8::is_ascii_digit) => &name[..at],
        _ => name,
    };
    name.strip_suffix(b".").filter(|name| !name.is_empty()).unwrap_or(name).to_vec()
}

/// A name of Joliet in UTF-8, without its version; `None` if it is not valid UTF-16.
pub(super) fn joliet_name(name: &[u8]) -> Option<Vec<u8>> {
    let units = name.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let name: String = char::decode_utf16(units).collect::<Result<_, _>>().ok()?;
    let version = name.rfind(';').filter(|at| *at > 0 && name[at + 1..].parse::<u16>().is_ok());
    Some(name.as_bytes()[..version.unwrap_or(name.len())].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_versions() {
        for (given, expected) in [
            ("A.TXT;1", "A.TXT"),
            ("README.;1", "README"),
            ("X", "X"),
            (".", "."),
            (";1", ";1"),
            ("A;x", "A;x"),
        ] {
            assert_eq!(plain_name(given.as_bytes()), expected.as_bytes());
        }
        let utf16 =
            |name: &str| -> Vec<u8> { name.encode_utf16().flat_map(u16::to_be_bytes).collect() };
        assert_eq!(joliet_name(&utf16("über 語.txt;1")).unwrap(), "über 語.txt".as_bytes());
        assert_eq!(joliet_name(&utf16("a;b")).unwrap(), b"a;b");
        assert_eq!(joliet_name(&[0xd8, 0]), None);
    }

    #[test]
    fn numbers_that_differ_in_their_byte_orders_are_seen() {
        let mut bytes = vec![0; 34];
        bytes[32] = 1;
        let contradicts = |bytes: &[u8]| Record::parse(bytes).unwrap().contradicts_itself;
        bytes[2..10].copy_from_slice(&[1, 2, 3, 4, 4, 3, 2, 1]);
        assert!(!contradicts(&bytes));
        bytes[10..14].copy_from_slice(&[5, 0, 0, 0]);
        assert!(contradicts(&bytes));
        bytes[17] = 5;
        assert!(!contradicts(&bytes));
        bytes[16] = 1;
        assert!(contradicts(&bytes));
        bytes[16] = 0;
        bytes[2] ^= 8;
        assert!(contradicts(&bytes));
        bytes[6..10].fill(0);
        bytes[14..18].fill(0);
        assert!(!contradicts(&bytes), "all second ones may be left out");
    }

    #[test]
    fn attribute_records_are_recognised() {
        let mut sector = [0; 2048];
        assert!(!begins_with_attributes(&sector) && !begins_with_attributes(&sector[..100]));
        sector[180] = 1;
        sector[..8].copy_from_slice(&[1, 2, 2, 1, 7, 0, 0, 7]);
        assert!(begins_with_attributes(&sector));
        sector[5] = 1;
        assert!(!begins_with_attributes(&sector));
    }

    #[test]
    fn a_record_that_is_cut_is_none() {
        let mut bytes = vec![0; 36];
        bytes[32] = 3;
        bytes[33..36].copy_from_slice(b"abc");
        assert_eq!(Record::parse(&bytes).unwrap().name, b"abc");
        assert!(Record::parse(&bytes[..35]).is_none() && Record::parse(&bytes[..20]).is_none());
    }
}
