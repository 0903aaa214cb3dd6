//! What a line and a file may look like.
//!
//! Every Rust file opens with `//!`, no line of Rust is wider than 100 characters (120 where a
//! string stands, which rustfmt does not break) and none of other code wider than 120 (documents
//! excepted), none ends in a space, no file of Rust is longer than 800 lines, and nothing is left
//! for later in the text itself: what is open belongs into an issue.

use crate::tree::{Problem, Tree};

const WIDTH_MAX: usize = 100;
const WIDTH_MAX_STRING: usize = 120;
const LINES_MAX: usize = 800;

/// Words that mark unfinished work, put together here so that this file does not hold them.
const LEFT_FOR_LATER: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("to", "do!("),
    concat!("unimple", "mented!"),
];

/// Checks every text of the tree.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.texts() {
        let made = path.ends_with("Cargo.lock") || path.ends_with(".svg");
        if made || path.starts_with("testdata/") {
            continue;
        }
        let mut report = |line, message: String| {
            problems.push(Problem { path: path.to_owned(), line, message });
        };
        let rust = path.ends_with(".rs");
        let prose = path.ends_with(".md") || path.starts_with("LICENSE");
        if rust && !text.starts_with("//!") {
            report(1, "opens with `//!`: what the file is, promises and does not do".to_owned());
        }
        if rust && text.lines().count() > LINES_MAX {
            let count = text.lines().count();
            report(0, format!("has {count} lines, at most {LINES_MAX}: one idea, one file"));
        }
        if !text.is_empty() && !text.ends_with('\n') {
            report(text.lines().count(), "the last line does not end".to_owned());
        }
        for (index, line) in text.lines().enumerate() {
            let width = line.chars().count();
            let wide = if rust && !line.contains('"') { WIDTH_MAX } else { WIDTH_MAX_STRING };
            if !prose && width > wide {
                report(index + 1, format!("{width} characters wide, at most {wide}"));
            }
            if line.ends_with([' ', '\t', '\r']) {
                report(index + 1, "ends in white space".to_owned());
            }
            for word in LEFT_FOR_LATER {
                if line.contains(word) {
                    report(index + 1, format!("`{word}`: what is open belongs into an issue"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut problems);
        problems.into_iter().map(|p| format!("{}: {}", p.line, p.message)).collect()
    }

    #[test]
    fn a_good_file_passes() {
        assert!(messages("a.rs", "//! A file.\nfn main() {}\n").is_empty());
        assert!(messages("a.md", &format!("{}\n", "w".repeat(300))).is_empty());
    }

    #[test]
    fn each_rule_is_broken_by_its_example() {
        assert!(messages("a.rs", "fn main() {}\n")[0].contains("opens with"));
        assert!(messages("a.rs", "//! A. \n")[0].contains("white space"));
        assert!(messages("a.rs", "//! A.\nfn f() {}")[0].contains("does not end"));
        let wide = format!("//! A.\n// {}\n", "w".repeat(98));
        assert_eq!(messages("a.rs", &wide), ["2: 101 characters wide, at most 100"]);
        let wide = format!("//! A.\nconst A: &str = \"{}\";\n", "w".repeat(102));
        assert_eq!(messages("a.rs", &wide), ["2: 121 characters wide, at most 120"]);
        let long = format!("//! A.\n{}", "\n".repeat(LINES_MAX));
        assert!(messages("a.rs", &long)[0].contains("one idea, one file"));
        for word in LEFT_FOR_LATER {
            assert!(messages("a.sh", &format!("# {word}\n"))[0].contains("belongs into"));
        }
    }
}
