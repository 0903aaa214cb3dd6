//! The filter for 64-bit ARM: `BL` (calls) and `ADRP` (addresses of pages).
//!
//! Instructions are four bytes at multiples of four, so steps do not overlap, and no step changes
//! the bits by which it is found: both directions are the same walk.
//!
//! All calls are rewritten. Page addresses are rewritten only within 512 MiB either way, which
//! few programs exceed and most other bytes that look like an `ADRP` do.

/// `BL`: six bits of opcode, 26 bits of distance in instructions.
const CALL: u32 = 0x9400_0000;
const CALL_DISTANCE: u32 = 0x03FF_FFFF;

/// `ADRP`: one bit 1, two low bits of the distance, five bits of opcode, 19 high bits, register.
const PAGE: u32 = 0x9000_0000;
const PAGE_OPCODE: u32 = 0x9F00_0000;

/// Distances in pages within this either way are rewritten.
const PAGE_RANGE: u32 = 1 << 17;

/// The bits of a distance in pages.
const PAGE_DISTANCE: u32 = 0x001F_FFFF;

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
        // Counted in instructions. What wraps here wraps back when it is reversed.
        let place = (start / 4 + index) as u32;
        let word = u32::from_le_bytes(*chunk);
        if word & !CALL_DISTANCE == CALL {
            let moved = word.wrapping_add(sign(place)) & CALL_DISTANCE;
            *chunk = (CALL | moved).to_le_bytes();
        } else if word & PAGE_OPCODE == PAGE {
            let distance = (word >> 29 & 3) | (word >> 3 & 0x001F_FFFC);
            let shifted = distance.wrapping_add(PAGE_RANGE) & PAGE_DISTANCE;
            if shifted < 2 * PAGE_RANGE {
                // 1024 instructions to a page.
                let moved = shifted.wrapping_add(sign(place >> 10)) & (2 * PAGE_RANGE - 1);
                let distance = moved.wrapping_sub(PAGE_RANGE) & PAGE_DISTANCE;
                let kept = word & (PAGE_OPCODE | 0x1F);
                *chunk = (kept | (distance & 3) << 29 | (distance & !3) << 3).to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_function_become_equal() {
        // BL from instruction 0 to 0x100, and from 0x10 to 0x100.
        let mut bytes = vec![0; 0x80];
        bytes[..4].copy_from_slice(&0x9400_0100u32.to_le_bytes());
        bytes[0x40..0x44].copy_from_slice(&0x9400_00F0u32.to_le_bytes());
        let plain = bytes.clone();
        apply(&mut bytes);
        assert_eq!(bytes[..4], bytes[0x40..0x44]);
        reverse(&mut bytes, 0);
        assert_eq!(bytes, plain);
    }

    #[test]
    fn addresses_of_one_page_become_equal() {
        // ADRP x0 from page 0 to page 5, and from page 2 to page 5 (distance 3).
        let mut bytes = vec![0; 0x3000];
        bytes[..4].copy_from_slice(&0xB000_0020u32.to_le_bytes());
        bytes[0x2000..0x2004].copy_from_slice(&0xF000_0000u32.to_le_bytes());
        let plain = bytes.clone();
        apply(&mut bytes);
        assert_eq!(bytes[..4], bytes[0x2000..0x2004]);
        reverse(&mut bytes, 0);
        assert_eq!(bytes, plain);
    }
}
