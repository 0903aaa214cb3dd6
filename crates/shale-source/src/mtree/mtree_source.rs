//! An mtree list as a source: a tree that is described line by line, with contents in files of this
//! machine.
//!
//! Both forms are read: lines with whole paths, as `mtree -C`, bsdtar and the METALOG of an
//! installation without root have them, and lines with names that depend on the directory before
//! them. What a line does not say is taken from the file of that name below the folder of the list.
//! Lines are read one at a time. Memory is one line, and the paths and metadata of all directories,
//! since lists may give one again.
//!
//! The first wrong line ends the build; the error has its number. A file whose size or SHA-256 is
//! not that of the list is an error, too.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_foreign::Selection;
use shale_format::InodeKind;
use shale_host::owners::Owners;
use shale_model::{
    Content, EntrySource, LinkId, Metadata, Review, Select, SourceEntry, SourceError, Xattr,
};

use crate::directory::list::metadata_of;
use crate::listed::{FileOf, Given, LineNumbers, check_path, show, wrong_line};
use crate::mtree::keywords::{Keywords, Who, plain};

/// How most lists begin.
const SIGNATURE: &[u8] = b"#mtree";
/// Longest line, with the lines that continue it: a path, a target and a file name fit even if
/// every byte is escaped.
const LINE_LEN_MAX: usize = 128 << 10;
/// Most unknown keywords that are kept for the warning.
const UNKNOWN_MAX: usize = 8;

/// Returns whether a file that begins with `head` is a list: it has the signature, or its first
/// line but for comments sets keywords, as in what `mtree -c` writes.
pub(crate) fn is_list(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    let is_set = |line: &[u8]| line.starts_with(b"/set ") && line.contains(&b'=');
    head.starts_with(SIGNATURE) || first.is_some_and(is_set)
}

/// A list that is being read.
pub(crate) struct MtreeSource {
    input: Box<dyn BufRead + Send>,
    /// For messages.
    name: Vec<u8>,
    /// Paths of files are relative to this directory.
    base: PathBuf,
    seed: [u8; 32],
    selection: Selection,
    owners: Owners,
    /// The line at hand, and its number.
    line: Vec<u8>,
    line_number: u64,
    /// What `/set` said.
    defaults: Keywords,
    /// The directory of names that are no paths.
    directory: Vec<u8>,
    /// A `..` left the root, as some programs end a list.
    has_left_root: bool,
    /// Directories that were yielded.
    directories: HashMap<Vec<u8>, Metadata>,
    lines: LineNumbers,
    /// Unknown keywords, with the first line of each.
    unknown: BTreeMap<Vec<u8>, u64>,
    flagged_count: u64,
    no_xattrs: Arc<[Xattr]>,
}

impl MtreeSource {
    /// Reads a list, called `name` in messages. Paths of files in it are relative to `base`.
    pub(crate) fn new(
        input: impl Read + Send + 'static,
        name: &[u8],
        base: PathBuf,
        seed: [u8; 32],
        select: Option<Arc<dyn Select>>,
    ) -> Self {
        Self {
            input: Box::new(BufReader::new(input)),
            name: name.to_vec(),
            base,
            seed,
            selection: Selection::new(select),
            owners: Owners::of_machine(),
            line: Vec::new(),
            line_number: 0,
            defaults: Keywords::default(),
            directory: Vec::new(),
            has_left_root: false,
            directories: HashMap::new(),
            lines: LineNumbers::default(),
            unknown: BTreeMap::new(),
            flagged_count: 0,
            no_xattrs: Arc::new([]),
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> SourceError {
        wrong_line(&self.name, self.line_number, what)
    }

    /// Reads the next line, with those that continue it. Returns false at the end.
    fn next_line(&mut self) -> Result<bool, SourceError> {
        self.line.clear();
        loop {
            let left = (LINE_LEN_MAX + 1 - self.line.len()) as u64;
            let read = (&mut self.input).take(left).read_until(b'\n', &mut self.line);
            let read =
                read.map_err(|error| SourceError::Unreadable { path: self.name.clone(), error })?;
            if read == 0 {
                return Ok(!self.line.is_empty());
            }
            self.line_number += 1;
            if self.line.len() > LINE_LEN_MAX {
                return Err(self.wrong(format!("expected at most {LINE_LEN_MAX} bytes in a line")));
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            // Two backslashes are an escaped one.
            let slashes = self.line.iter().rev().take_while(|byte| **byte == b'\\').count();
            let is_comment = self.line.trim_ascii_start().starts_with(b"#");
            if slashes % 2 == 0 || is_comment {
                return Ok(true);
            }
            self.line.pop();
            self.line.push(b' ');
        }
    }

    /// Applies words to `keywords`, and notes those that are not known.
    fn apply<'w>(
        &mut self,
        keywords: &mut Keywords,
        words: impl Iterator<Item = &'w [u8]>,
    ) -> Result<(), SourceError> {
        for word in words {
            if !keywords.set(word).map_err(|what| self.wrong(what))? {
                let end = memchr::memchr(b'=', word).unwrap_or(word.len());
                if self.unknown.len() < UNKNOWN_MAX && !self.unknown.contains_key(&word[..end]) {
                    self.unknown.insert(word[..end].to_vec(), self.line_number);
                }
            }
        }
        Ok(())
    }

    /// Parses the path of a line; the second value is true for a mere name.
    fn path(&self, word: &[u8]) -> Result<(Vec<u8>, bool), String> {
        let path = plain(word)?;
        if path == b"." {
            return Ok((Vec::new(), true));
        }
        let is_name = !path.contains(&b'/');
        let path = match is_name {
            true if self.directory.is_empty() => path,
            true => [&self.directory[..], b"/", &path].concat(),
            false => path.strip_prefix(b"./").unwrap_or(&path).to_vec(),
        };
        let path = path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path);
        check_path(&path)?;
        Ok((path, is_name))
    }

    /// Returns the number of an owner or a group.
    fn id_of(&self, who: &Who, is_group: bool) -> Result<u32, String> {
        let name = match who {
            Who::Id(id) => return Ok(*id),
            Who::Name(name) => name,
        };
        let (found, what, keyword) = match is_group {
            false => (self.owners.user_id(name), "user", "uid"),
            true => (self.owners.group_id(name), "group", "gid"),
        };
        // The group of root has another name on the BSDs, where such lists come from.
        let found = found.or((is_group && name == "wheel").then_some(0));
        found.ok_or_else(|| {
            let name = show(name.as_bytes());
            format!("expected {keyword}=, as this machine has no {what} {name}")
        })
    }

    /// Makes the entry of a line; `None` if its file is optional and does not exist.
    fn entry(&self, path: Vec<u8>, keywords: &Keywords) -> Result<Option<SourceEntry>, String> {
        let on_disk = OnDisk::new(&self.base, keywords.contents.as_deref().unwrap_or(&path));
        if keywords.is_optional && on_disk.found().is_err() {
            return Ok(None);
        }
        let kind = on_disk.or(keywords.kind, "type", |found| found.kind)?;
        if path.is_empty() && kind != InodeKind::Directory {
            return Err("expected type dir for the root `.`".to_owned());
        }
        let owner = keywords.owner.as_ref().map(|who| self.id_of(who, false)).transpose()?;
        let group = keywords.group.as_ref().map(|who| self.id_of(who, true)).transpose()?;
        let mtime = on_disk.or(keywords.mtime, "time", |found| found.mtime)?;
        let given = Given {
            permissions: on_disk.or(keywords.permissions, "mode", |found| found.permissions)?,
            uid: on_disk.or(owner, "uid", |found| found.uid)?,
            gid: on_disk.or(group, "gid", |found| found.gid)?,
            mtime,
        };
        let mut metadata = given.metadata(kind);
        let (mut target, mut content) = (Vec::new(), Content::None);
        match kind {
            InodeKind::File => content = on_disk.content(keywords, &mut metadata)?,
            InodeKind::Symlink => {
                target = keywords.target.clone().map_or_else(|| on_disk.target(), Ok)?;
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                metadata.device = on_disk.or(keywords.device, "device", |found| found.device)?;
            }
            InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => {}
        }
        let xattrs = Arc::clone(&self.no_xattrs);
        let link = keywords
            .inode
            .filter(|_| kind != InodeKind::Directory && keywords.name_count.unwrap_or(1) > 1)
            .map(|inode| LinkId { device: keywords.inode_device.unwrap_or(0), inode });
        Ok(Some(SourceEntry { path, metadata, xattrs, link, target, content }))
    }

    /// Parses the current line. Returns `None` if it is not an entry, or if the entry is left out.
    fn parse(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let line = std::mem::take(&mut self.line);
        let words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        let mut words = words.filter(|word| !word.is_empty());
        let Some(first) = words.next().filter(|first| !first.starts_with(b"#")) else {
            return Ok(None);
        };
        match first {
            b"/set" => {
                let mut defaults = std::mem::take(&mut self.defaults);
                self.apply(&mut defaults, words)?;
                self.defaults = defaults;
                return Ok(None);
            }
            b"/unset" => {
                words.for_each(|word| self.defaults.unset(word));
                return Ok(None);
            }
            b".." => {
                match parent_len(&self.directory) {
                    Some(parent_len) => self.directory.truncate(parent_len),
                    None if self.has_left_root => {
                        return Err(self.wrong("expected a name, found `..` above the root"));
                    }
                    None => self.has_left_root = true,
                }
                return Ok(None);
            }
            _ => {}
        }
        let (path, is_name) = self.path(first).map_err(|what| self.wrong(what))?;
        let mut keywords = self.defaults.clone();
        self.apply(&mut keywords, words)?;
        let Some(entry) = self.entry(path, &keywords).map_err(|what| self.wrong(what))? else {
            return Ok(None);
        };
        let SourceEntry { path, metadata, .. } = &entry;
        if metadata.kind == InodeKind::Directory {
            if is_name {
                self.directory.clone_from(path);
            }
            // An installation lists a directory for each package that needs it.
            if self.directories.get(path) == Some(metadata) {
                return Ok(None);
            }
            self.directories.insert(path.clone(), *metadata);
        }
        if !self.selection.takes(path, metadata.kind) {
            return Ok(None);
        }
        self.flagged_count += u64::from(keywords.has_flags);
        self.lines.add(self.line_number);
        Ok(Some(entry))
    }
}

/// Length of the path of the parent; `None` for the root.
fn parent_len(path: &[u8]) -> Option<usize> {
    (!path.is_empty()).then(|| path.iter().rposition(|&byte| byte == b'/').unwrap_or(0))
}

/// The file of an entry, which says what the line does not. It is looked at only for that.
struct OnDisk<'e> {
    base: &'e Path,
    file: &'e [u8],
    found: OnceCell<io::Result<Metadata>>,
}

impl<'e> OnDisk<'e> {
    fn new(base: &'e Path, file: &'e [u8]) -> Self {
        Self { base, file, found: OnceCell::new() }
    }

    fn path(&self) -> PathBuf {
        self.base.join(OsStr::from_bytes(self.file))
    }

    fn found(&self) -> &io::Result<Metadata> {
        self.found.get_or_init(|| metadata_of(&self.path()))
    }

    /// Returns what the line gives, or else what the file has.
    fn or<T>(
        &self,
        given: Option<T>,
        keyword: &str,
        of_file: impl FnOnce(&Metadata) -> T,
    ) -> Result<T, String> {
        match given {
            Some(given) => Ok(given),
            None => {
                let found = self.found().as_ref();
                found.map(of_file).map_err(|error| self.missing(keyword, error))
            }
        }
    }

    fn target(&self) -> Result<Vec<u8>, String> {
        let target = std::fs::read_link(self.path());
        let target = target.map_err(|error| self.missing("link", &error))?;
        Ok(target.into_os_string().into_encoded_bytes())
    }

    /// Finds the content, compares its length with the list, and fills in the length.
    fn content(&self, keywords: &Keywords, metadata: &mut Metadata) -> Result<Content, String> {
        // An empty file need not exist.
        if keywords.len == Some(0) && self.found().is_err() {
            return Ok(Content::None);
        }
        let file = FileOf::find(self.base, self.file, metadata)
            .map_err(|(file, error)| format!("{}: {error}", file.display()))?;
        let found = metadata.len;
        if let Some(expected) = keywords.len.filter(|&expected| expected != found) {
            let file = self.path();
            return Err(format!("expected {expected} bytes in {}, found {found}", file.display()));
        }
        Ok(match found {
            0 => Content::None,
            _ => Content::File(Box::new(file.with_sha256(keywords.sha256))),
        })
    }

    fn missing(&self, keyword: &str, error: &io::Error) -> String {
        let path = self.path();
        format!("expected {keyword}=, or a file to take it from: {}: {error}", path.display())
    }
}

impl EntrySource for MtreeSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        while self.next_line()? {
            if let Some(entry) = self.parse()? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.flagged_count > 0 {
            warnings.push(format!(
                "{} entries have file flags, which an image cannot hold",
                std::mem::take(&mut self.flagged_count)
            ));
        }
        for (keyword, line) in std::mem::take(&mut self.unknown) {
            let keyword = keyword.escape_ascii();
            warnings.push(format!("the keyword `{keyword}` is not known (first in line {line})"));
        }
        warnings
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        self.lines.refuse_repeats(&self.name, review)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            "[a-z./]{1,5}",
            Just("..".to_owned()),
            Just("/set".to_owned()),
            Just("/unset all".to_owned()),
            Just("type=dir mode=755 uid=0 gid=0 time=0.1".to_owned()),
            Just("type=file size=0 mode=6755 uname=root gname=wheel time=-1".to_owned()),
            Just("type=link link=a\\040b".to_owned()),
            Just("type=char device=linux,1,3".to_owned()),
            Just("inode=5 nlink=2 resdevice=x,1,2 optional".to_owned()),
            "(type|mode|uid|time|size|link|device|contents|sha256|flags)=[a-z0-9.,\\\\-]{0,8}",
            "\\PC{0,6}",
        ];
        prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "))
    }

    proptest! {
        /// Any text is a list or an error, and its entries are within the limits of the format.
        #[test]
        fn any_text_is_read_or_refused(lines in prop::collection::vec(words(), 0..20)) {
            let folder = tempfile::tempdir().unwrap();
            let text = lines.join("\n").into_bytes();
            let base = folder.path().to_owned();
            let mut source =
                MtreeSource::new(io::Cursor::new(text), b"list", base, [0; 32], None);
            while let Ok(Some(entry)) = source.next_entry() {
                prop_assert!(entry.path.is_empty() || check_path(&entry.path).is_ok());
                prop_assert!(entry.metadata.permissions <= 0o7777);
                let is_link = entry.metadata.kind == InodeKind::Symlink;
                prop_assert_eq!(is_link, !entry.target.is_empty());
            }
        }
    }
}
