//! The lines of a `.gitignore` file.
//!
//! The last line that matches a path decides. A line with a slash other than at its end is matched
//! against the whole path below the directory of the file, any other against the last name. `!`
//! keeps what an earlier line left out.

use super::matcher::{Extent, Token, matches};
use super::wildmatch::{Stars, parse};

/// One line.
#[derive(Debug)]
pub struct Rule {
    text: Vec<u8>,
    keeps: bool,
    directories_only: bool,
    is_name: bool,
    tokens: Vec<Token>,
}

/// Parses the text of a file. Lines that are not valid patterns are skipped, as git does.
pub fn rules(text: &[u8]) -> Vec<Rule> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n');
    let lines = lines.map(|line| without_spaces(line.strip_suffix(b"\r").unwrap_or(line)));
    lines.filter(|line| !line.is_empty() && line[0] != b'#').filter_map(Rule::new).collect()
}

impl Rule {
    fn new(text: &[u8]) -> Option<Self> {
        let (keeps, pattern) = match text.strip_prefix(b"!") {
            Some(pattern) => (true, pattern),
            None => (false, text),
        };
        let directories_only = pattern.ends_with(b"/");
        let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
        let is_name = !pattern.contains(&b'/');
        let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
        let tokens = parse(pattern, Stars::WholeNames).ok()?;
        Some(Self { text: text.to_vec(), keeps, directories_only, is_name, tokens })
    }

    /// The line, as written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// True if the line begins with `!`: what it matches is kept.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// True if the rule matches `path`, which is relative to the directory of the file.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let from = match self.is_name {
            true => path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1),
            false => 0,
        };
        (is_directory || !self.directories_only)
            && matches(&self.tokens, &path[from..], Extent::Whole)
    }
}

/// The line without trailing spaces, except those after a backslash.
fn without_spaces(line: &[u8]) -> &[u8] {
    let (mut at, mut end) = (0, 0);
    while at < line.len() {
        let len = if line[at] == b'\\' { 2 } else { 1 };
        if line[at] != b' ' {
            end = at + len;
        }
        at += len;
    }
    line.get(..end).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_git_reads_them() {
        let is_left_out = |text: &str, path: &str, is_directory| {
            let rules = rules(text.as_bytes());
            let found = rules.iter().rev().find(|r| r.matches(path.as_bytes(), is_directory));
            found.is_some_and(|rule| !rule.keeps)
        };
        // git knows no braces, and its sets have classes.
        assert!(!is_left_out("*.{c,o}\n", "a.c", false) && is_left_out("{a,b}", "{a,b}", false));
        assert!(is_left_out("[[:digit:]]*\n", "7z", false));
        assert!(!is_left_out("[[:digit:]]*\n", "d]", false));
        assert!(is_left_out("a \\  \r\n", "a  ", false) && is_left_out("a  \n", "a", false));
        assert!(is_left_out("\\#a\n\\!b\n#c\n", "#a", false) && is_left_out("\\!b", "!b", false));
        assert!(!is_left_out("#c", "#c", false) && !is_left_out("!\n/\n//\n\\\n[\n", "[", true));
        assert!(is_left_out("a/**/b\n", "a/b", false) && is_left_out("a**b\n", "x/ab", false));
        assert!(!is_left_out("/a\n", "b/a", false) && !is_left_out("a/b\n", "x/a/b", false));
        // Bytes are bytes.
        assert!(!is_left_out("?\n", "\u{e9}", false) && is_left_out("??\n", "\u{e9}", false));
        assert!(rules(b"\xff*\n")[0].matches(b"\xffx", false));
    }
}
