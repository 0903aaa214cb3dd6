//! Turns the plain bytes of a frame into stored bytes.
//!
//! The result depends only on the plain bytes, the references and the settings. A frame is stored
//! as it is where no codec makes it smaller.
//!
//! References are kept only where they pay. The frame is compressed with them and without them,
//! unless quick trials already show which is better. Where the codec would first sort the bytes of
//! the references, quick trials alone decide, for each reference.
//!
//! A filter for machine code may be applied first; a quick trial decides. The references of the
//! frame are then filtered in the same way, so that equal bytes stay equal. Text whose lines
//! resemble each other is stored as columns, an array of records as planes, and samples of sound
//! and pictures as residuals, all without references, where that is shorter.

use std::sync::Arc;

use shale_codec::{
    ArrayShape, Codec, Effort, Filter, SampleLayout, Settings, Shuffle, array_form, array_shapes,
    guess_record_len, lines_form, looks_incompressible, samples_form, xxh3_64,
};
use shale_format::{Category, FrameRecord};

use crate::exec::scratch::EncoderScratch;
use crate::plan::codecs::CodecChoice;
use crate::plan::error::WriteError;

/// How frames are compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packing {
    pub(crate) choice: CodecChoice,
    /// The codecs of arrays.
    pub(crate) array_choice: CodecChoice,
    /// Try to compress frames that look incompressible.
    pub(crate) tries_incompressible: bool,
    /// Try filters on machine code and arrays, unless everything is stored as it is.
    pub(crate) tries_filters: bool,
    /// Try to store the lines of text as columns, unless everything is stored as it is.
    pub(crate) tries_lines: bool,
    /// Work for samples; `None` treats them as any bytes.
    pub(crate) effort: Option<Effort>,
    /// Where the frame holds samples.
    pub(crate) samples: Option<SampleLayout>,
}

impl Packing {
    /// Returns whether frames are stored as they are.
    fn stores(&self) -> bool {
        self.choice.without_trial().is_some_and(|settings| settings.codec == Codec::Stored)
    }

    /// Returns whether frames of this category may get a filter.
    fn tries_filters_on(&self, category: Category) -> bool {
        // An array may be in a file of sound or of a telescope, too.
        let may_gain = !matches!(category, Category::Incompressible | Category::Dictionary);
        let tries = if category == Category::Text { self.tries_lines } else { self.tries_filters };
        may_gain && tries && !self.stores()
    }
}

/// The references of a frame: their indexes and plain bytes, in prefix order.
pub(crate) type References = Vec<(u64, Arc<Vec<u8>>)>;

/// A frame ready to be written.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) stored: Vec<u8>,
    /// All fields except offsets, depth and place of the references.
    pub(crate) record: FrameRecord,
    pub(crate) references: Vec<u64>,
    /// The frame had references, but they did not pay.
    pub(crate) references_dropped: bool,
    /// Bytes that the references saved: a lower bound, or an estimate from quick trials.
    pub(crate) saved_bytes: u64,
}

/// A frame after its filter, and what is known of it.
#[derive(Debug)]
struct Filtered<'a> {
    bytes: &'a [u8],
    filter: Filter,
    category: Category,
    /// What a quick trial with all references left, if there was one.
    trial_len: Option<usize>,
}

/// A way to store a frame.
#[derive(Debug)]
struct Encoding {
    codec: Codec,
    filter: Filter,
    stored: Vec<u8>,
}

/// The shortest encoding and its references; no encoding if none is shorter than the plain bytes.
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

/// The result of trying to store lines as columns, an array as planes, or samples.
#[derive(Debug, Default)]
struct Form {
    encoding: Option<Encoding>,
    /// No other encoding can be shorter.
    is_certain: bool,
    /// What a quick trial left of the plain bytes with their references, if there was one.
    plain_trial_len: Option<usize>,
}

/// References must save at least one part in this number, as a reader decodes each of them.
const REFERENCE_GAIN_SHARE: usize = 32;
/// If references save one part in this number of what a quick trial leaves, they save about as much
/// for a thorough codec (decision 0013). Then the frame is not compressed without them.
const QUICK_GAIN_SHARE: usize = 8;
/// From this level on zstd sorts its input into trees, which takes as long for references as for
/// the frame. Then quick trials decide.
const TRIAL_LEVEL_MIN: i32 = 13;
/// There, all references together, and each of them, must save at least one part in these numbers
/// of what a quick trial leaves of the frame alone. This is more than above: a quick codec finds
/// less in the frame itself, so references save more of what it leaves (decision 0013).
const TRIAL_GAIN_SHARE: usize = 12;
const TRIAL_GAIN_SHARE_OF_EACH: usize = 25;
/// For text the bounds are lower by this factor: it saves as many bytes a second as other data do.
const TEXT_FACTOR: usize = 6;
/// Bytes of the tables for one reference.
const REFERENCE_COST: usize = 4;
/// A thorough codec leaves at least this share of what a quick one leaves, in percent.
const QUICK_SHARE: usize = 60;
/// Filters to try on machine code.
const FILTERS: [Filter; 2] = [Filter::BcjX86, Filter::BcjArm64];
/// A filter must save at least one part in this number of a quick trial's result: it costs a reader
/// a pass over the bytes.
const FILTER_GAIN_SHARE: usize = 100;
/// If a quick trial of lines as columns leaves at most one part in this number of what a trial of
/// the plain bytes leaves, no thorough codec makes up for it, and none is tried.
const LINES_CERTAIN_SHARE: usize = 2;
/// The same for arrays: planes save less than columns, but no codec finds them by itself.
const ARRAY_CERTAIN_SHARE: usize = 10;
/// And for samples: what is mostly noise leaves a thorough codec little more than a quick one.
const SAMPLES_CERTAIN_SHARE: usize = 8;
/// Bytes of the frame on which shapes of arrays are tried.
const ARRAY_SAMPLE_LEN: usize = 32 << 10;
impl Form {
    fn or_shorter(self, other: Form) -> Form {
        let len = |form: &Form| form.encoding.as_ref().map_or(usize::MAX, |e| e.stored.len());
        let plain_trial_len = other.plain_trial_len.or(self.plain_trial_len);
        let shorter = if len(&other) < len(&self) { other } else { self };
        Form { plain_trial_len, ..shorter }
    }
}

/// The settings of a quick trial.
const QUICK: Settings = Settings { codec: Codec::Zstd, level: 1, ..Settings::STORED };

/// Compresses frames with the encoders of a thread.
pub(crate) struct Compressor<'s> {
    scratch: &'s mut EncoderScratch,
}

impl<'s> Compressor<'s> {
    pub(crate) fn new(scratch: &'s mut EncoderScratch) -> Self {
        Self { scratch }
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
        let mut form = self.pack_samples(packing, plain, &references)?;
        if !form.is_certain {
            let other = match category {
                _ if !packing.tries_filters_on(category) => Form::default(),
                Category::Text => self.pack_lines(&packing.choice, plain, &references)?,
                Category::Generic | Category::Audio | Category::Sensor => {
                    self.pack_array(&packing.array_choice, plain, &references)?
                }
                _ => Form::default(),
            };
            form = form.or_shorter(other);
        }
        let mut best = Attempt { encoding: form.encoding, ..Attempt::default() };
        if !form.is_certain {
            let known = (category, form.plain_trial_len);
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
            category: if (codec, filter) == (Codec::Stored, Filter::None) && !packing.stores() {
                Category::Incompressible as u64
            } else if filter == Filter::Array
                || (filter == Filter::Samples && category == Category::Generic)
            {
                Category::Array as u64
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

    /// Compresses the frame as it is or with a filter for machine code, with references or alone.
    /// `trial_len` is what a quick trial left of it, if known.
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
        let mut filtered = std::mem::take(&mut self.scratch.filtered);
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
        self.scratch.filtered = filtered;
        Ok(attempt)
    }

    /// Stores the frame's lines as columns. Returns no encoding if a quick trial shows that the
    /// frame with its references is shorter.
    fn pack_lines(
        &mut self,
        choice: &CodecChoice,
        plain: &[u8],
        references: &References,
    ) -> Result<Form, WriteError> {
        let Some(form) = lines_form(plain) else { return Ok(Form::default()) };
        let trial_len = self.scratch.encode(QUICK, &[], &form)?.len();
        let plain_trial_len = self.try_plain(plain, references, Filter::None)?;
        let tried = Form { plain_trial_len: Some(plain_trial_len), ..Form::default() };
        if trial_len >= plain_trial_len {
            return Ok(tried);
        }
        let settings = choice.with_lines(plain.len(), form.len(), trial_len);
        let mut stored = Vec::new();
        self.scratch.encoder(settings)?.encode_form(&form, &mut stored)?;
        // The trial says nothing about a codec that finds less than zstd does.
        let is_certain = settings.codec != Codec::Lz4
            && trial_len <= plain_trial_len / LINES_CERTAIN_SHARE
            && stored.len() < plain.len();
        let encoding = Encoding { codec: settings.codec, filter: Filter::Lines, stored };
        Ok(Form { encoding: Some(encoding), is_certain, ..tried })
    }

    /// Stores the frame's samples as residuals, if it has samples. Returns no encoding if a quick
    /// trial shows that the frame with its references is shorter.
    fn pack_samples(
        &mut self,
        packing: &Packing,
        plain: &[u8],
        references: &References,
    ) -> Result<Form, WriteError> {
        let (Some(layout), Some(effort)) = (packing.samples, packing.effort) else {
            return Ok(Form::default());
        };
        if packing.stores() {
            return Ok(Form::default());
        }
        let Some(form) = samples_form(layout, effort, plain) else { return Ok(Form::default()) };
        let settings = match form.rest().len() {
            0 => Settings::STORED,
            len => packing.choice.with_trial(len, len),
        };
        let mut stored = Vec::new();
        self.scratch.encoder(settings)?.encode_samples(&form, &mut stored)?;
        let plain_trial_len = self.try_plain(plain, references, Filter::None)?;
        let tried = Form { plain_trial_len: Some(plain_trial_len), ..Form::default() };
        if stored.len() >= plain_trial_len.min(plain.len()) {
            return Ok(tried);
        }
        let is_certain = stored.len() + plain_trial_len / SAMPLES_CERTAIN_SHARE <= plain_trial_len;
        let encoding = Encoding { codec: settings.codec, filter: Filter::Samples, stored };
        Ok(Form { encoding: Some(encoding), is_certain, ..tried })
    }

    /// Stores the frame's records as planes. Returns no encoding if the frame does not look like an
    /// array, or if a quick trial shows that the frame with its references is shorter.
    fn pack_array(
        &mut self,
        choice: &CodecChoice,
        plain: &[u8],
        references: &References,
    ) -> Result<Form, WriteError> {
        let Some(record_len) = guess_record_len(plain) else { return Ok(Form::default()) };
        let Some(shape) = self.choose_shape(record_len, plain)? else {
            return Ok(Form::default());
        };
        let mut form = Vec::with_capacity(plain.len());
        array_form(shape, plain, &mut form);
        let trial_len = self.scratch.encode(QUICK, &[], &form)?.len();
        let plain_trial_len = self.try_plain(plain, references, Filter::None)?;
        let tried = Form { plain_trial_len: Some(plain_trial_len), ..Form::default() };
        if trial_len + trial_len / FILTER_GAIN_SHARE >= plain_trial_len {
            return Ok(tried);
        }
        let settings = match choice.without_trial() {
            Some(settings) => settings,
            None => choice.with_trial(form.len(), trial_len),
        };
        let mut stored = Vec::new();
        self.scratch.encoder(settings)?.encode_array(shape, &form, &mut stored)?;
        let is_certain = settings.codec != Codec::Lz4
            && trial_len + plain_trial_len / ARRAY_CERTAIN_SHARE <= plain_trial_len
            && stored.len() < plain.len();
        let encoding = Encoding { codec: settings.codec, filter: Filter::Array, stored };
        Ok(Form { encoding: Some(encoding), is_certain, ..tried })
    }

    /// Chooses the shape with the smallest quick trial on a piece of the frame. Returns nothing
    /// where the plain bytes are as small.
    fn choose_shape(
        &mut self,
        record_len: usize,
        plain: &[u8],
    ) -> Result<Option<ArrayShape>, WriteError> {
        let start = plain.len().saturating_sub(ARRAY_SAMPLE_LEN) / 2;
        let sample = &plain[start..plain.len().min(start + ARRAY_SAMPLE_LEN)];
        let mut best = (None, self.scratch.encode(QUICK, &[], sample)?.len());
        let mut form = Vec::with_capacity(sample.len());
        let mut shapes = array_shapes(record_len);
        for round in 0..2 {
            for shape in shapes.drain(..) {
                form.clear();
                array_form(shape, sample, &mut form);
                let len = self.scratch.encode(QUICK, &[], &form)?.len();
                if len < best.1 {
                    best = (Some(shape), len);
                }
                // Whatever the numbers mean, planes of an array are smaller than its records.
                if shape.is_last_of_bytes() && best.0.is_none() {
                    return Ok(None);
                }
            }
            if round == 0 {
                let others = [Shuffle::Bits, Shuffle::None];
                let with = |shape: ArrayShape| others.map(|shuffle| shape.with_shuffle(shuffle));
                shapes.extend(best.0.into_iter().flat_map(with));
            }
        }
        Ok(best.0)
    }

    /// Returns what a quick trial leaves of filtered bytes with their references.
    fn try_plain(
        &mut self,
        filtered: &[u8],
        references: &References,
        filter: Filter,
    ) -> Result<usize, WriteError> {
        Ok(self.encode_with(QUICK, filtered, references, filter)?.len())
    }

    /// Chooses the filter with the smallest quick trial, if it gains enough. Returns what that
    /// trial leaves.
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

    /// Concatenates the bytes of the references, each filtered by itself.
    fn fill_prefix(&mut self, references: &References, filter: Filter) {
        self.scratch.prefix.clear();
        for (_, bytes) in references {
            let start = self.scratch.prefix.len();
            self.scratch.prefix.extend_from_slice(bytes);
            filter.apply(&mut self.scratch.prefix[start..]);
        }
    }

    /// Compresses the frame without references. Returns nothing if it does not get smaller.
    fn pack_alone(
        &mut self,
        settings: Settings,
        tries_incompressible: bool,
        plain: &[u8],
    ) -> Result<Option<(Codec, Vec<u8>)>, WriteError> {
        let codec = settings.codec;
        let hopeless = !tries_incompressible && looks_incompressible(plain);
        if codec != Codec::Stored && !hopeless {
            let stored = self.scratch.encode(settings, &[], plain)?;
            if stored.len() < plain.len() {
                return Ok(Some((codec, stored)));
            }
        }
        Ok(None)
    }

    /// Compresses the frame with those of its references that pay in quick trials, if any do.
    fn pack_by_trial(
        &mut self,
        choice: &CodecChoice,
        settings: Settings,
        frame: &Filtered<'_>,
        mut references: References,
    ) -> Result<Attempt, WriteError> {
        let &Filtered { bytes: plain, filter, category, trial_len } = frame;
        let factor = if category == Category::Text { TEXT_FACTOR } else { 1 };
        let alone = self.scratch.encode(QUICK, &[], plain)?.len().min(plain.len());
        let mut left = match trial_len {
            Some(len) => len,
            None => self.try_plain(plain, &references, filter)?,
        };
        if left == 0 || left + alone / (factor * TRIAL_GAIN_SHARE) >= alone {
            return Ok(Attempt::default());
        }
        // The reference that adds least comes first.
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

    /// Compresses the frame with its references, and alone as far as that is needed to see which is
    /// smaller. Returns no encoding if the references do not pay.
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
        let quick = self.scratch.encode(QUICK, &[], plain)?.len().min(plain.len());
        let at_least = quick * QUICK_SHARE / 100;
        if pays(at_least) {
            let saved = at_least - cost;
            return Ok(Attempt::with(settings, filter, stored, references, saved));
        }
        if !pays(quick.max(1)) && settings.codec == QUICK.codec {
            // Not better than the quick trial, so the thorough one is not needed.
            return Ok(Attempt::default());
        }
        let gains = |&len: &usize| len > 0 && len + quick / QUICK_GAIN_SHARE < quick;
        if let Some(trial_len) = trial_len.filter(gains)
            && pays(quick)
        {
            let saved = stored.len() * (quick - trial_len) / trial_len;
            return Ok(Attempt::with(settings, filter, stored, references, saved));
        }
        let alone = self.scratch.encode(settings, &[], plain)?.len().min(plain.len());
        if !pays(alone) {
            return Ok(Attempt::default());
        }
        Ok(Attempt::with(settings, filter, stored, references, alone - cost))
    }

    /// Compresses a filtered frame with references that are not filtered yet.
    fn encode_with(
        &mut self,
        settings: Settings,
        plain: &[u8],
        references: &References,
        filter: Filter,
    ) -> Result<Vec<u8>, WriteError> {
        self.fill_prefix(references, filter);
        let prefix = std::mem::take(&mut self.scratch.prefix);
        let stored = self.scratch.encode(settings, &prefix, plain);
        self.scratch.prefix = prefix;
        stored
    }
}

#[cfg(test)]
mod tests;
