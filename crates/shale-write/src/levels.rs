//! What a level stands for: one table, so that documentation and program cannot differ.

use shale_codec::{Codec, Settings};

/// The level used when none is given.
pub const LEVEL_DEFAULT: u8 = 6;

/// What a level stands for.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// 0 to 9.
    pub level: u8,
    /// For people.
    pub summary: &'static str,
    /// Codec of frames and its level.
    pub codec: (Codec, i32),
    /// Plain bytes of a frame.
    pub frame_len: u32,
    /// Bounds on references; without any, frames stand alone and are compressed as they are read.
    pub references: ReferenceLimits,
    /// Shortest range that segment dedupe looks for, in bytes; 0: it does not.
    pub segment_window_len: u32,
    /// Zstd level of table pages.
    pub page_level: i32,
    /// Frames that look incompressible are tried all the same.
    pub tries_incompressible: bool,
    /// Filters are tried on machine code.
    pub tries_filters: bool,
}

/// How much a frame may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceLimits {
    /// References of a frame.
    pub count_max: u16,
    /// Longest chain of references below a frame.
    pub depth_max: u8,
    /// Plain bytes of all frames a frame refers to, directly or not.
    pub closure_bytes_max: u64,
}

impl ReferenceLimits {
    /// No references.
    pub const NONE: Self = Self { count_max: 0, depth_max: 0, closure_bytes_max: 0 };
}

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// All levels, by number. Measured in `docs/performance.md`.
pub const LEVELS: [Level; 10] = [
    alone(0, "stored: nothing is compressed but the tables", Codec::Stored, 0, 1),
    alone(1, "zstd at its fastest", Codec::Zstd, 1, 3),
    alone(2, "zstd, fast", Codec::Zstd, 3, 3),
    alone(3, "zstd, moderate", Codec::Zstd, 6, 9),
    related(4, "zstd, fast, with references", (Codec::Zstd, 3), 256 * KIB, (4, 2, 2), 256),
    related(5, "zstd, moderate, with references", (Codec::Zstd, 9), 256 * KIB, (4, 2, 2), 256),
    related(6, "zstd, thorough, with references", (Codec::Zstd, 12), 256 * KIB, (4, 2, 2), 256),
    related(7, "zstd, slow, with references", (Codec::Zstd, 19), 256 * KIB, (4, 2, 2), 256),
    related(8, "LZMA, with references", (Codec::Lzma, 6), 512 * KIB, (4, 3, 6), 128),
    related(9, "LZMA, large frames, with references", (Codec::Lzma, 9), 4 * MIB, (3, 2, 12), 128),
];

/// A level whose frames stand alone, so that they are compressed while files are read.
const fn alone(
    level: u8,
    summary: &'static str,
    codec: Codec,
    codec_level: i32,
    page_level: i32,
) -> Level {
    Level {
        level,
        summary,
        codec: (codec, codec_level),
        frame_len: 256 * KIB,
        references: ReferenceLimits::NONE,
        segment_window_len: 0,
        page_level,
        tries_incompressible: false,
        tries_filters: false,
    }
}

/// A level with segment dedupe and references; `bounds` are count, depth and MiB decoded for them.
const fn related(
    level: u8,
    summary: &'static str,
    codec: (Codec, i32),
    frame_len: u32,
    bounds: (u16, u8, u64),
    segment_window_len: u32,
) -> Level {
    let (count_max, depth_max, closure_mib) = bounds;
    Level {
        level,
        summary,
        codec,
        frame_len,
        references: ReferenceLimits { count_max, depth_max, closure_bytes_max: closure_mib << 20 },
        segment_window_len,
        page_level: 19,
        tries_incompressible: level >= 9,
        tries_filters: true,
    }
}

impl Level {
    /// The level with this number, if there is one.
    pub fn find(level: u8) -> Option<&'static Level> {
        LEVELS.get(usize::from(level))
    }

    /// The codec and its settings.
    pub fn settings(&self) -> Settings {
        let (codec, level) = self.codec;
        Settings { codec, level, ..Settings::STORED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_where_its_number_says_and_valid() {
        for (number, level) in LEVELS.iter().enumerate() {
            assert_eq!(usize::from(level.level), number);
            let settings = level.settings();
            settings.validate().unwrap();
            assert_eq!((settings.codec, settings.level), level.codec);
            assert!(level.frame_len.is_power_of_two());
        }
    }
}
