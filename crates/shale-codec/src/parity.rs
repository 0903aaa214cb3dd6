//! Parity over shards of equal length: a Reed–Solomon code over GF(2^16).
//!
//! `data_count` shards of data give `parity_count` shards of parity, and any `data_count` of all
//! these shards give the lost data back. The code works on columns: a piece of 64 bytes (or a
//! multiple) from the same position of every shard is coded without the others. So a caller with
//! too little memory for whole shards codes them slice by slice, with the same result. The code is
//! the "high rate" one of Leopard (Lin, Al-Naffouri, Han, Chung: "Novel Polynomial Basis With Fast
//! Fourier Transform and Its Application to Reed–Solomon Erasure Codes", 2016), from the crate
//! `reed-solomon-simd`. A test compares it with fixed values, as images depend on them. Which
//! shards are lost is for the caller to know, by their sums.

use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{
    HighRate, HighRateDecoder, HighRateEncoder, Rate, RateDecoder, RateEncoder,
};
use thiserror::Error;

/// The length of a slice must be a multiple of this.
pub const SLICE_STEP: usize = 64;

/// Why shards were not coded: the caller gave wrong counts or lengths.
#[derive(Debug, Error, PartialEq)]
#[error("parity: {0}")]
pub struct ParityError(#[from] reed_solomon_simd::Error);

/// Reports whether a group of these sizes can be coded: at most 65,536 shards in all, where parity
/// counts as the next power of two.
pub fn is_supported(data_count: usize, parity_count: usize) -> bool {
    <HighRate<DefaultEngine> as Rate<DefaultEngine>>::supports(data_count, parity_count)
}

/// Memory for decoding one slice, in slices. Encoding needs half of it or less.
pub fn work_shards(data_count: usize, parity_count: usize) -> usize {
    (data_count + parity_count.next_power_of_two()).next_power_of_two()
}

/// Computes parity.
pub struct ParityEncoder(HighRateEncoder<DefaultEngine>);

impl ParityEncoder {
    /// Prepares for slices of `slice_len` bytes, an even number.
    ///
    /// # Errors
    /// [`is_supported`] is false for these counts, or the length is odd or 0.
    pub fn new(
        data_count: usize,
        parity_count: usize,
        slice_len: usize,
    ) -> Result<Self, ParityError> {
        let engine = DefaultEngine::new();
        Ok(Self(HighRateEncoder::new(data_count, parity_count, slice_len, engine, None)?))
    }

    /// Adds the slice of the next shard of data.
    ///
    /// # Errors
    /// All shards were added, or the slice has another length.
    pub fn add(&mut self, slice: &[u8]) -> Result<(), ParityError> {
        Ok(self.0.add_original_shard(slice)?)
    }

    /// Passes the slices of all shards of parity to `put`, in order, and gets ready for the next
    /// slices.
    ///
    /// # Errors
    /// Some shards of data were not added.
    pub fn finish(&mut self, mut put: impl FnMut(usize, &[u8])) -> Result<(), ParityError> {
        let result = self.0.encode()?;
        for (index, slice) in result.recovery_iter().enumerate() {
            put(index, slice);
        }
        Ok(())
    }
}

/// Computes lost data from the rest.
pub struct ParityDecoder(HighRateDecoder<DefaultEngine>);

impl ParityDecoder {
    /// Prepares for slices of `slice_len` bytes, an even number.
    ///
    /// # Errors
    /// [`is_supported`] is false for these counts, or the length is odd or 0.
    pub fn new(
        data_count: usize,
        parity_count: usize,
        slice_len: usize,
    ) -> Result<Self, ParityError> {
        let engine = DefaultEngine::new();
        Ok(Self(HighRateDecoder::new(data_count, parity_count, slice_len, engine, None)?))
    }

    /// Adds the slice of a shard of data that is not lost.
    ///
    /// # Errors
    /// There is no such shard, it was added, or the slice has another length.
    pub fn add_data(&mut self, index: usize, slice: &[u8]) -> Result<(), ParityError> {
        Ok(self.0.add_original_shard(index, slice)?)
    }

    /// Adds the slice of a shard of parity that is not lost.
    ///
    /// # Errors
    /// As for [`ParityDecoder::add_data`].
    pub fn add_parity(&mut self, index: usize, slice: &[u8]) -> Result<(), ParityError> {
        Ok(self.0.add_recovery_shard(index, slice)?)
    }

    /// Passes the slices of the shards of data that were not added to `put`, and gets ready for the
    /// next slices.
    ///
    /// # Errors
    /// Fewer shards were added than there are of data.
    pub fn finish(&mut self, mut put: impl FnMut(usize, &[u8])) -> Result<(), ParityError> {
        let result = self.0.decode()?;
        for (index, slice) in result.restored_original_iter() {
            put(index, slice);
        }
        Ok(())
    }
}

impl std::fmt::Debug for ParityEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ParityEncoder")
    }
}

impl std::fmt::Debug for ParityDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ParityDecoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(count: usize, len: usize) -> Vec<Vec<u8>> {
        let byte = |shard: usize, at: usize| (shard * 31 + at * 7 + shard * at) as u8;
        (0..count).map(|shard| (0..len).map(|at| byte(shard, at)).collect()).collect()
    }

    fn encode(data: &[Vec<u8>], parity_count: usize) -> Vec<Vec<u8>> {
        let len = data[0].len();
        let mut encoder = ParityEncoder::new(data.len(), parity_count, len).unwrap();
        data.iter().for_each(|shard| encoder.add(shard).unwrap());
        let mut parity = Vec::new();
        encoder.finish(|_, slice| parity.push(slice.to_vec())).unwrap();
        parity
    }

    #[test]
    fn the_code_is_the_one_that_images_were_written_with() {
        // Three counts, so that the first, full and last partial blocks of the transform are met.
        let sums = [(1, 1), (5, 3), (40, 6)].map(|(data_count, parity_count)| {
            crate::xxh3_64(&encode(&data(data_count, 192), parity_count).concat())
        });
        assert_eq!(sums, [10134735875383274160, 8175369132411268034, 9809194293222721475]);
        // One shard's parity is the shard.
        assert_eq!(encode(&data(1, 64), 1), data(1, 64));
    }

    #[test]
    fn slices_give_what_whole_shards_give() {
        let shards = data(9, 320);
        let whole = encode(&shards, 4);
        for from in (0..320).step_by(SLICE_STEP) {
            let slices: Vec<Vec<u8>> =
                shards.iter().map(|shard| shard[from..from + SLICE_STEP].to_vec()).collect();
            for (slice, shard) in encode(&slices, 4).iter().zip(&whole) {
                assert_eq!(*slice, shard[from..from + SLICE_STEP]);
            }
        }
    }

    #[test]
    fn as_many_shards_are_restored_as_there_is_parity() {
        let shards = data(20, 128);
        let parity = encode(&shards, 5);
        for first in 0..20 {
            let lost: Vec<usize> = (0..5).map(|n| (first + n * 3) % 20).collect();
            let mut decoder = ParityDecoder::new(20, 5, 128).unwrap();
            for (index, shard) in shards.iter().enumerate() {
                if !lost.contains(&index) {
                    decoder.add_data(index, shard).unwrap();
                }
            }
            for (index, shard) in parity.iter().enumerate().skip(1) {
                decoder.add_parity(index, shard).unwrap();
            }
            assert!(decoder.finish(|_, _| ()).is_err(), "one is missing");
            decoder.add_parity(0, &parity[0]).unwrap();
            let mut found = 0;
            let put = |index: usize, slice: &[u8]| {
                assert_eq!(slice, shards[index]);
                assert!(lost.contains(&index));
                found += 1;
            };
            decoder.finish(put).unwrap();
            assert_eq!(found, 5);
        }
    }
}
