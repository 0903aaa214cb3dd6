//! A header of a cpio archive: newc and crc in hexadecimal digits, odc in octal ones, and the old
//! binary form in both byte orders.

/// Bytes of the longest header.
pub(super) const HEADER_LEN_MAX: usize = 110;

/// A form of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// "New ASCII", and the one that adds checksums.
    Newc { has_checksum: bool },
    /// POSIX.1.
    Odc,
    /// 16-bit words of the machine that wrote it.
    Binary { is_big_endian: bool },
}

/// What a header says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: u64,
    pub(super) len: u64,
    /// Bytes of the name with its final zero.
    pub(super) name_len: u64,
    /// Device and inode number: files with several names have both in common.
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
    pub(super) link_count: u64,
    /// Number of a device file.
    pub(super) own_device: (u32, u32),
    /// Sum of all bytes of a file, where there is one.
    pub(super) checksum: Option<u32>,
}

/// Returns true if a cpio archive may begin with these bytes.
pub fn is_cpio(head: &[u8]) -> bool {
    Dialect::detect(head).is_some_and(|dialect| dialect.read(head).is_some())
}

impl Dialect {
    /// The form of a header by its magic.
    pub(super) fn detect(head: &[u8]) -> Option<Self> {
        Some(match head {
            [b'0', b'7', b'0', b'7', b'0', b'1', ..] => Self::Newc { has_checksum: false },
            [b'0', b'7', b'0', b'7', b'0', b'2', ..] => Self::Newc { has_checksum: true },
            [b'0', b'7', b'0', b'7', b'0', b'7', ..] => Self::Odc,
            [0xc7, 0x71, ..] => Self::Binary { is_big_endian: false },
            [0x71, 0xc7, ..] => Self::Binary { is_big_endian: true },
            _ => return None,
        })
    }

    /// Bytes of a header.
    pub(super) fn header_len(self) -> usize {
        match self {
            Self::Newc { .. } => HEADER_LEN_MAX,
            Self::Odc => 76,
            Self::Binary { .. } => 26,
        }
    }

    /// What header and name together, and data, are padded to a multiple of.
    pub(super) fn alignment(self) -> u64 {
        match self {
            Self::Newc { .. } => 4,
            Self::Odc => 1,
            Self::Binary { .. } => 2,
        }
    }

    /// Reads the fields of a header; `None` if one is not a number.
    pub(super) fn read(self, head: &[u8]) -> Option<Header> {
        let head = head.get(..self.header_len())?;
        match self {
            Self::Newc { has_checksum } => {
                let mut fields = [0; 13];
                for (field, digits) in fields.iter_mut().zip(head[6..].chunks_exact(8)) {
                    *field = number(digits, 16)? as u32;
                }
                let [inode, mode, uid, gid, link_count, mtime, len, rest @ ..] = fields;
                let [major, minor, own_major, own_minor, name_len, checksum] = rest;
                Some(Header {
                    mode,
                    uid,
                    gid,
                    mtime: mtime.into(),
                    len: len.into(),
                    name_len: name_len.into(),
                    device: (major, minor),
                    inode: inode.into(),
                    link_count: link_count.into(),
                    own_device: (own_major, own_minor),
                    checksum: has_checksum.then_some(checksum),
                })
            }
            Self::Odc => {
                let field = |at: usize, len: usize| number(&head[at..at + len], 8);
                let small = |at: usize| field(at, 6).map(|value| value as u32);
                Some(Header {
                    device: (0, small(6)?),
                    inode: field(12, 6)?,
                    mode: small(18)?,
                    uid: small(24)?,
                    gid: small(30)?,
                    link_count: field(36, 6)?,
                    own_device: parts(small(42)?),
                    mtime: field(48, 11)?,
                    name_len: field(59, 6)?,
                    len: field(65, 11)?,
                    checksum: None,
                })
            }
            Self::Binary { is_big_endian } => {
                let word = |index: usize| {
                    let bytes = [head[2 * index], head[2 * index + 1]];
                    let order = if is_big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
                    u32::from(order(bytes))
                };
                // The high word comes first, whatever the order of bytes.
                let long = |index: usize| u64::from(word(index) << 16 | word(index + 1));
                Some(Header {
                    device: (0, word(1)),
                    inode: word(2).into(),
                    mode: word(3),
                    uid: word(4),
                    gid: word(5),
                    link_count: word(6).into(),
                    own_device: parts(word(7)),
                    mtime: long(8),
                    name_len: word(10).into(),
                    len: long(11),
                    checksum: None,
                })
            }
        }
    }
}

/// Major and minor of a device number of 16 bits.
fn parts(device: u32) -> (u32, u32) {
    (device >> 8, device & 0xff)
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    // Some writers put spaces before digits.
    let digits = digits.trim_ascii_start();
    if digits.is_empty() || !digits.iter().all(|&digit| char::from(digit).is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_in_every_form() {
        let expected = Header {
            mode: 0o100_644,
            uid: 1,
            gid: 2,
            mtime: 0x0102_0304,
            len: 0x0001_0005,
            name_len: 6,
            device: (0, 7),
            inode: 8,
            link_count: 9,
            own_device: (3, 4),
            checksum: None,
        };
        let fields = [8, 0o100_644, 1, 2, 9, 0x0102_0304, 0x0001_0005, 0, 7, 3, 4, 6, 0];
        let newc: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        let newc = "070701".to_owned() + &newc;
        let words: [u16; 13] = [0o070_707, 7, 8, 0o100_644, 1, 2, 9, 0x304, 0x102, 0x304, 6, 1, 5];
        let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        for bytes in [newc.as_bytes(), &little, &big] {
            assert!(is_cpio(bytes));
            let dialect = Dialect::detect(bytes).unwrap();
            assert_eq!(dialect.read(bytes).unwrap(), expected, "{dialect:?}");
            assert!(!is_cpio(&bytes[..bytes.len() - 1]));
        }
        let octal = |value: u64, len: usize| format!("{value:0len$o}");
        let odc = ["070707".to_owned(), octal(7, 6), octal(8, 6), octal(0o100_644, 6), octal(1, 6)];
        let odc = odc.concat() + &octal(2, 6) + &octal(9, 6) + &octal(0x304, 6);
        let odc = odc + &octal(0x0102_0304, 11) + &octal(6, 6) + &octal(0x0001_0005, 11);
        assert_eq!(Dialect::Odc.read(odc.as_bytes()).unwrap(), expected);
        assert!(!is_cpio(odc.replace("070707000007", "07070700000x").as_bytes()));
    }
}
