//! What the `.gitignore` files of a directory tree leave out.
//!
//! The files are read as they lie in the tree, the deepest one that speaks of a path decides, and
//! within it the last line that does. What git keeps beside the tree (`.git/info/exclude`, settings
//! of the user) does not count: the same tree gives the same image on every machine. `.git` itself
//! is a directory like any other.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::wild::{Stars, Token, matches, parse};

const NAME: &str = ".gitignore";
/// Bytes of one file; a longer one is a mistake.
const FILE_LEN_MAX: u64 = 4 << 20;

/// The rules of one tree, read as its directories are met.
#[derive(Debug)]
pub(super) struct GitRules {
    root: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By directory, with `None` where no file speaks of what is in it. Memory is the directories.
    levels: HashMap<Vec<u8>, Option<Arc<Level>>>,
    /// The first file that could not be read.
    unread: Option<(PathBuf, io::Error)>,
}

/// One file, and the next above it.
#[derive(Debug)]
struct Level {
    directory: Vec<u8>,
    rules: Vec<Rule>,
    above: Option<Arc<Level>>,
}

/// One line.
#[derive(Debug)]
struct Rule {
    text: Vec<u8>,
    /// It begins with `!`: what it matches is kept.
    keeps: bool,
    directories_only: bool,
    /// Held against the last name alone: no slash is in it, but for one at its end.
    is_name: bool,
    tokens: Vec<Token>,
}

impl GitRules {
    /// Those of the tree at `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), known: Mutex::default() }
    }

    /// The file and line that leave out what is at `path` below the root, if any do. Costs the
    /// lines of the files above it, at worst.
    pub(super) fn ignores(&self, path: &[u8], is_directory: bool) -> Option<Vec<u8>> {
        let mut level = self.level(parent(path)?);
        while let Some(here) = level {
            let below = path.strip_prefix(&here.directory[..]).unwrap_or(path);
            let below = below.strip_prefix(b"/").unwrap_or(below);
            let found = here.rules.iter().rev().find(|rule| rule.matches(below, is_directory));
            match found {
                None => level = here.above.clone(),
                Some(rule) if rule.keeps => return None,
                Some(rule) => {
                    let mut reason = here.directory.clone();
                    if !reason.is_empty() {
                        reason.push(b'/');
                    }
                    reason.extend_from_slice(format!("{NAME}: ").as_bytes());
                    reason.extend_from_slice(&rule.text);
                    return Some(reason);
                }
            }
        }
        None
    }

    /// The first file that could not be read: what it leaves out is not known then.
    pub(super) fn take_unread(&self) -> Option<(PathBuf, io::Error)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).unread.take()
    }

    /// The innermost file that speaks of what is in a directory.
    fn level(&self, directory: &[u8]) -> Option<Arc<Level>> {
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
                    level = Some(Arc::new(Level { directory, rules: rules(&text), above }));
                }
                Err(error) if known.unread.is_none() => known.unread = Some((path, error)),
                Err(_) => {}
            }
            known.levels.insert(directory.to_vec(), level.clone());
        }
        level
    }
}

/// The directory that holds a path; the root, which is empty, is held by none.
fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => Some(&path[..at]),
        None => (!path.is_empty()).then_some(b""),
    }
}

/// The text of a file, if there is one. Links are not followed, as git does not.
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

impl Rule {
    /// A line without its end; none if it can match nothing.
    fn new(text: &[u8]) -> Option<Self> {
        let (keeps, pattern) = match text.strip_prefix(b"!") {
            Some(pattern) => (true, pattern),
            None => (false, text),
        };
        let directories_only = pattern.ends_with(b"/");
        let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
        let is_name = !pattern.contains(&b'/');
        let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
        let tokens = parse(pattern, Stars::WholeNames).ok()?;
        Some(Self { text: text.to_vec(), keeps, directories_only, is_name, tokens })
    }

    /// Whether it speaks of a path below its directory.
    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let from = match self.is_name {
            true => path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1),
            false => 0,
        };
        (is_directory || !self.directories_only) && matches(&self.tokens, &path[from..], false)
    }
}

/// The rules of a text. A line that is no pattern is passed over, as git does.
fn rules(text: &[u8]) -> Vec<Rule> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n');
    let lines = lines.map(|line| without_spaces(line.strip_suffix(b"\r").unwrap_or(line)));
    lines.filter(|line| !line.is_empty() && line[0] != b'#').filter_map(Rule::new).collect()
}

/// The line without the spaces at its end that no backslash is before.
fn without_spaces(line: &[u8]) -> &[u8] {
    let (mut at, mut end) = (0, 0);
    while at < line.len() {
        let len = if line[at] == b'\\' { 2 } else { 1 };
        if line[at] != b' ' {
            end = at + len;
        }
        at += len;
    }
    line.get(..end).unwrap_or(line)
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
    fn lines_are_read_as_git_reads_them() {
        let is_left_out = |text: &str, path: &str, is_directory| {
            let rules = rules(text.as_bytes());
            let found = rules.iter().rev().find(|r| r.matches(path.as_bytes(), is_directory));
            found.is_some_and(|rule| !rule.keeps)
        };
        // git knows no braces, and its sets have classes.
        assert!(!is_left_out("*.{c,o}\n", "a.c", false) && is_left_out("{a,b}", "{a,b}", false));
        assert!(is_left_out("[[:digit:]]*\n", "7z", false));
        assert!(!is_left_out("[[:digit:]]*\n", "d]", false));
        assert!(is_left_out("a \\  \r\n", "a  ", false) && is_left_out("a  \n", "a", false));
        assert!(is_left_out("\\#a\n\\!b\n#c\n", "#a", false) && is_left_out("\\!b", "!b", false));
        assert!(!is_left_out("#c", "#c", false) && !is_left_out("!\n/\n//\n\\\n[\n", "[", true));
        assert!(is_left_out("a/**/b\n", "a/b", false) && is_left_out("a**b\n", "x/ab", false));
        assert!(!is_left_out("/a\n", "b/a", false) && !is_left_out("a/b\n", "x/a/b", false));
        // Bytes are bytes.
        assert!(!is_left_out("?\n", "\u{e9}", false) && is_left_out("??\n", "\u{e9}", false));
        assert!(rules(b"\xff*\n")[0].matches(b"\xffx", false));
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
