//! A rolling hash that selects windows by their bytes alone, and a hash of a window.

/// The gear table: 256 fixed pseudo-random words (splitmix64 of the byte value).
pub static GEAR: [u64; 256] = gear_table();

const fn gear_table() -> [u64; 256] {
    let mut table = [0u64; 256];
    let mut i = 0;
    while i < 256 {
        let mut z = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        table[i] = z ^ (z >> 31);
        i += 1;
    }
    table
}

/// Returns a 64-bit hash of a window: multiply and fold over words of 8 bytes.
pub fn key_of64(window: &[u8]) -> u64 {
    let mut hash = 0x243F_6A88_85A3_08D3 ^ window.len() as u64;
    let (words, rest) = window.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), 0x9E37_79B9_7F4A_7C15);
    }
    for &byte in rest {
        hash = fold(hash ^ u64::from(byte), 0xD6E8_FEB8_6659_FD93);
    }
    fold(hash, 0xA076_1D64_78BD_642F)
}

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}
