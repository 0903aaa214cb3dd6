//! Sketches: what a frame is made of, as a sample of the short windows in it.
//!
//! A window is [`WINDOW_LEN`] bytes; the sample keeps those whose rolling hash begins with
//! `rate_log2` zero bits, so
//! that equal bytes are sampled alike wherever they lie. The share of a frame's fingerprints that
//! another frame
//! has too (its *containment*, not its whole-frame resemblance) says what the other is worth as a
//! reference.
//! One pass, about 1 GB/s; 8 bytes for each 2^`rate_log2` bytes of input.

use crate::segment::index::{GEAR, key_of64};

/// Bytes hashed into one fingerprint.
pub const WINDOW_LEN: usize = 32;

/// Largest number of equal fingerprints a frame keeps of a run of periodic data is one:
/// fingerprints are a set.
pub fn sketch_of(plain: &[u8], rate_log2: u32, out: &mut Vec<u64>) {
    let rate_log2 = rate_log2.clamp(1, 24);
    let shift = 32 - rate_log2;
    let begin = out.len();
    // Bit j of the gear hash depends on the last j + 1 bytes, so its low 32 bits on the last 32.
    let mut gear = 0u32;
    for (i, &byte) in plain.iter().enumerate() {
        gear = (gear << 1).wrapping_add(GEAR[usize::from(byte)] as u32);
        if gear >> shift == 0 && i + 1 >= WINDOW_LEN {
            out.push(key_of64(&plain[i + 1 - WINDOW_LEN..=i]));
        }
    }
    out[begin..].sort_unstable();
    let mut kept = begin;
    for at in begin..out.len() {
        if kept == begin || out[kept - 1] != out[at] {
            out[kept] = out[at];
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// The sampling rate for an image of `plain_bytes` when sketches may take `bytes_max`: one window
/// in
/// 2^result bytes, from 64 to 4096. [`crate::refer`] needs about 24 bytes a fingerprint.
pub fn rate_log2_for(plain_bytes: u64, bytes_max: u64) -> u32 {
    let mut rate_log2 = 6;
    while rate_log2 < 12 && (plain_bytes >> rate_log2).saturating_mul(24) > bytes_max {
        rate_log2 += 1;
    }
    rate_log2
}
