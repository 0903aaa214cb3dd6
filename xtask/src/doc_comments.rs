//! Doc comments: how they open, and what they say about errors.
//!
//! A doc comment opens with a verb or a noun phrase. Every `pub fn` that returns a `Result` says
//! under `# Errors` when it fails. Code under `#[cfg(test)]` is left out. Nothing else of the
//! language is judged here.

use crate::modules::{is_for_tests, skip_attribute, skip_item};
use crate::tokens::{Kind, Token, tokens};
use crate::tree::{Problem, Tree};

/// Words that open a clause instead of a description.
const OPENINGS: [&str; 6] = ["That ", "Whether so", "Who ", "Whom ", "What of ", "How the "];

/// Phrases that no text of the project uses, put together here so that this file has none.
const PHRASES: [&str; 3] =
    [concat!("is to ", "be had"), concat!("are to ", "be had"), concat!("for ", "who ")];

/// Checks every Rust file, and the phrases of every document.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.texts() {
        let rust = path.ends_with(".rs");
        if path.starts_with("testdata/") || !rust && !path.ends_with(".md") {
            continue;
        }
        let mut report = |line, message| {
            problems.push(Problem { path: path.to_owned(), line, message });
        };
        check_phrases(text, &mut report);
        if rust {
            check_openings(text, &mut report);
        }
        if rust && path.contains("src/") {
            for (line, name) in silent_functions(&tokens(text)) {
                report(line, format!("`{name}` returns a `Result`: say when under `# Errors`"));
            }
        }
    }
}

fn check_phrases(text: &str, report: &mut impl FnMut(usize, String)) {
    for (index, line) in text.lines().enumerate() {
        for phrase in PHRASES.iter().filter(|phrase| line.contains(**phrase)) {
            report(index + 1, format!("`{phrase}`: say it in plain English"));
        }
    }
}

fn check_openings(text: &str, report: &mut impl FnMut(usize, String)) {
    let mut before = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind));
        if let Some(kind) = kind.filter(|kind| before != Some(*kind)) {
            let text = line[kind.len()..].trim_start();
            if let Some(opening) = OPENINGS.iter().find(|opening| text.starts_with(**opening)) {
                let opening = opening.trim_end();
                report(index + 1, format!("a doc comment does not open with `{opening}`"));
            }
        }
        before = kind;
    }
}

/// Lines and names of public functions that return a `Result` and do not document their errors.
fn silent_functions(tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut documented, mut at) = (false, 0);
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Doc(text) => {
                documented |= text.trim() == "# Errors";
                at += 1;
            }
            Kind::Mark('#') => {
                let start = at;
                skip_attribute(tokens, &mut at);
                if is_for_tests(&tokens[start..at]) {
                    skip_item(tokens, &mut at);
                    documented = false;
                }
            }
            Kind::Word("pub") => {
                at += 1;
                let qualifiers = ["const", "async", "unsafe", "extern"];
                let mut rest = tokens[at..].iter().skip_while(|token| {
                    token.word().is_some_and(|word| qualifiers.contains(&word))
                        || token.kind == Kind::Literal
                });
                if rest.next().and_then(Token::word) == Some("fn") {
                    let name = rest.next().and_then(Token::word).unwrap_or_default();
                    if !documented && returns_result(&tokens[at..]) {
                        found.push((token.line, name.to_owned()));
                    }
                }
                documented = false;
            }
            _ => {
                documented = false;
                at += 1;
            }
        }
    }
    found
}

/// Checks whether the function that begins here returns a `Result`, not something that holds one.
fn returns_result(function: &[Token<'_>]) -> bool {
    let mut depth = 0_usize;
    for (index, token) in function.iter().enumerate() {
        match token.kind {
            Kind::Mark('(' | '[') => depth += 1,
            Kind::Mark(')' | ']') => depth = depth.saturating_sub(1),
            Kind::Mark('{' | ';') if depth == 0 => return false,
            Kind::Mark('>') if depth == 0 && function[index - 1].is('-') => {
                let path = function[index + 1..].iter().take_while(|token| {
                    token.word().is_some() || token.kind == Kind::PathSeparator
                });
                // `where` or a brace may follow; the type is what comes before its generics.
                return path.filter_map(Token::word).last() == Some("Result");
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::of(&[("crates/x/src/lib.rs", text)]), &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_comments_pass() {
        let text = "//! A crate.\n\n/// Opens it.\n///\n/// That is cheap.\n///\n\
                    /// # Errors\n///\n/// It is missing.\n#[inline]\n\
                    pub fn open<F: Fn() -> u8>(f: F) -> io::Result<u8> {}\n\
                    /// Looks.\npub fn look() -> Option<Result<u8, ()>> {}\n\
                    pub(crate) fn inside() -> Result<u8, ()> {}\nfn own() -> Result<u8, ()> {}\n\
                    #[cfg(test)]\nmod tests { pub fn helps() -> Result<u8, ()> {} }\n";
        assert_eq!(problems(text), [""; 0]);
    }

    #[test]
    fn silent_functions_are_found() {
        for function in [
            "/// Opens.\npub fn open() -> Result<u8, E> {}\n",
            "/// Opens.\n#[must_use]\npub const unsafe fn open() -> std::io::Result<()> {}\n",
            "/// # Errors\n///\n/// Of another.\npub struct A;\npub fn open() -> fmt::Result {}\n",
        ] {
            let found = problems(&format!("//! A.\n{function}"));
            assert!(found.len() == 1 && found[0].contains("`open`"), "{function}: {found:?}");
        }
    }

    #[test]
    fn clauses_and_phrases_are_found() {
        for text in ["/// That it is open.\n", "//! Who may read.\n", "    /// Whether so.\n"] {
            assert_eq!(problems(text).len(), 1, "{text}");
        }
        for phrase in PHRASES {
            assert_eq!(problems(&format!("// What {phrase} here.\n")).len(), 1, "{phrase}");
        }
    }
}
