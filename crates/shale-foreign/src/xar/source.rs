//! A xar archive as a source.
//!
//! The table of contents is read at once and its sum is compared; contents are decompressed while
//! they are read, and their sums are compared at their end. Contents that several files share are
//! read for each of them, up to a bound, since such an archive unpacks to far more than it stores.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use shale_codec::stream::{StreamFormat, deflate_reader, zlib_block};
use shale_format::limits::{
    LINK_TARGET_LEN_MAX, PATH_LEN_MAX, XATTR_COUNT_MAX, XATTR_VALUE_LEN_MAX,
};
use shale_model::{
    Content, EntrySource, InodeKind, LinkId, Metadata, Problem, ProblemKind, Select, SourceEntry,
    SourceError, Timestamp, Xattr, device_number, utc_period,
};

use super::contents::{self, Contents, Data, File, Sum};
use crate::compression::Compression;
use crate::decompress::Decompress;
use crate::error::ForeignError;
use crate::names;
use crate::selection::Selection;
use crate::tree::{FileRange, ImageFile, seed_of};

const FORMAT: &str = "xar archive";
/// First bytes of an archive.
pub(crate) const MAGIC: &[u8] = b"xar!";
const HEADER_LEN: u64 = 28;
/// Bytes of the table of contents. A file takes about a thousand.
const TABLE_LEN_MAX: u64 = 256 << 20;
/// Plain bytes of contents that were given before, for each byte of the archive.
const REPEATED_FACTOR_MAX: u64 = 64;
const REPEATED_LEN_MIN: u64 = 1 << 30;
/// Names of attributes that Linux has.
const NAMESPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];

/// A xar archive that is read.
pub(crate) struct XarSource {
    file: Arc<ImageFile>,
    seed: [u8; 32],
    heap: u64,
    files: Vec<File>,
    /// Bytes of the path of each file.
    path_lens: Vec<usize>,
    /// Files that hard links name, by ID.
    originals: HashMap<Vec<u8>, usize>,
    next: usize,
    /// The path of the directory of the last file.
    last_parent: Option<(usize, Vec<u8>)>,
    /// Where contents that were given begin in the heap, and plain bytes of those given again.
    given: HashSet<u64>,
    repeated_len: u64,
    lost_xattr_count: u64,
    unchecked_count: u64,
    selection: Selection,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for XarSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XarSource").field("next", &self.next).finish_non_exhaustive()
    }
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Opens an archive. `seed` are bytes that stand for the file.
///
/// # Errors
/// Its table of contents is corrupt.
pub(crate) fn open(
    name: &Path,
    file: ImageFile,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
) -> Result<XarSource, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let failed =
        |what: String| ForeignError::new(FORMAT, what).into_source(name.as_os_str().as_bytes());
    let (heap, contents, is_checked) = table(&file).map_err(failed)?;
    let files = contents.files;
    // Directories precede what is in them.
    let mut path_lens = Vec::with_capacity(files.len());
    for file in &files {
        let above = file.parent.map_or(0, |parent: usize| path_lens[parent] + 1);
        path_lens.push(usize::saturating_add(above, file.name.len()));
    }
    let originals = files.iter().enumerate().filter(|(_, file)| file.link == b"original");
    let originals = originals.map(|(number, file)| (file.id.clone(), number)).collect();
    Ok(XarSource {
        file: Arc::new(file),
        seed: seed_of("xar", seed),
        heap,
        files,
        path_lens,
        originals,
        next: 0,
        last_parent: None,
        given: HashSet::new(),
        repeated_len: 0,
        lost_xattr_count: 0,
        unchecked_count: u64::from(!is_checked),
        selection: Selection::new(select),
        problems: Vec::new(),
    })
}

/// Where the heap begins, the table of contents, and whether its sum was compared.
fn table(file: &ImageFile) -> Result<(u64, Contents, bool), String> {
    let head = file.read(0, HEADER_LEN)?;
    let (head_len, version) = (be(&head[4..6]), be(&head[6..8]));
    let (stored_len, plain_len) = (be(&head[8..16]), be(&head[16..24]));
    if version > 1 || head_len < HEADER_LEN {
        return Err(format!("version {version} is not supported"));
    }
    if stored_len > TABLE_LEN_MAX || plain_len > TABLE_LEN_MAX {
        return Err(format!("a table of contents of {plain_len} bytes: corrupt"));
    }
    let stored = file.read(head_len, stored_len)?;
    let corrupt = |_| "its table of contents is corrupt".to_owned();
    let plain = zlib_block(&stored, plain_len as usize).map_err(corrupt)?;
    if plain.len() as u64 != plain_len {
        return Err("its table of contents has another length than it says: corrupt".to_owned());
    }
    let heap = head_len + stored_len;
    let contents = contents::read(&plain)?;
    let mut is_checked = false;
    if let Some((style, offset, len)) = &contents.sum {
        let at = heap.checked_add(*offset).ok_or("its table of contents is corrupt")?;
        match digest(style) {
            Some(mut digest) => {
                digest.update(&stored);
                if file.read(at, (*len).min(64))? != digest.finish() {
                    let what = "the checksum of its table of contents is wrong: it is corrupt";
                    return Err(what.to_owned());
                }
                is_checked = true;
            }
            None if style == b"none" => is_checked = true,
            None => {}
        }
    }
    Ok((heap, contents, is_checked))
}

/// A digest of one of the kinds that archives have.
enum Digests {
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

fn digest(style: &[u8]) -> Option<Digests> {
    Some(match &style.to_ascii_lowercase()[..] {
        b"sha1" => Digests::Sha1(Sha1::new()),
        b"sha256" => Digests::Sha256(Sha256::new()),
        b"sha512" => Digests::Sha512(Box::new(Sha512::new())),
        _ => return None,
    })
}

impl Digests {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(digest) => digest.update(bytes),
            Self::Sha256(digest) => digest.update(bytes),
            Self::Sha512(digest) => digest.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha1(digest) => digest.finalize().to_vec(),
            Self::Sha256(digest) => digest.finalize().to_vec(),
            Self::Sha512(digest) => digest.finalize().to_vec(),
        }
    }
}

/// Reads bytes and compares their number and their sum at the end.
struct Checked<R> {
    plain: R,
    left: u64,
    digest: Option<(Digests, Vec<u8>)>,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let wrong = |what: &str| io::Error::from(ForeignError::new(FORMAT, what));
        if self.left == 0 {
            return Ok(0);
        }
        let room = self.left.min(out.len() as u64) as usize;
        let len = self.plain.read(&mut out[..room])?;
        if len == 0 && room > 0 {
            return Err(wrong("corrupt: a content is shorter than it says"));
        }
        self.left -= len as u64;
        if let Some((digest, _)) = &mut self.digest {
            digest.update(&out[..len]);
        }
        if self.left == 0 {
            if self.plain.read(&mut [0])? > 0 {
                return Err(wrong("corrupt: a content is longer than it says"));
            }
            if let Some((digest, expected)) = self.digest.take()
                && digest
                    .finish()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
                    .as_bytes()
                    != expected
            {
                return Err(wrong("corrupt: the checksum of a content is wrong"));
            }
        }
        Ok(len)
    }
}

impl XarSource {
    /// The path of a file.
    fn path(&mut self, number: usize) -> Result<Vec<u8>, String> {
        if self.path_lens[number] > PATH_LEN_MAX {
            return Err(format!("its path is longer than {PATH_LEN_MAX} bytes"));
        }
        let mut path = Vec::new();
        if let Some(parent) = self.files[number].parent {
            if self.last_parent.as_ref().is_none_or(|(last, _)| *last != parent) {
                let mut names = Vec::new();
                let mut at = Some(parent);
                while let Some(above) = at {
                    if self.files[above].kind != b"directory" {
                        return Err("it lies below a file: corrupt".to_owned());
                    }
                    names.push(&self.files[above].name[..]);
                    at = self.files[above].parent;
                }
                names.reverse();
                self.last_parent = Some((parent, names.join(&b'/')));
            }
            if let Some((_, parent)) = &self.last_parent {
                path.extend_from_slice(parent);
                path.push(b'/');
            }
        }
        let name = &self.files[number].name;
        path.extend_from_slice(name);
        let relative = names::relative(&path)?;
        if name.is_empty() || relative.is_empty() {
            return Err("it has no name: corrupt".to_owned());
        }
        if self.files[number].kind == b"directory" {
            // What is in it mostly comes next.
            self.last_parent = Some((number, relative.clone()));
        }
        Ok(relative)
    }

    /// The bytes of a content or an attribute.
    fn bytes(&mut self, data: &Data) -> Result<Box<dyn Read + Send>, String> {
        let start = self.heap.checked_add(data.offset);
        let end = start.and_then(|start| start.checked_add(data.stored_len));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= self.file.len())) else {
            return Err("its bytes lie beyond the end of the archive: it was cut".to_owned());
        };
        if !self.given.insert(start) {
            self.repeated_len = self.repeated_len.saturating_add(data.plain_len);
            let allowed = self.file.len().saturating_mul(REPEATED_FACTOR_MAX);
            if self.repeated_len > allowed.max(REPEATED_LEN_MIN) {
                let what = "it shares its bytes with so many files that the archive unpacks to far \
                            more than it stores";
                return Err(what.to_owned());
            }
        }
        let range = FileRange::new(&self.file, start..end);
        let is_plain = matches!(&data.encoding[..], b"" | b"application/octet-stream");
        // Stored bytes that are the plain ones have the same sum.
        let of_plain = wanted(&data.plain_sum);
        let sum = of_plain.or_else(|| wanted(&data.stored_sum).filter(|_| is_plain));
        if sum.is_none() {
            self.unchecked_count += 1;
        }
        let stored = range;
        let plain: Box<dyn Read + Send> = match &data.encoding[..] {
            _ if is_plain => Box::new(stored),
            b"application/x-gzip" | b"application/zlib" => zlib(stored)?,
            b"application/x-bzip2" => decoder(StreamFormat::Bzip2, stored)?,
            b"application/x-xz" => decoder(StreamFormat::Xz, stored)?,
            b"application/x-lzma" => decoder(StreamFormat::Lzma, stored)?,
            other => {
                return Err(format!("it is compressed as {}", names::shown(other)));
            }
        };
        Ok(Box::new(Checked { plain, left: data.plain_len, digest: sum }))
    }

    fn xattrs(&mut self, number: usize) -> Result<Arc<[Xattr]>, String> {
        let mut found = Vec::new();
        for attribute in std::mem::take(&mut self.files[number].attributes) {
            // Those of macOS have no place on Linux.
            if !NAMESPACES.iter().any(|prefix| attribute.name.starts_with(prefix)) {
                self.lost_xattr_count += 1;
                continue;
            }
            if attribute.data.plain_len > XATTR_VALUE_LEN_MAX as u64
                || found.len() as u64 >= XATTR_COUNT_MAX
            {
                return Err("it has attributes that are too long or too many".to_owned());
            }
            let mut value = Vec::new();
            let read = self.bytes(&attribute.data)?.read_to_end(&mut value);
            read.map_err(|error| format!("cannot read an attribute: {error}"))?;
            found.push(Xattr { name: attribute.name, value });
        }
        Ok(found.into())
    }

    fn entry(&mut self, number: usize, path: Vec<u8>) -> Result<Option<SourceEntry>, String> {
        // A hard link has what its original has.
        let (source, link) = match &self.files[number] {
            File { kind, link, .. } if kind == b"hardlink" && link == b"original" => {
                (number, Some(number))
            }
            File { kind, link, .. } if kind == b"hardlink" => {
                let original = self.originals.get(link).copied();
                let original = original.ok_or("it is a hard link to a file that is not there")?;
                (original, Some(original))
            }
            _ => (number, None),
        };
        let file = self.files[source].clone();
        let kind = match &file.kind[..] {
            b"file" | b"hardlink" => InodeKind::File,
            b"directory" => InodeKind::Directory,
            b"symlink" => InodeKind::Symlink,
            b"fifo" => InodeKind::Fifo,
            b"socket" => InodeKind::Socket,
            b"character special" => InodeKind::CharDevice,
            b"block special" => InodeKind::BlockDevice,
            other => return Err(format!("it is of the kind {}", names::shown(other))),
        };
        if !self.selection.takes(&path, kind) {
            return Ok(None);
        }
        let [mtime, atime, _] = file.times.each_ref().map(|text| time(text));
        let usual = if kind == InodeKind::Directory { 0o755 } else { 0o644 };
        let data = file.data.filter(|_| kind == InodeKind::File);
        let len = data.as_ref().map_or(0, |data| data.plain_len);
        let metadata = Metadata {
            kind,
            permissions: file.mode.unwrap_or(usual) & 0o7777,
            uid: file.owner.0,
            gid: file.owner.1,
            mtime,
            atime,
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            len,
            device: if kind.is_device() { device_number(file.device.0, file.device.1) } else { 0 },
        };
        if kind == InodeKind::Symlink
            && (file.target.is_empty() || file.target.len() > LINK_TARGET_LEN_MAX)
        {
            return Err(format!("its link target has {} bytes", file.target.len()));
        }
        let xattrs = self.xattrs(source)?;
        let content = match data.filter(|data| data.plain_len > 0) {
            Some(data) => Content::Reader { reader: self.bytes(&data)?, holes: Vec::new() },
            None => Content::None,
        };
        let target = if kind == InodeKind::Symlink { file.target } else { Vec::new() };
        let link = link.map(|number| LinkId { device: 0, inode: number as u64 });
        Ok(Some(SourceEntry { path, metadata, xattrs, link, target, content }))
    }
}

/// The digest that is compared, if its kind is known.
fn wanted(sum: &Sum) -> Option<(Digests, Vec<u8>)> {
    let digest = digest(&sum.style).filter(|_| !sum.value.is_empty())?;
    Some((digest, sum.value.clone()))
}

fn decoder<R: Read + Send + 'static>(
    format: StreamFormat,
    stored: R,
) -> Result<Box<dyn Read + Send>, String> {
    let plain = Compression::Stream(format).decoder(Box::new(stored));
    plain.map_err(|error| format!("cannot be decompressed: {error}"))
}

/// Decompresses zlib data, whose own sum says less than that of the archive.
fn zlib<R: Read + Send + 'static>(mut stored: R) -> Result<Box<dyn Read + Send>, String> {
    let mut head = [0; 2];
    let read = stored.read_exact(&mut head);
    if read.is_err() || head[0] & 15 != 8 || head[1] & 0x20 != 0 || !be(&head).is_multiple_of(31) {
        return Err("its bytes are no zlib data: corrupt".to_owned());
    }
    Ok(Box::new(Decompress::new(deflate_reader(BufReader::new(stored)), "zlib")))
}

fn time(text: &[u8]) -> Timestamp {
    let period = utc_period(text.trim_ascii());
    Timestamp { sec: period.map_or(0, |period| *period.start()), nsec: 0 }
}

impl EntrySource for XarSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        while self.next < self.files.len() {
            let number = self.next;
            self.next += 1;
            let path = self.path(number);
            let entry = path.and_then(|path| self.entry(number, path));
            match entry {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {}
                Err(what) => {
                    let path = names::cut(&self.files[number].name);
                    self.problems.push(Problem { path, kind: ProblemKind::Unreadable(what) });
                }
            }
        }
        Ok(None)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.lost_xattr_count > 0 {
            warnings.push(format!(
                "{} extended attributes of other systems were not packed",
                self.lost_xattr_count
            ));
        }
        if self.unchecked_count > 0 {
            warnings.push(format!(
                "{} checksums of the xar archive are missing or of a kind that is not compared",
                self.unchecked_count
            ));
        }
        warnings
    }
}
