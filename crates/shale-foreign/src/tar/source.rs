//! A tar archive as a source, read once from front to back.
//!
//! The archive may be a pipe. Nothing is unpacked: small contents are held in memory, large ones
//! are handed over while they are read. Memory is that, 40 bytes an entry for hard links, and what
//! an extended header says, at most [`HEADER_LEN_MAX`].
//!
//! Names lose their leading slashes and dots. Owners are the numbers in the archive, never looked
//! up by name. A later entry replaces an earlier one of its path, and what was linked to the
//! earlier one stays. Archives one after the other are one. An archive without the mark of its end
//! is refused, as nobody can tell it from one that was cut.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shale_codec::Hasher;
use shale_codec::stream::StreamFormat;
use shale_format::inode::device_number;
use shale_format::{InodeKind, Timestamp};
use shale_write::source::{Content, LinkId, Metadata, Xattr};
use shale_write::{Problem, ProblemKind, Select, Source, SourceEntry, WriteError};

use super::header::{BLOCK_LEN, Block, Dialect, Header, is_header, seconds};
use super::pax::Pax;
use super::sparse::{self, EXTENSION_FIELDS, EXTENSION_MORE, Lines, Pieces, SparseMap};
use crate::ahead::Ahead;
use crate::error::ForeignError;
use crate::identity::Identities;
use crate::{acl, names};

const FORMAT: &str = "tar archive";
/// Bytes of one extended header: the attributes of one entry, and more than any system keeps.
const HEADER_LEN_MAX: u64 = 64 << 20;
/// Bytes of a long name of GNU.
const NAME_LEN_MAX: u64 = 1 << 20;
/// Contents up to this length are held in memory; the pipeline would hold them anyway.
const SMALL_LEN_MAX: u64 = 1 << 20;
/// Bytes of the beginning that the seed is made of.
const SEED_LEN: usize = 1 << 20;

/// Where Linux keeps access control lists.
const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// How an archive is read.
#[derive(Clone, Default)]
pub struct TarOptions {
    /// Take an archive without the mark of its end, too.
    pub end_optional: bool,
    /// More bytes for the seed, such as samples of the archive's file.
    pub seed: Vec<u8>,
    /// What is taken; everything without. The root is not asked for.
    pub select: Option<Arc<dyn Select>>,
}

/// A tar archive that is read.
pub struct TarSource {
    /// What errors call the archive.
    name: Vec<u8>,
    options: TarOptions,
    stream: Arc<Mutex<Stream>>,
    seed: [u8; 32],
    global: Pax,
    identities: Identities,
    problems: Vec<Problem>,
    /// Where the next header is.
    next: u64,
    /// The entry before that.
    last_path: Vec<u8>,
    /// The last directory that was found not to lie below a symbolic link.
    checked_parent: Vec<u8>,
    any_symlink: bool,
    is_done: bool,
}

impl std::fmt::Debug for TarSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TarSource").field("next", &self.next).finish_non_exhaustive()
    }
}

/// The archive's bytes, and how many were taken.
struct Stream {
    input: io::Chain<io::Cursor<Vec<u8>>, Ahead>,
    offset: u64,
}

impl Stream {
    fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let mut left = offset.saturating_sub(self.offset);
        let mut buffer = [0; 16 << 10];
        while left > 0 {
            let len = left.min(buffer.len() as u64) as usize;
            self.read_exact(&mut buffer[..len])?;
            left -= len as u64;
        }
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(out)?;
        self.offset += len as u64;
        Ok(len)
    }
}

/// The data of one entry.
struct EntryReader {
    stream: Arc<Mutex<Stream>>,
    /// Where it is; another place means that the entry is over.
    at: u64,
    end: u64,
}

impl Read for EntryReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = (out.len() as u64).min(self.end - self.at) as usize;
        if len == 0 {
            return Ok(0);
        }
        let mut stream = lock(&self.stream);
        if stream.offset != self.at {
            return Err(io::Error::other("the archive was read on meanwhile"));
        }
        let len = stream.read(&mut out[..len])?;
        self.at += len as u64;
        Ok(len)
    }
}

fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is wrong: with the archive, or with one entry alone.
enum Wrong {
    Archive(ForeignError),
    Entry(Vec<u8>, ProblemKind),
}

impl From<ForeignError> for Wrong {
    fn from(error: ForeignError) -> Self {
        Self::Archive(error)
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

/// What precedes an entry.
#[derive(Default)]
struct Before {
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl TarSource {
    /// Begins to read an archive, in a thread that reads ahead and decompresses. `name` is what
    /// errors call it.
    pub fn new(
        name: &Path,
        stream: Box<dyn Read + Send>,
        compression: Option<StreamFormat>,
        options: TarOptions,
    ) -> Result<Self, WriteError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let failed = |error| WriteError::Source { path: name.clone(), error };
        let stream = match compression {
            Some(format) => format.decoder(stream).map_err(failed)?,
            None => stream,
        };
        let mut ahead = Ahead::new(stream).map_err(failed)?;
        let mut head = Vec::new();
        ahead.by_ref().take(SEED_LEN as u64).read_to_end(&mut head).map_err(failed)?;
        if !super::is_tar(&head) {
            return Err(fault("it does not begin like one").at(0).into_source(&name));
        }
        let mut hasher = Hasher::new();
        hasher.update(b"tar");
        hasher.update(&(head.len() as u64).to_le_bytes());
        hasher.update(&head);
        hasher.update(&options.seed);
        let stream = Stream { input: io::Cursor::new(head).chain(ahead), offset: 0 };
        Ok(Self {
            name,
            options,
            stream: Arc::new(Mutex::new(stream)),
            seed: *hasher.finalize().as_bytes(),
            global: Pax::default(),
            identities: Identities::default(),
            problems: Vec::new(),
            next: 0,
            last_path: Vec::new(),
            checked_parent: Vec::new(),
            any_symlink: false,
            is_done: false,
        })
    }

    /// Reads so many bytes of the archive and goes on behind the block they end in.
    fn take_bytes(&mut self, len: u64, len_max: u64, what: &str) -> Result<Vec<u8>, ForeignError> {
        if len > len_max {
            return Err(fault(format!("{what} of {len} bytes, {len_max} are allowed")));
        }
        let mut bytes = vec![0; len as usize];
        let mut stream = lock(&self.stream);
        stream.read_exact(&mut bytes).map_err(|error| cut(&error))?;
        drop(stream);
        self.next = self.next.saturating_add(len.next_multiple_of(BLOCK_LEN as u64));
        Ok(bytes)
    }

    /// The next header; `None` at the end of the archive.
    fn next_header(&mut self) -> Result<Option<(Block, Header)>, ForeignError> {
        let mut zero_blocks = 0;
        loop {
            lock(&self.stream).skip_to(self.next).map_err(|e| cut(&e).of(&self.last_path))?;
            let Some(block) = self.block_or_end()? else {
                // One block of zeroes is what some programs write.
                return match zero_blocks > 0 || self.options.end_optional || self.next == 0 {
                    true => Ok(None),
                    false => Err(fault(
                        "it ends without the blocks of zeroes that mark the end, so it may have \
                         been cut. If it is known to be whole, add them: \
                         (cat ARCHIVE; head -c 1024 /dev/zero) | shale create - ...",
                    )),
                };
            };
            if block.iter().all(|&byte| byte == 0) {
                zero_blocks += 1;
            } else if is_header(&block) {
                let header = Header::read(&block);
                return Ok(Some((block, header)));
            } else if zero_blocks >= 2 {
                // Behind the mark of the end, only another archive is of interest. What else is
                // there must still be read: whoever writes the pipe would see it break.
                io::copy(&mut *lock(&self.stream), &mut io::sink()).map_err(|e| cut(&e))?;
                return Ok(None);
            } else {
                return Err(fault("here should be a header, but its sum is wrong"));
            }
        }
    }

    /// A block, or nothing at the very end.
    fn block_or_end(&mut self) -> Result<Option<Block>, ForeignError> {
        let mut block = [0; BLOCK_LEN];
        let mut len = 0;
        let mut stream = lock(&self.stream);
        while len < BLOCK_LEN {
            match stream.read(&mut block[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(cut(&error)),
            }
        }
        match len {
            0 => Ok(None),
            BLOCK_LEN => {
                drop(stream);
                self.next = self.next.saturating_add(BLOCK_LEN as u64);
                Ok(Some(block))
            }
            _ => Err(fault("it ends within a block")),
        }
    }

    /// The next entry; problems with one entry alone are noted and the next one is taken.
    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        let mut before: Option<Before> = None;
        loop {
            let header_at = self.next;
            let Some((block, header)) = self.next_header().map_err(|e| e.at(header_at))? else {
                return match before {
                    None => Ok(None),
                    Some(_) => Err(fault("it ends after an extended header").at(header_at)),
                };
            };
            let mut local = before
                .take()
                .unwrap_or_else(|| Before { pax: self.global.clone(), ..Before::default() });
            match self.read_extension(&header, &mut local).map_err(|e| e.at(header_at))? {
                true => {
                    before = Some(local);
                    continue;
                }
                false if header.type_flag == b'g' => continue,
                false => {}
            }
            match self.entry(&block, &header, local) {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {}
                Err(Wrong::Entry(path, kind)) => self.problems.push(Problem { path, kind }),
                Err(Wrong::Archive(error)) => return Err(error.at(header_at).of(&header.name)),
            }
        }
    }

    /// Takes in what belongs to the entry that follows. False if this is none of that.
    fn read_extension(&mut self, header: &Header, to: &mut Before) -> Result<bool, ForeignError> {
        let len = || stored_len(header).map_err(fault);
        match header.type_flag {
            b'x' | b'X' => {
                let bytes = self.take_bytes(len()?, HEADER_LEN_MAX, "an extended header")?;
                to.pax.is_local = true;
                to.pax.add(&bytes).map_err(fault)?;
            }
            b'g' => {
                let bytes = self.take_bytes(len()?, HEADER_LEN_MAX, "a global header")?;
                self.global.add(&bytes).map_err(fault)?;
                return Ok(false);
            }
            b'L' => to.long_name = Some(self.long_name(len()?)?),
            b'K' => to.long_link = Some(self.long_name(len()?)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn long_name(&mut self, len: u64) -> Result<Vec<u8>, ForeignError> {
        let mut name = self.take_bytes(len, NAME_LEN_MAX, "a long name")?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        name.truncate(end);
        Ok(name)
    }

    fn entry(
        &mut self,
        block: &Block,
        header: &Header,
        before: Before,
    ) -> Result<Option<SourceEntry>, Wrong> {
        let Before { pax, long_name, long_link } = before;
        let given_path = pax.sparse.name.as_ref().or(pax.path.as_ref()).or(long_name.as_ref());
        let given_path = given_path.unwrap_or(&header.name);
        let stored_len = match pax.stored_len {
            Some(len) => len,
            None => stored_len(header).map_err(fault)?,
        };
        let kind = self.kind(header, given_path, &pax)?;
        // Hard links may come with their data again, but only PAX says so in a way to rely on.
        let has_data = match kind {
            EntryKind::Inode(InodeKind::File) | EntryKind::Skipped => true,
            EntryKind::HardLink => pax.is_local,
            EntryKind::Inode(_) => header.type_flag == b'D',
        };
        let data_start = self.next;
        let data_end = data_start.checked_add(if has_data { stored_len } else { 0 });
        let next = data_end.and_then(|end| end.checked_next_multiple_of(BLOCK_LEN as u64));
        let Some(next) = next else {
            return Err(fault("its length leads beyond 64 bits").of(given_path).into());
        };
        self.next = next;

        let named =
            |what: &str| Wrong::Entry(given_path.clone(), ProblemKind::Unreadable(what.to_owned()));
        if matches!(kind, EntryKind::Skipped) {
            return Ok(None);
        }
        let path = names::relative(given_path).map_err(named)?;
        self.check_above(&path).map_err(|what| named(&what))?;
        let target = pax.link_path.clone().or(long_link).unwrap_or(header.link_name.clone());
        if let EntryKind::HardLink = kind {
            if let Some((_, kind)) = self.find_target(&target)
                && !self.takes(&path, kind)
            {
                return Ok(None);
            }
            return self.hard_link(path, &target, named).map(Some);
        }
        let EntryKind::Inode(kind) = kind else { return Ok(None) };
        if !self.takes(&path, kind) {
            self.identities.add_left_out(&path, kind);
            return Ok(None);
        }

        let map = match kind {
            InodeKind::File => {
                let map = self.sparse_map(block, header, &pax, stored_len, data_start);
                map.map_err(|what| fault(what).of(&path))?
            }
            _ => None,
        };
        let data_start = lock(&self.stream).offset;
        let len = map.as_ref().map_or(stored_len, |map| map.len);
        let mut metadata =
            metadata(header, &pax, kind).map_err(|what| Wrong::Archive(fault(what).of(&path)))?;
        let xattrs = xattrs(&pax).map_err(|what| named(&what))?;
        let list = xattrs.iter().find(|xattr| xattr.name == ACL_ACCESS);
        if let Some(bits) = list.and_then(|list| acl::permissions(&list.value)) {
            // Writers differ in what they put into the header then; the list is what was.
            metadata.permissions = metadata.permissions & 0o7000 | bits;
        }
        let link = match kind {
            InodeKind::Directory => {
                self.identities.add(&path, kind);
                None
            }
            _ => Some(self.identities.add(&path, kind)),
        };
        self.any_symlink |= kind == InodeKind::Symlink;
        let content = match kind {
            InodeKind::File => {
                metadata.len = len;
                let holes = map.map_or(Vec::new(), |map| map.holes);
                let data_len = len - holes.iter().map(|hole| hole.end - hole.start).sum::<u64>();
                let data = data_start..data_start.saturating_add(data_len);
                self.content(len, holes, data).map_err(|error| cut(&error).of(&path))?
            }
            _ => Content::None,
        };
        let target = if kind == InodeKind::Symlink { target } else { Vec::new() };
        Ok(Some(SourceEntry { path, metadata, xattrs: xattrs.into(), link, target, content }))
    }

    /// The contents of small files are read at once.
    fn content(
        &mut self,
        len: u64,
        holes: Vec<Range<u64>>,
        data: Range<u64>,
    ) -> io::Result<Content> {
        if len == 0 {
            return Ok(Content::None);
        }
        if len <= SMALL_LEN_MAX && holes.is_empty() {
            let mut bytes = vec![0; len as usize];
            lock(&self.stream).read_exact(&mut bytes)?;
            return Ok(Content::Bytes(bytes));
        }
        let stream = Arc::clone(&self.stream);
        let reader = Box::new(EntryReader { stream, at: data.start, end: data.end });
        Ok(Content::Reader { reader, holes })
    }

    fn kind(&self, header: &Header, path: &[u8], pax: &Pax) -> Result<EntryKind, ForeignError> {
        if pax.is_continued {
            return Err(volumes());
        }
        Ok(EntryKind::Inode(match header.type_flag {
            0 | b'0' | b'7' if path.ends_with(b"/") => InodeKind::Directory,
            0 | b'0' | b'7' | b'S' => InodeKind::File,
            b'1' => return Ok(EntryKind::HardLink),
            b'2' => InodeKind::Symlink,
            b'3' => InodeKind::CharDevice,
            b'4' => InodeKind::BlockDevice,
            // 'D' is a directory of an incremental archive with a list of names as its data.
            b'5' | b'D' => InodeKind::Directory,
            b'6' => InodeKind::Fifo,
            // A label of the tape, for people.
            b'V' => return Ok(EntryKind::Skipped),
            b'M' => return Err(volumes()),
            other => {
                return Err(fault(format!(
                    "entries of type `{}` are not known",
                    other.escape_ascii()
                )));
            }
        }))
    }

    /// Extraction would follow a link on the way; here nothing can be below one.
    fn check_above(&mut self, path: &[u8]) -> Result<(), String> {
        if !self.any_symlink {
            return Ok(());
        }
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let Some(parent) = slash.map(|slash| &path[..slash]) else { return Ok(()) };
        if parent == self.checked_parent {
            return Ok(());
        }
        if let Some(link) = self.identities.link_above(path) {
            return Err(format!(
                "it lies below {}, a symbolic link of the archive",
                link.escape_ascii()
            ));
        }
        self.checked_parent.clear();
        self.checked_parent.extend_from_slice(parent);
        Ok(())
    }

    fn find_target(&self, target: &[u8]) -> Option<(LinkId, InodeKind)> {
        self.identities.find(&names::relative(target).ok()?)
    }

    /// Whether an entry and all directories above it are wanted.
    fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        let Some(select) = &self.options.select else { return true };
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = slashes.map(|(at, _)| &path[..at]);
        path.is_empty()
            || above.into_iter().all(|above| select.takes(above, InodeKind::Directory))
                && select.takes(path, kind)
    }

    fn hard_link(
        &mut self,
        path: Vec<u8>,
        target: &[u8],
        named: impl Fn(&str) -> Wrong,
    ) -> Result<SourceEntry, Wrong> {
        let target = names::relative(target).map_err(|_| named("hard link out of the archive"))?;
        let shown = target.escape_ascii();
        let (id, kind) = self.identities.find(&target).ok_or_else(|| {
            named(&format!("hard link to {shown}, which is not in the archive before it"))
        })?;
        if kind == InodeKind::Directory {
            return Err(named(&format!("hard link to {shown}, a directory")));
        }
        if self.identities.is_left_out(id) {
            return Err(named(&format!(
                "hard link to {shown}, which has the content and is filtered out"
            )));
        }
        self.identities.add_name(&path, id, kind);
        Ok(SourceEntry {
            path,
            metadata: metadata_of_link(kind),
            xattrs: Arc::default(),
            link: Some(id),
            // The inode is known; this only has to be a target.
            target: if kind == InodeKind::Symlink { vec![b'.'] } else { Vec::new() },
            content: Content::None,
        })
    }

    /// The map of an entry with holes. Reads on in the archive where the map is there.
    fn sparse_map(
        &mut self,
        block: &Block,
        header: &Header,
        pax: &Pax,
        stored_len: u64,
        data_start: u64,
    ) -> Result<Option<SparseMap>, String> {
        let records = &pax.sparse;
        if header.type_flag == b'S' {
            let is_star = matches!(header.dialect, Dialect::Star | Dialect::OldStar);
            // exustar has records and no `tar` at the end.
            let is_star = is_star || header.dialect == Dialect::Ustar;
            let first = if is_star { sparse::star(block)? } else { sparse::gnu(block)? };
            let (mut pieces, mut more) = (first.pieces, first.is_extended);
            let mut map_len = 0;
            while more {
                let block = self.map_block()?;
                map_len += BLOCK_LEN as u64;
                pieces.add_fields(&block[EXTENSION_FIELDS])?;
                more = block[EXTENSION_MORE] != 0;
            }
            let data_len = if is_star {
                // The blocks count as data.
                stored_len.checked_sub(map_len).ok_or("its map of holes is longer than its data")?
            } else {
                self.next = self.next.checked_add(map_len).ok_or("its length is beyond 64 bits")?;
                stored_len
            };
            let len = records.real_len.unwrap_or(first.len);
            return Ok(Some(pieces.finish(len, data_len)?));
        }
        match (records.major, records.minor) {
            (Some(1), Some(0)) => {
                let mut lines = Lines::default();
                while !lines.add(&self.map_block()?)? {}
                let map_len = lock(&self.stream).offset - data_start;
                let data_len = stored_len.checked_sub(map_len);
                let data_len = data_len.ok_or("its map of holes is longer than its data")?;
                let len = records.real_len.ok_or("it has a map of holes but no real length")?;
                Ok(Some(lines.pieces()?.finish(len, data_len)?))
            }
            (None | Some(0), _) if records.has_map => {
                let len = records.real_len.ok_or("it has a map of holes but no real length")?;
                Ok(Some(Pieces::of_numbers(&records.numbers)?.finish(len, stored_len)?))
            }
            (None | Some(0), _) => Ok(None),
            (Some(major), minor) => {
                let minor = minor.unwrap_or(0);
                Err(format!("maps of holes of version {major}.{minor} are not known"))
            }
        }
    }

    /// A block of a map; `next` stays, as it was counted as data.
    fn map_block(&mut self) -> Result<Block, String> {
        let mut block = [0; BLOCK_LEN];
        let read = lock(&self.stream).read_exact(&mut block);
        read.map_err(|error| cut(&error).what)?;
        Ok(block)
    }
}

impl Source for TarSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
        if self.is_done {
            return Ok(None);
        }
        let entry = self.advance().map_err(|error| error.into_source(&self.name))?;
        self.is_done = entry.is_none();
        Ok(entry)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}

/// What an entry is.
enum EntryKind {
    Inode(InodeKind),
    HardLink,
    /// Nothing to keep.
    Skipped,
}

fn volumes() -> ForeignError {
    fault(
        "it is a volume of an archive of several. Join them with GNU tar or star first: what they \
         extract can be packed",
    )
}

/// What the system or the decompressor said.
fn cut(error: &io::Error) -> ForeignError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => fault("it ends too early: it was cut"),
        _ => fault(format!("cannot read on: {error}")),
    }
}

fn stored_len(header: &Header) -> Result<u64, String> {
    match header.stored_len {
        Ok(len) => u64::try_from(len).map_err(|_| format!("its length is {len}")),
        Err(what) => Err(format!("its length {what}")),
    }
}

fn metadata(header: &Header, pax: &Pax, kind: InodeKind) -> Result<Metadata, String> {
    let id = |given: Option<u32>, field: super::header::Number, what: &str| match (given, field) {
        (Some(id), _) => Ok(id),
        (None, Ok(id)) => u32::try_from(id).map_err(|_| format!("its {what} is {id}")),
        (None, Err(error)) => Err(format!("its {what} {error}")),
    };
    let mtime = match (pax.mtime, header.mtime) {
        (Some(time), _) => time,
        (None, Ok(sec)) => seconds(sec),
        (None, Err(error)) => return Err(format!("its mtime {error}")),
    };
    let device = match kind {
        InodeKind::BlockDevice | InodeKind::CharDevice => {
            if header.dialect == Dialect::OldStar {
                return Err("devices of the first format of star are not known".to_owned());
            }
            device_number(
                id(pax.device_major, header.device_major, "major device number")?,
                id(pax.device_minor, header.device_minor, "minor device number")?,
            )
        }
        _ => 0,
    };
    let time = |given: Option<Timestamp>, field: Option<i64>| {
        given.or(field.map(seconds)).unwrap_or_default()
    };
    Ok(Metadata {
        kind,
        // A link has no permissions of its own; Linux shows all.
        permissions: if kind == InodeKind::Symlink { 0o777 } else { header.mode },
        uid: id(pax.uid, header.uid, "owner")?,
        gid: id(pax.gid, header.gid, "group")?,
        mtime,
        atime: time(pax.atime, header.atime),
        ctime: time(pax.ctime, header.ctime),
        btime: pax.btime.unwrap_or_default(),
        len: 0,
        device,
    })
}

fn metadata_of_link(kind: InodeKind) -> Metadata {
    Metadata {
        kind,
        permissions: 0,
        uid: 0,
        gid: 0,
        mtime: Timestamp::default(),
        atime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        len: 0,
        device: 0,
    }
}

fn xattrs(pax: &Pax) -> Result<Vec<Xattr>, String> {
    if pax.has_nfs4_acl {
        return Err("it has an access control list of NFSv4, which Linux cannot keep".to_owned());
    }
    let mut xattrs = pax.xattrs.clone();
    // Where the bytes are there as well, they are what was.
    if let Some(text) = &pax.acl_access
        && !xattrs.contains_key(ACL_ACCESS)
        && let Some(list) = acl::from_text(text)?
    {
        xattrs.insert(ACL_ACCESS.to_vec(), list);
    }
    if let Some(text) = &pax.acl_default
        && !xattrs.contains_key(ACL_DEFAULT)
        && let Some(list) = acl::default_from_text(text)?
    {
        xattrs.insert(ACL_DEFAULT.to_vec(), list);
    }
    Ok(xattrs.into_iter().map(|(name, value)| Xattr { name, value }).collect())
}
