//! A 7z archive as a source.
//!
//! The library gives entries to a function that it calls, in the order in which they are stored. It
//! runs in a thread of its own, which hands over what it decompresses. Names, lengths and checksums
//! are checked there. A block that cannot be decompressed is a problem of its entries, and the next
//! block is read.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use sevenz_rust2::{Archive, ArchiveEntry, BlockDecoder, Error, Password};
use shale_format::limits::LINK_TARGET_LEN_MAX;
use shale_model::{
    Content, EntrySource, InodeKind, Metadata, Problem, ProblemKind, Select, SourceEntry,
    SourceError, Timestamp,
};

use crate::decompress::{Decoding, needs_memory};
use crate::error::ForeignError;
use crate::handed::{self, Handed, Message, Next, PIECE_LEN, SMALL_LEN_MAX};
use crate::identity::Identities;
use crate::lacks;
use crate::names;
use crate::selection::Selection;
use crate::tree::{ImageFile, Seekable, seed_of};
use crate::zip::from_windows;

const FORMAT: &str = "7z archive";
/// First bytes of an archive.
pub(crate) const MAGIC: &[u8] = b"7z\xbc\xaf\x27\x1c";
/// Memory for the headers, which are decompressed as a whole: those of three million files. No
/// length that a header claims takes an import past 256 MiB.
const HEADERS_KIB_MAX: usize = 192 << 10;
/// The high half of the attributes is a mode of Unix.
const ATTRIBUTE_UNIX: u32 = 0x8000;
const ATTRIBUTE_READ_ONLY: u32 = 1;
const ATTRIBUTE_LINK: u32 = 0x400;

const WRONG_PASSWORD: &str = "the password is wrong, or it is corrupt";

/// A 7z archive that is read.
pub(crate) struct SevenzSource {
    seed: [u8; 32],
    selection: Selection,
    archive: Arc<Archive>,
    content_bytes: u64,
    /// The next entry without content.
    next_empty: usize,
    handed: Handed,
    identities: Identities,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for SevenzSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SevenzSource").finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

/// Opens an archive. `seed` are bytes that stand for the file.
///
/// # Errors
/// The headers cannot be read.
pub(crate) fn open(
    name: &Path,
    file: ImageFile,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
    decoding: &Decoding,
) -> Result<SevenzSource, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let name = name.as_os_str().as_bytes().to_vec();
    let failed = |what: String| fault(what).into_source(&name);
    let has_password = decoding.password.is_some();
    let memory_kib_max = usize::try_from(decoding.memory_len_max >> 10).unwrap_or(usize::MAX);
    let password = match decoding.password.as_deref().map(std::str::from_utf8) {
        None => Password::empty(),
        Some(Ok(password)) => Password::from(password),
        Some(Err(_)) => return Err(failed("the password is not valid UTF-8".to_owned())),
    };
    let file = Arc::new(file);
    let mut input = Seekable::new(&file);
    let read = guarded(|| Archive::read_with_memory_limit(&mut input, &password, HEADERS_KIB_MAX));
    let archive = read.map_err(|error| failed(in_words(&error, has_password)))?;
    let archive = Arc::new(archive);
    let (sender, handed) = handed::channel(FORMAT);
    let of_thread = Arc::clone(&archive);
    let thread = std::thread::Builder::new().name("shale-7z".to_owned());
    let run = move || {
        decode(&of_thread, input, &password, memory_kib_max, has_password, &sender);
    };
    thread.spawn(run).map_err(|error| SourceError::Unreadable { path: name.clone(), error })?;
    let sizes = archive.files.iter().filter(|file| file.has_stream).map(|file| file.size);
    Ok(SevenzSource {
        seed: seed_of("7z", seed),
        selection: Selection::new(select),
        content_bytes: sizes.fold(0, u64::saturating_add),
        archive,
        next_empty: 0,
        handed,
        identities: Identities::default(),
        problems: Vec::new(),
    })
}

/// A call of the library. It is a fault of its own if it panics, and an error all the same.
fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Error::Other("corrupt".into())))
}

/// The error of the library in words.
fn in_words(error: &Error, has_password: bool) -> String {
    match error {
        Error::PasswordRequired => lacks::PASSWORD.to_owned(),
        Error::MaybeBadPassword(_) if has_password => WRONG_PASSWORD.to_owned(),
        Error::MaybeBadPassword(_) => lacks::PASSWORD.to_owned(),
        Error::ChecksumVerificationFailed | Error::NextHeaderCrcMismatch if has_password => {
            WRONG_PASSWORD.to_owned()
        }
        Error::ChecksumVerificationFailed | Error::NextHeaderCrcMismatch => {
            "corrupt: its bytes do not have its checksum".to_owned()
        }
        Error::UnsupportedCompressionMethod(method) => {
            format!(
                "the compression method {method} is not supported; unpack it with 7z and pack the \
                 files"
            )
        }
        Error::Unsupported(what) => {
            format!("{what} is not supported; unpack it with 7z and pack the files")
        }
        Error::MaxMemLimited { max_kb, actaul_kb } => {
            needs_memory((*actaul_kb as u64) << 10, (*max_kb as u64) << 10)
        }
        Error::Io(error, _) if error.raw_os_error().is_some() => error.to_string(),
        Error::Io(error, _) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it ends too early: it was cut or is corrupt".to_owned()
        }
        _ if has_password => WRONG_PASSWORD.to_owned(),
        _ => "corrupt".to_owned(),
    }
}

/// Hands over all entries with contents, until nobody takes them any more.
fn decode(
    archive: &Archive,
    mut input: Seekable,
    password: &Password,
    memory_kib_max: usize,
    has_password: bool,
    sender: &SyncSender<Message>,
) {
    for block in 0..archive.blocks.len() {
        let decoder = BlockDecoder::new_with_memory_limit(
            1,
            memory_kib_max,
            block,
            archive,
            password,
            &mut input,
        );
        let first = archive.stream_map.block_first_file_index.get(block).copied().unwrap_or(0);
        let count = decoder.entry_count();
        let mut done = 0;
        let mut is_wanted = true;
        let result = guarded(|| {
            decoder.for_each_entries(&mut |_, reader| {
                let number = first + done;
                is_wanted = hand_over(number, reader, has_password, sender);
                done += 1;
                Ok(is_wanted)
            })
        });
        if !is_wanted {
            return;
        }
        if let Err(error) = result {
            let what = in_words(&error, has_password);
            let lost = Message::Lost(first + done.min(count)..first + count, what);
            if sender.send(lost).is_err() {
                return;
            }
        }
    }
}

/// Hands over one entry; false if nobody takes it.
fn hand_over(
    number: usize,
    reader: &mut dyn Read,
    has_password: bool,
    sender: &SyncSender<Message>,
) -> bool {
    if sender.send(Message::Entry(number)).is_err() {
        return false;
    }
    loop {
        let mut piece = vec![0; PIECE_LEN];
        let message = match reader.read(&mut piece) {
            Ok(0) => Message::End(Ok(())),
            Ok(len) => {
                piece.truncate(len);
                Message::Bytes(piece)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Message::End(Err(match error.raw_os_error() {
                Some(_) => error.to_string(),
                None if has_password => WRONG_PASSWORD.to_owned(),
                None => "corrupt: it cannot be decompressed, or does not have its checksum".into(),
            })),
        };
        let is_end = matches!(message, Message::End(_));
        if sender.send(message).is_err() {
            return false;
        }
        if is_end {
            return true;
        }
    }
}

impl SevenzSource {
    /// The next entry, or none at the end.
    fn advance(&mut self) -> Option<SourceEntry> {
        // Directories and empty files need no decompression, and directories come first.
        while let Some(file) = self.archive.files.get(self.next_empty).cloned() {
            self.next_empty += 1;
            if !file.has_stream && !file.is_anti_item {
                match self.entry(&file, None) {
                    Ok(Some(entry)) => return Some(entry),
                    Ok(None) => {}
                    Err(what) => self.leave_out(&file, what),
                }
            }
        }
        loop {
            match self.handed.next()? {
                Next::Entry(number) => {
                    let Some(file) = self.archive.files.get(number).cloned() else { continue };
                    if !file.has_stream {
                        continue;
                    }
                    match self.entry(&file, Some(())) {
                        Ok(Some(entry)) => return Some(entry),
                        Ok(None) => {}
                        Err(what) => self.leave_out(&file, what),
                    }
                }
                Next::Lost(lost, what) => {
                    let lost: Vec<ArchiveEntry> =
                        self.archive.files.get(lost).unwrap_or_default().to_vec();
                    for file in lost.iter().filter(|file| file.has_stream) {
                        self.leave_out(file, what.clone());
                    }
                }
            }
        }
    }

    fn leave_out(&mut self, file: &ArchiveEntry, what: String) {
        let kind = ProblemKind::Unreadable(what);
        self.problems.push(Problem { path: names::cut(file.name.as_bytes()), kind });
    }

    fn entry(
        &mut self,
        file: &ArchiveEntry,
        content: Option<()>,
    ) -> Result<Option<SourceEntry>, String> {
        let path = names::relative(file.name.as_bytes())?;
        let kind = kind(file)?;
        if !self.selection.takes(&path, kind) {
            return Ok(None);
        }
        self.identities.check_above(&path)?;
        let mut entry = SourceEntry {
            metadata: metadata(file, kind),
            path,
            xattrs: Arc::default(),
            link: None,
            target: Vec::new(),
            content: Content::None,
        };
        if content.is_some() {
            let reader = self.handed.contents(file.size);
            match kind {
                InodeKind::Symlink if file.size > LINK_TARGET_LEN_MAX as u64 => {
                    return Err(format!("its link target has {} bytes", file.size));
                }
                InodeKind::Symlink => entry.target = reader.whole()?,
                InodeKind::File => {
                    entry.metadata.len = file.size;
                    entry.content = match file.size {
                        0 => Content::None,
                        1..=SMALL_LEN_MAX => Content::Bytes(reader.whole()?),
                        _ => Content::Reader { reader: Box::new(reader), holes: Vec::new() },
                    };
                }
                _ => return Err("it is not a file but has content".to_owned()),
            }
        } else if kind == InodeKind::Symlink {
            return Err("it is a symbolic link without a target".to_owned());
        }
        self.identities.add(&entry.path, kind);
        Ok(Some(entry))
    }
}

fn mode(file: &ArchiveEntry) -> Option<u32> {
    let attributes = file.windows_attributes;
    let has_mode = file.has_windows_attributes && attributes & ATTRIBUTE_UNIX != 0;
    has_mode.then_some(attributes >> 16)
}

fn kind(file: &ArchiveEntry) -> Result<InodeKind, String> {
    if file.is_directory {
        return Ok(InodeKind::Directory);
    }
    match mode(file) {
        None if file.has_windows_attributes && file.windows_attributes & ATTRIBUTE_LINK != 0 => {
            Err("it is a link of Windows, which is not supported".to_owned())
        }
        None => Ok(InodeKind::File),
        Some(mode) => match InodeKind::from_mode(mode) {
            Some(kind @ (InodeKind::File | InodeKind::Symlink)) => Ok(kind),
            // What 7z reads from a pipe.
            Some(InodeKind::Fifo) if file.has_stream => Ok(InodeKind::File),
            Some(InodeKind::Fifo) => Ok(InodeKind::Fifo),
            Some(InodeKind::Socket) => Ok(InodeKind::Socket),
            Some(InodeKind::Directory) => Err("it is a directory and a file".to_owned()),
            Some(_) => {
                Err("it is a device, and 7z does not store the number of a device".to_owned())
            }
            None => Err(format!("an entry of mode {mode:o} is of no known kind")),
        },
    }
}

fn metadata(file: &ArchiveEntry, kind: InodeKind) -> Metadata {
    let is_read_only =
        file.has_windows_attributes && file.windows_attributes & ATTRIBUTE_READ_ONLY != 0;
    let usual = match (kind, is_read_only) {
        (InodeKind::Directory, false) => 0o755,
        (InodeKind::Directory, true) => 0o555,
        (_, false) => 0o644,
        (_, true) => 0o444,
    };
    let time = |is_there: bool, time: sevenz_rust2::NtTime| match is_there {
        true => from_windows(u64::from(time)),
        false => Timestamp::default(),
    };
    Metadata {
        kind,
        permissions: match kind {
            InodeKind::Symlink => 0o777,
            _ => mode(file).map_or(usual, |mode| mode & 0o7777),
        },
        uid: 0,
        gid: 0,
        mtime: time(file.has_last_modified_date, file.last_modified_date),
        atime: time(file.has_access_date, file.access_date),
        ctime: Timestamp::default(),
        btime: time(file.has_creation_date, file.creation_date),
        len: 0,
        device: 0,
    }
}

impl EntrySource for SevenzSource {
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
}
