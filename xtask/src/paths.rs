//! Paths that documents and comments name: each must be there.
//!
//! Looks at code spans and links of every markdown file and at comments of Rust files. A path is
//! a word that begins with a top folder of the repository, or a top file; patterns (`*`, `NNNN`,
//! `<..>`, `{a,b}`) are checked up to the first part that holds one.

use crate::tree::{Problem, Tree};

const FOLDERS: [&str; 9] =
    ["crates/", "docs/", "xtask/", "fuzz/", "bench/", "testdata/", "scripts/", "python/", ".ci/"];

/// Folders that hold products, or that the repository makes when it needs them.
const MADE: [&str; 3] = ["fuzz/corpus", "fuzz/artifacts", "fuzz/target"];

/// Reports every named path that is not in the tree.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.texts() {
        let markdown = path.ends_with(".md");
        if !markdown && !path.ends_with(".rs") || path.starts_with("xtask/") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if !markdown && !line.trim_start().starts_with("//") {
                continue;
            }
            let mut missing = Vec::new();
            for span in line.split('`').skip(1).step_by(2) {
                missing.extend(span.split_whitespace().filter(|w| is_missing(tree, w)));
            }
            for link in line.split("](").skip(1).filter(|_| markdown) {
                let target = link.split([')', '#', ' ']).next().unwrap_or_default();
                let foreign = target.is_empty() || target.contains("://");
                if !foreign && !tree.exists(&resolve(path, target)) {
                    missing.push(target);
                }
            }
            for name in missing {
                let message = format!("names `{name}`, which is not there");
                problems.push(Problem { path: path.to_owned(), line: index + 1, message });
            }
        }
    }
}

/// Whether a word of a code span is a path of the repository that does not exist.
fn is_missing(tree: &Tree, word: &str) -> bool {
    let word = word.trim_start_matches("./").trim_end_matches(['.', ',', ';', ')']);
    let word = word.split("::").next().unwrap_or(word).split('#').next().unwrap_or(word);
    let top_file = !word.contains('/')
        && (word.ends_with(".md") && word.chars().next().is_some_and(char::is_uppercase)
            || word == "Makefile"
            || word.starts_with("LICENSE-"));
    if !top_file && !FOLDERS.iter().any(|f| word.starts_with(f)) {
        return false;
    }
    if MADE.iter().any(|made| word.starts_with(made)) {
        return false;
    }
    // A line number may follow, and a pattern ends what can be checked.
    let word = word.split(':').next().unwrap_or(word);
    let pattern = |part: &str| part.contains(['*', '<', '{', '$']) || part.contains("NNNN");
    let plain: Vec<&str> = word.split('/').take_while(|part| !pattern(part)).collect();
    !tree.exists(&plain.join("/"))
}

/// A link relative to the document that holds it.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (path, text),
            ("crates/a/src/lib.rs", "//! A.\n"),
            ("docs/decisions/0001-x.md", "# X\n"),
        ]);
        let mut problems = Vec::new();
        check(&tree, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn true_names_pass() {
        let text = "`crates/a/src/lib.rs:12`, `crates/a`, `docs/decisions/NNNN-title.md`, `crates/*/x`,\n\
                    [x](decisions/0001-x.md#why), [web](https://example.org), `cargo test`, `a/b`\n";
        assert_eq!(problems("docs/a.md", text), [""; 0]);
    }

    #[test]
    fn gone_names_are_found() {
        for text in
            ["`crates/b`\n", "`README.md`\n", "[x](gone.md)\n", "`docs/gone-*/x`, `docs/no.md`\n"]
        {
            assert_eq!(problems("docs/a.md", text).len(), 1, "{text}");
        }
        assert_eq!(problems("crates/c.rs", "//! See `docs/gone.md`.\n").len(), 1);
        assert_eq!(problems("crates/c.rs", "let path = \"`docs/gone.md`\";\n"), [""; 0]);
    }
}
