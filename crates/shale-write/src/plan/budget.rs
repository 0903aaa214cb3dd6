//! Memory and threads, decided once for the whole build.
//!
//! The budget is split before anything is read:
//!
//! - each thread: the tables of its encoder, a prefix and two frames;
//! - fixed: the sections that are being filled and written, contents that are being read, and,
//!   where the level needs them, the fingerprints of frames and the index of segment dedupe;
//! - where files are taken apart: one file of the longest, with what is in it;
//! - at most a quarter of the rest: names and attributes, packed, before they go to a temporary
//!   file;
//! - at most an eighth of the rest: inodes with several names and sets of extended attributes;
//! - at most a quarter of the rest: what is in further files that are taken apart at the same time;
//! - up to [`FLIGHT_BYTES_MAX`], or [`FLIGHT_BYTES_PER_THREAD`] where that is more: frames on their
//!   way to and from the threads;
//! - what is left: contents that wait to be put into order, or else plain frames that wait for
//!   their references, before they go to a temporary file.
//!
//! Some memory grows with the tree and is not in the budget: about 50 bytes a content (see
//! [`crate::content::dedupe`]) and 300 bytes a frame.
//!
//! Threads and memory never change the image. They decide when and where something is done, not
//! what.

use shale_codec::{Codec, Settings, SettingsError, Xxh3, lines_memory_len};
use shale_format::limits::{
    FRAME_PLAIN_LEN_MAX, REFERENCE_COUNT_MAX, REFERENCE_DEPTH_MAX, SNAPSHOT_NAME_LEN_MAX,
};
pub use shale_host::THREADS_MAX;

use crate::plan::classes::{Asked, Classes, FrameClass};
use crate::plan::error::WriteError;
use crate::plan::level::{LEVELS, Level, ReferenceLimits};
use crate::plan::options::Options;
use crate::plan::order::Order;
use crate::recompress::take_apart::{FILE_LEN_MAX, memory_len_max};

/// Memory used by default.
pub const MEMORY_BYTES_DEFAULT: u64 = 320 << 20;

/// The section being filled, the one being written and the contents that are read ahead, each up to
/// 16 MiB; and the buffers of readers and writers.
const FIXED_BYTES: u64 = 56 << 20;
/// The part of them that a build of a few bytes needs.
const FIXED_BYTES_MIN: u64 = 24 << 20;
/// The program itself and the stacks of its threads, under a limit of the system.
const PROCESS_BYTES: u64 = 16 << 20;
/// Most fingerprints kept of a whole image. It is a constant, because memory must not change the
/// choice of references.
pub(crate) const FINGERPRINT_COUNT_MAX: usize = 4 << 20;
/// Fingerprints of all frames while references are chosen: 24 bytes each.
const SKETCH_BYTES: u64 = FINGERPRINT_COUNT_MAX as u64 * 24;
/// Fingerprints of contents while these are ordered by similarity, and while their table grows.
pub(crate) const SIMILARITY_BYTES: u64 = 120 << 20;
/// Blocks of the stream that segment dedupe reads back.
pub(crate) const SEGMENT_BLOCK_BYTES: u64 = 4 << 20;
/// Contents that wait are kept in memory, or in the temporary file, in blocks of this length.
pub(crate) const BUFFER_BLOCK_BYTES: u64 = 1 << 20;
/// The index of segment dedupe. It is a constant, because memory must not change what is found.
pub(crate) const SEGMENT_INDEX_BYTES: u64 = 64 << 20;
/// Contents read ahead of their turn.
pub(crate) const READ_AHEAD_BYTES: u64 = 16 << 20;
/// What is in compressed files that wait for their turn; more only uses memory.
const RECOMPRESS_BYTES_MAX: u64 = 256 << 20;
/// Frames on their way beyond this only use memory, with few threads and with many.
const FLIGHT_BYTES_MAX: u64 = 64 << 20;
const FLIGHT_BYTES_PER_THREAD: u64 = 4 << 20;
/// Names and attributes in memory; ten million entries fit.
const TREE_BYTES_MAX: u64 = 64 << 20;
/// Inodes with several names and sets of extended attributes in memory. The minimum is among the
/// fixed bytes. A hundred thousand such inodes fit into the maximum.
const INTERNED_BYTES_MIN: u64 = 1 << 20;
const INTERNED_BYTES_MAX: u64 = 32 << 20;
/// Smallest and largest frame length that the options may ask for.
const FRAME_LEN_MIN: u32 = 4 << 10;

/// Decisions for the whole build.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    pub(crate) level: &'static Level,
    /// How frames are compressed, for files without rule and for those of rules.
    pub(crate) classes: Classes,
    pub(crate) page_settings: Settings,
    /// Plain bytes of the longest frames.
    pub(crate) frame_len: usize,
    /// A thread keeps the encoders of all settings that it used, not only the last.
    pub(crate) keeps_encoders: bool,
    /// A list names hot files.
    pub(crate) has_hot: bool,
    pub(crate) references: Option<ReferenceLimits>,
    pub(crate) segment_window_len: u32,
    /// Bytes of packed names and attributes kept in memory before they go to a temporary file.
    pub(crate) tree_bytes_max: u64,
    /// Bytes of inodes with several names and of sets of attributes kept in memory.
    pub(crate) interned_bytes_max: u64,
    pub(crate) order: Order,
    /// Contents wait in the reorder buffer until all are known.
    pub(crate) reorders: bool,
    /// Bytes of contents kept in memory before they go to a temporary file.
    pub(crate) reorder_bytes_max: u64,
    /// Store what is in compressed files.
    pub(crate) recompress: bool,
    /// Bytes of what is in compressed files, beside those of one file.
    pub(crate) recompress_bytes_max: u64,
    /// Plain bytes of frames being compressed or waiting for their turn to be written.
    pub(crate) flight_bytes_max: u64,
    /// Plain bytes of frames kept in memory before they go to a temporary file; 0 where frames are
    /// ranges of contents that wait.
    pub(crate) waiting_bytes_max: u64,
}

impl Plan {
    /// Checks the options and decides. Fails at once if the memory is too little.
    pub(crate) fn new(
        options: &Options,
        content_bytes_max: Option<u64>,
    ) -> Result<Self, WriteError> {
        let level = Level::find(options.level)
            .ok_or_else(|| option("level", options.level, format!("0 to {}", LEVELS.len() - 1)))?;
        if options.snapshot_name.len() > SNAPSHOT_NAME_LEN_MAX {
            let found = format!("{} bytes", options.snapshot_name.len());
            return Err(option("snapshot name", found, "at most 255 bytes".to_owned()));
        }
        let is_bad = |label: &String| {
            label.is_empty() || label.len() > LABEL_LEN_MAX || label.contains(char::is_control)
        };
        if let Some(label) = options.label.as_ref().filter(|label| is_bad(label)) {
            let found = format!("{} bytes", label.len());
            let allowed = "1 to 255 bytes without control characters".to_owned();
            return Err(option("label", found, allowed));
        }
        let frame_len = options.frame_len.unwrap_or(level.frame_len);
        if frame_len < FRAME_LEN_MIN || u64::from(frame_len) > FRAME_PLAIN_LEN_MAX {
            return Err(option("frame length", frame_len, "4 KiB to 64 MiB".to_owned()));
        }
        if let Some((_, settings)) = options.codecs.iter().find(|(_, s)| s.codec == Codec::Brotli) {
            let allowed = "stored, lz4, zstd or lzma; brotli can only be read";
            return Err(option("codec", settings, allowed.to_owned()));
        }
        let wrong =
            |(codec, error): (String, SettingsError)| option("codec", codec, error.to_string());
        let has_hot = options.first_is_hot && !options.first.is_empty();
        let asked = Asked {
            level,
            codecs: &options.codecs,
            frame_len: options.frame_len,
            has_hot,
            has_references: options.references.is_some(),
        };
        let classes = Classes::new(asked, &options.rules).map_err(wrong)?;
        let frame_len = classes.all().iter().map(|class| class.frame_len).max().unwrap_or(0);
        let page_settings = Settings { level: level.page_level, ..zstd() };
        let asked = options.references.unwrap_or(level.references);
        let references = ReferenceLimits {
            count_max: asked.count_max.min(REFERENCE_COUNT_MAX as u16),
            depth_max: asked.depth_max.min(REFERENCE_DEPTH_MAX),
            ..asked
        };
        let references = (!references.is_none()).then_some(references);
        let order = options.order.unwrap_or(level.order);
        let plan = Self {
            threads: shale_host::thread_count(options.threads),
            level,
            page_settings,
            frame_len,
            keeps_encoders: true,
            has_hot,
            references,
            segment_window_len: options.segment_window_len.unwrap_or(level.segment_window_len),
            tree_bytes_max: 0,
            interned_bytes_max: 0,
            order,
            reorders: order != Order::Source
                || !options.first.is_empty()
                || classes.all().len() > 1,
            reorder_bytes_max: 0,
            recompress: options.recompress.unwrap_or(false)
                || options.rules.all().iter().any(|rule| rule.recompress == Some(true)),
            classes,
            recompress_bytes_max: 0,
            flight_bytes_max: 0,
            waiting_bytes_max: 0,
        };
        plan.with_memory(options, content_bytes_max)
    }

    fn with_memory(mut self, options: &Options, bytes: Option<u64>) -> Result<Self, WriteError> {
        // No frame, and nothing that is made of the contents, is larger than they are.
        let there = bytes.unwrap_or(u64::MAX / 8);
        let frame_len = (self.frame_len as u64).min(there.max(u64::from(FRAME_LEN_MIN)));
        let prefix_len = self.references.map_or(0, |limits| {
            (u64::from(limits.count_max) * frame_len).min(there - frame_len.min(there))
        });
        let mut distinct: Vec<Settings> = Vec::new();
        let mut encoders: Vec<u64> = Vec::new();
        let mut add = |settings: Vec<Settings>, frame_len: u64, prefix_len: u64| {
            for settings in settings {
                if !distinct.contains(&settings) {
                    distinct.push(settings);
                    let len = settings.encoder_memory_len(frame_len as usize, prefix_len as usize);
                    encoders.push(len);
                }
            }
        };
        let classes = || self.classes.all().iter();
        classes().for_each(|class| add(class.codecs.distinct(), frame_len, prefix_len));
        for hot in classes().filter_map(|class| class.hot.as_ref()) {
            add(hot.codecs.distinct(), hot.frame_len as u64, 0);
        }
        let may_try_lines = |class: &FrameClass| class.tries_lines || class.tries_filters;
        let lines = match classes().any(may_try_lines) {
            true => lines_memory_len(frame_len as usize),
            false => 0,
        };
        let fixed = self.fixed_bytes(there);
        // One thread may need the encoders of all settings, or make each when it is needed.
        let thread_bytes = |keeps_encoders: bool| {
            let encoder: u64 = match keeps_encoders {
                true => encoders.iter().sum(),
                false => encoders.iter().copied().max().unwrap_or(0),
            };
            encoder + prefix_len + 2 * frame_len + lines
        };
        // At least two frames in flight, so that a thread does not wait for the writer.
        let needed = |threads: usize, keeps_encoders: bool| {
            fixed + threads as u64 * (thread_bytes(keeps_encoders) + 2 * frame_len)
        };
        let (asked, limit) = (options.memory_bytes_max, options.memory_bytes_there);
        let least = needed(1, false);
        let given = match (asked, limit) {
            (0, 0) => MEMORY_BYTES_DEFAULT.max(needed(self.threads, true)),
            (0, limit) => {
                let usable = (limit - limit / 8).saturating_sub(PROCESS_BYTES);
                // How much an archive holds is not known, so it is tried.
                let usable = if bytes.is_some() { usable } else { usable.max(least) };
                MEMORY_BYTES_DEFAULT.max(needed(self.threads, true)).min(usable)
            }
            (asked, _) => asked,
        };
        while self.threads > 1 && needed(self.threads, true) > given {
            self.threads -= 1;
        }
        self.keeps_encoders = needed(self.threads, true) <= given;
        if needed(self.threads, self.keeps_encoders) > given {
            return Err(match asked {
                0 => WriteError::Memory { given: limit, needed: least, is_limit: true },
                given => WriteError::Memory { given, needed: least, is_limit: false },
            });
        }
        let free = given - fixed - self.threads as u64 * thread_bytes(self.keeps_encoders);
        self.tree_bytes_max = (free / 4).min(TREE_BYTES_MAX);
        let interned = (free / 8).min(INTERNED_BYTES_MAX);
        let free = free - self.tree_bytes_max - interned;
        if self.recompress {
            self.recompress_bytes_max = (free / 4).min(RECOMPRESS_BYTES_MAX);
        }
        let free = free - self.recompress_bytes_max;
        self.interned_bytes_max = interned.max(INTERNED_BYTES_MIN);
        // Where references are chosen, frames are compressed after the fingerprints and the index
        // of segments are freed.
        let waits = match self.references {
            Some(_) => self.freed_bytes(),
            None => free / 2,
        };
        let useful = FLIGHT_BYTES_MAX.max(self.threads as u64 * FLIGHT_BYTES_PER_THREAD);
        self.flight_bytes_max = waits.min(useful).max(2 * frame_len);
        self.waiting_bytes_max = match self.references {
            Some(_) => free,
            None => free.saturating_sub(self.flight_bytes_max),
        };
        if self.reorders {
            // Frames that wait are ranges of the reorder buffer.
            self.reorder_bytes_max = std::mem::take(&mut self.waiting_bytes_max);
        }
        Ok(self)
    }

    /// Memory that is free again when frames with references are compressed.
    fn freed_bytes(&self) -> u64 {
        let similarity = if self.order == Order::Similarity { SIMILARITY_BYTES } else { 0 };
        let index = if self.segment_window_len > 0 { SEGMENT_INDEX_BYTES } else { 0 };
        SKETCH_BYTES.max(similarity) + index
    }

    /// Memory beside that of the threads, for contents of `there` bytes.
    fn fixed_bytes(&self, there: u64) -> u64 {
        let mut fixed = FIXED_BYTES.min(FIXED_BYTES_MIN + 3 * there);
        // Fingerprints sample one window in 64 or 32, and are counted double, as data are uneven.
        let sketches = SKETCH_BYTES.min(there);
        let similarity = SIMILARITY_BYTES.min(2 * there);
        // The first is freed before the second is made.
        fixed += match (self.references.is_some(), self.order == Order::Similarity) {
            (true, true) => sketches.max(similarity),
            (true, false) => sketches,
            (false, true) => similarity,
            (false, false) => 0,
        };
        if self.recompress {
            fixed += FILE_LEN_MAX.min(there) + memory_len_max(FILE_LEN_MAX.min(there));
        }
        if self.segment_window_len > 0 {
            // An anchor in 16 bytes, in a table that is a third full when it has just grown.
            fixed += SEGMENT_INDEX_BYTES.min(3 * there) + SEGMENT_BLOCK_BYTES.min(there);
        }
        fixed
    }

    /// Most bytes that contents of `content_bytes` take in temporary files; `None` if nobody knows,
    /// because compressed files are taken apart. Contents wait once: in the reorder buffer, as
    /// frames, or, where these stand alone, as the frames of one large content. Where they wait as
    /// frames, a large content is copied before.
    pub(crate) fn temporary_bytes_max(&self, content_bytes: u64) -> Option<u64> {
        let waits = self.references.is_some() || self.segment_window_len > 0;
        let copied_bytes = if waits && !self.reorders { content_bytes } else { 0 };
        let kept = match self.reorders {
            true => self.reorder_bytes_max / BUFFER_BLOCK_BYTES * BUFFER_BLOCK_BYTES,
            false => self.waiting_bytes_max,
        };
        (!self.recompress).then(|| content_bytes.saturating_sub(kept).saturating_add(copied_bytes))
    }

    /// Everything beside the input that decides the bytes of an image, as text. It goes into the
    /// history and the image id.
    pub(crate) fn describe(&self, options: &Options) -> String {
        let references = self.references.unwrap_or(ReferenceLimits::NONE);
        format!(
            "level={} codec={} frame-len={} references={} depth={} closure={} spread={} segment-window={} \
             order={}{}{} page-codec={} times-kept={}{}{}",
            self.level.level,
            self.classes.usual().codecs,
            self.classes.usual().frame_len,
            references.count_max,
            references.depth_max,
            references.closure_bytes_max,
            references.co_read_bytes_max,
            self.segment_window_len,
            self.order,
            first(options),
            if options.recompress.unwrap_or(false) { " recompress" } else { "" },
            self.page_settings,
            options.times_kept,
            rules(options),
            label(options)
        )
    }
}

/// Longest label.
const LABEL_LEN_MAX: usize = 255;

/// The label, as the last part of the description: it may contain spaces.
fn label(options: &Options) -> String {
    options.label.as_ref().map_or(String::new(), |label| format!(" label={label}"))
}

/// The rules, as part of the description, without spaces and control characters.
fn rules(options: &Options) -> String {
    let rules = options.rules.all().iter();
    let rules = rules.map(|rule| rule.text.escape_ascii().to_string().replace(' ', "\\x20"));
    rules.map(|rule| format!(" rule={rule}")).collect()
}

/// The list of contents that are stored first, as part of the description.
fn first(options: &Options) -> String {
    let paths = &options.first;
    if paths.is_empty() {
        return String::new();
    }
    let mut sum = Xxh3::new();
    for path in paths {
        sum.update(path);
        sum.update(&[0]);
    }
    let word = if options.first_is_hot { "hot" } else { "first" };
    format!(" {word}={}:{:032x}", paths.len(), sum.sum_128())
}

fn zstd() -> Settings {
    Settings { codec: Codec::Zstd, level: 3, ..Settings::STORED }
}

fn option(option: &'static str, found: impl ToString, allowed: String) -> WriteError {
    WriteError::Option { option, found: found.to_string(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_said_at_once_and_less_memory_takes_threads_away() {
        let options = |memory_bytes_max, threads| Options {
            memory_bytes_max,
            threads,
            level: 3,
            codecs: vec![(None, "zstd:19".parse().unwrap())],
            ..Options::default()
        };
        let Err(error) = Plan::new(&options(1 << 20, 4), None) else {
            panic!("1 MiB is not enough");
        };
        let WriteError::Memory { needed, is_limit: false, .. } = error else { panic!("{error}") };
        assert!(error.to_string().contains("at least"), "{error}");
        assert!(Plan::new(&options(needed, 4), None).is_ok());
        assert!(Plan::new(&options(needed - 1, 4), None).is_err());
        let much = Plan::new(&options(4 << 30, 4), None).unwrap();
        assert_eq!(much.threads, 4);
        let little = Plan::new(&options(90 << 20, 64), None).unwrap();
        assert!(little.threads < 64);
        assert_eq!(much.describe(&options(1, 1)), little.describe(&options(2, 2)));
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let bad = [
            Options { level: 10, ..Options::default() },
            Options { frame_len: Some(1000), ..Options::default() },
            Options { frame_len: Some(65 << 20), ..Options::default() },
            Options { snapshot_name: vec![b'x'; 256], ..Options::default() },
            Options { codecs: vec![(None, "brotli:9".parse().unwrap())], ..Options::default() },
        ];
        for options in bad {
            assert!(matches!(Plan::new(&options, None), Err(WriteError::Option { .. })));
        }
    }

    #[test]
    fn a_small_source_needs_little_and_a_limit_of_the_system_is_kept() {
        let there = |level, memory_bytes_there, bytes| {
            let options = Options { level, memory_bytes_there, threads: 4, ..Options::default() };
            Plan::new(&options, bytes)
        };
        for level in [1, 6, 9] {
            assert!(there(level, 150 << 20, Some(1 << 20)).is_ok(), "level {level}");
        }
        let Err(WriteError::Memory { given, needed, is_limit: true }) =
            there(9, 150 << 20, Some(1 << 40))
        else {
            panic!("LZMA with prefixes of 12 MiB needs more");
        };
        assert!(given == 150 << 20 && needed > given);
        // What an archive holds is not known before it was read.
        let archive = there(9, 150 << 20, None).unwrap();
        assert!(archive.threads == 1 && !archive.keeps_encoders);
        let plenty = there(9, 64 << 30, Some(1 << 40)).unwrap();
        assert!(plenty.threads == 4 && plenty.keeps_encoders);
    }
}
