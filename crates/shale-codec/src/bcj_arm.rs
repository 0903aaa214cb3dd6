//! The filter for 32-bit ARM: `BL` with the condition "always".
//!
//! Instructions are four bytes at multiples of four, so steps do not overlap, and no step changes
//! the byte by which it is found. Thumb code, with units of two bytes, is not looked at.

/// The condition "always" and the opcode of `BL`; the other 24 bits are the distance in
/// instructions.
const CALL: u32 = 0xEB00_0000;
const CALL_DISTANCE: u32 = 0x00FF_FFFF;

/// Replaces distances by positions.
pub(crate) fn apply(bytes: &mut [u8]) {
    walk(bytes, 0, |place| place);
}

/// Replaces positions by distances in a part of the bytes that begins at `start`, a multiple of
/// four.
pub(crate) fn reverse(bytes: &mut [u8], start: usize) {
    walk(bytes, start, u32::wrapping_neg);
}

fn walk(bytes: &mut [u8], start: usize, sign: impl Fn(u32) -> u32) {
    for (index, chunk) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let word = u32::from_le_bytes(*chunk);
        if word & !CALL_DISTANCE == CALL {
            // Counted in instructions. What wraps here wraps back when it is reversed.
            let moved = word.wrapping_add(sign((start / 4 + index) as u32)) & CALL_DISTANCE;
            *chunk = (CALL | moved).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_function_become_equal() {
        let mut bytes = vec![0; 0x80];
        bytes[..4].copy_from_slice(&0xEB00_0100u32.to_le_bytes());
        bytes[0x40..0x44].copy_from_slice(&0xEB00_00F0u32.to_le_bytes());
        let plain = bytes.clone();
        apply(&mut bytes);
        assert_eq!(bytes[..4], bytes[0x40..0x44]);
        reverse(&mut bytes, 0);
        assert_eq!(bytes, plain);
    }

    #[test]
    fn a_last_part_of_an_instruction_is_left_alone() {
        let mut bytes = [0, 0, 0, 0, 0x01, 0, 0xEB];
        apply(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0x01, 0, 0xEB]);
    }
}
