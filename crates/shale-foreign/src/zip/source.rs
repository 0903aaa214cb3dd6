//! zip, in: stored, deflated, bzip2, zstd and xz; Zip64; what Info-ZIP adds for Unix.
//!
//! The directory at the end of the file says what there is; it is compared with the header in front
//! of each entry, and the sum of what is read with the one given. Entries that are encrypted or in
//! other methods are problems. Times have whole seconds, or two seconds of an unknown zone, taken
//! as UTC, where that is all there is.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use shale_codec::stream::{Crc32, StreamFormat, deflate_reader};
use shale_format::{InodeKind, Timestamp};
use shale_write::source::{Content, Metadata};
use shale_write::{Problem, ProblemKind, Select, Source, SourceEntry, WriteError};

use super::{
    END_MAGIC, END64_LOCATOR_MAGIC, END64_MAGIC, ENTRY_MAGIC, EXTRA_LARGE, EXTRA_OWNER,
    EXTRA_UNIX_TIME, EXTRA_WINDOWS, LOCAL_MAGIC, time,
};
use crate::error::ForeignError;
use crate::names;
use crate::tree::{ImageFile, le, seed_of};

const FORMAT: &str = "zip archive";
/// A comment at the end has at most 64 KiB.
const END_SEARCH_LEN: u64 = 22 + 65_535;
/// Bytes of the directory: a hundred million entries have less.
const DIRECTORY_LEN_MAX: u64 = 16 << 30;
/// Contents up to this length are held in memory at once.
const SMALL_LEN_MAX: u64 = 1 << 20;

/// A zip archive that is read.
pub struct ZipSource {
    name: Vec<u8>,
    file: Arc<ImageFile>,
    select: Option<Arc<dyn Select>>,
    seed: [u8; 32],
    /// The directory, and how far it was read.
    directory: Directory,
    left: u64,
    /// What offsets in the archive are relative to.
    base: u64,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for ZipSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZipSource").field("left", &self.left).finish_non_exhaustive()
    }
}

/// The directory, read in pieces.
struct Directory {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    taken: usize,
}

/// What the directory says of an entry.
struct Entry {
    path: Vec<u8>,
    mode: Option<u32>,
    flags: u64,
    method: u64,
    crc: u32,
    stored_len: u64,
    len: u64,
    offset: u64,
    mtime: Timestamp,
    atime: Timestamp,
    owner: (u32, u32),
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

impl ZipSource {
    /// Opens an archive. `seed` are bytes that stand for the file, such as samples of it.
    pub fn new(
        name: &Path,
        file: ImageFile,
        seed: &[u8],
        select: Option<Arc<dyn Select>>,
    ) -> Result<Self, WriteError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let (directory, left, base) =
            find_directory(&file).map_err(|what| fault(what).into_source(&name))?;
        Ok(Self {
            name,
            file: Arc::new(file),
            select,
            seed: seed_of("zip", seed),
            directory,
            left,
            base,
            problems: Vec::new(),
        })
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        while self.left > 0 {
            self.left -= 1;
            let at = self.directory.at;
            let entry = self.directory.entry(&self.file).map_err(|what| fault(what).at(at))?;
            let given = entry.path.clone();
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

    fn entry(&self, entry: Entry) -> Result<Option<SourceEntry>, String> {
        let path = names::relative(&entry.path)?;
        let is_directory = entry.path.ends_with(b"/");
        let kind = match entry.mode.map(|mode| (mode, InodeKind::from_mode(mode))) {
            _ if is_directory => InodeKind::Directory,
            Some((mode, None)) if mode & 0o170_000 != 0 => {
                return Err(format!("it is of a kind that is not known, mode {mode:o}"));
            }
            Some((_, Some(kind))) => kind,
            _ => InodeKind::File,
        };
        if !self.takes(&path, kind) {
            return Ok(None);
        }
        let usual = if kind == InodeKind::Directory { 0o755 } else { 0o644 };
        let mut metadata = Metadata {
            kind,
            permissions: match kind {
                InodeKind::Symlink => 0o777,
                _ => entry.mode.filter(|mode| *mode != 0).map_or(usual, |mode| mode & 0o7777),
            },
            uid: entry.owner.0,
            gid: entry.owner.1,
            mtime: entry.mtime,
            atime: entry.atime,
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            len: 0,
            device: 0,
        };
        let (mut target, mut content) = (Vec::new(), Content::None);
        match kind {
            InodeKind::File => {
                metadata.len = entry.len;
                if entry.len > 0 {
                    let mut reader = self.open(&entry)?;
                    content = if entry.len <= SMALL_LEN_MAX {
                        Content::Bytes(read_all(&mut reader, entry.len)?)
                    } else {
                        Content::Reader { reader, holes: Vec::new() }
                    };
                }
            }
            InodeKind::Symlink => {
                if entry.len > shale_format::limits::LINK_TARGET_LEN_MAX as u64 {
                    return Err(format!("a link target of {} bytes", entry.len));
                }
                target = read_all(&mut self.open(&entry)?, entry.len)?;
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                return Err("zip does not say the number of a device".to_owned());
            }
            InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => {}
        }
        let xattrs = Arc::default();
        Ok(Some(SourceEntry { path, metadata, xattrs, link: None, target, content }))
    }

    fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        let Some(select) = &self.select else { return true };
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.map(|(at, _)| &path[..at]);
        path.is_empty()
            || above.all(|above| select.takes(above, InodeKind::Directory))
                && select.takes(path, kind)
    }

    /// The plain bytes of an entry, whose length and sum are compared at their end.
    fn open(&self, entry: &Entry) -> Result<Box<dyn Read + Send>, String> {
        if entry.flags & 1 != 0 {
            return Err("it is encrypted".to_owned());
        }
        let offset = entry.offset.checked_add(self.base).ok_or("its offset is beyond 64 bits")?;
        let local = self.file.read(offset, 30)?;
        if &local[..4] != LOCAL_MAGIC {
            return Err(format!("its header is not at byte {offset}"));
        }
        let head_len = 30 + le(&local[26..28]) + le(&local[28..30]);
        let start = offset + head_len;
        let end = start.checked_add(entry.stored_len).filter(|&end| end <= self.file.len());
        let end = end.ok_or("it leads beyond the end of the archive")?;
        let stored = Range { file: Arc::clone(&self.file), at: start, end };
        let failed = |error: io::Error| error.to_string();
        let plain: Box<dyn Read + Send> = match entry.method {
            0 => Box::new(stored),
            8 => deflate_reader(BufReader::with_capacity(64 << 10, stored)),
            12 => StreamFormat::Bzip2.decoder(stored).map_err(failed)?,
            93 => StreamFormat::Zstd.decoder(stored).map_err(failed)?,
            95 => StreamFormat::Xz.decoder(stored).map_err(failed)?,
            other => return Err(format!("it is compressed by method {other}, which is not known")),
        };
        Ok(Box::new(Checked { plain, left: entry.len, crc: Crc32::new(), expected: entry.crc }))
    }
}

fn read_all(reader: &mut dyn Read, len: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len as usize];
    reader.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// A range of the archive.
struct Range {
    file: Arc<ImageFile>,
    at: u64,
    end: u64,
}

impl Read for Range {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = (self.end - self.at).min(out.len() as u64);
        let bytes = self.file.read(self.at, len).map_err(io::Error::other)?;
        out[..bytes.len()].copy_from_slice(&bytes);
        self.at += len;
        Ok(bytes.len())
    }
}

/// Bytes whose sum is compared when the last of them is read.
struct Checked {
    plain: Box<dyn Read + Send>,
    left: u64,
    crc: Crc32,
    expected: u32,
}

impl Read for Checked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let want = self.left.min(out.len() as u64) as usize;
        if want == 0 {
            return Ok(0);
        }
        let len = self.plain.read(&mut out[..want])?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.crc.update(&out[..len]);
        self.left -= len as u64;
        if self.left == 0 {
            if self.crc.sum() != self.expected {
                return Err(io::Error::other("its sum is not that of its bytes: it is damaged"));
            }
            if self.plain.read(&mut [0])? != 0 {
                return Err(io::Error::other("it is longer than it says"));
            }
        }
        Ok(len)
    }
}

/// The directory, its entries, and what offsets are relative to: an archive may lie behind a
/// program that unpacks it.
fn find_directory(file: &ImageFile) -> Result<(Directory, u64, u64), String> {
    let tail_start = file.len().saturating_sub(END_SEARCH_LEN);
    let tail = file.read(tail_start, file.len() - tail_start)?;
    let at = tail.windows(22).enumerate().rev().find(|(at, end)| {
        &end[..4] == END_MAGIC && at + 22 + le(&end[20..22]) as usize <= tail.len()
    });
    let (at, end) = at.ok_or("the directory at its end is missing: it was cut")?;
    let end_at = tail_start + at as u64;
    let (mut count, mut len, mut start) = (le(&end[10..12]), le(&end[12..16]), le(&end[16..20]));
    if le(&end[4..6]) != 0 && le(&end[4..6]) != 0xffff {
        return Err("it is a part of an archive of several; join them first".to_owned());
    }
    let mut directory_end = end_at;
    if let Some(locator_at) = end_at.checked_sub(20) {
        let locator = file.read(locator_at, 20)?;
        if &locator[..4] == END64_LOCATOR_MAGIC {
            let end64_at = le(&locator[8..16]);
            let end64 = file.read(end64_at, 56)?;
            if &end64[..4] != END64_MAGIC {
                return Err("its large directory is not where it should be".to_owned());
            }
            (count, len, start) = (le(&end64[32..40]), le(&end64[40..48]), le(&end64[48..56]));
            directory_end = end64_at;
        }
    }
    if len > DIRECTORY_LEN_MAX {
        return Err(format!("its directory has {len} bytes"));
    }
    // What is in front of the archive moves everything.
    let base = directory_end
        .checked_sub(len)
        .and_then(|real| real.checked_sub(start))
        .ok_or("its directory leads out of the file")?;
    let at = start + base;
    let directory = Directory { at, end: at + len, buffer: Vec::new(), taken: 0 };
    Ok((directory, count, base))
}

impl Directory {
    /// The next `len` bytes.
    fn take(&mut self, file: &ImageFile, len: usize) -> Result<Vec<u8>, String> {
        const STEP: u64 = 256 << 10;
        if self.buffer.len() - self.taken < len {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let step = (self.end - self.at).min(STEP.max(len as u64));
            self.buffer.extend(file.read(self.at, step)?);
            self.at += step;
        }
        let bytes = self.buffer.get(self.taken..self.taken + len);
        let bytes = bytes.ok_or("its directory is shorter than its count says")?.to_vec();
        self.taken += len;
        Ok(bytes)
    }

    fn entry(&mut self, file: &ImageFile) -> Result<Entry, String> {
        let head = self.take(file, 46)?;
        if &head[..4] != ENTRY_MAGIC {
            return Err("here should be an entry of the directory".to_owned());
        }
        let field = |at: usize, len: usize| le(&head[at..at + len]);
        let path = self.take(file, field(28, 2) as usize)?;
        let extra = self.take(file, field(30, 2) as usize)?;
        self.take(file, field(32, 2) as usize)?;
        let is_unix = matches!(head[5], 3 | 19);
        let mut entry = Entry {
            path,
            mode: is_unix.then(|| (field(38, 4) >> 16) as u32),
            flags: field(8, 2),
            method: field(10, 2),
            crc: field(16, 4) as u32,
            stored_len: field(20, 4),
            len: field(24, 4),
            offset: field(42, 4),
            mtime: time::from_dos(field(14, 2), field(12, 2)),
            atime: Timestamp::default(),
            owner: (0, 0),
        };
        entry.add_extra(&extra)?;
        Ok(entry)
    }
}

impl Entry {
    fn add_extra(&mut self, mut extra: &[u8]) -> Result<(), String> {
        let sec = |bytes: &[u8]| Timestamp { sec: i64::from(le(bytes) as u32 as i32), nsec: 0 };
        while let Some((head, rest)) = extra.split_first_chunk::<4>() {
            let len = (le(&head[2..]) as usize).min(rest.len());
            let (body, after) = rest.split_at(len);
            extra = after;
            match le(&head[..2]) as u16 {
                EXTRA_LARGE => {
                    let mut fields = body.chunks_exact(8).map(le);
                    for value in [&mut self.len, &mut self.stored_len, &mut self.offset] {
                        if *value == 0xffff_ffff {
                            *value = fields.next().ok_or("its large length is missing")?;
                        }
                    }
                }
                EXTRA_UNIX_TIME if body.len() >= 5 && body[0] & 1 != 0 => {
                    self.mtime = sec(&body[1..5])
                }
                EXTRA_WINDOWS if body.len() >= 32 && le(&body[4..6]) == 1 => {
                    self.mtime = time::from_windows(le(&body[8..16]));
                    self.atime = time::from_windows(le(&body[16..24]));
                }
                EXTRA_OWNER if body.len() >= 2 => {
                    let uid_len = usize::from(body[1]);
                    let uid = body.get(2..2 + uid_len);
                    let gid_len = body.get(2 + uid_len).copied().map_or(0, usize::from);
                    let gid = body.get(3 + uid_len..3 + uid_len + gid_len);
                    if let (Some(uid), Some(gid)) = (uid, gid) {
                        let id = |bytes| u32::try_from(le(bytes)).map_err(|_| "a large owner");
                        self.owner = (id(uid)?, id(gid)?);
                    }
                }
                _ => {}
            }
        }
        if self.len > shale_format::limits::FILE_LEN_MAX {
            return Err(format!("an entry of {} bytes", self.len));
        }
        Ok(())
    }
}

impl Source for ZipSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, WriteError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
