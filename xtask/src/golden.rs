//! Golden images are forever: each file under `testdata/images` is named in a test that reads it,
//! and in the page that says what it shows.
//!
//! Does not read the images; the tests do.

use crate::tree::{Problem, Tree};

const FOLDER: &str = "testdata/images/";
const PAGE: &str = "testdata/images/README.md";

/// Reports images that no test of a crate names, or that the page of images does not name.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for path in tree.paths().filter(|p| p.starts_with(FOLDER) && p.ends_with(".shale")) {
        let name = &path[FOLDER.len()..];
        let test =
            |p: &str| p.starts_with("crates/") && p.contains("/tests/") && p.ends_with(".rs");
        let named = tree.texts().any(|(p, text)| test(p) && text.contains(name));
        if !named {
            let message = "no test under crates/*/tests names this image".to_owned();
            problems.push(Problem { path: path.to_owned(), line: 0, message });
        }
        let stem = name.trim_end_matches(".shale");
        if !tree.text(PAGE).is_some_and(|text| text.contains(stem)) {
            let message = format!("{PAGE} does not say what this image shows");
            problems.push(Problem { path: path.to_owned(), line: 0, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_test_or_an_explanation_is_found() {
        let image = ("testdata/images/0.1-small.shale", "x\n");
        let test = ("crates/t/tests/golden.rs", "//! T.\n\"0.1-small.shale\"\n");
        let page = (PAGE, "| 0.1-small | The smallest image |\n");
        let count = |files: &[(&str, &str)]| {
            let mut problems = Vec::new();
            check(&Tree::of(files), &mut problems);
            problems.len()
        };
        assert_eq!(count(&[image]), 2);
        assert_eq!(count(&[image, test]), 1);
        assert_eq!(count(&[image, page]), 1);
        assert_eq!(count(&[image, test, page]), 0);
    }
}
