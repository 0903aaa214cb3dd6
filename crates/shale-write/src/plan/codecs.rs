//! Which codec a frame gets: by its category and, for text, generic data, arrays and frames that
//! their references cover, by how little a quick trial leaves. Lines as columns have codecs of
//! their own.

use std::fmt;

use shale_codec::{Codec, Settings, SettingsError};
use shale_format::Category;

use crate::plan::level::{CodecOfLittle, Level};

/// Most codecs that a level may have beside its own.
pub(crate) const CODEC_OF_LITTLE_COUNT_MAX: usize = 2;

/// The codec of hot files at levels whose own codec decodes slowly.
const HOT_CODEC: &str = "zstd:19";

/// The codecs of one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecChoice {
    /// For frames that do not compress well, and where no trial is made.
    otherwise: Settings,
    /// For frames of which a quick trial leaves at most one part in the given number, the largest
    /// number first.
    of_little: [Option<(usize, Settings)>; CODEC_OF_LITTLE_COUNT_MAX],
    /// For lines as columns, instead of all others: for forms of which a quick trial leaves at most
    /// one part in the given number of the plain bytes, the largest number first.
    of_lines: [Option<(usize, Settings)>; CODEC_OF_LITTLE_COUNT_MAX],
    /// Replaces `otherwise` for frames of which a quick trial with their references leaves at most
    /// one part in the given number.
    of_covered: Option<(usize, Settings)>,
}

impl CodecChoice {
    /// The same codec for all frames.
    pub(crate) const fn one(settings: Settings) -> Self {
        Self {
            otherwise: settings,
            of_little: [None; CODEC_OF_LITTLE_COUNT_MAX],
            of_lines: [None; CODEC_OF_LITTLE_COUNT_MAX],
            of_covered: None,
        }
    }

    /// The codec, if no trial is needed to choose it.
    pub(crate) fn without_trial(&self) -> Option<Settings> {
        match self.of_little[0] {
            None => Some(self.otherwise),
            Some((1, settings)) => Some(settings),
            Some(_) => None,
        }
    }

    /// The codec for `plain_len` bytes of which a trial leaves `trial_len`.
    pub(crate) fn with_trial(&self, plain_len: usize, trial_len: usize) -> Settings {
        find(&self.of_little, plain_len, trial_len).unwrap_or(self.otherwise)
    }

    /// The codec for `plain_len` bytes whose lines form is `form_len` bytes long, if a trial leaves
    /// `trial_len` of the form.
    pub(crate) fn with_lines(
        &self,
        plain_len: usize,
        form_len: usize,
        trial_len: usize,
    ) -> Settings {
        find(&self.of_lines, plain_len, trial_len)
            .unwrap_or_else(|| self.with_trial(form_len, trial_len))
    }

    /// The codec for `plain_len` bytes that would get `settings`, if a trial with the references
    /// that are kept leaves `trial_len`.
    pub(crate) fn with_references(
        &self,
        settings: Settings,
        plain_len: usize,
        trial_len: usize,
    ) -> Settings {
        match self.of_covered {
            Some((share, of_covered))
                if settings == self.otherwise && trial_len <= plain_len / share =>
            {
                of_covered
            }
            _ => settings,
        }
    }

    fn all(&self) -> impl Iterator<Item = Settings> {
        let of_some = self.of_little.iter().chain(&self.of_lines);
        let of_some = of_some.chain(std::iter::once(&self.of_covered));
        std::iter::once(self.otherwise).chain(of_some.flatten().map(|&(_, settings)| settings))
    }
}

/// The first codec that is for `plain_len` bytes of which a trial leaves `trial_len`.
fn find(
    codecs: &[Option<(usize, Settings)>],
    plain_len: usize,
    trial_len: usize,
) -> Option<Settings> {
    let mut codecs = codecs.iter().flatten();
    let found = codecs.find(|(share, _)| trial_len <= plain_len / share);
    found.map(|&(_, settings)| settings)
}

impl fmt::Display for CodecChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (share, settings) in self.of_little.iter().flatten() {
            write!(f, "{settings}/{share}|")?;
        }
        for (share, settings) in self.of_lines.iter().flatten() {
            write!(f, "{settings}/{share} lines|")?;
        }
        if let Some((share, settings)) = self.of_covered {
            write!(f, "{settings}/{share} referring|")?;
        }
        write!(f, "{}", self.otherwise)
    }
}

/// The codecs of all categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Codecs([CodecChoice; Category::ALL.len()]);

impl Codecs {
    /// Takes the codecs of a level, except where the caller asked for others: for one category, or
    /// for all.
    ///
    /// # Errors
    /// The settings that are wrong, and why.
    pub(crate) fn new(
        level: &Level,
        asked: &[(Option<Category>, Settings)],
    ) -> Result<Self, (String, SettingsError)> {
        let mut codecs = Self::with(level.codec, level.codecs_of_little, level.codec_of_covered)?;
        let slots = &mut codecs.0[Category::Text as usize].of_lines;
        for (slot, codec) in slots.iter_mut().zip(level.codecs_of_lines) {
            *slot = Some((codec.share, parse(codec.codec)?));
        }
        codecs.replace(asked)?;
        Ok(codecs)
    }

    /// Takes the codecs for files that programs wait for: zstd where the level has LZMA, whose
    /// decoder is many times slower. What the caller asked for still counts.
    ///
    /// # Errors
    /// As [`Codecs::new`].
    pub(crate) fn hot(
        level: &Level,
        asked: &[(Option<Category>, Settings)],
    ) -> Result<Self, (String, SettingsError)> {
        let is_slow = parse(level.codec)?.codec == Codec::Lzma;
        let mut codecs = Self::with(if is_slow { HOT_CODEC } else { level.codec }, &[], None)?;
        codecs.replace(asked)?;
        Ok(codecs)
    }

    fn with(
        codec: &str,
        codecs_of_little: &[CodecOfLittle],
        codec_of_covered: Option<CodecOfLittle>,
    ) -> Result<Self, (String, SettingsError)> {
        let mut all = CodecChoice::one(parse(codec)?);
        if let Some(codec) = codec_of_covered {
            all.of_covered = Some((codec.share, parse(codec.codec)?));
        }
        let mut codecs = Self([all; Category::ALL.len()]);
        for category in [Category::Text, Category::Generic, Category::Array] {
            let of_category =
                codecs_of_little.iter().filter(|c| c.share > 1 || category == Category::Text);
            let slots = &mut codecs.0[category as usize].of_little;
            for (slot, codec) in slots.iter_mut().zip(of_category) {
                *slot = Some((codec.share, parse(codec.codec)?));
            }
        }
        Ok(codecs)
    }

    /// Replaces codecs by those that the caller asked for.
    fn replace(
        &mut self,
        asked: &[(Option<Category>, Settings)],
    ) -> Result<(), (String, SettingsError)> {
        for &(category, settings) in asked {
            settings.validate().map_err(|error| (settings.to_string(), error))?;
            if category.is_none() {
                self.0.fill(CodecChoice::one(settings));
            }
        }
        for &(category, settings) in asked {
            if let Some(category) = category {
                self.0[category as usize] = CodecChoice::one(settings);
            }
        }
        Ok(())
    }

    /// The codecs for frames of a category.
    pub(crate) fn of(&self, category: Category) -> CodecChoice {
        self.0[category as usize]
    }

    /// All codecs that a frame may get.
    pub(crate) fn distinct(&self) -> Vec<Settings> {
        let mut distinct: Vec<Settings> = Vec::new();
        for settings in self.0.iter().flat_map(CodecChoice::all) {
            if !distinct.contains(&settings) {
                distinct.push(settings);
            }
        }
        distinct
    }
}

fn parse(text: &str) -> Result<Settings, (String, SettingsError)> {
    text.parse().map_err(|error| (text.to_owned(), error))
}

impl fmt::Display for Codecs {
    /// Writes the codec of generic data, and those of other categories where they differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generic = self.of(Category::Generic);
        write!(f, "{generic}")?;
        for category in Category::ALL {
            if self.of(category) != generic {
                write!(f, " {}-codec={}", category.name(), self.of(category))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_chooses_for_text_and_generic_data_unless_somebody_asked() {
        let level = Level::find(6).unwrap();
        let choice = |level, asked: &[_], category| Codecs::new(level, asked).unwrap().of(category);
        let text = |asked: &[_]| choice(level, asked, Category::Text);
        // The default level needs no trial: all its codecs but that of lines are zstd.
        let own = text(&[]).without_trial().unwrap();
        assert_eq!(own.to_string(), level.codec);
        let covered = level.codec_of_covered.unwrap();
        let most = 1600 / covered.share;
        assert_eq!(text(&[]).with_references(own, 1600, most).to_string(), covered.codec);
        assert_eq!(text(&[]).with_references(own, 1600, most + 1), own);
        let asked: Settings = "zstd:5".parse().unwrap();
        let one = text(&[(None, asked)]);
        assert_eq!(one.with_references(asked, 1600, 1), asked, "nobody asked for another");
        assert_eq!(one.with_lines(1600, 100, 1), asked, "nobody asked for another");
        assert_eq!(text(&[(None, asked)]).without_trial(), Some(asked));
        assert_eq!(text(&[(Some(Category::Text), asked)]).without_trial(), Some(asked));
        let all = Level::find(7).unwrap();
        let [little, text] = [all.codecs_of_little[0].codec, all.codecs_of_little[1].codec];
        let of_text = choice(all, &[], Category::Text);
        assert_eq!(of_text.without_trial(), None);
        assert_eq!(of_text.with_trial(1600, 100).to_string(), little);
        assert_eq!(of_text.with_trial(1600, 101).to_string(), text);
        assert_eq!(of_text.with_trial(1600, 1600).to_string(), text);
        assert_eq!(of_text.with_lines(9999, 1600, 100).to_string(), little, "of the form");
        let generic = choice(all, &[], Category::Generic);
        assert_eq!(generic.with_trial(1600, 100).to_string(), little);
        assert_eq!(generic.with_trial(1600, 1600).to_string(), all.codec);
        let of_all = CodecChoice { of_little: [Some((1, asked)), None], ..generic };
        assert_eq!(of_all.without_trial(), Some(asked));
    }

    #[test]
    fn below_level_7_lzma_is_only_for_lines_of_which_it_leaves_next_to_nothing() {
        for level in crate::plan::level::LEVELS.iter().filter(|level| level.level < 7) {
            let codecs = Codecs::new(level, &[]).unwrap();
            for category in Category::ALL {
                let choice = codecs.of(category);
                let without_lines = CodecChoice { of_lines: Default::default(), ..choice };
                assert!(without_lines.all().all(|settings| settings.codec != Codec::Lzma));
                // The decoder of LZMA takes a microsecond for some 10 stored bytes or more.
                for trial_len in [1, 100, 2000, 2001, 50_000, 100_000] {
                    let settings = choice.with_lines(100_000, 100_000, trial_len);
                    assert!(settings.codec != Codec::Lzma || trial_len <= 100_000 / 48);
                }
            }
        }
        let level = Level::find(6).unwrap();
        let choice = Codecs::new(level, &[]).unwrap().of(Category::Text);
        assert_eq!(
            choice.with_lines(96_000, 9600, 2000).to_string(),
            level.codecs_of_lines[0].codec
        );
        assert_eq!(
            choice.with_lines(96_000, 9600, 2001).to_string(),
            level.codecs_of_lines[1].codec
        );
    }
}
