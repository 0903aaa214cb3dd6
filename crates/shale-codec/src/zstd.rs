//! Zstd, both directions.
//!
//! A frame has the form of RFC 8878 without its magic number, content size, checksum and dictionary
//! ID: the image knows the length, keeps its own sums, and has prefixes instead of dictionaries.
//! The prefix is raw content, whatever it looks like. The window covers prefix and frame, so every
//! decoder that knows of the missing magic number can decode it, streaming or not.
//!
//! From level 13 on, where zstd sorts what it has seen into trees, most of the time is spent on the
//! prefix: 0.1 to 0.15 s a MiB, whatever the frame's length. Python sources in frames of 256 KiB at
//! level 19 took 5.2 MB/s without a prefix, 4.4 with as much prefix as frame, 1.5 with four times
//! and 0.9 with eight times as much.
//!
//! Levels 19 to 22 differ in nothing that shows below some 8 MiB of prefix and frame, and nothing
//! in [`ZstdOptions`] was found that makes frames of 256 KiB smaller than level 19 does, at any
//! price. `strategy=btultra` costs 0.1 % of size and saves a third of the time where there is no
//! prefix, and nothing where there is a long one. What did help is done here for all: hash tables
//! of an eighth of the window for the levels with trees, in place of up to twice the window. Sizes
//! are the same to 1 in 10,000, memory is 15 to 45 % less, and speed is up to 20 % more on sources
//! with prefixes, the same within the noise elsewhere.
//!
//! The decoder works in one pass into the caller's memory. It never allocates a window, so it does
//! not matter which window a damaged frame claims.

use std::fmt;

use zstd_safe::{CParameter, DParameter, FrameFormat};

#[cfg(doc)]
use crate::ZstdOptions;
use crate::lengths::{append, reserve, wrong_len};
use crate::zstd_sys::{Compressor, Decompressor, Parameters, Strategy, context_len, parameters};
use crate::{Codec, CodecError, Settings, ZstdStrategy};

const CODEC: Codec = Codec::Zstd;

/// A context counts positions in 32 bits over all its frames and folds them over when they run
/// out, which may show in the output. A new context well before that keeps the output the same
/// whatever came before.
const CONTEXT_BYTES_MAX: u64 = 1 << 30;

/// The logarithm of eight: of a prefix, zstd looks at no more than the last eight bytes for each
/// entry of its hash table.
const PREFIX_LOG: u32 = 3;

/// The smallest hash table that the levels with trees are given; smaller ones cost speed.
const TREE_HASH_LOG_MIN: u32 = 17;

/// Zstd's largest tables and windows.
const LOG_MAX: u32 = 30;

pub(crate) struct ZstdEncoder {
    settings: Settings,
    compressor: Compressor,
    /// Bytes that the compressor was given since it was made.
    seen_bytes: u64,
    /// Prefix and frame end to end, kept for its memory.
    joined: Vec<u8>,
}

impl ZstdEncoder {
    pub(crate) fn new(settings: Settings) -> Result<ZstdEncoder, CodecError> {
        let compressor = new_compressor()?;
        Ok(ZstdEncoder { settings, compressor, seen_bytes: 0, joined: Vec::new() })
    }

    pub(crate) fn encode(
        &mut self,
        prefix: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let total_len = (prefix.len() + plain.len()) as u64;
        if self.seen_bytes != 0 && self.seen_bytes + total_len > CONTEXT_BYTES_MAX {
            self.compressor = new_compressor()?;
            self.seen_bytes = 0;
        }
        self.seen_bytes += total_len;
        // A prefix that ends where the frame starts makes one run of bytes for the match finder,
        // which is faster than two. The match finder looks at addresses for that; copying makes
        // it always so, and not only when the caller's memory happens to lie that way.
        let (prefix, plain) = if prefix.is_empty() {
            (prefix, plain)
        } else {
            self.joined.clear();
            reserve(CODEC, prefix.len() + plain.len(), &mut self.joined)?;
            append(CODEC, prefix, &mut self.joined)?;
            append(CODEC, plain, &mut self.joined)?;
            self.joined.split_at(prefix.len())
        };
        let room = zstd_safe::compress_bound(plain.len());
        reserve(CODEC, room, out)?;
        let chosen = choose(&self.settings, plain.len(), prefix.len());
        let parameters = [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
            CParameter::CompressionLevel(self.settings.level),
            CParameter::WindowLog(chosen.windowLog),
            CParameter::HashLog(chosen.hashLog),
            CParameter::ChainLog(chosen.chainLog),
            CParameter::SearchLog(chosen.searchLog),
            CParameter::MinMatch(chosen.minMatch),
            CParameter::TargetLength(chosen.targetLength),
            CParameter::Strategy(chosen.strategy),
        ];
        match self.compressor.compress(&parameters, prefix, plain, out, room) {
            Ok(_) => Ok(()),
            Err(code) => {
                let detail = zstd_safe::get_error_name(code).to_owned();
                Err(CodecError::Encode { codec: CODEC, detail })
            }
        }
    }
}

fn new_compressor() -> Result<Compressor, CodecError> {
    Compressor::new().ok_or(CodecError::OutOfMemory { codec: CODEC, len: 0 })
}

/// The level's parameters for these lengths, with a window that covers prefix and frame, tables
/// grown with it, and what the settings fix.
fn choose(settings: &Settings, frame_len: usize, prefix_len: usize) -> Parameters {
    let mut chosen = parameters(settings.level, frame_len, prefix_len);
    let covering_log = window_log(frame_len + prefix_len);
    if covering_log > chosen.windowLog {
        // The level's window is smaller than what is at hand: let the tables index all of it as
        // densely as the level would its own window.
        let growth = covering_log - chosen.windowLog;
        chosen.windowLog = covering_log;
        chosen.hashLog = (chosen.hashLog + growth).min(LOG_MAX - 3);
        chosen.chainLog = (chosen.chainLog + growth).min(LOG_MAX - 2);
    }
    if prefix_len > 0 {
        // Otherwise the fastest levels would pass over the front of a long prefix: 2 to 4 % of
        // size at level 1, nothing from level 5 on.
        chosen.hashLog = chosen.hashLog.max(covering_log.saturating_sub(PREFIX_LOG));
    }
    if chosen.strategy as u32 >= Strategy::ZSTD_btlazy2 as u32 {
        // Under each entry of the hash table hangs a tree, so a small table serves as well.
        let enough = (chosen.windowLog.saturating_sub(PREFIX_LOG)).max(TREE_HASH_LOG_MIN);
        chosen.hashLog = chosen.hashLog.min(enough);
    }
    let options = &settings.zstd;
    chosen.windowLog = options.window_log.unwrap_or(chosen.windowLog);
    chosen.hashLog = options.hash_log.unwrap_or(chosen.hashLog);
    chosen.chainLog = options.chain_log.unwrap_or(chosen.chainLog);
    chosen.searchLog = options.search_log.unwrap_or(chosen.searchLog);
    chosen.minMatch = options.match_len_min.unwrap_or(chosen.minMatch);
    chosen.targetLength = options.target_len.unwrap_or(chosen.targetLength);
    if let Some(strategy) = options.strategy {
        chosen.strategy = match strategy {
            ZstdStrategy::Fast => Strategy::ZSTD_fast,
            ZstdStrategy::Dfast => Strategy::ZSTD_dfast,
            ZstdStrategy::Greedy => Strategy::ZSTD_greedy,
            ZstdStrategy::Lazy => Strategy::ZSTD_lazy,
            ZstdStrategy::Lazy2 => Strategy::ZSTD_lazy2,
            ZstdStrategy::Btlazy2 => Strategy::ZSTD_btlazy2,
            ZstdStrategy::Btopt => Strategy::ZSTD_btopt,
            ZstdStrategy::Btultra => Strategy::ZSTD_btultra,
            ZstdStrategy::Btultra2 => Strategy::ZSTD_btultra2,
        };
    }
    chosen
}

/// The logarithm of the smallest window that covers `len` bytes.
fn window_log(len: usize) -> u32 {
    (len.max(1) as u64).next_power_of_two().ilog2().clamp(10, LOG_MAX)
}

pub(crate) fn encoder_memory_len(settings: &Settings, frame_len: usize, prefix_len: usize) -> u64 {
    let joined_len = if prefix_len == 0 { 0 } else { frame_len + prefix_len };
    let chosen = choose(settings, frame_len, prefix_len);
    // From this window on the optimal strategies search for long matches on the side.
    let long_len = if chosen.windowLog >= 27 { 12u64 << (chosen.windowLog - 7) } else { 0 };
    joined_len as u64 + context_len(chosen) as u64 + long_len
}

impl fmt::Debug for ZstdEncoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ZstdEncoder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

pub(crate) struct ZstdDecoder(Decompressor);

impl ZstdDecoder {
    pub(crate) fn new() -> Result<ZstdDecoder, CodecError> {
        let decompressor = Decompressor::new();
        Ok(ZstdDecoder(decompressor.ok_or(CodecError::OutOfMemory { codec: CODEC, len: 0 })?))
    }

    pub(crate) fn decode(
        &mut self,
        prefix: &[u8],
        stored: &[u8],
        plain_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        reserve(CODEC, plain_len, out)?;
        let parameters = [DParameter::Format(FrameFormat::Magicless)];
        match self.0.decompress(&parameters, prefix, stored, out, plain_len) {
            Ok(len) if len == plain_len => Ok(()),
            Ok(len) => Err(wrong_len(CODEC, plain_len, len)),
            Err(code) => {
                let detail = zstd_safe::get_error_name(code).to_owned();
                Err(CodecError::Corrupt { codec: CODEC, detail })
            }
        }
    }
}

impl fmt::Debug for ZstdDecoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ZstdDecoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an encoder holds after one frame, and what it was said to hold.
    fn held_and_said(text: &str, frame_len: usize, prefix_len: usize) -> (u64, u64) {
        let settings: Settings = text.parse().unwrap();
        let mut encoder = ZstdEncoder::new(settings).unwrap();
        let (prefix, plain) = (vec![1; prefix_len], vec![1; frame_len]);
        encoder.encode(&prefix, &plain, &mut Vec::new()).unwrap();
        let held = encoder.compressor.memory_len() + encoder.joined.capacity();
        (held as u64, settings.encoder_memory_len(frame_len, prefix_len))
    }

    #[test]
    fn the_memory_said_is_the_memory_held() {
        for text in [
            "zstd:1", "zstd:3", "zstd:6", "zstd:8", "zstd:12", "zstd:16", "zstd:18", "zstd:19",
            "zstd:22",
        ] {
            for (frame_len, prefix_len) in
                [(16 << 10, 0), (256 << 10, 1 << 20), (1 << 20, 0), (4 << 20, 12 << 20)]
            {
                let (held, said) = held_and_said(text, frame_len, prefix_len);
                let case = format!("{text}, {frame_len}, {prefix_len}: {held} held, {said} said");
                assert!(held <= said + said / 50, "{case}");
                assert!(said <= held + held / 3 + (1 << 20), "{case}");
            }
        }
    }

    #[test]
    fn a_window_of_two_gigabytes_that_a_frame_claims_is_not_allocated() {
        // No flags; a window of 31 bits; a last, raw block of one byte.
        let stored = [0x00, 0xA8, 0x09, 0x00, 0x00, b'x'];
        let mut decoder = ZstdDecoder::new().unwrap();
        let mut out = Vec::new();
        decoder.decode(&[], &stored, 1, &mut out).unwrap();
        assert_eq!(out, b"x");
        assert!(decoder.0.memory_len() < 200_000);
    }

    #[test]
    fn windows_and_tables_cover_prefix_and_frame() {
        for level in 1..=22 {
            let settings = Settings::new(Codec::Zstd, level).unwrap();
            for (frame_len, prefix_len) in [(1, 0), (1 << 18, 1 << 20), (64 << 20, 64 << 20)] {
                let chosen = choose(&settings, frame_len, prefix_len);
                assert!(1usize << chosen.windowLog >= frame_len + prefix_len);
                assert!(chosen.hashLog <= LOG_MAX && chosen.chainLog <= LOG_MAX);
            }
        }
    }

    #[test]
    fn a_new_context_replaces_one_that_counted_far_and_does_not_show() {
        let settings = Settings::new(Codec::Zstd, 3).unwrap();
        let plain = b"some bytes, some bytes, other bytes".repeat(50);
        let mut fresh = Vec::new();
        ZstdEncoder::new(settings).unwrap().encode(b"some", &plain, &mut fresh).unwrap();
        let mut encoder = ZstdEncoder::new(settings).unwrap();
        encoder.seen_bytes = CONTEXT_BYTES_MAX;
        let mut later = Vec::new();
        encoder.encode(b"some", &plain, &mut later).unwrap();
        assert_eq!(later, fresh);
        assert_eq!(encoder.seen_bytes, 4 + plain.len() as u64);
    }
}
