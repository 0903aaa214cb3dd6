//! Pseudo files of mksquashfs: entries that are added to a tree, and metadata of entries that are
//! changed, one definition a line.
//!
//! Added entries become a manifest, which is one more source. Changes apply to the entries of all
//! sources. Definitions that run a command (`f`, `F`) are refused.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shale_codec::Hasher;
use shale_model::{
    Content, ContentFile, EntrySource, Metadata, OpenContent, Problem, Review, SourceEntry,
    SourceError, Timestamp,
};

/// The definitions of a pseudo file.
#[derive(Debug, Default)]
pub struct Pseudo {
    /// The added entries, as a manifest.
    manifest: String,
    /// The changes by path.
    changes: HashMap<Vec<u8>, Change>,
    /// A digest of the text.
    seed: [u8; 32],
}

/// Metadata that replace those of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Given {
    permissions: u32,
    uid: u32,
    gid: u32,
    mtime: Option<Timestamp>,
}

#[derive(Debug)]
struct Change {
    given: Given,
    is_met: AtomicBool,
}

/// What names of users and groups mean: the first argument is true for a group.
pub type Ids<'a> = &'a dyn Fn(bool, &str) -> Result<u32, String>;

impl Pseudo {
    /// Parses a pseudo file. Entries without a time get `mtime`.
    ///
    /// # Errors
    /// The number of the first line that is not valid, and what is wrong with it.
    pub fn parse(text: &[u8], mtime: i64, ids: Ids<'_>) -> Result<Self, String> {
        let mut pseudo = Self { seed: *shale_codec::hash(text).as_bytes(), ..Self::default() };
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if !line.is_empty() && line[0] != b'#' {
                pseudo
                    .add(line, mtime, ids)
                    .map_err(|what| format!("line {}: {what}", index + 1))?;
            }
        }
        Ok(pseudo)
    }

    fn add(&mut self, line: &[u8], mtime: i64, ids: Ids<'_>) -> Result<(), String> {
        let (path, rest) = path(line)?;
        let rest = String::from_utf8_lossy(rest);
        let (kind, rest) = word(&rest).ok_or("expected a type after the path")?;
        let shown = if path.is_empty() { ".".to_owned() } else { escape(&path) };
        if kind == "x" {
            let (name, value) = rest.trim().split_once('=').ok_or("expected NAME=VALUE")?;
            let mut lines = self.manifest.lines().rev();
            let last = lines.find(|line| !line.starts_with("x "));
            if !last.is_some_and(|line| line.ends_with(&format!(" {shown}"))) {
                return Err("an attribute must follow the definition of its entry".to_owned());
            }
            self.manifest +=
                &format!("x {} {}\n", escape(name.as_bytes()), escape(value.as_bytes()));
            return Ok(());
        }
        let (time, rest) = match kind.chars().next().is_some_and(|kind| kind.is_ascii_uppercase()) {
            true => {
                let (time, rest) = word(rest).ok_or("expected a time in seconds since 1970")?;
                let wrong = || format!("`{time}` is not a number of seconds since 1970");
                (Some(time.parse::<i64>().map_err(|_| wrong())?), rest)
            }
            false => (None, rest),
        };
        let kind = kind.to_ascii_lowercase();
        if kind == "f" {
            return Err(
                "`f` runs a command, which is not supported; write its output to a file of \
                        the source"
                    .to_owned(),
            );
        }
        if !["d", "m", "b", "c", "s", "i"].contains(&&kind[..]) {
            return Err(format!("`{kind}` is not a type; use d, m, b, c, s, i or x"));
        }
        let (mode, rest) = word(rest).ok_or("expected a mode")?;
        let permissions = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777);
        let permissions = permissions.ok_or_else(|| format!("`{mode}` is not an octal mode"))?;
        let (uid, rest) = word(rest).ok_or("expected an owner")?;
        let (gid, rest) = word(rest).ok_or("expected a group")?;
        let (uid, gid) = (ids(false, uid)?, ids(true, gid)?);
        let rest = rest.trim();
        if kind == "m" {
            let mtime = time.map(|sec| Timestamp { sec, nsec: 0 });
            let given = Given { permissions, uid, gid, mtime };
            self.changes.insert(path, Change { given, is_met: AtomicBool::new(false) });
            return Ok(());
        }
        let (kind, detail) = match (&kind[..], rest) {
            ("d", "") => ("d", "-".to_owned()),
            ("i", "f") => ("p", "-".to_owned()),
            ("i", "s") => ("s", "-".to_owned()),
            ("i", _) => return Err("expected f (fifo) or s (socket)".to_owned()),
            ("s", target) if !target.is_empty() => ("l", escape(target.as_bytes())),
            ("s", _) => return Err("expected the target of the link".to_owned()),
            ("d", more) => return Err(format!("`{more}` is one field too many")),
            (kind, numbers) => {
                let numbers: Option<Vec<u32>> =
                    numbers.split_whitespace().map(|number| number.parse().ok()).collect();
                let Some([major, minor]) = numbers.as_deref() else {
                    return Err("expected the major and the minor number of the device".to_owned());
                };
                (if kind == "b" { "b" } else { "c" }, format!("{major}:{minor}"))
            }
        };
        let time = time.unwrap_or(mtime);
        self.manifest += &format!("{kind} {permissions:o} {uid} {gid} {time} {detail} {shown}\n");
        Ok(())
    }

    /// The added entries, as a manifest; empty if there are none.
    pub(crate) fn manifest(&self) -> &str {
        &self.manifest
    }
}

/// Splits a line after its path, which may be in quotes, with a backslash before special bytes.
fn path(line: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let is_quoted = line[0] == b'"';
    let mut path = Vec::new();
    let mut at = usize::from(is_quoted);
    loop {
        match line.get(at) {
            Some(b'"') if is_quoted => break at += 1,
            Some(byte) if !is_quoted && byte.is_ascii_whitespace() => break,
            Some(b'\\') if at + 1 < line.len() => {
                path.push(line[at + 1]);
                at += 2;
            }
            Some(byte) => {
                path.push(*byte);
                at += 1;
            }
            None if is_quoted => return Err("the quote is not closed".to_owned()),
            None => break,
        }
    }
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    Ok((names.collect::<Vec<_>>().join(&b'/'), &line[at..]))
}

/// Splits text after its first word.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Escapes a path, target or value for a manifest.
fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b'!'..=b'~' if byte != b'\\' => out.push(byte.into()),
            byte => out += &format!("\\x{byte:02x}"),
        }
    }
    out
}

/// A source whose entries are changed as a pseudo file says.
pub(crate) struct Changed {
    pub(crate) source: Box<dyn EntrySource>,
    pub(crate) pseudo: Arc<Pseudo>,
}

impl EntrySource for Changed {
    fn seed(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        hasher.update(&self.source.seed());
        hasher.update(&self.pseudo.seed);
        *hasher.finalize().as_bytes()
    }

    fn content_bytes_max(&self) -> Option<u64> {
        self.source.content_bytes_max()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let Some(mut entry) = self.source.next_entry()? else { return Ok(None) };
        if let Some(Change { given, is_met }) = self.pseudo.changes.get(&entry.path) {
            is_met.store(true, Ordering::Relaxed);
            given.apply(&mut entry.metadata);
            if let Content::File(file) = entry.content {
                entry.content = Content::File(Box::new(ChangedFile { file, given: *given }));
            }
        }
        Ok(Some(entry))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.source.take_problems()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = self.source.take_warnings();
        let changes = self.pseudo.changes.iter();
        let unmet = changes.filter(|(_, change)| !change.is_met.load(Ordering::Relaxed));
        let mut paths: Vec<String> = unmet.map(|(path, _)| escape(path)).collect();
        paths.sort();
        warnings.extend(
            paths.iter().map(|path| format!("a pseudo file changes {path}, which does not exist")),
        );
        warnings
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        self.source.review(review)
    }
}

impl Given {
    fn apply(&self, metadata: &mut Metadata) {
        metadata.permissions = self.permissions;
        (metadata.uid, metadata.gid) = (self.uid, self.gid);
        metadata.mtime = self.mtime.unwrap_or(metadata.mtime);
    }
}

/// A content whose file has other metadata.
struct ChangedFile<F: ?Sized> {
    given: Given,
    file: Box<F>,
}

impl OpenContent for ChangedFile<dyn OpenContent> {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        Ok(Box::new(ChangedFile { file: self.file.open()?, given: self.given }))
    }
}

impl ContentFile for ChangedFile<dyn ContentFile> {
    fn metadata(&mut self) -> io::Result<Metadata> {
        let mut metadata = self.file.metadata()?;
        self.given.apply(&mut metadata);
        Ok(metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, out)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        self.file.data_after(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Pseudo, String> {
        Pseudo::parse(text.as_bytes(), 7, &|_, id| id.parse().map_err(|_| format!("no {id}")))
    }

    #[test]
    fn definitions_become_a_manifest_and_changes() {
        let text = "# devices\n/dev d 755 0 0\ndev/console c 600 0 5 5 1\n\"a b\" s 777 1 2 to here\n\
                    pipe I 99 640 0 0 f\nx\\ y x user.a=b\n";
        assert!(parse(text).unwrap_err().starts_with("line 6"), "an attribute of nothing");
        let found = parse(&(text.replace("x\\ y x", "pipe x") + "bin/su m 4755 0 0\n")).unwrap();
        assert_eq!(
            found.manifest(),
            "d 755 0 0 7 - dev\nc 600 0 5 7 5:1 dev/console\n\
             l 777 1 2 7 to\\x20here a\\x20b\np 640 0 0 99 - pipe\nx user.a b\n"
        );
        assert_eq!(found.changes[&b"bin/su"[..]].given.permissions, 0o4755);
    }

    #[test]
    fn a_wrong_line_is_named_with_what_is_wrong() {
        for (line, what) in [
            ("a f 644 0 0 date", "runs a command"),
            ("a d 999 0 0", "octal"),
            ("a d 755 me 0", "no me"),
            ("a c 600 0 0 5", "minor"),
            ("a q 600 0 0", "not a type"),
            ("\"a d 755 0 0", "quote"),
            ("a", "a type"),
            ("a D x 755 0 0", "seconds"),
        ] {
            let said = parse(&format!("\n{line}\n")).unwrap_err();
            assert!(said.starts_with("line 2: ") && said.contains(what), "{line}: {said}");
        }
    }
}
