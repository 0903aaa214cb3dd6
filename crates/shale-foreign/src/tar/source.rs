//! A tar archive as a source, read once from front to back.
//!
//! The archive may be a pipe. Nothing is unpacked: small contents are held in memory, large ones
//! are handed over while they are read. Memory is that, 40 bytes an entry for hard links, and what
//! an extended header says, at most [`HEADER_LEN_MAX`].
//!
//! Names lose their leading slashes and dots. Owners are the numbers in the archive, never looked
//! up by name. A later entry replaces an earlier one of its path, and what was linked to the
//! earlier one stays. Archives one after the other are one. An archive without the mark of its end
//! is taken with a warning, as nobody can tell it from one that was cut between two entries.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use shale_codec::stream::StreamFormat;
use shale_format::inode::device_number;
use shale_format::{InodeKind, Timestamp};
use shale_model::{Content, LinkId, Metadata, Xattr};
use shale_model::{EntrySource, Problem, ProblemKind, Select, SourceEntry, SourceError};

use super::header::{BLOCK_LEN, Block, Dialect, Header, Number, is_header, is_tar, seconds};
use super::pax::Pax;
use super::sparse::{self, EXTENSION_FIELDS, EXTENSION_MORE, Lines, Pieces, SparseMap};
use crate::compression::Compression;
use crate::error::ForeignError;
use crate::identity::Identities;
use crate::selection::Selection;
use crate::stream::{Input, SharedStream, unreadable};
use crate::{acl, names};

const FORMAT: &str = "tar archive";
/// Bytes of one extended header: the attributes of one entry, and more than any system keeps.
const HEADER_LEN_MAX: u64 = 64 << 20;
/// Bytes of a long name of GNU.
const NAME_LEN_MAX: u64 = 1 << 20;
/// Contents up to this length are held in memory; the pipeline would hold them anyway.
const SMALL_LEN_MAX: u64 = 1 << 20;
/// Bytes of an empty archive: only zeroes, up to the largest block of a tape. More of them are an
/// empty disk, not an archive.
const EMPTY_LEN_MAX: u64 = 1 << 20;
/// Bytes that global headers may set for all entries after them, and attributes among those. Each
/// entry with a header of its own costs a copy of them; writers set a few.
const GLOBAL_LEN_MAX: usize = 64 << 10;
const GLOBAL_XATTR_COUNT_MAX: usize = 256;

/// Where Linux keeps access control lists.
const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// How an archive is read.
#[derive(Clone, Default)]
pub struct TarOptions {
    /// More bytes for the seed, such as samples of the archive's file.
    pub seed: Vec<u8>,
    /// What is taken; everything without. The root is not asked for.
    pub select: Option<Arc<dyn Select>>,
}

/// A tar archive that is read.
pub struct TarSource {
    /// What errors call the archive.
    name: Vec<u8>,
    selection: Selection,
    stream: SharedStream,
    seed: [u8; 32],
    global: Arc<Pax>,
    identities: Identities,
    problems: Vec<Problem>,
    warnings: Vec<String>,
    /// Where the next header is.
    next: u64,
    /// The entry before that.
    last_path: Vec<u8>,
    /// A header was met, so this is an archive.
    any_header: bool,
    is_done: bool,
}

impl std::fmt::Debug for TarSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TarSource").field("next", &self.next).finish_non_exhaustive()
    }
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
    /// The global records and those of headers for this entry; none without such a header.
    pax: Option<Pax>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl TarSource {
    /// Begins to read an archive, in a thread that reads ahead and decompresses. `name` is what
    /// errors call it.
    ///
    /// # Errors
    /// The beginning cannot be read, or is not that of a tar archive.
    pub fn new(
        name: &Path,
        stream: Box<dyn Read + Send>,
        compression: Option<StreamFormat>,
        options: TarOptions,
    ) -> Result<Self, SourceError> {
        Self::read(Input::open(name, stream, compression.map(Compression::Stream))?, options)
    }

    /// Reads an archive whose beginning was read.
    ///
    /// # Errors
    /// The beginning is not that of a tar archive.
    pub fn read(input: Input, options: TarOptions) -> Result<Self, SourceError> {
        if !is_tar(&input.head) {
            let what = "it does not begin with a header";
            return Err(fault(what).at(0).into_source(&input.name));
        }
        Ok(Self {
            name: input.name.clone(),
            selection: Selection::new(options.select),
            seed: input.seed("tar", &options.seed),
            stream: input.into_stream(),
            global: Arc::default(),
            identities: Identities::default(),
            problems: Vec::new(),
            warnings: Vec::new(),
            next: 0,
            last_path: Vec::new(),
            any_header: false,
            is_done: false,
        })
    }

    /// Reads this many bytes of the archive, and continues after the block in which they end.
    fn take_bytes(&mut self, len: u64, len_max: u64, what: &str) -> Result<Vec<u8>, ForeignError> {
        if len > len_max {
            return Err(fault(format!("{what} of {len} bytes, {len_max} are allowed")));
        }
        let mut bytes = vec![0; len as usize];
        let mut stream = self.stream.lock();
        stream.read_exact(&mut bytes).map_err(|error| cut(&error))?;
        drop(stream);
        self.next = self.next.saturating_add(len.next_multiple_of(BLOCK_LEN as u64));
        Ok(bytes)
    }

    /// The next header; `None` at the end of the archive.
    fn next_header(&mut self) -> Result<Option<(Block, Header)>, ForeignError> {
        let mut zero_blocks = 0u64;
        loop {
            self.stream.lock().skip_to(self.next).map_err(|e| cut(&e).of(&self.last_path))?;
            let block_at = self.next;
            let Some(block) = self.block_or_end()? else {
                let zeroes_len = zero_blocks * BLOCK_LEN as u64;
                if !self.any_header && zeroes_len > EMPTY_LEN_MAX {
                    return Err(fault(format!(
                        "it is {zeroes_len} bytes of zeroes, not an archive"
                    )));
                }
                // One block of zeroes is what some programs write.
                if zero_blocks == 0 {
                    self.warnings.push(format!(
                        "{}: {}",
                        String::from_utf8_lossy(&self.name),
                        fault(
                            "it ends without the blocks of zeroes that mark its end, so it may \
                               have been cut after the last entry"
                        )
                    ));
                }
                return Ok(None);
            };
            if block.iter().all(|&byte| byte == 0) {
                zero_blocks += 1;
            } else if is_header(&block) {
                self.any_header = true;
                let header = Header::read(&block);
                return Ok(Some((block, header)));
            } else if zero_blocks >= 2 && self.any_header {
                // After the mark of the end, only another archive is of interest. What else is
                // there must still be read: whoever writes the pipe would see it break.
                io::copy(&mut *self.stream.lock(), &mut io::sink()).map_err(|e| cut(&e))?;
                return Ok(None);
            } else if self.any_header {
                return Err(fault("corrupt: here should be a header, but its checksum is wrong")
                    .at(block_at));
            } else {
                let what = "it begins with zeroes, as an empty archive does, but then has \
                            something that is not a tar header";
                return Err(fault(what).at(block_at));
            }
        }
    }

    /// A block, or nothing at the very end.
    fn block_or_end(&mut self) -> Result<Option<Block>, ForeignError> {
        let mut block = [0; BLOCK_LEN];
        let mut stream = self.stream.lock();
        let len = stream.read_up_to(&mut block).map_err(|error| cut(&error))?;
        match len {
            0 => Ok(None),
            BLOCK_LEN => {
                drop(stream);
                self.next = self.next.saturating_add(BLOCK_LEN as u64);
                Ok(Some(block))
            }
            _ => Err(fault("it ends within a block: it was cut")),
        }
    }

    /// The next entry. A problem with one entry alone is noted and the next one is taken.
    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        let mut before: Option<Before> = None;
        loop {
            let header_at = self.next;
            let Some((block, header)) = self.next_header().map_err(|e| e.at(header_at))? else {
                return match before {
                    None => Ok(None),
                    Some(_) => {
                        Err(fault("it ends after an extended header: it was cut").at(header_at))
                    }
                };
            };
            if header.type_flag == b'g' {
                self.read_global(&header).map_err(|e| e.at(header_at))?;
                continue;
            }
            if matches!(header.type_flag, b'x' | b'X' | b'L' | b'K' | b'A') {
                let before = before.get_or_insert_default();
                self.read_extension(&header, before).map_err(|e| e.at(header_at))?;
                continue;
            }
            match self.entry(&block, &header, before.take().unwrap_or_default()) {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {}
                Err(Wrong::Entry(path, kind)) => self.problems.push(Problem { path, kind }),
                Err(Wrong::Archive(error)) => return Err(error.at(header_at).of(&header.name)),
            }
        }
    }

    /// Takes in what belongs to the entry that follows.
    fn read_extension(&mut self, header: &Header, to: &mut Before) -> Result<(), ForeignError> {
        let len = stored_len(header).map_err(fault)?;
        match header.type_flag {
            b'L' => to.long_name = Some(self.long_name(len)?),
            b'K' => to.long_link = Some(self.long_name(len)?),
            b'A' => {
                let bytes = self.take_bytes(len, HEADER_LEN_MAX, "an access control list")?;
                let pax = to.pax.get_or_insert_with(|| Pax::clone(&self.global));
                pax.add_solaris_acl(&bytes).map_err(fault)?;
            }
            _ => {
                let bytes = self.take_bytes(len, HEADER_LEN_MAX, "an extended header")?;
                let pax = to.pax.get_or_insert_with(|| Pax::clone(&self.global));
                pax.is_local = true;
                pax.add(&bytes).map_err(fault)?;
            }
        }
        Ok(())
    }

    /// Takes in what holds for all entries that follow.
    fn read_global(&mut self, header: &Header) -> Result<(), ForeignError> {
        let len = stored_len(header).map_err(fault)?;
        let bytes = self.take_bytes(len, HEADER_LEN_MAX, "a global header")?;
        let global = Arc::make_mut(&mut self.global);
        global.add(&bytes).map_err(fault)?;
        if global.xattrs.len() > GLOBAL_XATTR_COUNT_MAX || global.kept_len() > GLOBAL_LEN_MAX {
            return Err(fault(format!(
                "global headers set more than {GLOBAL_XATTR_COUNT_MAX} attributes or \
                 {GLOBAL_LEN_MAX} bytes for all entries after them"
            )));
        }
        Ok(())
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
        let global = Arc::clone(&self.global);
        let pax = pax.as_ref().unwrap_or(&global);
        let given_path = pax.sparse.name.as_ref().or(pax.path.as_ref()).or(long_name.as_ref());
        let given_path = given_path.unwrap_or(&header.name);
        let stored_len = match pax.stored_len {
            Some(len) => len,
            None => stored_len(header).map_err(fault)?,
        };
        let kind = kind(header, given_path, pax)?;
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
            |what: String| Wrong::Entry(names::cut(given_path), ProblemKind::Unreadable(what));
        if matches!(kind, EntryKind::Skipped) {
            return Ok(None);
        }
        let path = names::relative(given_path).map_err(named)?;
        self.last_path.clone_from(&path);
        self.identities.check_above(&path).map_err(named)?;
        let target = pax.link_path.clone().or(long_link).unwrap_or(header.link_name.clone());
        if let EntryKind::HardLink = kind {
            if let Some((_, kind)) = self.find_target(&target)
                && !self.selection.takes(&path, kind)
            {
                return Ok(None);
            }
            return self.hard_link(path, &target, named).map(Some);
        }
        let EntryKind::Inode(kind) = kind else { return Ok(None) };
        if !self.selection.takes(&path, kind) {
            self.identities.add_left_out(&path, kind);
            return Ok(None);
        }

        let map = match kind {
            InodeKind::File => {
                let map = self.sparse_map(block, header, pax, stored_len, data_start);
                map.map_err(|what| fault(what).of(&path))?
            }
            _ => None,
        };
        let data_start = self.stream.lock().offset;
        let len = map.as_ref().map_or(stored_len, |map| map.len);
        let mut metadata =
            metadata(header, pax, kind).map_err(|what| Wrong::Archive(fault(what).of(&path)))?;
        let xattrs = xattrs(pax).map_err(named)?;
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
        let content = match kind {
            InodeKind::File => {
                metadata.len = len;
                let holes = map.map_or(Vec::new(), |map| map.holes);
                let data_len = len - holes.iter().map(|hole| hole.end - hole.start).sum::<u64>();
                let data = data_start..data_start.saturating_add(data_len);
                self.content(&path, len, holes, data).map_err(|error| cut(&error).of(&path))?
            }
            _ => Content::None,
        };
        let target = if kind == InodeKind::Symlink { target } else { Vec::new() };
        Ok(Some(SourceEntry { path, metadata, xattrs: xattrs.into(), link, target, content }))
    }

    /// The contents of small files are read at once.
    fn content(
        &mut self,
        path: &[u8],
        len: u64,
        holes: Vec<Range<u64>>,
        data: Range<u64>,
    ) -> io::Result<Content> {
        if len == 0 {
            return Ok(Content::None);
        }
        if len <= SMALL_LEN_MAX && holes.is_empty() {
            let mut bytes = vec![0; len as usize];
            self.stream.lock().read_exact(&mut bytes)?;
            return Ok(Content::Bytes(bytes));
        }
        let data_len = data.end - data.start;
        let reader = self.stream.content(FORMAT, path, data.start, data_len);
        Ok(Content::Reader { reader, holes })
    }

    fn find_target(&mut self, target: &[u8]) -> Option<(LinkId, InodeKind)> {
        self.identities.find(&names::relative(target).ok()?)
    }

    fn hard_link(
        &mut self,
        path: Vec<u8>,
        target: &[u8],
        named: impl Fn(String) -> Wrong,
    ) -> Result<SourceEntry, Wrong> {
        let target = names::relative(target)
            .map_err(|what| named(format!("it is a hard link whose target cannot be: {what}")))?;
        let shown = names::shown(&target);
        let (id, kind) = self.identities.find(&target).ok_or_else(|| {
            named(format!("it is a hard link to {shown}, which does not precede it in the archive"))
        })?;
        if kind == InodeKind::Directory {
            return Err(named(format!("it is a hard link to {shown}, a directory")));
        }
        if self.identities.is_left_out(id) {
            return Err(named(format!(
                "it is a hard link to {shown}, which has the content and is filtered out"
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
                let map_len = self.stream.lock().offset - data_start;
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
        let read = self.stream.lock().read_exact(&mut block);
        read.map_err(|error| cut(&error).what)?;
        Ok(block)
    }
}

impl EntrySource for TarSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
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

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// What an entry is.
enum EntryKind {
    Inode(InodeKind),
    HardLink,
    /// Nothing to keep.
    Skipped,
}

fn kind(header: &Header, path: &[u8], pax: &Pax) -> Result<EntryKind, ForeignError> {
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
            return Err(fault(format!("entries of type `{}` are not known", other.escape_ascii())));
        }
    }))
}

fn volumes() -> ForeignError {
    fault(
        "it is a volume of an archive of several. Join them with GNU tar or star first: what they \
         extract can be packed",
    )
}

/// What the system or the decompressor said.
fn cut(error: &io::Error) -> ForeignError {
    unreadable(FORMAT, error)
}

fn stored_len(header: &Header) -> Result<u64, String> {
    match header.stored_len {
        Ok(len) => u64::try_from(len).map_err(|_| format!("its length is {len}")),
        Err(what) => Err(format!("its length {what}")),
    }
}

fn metadata(header: &Header, pax: &Pax, kind: InodeKind) -> Result<Metadata, String> {
    let id = |given: Option<u32>, field: Number, what: &str| match (given, field) {
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
