//! How to encode: a codec, a level and the codec's own options, to and from text.
//!
//! The text is `codec`, `codec:level` or `codec:option=value,option=value…`; [`Settings`] prints
//! the shortest text that reads back as the same settings. Numbers are checked here, against the
//! ranges of the libraries, so an encoder made from valid settings does not refuse later.
//!
//! Settings steer the encoder only. A decoder needs none of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::{Codec, SettingsError};

/// A codec, its level and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The codec.
    pub codec: Codec,
    /// Zstd 1..=22, lzma 0..=9, brotli 0..=11; lz4 0 (fast) or 2..=12 (high compression);
    /// stored 0.
    pub level: i32,
    /// Used only when the codec is [`Codec::Zstd`].
    pub zstd: ZstdOptions,
    /// Used only when the codec is [`Codec::Lzma`].
    pub lzma: LzmaOptions,
}

/// Options of zstd that replace those of the level; `None` keeps the level's. The numbers are
/// explained in zstd's manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct ZstdOptions {
    /// How matches are searched and chosen.
    pub strategy: Option<ZstdStrategy>,
    /// Logarithm of the window, in bytes. By default it covers prefix and frame.
    pub window_log: Option<u32>,
    /// Logarithm of the hash table's entries.
    pub hash_log: Option<u32>,
    /// Logarithm of the chain (or tree) table's entries.
    pub chain_log: Option<u32>,
    /// Logarithm of the search attempts.
    pub search_log: Option<u32>,
    /// Shortest match looked for, in bytes.
    pub match_len_min: Option<u32>,
    /// Match length that ends a search (optimal strategies), or acceleration (fast ones).
    pub target_len: Option<u32>,
}

/// Zstd's match finding strategies, from the fastest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ZstdStrategy {
    Fast = 1,
    Dfast = 2,
    Greedy = 3,
    Lazy = 4,
    Lazy2 = 5,
    Btlazy2 = 6,
    Btopt = 7,
    Btultra = 8,
    Btultra2 = 9,
}

/// Options of LZMA that replace those of the level; `None` keeps the level's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct LzmaOptions {
    /// Search harder: the `e` of `9e`.
    pub extreme: bool,
    /// Bits of the previous byte that choose the model of a literal; at most 4 with
    /// `literal_position_bits`.
    pub literal_context_bits: Option<u32>,
    /// Bits of the position that choose the model of a literal.
    pub literal_position_bits: Option<u32>,
    /// Bits of the position that choose the model of everything else; 0 suits text, 2 suits
    /// machine code.
    pub position_bits: Option<u32>,
    /// Match length, in bytes, that ends a search.
    pub nice_len: Option<u32>,
    /// How matches are found: chains are quick on very repetitive data, trees find more.
    pub match_finder: Option<MatchFinder>,
    /// Candidates looked at for a match; 0 leaves it to the match finder.
    pub search_depth: Option<u32>,
}

/// How LZMA finds matches: hash chains or binary trees, by the bytes hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MatchFinder {
    Hc3 = 0x03,
    Hc4 = 0x04,
    Bt2 = 0x12,
    Bt3 = 0x13,
    Bt4 = 0x14,
}

const MATCH_FINDERS: [(&str, MatchFinder); 5] = [
    ("hc3", MatchFinder::Hc3),
    ("hc4", MatchFinder::Hc4),
    ("bt2", MatchFinder::Bt2),
    ("bt3", MatchFinder::Bt3),
    ("bt4", MatchFinder::Bt4),
];

const STRATEGIES: [(&str, ZstdStrategy); 9] = [
    ("fast", ZstdStrategy::Fast),
    ("dfast", ZstdStrategy::Dfast),
    ("greedy", ZstdStrategy::Greedy),
    ("lazy", ZstdStrategy::Lazy),
    ("lazy2", ZstdStrategy::Lazy2),
    ("btlazy2", ZstdStrategy::Btlazy2),
    ("btopt", ZstdStrategy::Btopt),
    ("btultra", ZstdStrategy::Btultra),
    ("btultra2", ZstdStrategy::Btultra2),
];

impl Settings {
    /// No compression.
    pub const STORED: Settings = Settings::of(Codec::Stored, 0);

    const fn of(codec: Codec, level: i32) -> Settings {
        Settings {
            codec,
            level,
            zstd: ZstdOptions {
                strategy: None,
                window_log: None,
                hash_log: None,
                chain_log: None,
                search_log: None,
                match_len_min: None,
                target_len: None,
            },
            lzma: LzmaOptions {
                extreme: false,
                literal_context_bits: None,
                literal_position_bits: None,
                position_bits: None,
                nice_len: None,
                match_finder: None,
                search_depth: None,
            },
        }
    }

    /// Returns settings of a codec at a level, without options.
    ///
    /// # Errors
    /// The codec has no such level.
    pub fn new(codec: Codec, level: i32) -> Result<Settings, SettingsError> {
        let settings = Settings::of(codec, level);
        settings.validate()?;
        Ok(settings)
    }

    /// The level that a codec's bare name stands for.
    pub const fn default_level(codec: Codec) -> i32 {
        match codec {
            Codec::Stored | Codec::Lz4 => 0,
            Codec::Zstd => 19,
            Codec::Lzma => 9,
            Codec::Brotli => 11,
        }
    }

    /// Checks every number against its range. Settings read from text are already checked.
    ///
    /// # Errors
    /// The first number out of its range, and the range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let levels = match self.codec {
            Codec::Stored => 0..=0,
            Codec::Zstd => 1..=22,
            Codec::Lz4 => 0..=12,
            Codec::Lzma => 0..=9,
            Codec::Brotli => 0..=11,
        };
        // LZ4's high compression starts at 2.
        if !levels.contains(&self.level) || (self.codec == Codec::Lz4 && self.level == 1) {
            return Err(self.error("no such level"));
        }
        match self.codec {
            Codec::Zstd => self.validate_zstd(),
            Codec::Lzma => self.validate_lzma(),
            Codec::Stored | Codec::Lz4 | Codec::Brotli => Ok(()),
        }
    }

    fn validate_zstd(&self) -> Result<(), SettingsError> {
        let options = &self.zstd;
        self.within("window", options.window_log, 10..=30)?;
        self.within("hashlog", options.hash_log, 6..=30)?;
        self.within("chainlog", options.chain_log, 6..=30)?;
        self.within("searchlog", options.search_log, 1..=29)?;
        self.within("minmatch", options.match_len_min, 3..=7)?;
        self.within("targetlen", options.target_len, 0..=131_072)
    }

    fn validate_lzma(&self) -> Result<(), SettingsError> {
        let options = &self.lzma;
        self.within("lc", options.literal_context_bits, 0..=4)?;
        self.within("lp", options.literal_position_bits, 0..=4)?;
        self.within("pb", options.position_bits, 0..=4)?;
        self.within("nice", options.nice_len, 8..=273)?;
        self.within("depth", options.search_depth, 0..=1000)?;
        let context_bits = options.literal_context_bits.unwrap_or(LZMA_LITERAL_CONTEXT_BITS)
            + options.literal_position_bits.unwrap_or(0);
        if context_bits > 4 {
            return Err(self.error("lc and lp add up to more than 4 (lc is 3 unless set)"));
        }
        Ok(())
    }

    fn within(
        &self,
        name: &str,
        value: Option<u32>,
        range: RangeInclusive<u32>,
    ) -> Result<(), SettingsError> {
        match value {
            Some(value) if !range.contains(&value) => {
                let (min, max) = range.into_inner();
                Err(self.error(&format!("{name}={value} is not within {min}..={max}")))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, problem: &str) -> SettingsError {
        SettingsError {
            input: self.to_string(),
            problem: problem.to_owned(),
            allowed: allowed(self.codec).to_owned(),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u32>().map_err(|_| format!("`{value}` is not a number"));
        match (self.codec, name) {
            (Codec::Lz4, "hc") => {
                let level = number()?;
                if !(2..=12).contains(&level) {
                    return Err(format!("no such level: {level}"));
                }
                self.level = level.cast_signed();
            }
            (Codec::Lz4 | Codec::Stored, _) => return Err(format!("no option `{name}`")),
            (Codec::Lzma, "level") => {
                let digits = value.strip_suffix('e').unwrap_or(value);
                self.lzma.extreme = digits.len() < value.len();
                self.level = level(digits)?;
            }
            (_, "level") => self.level = level(value)?,
            (Codec::Zstd, "strategy") => {
                let found = STRATEGIES.iter().find(|(name, _)| *name == value);
                self.zstd.strategy = Some(found.ok_or_else(|| format!("no strategy `{value}`"))?.1);
            }
            (Codec::Zstd, "window") => self.zstd.window_log = Some(number()?),
            (Codec::Zstd, "hashlog") => self.zstd.hash_log = Some(number()?),
            (Codec::Zstd, "chainlog") => self.zstd.chain_log = Some(number()?),
            (Codec::Zstd, "searchlog") => self.zstd.search_log = Some(number()?),
            (Codec::Zstd, "minmatch") => self.zstd.match_len_min = Some(number()?),
            (Codec::Zstd, "targetlen") => self.zstd.target_len = Some(number()?),
            (Codec::Lzma, "lc") => self.lzma.literal_context_bits = Some(number()?),
            (Codec::Lzma, "lp") => self.lzma.literal_position_bits = Some(number()?),
            (Codec::Lzma, "pb") => self.lzma.position_bits = Some(number()?),
            (Codec::Lzma, "nice") => self.lzma.nice_len = Some(number()?),
            (Codec::Lzma, "mf") => {
                let found = MATCH_FINDERS.iter().find(|(name, _)| *name == value);
                let found = found.ok_or_else(|| format!("no match finder `{value}`"))?;
                self.lzma.match_finder = Some(found.1);
            }
            (Codec::Lzma, "depth") => self.lzma.search_depth = Some(number()?),
            _ => return Err(format!("no option `{name}`")),
        }
        Ok(())
    }
}

/// The literal context bits of every LZMA preset.
const LZMA_LITERAL_CONTEXT_BITS: u32 = 3;

fn level(value: &str) -> Result<i32, String> {
    value.parse().map_err(|_| format!("`{value}` is not a level"))
}

/// What may be written for a codec, for error messages.
fn allowed(codec: Codec) -> &'static str {
    match codec {
        Codec::Stored => "stored",
        Codec::Zstd => {
            "zstd, zstd:1..22, or zstd: followed by any of level=1..22, strategy=(fast, dfast, \
             greedy, lazy, lazy2, btlazy2, btopt, btultra or btultra2), window=10..30, \
             hashlog=6..30, chainlog=6..30, searchlog=1..29, minmatch=3..7, \
             targetlen=0..131072, with commas between"
        }
        Codec::Lz4 => "lz4 (fast), or lz4:hc=2..12",
        Codec::Lzma => {
            "lzma, lzma:0..9 or 0e..9e, or lzma: followed by any of level=0..9 or 0e..9e, \
             lc=0..4, lp=0..4 (lc and lp together at most 4), pb=0..4, nice=8..273, mf=(hc3, \
             hc4, bt2, bt3 or bt4), depth=0..1000, with commas between"
        }
        Codec::Brotli => "brotli, brotli:0..11, or brotli:level=0..11",
    }
}

impl FromStr for Settings {
    type Err = SettingsError;

    fn from_str(input: &str) -> Result<Settings, SettingsError> {
        let (name, options) = match input.split_once(':') {
            Some((name, options)) => (name, Some(options)),
            None => (input, None),
        };
        let codec = Codec::from_name(name).ok_or_else(|| SettingsError {
            input: input.to_owned(),
            problem: format!("no codec `{name}`"),
            allowed: "stored, zstd, lz4, lzma or brotli, each with or without options".to_owned(),
        })?;
        let error = |problem: String| SettingsError {
            input: input.to_owned(),
            problem,
            allowed: allowed(codec).to_owned(),
        };
        let mut settings = Settings::of(codec, Settings::default_level(codec));
        let mut names_seen = Vec::new();
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            // A bare value is the level.
            let (name, value) = option.split_once('=').unwrap_or(("level", option));
            if option.is_empty() {
                return Err(error("an option is empty".to_owned()));
            }
            if names_seen.contains(&name) {
                return Err(error(format!("`{name}` is given twice")));
            }
            names_seen.push(name);
            settings.set(name, value).map_err(error)?;
        }
        settings.validate().map_err(|cause| error(cause.problem))?;
        Ok(settings)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.codec.name();
        match self.codec {
            Codec::Stored => return out.write_str(name),
            Codec::Lz4 if self.level == 0 => return out.write_str(name),
            Codec::Lz4 => return write!(out, "{name}:hc={}", self.level),
            Codec::Zstd | Codec::Lzma | Codec::Brotli => {}
        }
        let extreme = if self.codec == Codec::Lzma && self.lzma.extreme { "e" } else { "" };
        write!(out, "{name}:{}{extreme}", self.level)?;
        let zstd = &self.zstd;
        let lzma = &self.lzma;
        let options: &[(&str, Option<u32>)] = match self.codec {
            Codec::Zstd => &[
                ("window", zstd.window_log),
                ("hashlog", zstd.hash_log),
                ("chainlog", zstd.chain_log),
                ("searchlog", zstd.search_log),
                ("minmatch", zstd.match_len_min),
                ("targetlen", zstd.target_len),
            ],
            Codec::Lzma => &[
                ("lc", lzma.literal_context_bits),
                ("lp", lzma.literal_position_bits),
                ("pb", lzma.position_bits),
                ("nice", lzma.nice_len),
                ("depth", lzma.search_depth),
            ],
            Codec::Stored | Codec::Lz4 | Codec::Brotli => &[],
        };
        if let (Codec::Zstd, Some(strategy)) = (self.codec, zstd.strategy) {
            let name = STRATEGIES.iter().find(|(_, one)| *one == strategy);
            write!(out, ",strategy={}", name.map_or("", |(name, _)| name))?;
        }
        if let (Codec::Lzma, Some(finder)) = (self.codec, lzma.match_finder) {
            let name = MATCH_FINDERS.iter().find(|(_, one)| *one == finder);
            write!(out, ",mf={}", name.map_or("", |(name, _)| name))?;
        }
        for (name, value) in options {
            if let Some(value) = value {
                write!(out, ",{name}={value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Settings {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn texts_of_the_manual_are_read() {
        assert_eq!(read("stored"), Settings::STORED);
        assert_eq!(read("zstd"), Settings::new(Codec::Zstd, 19).unwrap());
        assert_eq!(read("zstd:3"), Settings::new(Codec::Zstd, 3).unwrap());
        assert_eq!(read("zstd:level=3"), read("zstd:3"));
        assert_eq!(read("lz4"), Settings::new(Codec::Lz4, 0).unwrap());
        assert_eq!(read("lz4:hc=9"), Settings::new(Codec::Lz4, 9).unwrap());
        assert_eq!(read("brotli:11"), Settings::new(Codec::Brotli, 11).unwrap());
        let lzma = read("lzma:9e,pb=0,lc=4");
        assert!(lzma.lzma.extreme);
        assert_eq!((lzma.level, lzma.lzma.position_bits), (9, Some(0)));
        let zstd = read("zstd:level=22,strategy=btopt,window=24");
        assert_eq!(zstd.zstd.strategy, Some(ZstdStrategy::Btopt));
        assert_eq!(zstd.zstd.window_log, Some(24));
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        for text in [
            "stored",
            "zstd:19",
            "zstd:22,strategy=btultra2,window=27,hashlog=20,chainlog=21,searchlog=9,minmatch=3,\
             targetlen=999",
            "lz4",
            "lz4:hc=12",
            "lzma:0",
            "lzma:9e,lc=1,lp=3,pb=4,nice=273",
            "lzma:9,mf=hc4,lc=4,depth=48",
            "brotli:5",
        ] {
            assert_eq!(read(text).to_string(), text);
        }
    }

    #[test]
    fn wrong_texts_are_refused_and_the_message_says_what_is_allowed() {
        for (text, problem, allowed) in [
            ("", "no codec", "zstd"),
            ("zst", "no codec `zst`", "brotli"),
            ("zstd:", "empty", "level=1..22"),
            ("zstd:23", "no such level", "zstd:1..22"),
            ("zstd:0", "no such level", "zstd:1..22"),
            ("zstd:-5", "no such level", "zstd:1..22"),
            ("zstd:fast", "`fast` is not a level", "level=1..22"),
            ("zstd:19e", "not a level", "level=1..22"),
            ("zstd:19,19", "twice", "commas"),
            ("zstd:19,", "empty", "commas"),
            ("zstd:19,lc=3", "no option `lc`", "searchlog"),
            ("zstd:minmatch=8", "3..=7", "minmatch=3..7"),
            ("zstd:window=99999999999", "not a number", "window"),
            ("zstd:strategy=best", "no strategy `best`", "btultra2"),
            ("lz4:9", "no option `level`", "lz4:hc=2..12"),
            ("lz4:hc=1", "no such level", "lz4:hc=2..12"),
            ("lz4:hc=13", "no such level", "lz4:hc=2..12"),
            ("lzma:10", "no such level", "0e..9e"),
            ("lzma:9,lp=2", "more than 4", "together at most 4"),
            ("lzma:9,nice=4", "8..=273", "nice=8..273"),
            ("brotli:12", "no such level", "brotli:0..11"),
            ("stored:1", "no option", "stored"),
        ] {
            let error = text.parse::<Settings>().expect_err(text);
            assert_eq!(error.input, text);
            assert!(error.problem.contains(problem), "{text}: {error}");
            assert!(error.allowed.contains(allowed), "{text}: {error}");
        }
    }

    #[test]
    fn settings_made_in_code_are_checked_like_text() {
        let mut settings = Settings::new(Codec::Zstd, 3).unwrap();
        settings.zstd.hash_log = Some(31);
        let error = settings.validate().unwrap_err();
        assert_eq!(error.input, "zstd:3,hashlog=31");
        assert!(Settings::new(Codec::Lz4, 1).is_err());
    }
}
