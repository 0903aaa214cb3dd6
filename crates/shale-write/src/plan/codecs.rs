//! Which codec a frame gets: by its category and, for text, generic data, arrays and frames that
//! their references cover, by how little a quick trial leaves.

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
    /// Replaces `otherwise` for frames of which a quick trial with their references leaves at most
    /// one part in the given number.
    of_covered: Option<(usize, Settings)>,
}

impl CodecChoice {
    /// The same codec for all frames.
    pub(crate) const fn one(settings: Settings) -> Self {
        Self { otherwise: settings, of_little: [None; CODEC_OF_LITTLE_COUNT_MAX], of_covered: None }
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
        let mut of_little = self.of_little.iter().flatten();
        let found = of_little.find(|(share, _)| trial_len <= plain_len / share);
        found.map_or(self.otherwise, |&(_, settings)| settings)
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
        let of_some = self.of_little.iter().chain(std::iter::once(&self.of_covered));
        std::iter::once(self.otherwise).chain(of_some.flatten().map(|&(_, settings)| settings))
    }
}

impl fmt::Display for CodecChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (share, settings) in self.of_little.iter().flatten() {
            write!(f, "{settings}/{share}|")?;
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
        Self::with(level.codec, level.codecs_of_little, level.codec_of_covered, asked)
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
        Self::with(if is_slow { HOT_CODEC } else { level.codec }, &[], None, asked)
    }

    fn with(
        codec: &str,
        codecs_of_little: &[CodecOfLittle],
        codec_of_covered: Option<CodecOfLittle>,
        asked: &[(Option<Category>, Settings)],
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
        for &(category, settings) in asked {
            settings.validate().map_err(|error| (settings.to_string(), error))?;
            if category.is_none() {
                codecs.0.fill(CodecChoice::one(settings));
            }
        }
        for &(category, settings) in asked {
            if let Some(category) = category {
                codecs.0[category as usize] = CodecChoice::one(settings);
            }
        }
        Ok(codecs)
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
        let text = |asked: &[_]| Codecs::new(level, asked).unwrap().of(Category::Text);
        let choice = text(&[]);
        assert_eq!(choice.without_trial(), None);
        assert_eq!(choice.with_trial(1600, 100).to_string(), level.codecs_of_little[0].codec);
        assert_eq!(choice.with_trial(1600, 101).to_string(), level.codecs_of_little[1].codec);
        assert_eq!(choice.with_trial(1600, 321).to_string(), level.codec);
        let own = choice.with_trial(1600, 321);
        let covered = level.codec_of_covered.unwrap();
        let most = 1600 / covered.share;
        assert_eq!(choice.with_references(own, 1600, most).to_string(), covered.codec);
        assert_eq!(choice.with_references(own, 1600, most + 1), own);
        let little = choice.with_trial(1600, 100);
        assert_eq!(choice.with_references(little, 1600, 100), little);
        let asked: Settings = "zstd:5".parse().unwrap();
        let one = text(&[(None, asked)]);
        assert_eq!(one.with_references(asked, 1600, 1), asked, "nobody asked for another");
        assert_eq!(text(&[(None, asked)]).without_trial(), Some(asked));
        assert_eq!(text(&[(Some(Category::Text), asked)]).without_trial(), Some(asked));
        let all = Level::find(7).unwrap();
        let choice = Codecs::new(all, &[]).unwrap().of(Category::Text);
        assert_eq!(choice.with_trial(1600, 1600).to_string(), all.codecs_of_little[1].codec);
        let choice = Codecs::new(all, &[]).unwrap().of(Category::Generic);
        assert_eq!(choice.with_trial(1600, 100).to_string(), all.codecs_of_little[0].codec);
        assert_eq!(choice.with_trial(1600, 1600).to_string(), all.codec);
        let of_all = CodecChoice { of_little: [Some((1, asked)), None], ..choice };
        assert_eq!(of_all.without_trial(), Some(asked));
    }
}
