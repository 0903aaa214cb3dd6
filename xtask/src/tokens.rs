//! Rust source as tokens: names, marks and doc comments, each with its line.
//!
//! Comments and the text of literals are dropped, so a name in a string is never taken for code.
//! Reads every lexical form that rustfmt leaves; it does not check that the source compiles.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An identifier or a keyword.
    Word(&'a str),
    /// `::`.
    PathSeparator,
    /// Any other character of punctuation.
    Mark(char),
    /// A string, a character or a number.
    Literal,
    /// A `///` comment of one line, without its slashes.
    Doc(&'a str),
}

/// One token and the line where it begins, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind<'a>,
    /// Where it begins.
    pub line: usize,
}

impl<'a> Token<'a> {
    /// Checks for a character of punctuation.
    pub fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    /// The identifier or keyword, if it is one.
    pub fn word(&self) -> Option<&'a str> {
        match self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Splits `text` into tokens.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        let (kind, len) = next(rest);
        if let Some(kind) = kind {
            found.push(Token { kind, line });
        }
        line += bytes[at..at + len].iter().filter(|b| **b == b'\n').count();
        at += len;
    }
    found
}

/// The token at the start of `rest`, which is not empty, and its length in bytes.
fn next(rest: &str) -> (Option<Kind<'_>>, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    if rest.starts_with("//") {
        let line = rest.lines().next().unwrap_or(rest);
        let doc = line.strip_prefix("///").filter(|text| !text.starts_with('/'));
        return (doc.map(Kind::Doc), line.len());
    }
    if rest.starts_with("/*") {
        return (None, block_comment_len(rest));
    }
    if let Some(len) = string_len(rest) {
        return (Some(Kind::Literal), len);
    }
    if rest.starts_with("b'") {
        return (Some(Kind::Literal), 1 + character_len(&rest[1..]).unwrap_or(1));
    }
    if first == '\'' {
        return match character_len(rest) {
            Some(len) => (Some(Kind::Literal), len),
            // A lifetime or a label: no name of an item.
            None => (None, 1 + word_len(&rest[1..])),
        };
    }
    if first.is_ascii_digit() {
        return (Some(Kind::Literal), word_len(rest));
    }
    if first == '_' || first.is_alphabetic() {
        let name = rest.strip_prefix("r#").unwrap_or(rest);
        let len = word_len(name);
        return (Some(Kind::Word(&name[..len])), rest.len() - name.len() + len);
    }
    if rest.starts_with("::") {
        return (Some(Kind::PathSeparator), 2);
    }
    let kind = (!first.is_whitespace()).then_some(Kind::Mark(first));
    (kind, first.len_utf8())
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

/// Length of a comment that may hold further ones.
fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of the string literal at the start: plain, of bytes, of C, raw.
fn string_len(rest: &str) -> Option<usize> {
    let quote = rest.find(|c| !matches!(c, 'b' | 'c' | 'r' | '#'))?;
    let prefix = rest[..quote].trim_end_matches('#');
    if !rest[quote..].starts_with('"') || !["", "b", "c", "r", "br", "cr"].contains(&prefix) {
        return None;
    }
    let hashes = quote - prefix.len();
    if prefix.ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        let inner = rest[quote + 1..].find(&end).unwrap_or(rest.len() - quote - 1);
        return Some((quote + 1 + inner + end.len()).min(rest.len()));
    }
    if hashes > 0 {
        return None;
    }
    Some(quoted_len(rest, quote, b'"'))
}

/// Length up to and with the closing quote of what opens at `open`; a backslash hides a byte.
fn quoted_len(rest: &str, open: usize, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Length of a character literal, or nothing where the quote begins a lifetime.
fn character_len(rest: &str) -> Option<usize> {
    let mut inner = rest[1..].chars();
    match inner.next()? {
        '\\' => Some(quoted_len(rest, 0, b'\'')),
        one => (inner.next() == Some('\'')).then(|| 2 + one.len_utf8()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).iter().filter_map(Token::word).collect()
    }

    #[test]
    fn names_in_comments_and_literals_are_no_code() {
        let text = "a /* x /* y */ x */ b // x\n\"x \\\" x\" c r#\"x \" x\"# d b'x' '\\'' 'x' e";
        assert_eq!(words(text), ["a", "b", "c", "d", "e"]);
        assert_eq!(words("fn f<'x>(a: &'x str) -> r#type { 12u8 }").join(" "), "fn f a str type");
        assert_eq!(words("'label: loop { break 'label; }"), ["loop", "break"]);
    }

    #[test]
    fn every_token_knows_its_line() {
        let found = tokens("/// Doc.\nuse a::b;\n\"two\nlines\"\nc");
        let lines: Vec<usize> = found.iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 2, 2, 2, 2, 2, 3, 5]);
        assert_eq!(found[0].kind, Kind::Doc(" Doc."));
        assert_eq!(found[3].kind, Kind::PathSeparator);
    }
}
