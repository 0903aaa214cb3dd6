//! The filter of arrays, undone as chapter 9.2 of the specification says, byte by byte.

/// The plain bytes of an array form, whose three bytes of shape are at the front.
pub fn undo(stored: &[u8]) -> Option<Vec<u8>> {
    let (&[width, count, ways], form) = stored.split_first_chunk()?;
    let (width, count) = (usize::from(width), usize::from(count));
    if !matches!(width, 1 | 2 | 4 | 8) || count == 0 || width * count > 255 {
        return None;
    }
    let record_len = width * count;
    let mut plain = vec![0; form.len()];
    let whole = match ways >> 4 {
        0 => 0,
        1 => form.len() / record_len * record_len,
        2 => form.len() / record_len / 8 * 8 * record_len,
        _ => return None,
    };
    let records = whole / record_len;
    for at in 0..form.len() {
        let (record, byte) = (at / record_len, at % record_len);
        plain[at] = match ways >> 4 {
            _ if at >= whole => form[at],
            1 => form[byte * records + record],
            _ => {
                let plane = |bit: usize| form[(byte * 8 + bit) * (records / 8) + record / 8];
                (0..8).fold(0, |sum, bit| sum | (plane(bit) >> (record % 8) & 1) << bit)
            }
        };
    }
    if !matches!(ways & 15, 0..=3) {
        return None;
    }
    let elements = plain.len() / width;
    for element in count..elements {
        let mut carry = 0;
        for place in 0..width {
            let big = ways & 15 == 2;
            let at = element * width + if big { width - 1 - place } else { place };
            let before = plain[at - record_len];
            match ways & 15 {
                0 => {}
                3 => plain[at] ^= before,
                _ => {
                    let sum = u16::from(plain[at]) + u16::from(before) + carry;
                    plain[at] = sum as u8;
                    carry = sum >> 8;
                }
            }
        }
    }
    if ways & 15 == 3 {
        for at in (elements * width).max(record_len)..plain.len() {
            plain[at] ^= plain[at - record_len];
        }
    }
    Some(plain)
}
