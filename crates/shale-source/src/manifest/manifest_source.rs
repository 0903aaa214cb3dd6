//! A manifest as a source: a tree that is described line by line and need not exist.
//!
//! The format is specified in `docs/manifest.md`. Lines are read and checked one at a time, so a
//! manifest may be a pipe and of any length. Memory is one buffer.
//!
//! The first wrong line ends the build; the error has its number. Repeated paths and directories
//! without an entry are found when all lines were read.
//!
//! The seed is a digest of the first mebibyte: no more is known before the first entry.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use shale_codec::Hasher;
use shale_format::InodeKind;
use shale_model::{Content, EntrySource, LinkId, Review, SourceEntry, SourceError, Xattr};

use crate::listed::{FileOf, Given, Hole, LineNumbers, wrong_line};
use crate::manifest::line::{self, Detail};

/// Bytes read at a time, and most bytes that the seed covers.
const BUFFER_LEN: usize = 1 << 20;
/// Longest line: a path, a target and a value fit even if every byte is escaped.
const LINE_LEN_MAX: usize = 512 << 10;

/// A manifest that is being read.
pub struct ManifestSource {
    input: Box<dyn Read + Send>,
    /// For messages.
    name: Vec<u8>,
    /// Paths of content files are relative to this directory.
    base: PathBuf,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    is_at_end: bool,
    seed: [u8; 32],
    line_number: u64,
    given: Given,
    lines: LineNumbers,
    no_xattrs: Arc<[Xattr]>,
}

impl std::fmt::Debug for ManifestSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ManifestSource(line {})", self.line_number)
    }
}

impl ManifestSource {
    /// Reads the beginning. `name` is for messages; paths of content files are relative to `base`.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] if the manifest cannot be read.
    pub fn open(
        input: Box<dyn Read + Send>,
        name: &[u8],
        base: PathBuf,
    ) -> Result<Self, SourceError> {
        let mut source = Self {
            input,
            name: name.to_vec(),
            base,
            buffer: vec![0; BUFFER_LEN],
            at: 0,
            end: 0,
            is_at_end: false,
            seed: [0; 32],
            line_number: 0,
            given: Given::default(),
            lines: LineNumbers::default(),
            no_xattrs: Arc::new([]),
        };
        while source.end < source.buffer.len() && !source.is_at_end {
            source.fill()?;
        }
        let mut hasher = Hasher::new();
        hasher.update(b"manifest");
        hasher.update(&source.buffer[..source.end]);
        source.seed = *hasher.finalize().as_bytes();
        Ok(source)
    }

    /// Reads more bytes into the buffer.
    fn fill(&mut self) -> Result<(), SourceError> {
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.is_at_end = true,
            Ok(len) => self.end += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SourceError::Unreadable { path: self.name.clone(), error }),
        }
        Ok(())
    }

    /// Returns where the next line lies in the buffer, or `None` at the end.
    fn peek(&mut self) -> Result<Option<(usize, usize)>, SourceError> {
        let mut searched = self.at;
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[searched..self.end]);
            if let Some(found) = found {
                return Ok(Some((self.at, searched + found)));
            }
            if self.is_at_end {
                return Ok((self.at < self.end).then_some((self.at, self.end)));
            }
            if self.end - self.at > LINE_LEN_MAX {
                self.line_number += 1;
                return Err(self.wrong(format!("expected at most {LINE_LEN_MAX} bytes in a line")));
            }
            self.buffer.copy_within(self.at..self.end, 0);
            self.end -= self.at;
            self.at = 0;
            searched = self.end;
            self.fill()?;
        }
    }

    fn take(&mut self, line_end: usize) {
        self.at = (line_end + 1).min(self.end);
        self.line_number += 1;
    }

    fn wrong(&self, what: impl std::fmt::Display) -> SourceError {
        wrong_line(&self.name, self.line_number, what)
    }

    /// Reads the attributes on the lines that follow.
    fn xattrs(&mut self) -> Result<Vec<Xattr>, SourceError> {
        let mut xattrs: Vec<Xattr> = Vec::new();
        loop {
            // Only the first byte of the next line is needed to tell.
            if self.at < self.end && self.buffer[self.at] != b'x' {
                break;
            }
            let Some((start, end)) = self.peek()? else { break };
            let Some(line) = self.buffer[start..end].strip_prefix(b"x ") else { break };
            let parsed = line::parse_xattr(line);
            self.take(end);
            let (name, value) = parsed.map_err(|what| self.wrong(what))?;
            if xattrs.iter().any(|xattr| xattr.name == name) {
                let name = name.escape_ascii();
                return Err(self.wrong(format!("the entry has an attribute `{name}` already")));
            }
            xattrs.push(Xattr { name, value });
        }
        Ok(xattrs)
    }

    /// Builds an entry without its extended attributes.
    fn entry(
        &self,
        detail: Detail,
        link: Option<u64>,
        path: Vec<u8>,
    ) -> Result<SourceEntry, SourceError> {
        let mut metadata = self.given.metadata(InodeKind::File);
        let (mut target, mut content) = (Vec::new(), Content::None);
        match detail {
            Detail::Len(0) => {}
            Detail::Len(len) => {
                metadata.len = len;
                content = Content::File(Box::new(Hole { metadata }));
            }
            Detail::ContentOf(file) => {
                let file = FileOf::find(&self.base, &file, &mut metadata)
                    .map_err(|(file, error)| self.wrong(format!("{}: {error}", file.display())))?;
                if metadata.len > 0 {
                    content = Content::File(Box::new(file));
                }
            }
            Detail::Kind(kind) => metadata.kind = kind,
            Detail::Symlink(to) => {
                metadata.kind = InodeKind::Symlink;
                target = to;
            }
            Detail::Device(kind, number) => {
                metadata.kind = kind;
                metadata.device = number;
            }
        }
        if path.is_empty() && metadata.kind != InodeKind::Directory {
            return Err(self.wrong("expected type d for the root `.`"));
        }
        let xattrs = Arc::clone(&self.no_xattrs);
        let link = link.map(|inode| LinkId { device: 0, inode });
        Ok(SourceEntry { path, metadata, xattrs, link, target, content })
    }
}

impl EntrySource for ManifestSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        while let Some((start, end)) = self.peek()? {
            let line = &self.buffer[start..end];
            if line.is_empty() || line[0] == b'#' {
                self.take(end);
                continue;
            }
            let mut path = Vec::with_capacity(line.len());
            let parsed = if line.starts_with(b"x ") {
                Err("expected an entry before its attributes".to_owned())
            } else {
                line::parse(line, &mut self.given, &mut path)
            };
            self.take(end);
            let (detail, link) = parsed.map_err(|what| self.wrong(what))?;
            self.lines.add(self.line_number);
            let mut entry = self.entry(detail, link, path)?;
            let xattrs = self.xattrs()?;
            if !xattrs.is_empty() {
                entry.xattrs = xattrs.into();
            }
            return Ok(Some(entry));
        }
        Ok(None)
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        self.lines.refuse_repeats(&self.name, review)?;
        if let Some(missing) = review.missing.iter().min_by_key(|missing| missing.sequence) {
            let what = format!(
                "expected an entry for the directory `{}`, found none in the whole manifest",
                missing.path.escape_ascii()
            );
            return Err(wrong_line(&self.name, self.lines.of(missing.sequence), what));
        }
        Ok(())
    }
}
