//! Rules for files by their path: another codec, another level, another treatment.
//!
//! A rule is `PATTERN: KEY=VALUE, …`. The pattern is one of filter rules, see
//! [`shale_model::pattern::rsync`], and a directory that it matches stands for all files below. The
//! first rule that matches a file decides all of its treatment, as in filter rules; what that rule
//! does not name is treated as without rules.

use shale_codec::{Codec, Settings};
use shale_format::Category;
use shale_model::pattern::Rules;
use thiserror::Error;

use crate::plan::level::LEVELS;

/// Rules, in order.
#[derive(Debug, Default)]
pub struct FileRules {
    patterns: Rules,
    rules: Vec<FileRule>,
}

/// What one rule asks for.
#[derive(Debug, Clone, Default)]
pub struct FileRule {
    /// The whole rule, as it was written.
    pub(crate) text: Vec<u8>,
    /// The codec of all frames.
    pub(crate) codec: Option<Settings>,
    /// The level whose codecs, filters and length of frames are used.
    pub(crate) level: Option<u8>,
    /// What the files are taken for.
    pub(crate) category: Option<Category>,
    /// Whether lines are tried as columns.
    pub(crate) lines: Option<bool>,
    /// Whether compressed streams are taken apart.
    pub(crate) recompress: Option<bool>,
}

/// A rule that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("rule `{rule}`: {what}")]
pub struct RuleError {
    /// The rule, made printable.
    pub rule: String,
    /// What is wrong with it, and what is valid.
    pub what: String,
}

/// Most rules. The rule of a content is kept for each of its frames.
const RULE_COUNT_MAX: usize = 1000;
const KEYS: [&[u8]; 5] = [b"codec", b"level", b"category", b"lines", b"recompress"];
/// The valid keys, for messages.
const VALID: &str = "use codec=CODEC[:SETTINGS], level=0 to 9, lines=on or off, recompress=on or \
                     off, category=NAME";
/// Categories that a file can be taken for. Arrays are found in generic data.
const CATEGORIES: [Category; 6] = [
    Category::Generic,
    Category::Text,
    Category::Code,
    Category::Audio,
    Category::Sensor,
    Category::Incompressible,
];

impl FileRules {
    /// Adds a rule after the others.
    ///
    /// # Errors
    /// It is not valid; the message lists what is.
    pub fn add(&mut self, text: &[u8]) -> Result<(), RuleError> {
        let fail = |what: String| RuleError { rule: text.escape_ascii().to_string(), what };
        if self.rules.len() == RULE_COUNT_MAX {
            return Err(fail(format!("there are more than {RULE_COUNT_MAX} rules")));
        }
        let (pattern, values) =
            split(text).ok_or_else(|| fail(format!("write `PATTERN: KEY=VALUE`; {VALID}")))?;
        let rule = FileRule::parse(text, values).map_err(fail)?;
        // A directory stands for what is in it.
        let pattern = match pattern.ends_with(b"/***") {
            true => &pattern[..pattern.len() - 3],
            false => pattern,
        };
        self.patterns.include(pattern).map_err(|error| fail(format!("pattern: {}", error.what)))?;
        self.rules.push(rule);
        Ok(())
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that decided about no file.
    pub fn unmatched(&self) -> impl Iterator<Item = &[u8]> {
        let matched = self.patterns.matched();
        let idle = self.rules.iter().zip(matched).filter(|(_, has_matched)| !has_matched);
        idle.map(|(rule, _)| rule.text.as_slice())
    }

    /// The rule that decides about a file. Costs at most the number of rules times the names in
    /// the path.
    pub fn find(&self, path: &[u8]) -> Option<&FileRule> {
        self.find_index(path).map(|index| &self.rules[index])
    }

    /// The index of the rule that decides about a file.
    pub(crate) fn find_index(&self, path: &[u8]) -> Option<usize> {
        if self.rules.is_empty() { None } else { self.patterns.first_over(path) }
    }

    /// All rules.
    pub(crate) fn all(&self) -> &[FileRule] {
        &self.rules
    }
}

/// Splits a rule at the colon before its first key. A pattern may hold colons, too.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut unknown = None;
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b':') {
        let values = text[at + 1..].trim_ascii();
        let key =
            values.iter().position(|&byte| byte == b'=').map(|end| values[..end].trim_ascii());
        let split = (&text[..at], values);
        match key {
            Some(key) if KEYS.contains(&key) => return Some(split),
            Some(key) if !key.is_empty() && key.iter().all(u8::is_ascii_alphabetic) => {
                unknown = unknown.or(Some(split));
            }
            _ => {}
        }
    }
    unknown
}

impl FileRule {
    /// The rule as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether compressed streams are taken apart, if the rule says it.
    pub fn recompress(&self) -> Option<bool> {
        self.recompress
    }

    fn parse(text: &[u8], values: &[u8]) -> Result<Self, String> {
        let values = std::str::from_utf8(values).map_err(|_| VALID.to_owned())?;
        let mut rule = Self { text: text.to_vec(), ..Self::default() };
        let mut seen: Vec<&str> = Vec::new();
        let mut codec = String::new();
        for part in values.split(',').map(str::trim) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None => (part, ""),
            };
            let is_key = KEYS.contains(&key.as_bytes());
            // Settings of a codec have commas, too.
            if !is_key && seen.last() == Some(&"codec") {
                codec.push(',');
                codec.push_str(part);
                continue;
            }
            if seen.contains(&key) {
                return Err(format!("`{key}` is given twice"));
            }
            seen.push(key);
            match key {
                "codec" => codec = value.to_owned(),
                "level" => rule.level = Some(level(value)?),
                "category" => rule.category = Some(category(value)?),
                "lines" => rule.lines = Some(switch(key, value)?),
                "recompress" => rule.recompress = Some(switch(key, value)?),
                _ => return Err(format!("`{key}` is not valid; {VALID}")),
            }
        }
        if seen.contains(&"codec") {
            let settings: Settings = codec.parse().map_err(|error| format!("{error}"))?;
            if settings.codec == Codec::Brotli {
                return Err("brotli can only be read; use stored, lz4, zstd or lzma".to_owned());
            }
            rule.codec = Some(settings);
        }
        Ok(rule)
    }
}

fn level(value: &str) -> Result<u8, String> {
    let level = value.parse().ok().filter(|&level: &u8| usize::from(level) < LEVELS.len());
    level.ok_or_else(|| format!("`{value}` is not a level; use 0 to {}", LEVELS.len() - 1))
}

fn category(value: &str) -> Result<Category, String> {
    CATEGORIES.into_iter().find(|category| category.name() == value).ok_or_else(|| {
        let names = CATEGORIES.map(Category::name).join(", ");
        format!("`{value}` is not a category; use {names}")
    })
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{key} is `{value}`; use on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> FileRules {
        let mut rules = FileRules::default();
        texts.iter().for_each(|text| rules.add(text.as_bytes()).unwrap());
        rules
    }

    #[test]
    fn the_first_rule_that_matches_a_file_or_a_directory_above_it_decides() {
        let rules = rules(&["*.log: lines=off", "/var/: level=9", "*: codec=lz4"]);
        let of = |path: &str| rules.find_index(path.as_bytes());
        assert_eq!(of("var/a.log"), Some(0));
        assert_eq!(of("var/lib/x"), Some(1));
        assert_eq!(of("a.log/x"), Some(0), "a directory of that name");
        assert_eq!(of("var"), Some(2), "a file, no directory");
        assert_eq!(rules.unmatched().count(), 0);
    }

    #[test]
    fn values_are_parsed_and_patterns_may_hold_colons() {
        let rules = rules(&[
            "a: b:c*: codec=lzma:9,lc=4,pb=0, level = 3 ,lines=on",
            "x:recompress=on,category=text",
        ]);
        let [first, second] = rules.all() else { panic!("two rules") };
        assert_eq!(first.codec.unwrap().to_string(), "lzma:9,lc=4,pb=0");
        assert_eq!((first.level, first.lines, first.recompress), (Some(3), Some(true), None));
        assert_eq!((second.recompress, second.category), (Some(true), Some(Category::Text)));
        assert_eq!(rules.find_index(b"a: b:cd"), Some(0));
    }

    #[test]
    fn rules_that_are_not_valid_are_refused_with_what_is() {
        let words = [
            ("*.c", "PATTERN: KEY=VALUE"),
            ("*.c: codek=lz4", "`codek` is not valid; use codec="),
            ("*.c: level=10", "use 0 to 9"),
            ("*.c: level=3,level=4", "given twice"),
            ("*.c: codec=zip", "stored, zstd, lz4, lzma"),
            ("*.c: codec=brotli:9", "can only be read"),
            ("*.c: codec=zstd:3,levle=2", "levle"),
            ("*.c: lines=maybe", "use on or off"),
            ("*.c: category=array", "generic, text, code, audio, sensor, incompressible"),
            (": level=3", "pattern"),
            ("[a: level=3", "pattern"),
            ("*.c: level=3,", "`` is not valid"),
        ];
        for (text, expected) in words {
            let error = FileRules::default().add(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
