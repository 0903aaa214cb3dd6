//! The files of the repository in memory, by path from its root.
//!
//! Reads what a clone holds: hidden folders other than `.ci` and `.cargo`, build products and
//! compiled Python are left out. Files that are not UTF-8 are known by path only.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// Folders that are products of work, never part of the repository.
const LEFT_OUT: [&str; 6] = ["target", "artifacts", "coverage", "out", "__pycache__", "corpus"];

/// Something to mend, with the place where it was seen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path from the root of the repository.
    pub path: String,
    /// Line, from 1; 0 if the problem is the file itself.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Paths and texts of the repository.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads every file below `root`.
    ///
    /// # Errors
    ///
    /// A folder or file cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut folders = vec![(root.to_path_buf(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = format!("{prefix}{name}");
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
                    if !hidden && !LEFT_OUT.contains(&name.as_str()) {
                        folders.push((entry.path(), format!("{path}/")));
                    }
                } else if kind.is_file() {
                    let text = String::from_utf8(fs::read(entry.path())?).ok();
                    tree.files.insert(path, text);
                }
            }
        }
        Ok(tree)
    }

    /// A tree made of `(path, text)`, for tests of the checks.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(p, t)| ((*p).to_owned(), Some((*t).to_owned()))).collect();
        Self { files }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The text at `path`, if it is there and is text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// All files that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Whether `path` is a file or a folder that holds one.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.files.contains_key(path)
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&inside))
    }
}
