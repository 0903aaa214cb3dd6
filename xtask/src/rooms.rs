//! Which crate may see which: the manifests against the allowed arrows and the dependency table
//! of `ARCHITECTURE.md`.
//!
//! Looks at dependencies between crates of the workspace only. Crates of others are free, except
//! that only the codec crate links C.

use crate::markdown::marked_tables;
use crate::tree::{Problem, Tree};

const DOCUMENT: &str = "ARCHITECTURE.md";
const MARKER: &str = "dependencies";

/// The arrows: a crate and all crates of the workspace that it may use. Tools at the end may see
/// anything, and nothing sees them.
const ROOMS: &[(&str, &[&str])] = &[
    ("shale-host", &[]),
    ("shale-model", &[]),
    ("shale-table", &[]),
    ("shale-codec", &[]),
    ("shale-deflate", &[]),
    ("shale-format", &["shale-model", "shale-table"]),
    ("shale-read", &["shale-codec", "shale-deflate", "shale-format", "shale-model", "shale-table"]),
    (
        "shale-write",
        &[
            "shale-codec",
            "shale-deflate",
            "shale-format",
            "shale-host",
            "shale-model",
            "shale-table",
        ],
    ),
    ("shale-erofs", &[]),
    ("shale-foreign", &["shale-codec", "shale-erofs", "shale-format", "shale-model"]),
    ("shale-check", &["shale-codec", "shale-format", "shale-host", "shale-read", "shale-table"]),
    ("shale-query", &["shale-codec", "shale-format", "shale-read", "shale-table"]),
    (
        "shale-extract",
        &[
            "shale-codec",
            "shale-foreign",
            "shale-format",
            "shale-host",
            "shale-model",
            "shale-read",
        ],
    ),
    (
        "shale-source",
        &[
            "shale-codec",
            "shale-foreign",
            "shale-format",
            "shale-host",
            "shale-model",
            "shale-read",
        ],
    ),
    (
        "shale",
        &[
            "shale-check",
            "shale-codec",
            "shale-extract",
            "shale-foreign",
            "shale-format",
            "shale-host",
            "shale-model",
            "shale-query",
            "shale-read",
            "shale-source",
            "shale-table",
            "shale-write",
        ],
    ),
    ("shale-fuse", &["shale-erofs", "shale-read"]),
    ("shale-runtime", &["shale-codec", "shale-format", "shale-fuse", "shale-model", "shale-read"]),
    ("shale-remote", &[]),
    ("shale-age", &["shale-read"]),
    ("shale-serve", &["shale-extract", "shale-host", "shale-read"]),
    ("shale-cli", &["shale", "shale-age", "shale-fuse", "shale-remote", "shale-serve"]),
    ("shale-python", &["shale", "shale-age"]),
    ("shale-capi", &["shale-extract", "shale-host", "shale-model", "shale-read"]),
];

/// Crates that may see every other and that no crate may use.
const TOOLS: [&str; 3] = ["shale-tests", "shale-bench", "xtask"];

/// Crates that only the codec crate may use: they carry or link C.
const C_CRATES: [&str; 6] = ["zstd", "zstd-safe", "zstd-sys", "liblzma", "liblzma-sys", "lz4-sys"];

/// Compares manifests, arrows and the table.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    let mut manifests = Vec::new();
    for (path, text) in tree.texts() {
        let folder = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"));
        let Some(folder) = folder else { continue };
        let mut report = |line, message| {
            problems.push(Problem { path: path.to_owned(), line, message });
        };
        let manifest = Manifest::read(text);
        if manifest.name != folder {
            report(0, format!("the package is named `{}`, its folder `{folder}`", manifest.name));
        }
        let tool = TOOLS.contains(&folder);
        let room = ROOMS.iter().find(|(name, _)| *name == folder);
        if room.is_none() && !tool {
            report(0, "tidy knows no room for this crate: add its arrows".to_owned());
        }
        for (line, name, kind) in &manifest.dependencies {
            let allowed = match room {
                _ if tool => true,
                _ if TOOLS.contains(&name.as_str()) => false,
                Some((_, allowed)) if is_room(name) && *kind == Kind::Normal => {
                    allowed.contains(&name.as_str())
                }
                // Tests of the lowest crates must not reach up; higher ones may meet their twin.
                Some((_, allowed)) if is_room(name) => !allowed.is_empty(),
                _ => folder == "shale-codec" || !C_CRATES.contains(&name.as_str()),
            };
            if !allowed {
                report(*line, format!("`{folder}` must not see `{name}`"));
            }
        }
        if !tool {
            manifests.push(manifest);
        }
    }
    check_table(tree, &manifests, problems);
}

fn is_room(name: &str) -> bool {
    ROOMS.iter().any(|(room, _)| *room == name)
}

fn check_table(tree: &Tree, manifests: &[Manifest], problems: &mut Vec<Problem>) {
    let mut report = |line, message| {
        problems.push(Problem { path: DOCUMENT.to_owned(), line, message });
    };
    let text = tree.text(DOCUMENT).unwrap_or_default();
    let Some(table) = marked_tables(text).into_iter().find(|t| t.marker == MARKER) else {
        report(0, format!("no table has the marker `<!-- tidy: {MARKER} -->`"));
        return;
    };
    if table.header.iter().take(2).ne(["crate", "uses"]) {
        report(table.line, "the table's first columns are not crate, uses".to_owned());
        return;
    }
    for manifest in manifests {
        let row = table.rows.iter().find(|(_, cells)| cells[0] == manifest.name);
        let Some((line, cells)) = row else {
            report(table.line, format!("the table has no row for `{}`", manifest.name));
            continue;
        };
        let mut written: Vec<&str> =
            cells[1].split(',').map(|c| c.trim().trim_matches('`')).collect();
        written.retain(|name| !name.is_empty() && *name != "–");
        written.sort_unstable();
        let mut uses: Vec<&str> = manifest.rooms().collect();
        uses.sort_unstable();
        if written != uses {
            report(*line, format!("`{}` uses {}", manifest.name, uses.join(", ")));
        }
    }
    for (line, cells) in &table.rows {
        if !manifests.iter().any(|m| m.name == cells[0]) {
            report(*line, format!("there is no crate `{}`", cells[0]));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Development,
}

#[derive(Debug)]
struct Manifest {
    name: String,
    /// Line, name and kind of each dependency.
    dependencies: Vec<(usize, String, Kind)>,
}

impl Manifest {
    fn read(text: &str) -> Self {
        let mut manifest = Self { name: String::new(), dependencies: Vec::new() };
        let mut section = "";
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(inner) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = inner;
                // `[dependencies.name]` names one dependency in its heading.
                for (prefix, kind) in
                    [("dependencies.", Kind::Normal), ("dev-dependencies.", Kind::Development)]
                {
                    if let Some(name) = inner.strip_prefix(prefix) {
                        manifest.dependencies.push((index + 1, name.to_owned(), kind));
                    }
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let name = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
            let normal = section == "dependencies" || section.ends_with(".dependencies");
            let normal = normal || section == "build-dependencies";
            if section == "package" && key.trim() == "name" {
                manifest.name = value.trim().trim_matches('"').to_owned();
            } else if normal && !section.starts_with("workspace") {
                manifest.dependencies.push((index + 1, name.to_owned(), Kind::Normal));
            } else if section.ends_with("dev-dependencies") {
                manifest.dependencies.push((index + 1, name.to_owned(), Kind::Development));
            }
        }
        manifest
    }

    /// Crates of the workspace among the dependencies of the product.
    fn rooms(&self) -> impl Iterator<Item = &str> {
        let normal = self.dependencies.iter().filter(|(_, _, kind)| *kind == Kind::Normal);
        normal.map(|(_, name, _)| name.as_str()).filter(|name| is_room(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "<!-- tidy: dependencies -->\n| crate | uses | must never know |\n\
        |---|---|---|\n| `shale-table` | – | files |\n| `shale-format` | `shale-table` | I/O |\n";
    const LOW: (&str, &str) =
        ("crates/shale-table/Cargo.toml", "[package]\nname = \"shale-table\"\n[dependencies]\n");

    fn problems(format_dependencies: &str, table: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"shale-format\"\n{format_dependencies}");
        let high = ("crates/shale-format/Cargo.toml", manifest.as_str());
        let mut problems = Vec::new();
        check(&Tree::of(&[LOW, high, (DOCUMENT, table)]), &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allowed_arrows_and_a_true_table_pass() {
        assert_eq!(problems("[dependencies]\nshale-table.workspace = true\n", TABLE), [""; 0]);
    }

    #[test]
    fn forbidden_arrows_are_found() {
        let table = "shale-table.workspace = true\n";
        for wrong in [
            "shale-read = { path = \"../shale-read\" }\n",
            "zstd-safe.workspace = true\n",
            "shale-tests.workspace = true\n",
            "[dependencies.shale-write]\nworkspace = true\n",
        ] {
            let found = problems(&format!("[dependencies]\n{table}{wrong}"), TABLE);
            assert!(found.iter().any(|p| p.contains("must not see")), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn a_false_table_is_found() {
        let dependencies = "[dependencies]\nshale-table.workspace = true\n";
        let lies = [
            TABLE.replace("| `shale-format` | `shale-table` |", "| `shale-format` | – |"),
            TABLE.replace("| `shale-table` | – | files |\n", ""),
            format!("{TABLE}| `shale-gone` | – | all |\n"),
            TABLE.replace("tidy: ", ""),
        ];
        for lie in lies {
            assert_eq!(problems(dependencies, &lie).len(), 1, "{lie}");
        }
    }
}
