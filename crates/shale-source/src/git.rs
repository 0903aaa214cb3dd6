//! What the `.gitignore` files of a directory tree exclude.
//!
//! The deepest file with a line that matches a path decides, and within it the last such line.
//! Settings that git stores outside the tree (`.git/info/exclude`, the user's configuration) do not
//! count, so that the same tree gives the same image on every machine. `.git` is a directory like
//! any other.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use shale_model::pattern::gitignore::{self, Rule};

const NAME: &str = ".gitignore";
/// Longest file; a longer one is a mistake.
const FILE_LEN_MAX: u64 = 4 << 20;

/// The rules of one tree, read as its directories are visited.
#[derive(Debug)]
pub(crate) struct GitRules {
    root: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By directory; `None` if no file applies to its entries. Memory grows with the number of
    /// directories.
    levels: HashMap<Vec<u8>, Option<Arc<IgnoreFile>>>,
    /// The first file that could not be read.
    unread: Option<(PathBuf, io::Error)>,
}

/// One file, and the next one above it.
#[derive(Debug)]
struct IgnoreFile {
    directory: Vec<u8>,
    rules: Vec<Rule>,
    above: Option<Arc<IgnoreFile>>,
}

impl GitRules {
    /// Returns the rules of the tree at `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), known: Mutex::default() }
    }

    /// Returns the file and line that exclude the entry at `path` below the root, if any do. Costs
    /// at most the lines of all files above it.
    pub(crate) fn ignores(&self, path: &[u8], is_directory: bool) -> Option<Vec<u8>> {
        let mut level = self.level(parent(path)?);
        while let Some(here) = level {
            let below = path.strip_prefix(&here.directory[..]).unwrap_or(path);
            let below = below.strip_prefix(b"/").unwrap_or(below);
            let found = here.rules.iter().rev().find(|rule| rule.matches(below, is_directory));
            match found {
                None => level = here.above.clone(),
                Some(rule) if rule.keeps() => return None,
                Some(rule) => {
                    let mut reason = here.directory.clone();
                    if !reason.is_empty() {
                        reason.push(b'/');
                    }
                    reason.extend_from_slice(format!("{NAME}: ").as_bytes());
                    reason.extend_from_slice(rule.text());
                    return Some(reason);
                }
            }
        }
        None
    }

    /// Takes the first file that could not be read, if any: what it excludes is then unknown.
    pub(crate) fn take_unread(&self) -> Option<(PathBuf, io::Error)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).unread.take()
    }

    /// Returns the innermost file that applies to the entries of a directory.
    fn level(&self, directory: &[u8]) -> Option<Arc<IgnoreFile>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unknown = Vec::new();
        let mut at = Some(directory);
        let mut level = None;
        while let Some(directory) = at {
            if let Some(found) = known.levels.get(directory) {
                level = found.clone();
                break;
            }
            unknown.push(directory);
            at = parent(directory);
        }
        for directory in unknown.into_iter().rev() {
            let path = self.root.join(OsStr::from_bytes(directory)).join(NAME);
            match read(&path) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let (directory, above) = (directory.to_vec(), level.take());
                    level = Some(Arc::new(IgnoreFile {
                        directory,
                        rules: gitignore::rules(&text),
                        above,
                    }));
                }
                Err(error) if known.unread.is_none() => known.unread = Some((path, error)),
                Err(_) => {}
            }
            known.levels.insert(directory.to_vec(), level.clone());
        }
        level
    }
}

/// Returns the directory that contains a path; `None` for the root, which is empty.
fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => Some(&path[..at]),
        None => (!path.is_empty()).then_some(b""),
    }
}

/// Returns the text of a file, if it exists. Links are not followed, as in git.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_LEN_MAX} bytes")));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_file_and_its_last_line_decide() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join(NAME), "*.o\n/top\nbuild/\n").unwrap();
        std::fs::write(folder.path().join("a/b").join(NAME), "!keep.o\n*.tmp\n").unwrap();
        let rules = GitRules::new(folder.path());
        let says = |path: &str, is_directory| {
            let reason = rules.ignores(path.as_bytes(), is_directory);
            reason.map(|reason| String::from_utf8(reason).unwrap()).unwrap_or_default()
        };
        assert_eq!(says("x.o", false), ".gitignore: *.o");
        assert_eq!(says("a/b/x.o", false), ".gitignore: *.o");
        assert_eq!(says("a/b/keep.o", false), "");
        assert_eq!(says("a/keep.o", false), ".gitignore: *.o");
        assert_eq!(says("a/b/x.tmp", false), "a/b/.gitignore: *.tmp");
        assert_eq!(says("top", false), ".gitignore: /top");
        assert_eq!(says("a/top", false), "");
        assert_eq!(says("a/build", true), ".gitignore: build/");
        assert_eq!(says("a/build", false), "");
        assert_eq!(says("", true), "");
        assert!(rules.take_unread().is_none());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, vec![b'#'; FILE_LEN_MAX as usize + 1]).unwrap();
        let rules = GitRules::new(folder.path());
        assert!(rules.ignores(b"x", false).is_none());
        assert_eq!(rules.take_unread().unwrap().0, path);
    }
}
