//! Golden images are forever: each file under `testdata/images` is named in a test that reads it.
//!
//! Does not read the images; the tests do.

use crate::tree::{Problem, Tree};

const FOLDER: &str = "testdata/images/";

/// Reports images that no test of a crate names.
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_test_is_found() {
        let image = ("testdata/images/0.1-small.shale", "x\n");
        let mut problems = Vec::new();
        check(&Tree::of(&[image]), &mut problems);
        assert_eq!(problems.len(), 1);
        problems.clear();
        let test = ("crates/t/tests/golden.rs", "//! T.\n\"0.1-small.shale\"\n");
        check(&Tree::of(&[image, test]), &mut problems);
        assert_eq!(problems, []);
    }
}
