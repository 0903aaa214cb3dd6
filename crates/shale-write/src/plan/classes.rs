//! Classes of frames: those of the level, and those that rules ask for.
//!
//! A frame has one class, and contents of different classes share no frame.

use shale_codec::{Effort, Settings, SettingsError};
use shale_format::Category;

use crate::plan::codecs::Codecs;
use crate::plan::level::Level;
use crate::plan::rules::{FileRule, FileRules};

/// Number of a class in [`Classes`]; 0 is that of files without rule.
pub(crate) type ClassIndex = u16;

/// All classes of a build.
#[derive(Debug, Clone)]
pub(crate) struct Classes {
    classes: Vec<FrameClass>,
    /// The class of each rule.
    of_rules: Vec<ClassIndex>,
}

/// How frames are compressed.
#[derive(Debug, Clone)]
pub(crate) struct FrameClass {
    pub(crate) codecs: Codecs,
    pub(crate) frame_len: usize,
    /// How frames of hot files differ, if a list names hot files.
    pub(crate) hot: Option<Hot>,
    /// Try filters on machine code and arrays.
    pub(crate) tries_filters: bool,
    /// Try lines as columns.
    pub(crate) tries_lines: bool,
    /// Compress frames even if they look incompressible.
    pub(crate) tries_incompressible: bool,
    /// Work for samples.
    pub(crate) effort: Option<Effort>,
    /// Frames get no references.
    pub(crate) is_alone: bool,
    /// What the rule asks for, to tell classes apart.
    asked: (Option<Settings>, Option<u8>, Option<bool>),
}

/// Frames of hot files, which decode quickly.
#[derive(Debug, Clone)]
pub(crate) struct Hot {
    pub(crate) codecs: Codecs,
    pub(crate) frame_len: usize,
}

/// Longest frame of hot files. The kernel reads this much ahead by default, so a page that a
/// program waits for costs little more than the pages that are read with it.
const HOT_FRAME_LEN_MAX: u32 = 128 << 10;

/// What the options say of all classes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'o> {
    pub(crate) level: &'static Level,
    pub(crate) codecs: &'o [(Option<Category>, Settings)],
    /// Plain bytes of a frame, instead of the level's.
    pub(crate) frame_len: Option<u32>,
    /// A list names hot files.
    pub(crate) has_hot: bool,
    /// Bounds on references are given, instead of the level's.
    pub(crate) has_references: bool,
}

impl Classes {
    /// Makes the class of the options and those of the rules. Rules that ask for the same share
    /// one.
    ///
    /// # Errors
    /// The settings that are wrong, and why.
    pub(crate) fn new(
        asked: Asked<'_>,
        rules: &FileRules,
    ) -> Result<Self, (String, SettingsError)> {
        let mut classes = vec![class(asked, &FileRule::default())?];
        let mut of_rules = Vec::new();
        for rule in rules.all() {
            let wanted = (rule.codec, rule.level, rule.lines);
            let known = classes.iter().position(|class| class.asked == wanted);
            of_rules.push(known.unwrap_or(classes.len()) as ClassIndex);
            if known.is_none() {
                classes.push(class(asked, rule)?);
            }
        }
        Ok(Self { classes, of_rules })
    }

    /// The class of files that no rule matches.
    pub(crate) fn usual(&self) -> &FrameClass {
        &self.classes[0]
    }

    /// The class of a rule.
    pub(crate) fn of_rule(&self, rule: usize) -> ClassIndex {
        self.of_rules[rule]
    }

    /// A class by its number.
    pub(crate) fn get(&self, index: ClassIndex) -> &FrameClass {
        &self.classes[usize::from(index)]
    }

    /// All classes, that of files without rule first.
    pub(crate) fn all(&self) -> &[FrameClass] {
        &self.classes
    }
}

fn class(asked: Asked<'_>, rule: &FileRule) -> Result<FrameClass, (String, SettingsError)> {
    let level = rule.level.and_then(Level::find).unwrap_or(asked.level);
    // A level or a codec of a rule replaces the codecs that were asked for all files.
    let of_rule: Vec<_> = rule.codec.map(|settings| (None, settings)).into_iter().collect();
    let codecs = match rule.codec.is_some() || rule.level.is_some() {
        true => &of_rule,
        false => asked.codecs,
    };
    let frame_len = asked.frame_len.unwrap_or(level.frame_len);
    let hot = match asked.has_hot {
        true => Some(Hot {
            codecs: Codecs::hot(level, codecs)?,
            frame_len: frame_len.min(HOT_FRAME_LEN_MAX) as usize,
        }),
        false => None,
    };
    Ok(FrameClass {
        codecs: Codecs::new(level, codecs)?,
        frame_len: frame_len as usize,
        hot,
        tries_filters: level.tries_filters,
        tries_lines: rule.lines.unwrap_or(level.tries_filters),
        tries_incompressible: level.tries_incompressible,
        effort: level.effort,
        is_alone: !asked.has_references && level.references.is_none(),
        asked: (rule.codec, rule.level, rule.lines),
    })
}
