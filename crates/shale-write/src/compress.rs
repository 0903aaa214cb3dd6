//! One frame's plain bytes become stored bytes.
//!
//! The result depends on the plain bytes, the references and the settings alone. A frame is
//! stored plain where no codec makes it smaller. References are kept only where they pay: the
//! frame is compressed with them, and without them unless quick trials show already which is
//! better. Where the codec would sort the references' bytes before it begins, quick trials alone
//! decide, of each reference. Machine code may be filtered first, which a quick trial decides as
//! well; a frame's references are then filtered alike, so that what was equal stays equal. Text
//! whose lines resemble each other is stored as columns, without references, where that is shorter.

use std::sync::Arc;

use shale_codec::{Codec, Encoder, Filter, Settings, lines_form, looks_incompressible, xxh3_64};
use shale_format::{Category, FrameRecord};

use crate::WriteError;
use crate::codecs::Choice;
use crate::emit::codec_error;

/// What a thread keeps between frames: encoders with their tables, and a buffer.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    encoders: Vec<Encoder>,
    prefix: Vec<u8>,
    filtered: Vec<u8>,
}

/// How frames are compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packing {
    pub(crate) choice: Choice,
    /// Try to compress what looks incompressible.
    pub(crate) tries_incompressible: bool,
    /// Try filters on machine code and on text, unless all is stored as it is.
    pub(crate) tries_filters: bool,
}

impl Packing {
    /// Whether nothing is to be compressed.
    fn stores(&self) -> bool {
        self.choice.without_trial().is_some_and(|settings| settings.codec == Codec::Stored)
    }

    /// Whether frames of this category may get a filter.
    fn tries_filters_on(&self, category: Category) -> bool {
        matches!(category, Category::Text | Category::Code) && self.tries_filters && !self.stores()
    }
}

/// A frame's references: their numbers and plain bytes, in prefix order.
pub(crate) type References = Vec<(u64, Arc<Vec<u8>>)>;

/// A frame ready to be written.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) stored: Vec<u8>,
    /// All but offsets, depth and place of the references.
    pub(crate) record: FrameRecord,
    pub(crate) references: Vec<u64>,
    /// There were references, and they did not pay.
    pub(crate) references_dropped: bool,
    /// Bytes that the references saved, about: at least so many, or as quick trials have it.
    pub(crate) saved_bytes: u64,
}

/// A frame that is filtered already, and what is known of it.
#[derive(Debug)]
struct Filtered<'a> {
    bytes: &'a [u8],
    filter: Filter,
    category: Category,
    /// What a quick trial with all its references left, if there was one.
    trial_len: Option<usize>,
}

/// How a frame may be stored.
#[derive(Debug)]
struct Encoding {
    codec: Codec,
    filter: Filter,
    stored: Vec<u8>,
}

/// An encoding, or none that is shorter than the plain bytes, and the references that it needs.
#[derive(Debug, Default)]
struct Attempt {
    encoding: Option<Encoding>,
    kept: Vec<u64>,
    saved_bytes: u64,
}

impl Attempt {
    /// An encoding with references that save some bytes.
    fn with(
        settings: Settings,
        filter: Filter,
        stored: Vec<u8>,
        references: References,
        saved: usize,
    ) -> Self {
        Self {
            encoding: Some(Encoding { codec: settings.codec, filter, stored }),
            kept: references.into_iter().map(|(frame, _)| frame).collect(),
            saved_bytes: saved as u64,
        }
    }
}

/// What was found out about a frame's lines.
#[derive(Debug, Default)]
struct Lines {
    encoding: Option<Encoding>,
    /// Nothing else can be shorter.
    is_certain: bool,
    /// What a quick trial leaves of the plain bytes with their references, if there was one.
    plain_trial_len: Option<usize>,
}

/// References must save at least one part in this many, as each costs a reader a decode.
const REFERENCE_GAIN_SHARE: usize = 32;
/// Where references save one part in this many of what a quick trial leaves, they save a thorough
/// codec about as much (decision 0013), and it is not asked for the frame alone.
const QUICK_GAIN_SHARE: usize = 8;
/// From this level on zstd sorts what it has seen into trees, which takes as long for references as
/// for frames, and quick trials decide.
const TRIAL_LEVEL_MIN: i32 = 13;
/// There, what a quick trial leaves of a frame alone must fall by one part in so many with all its
/// references, and by one part in so many with each. More is asked than above, as a quick codec
/// finds less in the frame itself, so references save more of what it leaves (decision 0013).
const TRIAL_GAIN_SHARE: usize = 12;
const TRIAL_GAIN_SHARE_OF_EACH: usize = 25;
/// Of text so many times less is asked: it saves as many bytes a second as others do.
const TEXT_FACTOR: usize = 2;
/// Bytes of the tables that references cost.
const REFERENCE_COST: usize = 4;
/// A thorough codec makes what a quick one leaves not smaller than this share of it, in percent.
const QUICK_SHARE: usize = 60;
/// Filters that are tried on machine code.
const FILTERS: [Filter; 2] = [Filter::BcjX86, Filter::BcjArm64];
/// A filter must save at least one part in this many, in percent of a quick trial's result: it
/// costs a reader a pass over the bytes.
const FILTER_GAIN_SHARE: usize = 100;
/// Where a quick trial of lines as columns leaves at most one part in this many of what a trial of
/// the plain bytes leaves, no thorough codec makes up for it, and none is asked.
const LINES_CERTAIN_SHARE: usize = 2;
/// The quick trial.
const QUICK: Settings = Settings { codec: Codec::Zstd, level: 1, ..Settings::STORED };

impl Bench {
    /// Compresses bytes.
    pub(crate) fn encode(
        &mut self,
        settings: Settings,
        prefix: &[u8],
        plain: &[u8],
    ) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        self.encoder(settings)?.encode(prefix, plain, &mut out).map_err(codec_error)?;
        Ok(out)
    }

    fn encoder(&mut self, settings: Settings) -> Result<&mut Encoder, WriteError> {
        let index = match self.encoders.iter().position(|e| *e.settings() == settings) {
            Some(index) => index,
            None => {
                self.encoders.push(Encoder::new(settings).map_err(codec_error)?);
                self.encoders.len() - 1
            }
        };
        Ok(&mut self.encoders[index])
    }

    /// Compresses one frame.
    pub(crate) fn pack(
        &mut self,
        packing: &Packing,
        plain: &[u8],
        category: Category,
        references: References,
    ) -> Result<Packed, WriteError> {
        let had_references = !references.is_empty();
        let lines = if category == Category::Text && packing.tries_filters_on(category) {
            self.pack_lines(&packing.choice, plain, &references)?
        } else {
            Lines::default()
        };
        let mut best = Attempt { encoding: lines.encoding, ..Attempt::default() };
        if !lines.is_certain {
            let known = (category, lines.plain_trial_len);
            let in_place = self.pack_in_place(packing, plain, known, references)?;
            let len = |attempt: &Attempt| {
                attempt.encoding.as_ref().map_or(plain.len(), |encoding| encoding.stored.len())
            };
            if best.encoding.is_none() || len(&in_place) < len(&best) {
                best = in_place;
            }
        }
        let Encoding { codec, filter, stored } = best.encoding.unwrap_or_else(|| Encoding {
            codec: Codec::Stored,
            filter: Filter::None,
            stored: plain.to_vec(),
        });
        let record = FrameRecord {
            plain_len: plain.len() as u64,
            stored_len: stored.len() as u64,
            codec: codec.id(),
            filter: filter.id(),
            category: if codec == Codec::Stored && !packing.stores() {
                Category::Incompressible as u64
            } else {
                category as u64
            },
            reference_count: best.kept.len() as u32,
            stored_sum: xxh3_64(&stored),
            plain_sum: xxh3_64(plain),
            ..FrameRecord::default()
        };
        let references_dropped = had_references && best.kept.is_empty();
        let Attempt { kept: references, saved_bytes, .. } = best;
        Ok(Packed { stored, record, references, references_dropped, saved_bytes })
    }

    /// The frame as it is or with a filter for machine code, if these are to be tried, with
    /// references or alone. The length that a quick trial left of it is given if it is known.
    fn pack_in_place(
        &mut self,
        packing: &Packing,
        plain: &[u8],
        (category, trial_len): (Category, Option<usize>),
        references: References,
    ) -> Result<Attempt, WriteError> {
        let tries_bcj = category == Category::Code && packing.tries_filters_on(category);
        let (filter, trial_len) = if tries_bcj {
            let (filter, trial_len) = self.choose_filter(plain, &references)?;
            (filter, Some(trial_len))
        } else {
            (Filter::None, trial_len)
        };
        let mut filtered = std::mem::take(&mut self.filtered);
        filtered.clear();
        filtered.extend_from_slice(plain);
        filter.apply(&mut filtered);
        let (settings, trial_len) = match (packing.choice.without_trial(), trial_len) {
            (Some(settings), _) => (settings, trial_len),
            (None, Some(len)) => (packing.choice.with_trial(plain.len(), len), trial_len),
            (None, None) => {
                let len = self.try_plain(&filtered, &references, filter)?;
                (packing.choice.with_trial(plain.len(), len), Some(len))
            }
        };
        let mut attempt = Attempt::default();
        if !references.is_empty() && settings.codec.prefix_len_max() > 0 {
            let frame = Filtered { bytes: &filtered, filter, category, trial_len };
            let is_tried = settings.codec == QUICK.codec && settings.level >= TRIAL_LEVEL_MIN;
            attempt = if is_tried {
                self.pack_by_trial(&packing.choice, settings, &frame, references)?
            } else {
                self.pack_by_comparing(settings, &frame, references)?
            };
        }
        if attempt.encoding.is_none() {
            let alone = self.pack_alone(settings, packing.tries_incompressible, &filtered)?;
            attempt.encoding = alone.map(|(codec, stored)| Encoding { codec, filter, stored });
        }
        self.filtered = filtered;
        Ok(attempt)
    }

    /// The frame's lines as columns; no encoding where a quick trial shows that the frame with its
    /// references is shorter.
    fn pack_lines(
        &mut self,
        choice: &Choice,
        plain: &[u8],
        references: &References,
    ) -> Result<Lines, WriteError> {
        let Some(form) = lines_form(plain) else { return Ok(Lines::default()) };
        let trial_len = self.encode(QUICK, &[], &form)?.len();
        let plain_trial_len = self.try_plain(plain, references, Filter::None)?;
        let tried = Lines { plain_trial_len: Some(plain_trial_len), ..Lines::default() };
        if trial_len >= plain_trial_len {
            return Ok(tried);
        }
        let settings = choice.with_trial(form.len(), trial_len);
        let mut stored = Vec::new();
        self.encoder(settings)?.encode_form(&form, &mut stored).map_err(codec_error)?;
        // The trial says nothing of a codec that finds less than it.
        let is_certain = settings.codec != Codec::Lz4
            && trial_len <= plain_trial_len / LINES_CERTAIN_SHARE
            && stored.len() < plain.len();
        let encoding = Encoding { codec: settings.codec, filter: Filter::Lines, stored };
        Ok(Lines { encoding: Some(encoding), is_certain, ..tried })
    }

    /// What a quick trial leaves of bytes that are filtered already, with references.
    fn try_plain(
        &mut self,
        filtered: &[u8],
        references: &References,
        filter: Filter,
    ) -> Result<usize, WriteError> {
        Ok(self.encode_with(QUICK, filtered, references, filter)?.len())
    }

    /// The filter that makes a quick trial with the frame's references smallest, if it gains, and
    /// what that trial leaves.
    fn choose_filter(
        &mut self,
        plain: &[u8],
        references: &References,
    ) -> Result<(Filter, usize), WriteError> {
        let mut best = (Filter::None, usize::MAX);
        for filter in [Filter::None].into_iter().chain(FILTERS) {
            let mut filtered = plain.to_vec();
            filter.apply(&mut filtered);
            if filter != Filter::None && filtered == plain {
                continue;
            }
            let len = self.try_plain(&filtered, references, filter)?;
            if best.1 == usize::MAX || len + best.1 / FILTER_GAIN_SHARE < best.1 {
                best = (filter, len);
            }
        }
        Ok(best)
    }

    /// Puts the references' bytes, each filtered by itself, one behind the other.
    fn fill_prefix(&mut self, references: &References, filter: Filter) {
        self.prefix.clear();
        for (_, bytes) in references {
            let start = self.prefix.len();
            self.prefix.extend_from_slice(bytes);
            filter.apply(&mut self.prefix[start..]);
        }
    }

    /// The frame without references; none if it does not get smaller.
    fn pack_alone(
        &mut self,
        settings: Settings,
        tries_incompressible: bool,
        plain: &[u8],
    ) -> Result<Option<(Codec, Vec<u8>)>, WriteError> {
        let codec = settings.codec;
        let hopeless = !tries_incompressible && looks_incompressible(plain);
        if codec != Codec::Stored && !hopeless {
            let stored = self.encode(settings, &[], plain)?;
            if stored.len() < plain.len() {
                return Ok(Some((codec, stored)));
            }
        }
        Ok(None)
    }

    /// The frame with those of its references that quick trials find worth it, if there are any.
    fn pack_by_trial(
        &mut self,
        choice: &Choice,
        settings: Settings,
        frame: &Filtered<'_>,
        mut references: References,
    ) -> Result<Attempt, WriteError> {
        let &Filtered { bytes: plain, filter, category, trial_len } = frame;
        let factor = if category == Category::Text { TEXT_FACTOR } else { 1 };
        let alone = self.encode(QUICK, &[], plain)?.len().min(plain.len());
        let mut left = match trial_len {
            Some(len) => len,
            None => self.try_plain(plain, &references, filter)?,
        };
        if left == 0 || left + alone / (factor * TRIAL_GAIN_SHARE) >= alone {
            return Ok(Attempt::default());
        }
        // The one that adds least comes first.
        let mut at = 0;
        while references.len() > 1 && at < references.len() {
            let reference = references.remove(at);
            let len = self.try_plain(plain, &references, filter)?;
            if len < left + alone / (factor * TRIAL_GAIN_SHARE_OF_EACH) {
                left = len;
            } else {
                references.insert(at, reference);
                at += 1;
            }
        }
        let settings = choice.with_references(settings, plain.len(), left);
        let stored = self.encode_with(settings, plain, &references, filter)?;
        if stored.len() + REFERENCE_COST * references.len() >= plain.len() {
            return Ok(Attempt::default());
        }
        let saved = stored.len() * alone.saturating_sub(left) / left;
        Ok(Attempt::with(settings, filter, stored, references, saved))
    }

    /// The frame with its references, if it is smaller so than alone, as far as that has to be
    /// tried.
    fn pack_by_comparing(
        &mut self,
        settings: Settings,
        frame: &Filtered<'_>,
        references: References,
    ) -> Result<Attempt, WriteError> {
        let &Filtered { bytes: plain, filter, trial_len, .. } = frame;
        let stored = self.encode_with(settings, plain, &references, filter)?;
        let cost = stored.len() + REFERENCE_COST * references.len();
        let pays = |alone: usize| cost + alone / REFERENCE_GAIN_SHARE < alone;
        let quick = self.encode(QUICK, &[], plain)?.len().min(plain.len());
        let at_least = quick * QUICK_SHARE / 100;
        if pays(at_least) {
            let saved = at_least - cost;
            return Ok(Attempt::with(settings, filter, stored, references, saved));
        }
        if !pays(quick.max(1)) && settings.codec == QUICK.codec {
            // Not even better than the quick trial, so the thorough one need not be asked.
            return Ok(Attempt::default());
        }
        let gains = |&len: &usize| len > 0 && len + quick / QUICK_GAIN_SHARE < quick;
        if let Some(trial_len) = trial_len.filter(gains)
            && pays(quick)
        {
            let saved = stored.len() * (quick - trial_len) / trial_len;
            return Ok(Attempt::with(settings, filter, stored, references, saved));
        }
        let alone = self.encode(settings, &[], plain)?.len().min(plain.len());
        if !pays(alone) {
            return Ok(Attempt::default());
        }
        Ok(Attempt::with(settings, filter, stored, references, alone - cost))
    }

    /// Compresses a frame, filtered already, with references that are not.
    fn encode_with(
        &mut self,
        settings: Settings,
        plain: &[u8],
        references: &References,
        filter: Filter,
    ) -> Result<Vec<u8>, WriteError> {
        self.fill_prefix(references, filter);
        let prefix = std::mem::take(&mut self.prefix);
        let stored = self.encode(settings, &prefix, plain);
        self.prefix = prefix;
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random;

    fn packing(codec: Codec) -> Packing {
        let settings = Settings::new(codec, Settings::default_level(codec)).unwrap();
        Packing { choice: Choice::one(settings), tries_incompressible: false, tries_filters: true }
    }

    #[test]
    fn references_are_kept_where_they_pay_and_only_there() {
        let mut bench = Bench::default();
        let related = Arc::new(random(1, 100_000));
        let unrelated = Arc::new(random(2, 100_000));
        let mut plain = related[20_000..90_000].to_vec();
        plain[35_000] ^= 1;
        for codec in [Codec::Zstd, Codec::Lzma, Codec::Brotli] {
            let packing = packing(codec);
            let references = vec![(7, Arc::clone(&related))];
            let packed = bench.pack(&packing, &plain, Category::Generic, references).unwrap();
            assert_eq!(packed.references, [7]);
            assert!(packed.stored.len() < 1000 && packed.saved_bytes > 30_000);
            let mut decoded = Vec::new();
            shale_codec::Decoder::new()
                .decode(codec, &related, &packed.stored, plain.len(), &mut decoded)
                .unwrap();
            assert_eq!(decoded, plain);
            let references = vec![(8, Arc::clone(&unrelated))];
            let packed = bench.pack(&packing, &plain, Category::Generic, references).unwrap();
            assert!(packed.references.is_empty() && packed.references_dropped);
            assert_eq!(packed.stored, plain, "stored, as it does not compress");
        }
    }

    #[test]
    fn what_references_save_is_estimated_well_where_it_is_not_tried() {
        let letters = |seed| -> Vec<u8> {
            random(seed, 200_000).iter().map(|byte| b'a' + byte % 23).collect()
        };
        let related = Arc::new(letters(3));
        let mut plain = letters(4);
        plain[20_000..70_000].copy_from_slice(&related[90_000..140_000]);
        let packing = packing(Codec::Zstd);
        let mut bench = Bench::default();
        let alone = bench.pack(&packing, &plain, Category::Code, vec![]).unwrap();
        let references = vec![(1, Arc::clone(&related))];
        // Trials of code choose filters, so that it is known what one leaves.
        let packed = bench.pack(&packing, &plain, Category::Code, references).unwrap();
        assert_eq!(packed.references, [1]);
        let saved = alone.stored.len() - packed.stored.len();
        assert!(saved > alone.stored.len() / 5, "{saved}");
        assert!(packed.saved_bytes.abs_diff(saved as u64) < saved as u64 / 10);
    }

    #[test]
    fn trials_leave_out_what_others_hold_already_and_what_saves_little() {
        let letters = |seed| -> Vec<u8> {
            random(seed, 200_000).iter().map(|byte| b'a' + byte % 23).collect()
        };
        let plain = letters(5);
        let holding = |seed, range: std::ops::Range<usize>| {
            let mut other = letters(seed);
            other[range.clone()].copy_from_slice(&plain[range]);
            Arc::new(other)
        };
        let little = holding(9, 0..10_000);
        let references: References = vec![
            (1, holding(6, 100_000..130_000)),
            (2, holding(7, 0..80_000)),
            (3, Arc::clone(&little)),
            (4, holding(8, 80_000..160_000)),
        ];
        let settings = Settings::new(Codec::Zstd, TRIAL_LEVEL_MIN).unwrap();
        let packing = Packing { choice: Choice::one(settings), ..packing(Codec::Zstd) };
        let mut bench = Bench::default();
        let alone = bench.pack(&packing, &plain, Category::Generic, vec![]).unwrap();
        let packed = bench.pack(&packing, &plain, Category::Generic, references.clone()).unwrap();
        assert_eq!(packed.references, [2, 4]);
        let saved = (alone.stored.len() - packed.stored.len()) as u64;
        assert!(packed.saved_bytes.abs_diff(saved) < saved / 10, "{saved}");
        let prefix = [&references[1].1[..], &references[3].1[..]].concat();
        let mut decoded = Vec::new();
        shale_codec::Decoder::new()
            .decode(Codec::Zstd, &prefix, &packed.stored, plain.len(), &mut decoded)
            .unwrap();
        assert_eq!(decoded, plain);
        // A twentieth is not worth sorting a frame for, and so not tried.
        let references = vec![(3, little)];
        let packed = bench.pack(&packing, &plain, Category::Generic, references.clone()).unwrap();
        assert!(packed.references.is_empty() && packed.references_dropped);
        assert_eq!(packed.stored, alone.stored);
        // Of text it is.
        let packed = bench.pack(&packing, &plain, Category::Text, references).unwrap();
        assert_eq!(packed.references, [3]);
        assert!(packed.stored.len() < alone.stored.len());
    }

    #[test]
    fn lines_are_columns_where_that_is_shorter_than_with_references() {
        let log = |first: u32| -> Vec<u8> {
            let took = |i: u32| i.wrapping_mul(2_654_435_761) >> 22;
            let line = |i: u32| format!("{:07} worker {} took {} us\n", i * 3, i % 4, took(i));
            (first..first + 3000).flat_map(|i| line(i).into_bytes()).collect()
        };
        let mut bench = Bench::default();
        let packing = packing(Codec::Zstd);
        let other = Arc::new(log(500_000));
        let plain = log(10);
        let references = vec![(7, Arc::clone(&other))];
        let packed = bench.pack(&packing, &plain, Category::Text, references).unwrap();
        let record = &packed.record;
        assert_eq!((record.filter, record.reference_count), (Filter::Lines.id(), 0));
        assert!(packed.references_dropped);
        let mut decoded = Vec::new();
        shale_codec::Decoder::new()
            .decode_filtered(
                (Codec::Zstd, Filter::Lines),
                &[],
                &packed.stored,
                plain.len(),
                &mut decoded,
            )
            .unwrap();
        assert_eq!(decoded, plain);
        // The frame itself as reference leaves nothing that columns could make shorter.
        let references = vec![(7, Arc::new(plain.clone()))];
        let packed = bench.pack(&packing, &plain, Category::Text, references).unwrap();
        assert_eq!((packed.record.filter, &packed.references[..]), (Filter::None.id(), &[7][..]));
        // Nobody asked for it.
        let untried = Packing { tries_filters: false, ..packing };
        let packed = bench.pack(&untried, &plain, Category::Text, Vec::new()).unwrap();
        assert_eq!(packed.record.filter, Filter::None.id());
    }

    #[test]
    fn nothing_is_stored_longer_than_plain() {
        let mut bench = Bench::default();
        for codec in Codec::ALL {
            for plain in [vec![1u8], random(3, 50), random(4, 5000), vec![0; 5000]] {
                let packed =
                    bench.pack(&packing(codec), &plain, Category::Generic, Vec::new()).unwrap();
                assert!(packed.stored.len() <= plain.len(), "{codec}");
                assert_eq!(packed.record.plain_sum, xxh3_64(&plain));
                assert_eq!(packed.record.stored_sum, xxh3_64(&packed.stored));
            }
        }
    }
}
