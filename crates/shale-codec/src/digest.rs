//! Checksums and hashes.
//!
//! XXH3 (64 and 128 bits) detects damage. It is fast, and not safe against someone who wants a
//! collision. BLAKE3 identifies contents: it is safe against that, at a tenth of the speed. Both
//! take bytes at once or in pieces. The format says which one is used where.

pub use blake3::{Hash, Hasher, hash};

/// Returns the XXH3 sum of `bytes` in 64 bits, with seed 0.
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Returns the XXH3 sum of `bytes` in 128 bits, with seed 0.
pub fn xxh3_128(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}

/// XXH3 over bytes that come in pieces. The result is that of one call over all of them. Holds
/// about half a KiB.
#[derive(Clone, Default)]
pub struct Xxh3(xxhash_rust::xxh3::Xxh3Default);

impl Xxh3 {
    /// Starts with no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The 64-bit sum of all bytes added so far.
    pub fn sum_64(&self) -> u64 {
        self.0.digest()
    }

    /// The 128-bit sum of all bytes added so far.
    pub fn sum_128(&self) -> u128 {
        self.0.digest128()
    }

    /// Starts over with no bytes.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

impl std::fmt::Debug for Xxh3 {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Xxh3").field("sum_64", &self.sum_64()).finish()
    }
}

impl std::io::Write for Xxh3 {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_published_algorithms() {
        // The empty input's values, as published with XXH3 and BLAKE3.
        assert_eq!(xxh3_64(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(xxh3_128(b""), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
        assert!(hash(b"").to_hex().starts_with("af1349b9f5f9a1a6a0404dea36dcc949"));
    }

    #[test]
    fn pieces_give_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0..5000u32).map(|n| ((n * n) >> 3) as u8).collect();
        for cut in [0, 1, 16, 17, 128, 240, 241, 1024, 4999, 5000] {
            let mut sum = Xxh3::new();
            sum.update(b"forgotten");
            sum.reset();
            sum.update(&bytes[..cut]);
            sum.update(&bytes[cut..]);
            assert_eq!(sum.sum_64(), xxh3_64(&bytes));
            assert_eq!(sum.sum_128(), xxh3_128(&bytes));
        }
    }
}
