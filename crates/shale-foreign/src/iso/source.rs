//! An ISO 9660 image as a source.
//!
//! Rock Ridge has everything of Unix and is preferred, then Joliet, then the names that every image
//! has. Files that share their bytes are names of one inode, as other readers have it: the format
//! knows hard links in no other way. What overlaps otherwise is corrupt.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use shale_format::InodeKind;
use shale_format::limits::{FILE_LEN_MAX, PATH_LEN_MAX};
use shale_model::{
    Content, EntrySource, LinkId, Metadata, Problem, ProblemKind, Select, SourceEntry, SourceError,
    device_number,
};

use super::record::{Record, begins_with_attributes, joliet_name, plain_name};
use super::rock_ridge::Fields;
use super::volume::{SECTOR_LEN, Volumes};
use crate::error::ForeignError;
use crate::names;
use crate::tree::{FileRange, ImageFile, seed_of};

const FORMAT: &str = "ISO 9660 image";
/// Bytes of one directory.
const DIRECTORY_LEN_MAX: u64 = 256 << 20;
/// Pieces of one file: each has less than 4 GiB.
const PIECE_COUNT_MAX: usize = 1 << 16;
/// Contents up to this length are held in memory at once.
const SMALL_LEN_MAX: u64 = 1 << 20;

/// Which names an image is read by.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Names {
    /// Rock Ridge, whose fields begin after this many bytes.
    RockRidge(usize),
    Joliet,
    Plain,
}

/// One entry of a directory, with the fields of Rock Ridge.
#[derive(Debug)]
struct Item {
    path: Vec<u8>,
    record: Record,
    fields: Fields,
    /// Bytes of a file: where they begin and how many there are.
    pieces: Vec<(u64, u64)>,
    /// The last of its records says that another follows, and none does.
    lacks_parts: bool,
}

/// An ISO 9660 image that is read.
pub(crate) struct IsoSource {
    name: Vec<u8>,
    file: Arc<ImageFile>,
    select: Option<Arc<dyn Select>>,
    seed: [u8; 32],
    names: Names,
    has_udf: bool,
    root: Option<Record>,
    /// Directories to be listed, the next one last.
    waiting: Vec<(Vec<u8>, Record)>,
    /// Entries of the directory that is being yielded, the next one last.
    items: Vec<Item>,
    /// Sectors of the directories met so far.
    directories: HashSet<u64>,
    /// Bytes of files met so far: where they begin, where they end.
    taken: BTreeMap<u64, u64>,
    /// Resource forks, which were left out.
    associated_count: u64,
    /// Sectors of directories in which something follows the last record.
    trailed_count: u64,
    /// Directories that were moved, and records that say where to.
    moved_count: u64,
    child_count: u64,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for IsoSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IsoSource").field("names", &self.names).finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

impl IsoSource {
    /// Opens an image. `seed` are bytes that stand for the file.
    ///
    /// # Errors
    /// The image has no tree that can be read.
    pub(crate) fn new(
        name: &Path,
        file: ImageFile,
        seed: &[u8],
        select: Option<Arc<dyn Select>>,
    ) -> Result<Self, SourceError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let opened = Volumes::read(&file).and_then(|volumes| {
            let primary = volumes.primary.ok_or("it has no tree")?;
            let skip = rock_ridge_skip(&file, &primary)?;
            Ok(match (skip, volumes.joliet) {
                (Some(skip), _) => (Names::RockRidge(skip), primary, volumes.has_udf),
                (None, Some(joliet)) => (Names::Joliet, joliet, volumes.has_udf),
                (None, None) => (Names::Plain, primary, volumes.has_udf),
            })
        });
        let (names, root, has_udf) = opened.map_err(|what| fault(what).into_source(&name))?;
        Ok(Self {
            name,
            file: Arc::new(file),
            select,
            seed: seed_of("iso", seed),
            names,
            has_udf,
            root: Some(root),
            waiting: Vec::new(),
            items: Vec::new(),
            directories: HashSet::new(),
            taken: BTreeMap::new(),
            associated_count: 0,
            trailed_count: 0,
            moved_count: 0,
            child_count: 0,
            problems: Vec::new(),
        })
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        if let Some(mut root) = self.root.take() {
            // Only the record of the directory in itself has its fields.
            let dot = first_record(&self.file, &root).map_err(fault)?;
            let fields = match dot {
                Some(dot) => self.fields(&dot).map_err(fault)?,
                None => Fields::default(),
            };
            root.is_directory = true;
            self.enter(&[], &root)?;
            self.waiting.push((Vec::new(), root.clone()));
            let (path, pieces) = (Vec::new(), Vec::new());
            let item = Item { path, record: root, fields, pieces, lacks_parts: false };
            return self.entry(item).map_err(fault).map(Some);
        }
        loop {
            let Some(item) = self.items.pop() else {
                let Some((path, directory)) = self.waiting.pop() else { return Ok(None) };
                let items = self.list(&path, &directory).map_err(|what| fault(what).of(&path))?;
                self.items = items;
                continue;
            };
            let path = item.path.clone();
            match self.take(item) {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {}
                Err(Wrong::Image(error)) => return Err(error),
                Err(Wrong::Entry(what)) => {
                    let kind = ProblemKind::Unreadable(what);
                    self.problems.push(Problem { path: names::cut(&path), kind });
                }
            }
        }
    }

    /// Notes that a directory is listed.
    fn enter(&mut self, path: &[u8], directory: &Record) -> Result<(), ForeignError> {
        match self.directories.insert(directory.start) {
            true => Ok(()),
            false => Err(fault("its directories lead in a circle").of(path)),
        }
    }

    fn take(&mut self, mut item: Item) -> Result<Option<SourceEntry>, Wrong> {
        if item.path.len() > PATH_LEN_MAX {
            return Err(format!("its path is longer than {PATH_LEN_MAX} bytes").into());
        }
        if item.record.contradicts_itself {
            return Err("its place or length differs between the two byte orders: corrupt".into());
        }
        if item.record.attributes_len > 0 {
            let at = item.record.start - u64::from(item.record.attributes_len);
            let sector = self.file.read(at.saturating_mul(SECTOR_LEN), SECTOR_LEN)?;
            if !begins_with_attributes(&sector) {
                let what = "it says that an attribute record precedes its bytes, and none does";
                return Err(format!("{what}: corrupt").into());
            }
        }
        if item.lacks_parts {
            return Err("the record of its next part is missing: corrupt".into());
        }
        let kind = kind(&item)?;
        if let Some(select) = &self.select
            && !select.takes(&item.path, kind)
        {
            return Ok(None);
        }
        if kind == InodeKind::Directory {
            if let Some(sector) = item.fields.child {
                let first = Record { start: sector, len: SECTOR_LEN, ..Record::default() };
                let dot = first_record(&self.file, &first)?;
                let dot = dot.ok_or("the directory that was moved is missing: corrupt")?;
                item.fields = Fields { child: Some(sector), ..self.fields(&dot)? };
                item.record = Record { start: sector, ..dot };
            }
            self.enter(&item.path, &item.record)?;
            self.waiting.push((item.path.clone(), item.record.clone()));
        }
        Ok(Some(self.entry(item)?))
    }

    fn entry(&mut self, item: Item) -> Result<SourceEntry, String> {
        let kind = kind(&item)?;
        let Item { path, record, fields, pieces, .. } = item;
        let metadata = metadata(kind, &record, &fields);
        let mut entry = SourceEntry {
            path,
            metadata,
            xattrs: Arc::default(),
            link: None,
            target: Vec::new(),
            content: Content::None,
        };
        match kind {
            InodeKind::File => {
                if let Some(what) = fields.is_special {
                    return Err(format!("it is {what}"));
                }
                let len = pieces.iter().fold(0u64, |sum, (_, len)| sum.saturating_add(*len));
                if len > FILE_LEN_MAX {
                    return Err(format!("it has {len} bytes"));
                }
                entry.metadata.len = len;
                if len > 0 {
                    let start = self.claim(&pieces)?;
                    entry.link = Some(LinkId { device: 0, inode: start });
                    entry.content = self.content(pieces, len)?;
                } else if let Some(posix) = fields.posix
                    && let Some(serial) = posix.serial.filter(|_| posix.link_count > 1)
                {
                    entry.link = Some(LinkId { device: 1, inode: serial.into() });
                }
            }
            InodeKind::Symlink => {
                entry.target = fields
                    .target
                    .filter(|target| !target.is_empty())
                    .ok_or_else(|| "it is a symbolic link without a target: corrupt".to_owned())?;
            }
            _ => {}
        }
        Ok(entry)
    }

    /// Notes the bytes of a file, and returns where they begin.
    fn claim(&mut self, pieces: &[(u64, u64)]) -> Result<u64, String> {
        for &(start, len) in pieces.iter().filter(|(_, len)| *len > 0) {
            let end = start
                .checked_add(len)
                .filter(|&end| end <= self.file.len())
                .ok_or("its bytes lie beyond the end of the image: it was cut or is corrupt")?;
            let before = self.taken.range(..end).next_back();
            match before {
                Some((&other, &other_end)) if (other, other_end) == (start, end) => {}
                Some((&other, &other_end)) if other_end > start => {
                    return Err(format!(
                        "its bytes {start} to {end} overlap those of another file, {other} to \
                         {other_end}: corrupt"
                    ));
                }
                _ => {
                    self.taken.insert(start, end);
                }
            }
        }
        Ok(pieces.iter().find(|(_, len)| *len > 0).map_or(0, |(start, _)| *start))
    }

    fn content(&self, pieces: Vec<(u64, u64)>, len: u64) -> Result<Content, String> {
        let ranges = pieces.into_iter().map(|(start, len)| start..start.saturating_add(len));
        let mut ranges: Vec<FileRange> =
            ranges.map(|range| FileRange::new(&self.file, range)).collect();
        ranges.reverse();
        let mut reader = Joined(ranges);
        if len > SMALL_LEN_MAX {
            return Ok(Content::Reader { reader: Box::new(reader), holes: Vec::new() });
        }
        let mut bytes = vec![0; len as usize];
        reader.read_exact(&mut bytes).map_err(|error| format!("cannot read its bytes: {error}"))?;
        Ok(Content::Bytes(bytes))
    }

    fn fields(&self, record: &Record) -> Result<Fields, String> {
        match self.names {
            Names::RockRidge(skip) => {
                Fields::read(&self.file, record.system.get(skip..).unwrap_or_default())
            }
            _ => Ok(Fields::default()),
        }
    }

    /// The entries of a directory, the first of them last.
    fn list(&mut self, path: &[u8], directory: &Record) -> Result<Vec<Item>, String> {
        let mut items: Vec<Item> = Vec::new();
        // The name of a file that the next record continues, and whether it is the last item.
        let mut parts: Option<(Vec<u8>, bool)> = None;
        let Records { records, trailed_count } = records(&self.file, directory, false)?;
        if directory.len > 0 && !records.first().is_some_and(Record::is_self) {
            return Err("a directory does not begin with a record of itself: corrupt".to_owned());
        }
        self.trailed_count += trailed_count;
        for record in records {
            if record.is_dot() {
                continue;
            }
            if record.is_associated {
                self.associated_count += 1;
                continue;
            }
            let piece = (record.start * SECTOR_LEN, record.len);
            if let Some((name, is_kept)) = parts.take() {
                let last = items.last_mut().filter(|_| is_kept);
                if name == record.name {
                    if let Some(last) = last {
                        last.pieces.push(piece);
                        last.record.contradicts_itself |= record.contradicts_itself;
                        if last.pieces.len() > PIECE_COUNT_MAX {
                            return Err("a file in too many pieces: corrupt".to_owned());
                        }
                    }
                    parts = record.continues.then_some((name, is_kept));
                    continue;
                }
                if let Some(last) = last {
                    last.lacks_parts = true;
                }
            }
            parts = record.continues.then(|| (record.name.clone(), false));
            let mut failed = |name: &[u8], what: String| {
                let path = names::cut(&join(path, name));
                self.problems.push(Problem { path, kind: ProblemKind::Unreadable(what) });
            };
            let fields = match self.names {
                Names::RockRidge(skip) => {
                    Fields::read(&self.file, record.system.get(skip..).unwrap_or_default())
                }
                _ => Ok(Fields::default()),
            };
            let fields = match fields {
                Ok(fields) => fields,
                Err(what) => {
                    failed(&record.name, what);
                    continue;
                }
            };
            if fields.is_moved {
                self.moved_count += 1;
                continue;
            }
            self.child_count += u64::from(fields.child.is_some());
            if record.is_interleaved {
                failed(&record.name, "it is interleaved, which is not supported".to_owned());
                continue;
            }
            let name = match (&fields.name, self.names) {
                (Some(name), _) => Some(name.clone()),
                (None, Names::Joliet) => joliet_name(&record.name),
                (None, _) => Some(plain_name(&record.name)),
            };
            let is_name = |name: &Vec<u8>| {
                !name.is_empty()
                    && name != b"."
                    && name != b".."
                    && !name.iter().any(|&byte| byte == b'/' || byte == 0)
            };
            let Some(name) = name.filter(is_name) else {
                failed(&record.name, "its name cannot be one of a file: corrupt".to_owned());
                continue;
            };
            let path = join(path, &name);
            items.push(Item { path, record, fields, pieces: vec![piece], lacks_parts: false });
            if let Some((_, is_kept)) = &mut parts {
                *is_kept = true;
            }
        }
        if let (Some((_, true)), Some(last)) = (parts, items.last_mut()) {
            last.lacks_parts = true;
        }
        // Files before directories; of the latter the first is met last, and so listed first.
        let (directories, others): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.record.is_directory);
        let mut items = directories;
        items.extend(others.into_iter().rev());
        Ok(items)
    }
}

/// What is wrong: with the image, or with one entry alone.
enum Wrong {
    Image(ForeignError),
    Entry(String),
}

impl From<ForeignError> for Wrong {
    fn from(error: ForeignError) -> Self {
        Self::Image(error)
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::Entry(what)
    }
}

impl From<&str> for Wrong {
    fn from(what: &str) -> Self {
        Self::Entry(what.to_owned())
    }
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path {
        b"" => name.to_vec(),
        path => [path, b"/", name].concat(),
    }
}

/// Bytes of Rock Ridge's fields to skip; `None` if the image has no Rock Ridge.
fn rock_ridge_skip(file: &ImageFile, root: &Record) -> Result<Option<usize>, String> {
    let Some(dot) = first_record(file, root)? else { return Ok(None) };
    // The field says so itself, and comes first, possibly after bytes of another extension.
    let fields = Fields::read(file, &dot.system)?;
    let after_15 = dot.system.get(15..).map(|system| Fields::read(file, system));
    let skip = fields.skip.or(after_15.transpose()?.and_then(|fields| fields.skip));
    Ok(skip.filter(|_| fields.posix.is_some() || dot.system.len() >= 7))
}

/// The first record of a directory, which is that of the directory itself.
fn first_record(file: &ImageFile, directory: &Record) -> Result<Option<Record>, String> {
    Ok(records(file, directory, true)?.records.into_iter().next())
}

/// What a directory holds.
#[derive(Default)]
struct Records {
    records: Vec<Record>,
    /// Sectors in which something follows the last record.
    trailed_count: u64,
}

/// The records of a directory, or only the first of them.
fn records(file: &ImageFile, directory: &Record, only_first: bool) -> Result<Records, String> {
    if directory.len > DIRECTORY_LEN_MAX {
        return Err(format!("a directory of {} bytes: corrupt", directory.len));
    }
    let count = if only_first { 1 } else { directory.len.div_ceil(SECTOR_LEN) };
    let mut found = Records::default();
    for sector in directory.start..directory.start + count {
        let bytes = file.read(sector * SECTOR_LEN, SECTOR_LEN)?;
        let mut at = 0;
        // No record crosses the end of a sector; zeroes fill it.
        while let Some(&len) = bytes.get(at).filter(|len| **len != 0) {
            let end = at + usize::from(len);
            let record = bytes.get(at..end).and_then(Record::parse);
            let record = record.ok_or_else(|| {
                format!(
                    "the directory record at byte {} is corrupt",
                    sector * SECTOR_LEN + at as u64
                )
            })?;
            found.records.push(record);
            if only_first {
                return Ok(found);
            }
            at = end;
        }
        found.trailed_count += u64::from(bytes[at..].iter().any(|&byte| byte != 0));
    }
    Ok(found)
}

fn kind(item: &Item) -> Result<InodeKind, String> {
    let Some(posix) = item.fields.posix else {
        return Ok(match item.record.is_directory || item.fields.child.is_some() {
            true => InodeKind::Directory,
            false => InodeKind::File,
        });
    };
    let kind = InodeKind::from_mode(posix.mode)
        .ok_or_else(|| format!("an entry of mode {:o} is of no known kind", posix.mode))?;
    let is_directory = item.record.is_directory || item.fields.child.is_some();
    // The record of a directory that was moved is that of a file.
    match (kind == InodeKind::Directory) == is_directory {
        true => Ok(kind),
        false => Err("its record and its mode disagree on whether it is a directory".to_owned()),
    }
}

fn metadata(kind: InodeKind, record: &Record, fields: &Fields) -> Metadata {
    let posix = fields.posix;
    let usual = if kind == InodeKind::Directory { 0o555 } else { 0o444 };
    let is_device = matches!(kind, InodeKind::BlockDevice | InodeKind::CharDevice);
    let (major, minor) = match fields.device.filter(|_| is_device).unwrap_or_default() {
        // The standard has all of a device number of 32 bits in the second field.
        (0, low) if low > 0xff => (low >> 8 & 0xfff, low & 0xff | low >> 12 & 0xfff00),
        parts => parts,
    };
    Metadata {
        kind,
        permissions: match kind {
            InodeKind::Symlink => 0o777,
            _ => posix.map_or(usual, |posix| posix.mode & 0o7777),
        },
        uid: posix.map_or(0, |posix| posix.uid),
        gid: posix.map_or(0, |posix| posix.gid),
        mtime: fields.mtime.or(record.mtime).unwrap_or_default(),
        atime: fields.atime.unwrap_or_default(),
        ctime: shale_format::Timestamp::default(),
        btime: fields.btime.unwrap_or_default(),
        len: 0,
        device: if is_device { device_number(major, minor) } else { 0 },
    }
}

/// Parts of the image one after the other, the first of them last.
struct Joined(Vec<FileRange>);

impl Read for Joined {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(range) = self.0.last_mut() {
            match range.read(out)? {
                0 if !out.is_empty() => drop(self.0.pop()),
                len => return Ok(len),
            }
        }
        Ok(0)
    }
}

impl EntrySource for IsoSource {
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
        let mut warnings = Vec::new();
        let mut warn = |what: String| {
            warnings.push(format!("{}: {}", String::from_utf8_lossy(&self.name), fault(what)));
        };
        if self.has_udf {
            warn(
                "it also has a UDF file system, which may hold more files and was not read; 7z or \
                 mount -o loop reads it"
                    .to_owned(),
            );
        }
        if self.associated_count > 0 {
            warn(format!("{} resource forks of files were not packed", self.associated_count));
        }
        if self.trailed_count > 0 {
            warn(format!(
                "in {} sectors of directories something follows the last record and was not read",
                self.trailed_count
            ));
        }
        // Rules may leave out the place that a directory was moved from, with the record in it.
        if self.moved_count > self.child_count && self.select.is_none() {
            let lost = self.moved_count - self.child_count;
            warn(format!("{lost} directories that were moved have no place and were not packed"));
        }
        warnings
    }
}
