//! A cpio archive as a source, read once from front to back.
//!
//! Names of one inode are told by its device and number. newc stores the content with one of them,
//! mostly the last, so names that come before their content are held back. Archives in a row are
//! one, as in an initial RAM disk. There are no attributes, and times have whole seconds.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::sync::Arc;

use shale_format::limits::LINK_TARGET_LEN_MAX;
use shale_model::{
    Content, EntrySource, InodeKind, LinkId, Metadata, Problem, ProblemKind, Select, SourceEntry,
    SourceError, Timestamp, device_number,
};

use super::header::{Dialect, HEADER_LEN_MAX, Header};
use crate::error::ForeignError;
use crate::identity::Identities;
use crate::names;
use crate::selection::Selection;
use crate::stream::{Input, SharedStream, unreadable};

const FORMAT: &str = "cpio archive";
/// Name of the entry that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";
/// Bytes of a name; every system allows less.
const NAME_LEN_MAX: u64 = 64 << 10;
/// Contents up to this length are held in memory; the pipeline would hold them anyway.
const SMALL_LEN_MAX: u64 = 1 << 20;

/// A cpio archive that is read.
pub struct CpioSource {
    name: Vec<u8>,
    seed: [u8; 32],
    selection: Selection,
    stream: SharedStream,
    identities: Identities,
    /// Inodes of the archive at hand with more than one name, by device and number.
    links: HashMap<((u32, u32), u64), Link>,
    link_count: u64,
    ready: VecDeque<SourceEntry>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
    /// Where the next header is.
    next: u64,
    is_done: bool,
}

/// An inode with several names.
struct Link {
    id: LinkId,
    /// Length and, if it is held in memory, digest of its content, once that came.
    content: Option<(u64, Option<[u8; 32]>)>,
    /// Names that came before the content.
    held: Vec<SourceEntry>,
}

impl std::fmt::Debug for CpioSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpioSource").field("next", &self.next).finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

impl CpioSource {
    /// Reads an archive. `seed` are more bytes that stand for it.
    pub fn new(input: Input, seed: &[u8], select: Option<Arc<dyn Select>>) -> Self {
        Self {
            name: input.name.clone(),
            seed: input.seed("cpio", seed),
            selection: Selection::new(select),
            stream: input.into_stream(),
            identities: Identities::default(),
            links: HashMap::new(),
            link_count: 0,
            ready: VecDeque::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            next: 0,
            is_done: false,
        }
    }

    /// The next header and its name; `None` at the end of all archives.
    fn header(&mut self) -> Result<Option<(Dialect, Header, Vec<u8>)>, ForeignError> {
        let mut stream = self.stream.lock();
        let failed = |error: io::Error| unreadable(FORMAT, &error);
        stream.skip_to(self.next).map_err(failed)?;
        let mut head = [0; HEADER_LEN_MAX];
        let len = stream.read_up_to(&mut head[..6]).map_err(failed)?;
        if len == 0 {
            return Ok(None);
        }
        let corrupt = || fault("corrupt: here should be the header of an entry");
        let dialect = Dialect::detect(&head[..len]).ok_or_else(corrupt)?;
        let header_len = dialect.header_len();
        stream.read_exact(&mut head[6..header_len]).map_err(failed)?;
        let header = dialect.read(&head[..header_len]).ok_or_else(corrupt)?;
        if header.name_len == 0 || header.name_len > NAME_LEN_MAX {
            return Err(fault(format!("corrupt: a name of {} bytes", header.name_len)));
        }
        let mut name = vec![0; header.name_len as usize];
        stream.read_exact(&mut name).map_err(failed)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        name.truncate(end);
        let head_len = header_len as u64 + header.name_len;
        self.next += head_len.next_multiple_of(dialect.alignment());
        stream.skip_to(self.next).map_err(failed)?;
        Ok(Some((dialect, header, name)))
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        let mut is_ended = false;
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            if self.is_done {
                return Ok(None);
            }
            if is_ended && !self.find_next_archive()? {
                self.is_done = true;
                continue;
            }
            is_ended = false;
            let at = self.next;
            let Some((dialect, header, name)) = self.header().map_err(|error| error.at(at))? else {
                self.warnings.push(format!(
                    "{}: {}",
                    String::from_utf8_lossy(&self.name),
                    fault(
                        "it ends without a trailer, so it may have been cut after the last entry"
                    )
                ));
                self.end_archive();
                self.is_done = true;
                continue;
            };
            if name == TRAILER {
                self.end_archive();
                is_ended = true;
                continue;
            }
            let data_start = self.next;
            let padded = header.len.next_multiple_of(dialect.alignment());
            self.next = data_start.saturating_add(padded);
            match self.entry(&header, &name, data_start) {
                Ok(entry) => self.ready.extend(entry),
                Err(Wrong::Archive(error)) => return Err(error.at(at).of(&name)),
                Err(Wrong::Entry(what)) => {
                    let kind = ProblemKind::Unreadable(what);
                    self.problems.push(Problem { path: names::cut(&name), kind });
                }
            }
        }
    }

    /// Names whose content never came belong to empty files.
    fn end_archive(&mut self) {
        let mut links: Vec<Link> = self.links.drain().map(|(_, link)| link).collect();
        links.sort_by_key(|link| link.id.inode);
        self.ready.extend(links.into_iter().flat_map(|link| link.held));
    }

    /// Goes to the next archive, after the trailer of one and its padding of zeroes; false if there
    /// is none.
    fn find_next_archive(&mut self) -> Result<bool, ForeignError> {
        let mut stream = self.stream.lock();
        let failed = |error: io::Error| unreadable(FORMAT, &error);
        stream.skip_to(self.next).map_err(failed)?;
        loop {
            let next = stream.peek().map_err(failed)?;
            let zeroes = next.iter().take_while(|&&byte| byte == 0).count() as u64;
            let is_archive = match &next[zeroes as usize..] {
                [] if next.is_empty() => return Ok(false),
                [] => None,
                rest => Some(rest.len() < 6 || Dialect::detect(rest).is_some()),
            };
            let at = stream.offset + zeroes;
            stream.skip_to(at).map_err(failed)?;
            match is_archive {
                None => continue,
                Some(true) => {
                    self.next = at;
                    return Ok(true);
                }
                Some(false) => {}
            }
            // It must still be read: whoever writes the pipe would see it break.
            io::copy(&mut *stream, &mut io::sink()).map_err(failed)?;
            let what =
                fault("something that is not a cpio archive follows its end and was not packed");
            self.warnings.push(format!("{}: {}", String::from_utf8_lossy(&self.name), what.at(at)));
            return Ok(false);
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        name: &[u8],
        data_start: u64,
    ) -> Result<Option<SourceEntry>, Wrong> {
        let path = names::relative(name)?;
        let kind = InodeKind::from_mode(header.mode)
            .ok_or_else(|| format!("an entry of mode {:o} is of no known kind", header.mode))?;
        if !self.selection.takes(&path, kind) {
            return Ok(None);
        }
        self.identities.check_above(&path)?;
        let mut metadata = metadata(header, kind)?;
        let (mut target, mut content) = (Vec::new(), Content::None);
        match kind {
            InodeKind::Symlink if header.len > LINK_TARGET_LEN_MAX as u64 => {
                return Err(format!("its link target has {} bytes", header.len).into());
            }
            InodeKind::Symlink => target = self.bytes(header.len)?,
            InodeKind::File => {
                metadata.len = header.len;
                content = self.content(header, &path, data_start)?;
            }
            _ if header.len > 0 => {
                return Err(
                    format!("it is not a file but has {} bytes of content", header.len).into()
                );
            }
            _ => {}
        }
        self.identities.add(&path, kind);
        let xattrs = Arc::default();
        let entry = SourceEntry { path, metadata, xattrs, link: None, target, content };
        self.linked(header, entry)
    }

    /// Gives an entry the identity of its inode. `None` if it is held back until the content comes,
    /// or is ready together with those that were.
    fn linked(
        &mut self,
        header: &Header,
        mut entry: SourceEntry,
    ) -> Result<Option<SourceEntry>, Wrong> {
        if entry.metadata.kind == InodeKind::Directory || header.link_count < 2 {
            return Ok(Some(entry));
        }
        let count = &mut self.link_count;
        let link = self.links.entry((header.device, header.inode)).or_insert_with(|| {
            *count += 1;
            let id = LinkId { device: 0, inode: *count };
            Link { id, content: None, held: Vec::new() }
        });
        entry.link = Some(link.id);
        if entry.metadata.kind != InodeKind::File {
            return Ok(Some(entry));
        }
        let digest = match &entry.content {
            Content::Bytes(bytes) => Some(*shale_codec::hash(bytes).as_bytes()),
            _ => None,
        };
        if let Some((len, first)) = link.content {
            // Some writers repeat the content with every name.
            if header.len > 0 && (header.len != len || digest != first) {
                let what =
                    "its content is not that of the name before it of the same inode: corrupt";
                return Err(what.to_owned().into());
            }
            return Ok(Some(entry));
        }
        if header.len == 0 {
            link.held.push(entry);
            return Ok(None);
        }
        // The one with the content first, then those that waited for it.
        link.content = Some((header.len, digest));
        self.ready.push_back(entry);
        self.ready.extend(link.held.drain(..));
        Ok(None)
    }

    fn bytes(&mut self, len: u64) -> Result<Vec<u8>, Wrong> {
        let mut bytes = vec![0; len as usize];
        let mut stream = self.stream.lock();
        stream.read_exact(&mut bytes).map_err(|error| unreadable(FORMAT, &error))?;
        Ok(bytes)
    }

    fn content(&mut self, header: &Header, path: &[u8], start: u64) -> Result<Content, Wrong> {
        if header.len == 0 {
            return Ok(Content::None);
        }
        if header.len > SMALL_LEN_MAX {
            let data = self.stream.content(FORMAT, path, start, header.len);
            let reader: Box<dyn Read + Send> = match header.checksum {
                None => data,
                Some(expected) => Box::new(Summed { data, left: header.len, sum: 0, expected }),
            };
            return Ok(Content::Reader { reader, holes: Vec::new() });
        }
        let bytes = self.bytes(header.len)?;
        if header.checksum.is_some_and(|expected| expected != add_up(0, &bytes)) {
            return Err(WRONG_SUM.to_owned().into());
        }
        Ok(Content::Bytes(bytes))
    }
}

const WRONG_SUM: &str = "corrupt: its bytes do not have its checksum";

/// What is wrong: with the archive, or with one entry alone.
enum Wrong {
    Archive(ForeignError),
    Entry(String),
}

impl From<ForeignError> for Wrong {
    fn from(error: ForeignError) -> Self {
        Self::Archive(error)
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::Entry(what)
    }
}

fn metadata(header: &Header, kind: InodeKind) -> Result<Metadata, String> {
    let (major, minor) = header.own_device;
    let is_device = matches!(kind, InodeKind::BlockDevice | InodeKind::CharDevice);
    let sec = i64::try_from(header.mtime).map_err(|_| "its time is beyond 63 bits".to_owned())?;
    Ok(Metadata {
        kind,
        permissions: if kind == InodeKind::Symlink { 0o777 } else { header.mode & 0o7777 },
        uid: header.uid,
        gid: header.gid,
        mtime: Timestamp { sec, nsec: 0 },
        atime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        len: 0,
        device: if is_device { device_number(major, minor) } else { 0 },
    })
}

fn add_up(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, &byte| sum.wrapping_add(byte.into()))
}

/// Bytes whose sum is compared when the last of them is read.
struct Summed {
    data: Box<dyn Read + Send>,
    left: u64,
    sum: u32,
    expected: u32,
}

impl Read for Summed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.data.read(out)?;
        self.sum = add_up(self.sum, &out[..len]);
        self.left -= len as u64;
        if self.left == 0 && self.sum != self.expected {
            return Err(io::Error::new(io::ErrorKind::InvalidData, WRONG_SUM));
        }
        Ok(len)
    }
}

impl EntrySource for CpioSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
