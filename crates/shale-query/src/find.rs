//! Tests on entries, written and combined as find(1) does.
//!
//! [`Expression::parse`] reads words such as `-name *.log -size +1M -mtime -7`; [`find`] walks a
//! tree and calls back for each entry that matches. Regular expressions have the syntax of the
//! `regex` crate and match the whole path, as with find(1).

use std::collections::HashMap;

use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};
use shale_read::{Attributes, InodeKind, Timestamp, Tree};

use crate::error::Error;

const DAY_SECONDS: i64 = 86_400;
/// Nesting of parentheses and `!`, so that parsing is not deep.
const DEPTH_MAX: usize = 256;

/// What the words of an expression may refer to outside of the image.
pub trait Names {
    /// The user ID of a name.
    fn user(&self, name: &str) -> Option<u32>;
    /// The group ID of a name.
    fn group(&self, name: &str) -> Option<u32>;
    /// The modification time of a file of the system, for `-newer`.
    fn mtime(&self, path: &str) -> Option<Timestamp>;
    /// The present time, for `-mtime` and `-mmin`.
    fn now(&self) -> Timestamp;
}

/// Which entries of a tree are wanted.
#[derive(Debug)]
pub struct Expression {
    root: Node,
    /// Entries less deep are not tested.
    depth_min: usize,
    /// Directories at this depth are not entered.
    depth_max: usize,
}

#[derive(Debug)]
enum Node {
    True,
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Prune,
    Name(GlobMatcher),
    Path(GlobMatcher),
    Regex(Regex),
    Type(Vec<InodeKind>),
    Size(Comparison, u64),
    Links(Comparison),
    Inode(Comparison),
    Uid(Comparison),
    Gid(Comparison),
    /// Age in units of this many seconds.
    Age(Comparison, i64, Timestamp),
    Newer(Timestamp),
    Permissions(PermissionTest, u32),
    Empty,
}

/// `+N`, `-N` or `N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    More(u64),
    Less(u64),
    Exactly(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionTest {
    Exactly,
    AllOf,
    AnyOf,
}

impl Comparison {
    fn holds(self, value: u64) -> bool {
        match self {
            Self::More(bound) => value > bound,
            Self::Less(bound) => value < bound,
            Self::Exactly(bound) => value == bound,
        }
    }
}

/// An entry that is tested.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Path from the root of the image, without a leading slash.
    pub path: &'a [u8],
    /// Attributes of its inode.
    pub attributes: &'a Attributes,
}

impl Expression {
    /// Reads an expression. Without words, every entry matches.
    ///
    /// # Errors
    /// [`Error::Expression`]: an unknown word, a missing or wrong value, an open parenthesis.
    pub fn parse(words: &[String], names: &dyn Names) -> Result<Self, Error> {
        let mut parser =
            Parser { words, at: 0, names, depth: 0, depth_min: 0, depth_max: usize::MAX };
        let root = if words.is_empty() { Node::True } else { parser.any()? };
        match parser.words.get(parser.at) {
            None => Ok(Self { root, depth_min: parser.depth_min, depth_max: parser.depth_max }),
            Some(word) => Err(fail(word, "this closes no parenthesis, or joins nothing")),
        }
    }

    /// Tests an entry. `prune` is set if its directory is not to be entered.
    pub fn matches(&self, candidate: Candidate<'_>, prune: &mut bool) -> bool {
        self.root.matches(candidate, prune)
    }
}

impl Node {
    fn matches(&self, entry: Candidate<'_>, prune: &mut bool) -> bool {
        let at = entry.attributes;
        match self {
            Self::True => true,
            Self::Not(node) => !node.matches(entry, prune),
            Self::All(nodes) => nodes.iter().all(|node| node.matches(entry, prune)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(entry, prune)),
            Self::Prune => {
                *prune = true;
                true
            }
            Self::Name(glob) => {
                let name = entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                glob.is_match(os(name))
            }
            Self::Path(glob) => glob.is_match(os(entry.path)),
            Self::Regex(regex) => regex.is_match(entry.path),
            Self::Type(kinds) => kinds.contains(&at.kind),
            Self::Size(comparison, unit) => comparison.holds(at.size.div_ceil(*unit)),
            Self::Links(comparison) => comparison.holds(at.link_count),
            Self::Inode(comparison) => comparison.holds(at.inode),
            Self::Uid(comparison) => comparison.holds(at.uid.into()),
            Self::Gid(comparison) => comparison.holds(at.gid.into()),
            Self::Age(comparison, unit, now) => {
                let seconds = now.sec.saturating_sub(at.mtime.sec);
                let borrowed = i64::from(now.nsec < at.mtime.nsec);
                let age = seconds.saturating_sub(borrowed).div_euclid(*unit);
                match u64::try_from(age) {
                    Ok(age) => comparison.holds(age),
                    // A time in the future is less than any age.
                    Err(_) => matches!(comparison, Comparison::Less(_)),
                }
            }
            Self::Newer(time) => (at.mtime.sec, at.mtime.nsec) > (time.sec, time.nsec),
            Self::Permissions(test, bits) => match test {
                PermissionTest::Exactly => at.permissions == *bits,
                PermissionTest::AllOf => at.permissions & bits == *bits,
                PermissionTest::AnyOf => *bits == 0 || at.permissions & bits != 0,
            },
            Self::Empty => {
                matches!(at.kind, InodeKind::File | InodeKind::Directory) && at.size == 0
            }
        }
    }
}

fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

struct Parser<'w> {
    words: &'w [String],
    at: usize,
    names: &'w dyn Names,
    depth: usize,
    depth_min: usize,
    depth_max: usize,
}

fn fail(word: &str, problem: impl Into<String>) -> Error {
    Error::Expression { word: word.to_owned(), problem: problem.into() }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn any(&mut self) -> Result<Node, Error> {
        let mut nodes = vec![self.all()?];
        while matches!(self.peek(), Some("-o" | "-or")) {
            self.at += 1;
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node, Error> {
        let mut nodes = vec![self.one()?];
        loop {
            match self.peek() {
                Some("-a" | "-and") => {
                    self.at += 1;
                    nodes.push(self.one()?);
                }
                None | Some(")" | "-o" | "-or") => break,
                Some(_) => nodes.push(self.one()?),
            }
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Result<Node, Error> {
        let Some(word) = self.words.get(self.at) else {
            return Err(fail("the end", "a test is missing here"));
        };
        self.at += 1;
        match word.as_str() {
            "!" | "-not" => {
                self.deeper(word)?;
                let node = self.one()?;
                self.depth -= 1;
                Ok(Node::Not(Box::new(node)))
            }
            "(" => {
                self.deeper(word)?;
                let node = self.any()?;
                self.depth -= 1;
                if self.peek() != Some(")") {
                    return Err(fail(word, "this parenthesis is not closed"));
                }
                self.at += 1;
                Ok(node)
            }
            word => self.test(word),
        }
    }

    fn deeper(&mut self, word: &str) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(fail(word, "nested too deep")) } else { Ok(()) }
    }

    fn value(&mut self, word: &str) -> Result<String, Error> {
        let value = self.words.get(self.at).ok_or_else(|| fail(word, "its value is missing"))?;
        self.at += 1;
        Ok(value.clone())
    }

    fn test(&mut self, word: &str) -> Result<Node, Error> {
        Ok(match word {
            "-true" => Node::True,
            "-empty" => Node::Empty,
            "-prune" => Node::Prune,
            "-name" | "-iname" => Node::Name(glob(word, &self.value(word)?, word == "-iname")?),
            "-path" | "-wholename" | "-ipath" => {
                Node::Path(glob(word, &self.value(word)?, word == "-ipath")?)
            }
            "-regex" | "-iregex" => {
                let pattern = self.value(word)?;
                let regex = RegexBuilder::new(&format!("^(?:{pattern})$"))
                    .case_insensitive(word == "-iregex")
                    .unicode(false)
                    .build();
                Node::Regex(regex.map_err(|error| fail(word, error.to_string()))?)
            }
            "-type" => Node::Type(kinds(word, &self.value(word)?)?),
            "-size" => self.size(word)?,
            "-links" => Node::Links(number(word, &self.value(word)?)?),
            "-inum" => Node::Inode(number(word, &self.value(word)?)?),
            "-uid" => Node::Uid(number(word, &self.value(word)?)?),
            "-gid" => Node::Gid(number(word, &self.value(word)?)?),
            "-user" => {
                let name = self.value(word)?;
                let id = self.names.user(&name).or_else(|| name.parse().ok());
                Node::Uid(Comparison::Exactly(
                    id.ok_or_else(|| fail(word, format!("no user is named {name}")))?.into(),
                ))
            }
            "-group" => {
                let name = self.value(word)?;
                let id = self.names.group(&name).or_else(|| name.parse().ok());
                Node::Gid(Comparison::Exactly(
                    id.ok_or_else(|| fail(word, format!("no group is named {name}")))?.into(),
                ))
            }
            "-mtime" => Node::Age(number(word, &self.value(word)?)?, DAY_SECONDS, self.names.now()),
            "-mmin" => Node::Age(number(word, &self.value(word)?)?, 60, self.names.now()),
            "-newer" => {
                let path = self.value(word)?;
                let time = self.names.mtime(&path);
                Node::Newer(time.ok_or_else(|| fail(word, format!("cannot read {path}")))?)
            }
            "-perm" => permissions(word, &self.value(word)?)?,
            "-mindepth" => {
                self.depth_min = depth(word, &self.value(word)?)?;
                Node::True
            }
            "-maxdepth" => {
                self.depth_max = depth(word, &self.value(word)?)?;
                Node::True
            }
            _ => return Err(fail(word, "unknown test")),
        })
    }

    fn size(&mut self, word: &str) -> Result<Node, Error> {
        let value = self.value(word)?;
        let (digits, unit) = match value.as_bytes().last() {
            Some(b'c') => (&value[..value.len() - 1], 1),
            Some(b'k') => (&value[..value.len() - 1], 1 << 10),
            Some(b'M') => (&value[..value.len() - 1], 1 << 20),
            Some(b'G') => (&value[..value.len() - 1], 1 << 30),
            Some(b'b') => (&value[..value.len() - 1], 512),
            _ => (&value[..], 512),
        };
        Ok(Node::Size(number(word, digits)?, unit))
    }
}

fn glob(word: &str, pattern: &str, any_case: bool) -> Result<GlobMatcher, Error> {
    // As find(1) matches: a wildcard may stand for a slash.
    let glob = GlobBuilder::new(pattern)
        .case_insensitive(any_case)
        .literal_separator(false)
        .backslash_escape(true)
        .build();
    Ok(glob.map_err(|error| fail(word, error.to_string()))?.compile_matcher())
}

fn kinds(word: &str, letters: &str) -> Result<Vec<InodeKind>, Error> {
    let kind = |letter: &str| {
        Ok(match letter {
            "f" => InodeKind::File,
            "d" => InodeKind::Directory,
            "l" => InodeKind::Symlink,
            "b" => InodeKind::BlockDevice,
            "c" => InodeKind::CharDevice,
            "p" => InodeKind::Fifo,
            "s" => InodeKind::Socket,
            _ => return Err(fail(word, format!("`{letter}` is not one of f, d, l, b, c, p, s"))),
        })
    };
    letters.split(',').map(kind).collect()
}

fn number(word: &str, text: &str) -> Result<Comparison, Error> {
    let (digits, make): (&str, fn(u64) -> Comparison) = match text.as_bytes().first() {
        Some(b'+') => (&text[1..], Comparison::More),
        Some(b'-') => (&text[1..], Comparison::Less),
        _ => (text, Comparison::Exactly),
    };
    match digits.parse() {
        Ok(value) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(make(value)),
        _ => Err(fail(word, format!("`{text}` is not a number, +NUMBER or -NUMBER"))),
    }
}

fn depth(word: &str, text: &str) -> Result<usize, Error> {
    text.parse().map_err(|_| fail(word, format!("`{text}` is not a number")))
}

fn permissions(word: &str, text: &str) -> Result<Node, Error> {
    let (test, mode) = match text.as_bytes().first() {
        Some(b'-') => (PermissionTest::AllOf, &text[1..]),
        Some(b'/') => (PermissionTest::AnyOf, &text[1..]),
        _ => (PermissionTest::Exactly, text),
    };
    if let Ok(bits) = u32::from_str_radix(mode, 8)
        && bits <= 0o7777
    {
        return Ok(Node::Permissions(test, bits));
    }
    match symbolic(mode) {
        Some(bits) => Ok(Node::Permissions(test, bits)),
        None => Err(fail(word, format!("`{text}` is not a mode; use 644, -u=w or /222"))),
    }
}

/// `u=rw,go+r` over no permissions at all.
fn symbolic(mode: &str) -> Option<u32> {
    let mut bits = 0;
    for clause in mode.split(',') {
        let sign = clause.find(['+', '-', '='])?;
        let (who, what) = (&clause[..sign], &clause[sign + 1..]);
        let who = if who.is_empty() || who.contains('a') { "ugo" } else { who };
        for letter in who.chars() {
            let (shift, set_id) = match letter {
                'u' => (6, 0o4000),
                'g' => (3, 0o2000),
                'o' => (0, 0),
                _ => return None,
            };
            let mut value = 0;
            for right in what.chars() {
                value |= match right {
                    'r' => 4 << shift,
                    'w' => 2 << shift,
                    'x' => 1 << shift,
                    's' => set_id,
                    't' => 0o1000,
                    _ => return None,
                };
            }
            match clause.as_bytes()[sign] {
                b'+' => bits |= value,
                b'-' => bits &= !value,
                _ => bits = bits & !(7 << shift) | value,
            }
        }
    }
    Some(bits)
}

/// Walks over everything below `inode`, whose path is `prefix`, and calls `found` with each entry
/// that matches. Stops when `found` returns an error.
///
/// # Errors
/// A directory or inode cannot be read; or the error of `found`.
pub fn find<E: From<Error>>(
    tree: &Tree,
    inode: u64,
    prefix: &[u8],
    expression: &Expression,
    mut found: impl FnMut(Candidate<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = tree.walk(inode).map_err(Error::from)?;
    let mut path = Vec::new();
    loop {
        let Some(step) = walk.advance().map_err(Error::from)? else { return Ok(()) };
        path.clear();
        path.extend_from_slice(prefix);
        if !prefix.is_empty() && !step.path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(step.path);
        let (depth, attributes) = (step.depth, step.attributes);
        let mut prune = depth >= expression.depth_max;
        if depth >= expression.depth_min {
            let candidate = Candidate { path: &path, attributes: &attributes };
            if expression.matches(candidate, &mut prune) {
                found(candidate)?;
            }
        }
        if prune {
            walk.skip_directory();
        }
    }
}

/// Versions of one path over the snapshots of an image, in the order of the snapshots: runs of
/// snapshots in which nothing of the entry changed share one version.
#[derive(Debug, Default)]
pub struct Versions {
    /// For each path, its versions with the snapshots that have it.
    by_path: HashMap<Vec<u8>, Vec<(Attributes, Vec<usize>)>>,
    order: Vec<Vec<u8>>,
}

impl Versions {
    /// Adds an entry of a snapshot. Snapshots come in ascending order.
    pub fn add(&mut self, snapshot: usize, candidate: Candidate<'_>) {
        let new = *candidate.attributes;
        if !self.by_path.contains_key(candidate.path) {
            self.order.push(candidate.path.to_vec());
        }
        let versions = self.by_path.entry(candidate.path.to_vec()).or_default();
        match versions.last_mut() {
            Some((last, snapshots)) if same_version(last, &new) => snapshots.push(snapshot),
            _ => versions.push((new, vec![snapshot])),
        }
    }

    /// Calls `visit` with each path, one of its versions, and the snapshots that have this version.
    ///
    /// # Errors
    /// The error of `visit`.
    pub fn each<E>(
        &self,
        mut visit: impl FnMut(&[u8], &Attributes, &[usize]) -> Result<(), E>,
    ) -> Result<(), E> {
        for path in &self.order {
            for (attributes, snapshots) in &self.by_path[path] {
                visit(path, attributes, snapshots)?;
            }
        }
        Ok(())
    }
}

/// Inode numbers and rows of tables are those of a snapshot; contents are those of the image.
fn same_version(one: &Attributes, other: &Attributes) -> bool {
    let facts = |at: &Attributes| {
        let body = if at.kind == InodeKind::File { at.payload } else { 0 };
        let time = (at.mtime.sec, at.mtime.nsec);
        (at.mode(), at.uid, at.gid, at.size, time, body)
    };
    facts(one) == facts(other) && (one.kind != InodeKind::Directory || one.size == other.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Names for Fixed {
        fn user(&self, name: &str) -> Option<u32> {
            (name == "ada").then_some(1000)
        }
        fn group(&self, name: &str) -> Option<u32> {
            (name == "staff").then_some(50)
        }
        fn mtime(&self, path: &str) -> Option<Timestamp> {
            (path == "stamp").then_some(Timestamp { sec: 5_000, nsec: 0 })
        }
        fn now(&self) -> Timestamp {
            Timestamp { sec: 10 * DAY_SECONDS, nsec: 0 }
        }
    }

    fn entry(kind: InodeKind, size: u64, permissions: u32, mtime: i64) -> Attributes {
        let time = |seconds| Timestamp { sec: seconds, nsec: 0 };
        Attributes {
            inode: 7,
            kind,
            permissions,
            uid: 1000,
            gid: 50,
            link_count: 2,
            size,
            mtime: time(mtime),
            atime: time(0),
            ctime: time(0),
            btime: time(0),
            xattr_set: 0,
            payload: 3,
        }
    }

    fn holds(words: &str, path: &str, attributes: &Attributes) -> bool {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let expression = Expression::parse(&words, &Fixed).expect("a valid expression");
        expression.matches(Candidate { path: path.as_bytes(), attributes }, &mut false)
    }

    #[test]
    fn tests_hold_as_those_of_find_do() {
        let log = entry(InodeKind::File, 1 << 20, 0o640, 8 * DAY_SECONDS);
        for (words, wanted) in [
            ("", true),
            ("-name *.log", true),
            ("-name var/*", false),
            ("-path var/*.log", true),
            ("-iname *.LOG", true),
            ("-name *.LOG", false),
            ("-regex var/.*\\.log", true),
            ("-regex app", false),
            ("-type f", true),
            ("-type d,l", false),
            ("-size 1M", true),
            ("-size +1M", false),
            ("-size -1025k", true),
            ("-size 2048", true),
            ("-links +1", true),
            ("-user ada -group staff", true),
            ("-user 1000", true),
            ("-uid +999", true),
            ("-mtime 2", true),
            ("-mtime +2", false),
            ("-mtime -3", true),
            ("-newer stamp", true),
            ("-perm 640", true),
            ("-perm -600", true),
            ("-perm /222", true),
            ("-perm -u=rw,g=r", true),
            ("-perm 644", false),
            ("-empty", false),
            ("! -empty", true),
            ("-type d -o -name app*", true),
            ("-type d -o -name x*", false),
            ("( -type d -o -type f ) -name app*", true),
            ("-not ( -type f -a -size +0 )", false),
        ] {
            assert_eq!(holds(words, "var/app.log", &log), wanted, "{words}");
        }
        assert!(holds("-empty -type d", "d", &entry(InodeKind::Directory, 0, 0o755, 0)));
    }

    #[test]
    fn wrong_expressions_say_which_word_is_wrong() {
        for (words, word) in [
            ("-size many", "-size"),
            ("-type q", "-type"),
            ("-name", "-name"),
            ("-user nobody-here", "-user"),
            ("( -type f", "("),
            ("-type f )", ")"),
            ("-newer missing", "-newer"),
            ("-perm 99", "-perm"),
            ("-exec rm", "-exec"),
            ("-regex (", "-regex"),
            ("-type f -o", "the end"),
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            match Expression::parse(&words, &Fixed) {
                Err(Error::Expression { word: found, .. }) => assert_eq!(found, word, "{words:?}"),
                other => panic!("{words:?} gives {other:?}"),
            }
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let words = vec!["!".to_owned(); 100_000];
        assert!(Expression::parse(&words, &Fixed).is_err());
    }
}
