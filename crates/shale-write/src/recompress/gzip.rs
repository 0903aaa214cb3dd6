//! Members of gzip files (RFC 1952): where their deflate streams begin.

use shale_deflate::Hint;

/// First bytes of a member whose method is deflate.
pub(crate) const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Bytes after a stream: CRC and length.
pub(crate) const TRAILER_LEN: usize = 8;

const FIXED_LEN: usize = 10;
const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

/// Returns the length of the member's header at the start of `bytes`, and what it says about the
/// effort of the encoder. `None` if no member begins there.
pub(crate) fn header(bytes: &[u8]) -> Option<(usize, Option<Hint>)> {
    let fixed = bytes.get(..FIXED_LEN)?;
    let flags = fixed[3];
    if !fixed.starts_with(&MAGIC) || flags & 0xe0 != 0 {
        return None;
    }
    let mut at = FIXED_LEN;
    if flags & FLAG_EXTRA != 0 {
        let len = bytes.get(at..at + 2)?;
        at += 2 + usize::from(u16::from_le_bytes([len[0], len[1]]));
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            at += memchr::memchr(0, bytes.get(at..)?)? + 1;
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        at += 2;
    }
    let hint = match fixed[8] {
        2 => Some(Hint::Slowest),
        4 => Some(Hint::Fastest),
        _ => None,
    };
    (at < bytes.len()).then_some((at, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_all_fields_are_measured_and_cut_ones_refused() {
        let mut bytes = vec![0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 2, 3];
        bytes.extend_from_slice(&[3, 0, 1, 2, 3]);
        bytes.extend_from_slice(b"name\0comment\0\x11\x22");
        let len = bytes.len();
        bytes.push(3);
        assert_eq!(header(&bytes), Some((len, Some(Hint::Slowest))));
        for cut in 0..=len {
            assert_eq!(header(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(header(b"\x1f\x8b\x08\xe0\0\0\0\0\0\0\0\0"), None);
    }
}
