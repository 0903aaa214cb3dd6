//! Circles of imports: files of one crate that need each other.
//!
//! A file needs another if its code names an item that the other defines, whatever re-exports lie
//! between. `mod` lines, re-exports that the file does not use itself and code for tests do not
//! count. Methods are not seen, as their calls name no file.

use crate::modules::{Crate, ModuleIndex, Target};
use crate::tree::{Problem, Tree};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What files need of each other: for each pair, the names and the lines that name them.
type Needs = BTreeMap<String, BTreeMap<String, BTreeMap<String, usize>>>;

/// Files that need each other, and the shortest circle among them.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    /// All files from which each can reach each.
    pub files: Vec<String>,
    /// One way round: each file needs the next, and the last needs the first.
    pub way: Vec<String>,
}

/// Root files of all programs and libraries of a folder such as `crates/x`.
fn roots(tree: &Tree, folder: &str) -> Vec<String> {
    let inside = format!("{folder}/src/");
    let is_root = |path: &&str| {
        path.strip_prefix(&inside).is_some_and(|name| {
            let program = name.strip_prefix("bin/").is_some_and(|name| !name.contains('/'));
            name == "lib.rs" || name == "main.rs" || program
        })
    };
    tree.paths().filter(is_root).map(str::to_owned).collect()
}

/// Folders of all crates, in order.
pub fn folders(tree: &Tree) -> Vec<String> {
    let manifest = |path: &str| path.strip_suffix("/Cargo.toml").map(str::to_owned);
    tree.paths().filter_map(manifest).collect()
}

/// Reads what the files of a crate need of each other.
fn needs(tree: &Tree, root: &str) -> Needs {
    let krate = Crate::read(tree, root);
    let mut needs = Needs::new();
    for (index, module) in krate.modules.iter().enumerate() {
        let mut add = |path: &[String], line: usize| {
            let Some((home, name)) = item(&krate, index, path) else { return };
            let home = &krate.modules[home].file;
            if *home != module.file {
                let of = needs.entry(module.file.clone()).or_default();
                let names = of.entry(home.clone()).or_default();
                names.entry(name.to_owned()).or_insert(line);
            }
        };
        for import in module.imports.iter().filter(|import| !import.glob) {
            let named = module.mentions.iter().any(|m| Some(&m.path[0]) == import.name.as_ref());
            if named || !import.public {
                add(&import.path, import.line);
            }
        }
        for mention in &module.mentions {
            add(&mention.path, mention.line);
        }
    }
    needs
}

/// The module that defines what `path` names, and the name of the item: in `Type::new` the type.
fn item<'a>(
    krate: &Crate,
    from: ModuleIndex,
    path: &'a [String],
) -> Option<(ModuleIndex, &'a str)> {
    (1..=path.len()).find_map(|len| match krate.resolve(from, &path[..len])? {
        Target::Item(home) => Some((home, path[len - 1].as_str())),
        Target::Module(_) => None,
    })
}

/// Finds the groups of nodes that reach each other.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Circle> {
    let reached: BTreeMap<&String, BTreeMap<&String, &String>> =
        edges.keys().map(|from| (from, reach(edges, from))).collect();
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for from in edges.keys() {
        if done.contains(from) || !reached[from].contains_key(from) {
            continue;
        }
        let mutual = |to: &&&String| reached.get(*to).is_some_and(|back| back.contains_key(from));
        let files: Vec<&String> = reached[from].keys().filter(mutual).copied().collect();
        done.extend(files.iter().copied());
        let ways = files.iter().map(|file| way_round(&reached[file], file));
        let way = ways.min_by_key(Vec::len).unwrap_or_default();
        let files = files.into_iter().cloned().collect();
        circles.push(Circle { files, way });
    }
    circles
}

/// All nodes that `from` reaches by at least one edge, each with the node before it on a shortest
/// way.
fn reach<'a>(
    edges: &'a BTreeMap<String, BTreeSet<String>>,
    from: &'a String,
) -> BTreeMap<&'a String, &'a String> {
    let mut before = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for next in edges.get(node).into_iter().flatten() {
            if !before.contains_key(next) {
                before.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    before
}

/// The shortest way from `file` back to it.
fn way_round(before: &BTreeMap<&String, &String>, file: &String) -> Vec<String> {
    let mut way = vec![before[file].clone()];
    while way.last() != Some(file) {
        let last = &way[way.len() - 1];
        way.push(before[last].clone());
    }
    way.reverse();
    way
}

fn edges(needs: &Needs) -> BTreeMap<String, BTreeSet<String>> {
    needs.iter().map(|(from, to)| (from.clone(), to.keys().cloned().collect())).collect()
}

/// One line for a step of a circle: where the first file names what of the second.
fn step(needs: &Needs, from: &str, to: &str) -> String {
    let names = &needs[from][to];
    let line = names.values().min().copied().unwrap_or_default();
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    format!("{from}:{line} uses {} of {to}", names.join(", "))
}

/// Pairs of each file of a way and the next one.
fn steps(way: &[String]) -> impl Iterator<Item = (&String, &String)> {
    way.iter().zip(way.iter().cycle().skip(1))
}

/// Reports every circle of the tree.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for folder in folders(tree) {
        for root in roots(tree, &folder) {
            let needs = needs(tree, &root);
            for circle in circles(&edges(&needs)) {
                let steps: Vec<String> =
                    steps(&circle.way).map(|(from, to)| step(&needs, from, to)).collect();
                let message =
                    format!("{} files import each other: {}", circle.files.len(), steps.join("; "));
                problems.push(Problem { path: circle.way[0].clone(), line: 0, message });
            }
        }
    }
}

/// Describes every circle of the crate in `folder`, with all that its files need of each other.
pub fn describe(tree: &Tree, folder: &str) -> Vec<String> {
    let mut text = Vec::new();
    for root in roots(tree, folder) {
        let needs = needs(tree, &root);
        for circle in circles(&edges(&needs)) {
            text.push(format!("{root}: {} files import each other", circle.files.len()));
            text.push("  the shortest way round:".to_owned());
            for (from, to) in steps(&circle.way) {
                text.push(format!("    {}", step(&needs, from, to)));
            }
            text.push("  all imports among these files:".to_owned());
            for (from, to) in needs.iter().filter(|(from, _)| circle.files.contains(from)) {
                for to in to.keys().filter(|to| circle.files.contains(to)) {
                    text.push(format!("    {}", step(&needs, from, to)));
                }
            }
        }
    }
    text
}

/// Describes circles among the folders and files of each folder: layers that need each other.
///
/// `x.rs` and the folder `x` beside it are one layer.
pub fn describe_layers(tree: &Tree, folder: &str) -> Vec<String> {
    let mut text = Vec::new();
    for root in roots(tree, folder) {
        let needs = needs(tree, &root);
        let all: BTreeSet<&String> =
            needs.values().flat_map(BTreeMap::keys).chain(needs.keys()).collect();
        let parents: BTreeSet<&str> =
            all.iter().filter_map(|file| Some(file.rsplit_once('/')?.0)).collect();
        for parent in parents {
            let mut layers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            let mut examples: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
            for (from, to) in pairs(&needs) {
                let (Some(a), Some(b)) = (layer(parent, from), layer(parent, to)) else { continue };
                if a != b {
                    layers.entry(a.to_owned()).or_default().insert(b.to_owned());
                    let steps = examples.entry((a.to_owned(), b.to_owned())).or_default();
                    steps.push(step(&needs, from, to));
                }
            }
            for circle in circles(&layers) {
                let names = circle.files.join(", ");
                text.push(format!("{parent}: layers that need each other: {names}"));
                for (from, to) in steps(&circle.way) {
                    text.push(format!("  {from} -> {to}:"));
                    let steps = &examples[&(from.clone(), to.clone())];
                    text.extend(steps.iter().map(|step| format!("    {step}")));
                }
            }
        }
    }
    text
}

fn pairs(needs: &Needs) -> impl Iterator<Item = (&String, &String)> {
    needs.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)))
}

/// The file or folder directly in `parent` that holds `file`; the file that is `parent` itself is
/// none.
fn layer<'a>(parent: &str, file: &'a str) -> Option<&'a str> {
    let name = file.strip_prefix(parent)?.strip_prefix('/')?.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!matches!(name, "mod" | "lib" | "main")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/x/Cargo.toml", "");
    const ROOT: &str = "crates/x/src/lib.rs";
    const A: &str = "crates/x/src/a.rs";
    const B: &str = "crates/x/src/b.rs";

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = [MANIFEST].into_iter().chain(files.iter().copied()).collect();
        let mut problems = Vec::new();
        check(&Tree::of(&files), &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_direction_passes() {
        let root = (ROOT, "mod a;\nmod b;\npub use a::A;\npub use b::B;\n");
        let a = (A, "use crate::B;\npub struct A(B);\n#[cfg(test)]\nmod tests {}\n");
        let b = (B, "pub struct B;\n#[cfg(test)]\nmod tests { use crate::A; }\n");
        assert_eq!(problems(&[root, a, b]), [""; 0]);
    }

    #[test]
    fn a_circle_through_a_re_export_is_found_and_named() {
        let root = (ROOT, "mod a;\nmod b;\npub use a::A;\npub use b::B;\n");
        let a = (A, "use crate::B;\npub struct A(B);\n");
        let b = (B, "\npub struct B;\nfn f(a: &super::A) {}\n");
        let found = problems(&[root, a, b]);
        let steps = [format!("{A}:1 uses B of {B}"), format!("{B}:3 uses A of {A}")];
        assert_eq!(found.len(), 1);
        assert!(steps.iter().all(|step| found[0].contains(step)), "{found:?}");
    }

    #[test]
    fn a_parent_and_a_child_that_use_each_other_are_a_circle() {
        let child = (A, "use super::LIMIT;\npub fn a() -> u8 { LIMIT }\n");
        let facade = (ROOT, "mod a;\npub use a::a;\npub const LIMIT: u8 = 1;\n");
        assert_eq!(problems(&[facade, child]), [""; 0]);
        let user = (ROOT, "mod a;\npub use a::a;\npub const LIMIT: u8 = 1;\nfn f() { a() }\n");
        assert_eq!(problems(&[user, child]).len(), 1);
    }

    #[test]
    fn all_files_of_a_circle_and_its_shortest_way_are_told() {
        let edge = |from: &str, to: &[&str]| {
            (from.to_owned(), to.iter().map(|to| (*to).to_owned()).collect())
        };
        let edges =
            BTreeMap::from([edge("a", &["b"]), edge("b", &["c", "d"]), edge("c", &["a", "b"])]);
        let found = circles(&edges);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].files, ["a", "b", "c"]);
        assert_eq!(found[0].way.len(), 2);
    }

    #[test]
    fn layers_that_need_each_other_are_found_without_a_circle_of_files() {
        let files = [
            MANIFEST,
            (ROOT, "mod low;\nmod high;\n"),
            ("crates/x/src/low.rs", "pub mod one;\npub mod two;\n"),
            ("crates/x/src/low/one.rs", "pub struct One;\n"),
            ("crates/x/src/low/two.rs", "use crate::high::High;\n"),
            ("crates/x/src/high.rs", "use crate::low::one::One;\npub struct High;\n"),
        ];
        let tree = Tree::of(&files);
        assert_eq!(describe(&tree, "crates/x"), [""; 0]);
        let text = describe_layers(&tree, "crates/x");
        assert!(text[0].contains("high, low"), "{text:?}");
    }
}
