//! Filter rules as in rsync: `+ PATTERN` includes, `- PATTERN` excludes, the first rule that
//! matches decides, and entries that no rule matches are included.
//!
//! A pattern with a leading slash is matched against the whole path; a pattern with a slash inside,
//! or with `**`, against the end of the path; any other against the last name alone. A trailing
//! slash matches directories only. `*` stops at slashes, `**` does not, `?` is one byte except a
//! slash, `[a-z]` is a set, and `\x` is the byte x; in a pattern without wildcards a backslash is
//! an ordinary byte. A leading `**/` may match nothing. `dir/***` means `dir/` and everything in
//! it. Entries below an excluded directory are never tested.

use std::sync::atomic::{AtomicBool, Ordering};

use super::error::PatternError;
use super::matcher::{Extent, Token, literal, matches};
use super::wildmatch::{Stars, parse};

/// Filter rules, in order.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    text: Vec<u8>,
    takes: bool,
    directories_only: bool,
    anchor: Anchor,
    tokens: Vec<Token>,
    has_matched: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// The whole path.
    Start,
    /// The end of the path, after any slash.
    End,
    /// The last name.
    Name,
}

/// Longest pattern; a longer one is a mistake.
const PATTERN_LEN_MAX: usize = 4096;

impl Rules {
    /// Adds a rule that includes.
    ///
    /// # Errors
    /// The pattern is not valid.
    pub fn include(&mut self, pattern: &[u8]) -> Result<(), PatternError> {
        self.push(pattern, pattern, true)
    }

    /// Adds a rule that excludes.
    ///
    /// # Errors
    /// The pattern is not valid.
    pub fn exclude(&mut self, pattern: &[u8]) -> Result<(), PatternError> {
        self.push(pattern, pattern, false)
    }

    /// Adds a rule as filter files write it: `+ PATTERN`, `- PATTERN`, `include`, `exclude`, `!`
    /// (forget all rules so far), or a comment after `#` or `;`.
    ///
    /// # Errors
    /// The line is not a valid rule.
    pub fn add(&mut self, line: &[u8]) -> Result<(), PatternError> {
        let text = line.trim_ascii_start();
        let fail = |what| wrong(line, what);
        if text.is_empty() || text[0] == b'#' || text[0] == b';' {
            return Ok(());
        }
        if text.trim_ascii_end() == b"!" || text.trim_ascii_end() == b"clear" {
            self.rules.clear();
            return Ok(());
        }
        let (word, pattern) = match text.iter().position(|&byte| byte == b' ' || byte == b'_') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => return Err(fail("write `+ PATTERN` or `- PATTERN`")),
        };
        match word {
            b"+" | b"include" => self.push(line, pattern, true),
            b"-" | b"exclude" => self.push(line, pattern, false),
            _ => Err(fail("rules begin with `+ ` or `- `; others of rsync are not known")),
        }
    }

    /// Adds the lines of a file.
    ///
    /// # Errors
    /// A line is not a valid rule.
    pub fn add_lines(&mut self, bytes: &[u8]) -> Result<(), PatternError> {
        bytes
            .split(|&byte| byte == b'\n')
            .try_for_each(|line| self.add(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Decides whether an entry is included, and returns the rule that decided. Costs at most the
    /// number of rules times the length of the path and the patterns.
    pub fn decide(&self, path: &[u8], is_directory: bool) -> (bool, Option<&[u8]>) {
        let found = self.rules.iter().find(|rule| rule.matches(path, is_directory));
        match found {
            None => (true, None),
            Some(rule) => {
                rule.has_matched.store(true, Ordering::Relaxed);
                (rule.takes, Some(&rule.text))
            }
        }
    }

    /// Returns the index of the first rule that matches a file or a directory above it. Costs at
    /// most the number of rules times the names in the path.
    /// A pattern that ends with `/***` counts as two rules.
    pub fn first_over(&self, path: &[u8]) -> Option<usize> {
        let matches = |rule: &Rule| {
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            rule.matches(path, false)
                || slashes.map(|(at, _)| &path[..at]).any(|above| rule.matches(above, true))
        };
        let found = self.rules.iter().position(matches)?;
        self.rules[found].has_matched.store(true, Ordering::Relaxed);
        Some(found)
    }

    /// The rules that have decided nothing yet.
    pub fn unmatched(&self) -> impl Iterator<Item = &[u8]> {
        let idle = self.rules.iter().filter(|rule| !rule.has_matched.load(Ordering::Relaxed));
        idle.map(|rule| rule.text.as_slice())
    }

    /// Whether each rule has decided anything yet.
    pub fn matched(&self) -> impl Iterator<Item = bool> {
        self.rules.iter().map(|rule| rule.has_matched.load(Ordering::Relaxed))
    }

    fn push(&mut self, text: &[u8], pattern: &[u8], takes: bool) -> Result<(), PatternError> {
        let fail = |what| wrong(text, what);
        if pattern.len() > PATTERN_LEN_MAX {
            return Err(fail("its pattern is longer than 4096 bytes"));
        }
        // Without wildcards a backslash is an ordinary byte: nothing needs to be escaped.
        let is_wild = pattern.iter().any(|byte| b"*?[".contains(byte));
        let is_whole = pattern.ends_with(b"/***");
        let pattern = if is_whole { &pattern[..pattern.len() - 4] } else { pattern };
        let directories_only = pattern.ends_with(b"/") || is_whole;
        let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
        let (anchor, pattern) = match pattern.strip_prefix(b"/") {
            Some(pattern) => (Anchor::Start, pattern),
            None if pattern.contains(&b'/') || pattern.windows(2).any(|pair| pair == b"**") => {
                (Anchor::End, pattern)
            }
            None => (Anchor::Name, pattern),
        };
        if pattern.is_empty() {
            return Err(fail("it has no pattern"));
        }
        let mut tokens = match is_wild {
            true => parse(pattern, Stars::OverSlashes).map_err(fail)?,
            false => literal(pattern),
        };
        // rsync matches these against the path with a slash before it.
        if anchor == Anchor::End && tokens.starts_with(&[Token::RunOverSlashes, Token::Byte(b'/')])
        {
            tokens.insert(0, Token::Maybe(2));
        }
        let rule = |tokens, anchor, directories_only| Rule {
            text: text.to_vec(),
            takes,
            directories_only,
            anchor,
            tokens,
            has_matched: AtomicBool::new(false),
        };
        if is_whole {
            let below = [&tokens[..], &[Token::Byte(b'/'), Token::RunOverSlashes]].concat();
            let anchor = if anchor == Anchor::Name { Anchor::End } else { anchor };
            self.rules.push(rule(below, anchor, false));
        }
        self.rules.push(rule(tokens, anchor, directories_only));
        Ok(())
    }
}

impl Rule {
    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let last = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        match self.anchor {
            Anchor::Start => matches(&self.tokens, path, Extent::Whole),
            Anchor::Name => matches(&self.tokens, &path[last..], Extent::Whole),
            Anchor::End => matches(&self.tokens, path, Extent::End),
        }
    }
}

fn wrong(rule: &[u8], what: &'static str) -> PatternError {
    PatternError { syntax: "filter rule", pattern: rule.escape_ascii().to_string(), what }
}

/// A pattern that matches whole names, for names of extended attributes.
#[derive(Debug, Clone)]
pub struct NamePattern(Vec<Token>);

impl NamePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is not valid.
    pub fn new(pattern: &[u8]) -> Result<Self, PatternError> {
        let fail = |what| wrong(pattern, what);
        parse(pattern, Stars::OverSlashes).map(Self).map_err(fail)
    }

    /// True if the whole name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        matches(&self.0, name, Extent::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &str) -> Rules {
        let mut rules = Rules::default();
        rules.add_lines(lines.as_bytes()).unwrap();
        rules
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = rules("# comment\n+ /keep/*.o\n- *.o\n- /tmp/\n- **/cache/**\n");
        let takes = |path: &str, dir| rules.decide(path.as_bytes(), dir).0;
        assert!(takes("keep/a.o", false));
        assert!(!takes("a.o", false));
        assert!(!takes("x/keep/a.o", false));
        assert!(!takes("tmp", true));
        assert!(takes("tmp", false), "a file of that name");
        assert!(takes("x/tmp", true), "anchored");
        assert!(!takes("x/cache/y/z", false));
        assert!(takes("x/cached", false));
    }

    #[test]
    fn patterns_are_as_in_rsync() {
        let left_out = |rule: &str, path: &str, dir: bool| {
            !rules(&format!("- {rule}")).decide(path.as_bytes(), dir).0
        };
        assert!(left_out("foo", "a/b/foo", false));
        assert!(left_out("foo/bar", "a/foo/bar", false));
        assert!(!left_out("foo/bar", "a/xfoo/bar", false));
        assert!(left_out("/a/*/c", "a/b/c", false));
        assert!(!left_out("/a/*/c", "a/b/b/c", false));
        assert!(left_out("/a/**/c", "a/b/b/c", false));
        assert!(left_out("d/***", "x/d", true) && left_out("d/***", "x/d/e/f", false));
        assert!(left_out("[a-c]?\\*", "bx*", false) && !left_out("[!a-c]?", "bx", false));
        assert!(left_out("*", "any", false));
        assert!(left_out("**/a", "a", false) && left_out("**/a", "b/c/a", false));
        assert!(!left_out("/**/a", "a", false) && !left_out("**/a", "ba", false));
        assert!(left_out("**/d/***", "d/e", false) && !left_out("x/**/a", "x/a", false));
        assert!(left_out("[[:upper:]]*", "Any", false) && !left_out("[[:upper:]]*", "any", false));
        assert!(left_out("a\\b", "a\\b", false) && !left_out("a\\b", "ab", false));
        assert!(left_out("a\\b*", "ab", false) && !left_out("a\\b*", "a\\b", false));
    }

    #[test]
    fn wrong_rules_are_named() {
        for bad in ["foo", "- ", "- /", "- a*\\", "- [a", "P x"] {
            assert!(Rules::default().add(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
