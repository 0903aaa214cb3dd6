//! A RAR archive as a source.
//!
//! All headers are read when it is opened. The library decompresses entries in the order in which
//! they are stored and writes them; it runs in a thread of its own, which hands over. Lengths and
//! checksums are compared there. An entry that cannot be decompressed is a problem; in a solid
//! archive so are all entries after it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rars::{
    Archive, ArchiveMember, ArchiveMemberDetail, ArchiveReadOptions, ArchiveReader, Error,
    ErrorKind, ExtractionDecision, ExtractionErrorAction, rar15_40, rar50,
};
use shale_format::limits::LINK_TARGET_LEN_MAX;
use shale_model::{
    Content, EntrySource, InodeKind, Problem, ProblemKind, Select, SourceEntry, SourceError,
};

use super::FORMAT;
use super::headers::{self, Kind};
use crate::decompress::{Decoding, needs_memory};
use crate::error::ForeignError;
use crate::handed::{self, Handed, Message, Next, PIECE_LEN, SMALL_LEN_MAX};
use crate::identity::Identities;
use crate::lacks;
use crate::names;
use crate::selection::Selection;
use crate::tree::{ImageFile, Seekable, seed_of};

/// What a decompressor may need beside the dictionary that an archive asks for.
const WORKSPACE_LEN_MAX: u64 = 256 << 20;
/// Contents that a filter of the archive changes as a whole are held in memory up to here.
const BUFFERED_LEN_MAX: u64 = 8 << 20;
/// Headers that are read into memory.
const HEADERS_LEN_MAX: u64 = 256 << 20;
/// Entries that end a decompression, which then begins anew after them.
const RESTARTS_MAX: usize = 100;

const WRONG_PASSWORD: &str = "the password is wrong, or it is corrupt";

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

/// An entry, as far as its headers tell.
#[derive(Clone)]
struct Member {
    member: ArchiveMember,
    path: Result<Vec<u8>, String>,
    kind: Result<Kind, String>,
    owner: (u32, u32),
    len: Option<u64>,
    is_checked: bool,
    /// The rules take it, so that it is decompressed.
    is_wanted: bool,
}

/// A RAR archive that is read.
pub(crate) struct RarSource {
    seed: [u8; 32],
    members: Arc<Vec<Member>>,
    content_bytes: u64,
    /// The next entry without content.
    next_empty: usize,
    handed: Handed,
    identities: Identities,
    /// Hard links, which need what they lead to.
    links: Vec<usize>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for RarSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RarSource").finish_non_exhaustive()
    }
}

/// Opens an archive. `seed` are bytes that stand for the file.
///
/// # Errors
/// The headers cannot be read, or the archive is one volume of several.
pub(crate) fn open(
    name: &Path,
    file: ImageFile,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
    decoding: Decoding,
) -> Result<RarSource, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let name = name.as_os_str().as_bytes().to_vec();
    let failed = |what: String| fault(what).into_source(&name);
    let has_password = decoding.password.is_some();
    let file = Arc::new(file);
    let options = ArchiveReadOptions::with_optional_password(decoding.password.as_deref())
        .with_max_header_bytes(HEADERS_LEN_MAX);
    let input = Seekable::new(&file);
    let read = guarded(|| ArchiveReader::read_reader_with_options(input, options));
    let archive = read.map_err(|error| failed(in_words(&error, has_password)))?;
    if is_volume(&archive) {
        let what = "it is one volume of several, which is not supported; unpack all of them with \
                    unrar, and pack the files";
        return Err(failed(what.to_owned()));
    }
    let mut members = members(&archive, &file, select);
    let copies = resolve(&mut members);
    let lens = members.iter().filter(|member| member.is_wanted).filter_map(|member| member.len);
    let content_bytes = lens.fold(0, u64::saturating_add);
    let warnings = warnings(&archive, &members);
    let members = Arc::new(members);
    let (sender, handed) = handed::channel(FORMAT);
    let thread = std::thread::Builder::new().name("shale-rar".to_owned());
    let run = Run { archive, members: Arc::clone(&members), copies, decoding, sender };
    thread
        .spawn(move || run.decode())
        .map_err(|error| SourceError::Unreadable { path: name.clone(), error })?;
    Ok(RarSource {
        seed: seed_of("rar", seed),
        members,
        content_bytes,
        next_empty: 0,
        handed,
        identities: Identities::default(),
        links: Vec::new(),
        problems: Vec::new(),
        warnings,
    })
}

/// A call of the library. It is a fault of its own if it panics, and an error all the same.
fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let caught = catch_unwind(AssertUnwindSafe(call));
    caught.unwrap_or(Err(Error::InvalidHeader("the decompressor failed")))
}

/// The error of the library in words.
fn in_words(error: &Error, has_password: bool) -> String {
    match error.root_cause() {
        Error::Rar50DictionaryLimitExceeded { limit, required } => {
            return needs_memory(*required, *limit);
        }
        Error::TooShort => return "it ends too early: it was cut or is corrupt".to_owned(),
        Error::Io(error) if error.kind == io::ErrorKind::UnexpectedEof => {
            return "it ends too early: it was cut or is corrupt".to_owned();
        }
        Error::HeaderBytesLimitExceeded { .. } => {
            return format!("its headers have more than {} MiB", HEADERS_LEN_MAX >> 20);
        }
        _ => {}
    }
    match error.kind() {
        ErrorKind::PasswordRequired => lacks::PASSWORD.to_owned(),
        ErrorKind::BadPassword if has_password => WRONG_PASSWORD.to_owned(),
        ErrorKind::ChecksumMismatch if has_password => {
            "its bytes do not have its checksum: it is corrupt, or the password is wrong".to_owned()
        }
        ErrorKind::ChecksumMismatch => "corrupt: its bytes do not have its checksum".to_owned(),
        ErrorKind::UnsupportedFormat | ErrorKind::UnsupportedFeature => {
            format!(
                "not supported: {}; unpack it with unrar and pack the files",
                error.root_cause()
            )
        }
        ErrorKind::ResourceLimit => "it needs more memory than is allowed for decompression".into(),
        ErrorKind::Io => error.root_cause().to_string(),
        _ => "corrupt".to_owned(),
    }
}

fn is_volume(archive: &Archive) -> bool {
    let is_part = match archive {
        Archive::Rar15To40(archive) => archive.main.is_volume(),
        Archive::Rar50Plus(archive) => {
            let next = archive
                .blocks
                .iter()
                .any(|block| matches!(block, rar50::Block::End(end) if end.has_next_volume()));
            archive.main.is_volume() || next
        }
        _ => false,
    };
    is_part || archive.members().any(|m| m.meta.is_split_before || m.meta.is_split_after)
}

/// All entries in their order.
fn members(archive: &Archive, file: &ImageFile, select: Option<Arc<dyn Select>>) -> Vec<Member> {
    let mut selection = Selection::new(select);
    let start = archive.sfx_offset() as u64;
    let is_readable = !archive.as_rar50().is_some_and(|archive| archive.main.encrypted_headers);
    let found = archive.member_refs().map(|reference| {
        let member = reference.to_owned();
        let (path, kind) = (headers::path(&member), headers::kind(&member));
        let is_wanted = match (&path, &kind) {
            (Ok(path), Ok(kind)) => selection.takes(path, kind.inode()),
            _ => false,
        };
        let (mut owner, mut len) = ((0, 0), Some(member.meta.unpacked_size));
        if let rars::ArchiveMemberRef::Rar50Plus(header) = reference {
            len = header.known_unpacked_size();
            let block = &header.block;
            let at = start.saturating_add(block.offset as u64);
            if let Some(extra_len) = block.extra_area_size.filter(|_| is_readable)
                && let Some(bytes) = headers::header(file, at, block.header_size)
            {
                owner = headers::owner(&bytes, extra_len);
            }
        }
        let is_checked = match &member.detail {
            ArchiveMemberDetail::Rar50Plus { crc32, hash, .. } => crc32.is_some() || hash.is_some(),
            _ => true,
        };
        Member { member, path, kind, owner, len, is_checked, is_wanted }
    });
    found.collect()
}

/// Leaves out what a later entry of its path replaces, and finds what links and copies lead to.
/// Returns the entries that are copies, and of which entries.
///
/// Contents come in their order and everything else apart, so that the order in which entries come
/// does not tell what replaces what.
fn resolve(members: &mut [Member]) -> HashMap<usize, usize> {
    let mut last: HashMap<Vec<u8>, usize> = HashMap::new();
    for number in 0..members.len() {
        let Ok(path) = members[number].path.clone() else { continue };
        let kind = |number: usize| members[number].kind.as_ref().map(Kind::inode).ok();
        if let Some(earlier) = last.insert(path, number)
            && kind(earlier) == kind(number)
            && kind(number) != Some(InodeKind::Directory)
        {
            members[earlier].is_wanted = false;
        }
    }
    let mut copies = HashMap::new();
    for number in 0..members.len() {
        let (Ok(Kind::HardLink(target)) | Ok(Kind::Copy(target))) = &members[number].kind else {
            continue;
        };
        let found = names::relative(target).ok().and_then(|path| last.get(&path).copied());
        let is_file = |&found: &usize| {
            found < number && matches!(members[found].kind, Ok(Kind::Inode(InodeKind::File)))
        };
        let shown = names::shown(target);
        match (found.filter(is_file), &members[number].kind) {
            (None, _) => {
                members[number].kind = Err(format!(
                    "it has the content of {shown}, which does not precede it in the archive or \
                     is replaced after it"
                ));
            }
            (Some(original), Ok(Kind::Copy(_))) => {
                members[number].len = members[original].len;
                match members[original].len {
                    Some(0) => members[number].kind = Ok(Kind::Inode(InodeKind::File)),
                    _ => drop(copies.insert(number, original)),
                }
            }
            _ => {}
        }
    }
    copies
}

/// What is worth a warning about the archive as a whole.
fn warnings(archive: &Archive, members: &[Member]) -> Vec<String> {
    let (mut has_end, mut lost) = (false, 0);
    match archive {
        Archive::Rar50Plus(archive) => {
            for block in &archive.blocks {
                match block {
                    rar50::Block::End(_) => has_end = true,
                    rar50::Block::Service(service) => {
                        lost += usize::from(matches!(&service.name[..], b"ACL" | b"STM"));
                    }
                    _ => {}
                }
            }
        }
        Archive::Rar15To40(archive) => {
            // Before version 3 there was no such record.
            has_end = members.is_empty();
            for block in &archive.blocks {
                match block {
                    rar15_40::Block::End(_) => has_end = true,
                    rar15_40::Block::NewSub(sub) => {
                        let name = &sub.file.name[..];
                        lost += usize::from(matches!(name, b"ACL" | b"STM" | b"UOW" | b"EA2"));
                    }
                    _ => {}
                }
            }
        }
        _ => has_end = true,
    }
    let mut warnings = Vec::new();
    if !has_end {
        let what = "the RAR archive has no record at its end; it may have been cut after its last \
                    entry";
        warnings.push(what.to_owned());
    }
    if lost > 0 {
        warnings.push(format!(
            "{lost} owners, streams and access control lists of other systems were not packed"
        ));
    }
    let lacks_sum = |m: &&Member| {
        !m.is_checked && m.is_wanted && matches!(m.kind, Ok(Kind::Inode(InodeKind::File)))
    };
    let unchecked = members.iter().filter(lacks_sum).count();
    if unchecked > 0 {
        warnings.push(format!("{unchecked} files of the RAR archive have no checksum"));
    }
    warnings
}

/// The thread that decompresses.
struct Run {
    archive: Archive,
    members: Arc<Vec<Member>>,
    /// Entries that are copies, and of which entries.
    copies: HashMap<usize, usize>,
    decoding: Decoding,
    sender: SyncSender<Message>,
}

/// What writers of contents and the loop over entries share.
struct Output {
    sender: SyncSender<Message>,
    piece: RefCell<Vec<u8>>,
    /// Nobody takes it any more.
    is_over: Cell<bool>,
}

impl Output {
    fn send(&self, message: Message) {
        if self.sender.send(message).is_err() {
            self.is_over.set(true);
        }
    }

    fn send_piece(&self) {
        let piece = self.piece.take();
        if !piece.is_empty() {
            self.send(Message::Bytes(piece));
        }
    }

    /// The entry that was begun is whole, or not.
    fn end(&self, result: Result<(), String>) {
        self.send_piece();
        self.send(Message::End(result));
    }
}

/// Takes the bytes of one entry.
struct Sink(Rc<Output>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.is_over.get() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut piece = self.0.piece.borrow_mut();
        let len = bytes.len().min(PIECE_LEN - piece.len());
        piece.extend_from_slice(&bytes[..len]);
        if piece.len() == PIECE_LEN {
            drop(piece);
            self.0.send_piece();
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Run {
    fn options(&self) -> ArchiveReadOptions<'_> {
        let memory_len_max = self.decoding.memory_len_max;
        ArchiveReadOptions::with_optional_password(self.decoding.password.as_deref())
            .with_rar50_dictionary_size_limit(memory_len_max)
            .with_rar50_buffered_decode_limit(BUFFERED_LEN_MAX)
            .with_max_reader_workspace_bytes(memory_len_max + WORKSPACE_LEN_MAX)
    }

    fn is_solid(&self) -> bool {
        let is_solid = match &self.archive {
            Archive::Rar15To40(archive) => archive.main.is_solid(),
            Archive::Rar50Plus(archive) => archive.main.is_solid(),
            _ => true,
        };
        is_solid || self.members.iter().any(|member| member.member.is_solid())
    }

    /// Hands over all contents, until nobody takes them any more.
    fn decode(&self) {
        let output = Rc::new(Output {
            sender: self.sender.clone(),
            piece: RefCell::default(),
            is_over: Cell::new(false),
        });
        let is_solid = self.is_solid();
        let mut start = 0;
        for _ in 0..RESTARTS_MAX {
            let (stopped_at, what) = match self.decode_from(start, is_solid, &output) {
                _ if output.is_over.get() => return,
                Ok(()) => return,
                Err(stopped) => stopped,
            };
            start = stopped_at + 1;
            if is_solid && start < self.members.len() {
                let what = format!("it cannot be decompressed without an entry before it: {what}");
                output.send(Message::Lost(start..self.members.len(), what));
                return;
            }
        }
        if start < self.members.len() {
            let what = "too many entries before it are corrupt".to_owned();
            output.send(Message::Lost(start..self.members.len(), what));
        }
    }

    /// Hands over contents from an entry on. Returns the entry at which the library gave up, and
    /// why.
    fn decode_from(
        &self,
        start: usize,
        is_solid: bool,
        output: &Rc<Output>,
    ) -> Result<(), (usize, String)> {
        let has_password = self.decoding.password.is_some();
        // The entry that the library is at, and whether the receiver knows of it.
        let (at, is_open) = (Cell::new(0), Cell::new(false));
        let count = Cell::new(0);
        let finish = |result: Result<(), String>| {
            if is_open.replace(false) {
                output.end(result);
            }
        };
        let decide = |_: &ArchiveMember| {
            finish(Ok(()));
            let number = count.replace(count.get() + 1);
            at.set(number);
            if output.is_over.get() {
                return Ok(ExtractionDecision::Stop);
            }
            let member = &self.members[number];
            let is_plain =
                matches!(member.kind, Ok(Kind::Inode(kind)) if kind != InodeKind::Directory);
            if number >= start && member.is_wanted {
                if is_plain && member.len != Some(0) {
                    output.send(Message::Entry(number));
                    is_open.set(true);
                    return Ok(ExtractionDecision::Extract(Box::new(Sink(Rc::clone(output)))));
                }
                if let Some(&original) = self.copies.get(&number) {
                    output.send(Message::Entry(number));
                    output.end(self.decode_one(original, is_solid, output));
                }
            }
            let is_file = !member.member.meta.is_directory && !member.member.meta.is_redirection;
            Ok(match is_solid && is_file {
                true => ExtractionDecision::Extract(Box::new(io::sink())),
                false => ExtractionDecision::Skip,
            })
        };
        let on_error = |_: &ArchiveMember, error: &Error| {
            finish(Err(in_words(error, has_password)));
            Ok(match output.is_over.get() {
                true => ExtractionErrorAction::Abort,
                false => ExtractionErrorAction::Continue,
            })
        };
        let options = self.options();
        let result =
            guarded(|| self.archive.extract_with_control_and_errors(options, decide, on_error));
        let result = result.map(drop).map_err(|error| in_words(&error, has_password));
        finish(result.clone());
        result.map_err(|what| (at.get(), what))
    }

    /// Hands over the content of one entry as that of another.
    fn decode_one(&self, wanted: usize, is_solid: bool, output: &Rc<Output>) -> Result<(), String> {
        if is_solid {
            return Err("it is stored as a copy of another file in a solid archive, which is not \
                        supported; unpack it with unrar and pack the files"
                .to_owned());
        }
        let mut number = 0;
        let decide = |_: &ArchiveMember| {
            number += 1;
            Ok(match (number - 1).cmp(&wanted) {
                std::cmp::Ordering::Less => ExtractionDecision::Skip,
                std::cmp::Ordering::Equal => {
                    ExtractionDecision::Extract(Box::new(Sink(Rc::clone(output))))
                }
                std::cmp::Ordering::Greater => ExtractionDecision::Stop,
            })
        };
        let result = guarded(|| self.archive.extract_with_control(self.options(), decide));
        result.map(drop).map_err(|error| in_words(&error, self.decoding.password.is_some()))
    }
}

impl RarSource {
    /// The next entry, or none at the end.
    fn advance(&mut self) -> Option<SourceEntry> {
        // What has no content needs no decompression, and directories come first.
        while self.next_empty < self.members.len() {
            let number = self.next_empty;
            self.next_empty += 1;
            let member = &self.members[number];
            let is_left_out = !member.is_wanted && member.path.is_ok() && member.kind.is_ok();
            let is_empty = match &member.kind {
                Ok(Kind::Inode(InodeKind::Directory) | Kind::Symlink(_)) | Err(_) => true,
                Ok(Kind::Inode(_)) => member.len == Some(0) || member.path.is_err(),
                Ok(Kind::HardLink(_)) => {
                    self.links.push(number);
                    false
                }
                Ok(Kind::Copy(_)) => member.path.is_err(),
            };
            if is_empty && !is_left_out {
                match self.entry(number, false) {
                    Ok(entry) => return Some(entry),
                    Err(what) => self.leave_out(number, what),
                }
            }
        }
        while let Some(next) = self.handed.next() {
            match next {
                Next::Entry(number) => match self.entry(number, true) {
                    Ok(entry) => return Some(entry),
                    Err(what) => self.leave_out(number, what),
                },
                Next::Lost(lost, what) => self.lose(lost, &what),
            }
        }
        self.links.reverse();
        while let Some(number) = self.links.pop() {
            if !self.members[number].is_wanted {
                continue;
            }
            match self.hard_link(number) {
                Ok(entry) => {
                    self.links.reverse();
                    return Some(entry);
                }
                Err(what) => self.leave_out(number, what),
            }
        }
        None
    }

    fn leave_out(&mut self, number: usize, what: String) {
        let path = names::cut(&self.members[number].member.meta.name);
        self.problems.push(Problem { path, kind: ProblemKind::Unreadable(what) });
    }

    /// The contents of these entries are lost.
    fn lose(&mut self, lost: Range<usize>, what: &str) {
        for number in lost {
            let member = &self.members[number];
            let has_content = match &member.kind {
                Ok(Kind::Inode(kind)) => *kind != InodeKind::Directory && member.len != Some(0),
                Ok(Kind::Copy(_)) => true,
                _ => false,
            };
            if member.is_wanted && has_content {
                self.leave_out(number, what.to_owned());
            }
        }
    }

    fn entry(&mut self, number: usize, has_content: bool) -> Result<SourceEntry, String> {
        let members = Arc::clone(&self.members);
        let member = &members[number];
        let (path, kind) = (member.path.clone()?, member.kind.clone()?);
        let inode = kind.inode();
        self.identities.check_above(&path)?;
        let mut entry = SourceEntry {
            metadata: headers::metadata(&member.member, inode, member.owner),
            xattrs: Arc::default(),
            link: None,
            target: Vec::new(),
            content: Content::None,
            path,
        };
        if let Kind::Symlink(target) = kind {
            entry.target = target;
        } else if has_content {
            let len = member.len.ok_or("its length is not stored, which is not supported")?;
            let reader = self.handed.contents(len);
            match inode {
                InodeKind::Symlink if len > LINK_TARGET_LEN_MAX as u64 => {
                    return Err(format!("its link target has {len} bytes"));
                }
                InodeKind::Symlink => entry.target = reader.whole()?,
                _ => {
                    entry.metadata.len = len;
                    entry.content = match len {
                        0..=SMALL_LEN_MAX => Content::Bytes(reader.whole()?),
                        _ => Content::Reader { reader: Box::new(reader), holes: Vec::new() },
                    };
                }
            }
        } else if inode == InodeKind::Symlink {
            return Err("it is a symbolic link without a target".to_owned());
        }
        let id = self.identities.add(&entry.path, inode);
        entry.link = (inode == InodeKind::File).then_some(id);
        Ok(entry)
    }

    fn hard_link(&mut self, number: usize) -> Result<SourceEntry, String> {
        let members = Arc::clone(&self.members);
        let member = &members[number];
        let (path, kind) = (member.path.clone()?, member.kind.clone()?);
        let Kind::HardLink(target) = kind else { return Err("corrupt".to_owned()) };
        self.identities.check_above(&path)?;
        let target = names::relative(&target)
            .map_err(|what| format!("it is a hard link whose target cannot be: {what}"))?;
        let shown = names::shown(&target);
        let (id, kind) = self
            .identities
            .find(&target)
            .ok_or_else(|| format!("it is a hard link to {shown}, which was not packed"))?;
        if kind != InodeKind::File {
            return Err(format!("it is a hard link to {shown}, which is not a file"));
        }
        self.identities.add_name(&path, id, kind);
        Ok(SourceEntry {
            path,
            // What the inode has is that of its first name.
            metadata: headers::metadata(&member.member, InodeKind::File, member.owner),
            xattrs: Arc::default(),
            link: Some(id),
            target: Vec::new(),
            content: Content::None,
        })
    }
}

impl EntrySource for RarSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn content_bytes_max(&self) -> Option<u64> {
        Some(self.content_bytes)
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        Ok(self.advance())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
