//! Project chores: `cargo xtask tidy` checks what the compiler cannot, and `cargo xtask circles`
//! shows which files of a crate import each other.
//!
//! Both read the tree and change nothing, report every problem with file and line, and end with
//! status 1 if there is one. They do not format, lint or run tests.

/// The files of the repository, read once.
mod tree;
/// What a line and a file may look like.
mod text;
/// Just enough Rust: structs, enums, schemas and constants of the format crates.
mod source;
/// Constant expressions of Rust and numbers of the specification.
mod expression;
/// Tables of a markdown document and the markers before them.
mod markdown;
/// `docs/format.md` against the crates.
mod specification;
/// Which crate may see which.
mod rooms;
/// Paths that documents and comments name.
mod paths;
/// Golden images and the tests that read them.
mod golden;
/// Rust source as tokens.
mod tokens;
/// The modules of a crate: what each defines, imports and names.
mod modules;
/// Files of a crate that import each other.
mod circles;
/// Files that no module declares.
mod orphans;
/// How doc comments open, and what they say about errors.
mod doc_comments;

use std::path::Path;
use std::process::ExitCode;
use tree::{Problem, Tree};

/// Runs every check over `tree`; an empty answer means tidy.
fn tidy(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    text::check(tree, &mut problems);
    specification::check(tree, &mut problems);
    rooms::check(tree, &mut problems);
    paths::check(tree, &mut problems);
    golden::check(tree, &mut problems);
    circles::check(tree, &mut problems);
    orphans::check(tree, &mut problems);
    doc_comments::check(tree, &mut problems);
    problems.sort();
    problems
}

/// Prints every problem and a summary.
fn print_problems(tree: &Tree) -> ExitCode {
    let problems = tidy(tree);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("tidy: {} files, nothing to mend", tree.len());
            ExitCode::SUCCESS
        }
        count => {
            let problems = if count == 1 { "problem" } else { "problems" };
            println!("tidy: {count} {problems} in {} files", tree.len());
            ExitCode::FAILURE
        }
    }
}

/// Prints every circle of imports of the crates that `wanted` names, or of all.
fn print_circles(tree: &Tree, wanted: &[&str], layers: bool) -> ExitCode {
    let named = |folder: &String| {
        wanted.is_empty()
            || wanted.iter().any(|w| *w == folder || folder.ends_with(&format!("/{w}")))
    };
    let folders: Vec<String> = circles::folders(tree).into_iter().filter(named).collect();
    if folders.is_empty() {
        eprintln!("circles: there is no crate {}", wanted.join(", "));
        return ExitCode::from(2);
    }
    let mut found = false;
    for folder in folders {
        let mut text = circles::describe(tree, &folder);
        if layers {
            text.extend(circles::describe_layers(tree, &folder));
        }
        found |= !text.is_empty();
        for line in text {
            println!("{line}");
        }
    }
    if found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The manifest lies in xtask/, one level below the root of the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("xtask: {}: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    match arguments[..] {
        ["tidy"] => print_problems(&tree),
        ["circles", "--layers", ref crates @ ..] => print_circles(&tree, crates, true),
        ["circles", ref crates @ ..] => print_circles(&tree, crates, false),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            eprintln!("       cargo xtask circles [--layers] [CRATE...]");
            ExitCode::from(2)
        }
    }
}
