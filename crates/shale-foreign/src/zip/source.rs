//! A zip archive as a source: all compression methods that are still made; encrypted entries;
//! Zip64; the extra fields of Info-ZIP and Windows.
//!
//! The directory at the end of the file says what the archive has. It is read once before anything
//! is taken from it, to compare it with itself; then each entry is compared with the header in
//! front of its data, and its bytes with their checksum. Other methods and everything that differs
//! are problems of the entry. Times of MS-DOS have no zone and are read as
//! UTC; they are used where nothing better is there.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use shale_codec::stream::Crc32;
use shale_model::{Content, InodeKind, Metadata};
use shale_model::{EntrySource, Problem, ProblemKind, Select, SourceEntry, SourceError};

use super::directory::{Directory, Entry};
use super::local;
use super::records::{FLAG_ENCRYPTED, FLAG_STRONG, METHOD_AES};
use super::{crypt, method};
use crate::decompress::{Decoding, Decompress};
use crate::error::ForeignError;
use crate::identity::Identities;
use crate::lacks;
use crate::names;
use crate::selection::Selection;
use crate::tree::{FileRange, ImageFile, seed_of};

const FORMAT: &str = "zip archive";
/// Contents up to this length are held in memory at once.
const SMALL_LEN_MAX: u64 = 1 << 20;

/// A zip archive that is read.
pub struct ZipSource {
    name: Vec<u8>,
    file: Arc<ImageFile>,
    selection: Selection,
    seed: [u8; 32],
    directory: Directory,
    /// Where the directory begins; all data lie before it.
    data_end: u64,
    /// Bytes of all contents, as the directory says.
    content_bytes: u64,
    decoding: Decoding,
    identities: Identities,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for ZipSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZipSource").field("directory", &self.directory).finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

impl ZipSource {
    /// Opens an archive and reads its directory. `seed` are bytes that stand for the file, such as
    /// samples of it.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] where the archive has no directory or one that cannot be right.
    pub fn new(
        name: &Path,
        file: ImageFile,
        seed: &[u8],
        select: Option<Arc<dyn Select>>,
    ) -> Result<Self, SourceError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let directory = Directory::find(&file).and_then(|directory| {
            let content_bytes = directory.survey(&file)?;
            Ok((directory, content_bytes))
        });
        let (directory, content_bytes) =
            directory.map_err(|what| fault(what).into_source(&name))?;
        Ok(Self {
            name,
            file: Arc::new(file),
            selection: Selection::new(select),
            seed: seed_of("zip", seed),
            data_end: directory.start(),
            directory,
            content_bytes,
            decoding: Decoding::new(None, None),
            identities: Identities::default(),
            problems: Vec::new(),
        })
    }

    /// Decrypts entries with a password, and bounds the memory of decompressors.
    #[must_use]
    pub(crate) fn decoding(mut self, decoding: Decoding) -> Self {
        self.decoding = decoding;
        self
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        while let Some(entry) = self.directory.entry(&self.file).map_err(fault)? {
            let given = names::cut(&entry.path);
            match self.entry(entry) {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {}
                Err(what) => {
                    let kind = ProblemKind::Unreadable(what);
                    self.problems.push(Problem { path: given, kind });
                }
            }
        }
        Ok(None)
    }

    fn entry(&mut self, mut entry: Entry) -> Result<Option<SourceEntry>, String> {
        let path = names::relative(&entry.path)?;
        let kind = kind(&entry)?;
        if !self.selection.takes(&path, kind) {
            return Ok(None);
        }
        self.identities.check_above(&path)?;
        let start = local::read(&self.file, &mut entry)?;
        let end = start.checked_add(entry.stored_len).filter(|&end| end <= self.data_end);
        let end = end.ok_or("its data lie beyond the directory: corrupt")?;
        let mut metadata = metadata(&entry, kind);
        let (mut target, mut content) = (Vec::new(), Content::None);
        match kind {
            InodeKind::File => {
                metadata.len = entry.len;
                let mut reader = self.open(&entry, start..end)?;
                content = match entry.len {
                    0 => read_all(&mut reader, 0).map(|_| Content::None)?,
                    1..=SMALL_LEN_MAX => Content::Bytes(read_all(&mut reader, entry.len)?),
                    _ => Content::Reader { reader, holes: Vec::new() },
                };
            }
            InodeKind::Symlink => {
                if entry.len > shale_format::limits::LINK_TARGET_LEN_MAX as u64 {
                    return Err(format!("its link target has {} bytes", entry.len));
                }
                target = read_all(&mut self.open(&entry, start..end)?, entry.len)?;
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                return Err("it is a device, and zip does not store the number of a device".into());
            }
            InodeKind::Directory if entry.len > 0 => {
                return Err(format!("it is a directory with {} bytes of content", entry.len));
            }
            InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => {}
        }
        self.identities.add(&path, kind);
        let xattrs = Arc::default();
        Ok(Some(SourceEntry { path, metadata, xattrs, link: None, target, content }))
    }

    /// The plain bytes of an entry. Length and checksum are compared at their end.
    fn open(
        &self,
        entry: &Entry,
        range: std::ops::Range<u64>,
    ) -> Result<Box<dyn Read + Send>, String> {
        if entry.len > shale_format::limits::FILE_LEN_MAX {
            return Err(format!("it has {} bytes, 2^63 - 1 are allowed", entry.len));
        }
        let (stored_len, stored) = (range.end - range.start, FileRange::new(&self.file, range));
        let mut has_checksum = true;
        let mut is_old_encrypted = false;
        let mut method = entry.method;
        let stored: Box<dyn Read + Send> = if entry.flags & FLAG_ENCRYPTED == 0 {
            Box::new(stored)
        } else if entry.flags & FLAG_STRONG != 0 {
            return Err("it is encrypted by PKZIP's strong encryption, which is not supported: \
                        unpack it with 7z and pack what comes out"
                .to_owned());
        } else {
            let password = self.decoding.password.as_deref().ok_or(lacks::PASSWORD)?;
            match entry.extra.aes.filter(|_| method == METHOD_AES) {
                Some(field) => {
                    method = field.method;
                    // Its sum of the encrypted bytes says more.
                    has_checksum = field.version == 1;
                    crypt::aes(field, password, stored, stored_len)?
                }
                None => {
                    let checks = [(entry.crc >> 24) as u8, (entry.dos_time >> 8) as u8];
                    is_old_encrypted = true;
                    crypt::old(password, checks, stored, stored_len)?
                }
            }
        };
        let plain =
            method::plain(method, entry.flags, entry.len, stored, self.decoding.memory_len_max)?;
        Ok(Box::new(Checked {
            plain,
            left: entry.len,
            crc: Crc32::new(),
            expected: has_checksum.then_some(entry.crc),
            is_checked: false,
            is_old_encrypted,
        }))
    }
}

fn kind(entry: &Entry) -> Result<InodeKind, String> {
    if entry.is_directory {
        return Ok(InodeKind::Directory);
    }
    Ok(match entry.mode.map(|mode| (mode, InodeKind::from_mode(mode))) {
        Some((mode, None)) if mode & 0o170_000 != 0 => {
            return Err(format!("an entry of mode {mode:o} is of no known kind"));
        }
        // What zip reads from a pipe has the mode of the pipe and the bytes that came through it.
        Some((_, Some(InodeKind::Fifo | InodeKind::Socket))) if entry.stored_len > 0 => {
            InodeKind::File
        }
        Some((_, Some(kind))) => kind,
        _ => InodeKind::File,
    })
}

fn metadata(entry: &Entry, kind: InodeKind) -> Metadata {
    let usual = match (kind, entry.is_read_only) {
        (InodeKind::Directory, false) => 0o755,
        (InodeKind::Directory, true) => 0o555,
        (_, false) => 0o644,
        (_, true) => 0o444,
    };
    let (uid, gid) = entry.extra.owner();
    let [mtime, atime, btime] = entry.extra.times(entry.dos_mtime);
    Metadata {
        kind,
        permissions: match kind {
            InodeKind::Symlink => 0o777,
            _ => entry.mode.filter(|mode| *mode != 0).map_or(usual, |mode| mode & 0o7777),
        },
        uid,
        gid,
        mtime,
        atime,
        ctime: shale_format::Timestamp::default(),
        btime,
        len: 0,
        device: 0,
    }
}

/// Reads `len` bytes, and that nothing follows them.
fn read_all(reader: &mut dyn Read, len: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len as usize];
    let read = reader.read_exact(&mut bytes).and_then(|()| reader.read(&mut [0]));
    read.map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Bytes whose checksum is compared when the last of them is read.
struct Checked {
    /// Whether a wrong password may be what is wrong: the old encryption lets one in 128 pass.
    is_old_encrypted: bool,
    plain: Decompress,
    left: u64,
    crc: Crc32,
    /// Nothing where another sum is compared.
    expected: Option<u32>,
    is_checked: bool,
}

impl Checked {
    fn check(&mut self) -> io::Result<()> {
        self.is_checked = true;
        let corrupt = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if self.expected.is_some_and(|expected| self.crc.sum() != expected) {
            return corrupt("corrupt: its bytes do not have its checksum");
        }
        if self.plain.read(&mut [0])? != 0 {
            return corrupt("corrupt: it is longer than its length");
        }
        Ok(())
    }

    fn read_checked(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let want = self.left.min(out.len() as u64) as usize;
        let mut len = 0;
        if want > 0 {
            len = match self.plain.read(&mut out[..want]) {
                // All bytes that are stored were there, so the archive was not cut.
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
                Ok(len) if len > 0 => len,
                _ => {
                    let what = "corrupt: it is shorter than its length";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            };
            self.crc.update(&out[..len]);
            self.left -= len as u64;
        }
        if self.left == 0 && !self.is_checked {
            self.check()?;
        }
        Ok(len)
    }
}

impl Read for Checked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_checked(out).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData if self.is_old_encrypted => {
                io::Error::new(error.kind(), crypt::WRONG_PASSWORD)
            }
            _ => error,
        })
    }
}

impl EntrySource for ZipSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn content_bytes_max(&self) -> Option<u64> {
        Some(self.content_bytes)
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
