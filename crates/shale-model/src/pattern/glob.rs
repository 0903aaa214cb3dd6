//! Glob patterns over paths of an image, matched one path component at a time.
//!
//! `*` and `?` stay inside one component, `**` stands for any number of components (also none),
//! `[a-z]` and `[!a-z]` for one character, `{a,b}` for alternatives, `\x` for x itself. A pattern
//! begins at the root of the tree, with or without a leading slash. A match of a directory selects
//! everything below it. Paths and patterns are bytes: names that are not UTF-8 match byte by byte.
//!
//! Matching carries a small set of positions down the walk, so that a directory under which no
//! pattern can match is never listed: `usr/share/doc/**` touches three directories on its way.

use std::sync::atomic::{AtomicBool, Ordering};

use super::error::PatternError;
use super::matcher::{self, Extent, Token, Unit, next_char};

/// Most alternatives that the braces of one pattern may expand to; more can only be a mistake and
/// would cost memory.
const ALTERNATIVES_MAX: usize = 4096;

/// One component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Component {
    /// `**`: any number of components.
    AnyDepth,
    /// One component that matches these tokens.
    Name(Vec<Token>),
}

/// A set of patterns. An empty set selects everything. A second set can exclude paths.
#[derive(Debug, Default)]
pub struct Patterns {
    alternatives: Vec<Alternative>,
    /// The patterns as given, and whether each has matched.
    given: Vec<(Vec<u8>, AtomicBool)>,
    /// Patterns that exclude paths.
    excluded: Option<Box<Patterns>>,
}

#[derive(Debug)]
struct Alternative {
    components: Vec<Component>,
    given_index: usize,
}

/// How far the patterns have matched along one path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Pairs of an alternative and how many of its components have matched, ascending.
    waiting: Vec<(u32, u32)>,
    selected: bool,
    /// The same for the excluding patterns.
    excluding: Vec<(u32, u32)>,
}

impl Position {
    /// True if the path or one of its parents matches, so that everything below is selected.
    pub fn is_selected(&self) -> bool {
        self.selected
    }

    /// True if a path below may match, so that a directory has to be walked.
    pub fn may_match_below(&self) -> bool {
        self.selected || !self.waiting.is_empty()
    }
}

impl Patterns {
    /// Compiles patterns. Allocates in proportion to their length and number of alternatives.
    ///
    /// # Errors
    /// A pattern is not valid.
    pub fn new<P: AsRef<[u8]>>(patterns: &[P]) -> Result<Self, PatternError> {
        Self::for_paths(patterns, |_| false)
    }

    /// Excludes paths from the selection. A pattern that begins with a slash begins at the root of
    /// the tree, any other matches at any depth. A match of a directory excludes everything in it.
    ///
    /// # Errors
    /// A pattern is not valid.
    pub fn exclude<P: AsRef<[u8]>>(&mut self, patterns: &[P]) -> Result<(), PatternError> {
        if patterns.is_empty() {
            return Ok(());
        }
        let mut excluded = Self::new(patterns)?;
        for alternative in &mut excluded.alternatives {
            let is_anchored = excluded.given[alternative.given_index].0.starts_with(b"/");
            let components = &mut alternative.components;
            if !is_anchored && components.first() != Some(&Component::AnyDepth) {
                components.insert(0, Component::AnyDepth);
            }
        }
        self.excluded = Some(Box::new(excluded));
        Ok(())
    }

    /// The excluding patterns that have matched nothing yet, as given.
    pub fn unmatched_exclusions(&self) -> impl Iterator<Item = &[u8]> {
        self.excluded.iter().flat_map(|excluded| excluded.unmatched())
    }

    /// Compiles patterns for a tree in which `is_path` says which paths exist. A pattern that is a
    /// path of the tree, byte by byte, means that path, whatever brackets, braces and backslashes
    /// are in it. `*` and `?` keep their meaning, as they match themselves, too.
    ///
    /// # Errors
    /// A pattern is not valid.
    pub fn for_paths<P: AsRef<[u8]>>(
        patterns: &[P],
        is_path: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, PatternError> {
        let mut out = Self::default();
        for (given_index, pattern) in patterns.iter().enumerate() {
            let pattern = pattern.as_ref();
            out.given.push((pattern.to_vec(), AtomicBool::new(false)));
            let has = |special: &[u8]| pattern.iter().any(|byte| special.contains(byte));
            let is_literal = has(b"[]{}\\") && is_path(pattern);
            if is_literal {
                out.alternatives.push(Alternative { components: literal(pattern), given_index });
                if !has(b"*?") {
                    continue;
                }
            }
            let fail = |what| PatternError {
                syntax: "pattern",
                pattern: String::from_utf8_lossy(pattern).into_owned(),
                what,
            };
            let spelt_out = expand_braces(pattern).and_then(|alternatives| {
                alternatives.iter().map(|one| parse(one)).collect::<Result<Vec<_>, _>>()
            });
            let spelt_out = match spelt_out {
                Err(_) if is_literal => continue,
                spelt_out => spelt_out.map_err(fail)?,
            };
            let alternatives = spelt_out.into_iter();
            out.alternatives
                .extend(alternatives.map(|components| Alternative { components, given_index }));
        }
        Ok(out)
    }

    /// True if there is no pattern, so that everything is selected.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.excluded.is_none()
    }

    /// Returns the position at the root of the tree.
    pub fn start(&self) -> Position {
        let waiting = (0..self.alternatives.len() as u32).map(|at| (at, 0)).collect();
        let start = self.settle(waiting, self.given.is_empty());
        let excluding = self.excluded.as_ref().map_or(Vec::new(), |it| it.start().waiting);
        Position { excluding, ..start }
    }

    /// Returns the position of the entry `name` below `from`. Costs at most the length of the name
    /// times that of the waiting patterns.
    pub fn step(&self, from: &Position, name: &[u8]) -> Position {
        let mut excluding = Vec::new();
        if let Some(excluded) = &self.excluded {
            let below = excluded.advance(&from.excluding, name);
            if below.selected {
                return Position::default();
            }
            excluding = below.waiting;
        }
        if from.selected {
            return Position { waiting: Vec::new(), selected: true, excluding };
        }
        Position { excluding, ..self.advance(&from.waiting, name) }
    }

    /// As [`Patterns::step`], from the positions `from` and without exclusions.
    fn advance(&self, from: &[(u32, u32)], name: &[u8]) -> Position {
        let mut waiting = Vec::new();
        for &(alternative, at) in from {
            match self.component(alternative, at) {
                Some(Component::AnyDepth) => waiting.push((alternative, at)),
                Some(Component::Name(tokens)) if matcher::matches(tokens, name, Extent::Whole) => {
                    waiting.push((alternative, at + 1));
                }
                _ => {}
            }
        }
        self.settle(waiting, false)
    }

    /// The patterns that have matched nothing yet, as given.
    pub fn unmatched(&self) -> impl Iterator<Item = &[u8]> {
        self.given
            .iter()
            .filter(|(_, matched)| !matched.load(Ordering::Relaxed))
            .map(|(pattern, _)| pattern.as_slice())
    }

    fn component(&self, alternative: u32, at: u32) -> Option<&Component> {
        self.alternatives.get(alternative as usize)?.components.get(at as usize)
    }

    /// Adds the positions reached if `**` matches nothing, and records complete matches.
    fn settle(&self, mut waiting: Vec<(u32, u32)>, mut selected: bool) -> Position {
        let mut next = 0;
        while let Some(&(alternative, at)) = waiting.get(next) {
            match self.component(alternative, at) {
                Some(Component::AnyDepth) => waiting.push((alternative, at + 1)),
                Some(Component::Name(_)) => {}
                None => {
                    selected = true;
                    if let Some(done) = self.alternatives.get(alternative as usize) {
                        self.given[done.given_index].1.store(true, Ordering::Relaxed);
                    }
                }
            }
            next += 1;
        }
        if selected {
            waiting.clear();
        }
        waiting.sort_unstable();
        waiting.dedup();
        Position { waiting, selected, excluding: Vec::new() }
    }
}

/// Returns the components of a path as tokens that match only themselves.
fn literal(path: &[u8]) -> Vec<Component> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.map(|name| Component::Name(matcher::literal(name))).collect()
}

/// Expands `{a,b}`, also nested, into patterns without braces.
fn expand_braces(pattern: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_vec()];
    while let Some(pattern) = open.pop() {
        let Some((start, end, commas)) = first_braces(&pattern)? else {
            done.push(pattern);
            continue;
        };
        let mut from = start + 1;
        // The last alternative is pushed last, so reverse to keep the order of writing.
        let mut alternatives = Vec::new();
        for to in commas.into_iter().chain([end]) {
            alternatives
                .push([&pattern[..start], &pattern[from..to], &pattern[end + 1..]].concat());
            from = to + 1;
        }
        open.extend(alternatives.into_iter().rev());
        if open.len() + done.len() > ALTERNATIVES_MAX {
            return Err("its braces spell out more than 4096 alternatives");
        }
    }
    Ok(done)
}

/// Returns the offsets of the first opening brace, its closing brace and the commas between.
#[allow(clippy::type_complexity)]
fn first_braces(pattern: &[u8]) -> Result<Option<(usize, usize, Vec<usize>)>, &'static str> {
    let mut depth = 0usize;
    let mut start = 0;
    let mut commas = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'\\' => at += 1,
            b'[' => at = class_end(pattern, at).unwrap_or(at),
            b'{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b',' if depth == 1 => commas.push(at),
            b'}' if depth == 1 => return Ok(Some((start, at, commas))),
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    if depth > 0 { Err("a `{` is not closed; write `\\{` for the character") } else { Ok(None) }
}

/// Returns the offset of the `]` that closes the class opened at `open`.
fn class_end(pattern: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    if matches!(pattern.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    // A bracket in first place is an ordinary character.
    if pattern.get(at) == Some(&b']') {
        at += 1;
    }
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b']' => return Some(at),
            b'/' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

fn parse(pattern: &[u8]) -> Result<Vec<Component>, &'static str> {
    let mut components = Vec::new();
    for part in pattern.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err("`..` is not a name in an image"),
            b"**" => {
                // Two in a row mean the same as one.
                if components.last() != Some(&Component::AnyDepth) {
                    components.push(Component::AnyDepth);
                }
            }
            _ => components.push(Component::Name(parse_name(part)?)),
        }
    }
    Ok(components)
}

fn parse_name(part: &[u8]) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < part.len() {
        match part[at] {
            b'\\' => {
                at += 1;
                let byte = part.get(at).ok_or("it ends in a backslash")?;
                tokens.push(Token::Byte(*byte));
            }
            b'?' => tokens.push(Token::Any(Unit::Char)),
            b'*' => {
                if tokens.last() != Some(&Token::Run) {
                    tokens.push(Token::Run);
                }
            }
            b'[' => {
                let end = class_end(part, at).ok_or("a `[` is not closed; write `\\[` for it")?;
                tokens.push(parse_class(&part[at + 1..end])?);
                at = end;
            }
            byte => tokens.push(Token::Byte(byte)),
        }
        at += 1;
    }
    Ok(tokens)
}

fn parse_class(mut inside: &[u8]) -> Result<Token, &'static str> {
    let negated = matches!(inside.first(), Some(b'!' | b'^'));
    if negated {
        inside = &inside[1..];
    }
    let mut chars = Vec::new(); // (character, was escaped)
    while !inside.is_empty() {
        let escaped = inside[0] == b'\\' && inside.len() > 1;
        if escaped {
            inside = &inside[1..];
        }
        let (char, len) = next_char(inside);
        chars.push((char, escaped));
        inside = &inside[len..];
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let first = chars[at].0;
        let is_range = chars.get(at + 1) == Some(&(u32::from(b'-'), false)) && at + 2 < chars.len();
        let last = if is_range { chars[at + 2].0 } else { first };
        if last < first {
            return Err("a range in brackets runs backwards");
        }
        ranges.push((first, last));
        at += if is_range { 3 } else { 1 };
    }
    Ok(Token::Class { unit: Unit::Char, negated, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(pattern: &str, path: &str) -> bool {
        let patterns = Patterns::new(&[pattern]).unwrap();
        let mut position = patterns.start();
        for name in path.split('/').filter(|n| !n.is_empty()) {
            position = patterns.step(&position, name.as_bytes());
        }
        position.is_selected()
    }

    #[test]
    fn star_stays_in_its_component_and_two_stars_do_not() {
        assert!(selects("*.txt", "a.txt"));
        assert!(!selects("*.txt", "d/a.txt"));
        assert!(selects("**/*.txt", "a.txt"));
        assert!(selects("**/*.txt", "d/e/a.txt"));
        assert!(selects("usr/**/lib*", "usr/libx"));
        assert!(selects("usr/**/lib*", "usr/a/b/lib"));
        assert!(!selects("usr/**/lib*", "opt/a/b/lib"));
        assert!(selects("a*b*c", "aXbYbZc"));
        assert!(!selects("a*b*c", "aXbYbZ"));
    }

    #[test]
    fn a_match_of_a_directory_selects_all_below_and_nothing_beside() {
        assert!(selects("usr/share", "usr/share/doc/x"));
        assert!(selects("/usr/share/", "usr/share"));
        assert!(!selects("usr/share", "usr"));
        assert!(!selects("usr/share", "usr/shared"));
        assert!(selects("", "any/thing"));
        assert!(selects(".", "any"));
        assert!(selects("**", "x/y"));
    }

    #[test]
    fn exclusions_match_at_any_depth_unless_they_begin_with_a_slash() {
        let selects = |patterns: &[&str], excluded: &[&str], path: &str| {
            let mut patterns = Patterns::new(patterns).unwrap();
            patterns.exclude(excluded).unwrap();
            let mut position = patterns.start();
            for name in path.split('/') {
                position = patterns.step(&position, name.as_bytes());
                assert!(position.may_match_below() || !position.is_selected());
            }
            position.is_selected()
        };
        assert!(!selects(&[], &["*.o"], "a/b.o") && !selects(&[], &["*.o"], "b.o"));
        assert!(!selects(&["a"], &["*.o"], "a/b.o") && selects(&["a"], &["*.o"], "a/b.c"));
        assert!(!selects(&[], &["/a"], "a/b") && selects(&[], &["/a"], "b/a"));
        assert!(!selects(&[], &["a/b"], "x/a/b/c") && selects(&[], &["a/b"], "x/a/c/b"));
        assert!(!selects(&["**/*.c"], &["{x,y}"], "y/a.c"));
        let mut patterns = Patterns::default();
        patterns.exclude(&["a", "b"]).unwrap();
        patterns.step(&patterns.start(), b"a");
        assert!(patterns.unmatched_exclusions().eq([b"b"]));
    }

    #[test]
    fn classes_alternatives_escapes_and_bytes_that_are_not_utf8() {
        assert!(selects("[a-c]x", "bx"));
        assert!(!selects("[!a-c]x", "bx"));
        assert!(selects("[!a-c]x", "\u{e9}x"));
        assert!(selects("[]-]", "]"));
        assert!(selects("[a\\-z]", "-"));
        assert!(!selects("[a\\-z]", "m"));
        assert!(selects("?x", "\u{e9}x"));
        assert!(selects("{a,b{c,d}}/e", "bd/e"));
        assert!(!selects("{a,b{c,d}}/e", "b/e"));
        assert!(selects("\\*", "*"));
        assert!(!selects("\\*", "a"));
        assert!(selects("[{]a[}]", "{a}"));
        let patterns = Patterns::new(&[&b"caf\xe9*"[..], b"?\xff"]).unwrap();
        assert!(patterns.step(&patterns.start(), b"caf\xe9.txt").is_selected());
        assert!(patterns.step(&patterns.start(), b"\xfe\xff").is_selected());
        assert!(!patterns.step(&patterns.start(), b"cafe").is_selected());
    }

    #[test]
    fn directories_that_cannot_lead_to_a_match_are_pruned() {
        let patterns = Patterns::new(&["usr/share/*/a", "etc"]).unwrap();
        let usr = patterns.step(&patterns.start(), b"usr");
        assert!(usr.may_match_below() && !usr.is_selected());
        assert!(!patterns.step(&usr, b"lib").may_match_below());
        assert!(!patterns.step(&patterns.start(), b"var").may_match_below());
    }

    #[test]
    fn what_is_a_path_means_that_path() {
        let paths: [&[u8]; 4] = [b"a[1]/b{c", b"d\\", b"e]*", b"f"];
        let chosen = |pattern: &str, path: &[u8]| {
            let is_path = |given: &[u8]| paths.contains(&given);
            let patterns = Patterns::for_paths(&[pattern], is_path).unwrap();
            let names = path.split(|&byte| byte == b'/');
            names.fold(patterns.start(), |at, name| patterns.step(&at, name)).is_selected()
        };
        assert!(chosen("a[1]/b{c", b"a[1]/b{c") && !chosen("a[1]/b{c", b"a1/b{c"));
        assert!(chosen("d\\", b"d\\"));
        assert!(chosen("e]*", b"e]*") && chosen("e]*", b"e]x"));
        assert!(chosen("f[1]", b"f1") && !chosen("f[1]", b"f[1]"));
    }

    #[test]
    fn wrong_patterns_are_refused_and_unmatched_ones_are_named() {
        for wrong in ["a/../b", "[a", "{a,b", "a\\", "[z-a]"] {
            assert!(Patterns::new(&[wrong]).is_err(), "{wrong}");
        }
        let many = "{a,b}".repeat(13);
        assert!(Patterns::new(&[many]).is_err());
        let patterns = Patterns::new(&["a", "b*"]).unwrap();
        patterns.step(&patterns.start(), b"a");
        assert_eq!(patterns.unmatched().collect::<Vec<_>>(), [b"b*"]);
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_lengths() {
        let name = "a".repeat(255);
        let pattern = "*a".repeat(60) + "b";
        assert!(!selects(&pattern, &name));
    }
}
