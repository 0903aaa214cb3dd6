//! Project chores: `cargo xtask tidy` checks what the compiler cannot.
//!
//! Promises: tidy reads the tree and changes nothing, reports every problem with file and line,
//! and ends with status 1 if there is one. It does not format, lint or run tests.

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
    problems.sort();
    problems
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        eprintln!("usage: cargo xtask tidy");
        return ExitCode::from(2);
    }
    // The manifest lies in xtask/, one level below the root of the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {}: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    let problems = tidy(&tree);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("tidy: {} files, nothing to mend", tree.len());
            ExitCode::SUCCESS
        }
        count => {
            println!("tidy: {count} problems in {} files", tree.len());
            ExitCode::FAILURE
        }
    }
}
