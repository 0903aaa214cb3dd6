//! Bytes as hexadecimal text, and back.

/// Returns two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of exactly `2 * LEN` digits of either case; `None` for any other text.
pub fn decode<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * LEN {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: u8| char::from(at).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}
