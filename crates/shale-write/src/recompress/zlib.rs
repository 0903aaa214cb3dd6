//! Streams of zlib (RFC 1950): a header of two bytes, a deflate stream, and a sum.

use shale_deflate::Hint;

/// Bytes before a deflate stream.
pub(crate) const HEADER_LEN: usize = 2;
/// Bytes after it.
pub(crate) const TRAILER_LEN: usize = 4;

/// Returns what the header at the start of `bytes` says about the effort of the encoder. `None` if
/// no header is there, or if it asks for a dictionary.
pub(crate) fn header(bytes: &[u8]) -> Option<Option<Hint>> {
    let &[method, flags] = bytes.first_chunk::<HEADER_LEN>()?;
    let is_sound = u16::from_be_bytes([method, flags]) % 31 == 0;
    if !is_sound || method & 0x0f != 8 || method >> 4 > 7 || flags & 0x20 != 0 {
        return None;
    }
    Some(match flags >> 6 {
        0 => Some(Hint::Fastest),
        3 => Some(Hint::Slowest),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_zlib_are_taken() {
        assert_eq!(header(&[0x78, 0x01]), Some(Some(Hint::Fastest)));
        assert_eq!(header(&[0x78, 0x9c]), Some(None));
        assert_eq!(header(&[0x78, 0xda]), Some(Some(Hint::Slowest)));
        for bytes in [&[0x78][..], &[0x78, 0x02], &[0x79, 0x9c], &[0x78, 0xbb], b"PK"] {
            assert_eq!(header(bytes), None, "{bytes:?}");
        }
    }
}
