//! Base64 as in RFC 4648, of names and attributes in archives.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Writers differ in padding, and some leave bits of the last byte set.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes a text, with or without padding; `None` if it has other characters. White space is
/// skipped: XML and headers are wrapped in many ways.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    LENIENT.decode(text).ok()
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
        // Bits that no byte takes.
        assert_eq!(decode(b"Zh==").as_deref(), Some(&b"f"[..]));
        assert_eq!(decode(b"Zm9v_"), None);
    }
}
