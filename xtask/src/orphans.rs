//! Files of Rust that no module declares: they look like code and tests, and are neither compiled
//! nor run.
//!
//! A file in `src`, `tests`, `benches` or `examples` of a crate is a program or library of its own,
//! or its parent declares it.

use crate::tree::{Problem, Tree};

/// Folders of a package whose files and `main.rs` are programs of their own.
const PROGRAMS: [&str; 4] = ["src/bin", "tests", "benches", "examples"];

/// Reports every file that is never compiled.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    let packages: Vec<String> =
        tree.paths().filter_map(|p| Some(p.strip_suffix("Cargo.toml")?.to_owned())).collect();
    for path in tree.paths().filter(|path| path.ends_with(".rs")) {
        let package = packages.iter().filter(|package| path.starts_with(package.as_str()));
        let Some(inside) = package.max_by_key(|p| p.len()).map(|p| &path[p.len()..]) else {
            continue;
        };
        let in_room = inside.starts_with("src/") || PROGRAMS.iter().any(|p| inside.starts_with(p));
        if in_room && !is_root(inside) && !is_declared(tree, path) {
            let message = "no module declares this file: it is not compiled".to_owned();
            problems.push(Problem { path: path.to_owned(), line: 0, message });
        }
    }
}

/// Checks whether Cargo takes the file, given by its path in the package, for a library or a
/// program.
fn is_root(inside: &str) -> bool {
    if ["src/lib.rs", "src/main.rs"].contains(&inside) {
        return true;
    }
    let (folder, name) = inside.rsplit_once('/').unwrap_or(("", inside));
    let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
    PROGRAMS.contains(&folder) || name == "main.rs" && PROGRAMS.contains(&parent)
}

fn is_declared(tree: &Tree, path: &str) -> bool {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let Some((folder, name)) = stem.rsplit_once('/') else { return false };
    let declaration = format!("mod {name};");
    let parents = ["/lib.rs", "/main.rs", "/mod.rs", ".rs"].map(|end| format!("{folder}{end}"));
    // A program in `tests` declares the modules that lie beside it.
    let beside = |p: &str| p.strip_prefix(folder).is_some_and(|p| p[1..].find('/').is_none());
    let is_parent = |p: &str| parents.iter().any(|parent| parent == p) || beside(p);
    let mut texts = tree.texts().filter(|(p, _)| p.starts_with(folder) && is_parent(p));
    texts.any(|(p, text)| p != path && text.lines().any(|line| declares(line, &declaration)))
}

fn declares(line: &str, declaration: &str) -> bool {
    let line = line.trim_start();
    let plain = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.trim_start();
        rest.strip_prefix('(').and_then(|r| r.split_once(')')).map_or(rest, |(_, rest)| rest)
    });
    plain.trim_start().starts_with(declaration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_without_a_declaration_are_found() {
        let files = [
            ("crates/x/Cargo.toml", ""),
            ("crates/x/src/lib.rs", "mod a; // first\npub(crate) mod b;\nmod gone_too;\n"),
            ("crates/x/src/a.rs", "#[cfg(test)]\nmod tests;\n"),
            ("crates/x/src/a/tests.rs", ""),
            ("crates/x/src/a/lost.rs", ""),
            ("crates/x/src/b/mod.rs", "// mod lost;\n"),
            ("crates/x/src/bin/tool.rs", ""),
            ("crates/x/tests/it/main.rs", "mod one;\n"),
            ("crates/x/tests/it/one.rs", ""),
            ("crates/x/tests/it/two.rs", ""),
            ("crates/x/tests/alone.rs", "mod common;\n"),
            ("crates/x/tests/common/mod.rs", ""),
            ("crates/x/build.rs", ""),
        ];
        let mut problems = Vec::new();
        check(&Tree::of(&files), &mut problems);
        let paths: Vec<&str> = problems.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, ["crates/x/src/a/lost.rs", "crates/x/tests/it/two.rs"]);
    }
}
