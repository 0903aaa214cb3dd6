//! Packs of git (gitformat-pack): where the objects begin.

/// First bytes of a pack of version 2.
pub(crate) const PACK_MAGIC: [u8; 8] = *b"PACK\0\0\0\x02";

const HEADER_LEN: usize = 12;
const OFFSET_DELTA: u8 = 6;
const REFERENCE_DELTA: u8 = 7;
/// Bytes of the name of an object.
const NAME_LEN: usize = 20;

/// Where the first object of a pack begins, and the number of objects.
pub(crate) fn pack(bytes: &[u8]) -> Option<(usize, u32)> {
    let count = bytes.strip_prefix(&PACK_MAGIC)?.first_chunk::<4>()?;
    Some((HEADER_LEN, u32::from_be_bytes(*count)))
}

/// Length of the header of the object at the start of `bytes`: a zlib stream follows it.
pub(crate) fn object_header_len(bytes: &[u8]) -> Option<usize> {
    let kind = bytes.first()? >> 4 & 7;
    let len = varint_len(bytes)?;
    match kind {
        1..=4 => Some(len),
        OFFSET_DELTA => Some(len + varint_len(&bytes[len..])?),
        REFERENCE_DELTA => Some(len + NAME_LEN),
        _ => None,
    }
}

/// Length of a number of which each byte but the last has its highest bit set.
fn varint_len(bytes: &[u8]) -> Option<usize> {
    Some(bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_kinds_are_measured() {
        assert_eq!(pack(b"PACK\0\0\0\x02\0\0\x01\x02rest"), Some((12, 258)));
        assert_eq!(pack(b"PACK\0\0\0\x03\0\0\x01\x02rest"), None);
        assert_eq!(object_header_len(&[0x35]), Some(1));
        assert_eq!(object_header_len(&[0xb5, 0x81, 0x01]), Some(3));
        assert_eq!(object_header_len(&[0x65, 0x81, 0x01]), Some(3));
        assert_eq!(object_header_len(&[0x75, 0x81]), Some(21));
        assert_eq!(object_header_len(&[0x55, 0x81]), None);
        assert_eq!(object_header_len(&[0xff; 30]), None);
    }
}
