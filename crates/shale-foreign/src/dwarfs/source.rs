//! A DwarFS image as a source.
//!
//! Blocks are decompressed as they are needed and the last used held. Where all of them fit into
//! what is held, entries come in the order of paths, as a directory tree's would; else files come
//! in the order in which they lie, so that each block is decompressed about once. DwarFS keeps no
//! attributes.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use shale_codec::xxh3_64;
use shale_format::InodeKind;
use shale_format::inode::device_number;
use shale_format::limits::NAME_LEN_MAX;
use shale_model::{Content, LinkId, Metadata};
use shale_model::{EntrySource, Problem, Select, SourceEntry, SourceError};

use super::codec::decode;
use super::frozen::{Frozen, Schema};
use super::tables::{Chunk, Inode, Tables};
use super::thrift::structure;
use crate::error::ForeignError;
use crate::tree::{Blocks, ImageFile, Pieces, le, seed_of};

const FORMAT: &str = "DwarFS image";
const MAGIC: &[u8] = b"DWARFS";
/// Header of a section, and the shorter one of the first versions.
const HEADER_LEN: u64 = 64;
const OLD_HEADER_LEN: u64 = 8;
const BLOCK: u64 = 0;
const SCHEMA: u64 = 7;
const METADATA: u64 = 8;
/// Plain bytes of a block: DwarFS allows 2^30.
const BLOCK_LEN_MAX: u64 = 1 << 30;
/// Plain bytes of the metadata: at all, and for each byte of the image.
const METADATA_LEN_MAX: usize = 4 << 30;
const METADATA_RATIO_MAX: usize = 4096;
/// Decompressed blocks held.
const BLOCK_CACHE_LEN: u64 = 512 << 20;
/// Contents up to this length are held in memory at once.
const SMALL_LEN_MAX: u64 = 1 << 20;
/// Sections of an image.
const SECTION_COUNT_MAX: usize = 1 << 24;

/// A DwarFS image that is read.
pub struct DwarfsSource {
    name: Vec<u8>,
    shared: Arc<Shared>,
    seed: [u8; 32],
    root: Option<Inode>,
    /// Entries in the order in which they are yielded, the next one last.
    entries: Vec<Listed>,
}

struct Shared {
    file: ImageFile,
    tables: Tables,
    /// Sections of the blocks of data, by number.
    blocks: Vec<Section>,
    held: Blocks,
}

struct Listed {
    path: Vec<u8>,
    number: u64,
    inode: Inode,
}

/// A section: where its payload is.
#[derive(Debug, Clone, Copy)]
struct Section {
    kind: u64,
    compression: u64,
    start: u64,
    len: u64,
    /// Where what the sum is of begins, and the sum; the first version has none.
    sum: Option<(u64, u64)>,
}

impl std::fmt::Debug for DwarfsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DwarfsSource").field("left", &self.entries.len()).finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

/// Where an image begins in a file that begins with `head`: at its start or after a header, such
/// as a program. Whether the sections follow each other shows when it is opened.
pub fn find(head: &[u8]) -> Option<u64> {
    let at = head.windows(8).position(|bytes| &bytes[..6] == MAGIC && bytes[6] == 2)?;
    Some(at as u64)
}

impl DwarfsSource {
    /// Opens an image. `seed` are bytes that stand for the file, such as samples of it.
    ///
    /// # Errors
    /// The image is damaged, of an unsupported version, or cannot be read.
    pub fn new(
        name: &Path,
        file: ImageFile,
        seed: &[u8],
        select: Option<&dyn Select>,
    ) -> Result<Self, SourceError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let failed = |what: String| fault(what).into_source(&name);
        let sections = sections(&file).map_err(failed)?;
        let tables = tables(&file, &sections).map_err(failed)?;
        if !(1..=BLOCK_LEN_MAX).contains(&tables.block_len) {
            return Err(failed(format!("its blocks are of {} bytes", tables.block_len)));
        }
        let blocks: Vec<Section> = sections.into_iter().filter(|s| s.kind == BLOCK).collect();
        let held = Blocks::new(BLOCK_CACHE_LEN as usize);
        let root = tables.root_inode().map_err(failed)?;
        if root.kind().map_err(failed)? != InodeKind::Directory {
            return Err(failed("its root is not a directory".to_owned()));
        }
        let shared = Shared { file, tables, blocks, held };
        let mut entries = shared.list(select).map_err(failed)?;
        let plain_len = (shared.blocks.len() as u64).saturating_mul(shared.tables.block_len);
        if plain_len > BLOCK_CACHE_LEN {
            shared.order_by_place(&mut entries).map_err(failed)?;
        }
        entries.reverse();
        Ok(Self {
            seed: seed_of("dwarfs", seed),
            shared: Arc::new(shared),
            root: Some(root),
            entries,
            name,
        })
    }

    fn entry(&self, listed: Listed) -> Result<SourceEntry, ForeignError> {
        let Listed { path, number, inode } = listed;
        let fail = |what: String| fault(what).of(&path);
        let kind = inode.kind().map_err(fail)?;
        let tables = &self.shared.tables;
        let mut metadata = metadata(&inode, kind);
        let link = (kind != InodeKind::Directory && tables.tells_links)
            .then_some(LinkId { device: 0, inode: number });
        let (mut target, mut content) = (Vec::new(), Content::None);
        match kind {
            InodeKind::Symlink => target = tables.target(number).map_err(fail)?,
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let device = tables.device(number).map_err(fail)?;
                // As the C library of Linux packs it.
                let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
                let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
                metadata.device = device_number(major as u32, minor as u32);
            }
            InodeKind::File => {
                let chunks = tables.chunks_of(number).map_err(fail)?;
                let (len, holes) = self.shared.shape(chunks.clone()).map_err(fail)?;
                metadata.len = len;
                if len > 0 {
                    content = self.content(&path, chunks, len, holes)?;
                }
            }
            InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => {}
        }
        Ok(SourceEntry { path, metadata, xattrs: Arc::default(), link, target, content })
    }

    fn content(
        &self,
        path: &[u8],
        mut chunks: Range<u64>,
        len: u64,
        holes: Vec<Range<u64>>,
    ) -> Result<Content, ForeignError> {
        let shared = Arc::clone(&self.shared);
        let is_small = len <= SMALL_LEN_MAX && holes.is_empty();
        let path = path.to_vec();
        let next = move || {
            for index in chunks.by_ref() {
                let piece = shared.tables.chunk(index).and_then(|chunk| match chunk.is_hole {
                    true => Ok(None),
                    false => shared.bytes(&chunk).map(Some),
                });
                match piece {
                    Ok(None) => {}
                    Ok(Some(bytes)) if bytes.is_empty() => {}
                    Ok(bytes) => return Ok(bytes),
                    Err(what) => return Err(fault(what).of(&path)),
                }
            }
            Ok(None)
        };
        let mut reader = Pieces::new(next);
        if is_small {
            let mut bytes = vec![0; len as usize];
            let read = reader.read_exact(&mut bytes);
            read.map_err(|error| ForeignError::of_read(FORMAT, error))?;
            return Ok(Content::Bytes(bytes));
        }
        Ok(Content::Reader { reader: Box::new(reader), holes })
    }
}

impl Shared {
    /// All entries in the order of a walk: what a directory holds by name, files first.
    fn list(&self, select: Option<&dyn Select>) -> Result<Vec<Listed>, String> {
        let mut found = Vec::new();
        let mut waiting = vec![(Vec::new(), 0u64)];
        let mut left = self.tables.entry_count();
        while let Some((path, directory)) = waiting.pop() {
            let mut directories = Vec::new();
            for entry in self.tables.entries(directory)? {
                // The root is an entry of its own in old images; nothing else may come twice.
                left = left.checked_sub(1).ok_or("its directories lead in a circle")?;
                let (name, number, inode) = self.tables.entry(entry)?;
                if name.is_empty() || name.len() > NAME_LEN_MAX {
                    return Err(format!("a name of {} bytes", name.len()));
                }
                if name.contains(&b'/') || name.contains(&0) || name == b"." || name == b".." {
                    return Err(format!("the name `{}`", name.escape_ascii()));
                }
                let path = match &path[..] {
                    b"" => name,
                    path => [path, b"/", &name].concat(),
                };
                let kind = inode.kind()?;
                if select.is_some_and(|select| !select.takes(&path, kind)) {
                    continue;
                }
                if kind == InodeKind::Directory {
                    directories.push((path.clone(), number));
                }
                found.push(Listed { path, number, inode });
            }
            waiting.extend(directories.into_iter().rev());
        }
        Ok(found)
    }

    /// Files after all else, by the place of their first byte.
    fn order_by_place(&self, entries: &mut Vec<Listed>) -> Result<(), String> {
        let mut keyed = Vec::with_capacity(entries.len());
        for entry in entries.drain(..) {
            let mut key = (0, 0, 0);
            if entry.inode.kind()? == InodeKind::File {
                key.0 = 1;
                let mut chunks = self.tables.chunks_of(entry.number)?;
                if let Some(first) = chunks.next() {
                    let chunk = self.tables.chunk(first)?;
                    (key.1, key.2) = (chunk.block, chunk.offset);
                }
            }
            keyed.push((key, entry));
        }
        keyed.sort_by_key(|(key, _)| *key);
        entries.extend(keyed.into_iter().map(|(_, entry)| entry));
        Ok(())
    }

    /// Length and holes of a file.
    fn shape(&self, chunks: Range<u64>) -> Result<(u64, Vec<Range<u64>>), String> {
        let mut len = 0u64;
        let mut holes: Vec<Range<u64>> = Vec::new();
        for index in chunks {
            let chunk = self.tables.chunk(index)?;
            let end = len.checked_add(chunk.len).filter(|&len| len < 1 << 63);
            let end = end.ok_or("a file of more than 2^63 bytes")?;
            if chunk.is_hole && chunk.len > 0 {
                match holes.last_mut() {
                    Some(last) if last.end == len => last.end = end,
                    _ => holes.push(len..end),
                }
            }
            len = end;
        }
        Ok((len, holes))
    }

    /// The bytes of a chunk.
    fn bytes(&self, chunk: &Chunk) -> Result<Vec<u8>, String> {
        let section = usize::try_from(chunk.block).ok().and_then(|at| self.blocks.get(at));
        let section = *section.ok_or("a chunk of a block that is not there")?;
        let len_max = self.tables.block_len as usize;
        let block = self.held.get(chunk.block, || plain(&self.file, &section, len_max))?;
        let end = chunk.offset.checked_add(chunk.len);
        let range =
            usize::try_from(chunk.offset).ok().zip(end.and_then(|e| usize::try_from(e).ok()));
        let bytes = range.and_then(|(start, end)| block.get(start..end));
        Ok(bytes.ok_or("a chunk leads out of its block")?.to_vec())
    }
}

/// All sections, by their headers. An index is not needed, and not believed.
fn sections(file: &ImageFile) -> Result<Vec<Section>, String> {
    let head = file.read(0, 8.min(file.len()))?;
    if head.len() < 8 || &head[..6] != MAGIC || head[6] != 2 {
        return Err("it does not begin like one of version 2".to_owned());
    }
    let is_old = head[7] < 2;
    let mut sections = Vec::new();
    let mut at = if is_old { 8 } else { 0 };
    while at < file.len() {
        let section = if is_old { old_section(file, at) } else { section(file, at) }?;
        at = section.start.checked_add(section.len).filter(|&end| end <= file.len()).ok_or_else(
            || format!("the section at byte {at} leads beyond the end: it was cut or is damaged"),
        )?;
        sections.push(section);
        if sections.len() > SECTION_COUNT_MAX {
            return Err("it has more than 16 million sections".to_owned());
        }
    }
    Ok(sections)
}

/// Before 2.2 the magic bytes were at the beginning only, and no sums were kept.
fn old_section(file: &ImageFile, at: u64) -> Result<Section, String> {
    let head = file.read(at, OLD_HEADER_LEN)?;
    Ok(Section {
        kind: le(&head[..2]),
        compression: le(&head[2..4]),
        start: at + OLD_HEADER_LEN,
        len: le(&head[4..8]),
        sum: None,
    })
}

fn section(file: &ImageFile, at: u64) -> Result<Section, String> {
    let head = file.read(at, HEADER_LEN)?;
    if &head[..6] != MAGIC || head[6] != 2 {
        return Err(format!("at byte {at} should be a section: it was cut or is damaged"));
    }
    if head[7] > 5 {
        return Err(format!("version 2.{} is not known, only up to 2.5", head[7]));
    }
    Ok(Section {
        kind: le(&head[52..54]),
        compression: le(&head[54..56]),
        start: at + HEADER_LEN,
        len: le(&head[56..64]),
        sum: Some((at + 48, le(&head[40..48]))),
    })
}

/// The plain bytes of a section, after its sum was compared.
fn plain(file: &ImageFile, section: &Section, len_max: usize) -> Result<Vec<u8>, String> {
    let at = section.start;
    let bytes = match section.sum {
        None => file.read(section.start, section.len)?,
        Some((start, sum)) => {
            let mut bytes = file.read(start, section.start - start + section.len)?;
            if xxh3_64(&bytes) != sum {
                return Err(format!("the section at byte {at} is damaged: its sum is wrong"));
            }
            bytes.drain(..(section.start - start) as usize);
            bytes
        }
    };
    let plain = decode(section.compression, &bytes, len_max)
        .map_err(|what| format!("the section at byte {at}: {what}"))?;
    if plain.len() > len_max {
        return Err(format!("the section at byte {at} has {} bytes", plain.len()));
    }
    Ok(plain)
}

fn tables(file: &ImageFile, sections: &[Section]) -> Result<Tables, String> {
    let find = |kind: u64, what: &str| {
        let section = sections.iter().find(|section| section.kind == kind);
        let section = section.ok_or_else(|| format!("its {what} are missing: it was cut"))?;
        let len_max = (section.len as usize).saturating_mul(METADATA_RATIO_MAX);
        plain(file, section, len_max.clamp(1 << 20, METADATA_LEN_MAX))
    };
    let schema = find(SCHEMA, "descriptions of metadata")?;
    let schema = Schema::read(&structure(&schema)?.0)?;
    Tables::read(Frozen { schema, bytes: find(METADATA, "metadata")? })
}

fn metadata(inode: &Inode, kind: InodeKind) -> Metadata {
    Metadata {
        kind,
        permissions: if kind == InodeKind::Symlink { 0o777 } else { inode.mode & 0o7777 },
        uid: inode.uid,
        gid: inode.gid,
        mtime: inode.mtime,
        atime: inode.atime,
        ctime: inode.ctime,
        btime: inode.btime,
        len: 0,
        device: 0,
    }
}

impl EntrySource for DwarfsSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        if let Some(root) = self.root.take() {
            return Ok(Some(SourceEntry {
                path: Vec::new(),
                metadata: metadata(&root, InodeKind::Directory),
                xattrs: Arc::default(),
                link: None,
                target: Vec::new(),
                content: Content::None,
            }));
        }
        let Some(listed) = self.entries.pop() else { return Ok(None) };
        self.entry(listed).map(Some).map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}
