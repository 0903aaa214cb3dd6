//! One block of a tar archive as a header: fields, numbers, dialects.
//!
//! Numbers are octal digits with spaces or a zero byte around them, or binary where the first bit
//! is set. The sum is compared before any field is believed; as some old programs summed signed
//! bytes, either sum is right.

use shale_format::Timestamp;

/// Bytes of a block; everything in an archive is a multiple of it.
pub(super) const BLOCK_LEN: usize = 512;

/// A header's bytes.
pub(super) type Block = [u8; BLOCK_LEN];

/// Dialect of a header: it decides where fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The first one: no magic.
    V7,
    /// POSIX.1-1988 and PAX.
    Ustar,
    /// GNU.
    Gnu,
    /// star before it took up ustar.
    OldStar,
    /// star in the clothes of ustar.
    Star,
}

/// What a header says, before extended headers overrule it.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) dialect: Dialect,
    pub(super) type_flag: u8,
    pub(super) name: Vec<u8>,
    pub(super) link_name: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: Number,
    pub(super) gid: Number,
    pub(super) stored_len: Number,
    pub(super) mtime: Number,
    pub(super) atime: Option<i64>,
    pub(super) ctime: Option<i64>,
    pub(super) device_major: Number,
    pub(super) device_minor: Number,
}

/// A number field, or why it is none. Whether that matters is known only later: an extended header
/// may replace it.
pub(super) type Number = Result<i64, &'static str>;

/// Returns true if an archive may begin with these bytes: with a header whose checksum is right, or
/// with zeroes only, as an empty archive.
pub fn is_tar(head: &[u8]) -> bool {
    match head.first_chunk::<BLOCK_LEN>() {
        Some(block) => {
            let start = head.first_chunk::<{ 2 * BLOCK_LEN }>();
            is_header(block) || start.is_some_and(|start| start.iter().all(|&byte| byte == 0))
        }
        None => false,
    }
}

/// Returns true if these bytes begin with a header whose checksum is right.
pub(crate) fn begins_with_header(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK_LEN>().is_some_and(is_header)
}

/// Returns true if the block's checksum is that of its bytes.
pub(super) fn is_header(block: &Block) -> bool {
    let Ok(sum) = number(&block[148..156]) else { return false };
    let spaces = 8 * i64::from(b' ');
    let outside = || block[..148].iter().chain(&block[156..]);
    let unsigned: i64 = outside().map(|&byte| i64::from(byte)).sum::<i64>() + spaces;
    let signed: i64 = outside().map(|&byte| i64::from(byte as i8)).sum::<i64>() + spaces;
    let is_blank = block.iter().all(|&byte| byte == 0);
    !is_blank && (sum == unsigned || sum == signed)
}

impl Header {
    /// Reads the fields of a block whose sum is right.
    pub(super) fn read(block: &Block) -> Self {
        let dialect = dialect(block);
        let (mut atime, mut ctime) = (None, None);
        let prefix = match dialect {
            Dialect::V7 => &[],
            Dialect::Ustar | Dialect::OldStar => text(&block[345..500]),
            Dialect::Gnu => {
                // Only incremental archives fill these in.
                atime = number(&block[345..357]).ok().filter(|&time| time != 0);
                ctime = number(&block[357..369]).ok().filter(|&time| time != 0);
                &[]
            }
            Dialect::Star => {
                atime = number(&block[476..488]).ok();
                ctime = number(&block[488..500]).ok();
                text(&block[345..476])
            }
        };
        let has_map = block[156] == b'S';
        let name = text(&block[..100]);
        // Where the map of holes is, there is no room for more than one byte of prefix.
        let name = match prefix {
            [] => name.to_vec(),
            _ if has_map && dialect != Dialect::Ustar => name.to_vec(),
            prefix => [prefix, b"/", name].concat(),
        };
        Self {
            dialect,
            type_flag: block[156],
            name,
            link_name: text(&block[157..257]).to_vec(),
            mode: number(&block[100..108]).map_or(0, |mode| mode as u32 & 0o7777),
            uid: number(&block[108..116]),
            gid: number(&block[116..124]),
            stored_len: number(&block[124..136]),
            mtime: number(&block[136..148]),
            atime,
            ctime,
            device_major: number(&block[329..337]),
            device_minor: number(&block[337..345]),
        }
    }
}

fn dialect(block: &Block) -> Dialect {
    let is_star = block[508..] == *b"tar\0";
    match &block[257..265] {
        b"ustar  \0" => Dialect::Gnu,
        [b'u', b's', b't', b'a', b'r', ..] if is_star => Dialect::Star,
        [b'u', b's', b't', b'a', b'r', ..] => Dialect::Ustar,
        _ if is_star => Dialect::OldStar,
        _ => Dialect::V7,
    }
}

/// Bytes up to the first zero byte.
pub(super) fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    &field[..end]
}

/// A number field.
pub(super) fn number(field: &[u8]) -> Number {
    match field.first() {
        Some(0x80..) => binary(field),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Number {
    let digits = text(field).trim_ascii();
    let mut value: i64 = 0;
    for &digit in digits {
        if !(b'0'..=b'7').contains(&digit) {
            return Err("is not a number");
        }
        value = value
            .checked_mul(8)
            .and_then(|value| value.checked_add(i64::from(digit - b'0')))
            .ok_or("is a number beyond 63 bits")?;
    }
    Ok(value)
}

/// Big-endian in two's complement; the first bit only says that it is binary, the second is the
/// sign.
fn binary(field: &[u8]) -> Number {
    let negative = field[0] & 0x40 != 0;
    let mut value: i128 = if negative { -1 } else { 0 };
    for (at, &byte) in field.iter().enumerate() {
        let byte = match at {
            0 if negative => byte | 0x80,
            0 => byte & 0x7f,
            _ => byte,
        };
        value = value << 8 | i128::from(byte);
    }
    i64::try_from(value).map_err(|_| "is a number beyond 63 bits")
}

/// A point in time of whole seconds.
pub(super) fn seconds(sec: i64) -> Timestamp {
    Timestamp { sec, nsec: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_writers_are_read() {
        assert_eq!(number(b"0000644\0"), Ok(0o644));
        assert_eq!(number(b"   644 \0"), Ok(0o644));
        assert_eq!(number(b"777777777777"), Ok(0o777_777_777_777));
        assert_eq!(number(b"\0\0\0\0"), Ok(0));
        assert_eq!(number(&[0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]), Ok(0x7fff_ffff));
        assert_eq!(number(&[0xff; 12]), Ok(-1));
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]), Ok(-2));
        assert!(number(b"12x4").is_err());
        assert!(number(&[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
