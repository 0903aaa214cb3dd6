//! Base64 as in RFC 4648, of names and attributes in archives.

/// Decodes a text, with or without padding; `None` if it has other characters. White space is
/// skipped: XML and headers are wrapped in many ways.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for &byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => continue,
            _ if byte.is_ascii_whitespace() => continue,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_with_and_without_padding_or_refused() {
        // The vectors of RFC 4648, section 10.
        for (text, plain) in [("", ""), ("Zg==", "f"), ("Zg", "f"), ("Zm9v\r\nYmE", "fooba")] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(plain.as_bytes()), "{text}");
        }
        assert_eq!(decode(b"+/8"), Some(vec![0xFB, 0xFF]));
        assert_eq!(decode(b"Zm9v_"), None);
    }
}
