//! The compression levels in one table, so that documentation and program cannot differ.

use shale_codec::Effort;
use shale_format::limits::{REFERENCE_COUNT_MAX, REFERENCE_DEPTH_MAX};

use crate::plan::order::Order;

/// The default level.
pub const LEVEL_DEFAULT: u8 = 6;

/// A compression level.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// 0 to 9.
    pub level: u8,
    /// A short description.
    pub summary: &'static str,
    /// Codec of frames and its settings, in the syntax of the option `--codec`.
    pub codec: &'static str,
    /// Codecs for frames of text, generic data and arrays that compress well, the strongest first.
    pub codecs_of_little: &'static [CodecOfLittle],
    /// Codecs for lines as columns, the strongest first. They count the plain bytes, and `1`
    /// matches all. Where there is none, the codecs above count the bytes of the columns.
    pub codecs_of_lines: &'static [CodecOfLittle],
    /// Codec to use instead of the level's own for frames that their references cover almost
    /// completely.
    pub codec_of_covered: Option<CodecOfLittle>,
    /// Plain bytes of a frame.
    pub frame_len: u32,
    /// Bounds on references. Without references, frames stand alone and are compressed as they are
    /// read.
    pub references: ReferenceLimits,
    /// Work that may be spent to improve the choice of references, see `SearchSettings` in
    /// [`crate::reference::constraints`].
    pub reference_work_per_byte: u64,
    /// Shortest range that segment dedupe looks for, in bytes; 0 turns it off.
    pub segment_window_len: u32,
    /// Shortest matches that segment dedupe accepts in small files, near and far, see
    /// [`crate::segment::policy`].
    pub segment_lens_min: (u32, u32),
    /// The order in which contents are stored.
    pub order: Order,
    /// Zstd level of table pages.
    pub page_level: i32,
    /// Compress frames even if they look incompressible.
    pub tries_incompressible: bool,
    /// Try filters on machine code, text and arrays.
    pub tries_filters: bool,
    /// Work for the samples of sound and pictures; `None` treats them as any bytes.
    pub effort: Option<Effort>,
}

/// A codec for frames of which a quick trial leaves little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecOfLittle {
    /// The trial leaves at most one part in this number. `1` matches every text frame and no
    /// generic one: generic data suits the level's own codec better.
    pub share: usize,
    /// The codec and its settings.
    pub codec: &'static str,
}

/// How much a frame may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceLimits {
    /// Most references of a frame.
    pub count_max: u16,
    /// Longest chain of references below a frame.
    pub depth_max: u8,
    /// Most plain bytes of all frames that a frame refers to, directly or not.
    pub closure_bytes_max: u64,
    /// Most plain bytes of the two or three frames that hold a short content, and of all frames
    /// that these refer to.
    pub co_read_bytes_max: u64,
}

impl ReferenceLimits {
    /// Returns whether no frame may refer to another.
    pub fn is_none(&self) -> bool {
        self.count_max == 0 || self.depth_max == 0
    }

    /// No references.
    pub const NONE: Self =
        Self { count_max: 0, depth_max: 0, closure_bytes_max: 0, co_read_bytes_max: 0 };
    /// As many references as the format allows, whatever reads cost.
    pub const UNBOUNDED: Self = Self {
        count_max: REFERENCE_COUNT_MAX as u16,
        depth_max: REFERENCE_DEPTH_MAX,
        closure_bytes_max: u64::MAX,
        co_read_bytes_max: u64::MAX,
    };
}

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// The settings of LZMA that suit text, tables and byte code best: four bits of the byte before,
/// and no alignment. Binary trees are slow on data that repeats all the time, so that data gets
/// hash chains.
const LZMA_TEXT: &[CodecOfLittle] = &[
    CodecOfLittle { share: 16, codec: "lzma:9,mf=hc4,lc=4,pb=0,depth=48" },
    CodecOfLittle { share: 1, codec: "lzma:9,lc=4,pb=0" },
];
const LZMA_TEXT_EXTREME: &[CodecOfLittle] = &[
    CodecOfLittle { share: 16, codec: "lzma:9,mf=hc4,lc=4,pb=0,depth=96" },
    CodecOfLittle { share: 1, codec: "lzma:9e,lc=4,pb=0" },
];

/// The LZMA decoder works for each stored byte, some 10 of them in a microsecond. Lines of which a
/// trial leaves one byte in 48 are thus decoded at 500 MB/s or more, and zstd leaves a tenth more
/// of them. All other frames of levels 4 to 6 are zstd, which decodes faster than that whatever it
/// leaves. Sorting columns into trees takes zstd ten times as long as LZMA with chains.
const SHARE_OF_LZMA: usize = 48;
const LINES_QUICK: &[CodecOfLittle] = &[
    CodecOfLittle { share: SHARE_OF_LZMA, codec: "lzma:2,lc=4,pb=0" },
    CodecOfLittle { share: 1, codec: "zstd:8" },
];
const LINES: &[CodecOfLittle] = &[
    CodecOfLittle { share: SHARE_OF_LZMA, codec: "lzma:9,mf=hc4,lc=4,pb=0,depth=48" },
    CodecOfLittle { share: 1, codec: "zstd:12" },
];
/// A better search costs little where little is left.
const ZSTD_OF_LITTLE: &[CodecOfLittle] = &[CodecOfLittle { share: 5, codec: "zstd:12" }];

/// A quick search is enough for frames that their references cover almost completely: little is
/// left, and a thorough search first sorts everything that they refer to.
const ZSTD_OF_COVERED: CodecOfLittle = CodecOfLittle { share: 16, codec: "zstd:12" };

/// All levels, by number. `docs/performance.md` has measurements.
pub const LEVELS: [Level; 10] = [
    alone(0, "stored: nothing is compressed but the tables", "stored", 1),
    alone(1, "zstd at its fastest", "zstd:1", 3),
    alone(2, "zstd, fast", "zstd:3", 3),
    alone(3, "zstd, moderate", "zstd:6", 9),
    related(4, "zstd, fast, with references", ("zstd:3", &[]), 256 * KIB, (4, 3, 2, 3)),
    Level {
        codecs_of_lines: LINES_QUICK,
        ..related(
            5,
            "zstd, moderate, with references",
            ("zstd:8", ZSTD_OF_LITTLE),
            512 * KIB,
            (4, 3, 2, 3),
        )
    },
    Level {
        codecs_of_lines: LINES,
        codec_of_covered: Some(ZSTD_OF_COVERED),
        ..related(
            6,
            "zstd, thorough, with references",
            ("zstd:18,targetlen=128", &[]),
            512 * KIB,
            (4, 3, 2, 3),
        )
    },
    related(7, "LZMA, with references", ("lzma:9", LZMA_TEXT), 512 * KIB, (4, 3, 2, 3)),
    related(
        8,
        "LZMA, larger frames, with references",
        ("lzma:9", LZMA_TEXT),
        2 * MIB,
        (6, 3, 6, 10),
    ),
    related(
        9,
        "LZMA, large frames, with references",
        ("lzma:9e", LZMA_TEXT_EXTREME),
        4 * MIB,
        (3, 3, 12, 16),
    ),
];

/// A level whose frames stand alone, so they are compressed while files are read.
const fn alone(level: u8, summary: &'static str, codec: &'static str, page_level: i32) -> Level {
    Level {
        level,
        summary,
        codec,
        codecs_of_little: &[],
        codecs_of_lines: &[],
        codec_of_covered: None,
        frame_len: 256 * KIB,
        references: ReferenceLimits::NONE,
        reference_work_per_byte: 0,
        segment_window_len: 0,
        segment_lens_min: (0, 0),
        order: Order::Source,
        page_level,
        tries_incompressible: false,
        tries_filters: false,
        effort: if level > 0 { Some(Effort::FAST) } else { None },
    }
}

/// A level with segment dedupe, similarity order and references. `bounds` are the number of
/// references, their depth, the MiB decoded for them, and the MiB decoded for a short content in
/// two or three frames.
const fn related(
    level: u8,
    summary: &'static str,
    codecs: (&'static str, &'static [CodecOfLittle]),
    frame_len: u32,
    bounds: (u16, u8, u64, u64),
) -> Level {
    let (count_max, depth_max, closure_mib, spread_mib) = bounds;
    Level {
        level,
        summary,
        codec: codecs.0,
        codecs_of_little: codecs.1,
        codecs_of_lines: &[],
        codec_of_covered: None,
        frame_len,
        references: ReferenceLimits {
            count_max,
            depth_max,
            closure_bytes_max: closure_mib << 20,
            co_read_bytes_max: spread_mib << 20,
        },
        // Beside zstd 3, more work would show.
        reference_work_per_byte: if level > 4 { 4 } else { 1 },
        segment_window_len: 128,
        // Large frames hold short repeats themselves; references mostly hold the far ones.
        segment_lens_min: if frame_len > 512 * KIB { (2048, 8192) } else { (1024, 8192) },
        order: Order::Similarity,
        page_level: 19,
        tries_incompressible: level >= 9,
        tries_filters: true,
        effort: Some(Effort::THOROUGH),
    }
}

impl Level {
    /// Returns the level with this number, if there is one.
    pub fn find(level: u8) -> Option<&'static Level> {
        LEVELS.get(usize::from(level))
    }
}

#[cfg(test)]
mod tests {
    use shale_codec::Settings;

    use super::*;
    use crate::plan::codecs::CODEC_OF_LITTLE_COUNT_MAX;

    #[test]
    fn every_level_is_where_its_number_says_and_valid() {
        for (number, level) in LEVELS.iter().enumerate() {
            assert_eq!(usize::from(level.level), number);
            level.codec.parse::<Settings>().unwrap();
            for codecs in [level.codecs_of_little, level.codecs_of_lines] {
                assert!(codecs.is_sorted_by(|one, next| one.share > next.share), "the best first");
                assert!(codecs.len() <= CODEC_OF_LITTLE_COUNT_MAX);
            }
            let of_some = level.codecs_of_little.iter().chain(level.codecs_of_lines);
            for codec in of_some.chain(&level.codec_of_covered) {
                codec.codec.parse::<Settings>().unwrap();
            }
            assert!(level.frame_len.is_power_of_two());
        }
    }
}
